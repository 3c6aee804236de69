"""Data frames as Arrow IPC streams, with whatever is installed that can write them."""

from __future__ import annotations

import importlib
import io
import tempfile
from collections.abc import Iterator
from typing import Any

from guarantor.client.errors import EncodingUnavailable

_ROWS = 65_536
_CHUNK = 256 * 1024
# Beyond this, polars' stream goes to a temporary file.
_IN_MEMORY = 32 * 1024 * 1024


def optional(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def ipc_chunks(frame: object) -> Iterator[bytes]:
    """Return the Arrow IPC stream of a data frame, in chunks."""
    native = optional("guarantor._native")
    if native is not None and hasattr(native, "ipc_stream"):
        return iter(native.ipc_stream(frame))
    if (pyarrow := optional("pyarrow")) is not None:
        return _by_pyarrow(pyarrow, frame)
    if (polars := optional("polars")) is not None:
        return _by_polars(polars, frame)
    raise EncodingUnavailable(
        "this installation of guarantor has no native module, so pyarrow or polars must be installed to send "
        "a data frame; a file can be uploaded without them"
    )


def _by_pyarrow(pyarrow: Any, frame: object) -> Iterator[bytes]:
    """Batch by batch; a large batch is cut, so that a chunk is small."""
    reader = pyarrow.RecordBatchReader.from_stream(frame)
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            for start in range(0, batch.num_rows, _ROWS):
                writer.write_batch(batch.slice(start, _ROWS))
                yield _drained(sink)
    yield _drained(sink)


def _drained(sink: io.BytesIO) -> bytes:
    content = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return content


def _by_polars(polars: Any, frame: object) -> Iterator[bytes]:
    """Through a temporary file, because polars writes a stream in one go."""
    table: Any = frame if isinstance(frame, polars.DataFrame) else polars.DataFrame(frame)
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        table.write_ipc_stream(file, compat_level=polars.CompatLevel.oldest())
        file.seek(0)
        while chunk := file.read(_CHUNK):
            yield chunk
