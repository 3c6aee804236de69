"""Logs as users have them: data frames, arrays, files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from guarantor import _native

Table = _native.Table


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that speaks the Arrow PyCapsule protocol: pandas, polars, pyarrow, DuckDB relations."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a capsule with a stream of record batches."""
        ...


Path: TypeAlias = str | PathLike[str]


class Progress(NamedTuple):
    """How far a job has come.

    Attributes:
        phase: `reading`, `preparing`, `learning`, `certifying` or `done`.
        fraction: The share of the job that is done.
        epoch: The current epoch, in phases that have epochs.
        epochs: The number of epochs.
        bound: The best value of the bound so far.
    """

    phase: str
    fraction: float
    epoch: int | None
    epochs: int | None
    bound: float | None


ProgressCallback: TypeAlias = Callable[[Progress], object]


class Column(NamedTuple):
    """A column of arrays, for the native module."""

    name: str
    what: str
    values: Any


@dataclass(frozen=True)
class About:
    """What is said about a log besides its rows, for the native module."""

    options: str
    logging_policy: str | None = None
    certificate: str | None = None


class Log:
    """A log in memory that was read and checked once, for several jobs. `guarantor.read` makes it."""

    def __init__(self, native: _native.Log) -> None:
        self._native = native
        self._about: dict[str, Any] = json.loads(native.describe())

    @property
    def digest(self) -> str:
        """The digest of the rows."""
        return str(self._about["digest"])

    def to_dict(self) -> dict[str, Any]:
        """Return what is known about the log, as `guarantor inspect --json` prints it."""
        return deepcopy(self._about)

    def __len__(self) -> int:
        return int(self._about["rows"])

    def __repr__(self) -> str:
        about = self._about
        return f"Log({about['rows']} rows, {about['n_actions']} actions, {about['dim']} features)"


LogData: TypeAlias = ArrowStream | Mapping[str, npt.ArrayLike] | Path | Sequence[Path] | Log


def reporter(progress: ProgressCallback | None) -> Callable[..., None] | None:
    """Return a function for the native module that passes progress on."""
    if progress is None:
        return None

    def report(*fields: Any) -> None:
        progress(Progress(*fields))

    return report


def as_stream(data: object) -> ArrowStream:
    """Return the data as something with `__arrow_c_stream__`.

    Raises:
        TypeError: It is neither a data frame nor a mapping of arrays.
    """
    if isinstance(data, ArrowStream):
        # pandas has the method, but needs pyarrow for it.
        if type(data).__module__.partition(".")[0] == "pandas" and not _has_pyarrow():
            return _native.Table.from_columns(columns_of({str(name): data[name] for name in data}))  # type: ignore[attr-defined, index]  # pyright: ignore
        return data
    if isinstance(data, Mapping):
        return _native.Table.from_columns(columns_of(data))
    raise TypeError(
        f"cannot read a log from {type(data).__name__}; pass a data frame (pandas, polars, pyarrow, DuckDB), a mapping "
        "of column names to arrays, or names of files"
    )


def _has_pyarrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def columns_of(data: Mapping[Any, Any]) -> list[Column]:
    """Return arrays as columns, which have one length.

    Raises:
        TypeError: An array is neither of numbers nor of texts.
        ValueError: Their lengths differ.
    """
    columns = [_column(str(name), values) for name, values in data.items()]
    lengths = {column.name: len(column.values) for column in columns}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the arrays have different lengths: {lengths}")
    return columns


def _column(name: str, values: Any) -> Column:
    array = np.asarray(values)
    if array.dtype == object and array.ndim == 1:
        array = _unboxed(array)
    match array.dtype.kind:
        case "b":
            return Column(name, "bool", array.tolist())
        case "i" | "u" | "f" if array.dtype.itemsize <= 8 and array.dtype != np.float16:
            native = array.dtype.newbyteorder("=")
            return Column(name, "number", np.ascontiguousarray(array, dtype=native))
        case "f":
            return Column(name, "number", np.ascontiguousarray(array, dtype=np.float64))
        case "M":
            return Column(name, "time", array.astype("datetime64[us]").astype(np.int64))
        case "U":
            return Column(name, "text", array.tolist())
        case "O":
            return Column(name, "text", [None if value is None else str(value) for value in array])
        case kind:
            raise TypeError(
                f"the column {name!r} has the type {array.dtype}, of the kind {kind!r}; pass numbers or texts"
            )


def _unboxed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Turn an array of lists into a matrix, and one of numbers into numbers. Texts and lists of other lengths stay."""
    if len(array) == 0 or isinstance(array[0], str):
        return array
    try:
        plain = np.asarray(array.tolist())
        return plain if plain.dtype.kind in "biuf" else plain.astype(np.float64)
    except (TypeError, ValueError):
        if isinstance(array[0], (list, tuple, np.ndarray, Mapping)):
            message = "lists of different lengths and nested values need a data frame: use polars, pyarrow or a file"
            raise TypeError(message) from None
        return array


def table(
    data: ArrowStream | Mapping[str, npt.ArrayLike],
    *,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
) -> Table:
    """Return a data frame, or arrays, as a table whose columns are those of a log.

    The result speaks the Arrow PyCapsule protocol: `certify` and `Client` take it, and `pyarrow.table`, `polars.DataFrame`
    and DuckDB read it. Columns that need no change are not copied. Do not write to arrays while a table shares them.

    Args:
        data: A data frame, or a mapping of column names to arrays. An array of two dimensions is a column of lists.
        features: The columns that are, in this order, the numbers of `x`.
        rename: The field of a log that each of these columns is, such as `{"item": "action", "click": "reward"}`.

    Example:
        >>> import guarantor, numpy as np
        >>> rows = {"age": np.array([0.3, 0.5]), "item": np.array([1, 0]), "click": np.array([0.0, 1.0])}
        >>> guarantor.table(rows, features=["age"], rename={"item": "action", "click": "reward"}).column_names
        ['action', 'reward', 'x']
    """
    return _native.Table.from_stream(as_stream(data), rename or {}, features or [])
