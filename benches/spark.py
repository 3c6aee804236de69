"""Certifies a large log with Spark on this machine, beside DuckDB's plain IPS sums over the same Parquet files.

    make wheel
    python3 -m venv /tmp/bench
    /tmp/bench/bin/pip install target/wheels/guarantor-*.whl 'pyspark==4.3.*' 'pandas>=2.2' pyarrow duckdb
    /tmp/bench/bin/python benches/spark.py --rows 50000000 --data /tmp/spark-log

It prints rows per second of both, what DuckDB takes to sum all columns that a partial reads, what Spark takes for tasks that
do nothing and for tasks that only decode these columns, the largest memory that the JVM and a worker took, and whether a
single process gives the same digest. The files are written on the first run and kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import guarantor
import guarantor.spark
from guarantor import partials

ACTIONS, FILES, GROUP = 5, 16, 1 << 20
START = 1_760_000_000_000_000


def write(data: Path, rows: int) -> None:
    """Write the log of a softmax policy, with the propensity that a candidate gives each logged action."""
    data.mkdir(parents=True)
    each = rows // FILES
    for i in range(FILES):
        rng = np.random.default_rng(i)
        n = each if i + 1 < FILES else rows - each * (FILES - 1)
        x = rng.normal(size=(n, 2)).astype(np.float32)
        taste = np.array([[0.6, -0.2, 0.1, -0.5, 0.0], [0.1, 0.5, -0.6, 0.2, -0.2]], dtype=np.float32)
        logged, candidate = (softmax(scale * (x @ taste)) for scale in (1.0, 2.0))
        action = (logged.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=ACTIONS - 1)
        at = np.arange(n)
        liked = 1 / (1 + np.exp(2 - (x @ taste)[at, action]))
        table = {
            "timestamp": pa.array(START + (i * each + at) * 1_000, pa.timestamp("us", "UTC")),
            "x": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 2),
            "action": pa.array(action, pa.int32()),
            "propensity": logged[at, action],
            "reward": (rng.random(n) < liked).astype(np.float64),
            "candidate.new": candidate[at, action],
        }
        pq.write_table(pa.table(table), data / f"{i:03d}.parquet", row_group_size=GROUP)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of actions."""
    e = np.exp(scores.astype(np.float64))
    return e / e.sum(axis=1, keepdims=True)


