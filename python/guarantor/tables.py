"""Delta and Iceberg tables: the files of one snapshot, and its name.

Pass the files to `guarantor.read`, or to `spark.read.parquet`, and the name as `snapshot` to `guarantor.spark.certify`: the
certificate then says which state of the table it is about.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Snapshot(NamedTuple):
    """The files of one state of a table.

    Attributes:
        files: The Parquet files, in an order that does not change.
        snapshot: The name of the state, such as `delta:7` or `iceberg:3051729675574597004`.
    """

    files: list[str]
    snapshot: str


def delta(table: Any) -> Snapshot:
    """Return the files of a `deltalake.DeltaTable`, at the version that it was opened at.

    Raises:
        ValueError: The table marks rows as deleted without rewriting their files, so the files have too many rows.
    """
    features = table.protocol().reader_features or []
    if "deletionVectors" in features:
        raise ValueError(
            "the table uses deletion vectors; rewrite its files (REORG TABLE … APPLY (PURGE)) first"
        )
    files = [str(uri).removeprefix("file://") for uri in table.file_uris()]
    return Snapshot(sorted(files), f"delta:{table.version()}")


def iceberg(table: Any, snapshot_id: int | None = None) -> Snapshot:
    """Return the files of a `pyiceberg.table.Table`, of its current snapshot or of this one.

    Raises:
        ValueError: The snapshot has delete files, so the data files have too many rows; or the table is empty.
    """
    if snapshot_id is None:
        current = table.current_snapshot()
        if current is None:
            raise ValueError("the table has no snapshot: it is empty")
        snapshot_id = int(current.snapshot_id)
    tasks = list(table.scan(snapshot_id=snapshot_id).plan_files())
    if any(task.delete_files for task in tasks):
        raise ValueError("the snapshot has delete files; rewrite its data files first")
    files = [str(task.file.file_path).removeprefix("file://") for task in tasks]
    return Snapshot(sorted(files), f"iceberg:{snapshot_id}")
