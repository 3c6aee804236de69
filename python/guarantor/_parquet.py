"""Parquet files by their metadata: what is in which row group, and which rows are the earliest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# A task reads whole row groups with about this many rows.
_TASK_ROWS = 4_000_000


class Task(NamedTuple):
    """The row groups that one task reads: from the first one up to, and not including, the last one."""

    name: str
    file: str
    first: int
    last: int


class Group(NamedTuple):
    """A row group, with the range of its times as the statistics of the file have it."""

    file: int
    number: int
    rows: int
    begin: Any
    end: Any


class Files(NamedTuple):
    """Parquet files with one schema.

    Attributes:
        names: The names of the files.
        groups: All row groups, in the order of the files.
        time: The column of times.
    """

    names: list[str]
    groups: list[Group]
    time: str

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(group.rows for group in self.groups)

    def tasks(self) -> list[Task]:
        """Return the tasks, each with row groups of one file. They depend on the files alone."""
        tasks: list[Task] = []
        size = 0
        for group in self.groups:
            file, last = self.names[group.file], group.number + 1
            if tasks and tasks[-1].file == file and size + group.rows <= _TASK_ROWS:
                tasks[-1] = tasks[-1]._replace(last=last)
                size += group.rows
            else:
                tasks.append(Task(f"{group.file:05d}-{group.number:05d}", file, group.number, last))
                size = group.rows
        return tasks

    def earliest(self, n: int) -> tuple[int, list[str]]:
        """Return the time of the n-th earliest row, in microseconds or as it is, and the files with rows up to then."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not 1 <= n <= self.rows:
            raise ValueError("the log has too few rows to learn from some and certify on others")
        # The n-th earliest row is not later than the end of the groups that end first and have n rows.
        by_end = sorted(self.groups, key=lambda group: group.end)
        counts = itertools.accumulate(group.rows for group in by_end)
        last = next(group.end for group, count in zip(by_end, counts, strict=True) if count >= n)
        chosen = [group for group in self.groups if group.begin <= last]
        read = {file: pq.ParquetFile(self.names[file]) for file in {group.file for group in chosen}}
        times = [read[group.file].read_row_group(group.number, columns=[self.time])[0] for group in chosen]
        column = pa.concat_arrays([chunk for each in times for chunk in each.chunks])
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        ticks = np.sort(column.cast(pa.int64()).to_numpy())
        until = int(ticks[n - 1])
        nth = pa.scalar(until).cast(column.type).as_py()
        holders = {group.file for group in chosen if group.begin <= nth}
        return until, [self.names[file] for file in sorted(holders)]


def files_of(names: Sequence[str], time: str) -> Files | None:
    """Return Parquet files that can be opened here by their names, if their statistics say what is needed."""
    import pyarrow.parquet as pq

    paths = [str(name).removeprefix("file://") for name in names]
    if not paths or not all(Path(path).is_file() for path in paths):
        return None
    groups: list[Group] = []
    for i, path in enumerate(paths):
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
        if time not in schema.names or not _has_ticks(schema.field(time).type):
            return None
        place = next(j for j in range(metadata.num_columns) if metadata.schema.column(j).path == time)
        for number in range(metadata.num_row_groups):
            found = metadata.row_group(number)
            statistics = found.column(place).statistics
            if statistics is None or not statistics.has_min_max or statistics.null_count:
                return None
            groups.append(Group(i, number, found.num_rows, statistics.min, statistics.max))
    return Files(paths, groups, time)


def _has_ticks(kind: Any) -> bool:
    import pyarrow as pa

    # Spark reads no nanoseconds, and takes times without a zone for those of its session.
    known = pa.types.is_timestamp(kind) and kind.unit in ("ms", "us") and kind.tz is not None
    return known or pa.types.is_integer(kind)
