"""Candidates as callers have them: names, stored policies, parameters, or arrays of probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from guarantor.client._uploads import Body

Probabilities: TypeAlias = Any
"""One number per row, or K numbers per row: a list, a numpy array, a column of a data frame."""

_ROWS = 4096


def as_rows(name: str, values: Any) -> Sequence[Any]:
    """Return the rows of an array, as lists of Python numbers."""
    for method in ("tolist", "to_list"):
        if hasattr(values, method):
            values = getattr(values, method)()
            break
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise TypeError(
            f"candidate {name!r}: expected one number or one list of numbers per row, got {type(values)}"
        )
    rows: list[Any] = list(values)  # pyright: ignore[reportUnknownArgumentType]
    return [row.tolist() if hasattr(row, "tolist") else row for row in rows]


def candidate_rows(candidates: Mapping[str, Probabilities], event_ids: Any = None) -> Body:
    """Return the rows of `POST /v1/datasets/{id}/candidates`, as NDJSON."""
    columns = {name: as_rows(name, values) for name, values in candidates.items()}
    events = None if event_ids is None else as_rows("event_ids", event_ids)
    lengths = {name: len(rows) for name, rows in columns.items()}
    if events is not None:
        lengths["event_ids"] = len(events)
    if not columns:
        raise ValueError("there are no candidates")
    if len(set(lengths.values())) != 1:
        raise ValueError(f"candidates have different numbers of rows: {lengths}")
    kinds = {name: _member(name, rows) for name, rows in columns.items()}

    def chunks() -> Iterator[bytes]:
        lines: list[str] = []
        for i in range(next(iter(lengths.values()))):
            row: dict[str, Any] = {} if events is None else {"event_id": events[i]}
            for name, rows in columns.items():
                row.setdefault(kinds[name], {})[name] = rows[i]
            # NaN is not JSON: it must not be sent as a number.
            lines.append(json.dumps(row, allow_nan=False))
            if len(lines) == _ROWS:
                yield _joined(lines)
                lines = []
        if lines:
            yield _joined(lines)

    return Body(chunks)


def _joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _member(name: str, rows: Sequence[Any]) -> str:
    """Return the member of a row that carries this candidate."""
    if not rows:
        raise ValueError(f"candidate {name!r} has no rows")
    wide = {isinstance(row, (list, tuple)) for row in rows}
    if len(wide) != 1:
        raise ValueError(f"candidate {name!r} has rows with one number and rows with several")
    return "candidate_propensities" if wide.pop() else "candidates"
