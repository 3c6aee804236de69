"""Uploads a Parquet log with `curl` and evaluates a logged candidate, beside DuckDB's sums over the same file.

    cargo build --release
    python3 -m venv /tmp/bench && /tmp/bench/bin/pip install numpy pyarrow duckdb
    /tmp/bench/bin/python benches/evaluate.py --guarantor target/release/guarantor --rows 20000000

The log has eight features (f32), ten actions and the propensities of logged actions, and is adaptive, so the bound is the
default one of adaptive logs. Each round starts a new server. It prints seconds and seconds of processor time of the server,
the largest memory, and the digest of the certificate, which is the same in every round. DuckDB sums all columns of the file,
and then those that an evaluation depends on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from server import Server

FEATURES, ACTIONS, GROUP = 8, 10, 1 << 20
QUERY = f"outcome=reward&n_actions={ACTIONS}"
# Of the columns as they are decoded.
ROW_BYTES = 4 * FEATURES + 8 * 4
NARROW = ["action", "reward", "propensity", '"candidate.new"']


def write(path: Path, rows: int) -> None:
    """Write the log of a softmax policy, with the propensity that another one gives each logged action."""
    rng = np.random.default_rng(11)
    taste = rng.normal(size=(FEATURES, ACTIONS)).astype(np.float32) / np.sqrt(FEATURES)
    schema = pa.schema([
        ("x", pa.list_(pa.float32(), FEATURES)),
        ("action", pa.int64()),
        ("reward", pa.float64()),
        ("propensity", pa.float64()),
        ("candidate.new", pa.float64()),
    ])
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, rows, GROUP):
            n = min(GROUP, rows - start)
            x = rng.uniform(-1, 1, size=(n, FEATURES)).astype(np.float32)
            scores = x @ taste
            logged, candidate = (softmax(scale * scores) for scale in (1.0, 3.0))
            action = (logged.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=ACTIONS - 1)
            at = np.arange(n)
            reward = (rng.random(n) < 1 / (1 + np.exp(1.5 - scores[at, action]))).astype(np.float64)
            columns = [
                pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), FEATURES),
                pa.array(action),
                pa.array(reward),
                pa.array(logged[at, action]),
                pa.array(candidate[at, action]),
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of actions."""
    e = np.exp(scores.astype(np.float64))
    return e / e.sum(axis=1, keepdims=True)


def timed(server: Server, work: Callable[[], dict]) -> tuple[dict, float, str]:
    """Do some work, and return how long it took, and that in words."""
    processor, begin = server.processor(), time.perf_counter()
    done = work()
    seconds = time.perf_counter() - begin
    cost = f"{seconds:.2f} s (processor {server.processor() - processor:.2f} s, {server.memory() >> 20} MiB)"
    return done, seconds, cost


def evaluated(server: Server, dataset: str) -> dict:
    """Evaluate the candidate, and return the certificate."""
    spec = {
        "dataset_id": dataset,
        "kind": "evaluate",
        "independent_of_log": True,
        "candidates": [{"kind": "logged", "name": "new"}],
    }
    job = server.ask("POST", "/v1/jobs", spec)["id"]
    server.ended(f"/v1/jobs/{job}")
    return server.ask("GET", f"/v1/jobs/{job}/certificate")


def summed(log: Path, columns: list[str]) -> float:
    """Return the seconds that DuckDB takes to sum columns on two threads."""
    connection = duckdb.connect(config={"threads": 2})
    sums = ", ".join(f"sum(list_sum({name}))" if name == "x" else f"sum({name})" for name in columns)
    begin = time.perf_counter()
    connection.execute(f"SELECT count(*), {sums} FROM read_parquet('{log}')").fetchall()
    return time.perf_counter() - begin


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--guarantor", required=True, nargs="+", help="one binary, or several to compare in turns")
    parser.add_argument("--data", type=Path, default=Path("/tmp/evaluate"))
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    log = arguments.data / f"{arguments.rows}.parquet"
    if not log.exists():
        write(log, arguments.rows)
    decoded = arguments.rows * ROW_BYTES
    print(f"{arguments.rows:,} rows, {log.stat().st_size / 1e6:.0f} MB, {decoded / 1e6:.0f} MB decoded")
    for turn in range(arguments.rounds):
        every, narrow = summed(log, ["x", *NARROW]), summed(log, NARROW)
        print(f"round {turn + 1}: DuckDB sums all columns in {every:.2f} s, those without features in {narrow:.2f} s")
        for binary in arguments.guarantor:
            with tempfile.TemporaryDirectory(dir=arguments.data) as data:
                server = Server(binary, data)
                dataset, seconds, cost = timed(server, partial(server.upload, log, QUERY))
                print(f"  upload     {cost}, {decoded / 1e6 / seconds:.0f} MB/s decoded")
                certificate, seconds, cost = timed(server, partial(evaluated, server, dataset["id"]))
                print(f"  evaluation {cost}, {seconds / every:.2f} times DuckDB's; {certificate['digest'][:23]} {binary}")
                server.stop()


if __name__ == "__main__":
    main()
