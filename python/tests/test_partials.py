"""Partials of data frames: whole columns at once, or row by row where something is unusual, with the same sums."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import guarantor
from guarantor import _native, partials
from guarantor._parquet import files_of

OPTIONS: Any = {"outcome": "reward", "n_actions": 5}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(guarantor.simulate(rows=3000, seed=5, retrain=2))


@pytest.fixture(scope="module")
def recipe(table: pa.Table) -> partials.Recipe:
    return partials.freeze(table.slice(0, 1000), planned_rows=2000, **OPTIONS)


def with_ids(table: pa.Table) -> pa.Table:
    """The same rows with ids, which are compared row by row."""
    return table.append_column("event_id", pa.array([f"e{i}" for i in range(table.num_rows)]))


def reader(table: pa.Table, rows: int = 700) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows))


def test_columns_and_rows_give_the_same_partial(table: pa.Table, recipe: partials.Recipe) -> None:
    slow = partials.partial(with_ids(table), recipe, "all")
    for rows in (700, 3000):
        assert json.loads(partials.partial(reader(table, rows), recipe, "all")) == json.loads(slow)
    # A candidate that rows carry, without π0(·|x).
    played = [
        p[a] for p, a in zip(table["propensities"].to_pylist(), table["action"].to_pylist(), strict=True)
    ]
    logged = table.drop_columns(["propensities"]).append_column("propensity", pa.array(played))
    carried = logged.append_column("candidate.same", pa.array(played))
    spec: Any = {"kind": "evaluate", "candidates": [{"kind": "logged", "name": "same"}]}
    of_rows = partials.freeze(carried.slice(0, 1000), spec=spec, independent_of_log=True, **OPTIONS)
    slow = partials.partial(with_ids(carried), of_rows, "all")
    assert json.loads(partials.partial(reader(carried), of_rows, "all")) == json.loads(slow)


def changed(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(values, table.schema.field(column).type))


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("reward", 7.0, "reward"),
        ("action", 5, "action"),
        ("reward", None, "reward"),
        ("x", [float("nan")] * 8, "x[0]"),
        ("propensities", [0.5, 0.5, 0.5, 0.0, 0.0], "propensities"),
        ("timestamp", None, "timestamp"),
    ],
)
def test_a_wrong_row_is_named(
    table: pa.Table, recipe: partials.Recipe, column: str, value: Any, field: str
) -> None:
    wrong = changed(table, column, 1499, value)
    with pytest.raises(guarantor.LogError) as caught:
        partials.partial(reader(wrong), recipe, "all")
    assert [(row.row, row.field) for row in caught.value.rows] == [(1500, field)]


def test_rows_that_were_sent_twice_are_found(table: pa.Table, recipe: partials.Recipe) -> None:
    twice = pa.concat_tables([table, table.slice(1200, 400)])
    with pytest.raises(guarantor.LogError, match="repeat"):
        partials.partial(reader(twice), recipe, "all")


def test_row_groups_of_files_are_the_rows(table: pa.Table, recipe: partials.Recipe, tmp_path: Any) -> None:
    for i in range(3):
        path = tmp_path / f"{i}.parquet"
        extra = table.slice(1000 * i, 1000).append_column("note", pa.array(["n"] * 1000))
        pq.write_table(extra, path, row_group_size=300)
    names = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    files = files_of(names, "timestamp")
    assert files is not None
    assert files.rows == 3000
    times = sorted(pc.cast(table["timestamp"], pa.int64()).to_pylist())
    for n in (1, 1000, 2500):
        until, holders = files.earliest(n)
        assert until == times[n - 1]
        assert sum(pq.read_metadata(name).num_rows for name in holders) >= n
    assert files.earliest(1)[1] == names[:1]
    sums = [
        _native.partial_file(task.file, (task.first, task.last), recipe.to_json(), task.name, {}, [])
        for task in files.tasks()
    ]
    assert len(sums) == 3
    whole = partials.merge(recipe, [partials.partial(table, recipe, "all")])
    assert partials.merge(recipe, sums, expected_rows=3000).digest == whole.digest
    with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
        _native.partial_file(tmp_path / "none.parquet", (0, 1), recipe.to_json(), "0", {}, [])
    assert files_of([*names, str(tmp_path / "none.parquet")], "timestamp") is None
    assert files_of(names, "at") is None


def test_a_logging_policy_is_refused(table: pa.Table) -> None:
    with pytest.raises(ValueError, match="propensities in every row"):
        partials.freeze(table, logging_policy={"kind": "uniform", "n_actions": 5, "dim": 8}, **OPTIONS)
