"""Parquet files by their metadata: what is in which row group, and which rows are the earliest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A piece has whole row groups with about this many rows.
_PIECE_ROWS = 4_000_000
# A task has at least as many, unless there are fewer, and at most this many.
_MOST_ROWS = 16_000_000
# How many tasks each core gets, if there are rows for so many.
_PER_CORE = 3


class Piece(NamedTuple):
    """The row groups that one partial is of: from the first one up to, and not including, the last one."""

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

    def pieces(self) -> list[Piece]:
        """Return the pieces, each with row groups of one file. They depend on the files alone."""
        pieces: list[Piece] = []
        size = 0
        for group in self.groups:
            file, last = self.names[group.file], group.number + 1
            if pieces and pieces[-1].file == file and size + group.rows <= _PIECE_ROWS:
                pieces[-1] = pieces[-1]._replace(last=last)
                size += group.rows
            else:
                pieces.append(Piece(f"{group.file:05d}-{group.number:05d}", file, group.number, last))
                size = group.rows
        return pieces

    def tasks(self, cores: int) -> list[list[Piece]]:
        """Return the pieces that each task reads: starting a task takes as long as summing up many rows."""
        most = min(max(self.rows // (_PER_CORE * cores), _PIECE_ROWS), _MOST_ROWS)
        rows = {(self.names[group.file], group.number): group.rows for group in self.groups}
        tasks: list[list[Piece]] = []
        size = 0
        for piece in self.pieces():
            own = sum(rows[piece.file, number] for number in range(piece.first, piece.last))
            if tasks and size + own <= most:
                tasks[-1].append(piece)
                size += own
            else:
                tasks.append([piece])
                size = own
        return tasks

    def earliest(self, n: int) -> tuple[int, list[str]]:
        """Return the time of the n-th earliest row, in microseconds or as it is, and the files with rows up to then."""
        if not 1 <= n <= self.rows:
            raise ValueError("the log has too few rows to learn from some and certify on others")
        # The n-th earliest row is not later than the end of the groups that end first and have n rows.
        by_end = sorted(self.groups, key=lambda group: group.end)
        counts = itertools.accumulate(group.rows for group in by_end)
        last = next(group.end for group, count in zip(by_end, counts, strict=True) if count >= n)
        chosen = [group for group in self.groups if group.begin <= last]
        until = int(np.partition(self._times(chosen), n - 1)[n - 1])
        holders = {group.file for group in self._before(until)}
        return until, [self.names[file] for file in sorted(holders)]

    def rows_until(self, until: int) -> Any:
        """Return the rows up to a time as a table in their order, or None if some have the same time: Spark orders those."""
        import pyarrow as pa

        found = [table for group in self._before(until) for table in self._early(group, until)]
        if not found or any(table.schema != found[0].schema for table in found):
            return None
        rows = pa.concat_tables(found)
        ticks = _ticks(rows.column(self.time))
        order = np.argsort(ticks, kind="stable")
        if (np.diff(ticks[order]) == 0).any():
            return None
        return rows if (np.diff(order) == 1).all() else rows.take(pa.array(order))

    def _early(self, group: Group, until: int) -> Iterator[Any]:
        """Yield the rows of a group up to a time, as tables."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        opened = pq.ParquetFile(self.names[group.file])
        early = _ticks(opened.read_row_group(group.number, columns=[self.time])[0]) <= until
        missing = int(early.sum())
        if not early[:missing].all():
            yield opened.read_row_group(group.number).filter(pa.array(early))
            return
        # They come first, so the others need not be decoded.
        for batch in opened.iter_batches(batch_size=max(missing, 1), row_groups=[group.number]):
            if missing <= 0:
                break
            yield pa.Table.from_batches([batch]).slice(0, missing)
            missing -= batch.num_rows

    def _before(self, until: int) -> list[Group]:
        """Return the groups with rows up to a time."""
        return [group for group in self.groups if _tick(group.begin) <= until]

    def _times(self, groups: Sequence[Group]) -> npt.NDArray[np.int64]:
        import pyarrow.parquet as pq

        files = itertools.groupby(groups, key=lambda group: group.file)
        read = [
            pq.ParquetFile(self.names[file]).read_row_groups([group.number for group in own], [self.time])
            for file, own in files
        ]
        return np.concatenate([_ticks(table[0]) for table in read])


def _ticks(column: Any) -> npt.NDArray[np.int64]:
    """Return times as whole microseconds, or as they are."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    ticks: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return ticks


def _tick(time: Any) -> int:
    """Return a time of a file's statistics as whole microseconds, or as it is."""
    return time if isinstance(time, int) else (time - _EPOCH) // timedelta(microseconds=1)


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
