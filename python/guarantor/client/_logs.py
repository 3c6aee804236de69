"""Logs as the verbs of the package take them: also arrays, several files, and other names of columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from guarantor._data import table
from guarantor.client._uploads import Log

Source: TypeAlias = Log | Mapping[str, Any] | Sequence[str | os.PathLike[str]]
"""A log, arrays by the names of their columns, or several files that are one log."""


def prepared(source: Source, features: Sequence[str] | None, rename: Mapping[str, str] | None) -> list[Log]:
    """Return the log in the parts in which it is uploaded."""
    if isinstance(source, Mapping) or features or rename:
        return [_table(source, features, rename)]
    if isinstance(source, Sequence) and not isinstance(source, (str, bytes, bytearray)):
        files = list(cast("Sequence[Any]", source))
        if not files or not all(isinstance(file, (str, os.PathLike)) for file in files):
            raise TypeError("a list is a log of several files: it has their names, and nothing else")
        return files
    return [source]


def _table(source: Any, features: Sequence[str] | None, rename: Mapping[str, str] | None) -> Log:
    if isinstance(source, (str, bytes, os.PathLike)):
        raise ValueError("features and rename are for data frames; the columns of files have their names")
    return table(source, features=features, rename=rename)


def event_ids(log: Any) -> Any:
    """Return the event ids of a data frame, if it has some: candidates are then matched by them."""
    names = getattr(log, "column_names", None)
    columns = getattr(log, "columns", None) if names is None else names
    try:
        return log["event_id"] if columns is not None and "event_id" in list(columns) else None
    except (TypeError, KeyError):
        return None
