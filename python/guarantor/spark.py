"""Certificates of Spark data frames.

The earliest part of the log is learned from on the driver, the executors sum over the other rows (`mapInArrow`), and the
driver merges the sums. The certificate has the same digest for every number of partitions, and for a single process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

from guarantor import _native, partials
from guarantor._options import RunOptions
from guarantor._parquet import Files, Piece, files_of
from guarantor.policy import Policy
from guarantor.tables import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from guarantor._results import Certificate

# Random samples of a fixed log are drawn by a hash of the row, out of this many classes.
_CLASSES = 1_000_000
_NO_TIMES = (
    "the rows have no column {!r}, so which of them are the earliest is not known; add it, pass the rows to learn from as "
    'learn, or state logging="fixed" if one policy logged every row'
)


class Sums(NamedTuple):
    """What Spark has summed up, for `partials.merge` or for a server.

    Attributes:
        recipe: The recipe of all partials.
        partials: One per partition that has rows.
        expected_rows: The number of rows that they must have together.
    """

    recipe: partials.Recipe
    partials: list[str]
    expected_rows: int


class SumOptions(RunOptions, total=False):
    """How Spark sums up a log.

    Attributes:
        learn: The rows to learn from, if they are not in the log.
        learn_rows: How many rows to learn from, at most half of them; 100 000 by default. They are the earliest ones, so
            rows need a `timestamp`; only if you state `logging="fixed"` can they be a random sample instead.
        snapshot: The snapshot of the table that the log is read from. The certificate names it.
    """

    learn: DataFrame | None
    learn_rows: int
    snapshot: str | None


Log: TypeAlias = "DataFrame | Snapshot | Sequence[str]"
"""A data frame of Spark, or Parquet files: their names, or the files of one state of a Delta or Iceberg table."""


def certify(
    log: Log, *, url: str | None = None, key: str | None = None, **options: Unpack[SumOptions]
) -> Certificate:
    """Learn a policy on the earliest part of a log, and certify it on all other rows.

    Args:
        log: A data frame, or Parquet files. Files that every executor can open by their names are read by the native
            code, several times faster than through a data frame. Columns are the fields of a log, or become them by
            `features` and `rename`.
        url: A server. It merges the sums, signs the certificate and enters it in its ledger; without one, the
            certificate is made here and not signed.
        key: The API key of that server.
        **options: As for `guarantor.certify`, with one candidate at most; and `learn`, `learn_rows` and `snapshot`, see
            `SumOptions`.
    """
    sums = sum_up(log, **options)
    if url is None:
        return partials.merge(sums.recipe, sums.partials, expected_rows=sums.expected_rows)
    return partials.submit(sums.recipe, sums.partials, url=url, key=key, expected_rows=sums.expected_rows)


def evaluate(log: Log, candidate: str | Policy, **keywords: Any) -> Certificate:
    """Certify a candidate that exists already: the name of one that the rows carry, or a policy.

    The other arguments are those of `certify`. `independent_of_log=True` is your statement that the candidate was not
    learned from these rows.
    """
    spec: dict[str, Any] = dict(keywords.pop("spec", None) or {})
    if isinstance(candidate, str):
        spec |= {"kind": "evaluate", "candidates": [{"kind": "logged", "name": candidate}]}
        return certify(log, spec=spec, **keywords)
    spec |= {"kind": "evaluate", "candidates": [{"kind": "policy", "policy_id": candidate.id}]}
    return certify(log, spec=spec, policies={candidate.id: candidate}, **keywords)


def sum_up(log: Log, **options: Unpack[SumOptions]) -> Sums:
    """Freeze a recipe, and sum over the partitions. The arguments are those of `certify`."""
    if isinstance(log, Snapshot):
        options = {"snapshot": log.snapshot, **options}
    elif not isinstance(log, Sequence):
        return _sum_frame(log, options)
    names = log.files if isinstance(log, Snapshot) else list(log)
    files = files_of(names, _column("timestamp", options.get("rename") or {}))
    if files is not None:
        return _sum_files(files, options)
    return _sum_frame(_session().read.parquet(*names), options)


def _sum_frame(df: DataFrame, options: SumOptions) -> Sums:
    """Sum over the partitions of a data frame."""
    total, learn, rename = df.count(), options.get("learn"), options.get("rename") or {}
    time = _column("timestamp", rename)
    by_time = learn is None and time in df.columns
    if learn is None:
        if not by_time and options.get("logging") != "fixed":
            raise ValueError(_NO_TIMES.format(time))
        n = _learn_rows(options, total)
        learn, df = _earliest(df, time, n) if by_time else _sampled(df, n, total)
    # Rows that were learned from by time are still in the partitions, which leave them out.
    expected = total if by_time else df.count()
    frame = _ordered(learn, time if by_time else None).toArrow()
    recipe = _freeze(frame, total - frame.num_rows if by_time else expected, options)
    # Columns that no field is named after stay where they are. Spark takes dots in names for members of a struct, so
    # the others get plain names for a moment.
    features = options.get("features") or []
    fields = {column: rename.get(column, column) for column in df.columns}
    read = set(_native.columns_read(recipe.to_json(), list(fields.values())))
    needed = [column for column in df.columns if column in features or fields[column] in read]
    plain = {column: f"c{i}" for i, column in enumerate(needed)}
    renamed = {
        plain[column]: fields[column] for column in needed if column not in features or column in rename
    }
    function = _partition(recipe.to_json(), renamed, [plain[column] for column in features])
    chosen = df.select(*map(_quoted, needed)).toDF(*plain.values())
    summed = chosen.mapInArrow(function, "partition string, partial string")
    return Sums(recipe, [row["partial"] for row in summed.collect()], expected)


def _sum_files(files: Files, options: SumOptions) -> Sums:
    """Sum over Parquet files, whose row groups the executors read."""
    learn, rename, spark = options.get("learn"), options.get("rename") or {}, _session()
    if learn is None:
        until, names = files.earliest(_learn_rows(options, files.rows))
        frame = files.rows_until(until)
        if frame is None:
            earliest = spark.read.parquet(*names)
            earliest = earliest.where(_ticks(earliest, files.time) <= until)
            frame = _ordered(earliest, files.time).toArrow()
        recipe = _freeze(frame, files.rows - frame.num_rows, options)
    else:
        recipe = _freeze(_ordered(learn, None).toArrow(), files.rows, options)
    tasks = files.tasks(_cores(spark))
    function = _file_partition(recipe.to_json(), tasks, dict(rename), list(options.get("features") or []))
    ids = spark.range(0, len(tasks), 1, len(tasks))
    summed = ids.mapInArrow(function, "partition string, partial string")
    return Sums(recipe, [row["partial"] for row in summed.collect()], files.rows)


def _freeze(frame: Any, planned: int, options: SumOptions) -> partials.Recipe:
    given: Any = {k: v for k, v in options.items() if k not in ("learn", "learn_rows", "snapshot")}
    return partials.freeze(frame, planned_rows=planned or None, snapshot=options.get("snapshot"), **given)


def _learn_rows(options: SumOptions, total: int) -> int:
    return min(options.get("learn_rows", 100_000), total // 2)


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _cores(spark: SparkSession) -> int:
    """Return how many tasks run at once, or a large number if it is not known."""
    try:
        return max(spark.sparkContext.defaultParallelism, 1)
    except Exception:  # Spark Connect has no context, and says so with an error of its own.
        return 1 << 20


def _column(field: str, rename: Mapping[str, str]) -> str:
    """Return the column of the data frame that is this field of a log."""
    return next((column for column, name in rename.items() if name == field), field)


def _quoted(column: str) -> str:
    """Return the name of a column for Spark, which takes dots in it, as in `candidate.NAME`, for members of a struct."""
    return "`" + column.replace("`", "``") + "`"


def _earliest(df: DataFrame, time: str, n: int) -> tuple[DataFrame, DataFrame]:
    """Return the rows up to the time of the n-th earliest one, and all rows: the recipe leaves out the others by time."""
    from pyspark.sql import functions as F

    ticks = _ticks(df, time)
    last = df.select(ticks.alias("ticks")).orderBy("ticks").limit(n).agg(F.max("ticks")).first()
    if last is None or last[0] is None:
        raise ValueError("the log has too few rows to learn from some and certify on others")
    return df.where(ticks <= F.lit(last[0])), df


def _ticks(df: DataFrame, time: str) -> Column:
    """Return times as whole microseconds: a datetime of Python would depend on the time zone of the session."""
    from pyspark.sql import functions as F

    at, is_time = F.col(_quoted(time)), dict(df.dtypes)[time].startswith("timestamp")
    return F.unix_micros(at.cast("timestamp")) if is_time else at


def _sampled(df: DataFrame, n: int, total: int) -> tuple[DataFrame, DataFrame]:
    """Return a random sample of about n rows, at most half, and the other rows. It does not depend on partitions."""
    from pyspark.sql import functions as F

    share = n / max(total, 1)
    drawn = F.pmod(F.xxhash64(F.lit("guarantor"), *map(_quoted, df.columns)), F.lit(_CLASSES)) < int(
        share * _CLASSES
    )
    return df.where(drawn), df.where(~drawn)


def _ordered(learn: DataFrame, time: str | None) -> DataFrame:
    """Return the rows in an order that does not depend on partitions."""
    from pyspark.sql import functions as F

    tie = F.xxhash64(*map(_quoted, learn.columns))
    return learn.orderBy(_quoted(time), tie) if time is not None else learn.orderBy(tie)


def _partition(
    recipe: str, rename: dict[str, str], features: list[str]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that runs on every partition."""

    def sum_partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        first = next(batches, None)
        if first is None:
            return
        context = TaskContext.get()
        # A task that is repeated has the same partition, so its partial is the same.
        name = f"{0 if context is None else context.partitionId():07d}"
        stream = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
        # Spark runs one task per core.
        text = _native.partial(stream, recipe, name, rename, features, 1)
        yield pa.RecordBatch.from_pydict({"partition": [name], "partial": [text]})

    return sum_partition


def _file_partition(
    recipe: str, tasks: Sequence[Sequence[Piece]], rename: dict[str, str], features: list[str]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that runs on every partition of the numbers of tasks."""

    def sum_files(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        numbers = itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        for name, file, first, last in itertools.chain.from_iterable(tasks[number] for number in numbers):
            # Spark runs one task per core.
            text = _native.partial_file(file, (first, last), recipe, name, rename, features, 1)
            yield pa.RecordBatch.from_pydict({"partition": [name], "partial": [text]})

    return sum_files
