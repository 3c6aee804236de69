"""A real local Spark: the same digest for every number of partitions, and nothing counted twice or left out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from native_support import request
from servers import Server

import guarantor
from guarantor import partials, tables
from guarantor.client import InvalidRequest

pyspark = pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, LEARN = 3000, 1000
OPTIONS: Any = {"outcome": "reward", "n_actions": 5, "min_improvement": 0.01}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("guarantor")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "America/New_York",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """The log of a policy that is retrained daily, with timestamps."""
    return pa.table(guarantor.simulate(rows=ROWS, seed=5, retrain=2))


@pytest.fixture(scope="module")
def df(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("spark") / "log.parquet")
    guarantor.simulate(rows=ROWS, seed=5, retrain=2, out=path)
    return spark.read.parquet(path).cache()


@pytest.fixture(scope="module")
def single(table: pa.Table) -> guarantor.Certificate:
    """The certificate of one process."""
    learn = table.sort_by("timestamp").slice(0, LEARN)
    recipe = partials.freeze(learn, planned_rows=ROWS - LEARN, **OPTIONS)
    return partials.merge(recipe, [partials.partial(table, recipe, "all")], expected_rows=ROWS)


@pytest.mark.parametrize("count", [1, 7, 40])
def test_the_digest_does_not_depend_on_partitions(
    df: DataFrame, single: guarantor.Certificate, count: int
) -> None:
    from guarantor import spark as on_spark

    certificate = on_spark.certify(df.repartition(count), learn_rows=LEARN, **OPTIONS)
    assert certificate.digest == single.digest
    assert certificate.decision == single.decision == "deploy"
    assert certificate.learned_policy == single.learned_policy
    assert certificate["merged"]["partials"]["count"] == count


def test_parquet_files_give_the_same_digest(
    spark: SparkSession, table: pa.Table, single: guarantor.Certificate, tmp_path: Path
) -> None:
    from guarantor import spark as on_spark

    for i in range(3):
        pq.write_table(table.slice(1000 * i, 1000), tmp_path / f"{i}.parquet", row_group_size=400)
    names = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    certificate = on_spark.certify(names, learn_rows=LEARN, **OPTIONS)
    assert certificate.digest == single.digest
    assert certificate["merged"]["partials"]["count"] == 3
    state = on_spark.certify(tables.Snapshot(names, "iceberg:3"), learn_rows=LEARN, **OPTIONS)
    assert state["merged"]["snapshot"] == "iceberg:3"


def test_what_was_learned_from_is_left_out_and_rows_are_counted(
    df: DataFrame, single: guarantor.Certificate
) -> None:
    from guarantor import spark as on_spark

    assert single["merged"]["frozen_on_rows"] == LEARN
    with pytest.raises(ValueError, match="merged from partials"):
        guarantor.verify(single, log=guarantor.simulate(rows=100))
    sums = on_spark.sum_up(df.repartition(5), learn_rows=LEARN, **OPTIONS)
    certificate = partials.merge(sums.recipe, sums.partials, expected_rows=sums.expected_rows)
    assert certificate.digest == single.digest
    with pytest.raises(guarantor.SpecError) as caught:
        partials.merge(sums.recipe, sums.partials[1:], expected_rows=sums.expected_rows)
    assert caught.value.code == "missing_rows"
    with pytest.raises(guarantor.SpecError) as caught:
        partials.merge(sums.recipe, [*sums.partials, sums.partials[0]])
    assert caught.value.code == "repeated_partial"
    other = partials.freeze(guarantor.simulate(rows=1000, seed=6), **OPTIONS)
    with pytest.raises(guarantor.SpecError) as caught:
        partials.merge(other, sums.partials)
    assert caught.value.code == "mixed_recipes"


def test_rows_that_are_in_two_partitions_are_found(table: pa.Table) -> None:
    learn = table.sort_by("timestamp").slice(0, LEARN)
    recipe = partials.freeze(learn, planned_rows=ROWS - LEARN, **OPTIONS)
    halves = [table.slice(0, 2000), table.slice(1500)]
    sums = [partials.partial(half, recipe, str(i)) for i, half in enumerate(halves)]
    with pytest.raises(guarantor.SpecError) as caught:
        partials.merge(recipe, sums)
    assert caught.value.code == "overlapping_partials"


def test_other_names_snapshots_and_candidates(df: DataFrame, single: guarantor.Certificate) -> None:
    from pyspark.sql import functions as F

    from guarantor import spark as on_spark

    named = df.withColumnsRenamed({"reward": "click", "timestamp": "at"})
    rename = {"click": "reward", "at": "timestamp"}
    certificate = on_spark.certify(named.repartition(3), learn_rows=LEARN, rename=rename, **OPTIONS)
    assert certificate.digest == single.digest
    of_snapshot = on_spark.certify(df, learn_rows=LEARN, snapshot="delta:7", **OPTIONS)
    assert of_snapshot["merged"]["snapshot"] == "delta:7"
    assert of_snapshot.digest != single.digest
    carried = df.withColumn("candidate.best", F.element_at("propensities", F.col("action").cast("int") + 1))
    evaluated = on_spark.evaluate(carried, "best", learn_rows=LEARN, independent_of_log=True, **OPTIONS)
    assert evaluated["candidates"][0]["candidate"] == "logged:best"
    assert evaluated.decision == "keep"


def test_without_times_the_log_must_be_fixed(df: DataFrame) -> None:
    from guarantor import spark as on_spark

    timeless = df.drop("timestamp", "policy_version")
    with pytest.raises(ValueError, match="timestamp"):
        on_spark.certify(timeless, learn_rows=LEARN, **OPTIONS)
    digests = {
        on_spark.certify(timeless.repartition(n), learn_rows=LEARN, logging="fixed", **OPTIONS).digest
        for n in (1, 6)
    }
    assert len(digests) == 1


def test_a_rejected_row_fails_with_its_reason(df: DataFrame) -> None:
    from pyspark.errors import PythonException
    from pyspark.sql import functions as F

    from guarantor import spark as on_spark

    last = df.agg(F.max("timestamp")).first()
    assert last is not None
    broken = df.withColumn(
        "reward", F.when(F.col("timestamp") == F.lit(last[0]), 7.0).otherwise(F.col("reward"))
    )
    with pytest.raises(PythonException, match="reward"):
        on_spark.certify(broken, learn_rows=LEARN, **OPTIONS)


def test_the_earliest_rows_are_learned_from(table: pa.Table, df: DataFrame) -> None:
    from guarantor import spark as on_spark

    sums = on_spark.sum_up(df, learn_rows=LEARN, **OPTIONS)
    last = sums.recipe.to_dict()["split"]["timestamp"]
    times = pc.cast(table["timestamp"], pa.int64()).to_pylist()
    assert last == sorted(times)[LEARN - 1]


def test_a_server_signs_the_same_certificate(df: DataFrame, single: guarantor.Certificate) -> None:
    from guarantor import spark as on_spark

    with Server() as running:
        url = running.url
        signed = on_spark.certify(df.repartition(3), learn_rows=LEARN, url=url, **OPTIONS)
        assert signed.digest == single.digest
        key = request(f"{url}/v1/certificates/key")["public_key"]
        assert guarantor.verify(signed, public_key=key).valid
        # Another look at the same rows is counted. A look at some of them is refused.
        again = on_spark.certify(df, learn_rows=LEARN, url=url, delta=0.2, **OPTIONS)
        assert [found.to_dict()["ledger"]["look"] for found in (signed, again)] == [1, 2]
        with pytest.raises(InvalidRequest) as caught:
            on_spark.certify(df, learn_rows=LEARN + 300, url=url, **OPTIONS)
        assert caught.value.code == "no_fresh_rows"
        sums = on_spark.sum_up(df.repartition(4), learn_rows=LEARN, **OPTIONS)
        with pytest.raises(InvalidRequest) as caught:
            partials.submit(sums.recipe, sums.partials[:-1], url=url, expected_rows=sums.expected_rows)
        assert caught.value.problem["reason"] == "missing_rows"
