"""What is sent for each kind of log, in chunks and repeatably."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from logs import ndjson, rows

from guarantor.client._candidates import candidate_rows
from guarantor.client._logs import event_ids, prepared
from guarantor.client._uploads import CHUNK, upload_of

ROWS = rows(20)


def sent(log: Any, form: str | None = None) -> bytes:
    return b"".join(upload_of(log, form).body.chunks())


@pytest.mark.parametrize(
    ("name", "content_type", "encoding"),
    [
        ("log.ndjson", "application/x-ndjson", None),
        ("log.JSONL", "application/x-ndjson", None),
        ("2026.01.csv", "text/csv", None),
        ("log.parquet", "application/vnd.apache.parquet", None),
        ("log.arrows", "application/vnd.apache.arrow.stream", None),
        ("log.ndjson.gz", "application/x-ndjson", "gzip"),
        ("log.csv.zst", "text/csv", "zstd"),
    ],
)
def test_the_name_of_a_file_implies_its_type(
    tmp_path: Path, name: str, content_type: str, encoding: str | None
) -> None:
    path = tmp_path / name
    path.write_bytes(b"content")
    upload = upload_of(path, None)
    assert (upload.content_type, upload.encoding, upload.params) == (content_type, encoding, {})
    assert (upload.body.length, upload.body.replayable) == (7, True)
    assert b"".join(upload.body.chunks()) == b"".join(upload.body.chunks()) == b"content"


def test_formats_that_a_type_does_not_imply_are_named(tmp_path: Path) -> None:
    for name, form, expected in [
        ("a.dsjson", None, "dsjson"),
        ("a.csv", "obd", "obd"),
        ("a.txt", "obd", "obd"),
    ]:
        (tmp_path / name).write_bytes(b"x")
        assert upload_of(tmp_path / name, form).params == {"format": expected}
    with pytest.raises(ValueError, match="does not imply a format"):
        upload_of(tmp_path / "a.txt", None)
    with pytest.raises(ValueError, match="unknown format"):
        upload_of(b"x", "xml")
    with pytest.raises(ValueError, match="state the format"):
        upload_of(b"x", None)


def test_a_file_is_read_in_chunks_and_only_as_far_as_it_was_long(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_bytes(b"a" * (2 * CHUNK + 1))
    upload = upload_of(path, None)
    with path.open("ab") as file:
        file.write(b"logged meanwhile")
    assert [len(chunk) for chunk in upload.body.chunks()] == [CHUNK, CHUNK, 1]
    path.write_bytes(b"short")
    with pytest.raises(OSError, match="became shorter"):
        list(upload.body.chunks())


def test_open_files_are_sent_from_where_they_are() -> None:
    file = io.BytesIO(b"skipped,sent")
    file.seek(8)
    upload = upload_of(file, "csv")
    assert upload.body.replayable
    assert b"".join(upload.body.chunks()) == b"".join(upload.body.chunks()) == b"sent"
    with pytest.raises(TypeError, match="open it with mode 'rb'"):
        sent(io.StringIO("text"), "csv")
    once = upload_of(iter([b"a", b"b"]), "csv")
    assert not once.body.replayable
    assert b"".join(once.body.chunks()) == b"ab"


def frames() -> Iterator[Any]:
    yield pd.DataFrame(ROWS)
    yield pl.DataFrame(ROWS)
    yield pa.Table.from_pylist(ROWS)


@pytest.mark.parametrize("frame", list(frames()), ids=["pandas", "polars", "pyarrow"])
def test_data_frames_are_arrow_streams(frame: Any) -> None:
    upload = upload_of(frame, None)
    assert upload.body.replayable
    first, second = sent(frame), sent(frame)
    assert first == second, "a repeated upload must have the same bytes"
    read = pa.ipc.open_stream(first).read_all()
    assert read.num_rows == 20
    assert read["action"].to_pylist() == [row["action"] for row in ROWS]
    with pytest.raises(ValueError, match="Arrow stream"):
        upload_of(frame, "csv")


def test_a_large_frame_is_sent_in_small_batches() -> None:
    frame = pa.table({"action": pa.array(range(150_000), pa.int32())}).combine_chunks()
    chunks = list(upload_of(frame, None).body.chunks())
    assert len(chunks) == 4, "three batches, and the end of the stream"
    assert pa.ipc.open_stream(b"".join(chunks)).read_all() == frame


def test_a_reader_is_sent_once() -> None:
    upload = upload_of(pa.Table.from_pylist(ROWS).to_reader(), None)
    assert not upload.body.replayable
    assert pa.ipc.open_stream(b"".join(upload.body.chunks())).read_all().num_rows == 20


def test_data_frames_and_arrays_need_no_pyarrow() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import pandas as pd, polars as pl
from guarantor.client._logs import prepared
from guarantor.client._uploads import upload_of
columns = {"action": [0, 1, 1], "cost": [0.0, -0.5, -1.0]}
for log in [columns, pd.DataFrame(columns), pl.DataFrame(columns)]:
    [part] = prepared(log, None, None)
    print(b"".join(upload_of(part, None).body.chunks()).hex())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for line in done.stdout.split():
        assert pa.ipc.open_stream(bytes.fromhex(line)).read_all()["cost"].to_pylist() == [0.0, -0.5, -1.0]


def test_an_exception_of_a_frame_is_an_error() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"action": [1]})
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"action": pa.int64()}), batches())
    with pytest.raises(ValueError, match="the disk is gone"):
        sent(reader)


def test_other_objects_are_rejected() -> None:
    with pytest.raises(TypeError, match="not int"):
        upload_of(7, None)  # type: ignore[arg-type]


def test_candidates_are_one_line_per_row() -> None:
    body = b"".join(
        candidate_rows({"a": [0.5, 1], "b": pd.Series([[0.1, 0.9], [1, 0]])}, ["e1", "e2"]).chunks()
    )
    assert body.decode().splitlines() == [
        '{"event_id": "e1", "candidates": {"a": 0.5}, "candidate_propensities": {"b": [0.1, 0.9]}}',
        '{"event_id": "e2", "candidates": {"a": 1}, "candidate_propensities": {"b": [1, 0]}}',
    ]
    wrong: Any
    for wrong, message in [
        ({}, "no candidates"),
        ({"a": []}, "no rows"),
        ({"a": [0.5], "b": [0.5, 0.5]}, "different numbers of rows"),
        ({"a": [0.5, [0.5]]}, "rows with one number"),
    ]:
        with pytest.raises(ValueError, match=message):
            candidate_rows(wrong)
    with pytest.raises(ValueError, match="Out of range float"):
        list(candidate_rows({"a": [float("nan")]}).chunks())


def test_event_ids_are_found_in_frames() -> None:
    columns = {"event_id": ["a", "b"], "action": [0, 1]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert list(map(str, event_ids(frame))) == ["a", "b"]
    assert event_ids(pd.DataFrame({"action": [0]})) is None
    assert event_ids("log.ndjson") is None


def test_a_list_is_a_log_of_several_files() -> None:
    files: list[str | os.PathLike[str]] = ["a.csv", Path("b.csv")]
    assert prepared(files, None, None) == files
    with pytest.raises(TypeError, match="several files"):
        prepared(cast("Any", [b"a"]), None, None)
    with pytest.raises(ValueError, match="for data frames"):
        prepared("a.csv", ["age"], None)


def test_compressed_files_are_sent_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson.gz"
    path.write_bytes(gzip.compress(ndjson(3)))
    assert gzip.decompress(sent(path)) == ndjson(3)
