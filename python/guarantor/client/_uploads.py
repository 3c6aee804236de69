"""Logs on their way to the server: files, bytes and data frames, in chunks and never as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from guarantor import _native
from guarantor._data import ArrowStream, as_stream

CHUNK = 256 * 1024


Log: TypeAlias = ArrowStream | str | os.PathLike[str] | bytes | IO[bytes] | Iterable[bytes]
"""A log: a data frame, the path of a file, the content of a file, or an open file."""

_TYPES = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow_stream": "application/vnd.apache.arrow.stream",
    "dsjson": "application/x-ndjson",
    "obd": "text/csv",
}
_SUFFIXES = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow_stream",
    ".arrows": "arrow_stream",
    ".dsjson": "dsjson",
}
_ENCODINGS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class Body:
    """The bytes of a request, which are made while they are sent."""

    chunks: Callable[[], Iterator[bytes]]
    length: int | None = None
    """The number of bytes, if it is known in advance."""
    replayable: bool = True
    """Whether the same bytes can be made a second time."""


@dataclass(frozen=True)
class Upload:
    """A log as it is sent."""

    body: Body
    content_type: str
    encoding: str | None
    format: str | None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that describe the body."""
        encoding = {"content-encoding": self.encoding} if self.encoding else {}
        return {"content-type": self.content_type, **encoding}

    @property
    def params(self) -> dict[str, str]:
        """The format, if the content type does not imply it."""
        return {"format": self.format} if self.format in ("dsjson", "obd") else {}


def upload_of(log: Log | Body, format: str | None) -> Upload:  # noqa: A002 - as the API names it
    """Return the body for a log."""
    if isinstance(log, Body):
        return _stated(log, format)
    if isinstance(log, (str, os.PathLike)):
        return _file(Path(log), format)
    if isinstance(log, (bytes, bytearray, memoryview)):
        content = bytes(log)
        return _stated(Body(lambda: iter([content] if content else []), len(content)), format)
    if isinstance(log, ArrowStream):
        if format not in (None, "arrow_stream"):
            raise ValueError(f"format={format!r} is for files; a data frame is sent as an Arrow stream")
        # What has no length is read once, such as a RecordBatchReader.
        frame = Body(lambda: iter(_native.ipc_stream(as_stream(log))), replayable=hasattr(log, "__len__"))
        return Upload(frame, _TYPES["arrow_stream"], None, "arrow_stream")
    if hasattr(log, "read"):
        return _stated(_open_file(log), format)
    if isinstance(log, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        chunks = iter(log)
        return _stated(Body(lambda: chunks, replayable=False), format)
    raise TypeError(
        "a log is a data frame with __arrow_c_stream__ (pandas, polars, pyarrow, DuckDB), a path, bytes, or "
        f"an open binary file, not {type(log).__name__}"
    )


def _stated(body: Body, format: str | None, encoding: str | None = None) -> Upload:  # noqa: A002
    if format is None:
        raise ValueError(f"state the format of the log: format= one of {', '.join(_TYPES)}")
    if format not in _TYPES:
        raise ValueError(f"unknown format {format!r}; the formats are {', '.join(_TYPES)}")
    return Upload(body, _TYPES[format], encoding, format)


def _file(path: Path, format: str | None) -> Upload:  # noqa: A002
    """Return a file, whose name implies what is not stated."""
    if path.parts[:1] in (("s3:",), ("file:",)):
        raise ValueError(f"{path} is an address; the server reads it with client.datasets.create_from")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    encoding = _ENCODINGS.get(suffixes[-1]) if suffixes else None
    rest = suffixes[:-1] if encoding else suffixes
    named = _SUFFIXES.get(rest[-1]) if rest else None
    size = path.stat().st_size
    if format is None and named is None:
        raise ValueError(
            f"{path}: the name does not imply a format; state format= one of {', '.join(_TYPES)}"
        )
    return _stated(Body(lambda: _read(path, size), size), format or named, encoding)


def _read(path: Path, size: int) -> Iterator[bytes]:
    """Return the first `size` bytes of a file: rows that are logged meanwhile wait for the next upload."""
    left = size
    with path.open("rb") as file:
        while left > 0:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                raise OSError(f"{path} became shorter while it was uploaded; nothing was stored")
            left -= len(chunk)
            yield chunk


def _open_file(file: Any) -> Body:
    """Return an open file, from where it is."""
    seekable = bool(getattr(file, "seekable", lambda: False)())
    start = file.tell() if seekable else None

    def chunks() -> Iterator[bytes]:
        if start is not None:
            file.seek(start)
        while chunk := file.read(CHUNK):
            if not isinstance(chunk, bytes):
                raise TypeError("the log is open as text; open it with mode 'rb'")
            yield chunk

    return Body(chunks, replayable=seekable)
