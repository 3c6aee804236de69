"""Logs on their way into the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from os import PathLike

from guarantor import _native
from guarantor._data import About, Log, LogData, as_stream, reporter
from guarantor._errors import LogError
from guarantor._options import LogOptions, stated
from guarantor.policy import text_of


def read_log(data: LogData, options: LogOptions, certificate: str | None = None) -> Log:
    """Read a log, however it is given. It may be the log of a certificate, which then says most about it."""
    features, rename = options.get("features") or [], options.get("rename") or {}
    logging_policy, report = options.get("logging_policy"), reporter(options.get("progress"))
    said = stated(options)
    if isinstance(data, Log):
        if said or features or rename or logging_policy or certificate:
            raise ValueError("the log was read already; its options belong to guarantor.read")
        return data
    about = About(json.dumps(said), text_of(logging_policy), certificate)
    paths = paths_of(data)
    if paths is None:
        if "format" in said:
            raise ValueError("format is for files; a data frame has its own")
        return Log(_native.Log.from_stream(as_stream(data), about, rename, features, report))
    if features or rename:
        raise ValueError("features and rename are for data frames; the columns of files have their names")
    try:
        return Log(_native.Log.from_files(paths, about, report))
    except LogError as error:
        if error.file is not None:
            error.file = paths[int(error.file)]
        raise


def paths_of(data: object) -> list[str] | None:
    """Return the names of files, if that is what the log is given as."""
    if isinstance(data, (str, PathLike)):
        return [os.fspath(data)]
    if isinstance(data, Sequence) and data and all(isinstance(path, (str, PathLike)) for path in data):
        return [os.fspath(path) for path in data]
    return None
