"""Delta and Iceberg tables, written and read by their own libraries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import guarantor
from guarantor import partials, tables

ROWS, LEARN = 1200, 400


def log() -> pa.Table:
    """A log with the types that tables have: no unsigned integers, no lists of one length."""
    rows = pa.table(guarantor.simulate(rows=ROWS, seed=5, retrain=2))
    types = {"action": pa.int64(), "x": pa.list_(pa.float32()), "propensities": pa.list_(pa.float64())}
    fields = [pa.field(field.name, types.get(field.name, field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def certified(state: tables.Snapshot) -> guarantor.Certificate:
    """The certificate of the files of a state, one partition each."""
    learn = log().slice(0, LEARN)
    recipe = partials.freeze(learn, snapshot=state.snapshot, outcome="reward", n_actions=5)
    parts = [pq.read_table(file) for file in state.files]
    sums = [partials.partial(part, recipe, str(i)) for i, part in enumerate(parts)]
    return partials.merge(recipe, sums, expected_rows=sum(part.num_rows for part in parts))


def test_delta_files_are_those_of_one_version(tmp_path: Path) -> None:
    rows = log()
    deltalake.write_deltalake(str(tmp_path), rows.slice(0, 700))
    deltalake.write_deltalake(str(tmp_path), rows.slice(700), mode="append")
    now, before = (tables.delta(deltalake.DeltaTable(str(tmp_path), version=v)) for v in (1, 0))
    assert (now.snapshot, before.snapshot) == ("delta:1", "delta:0")
    assert set(before.files) < set(now.files)
    certificate = certified(now)
    assert certificate["merged"]["snapshot"] == "delta:1"
    assert certificate["dataset"]["rows"] == ROWS
    assert certified(before)["dataset"]["rows"] == 700
    # Rows that are not in the table any more are not in the files of its new version.
    deltalake.DeltaTable(str(tmp_path)).delete("action = 1")
    left = tables.delta(deltalake.DeltaTable(str(tmp_path)))
    assert sum(pq.read_table(file).num_rows for file in left.files) < ROWS


def test_iceberg_files_are_those_of_one_snapshot(tmp_path: Path) -> None:
    rows = log()
    catalog = SqlCatalog(
        "tests", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/tables"
    )
    catalog.create_namespace("log")
    table = catalog.create_table("log.decisions", schema=rows.schema)
    with pytest.raises(ValueError, match="empty"):
        tables.iceberg(table)
    table.append(rows.slice(0, 700))
    first = table.current_snapshot()
    assert first is not None
    table.append(rows.slice(700))
    now, before = tables.iceberg(table), tables.iceberg(table, first.snapshot_id)
    assert before.snapshot == f"iceberg:{first.snapshot_id}"
    assert set(before.files) < set(now.files)
    certificate = certified(now)
    assert certificate["merged"]["snapshot"] == now.snapshot
    assert certificate["dataset"]["rows"] == ROWS


def test_rows_that_are_marked_as_deleted_are_not_read() -> None:
    vectors = SimpleNamespace(protocol=lambda: SimpleNamespace(reader_features=["deletionVectors"]))
    with pytest.raises(ValueError, match="deletion vectors"):
        tables.delta(vectors)
    task = SimpleNamespace(delete_files=["deletes.parquet"])
    scan = SimpleNamespace(plan_files=lambda: [task])
    with pytest.raises(ValueError, match="delete files"):
        tables.iceberg(SimpleNamespace(scan=lambda snapshot_id: scan), 7)
