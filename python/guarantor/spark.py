"""Certificates of Spark data frames.

The earliest part of the log is learned from on the driver, the executors sum over the other rows (`mapInArrow`), and the
driver merges the sums. The certificate has the same digest for every number of partitions, and for a single process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from guarantor import _native, partials
from guarantor._options import JobOptions, Json
from guarantor._results import Certificate
from guarantor.policy import Policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from guarantor._local import PolicySource

# Random samples of a fixed log are drawn by a hash of the row, out of this many classes.
_CLASSES = 1_000_000


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


def certify(
    df: DataFrame,
    *,
    learn: DataFrame | None = None,
    learn_rows: int = 100_000,
    snapshot: str | None = None,
    url: str | None = None,
    key: str | None = None,
    spec: Json | None = None,
    policies: Mapping[str, PolicySource] | None = None,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    **options: Unpack[JobOptions],
) -> Certificate:
    """Learn a policy on the earliest part of a log, and certify it on all other rows.

    Args:
        df: The log: its columns are the fields of a log, or become them by `features` and `rename`.
        learn: The rows to learn from, if they are not in `df`.
        learn_rows: How many rows to learn from, at most half of them. They are the earliest ones, so rows need a
            `timestamp`; only if you state `logging="fixed"` can they be a random sample instead.
        snapshot: The snapshot of the table that `df` reads. The certificate names it.
        url: A server. It merges the sums, signs the certificate and enters it in its ledger; without one, the
            certificate is made here and not signed.
        key: The API key of that server.
        spec: As for `guarantor.certify`, with one candidate at most.
        policies: As for `guarantor.certify`.
        features: As for `guarantor.read`.
        rename: As for `guarantor.read`.
        **options: As for `guarantor.certify`.
    """
    sums = sum_up(
        df,
        learn=learn,
        learn_rows=learn_rows,
        snapshot=snapshot,
        spec=spec,
        policies=policies,
        features=features,
        rename=rename,
        **options,
    )
    if url is None:
        return partials.merge(sums.recipe, sums.partials, expected_rows=sums.expected_rows)
    return partials.submit(sums.recipe, sums.partials, url=url, key=key, expected_rows=sums.expected_rows)


def evaluate(df: DataFrame, candidate: str | Policy, **keywords: Any) -> Certificate:
    """Certify a candidate that exists already: the name of one that the rows carry, or a policy.

    The other arguments are those of `certify`. `independent_of_log=True` is your statement that the candidate was not
    learned from these rows.
    """
    spec: dict[str, Any] = dict(keywords.pop("spec", None) or {})
    if isinstance(candidate, str):
        spec |= {"kind": "evaluate", "candidates": [{"kind": "logged", "name": candidate}]}
        return certify(df, spec=spec, **keywords)
    spec |= {"kind": "evaluate", "candidates": [{"kind": "policy", "policy_id": candidate.id}]}
    return certify(df, spec=spec, policies={candidate.id: candidate}, **keywords)


def sum_up(
    df: DataFrame,
    *,
    learn: DataFrame | None = None,
    learn_rows: int = 100_000,
    snapshot: str | None = None,
    spec: Json | None = None,
    policies: Mapping[str, PolicySource] | None = None,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    **options: Unpack[JobOptions],
) -> Sums:
    """Freeze a recipe, and sum over the partitions. The arguments are those of `certify`."""
    total = df.count()
    time = _column("timestamp", rename or {})
    by_time = learn is None and time in df.columns
    if learn is None:
        if not by_time and options.get("logging") != "fixed":
            message = (
                f"the rows have no column {time!r}, so which of them are the earliest is not known; add it, pass the "
                'rows to learn from as learn, or state logging="fixed" if one policy logged every row'
            )
            raise ValueError(message)
        learn, df = (
            _earliest(df, time, min(learn_rows, total // 2)) if by_time else _sampled(df, learn_rows, total)
        )
    # Rows that were learned from by time are still in the partitions, which leave them out.
    expected = total if by_time else df.count()
    frame = _ordered(learn, time if by_time else None).toArrow()
    recipe = partials.freeze(
        frame,
        planned_rows=(total - frame.num_rows if by_time else expected) or None,
        snapshot=snapshot,
        spec=spec,
        policies=policies,
        features=features,
        rename=rename,
        **options,
    )
    # Spark takes dots in the names of columns for members of a struct, so its columns get plain names for a moment.
    plain = {column: f"c{i}" for i, column in enumerate(df.columns)}
    wanted = [plain[column] for column in features or []]
    fields = {
        plain[column]: (rename or {}).get(column, column)
        for column in df.columns
        if column in (rename or {}) or plain[column] not in wanted
    }
    function = _partition(recipe.to_json(), fields, wanted)
    summed = df.toDF(*plain.values()).mapInArrow(function, "partition string, partial string")
    return Sums(recipe, [row["partial"] for row in summed.collect()], expected)


def _column(field: str, rename: Mapping[str, str]) -> str:
    """Return the column of the data frame that is this field of a log."""
    return next((column for column, name in rename.items() if name == field), field)


def _quoted(column: str) -> str:
    """Return the name of a column for Spark, which takes dots in it, as in `candidate.NAME`, for members of a struct."""
    return "`" + column.replace("`", "``") + "`"


def _earliest(df: DataFrame, time: str, n: int) -> tuple[DataFrame, DataFrame]:
    """Return the rows up to the time of the n-th earliest one, and all rows: the recipe leaves out the others by time."""
    from pyspark.sql import functions as F

    # Whole microseconds: a datetime of Python would depend on the time zone of the session.
    is_time = dict(df.dtypes)[time].startswith("timestamp")
    at = F.col(_quoted(time))
    ticks = F.unix_micros(at.cast("timestamp")) if is_time else at
    last = df.select(ticks.alias("ticks")).orderBy("ticks").limit(n).agg(F.max("ticks")).first()
    if last is None or last[0] is None:
        raise ValueError("the log has too few rows to learn from some and certify on others")
    return df.where(ticks <= F.lit(last[0])), df


def _sampled(df: DataFrame, n: int, total: int) -> tuple[DataFrame, DataFrame]:
    """Return a random sample of about n rows, at most half, and the other rows. It does not depend on partitions."""
    from pyspark.sql import functions as F

    share = min(n / max(total, 1), 0.5)
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