class Memory(threading.Thread):
    """Watches the largest resident memory of the processes that this one starts, by their kind."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak: dict[str, int] = {}

    def run(self) -> None:
        """Look at all processes, a few times per second."""
        while True:
            parents = {int(p): int(stat.rsplit(")", 1)[1].split()[1]) for p, stat in _stats()}
            for pid in parents:
                if _descends(pid, parents):
                    self._look(pid)
            time.sleep(0.1)

    def _look(self, pid: int) -> None:
        try:
            status = Path(f"/proc/{pid}/status").read_text().split("\n")
        except OSError:
            return
        fields = dict(line.split(":", 1) for line in status if ":" in line)
        kind = fields["Name"].strip()
        peak = int(fields.get("VmHWM", "0 kB").split()[0]) * 1024
        self.peak[kind] = max(peak, self.peak.get(kind, 0))


def _stats() -> list[tuple[str, str]]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.append((entry, Path(f"/proc/{entry}/stat").read_text()))
            except OSError:
                continue
    return found


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) > 1:
        if pid == os.getpid():
            return True
    return False


WEIGHT = 'reward * "candidate.new" / propensity'
# The sums of the plain estimator, and of all columns that a partial reads.
PLAIN = f"sum({WEIGHT}), sum(({WEIGHT}) * ({WEIGHT}))"
COLUMNS = ["timestamp", "x", "action", "propensity", "reward", "candidate.new"]
ALL = (
    "sum(epoch_us(timestamp)), sum(list_sum(x)), sum(action), sum(propensity), sum(reward), "
    'sum("candidate.new")'
)


def by_duckdb(files: list[str], cores: int, sums: str = PLAIN) -> float:
    """Return the seconds that DuckDB takes for some sums."""
    connection = duckdb.connect(config={"threads": cores})
    begin = time.perf_counter()
    connection.execute(f"SELECT count(*), {sums} FROM read_parquet({files!r})").fetchall()
    return time.perf_counter() - begin


def floor(spark: SparkSession, files: list[str], columns: list[str]) -> float:
    """Return the seconds that Spark takes for eight tasks that only decode columns of the files; nothing if there are none."""

    def decode(batches):
        rows = 0
        for batch in batches:
            for i in batch.column(0).to_pylist() if columns else []:
                read = pq.ParquetFile(files[i]).iter_batches(1 << 16, columns=columns, use_threads=False)
                rows += sum(part.num_rows for part in read)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    begin = time.perf_counter()
    spark.range(0, len(files), 1, 8).mapInArrow(decode, "rows long").collect()
    return time.perf_counter() - begin


def session(cores: int) -> SparkSession:
    """Return a Spark on this machine, with this many cores and a small heap."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "600m",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("guarantor")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--data", type=Path, default=Path("/tmp/spark-log"))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the files, and nothing else")
    parser.add_argument("--frame", action="store_true", help="also through a data frame of Spark")
    arguments = parser.parse_args()
    data = arguments.data / str(arguments.rows)
    if not data.exists():
        write(data, arguments.rows)
    if arguments.write:
        return
    files, rows, cores = sorted(map(str, data.glob("*.parquet"))), arguments.rows, arguments.cores
    memory = Memory()
    memory.start()
    spark = session(cores)
    spark.range(0, 1000, 1, cores).mapInArrow(lambda batches: batches, "id long").collect()  # starts workers
    options = {"outcome": "reward", "n_actions": ACTIONS, "independent_of_log": True}
    print(f"{rows:,} rows, {len(files)} files, {cores} cores")
    seconds, theirs = [], []
    for _ in range(arguments.runs):
        theirs.append(by_duckdb(files, cores))
        begin = time.perf_counter()
        certificate = guarantor.spark.evaluate(files, "new", **options)
        seconds.append(time.perf_counter() - begin)
        print(f"duckdb {rows / theirs[-1] / 1e6:.1f}, spark {rows / seconds[-1] / 1e6:.1f} million rows/s")
        every, nothing, decoded = (
            by_duckdb(files, cores, ALL),
            floor(spark, files, []),
            floor(spark, files, COLUMNS),
        )
        print(
            f"  of {seconds[-1]:.2f} s; duckdb sums all columns in {every:.2f} s; spark does nothing in {nothing:.2f} s, and "
            f"only decodes them in {decoded:.2f} s"
        )
    print(f"best: spark at {min(theirs) / min(seconds):.2f} of DuckDB's speed; {certificate!r}")
    if arguments.frame:
        begin = time.perf_counter()
        framed = guarantor.spark.evaluate(spark.read.parquet(*files), "new", **options)
        print(f"data frame: {rows / (time.perf_counter() - begin) / 1e6:.1f} million rows/s")
        assert framed.digest == certificate.digest
    print("peak memory:", {kind: f"{peak / 1e6:.0f} MB" for kind, peak in memory.peak.items()})
    # One process, one thread, whole files.
    spec = {"kind": "evaluate", "candidates": [{"kind": "logged", "name": "new"}]}
    learn = pq.read_table(files[0]).slice(0, min(100_000, rows // 2))
    recipe = partials.freeze(learn, planned_rows=rows - len(learn), spec=spec, **options)
    begin = time.perf_counter()
    sums = []
    for file in files:
        opened = pq.ParquetFile(file)
        stream = pa.RecordBatchReader.from_batches(opened.schema_arrow, opened.iter_batches())
        sums.append(partials.partial(stream, recipe, Path(file).name, threads=1))
    single = partials.merge(recipe, sums, expected_rows=rows)
    print(f"one process: {rows / (time.perf_counter() - begin) / 1e6:.1f} million rows/s")
    print("same digest:", single.digest == certificate.digest)
    spark.stop()


if __name__ == "__main__":
    main()
