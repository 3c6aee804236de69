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
from guarantor._parquet import Files, Group, files_of

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
        early = files.rows_until(until)
        assert early.num_rows == n
        assert pc.cast(early["timestamp"], pa.int64()).to_pylist() == times[:n]
    assert files.earliest(1)[1] == names[:1]
    sums = [
        _native.partial_file(piece.file, (piece.first, piece.last), recipe.to_json(), piece.name, {}, [])
        for piece in files.pieces()
    ]
    assert len(sums) == 3
    # Small files are read by one task.
    assert files.tasks(2) == [files.pieces()]
    whole = partials.merge(recipe, [partials.partial(table, recipe, "all")])
    assert partials.merge(recipe, sums, expected_rows=3000).digest == whole.digest
    with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
        _native.partial_file(tmp_path / "none.parquet", (0, 1), recipe.to_json(), "0", {}, [])
    assert files_of([*names, str(tmp_path / "none.parquet")], "timestamp") is None
    assert files_of(names, "at") is None


def test_rows_to_learn_from_are_in_the_order_of_their_times(tmp_path: Any) -> None:
    at = pa.array([40, 10, 30, 20, 60, 50], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": at, "n": [4, 1, 3, 2, 6, 5]}), tmp_path / "a.parquet", row_group_size=2)
    files = files_of([str(tmp_path / "a.parquet")], "at")
    assert files is not None
    for n in range(1, 7):
        assert files.rows_until(files.earliest(n)[0])["n"].to_pylist() == list(range(1, n + 1))
    # Spark orders rows of the same time.
    same = pa.table({"at": pa.array([10, 20, 20], pa.timestamp("us", "UTC")), "n": [1, 2, 3]})
    pq.write_table(same, tmp_path / "b.parquet")
    files = files_of([str(tmp_path / "b.parquet")], "at")
    assert files is not None
    assert files.rows_until(20) is None
    assert files.rows_until(10)["n"].to_pylist() == [1]


def test_tasks_are_few_and_have_every_piece_once() -> None:
    groups = [Group(i // 4, i % 4, 1_000_000, 0, 0) for i in range(64)]
    files = Files([str(i) for i in range(16)], groups, "at")
    assert len(files.pieces()) == 16
    for cores, count in [(2, 8), (4, 16), (1000, 16), (1, 4)]:
        tasks = files.tasks(cores)
        assert len(tasks) == count
        assert [piece for task in tasks for piece in task] == files.pieces()


def test_a_logging_policy_is_refused(table: pa.Table) -> None:
    with pytest.raises(ValueError, match="propensities in every row"):
        partials.freeze(table, logging_policy={"kind": "uniform", "n_actions": 5, "dim": 8}, **OPTIONS)
