"""Learns from a log whose features do not fit in memory, through the real server, and compares with a log that does.

    cargo build --release
    python3 -m venv /tmp/bench && /tmp/bench/bin/pip install numpy pyarrow
    /tmp/bench/bin/python benches/beyond_memory.py --guarantor target/release/guarantor --rows 2600000 --small 130000

The log has 784 features (f32), ten actions and the propensities of all of them. The server reads it by reference. The small
log is learned from twice, in memory and from its temporary file; both certificates must have the same digest. It prints
seconds of the job, seconds per row, and the largest memory that the server took for itself.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from server import Server

FEATURES, ACTIONS, GROUP = 784, 10, 16_384


def write(path: Path, rows: int) -> None:
    """Write the log of a softmax policy; the best action depends on the features."""
    rng = np.random.default_rng(7)
    taste = rng.normal(size=(FEATURES, ACTIONS)).astype(np.float32) / np.sqrt(FEATURES)
    schema = pa.schema([
        ("x", pa.list_(pa.float32(), FEATURES)),
        ("action", pa.int32()),
        ("propensities", pa.list_(pa.float64(), ACTIONS)),
        ("reward", pa.float64()),
    ])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, GROUP):
            n = min(GROUP, rows - start)
            # Few distinct values, as in pictures.
            x = rng.integers(0, 16, size=(n, FEATURES), dtype=np.uint8).astype(np.float32) / 16
            scores = (x - 0.5) @ taste * 6
            p = np.exp(0.3 * (scores - scores.max(axis=1, keepdims=True)).astype(np.float64))
            p /= p.sum(axis=1, keepdims=True)
            action = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=ACTIONS - 1)
            reward = (scores.argmax(axis=1) == action).astype(np.float64)
            columns = [
                pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), FEATURES),
                pa.array(action.astype(np.int32)),
                pa.FixedSizeListArray.from_arrays(pa.array(p.ravel()), ACTIONS),
                pa.array(reward),
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)


def learned(binary: str, log: Path, rows: int, memory: int) -> tuple[float, str]:
    """Import a log and learn from it; return the seconds of the job and the digest of its certificate."""
    with tempfile.TemporaryDirectory(dir=log.parent.parent) as data:
        settings = {"sources_allow": f"file://{log.parent}/", "max_log_memory_bytes": memory}
        server = Server(binary, data, **settings)
        begin = time.perf_counter()
        source = {"uris": [f"file://{log}"]}
        queued = server.ask("POST", "/v1/datasets", {"source": source, "outcome": "reward", "logging": "fixed"})
        server.ended(f"/v1/imports/{queued['id']}")
        read, peak = time.perf_counter() - begin, server.memory()
        begin = time.perf_counter()
        job = server.ask("POST", "/v1/jobs", {"dataset_id": queued["id"], "explore": 0})
        ended = server.ended(f"/v1/jobs/{job['id']}")
        seconds = time.perf_counter() - begin
        certificate = server.ask("GET", f"/v1/jobs/{job['id']}/certificate")
        print(
            f"{rows} rows, log memory {memory >> 20} MiB: read in {read:.1f} s ({peak >> 20} MiB), learned in {seconds:.1f} s, "
            f"{seconds / rows * 1e6:.1f} µs per row, {server.memory() >> 20} MiB, guaranteed improvement "
            f"{ended['result']['guaranteed_improvement']:.4f}, {certificate['digest'][:23]}",
            flush=True,
        )
        server.stop()
        return seconds, certificate["digest"]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--guarantor", required=True)
    parser.add_argument("--data", type=Path, default=Path("/tmp/beyond-memory"))
    parser.add_argument("--rows", type=int, default=2_600_000)
    parser.add_argument("--small", type=int, default=130_000)
    arguments = parser.parse_args()
    # The server refuses to read logs from a folder that its own data is in.
    logs = arguments.data / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for rows, memories in ((arguments.small, (4 << 30, 16 << 20)), (arguments.rows, (16 << 20,))):
        if rows == 0:
            continue
        log = logs / f"{rows}.parquet"
        if not log.exists():
            write(log, rows)
        print(f"{rows} rows: features of {rows * FEATURES * 4 / 1e9:.2f} GB, a file of {log.stat().st_size / 1e9:.2f} GB")
        ran = [learned(arguments.guarantor, log, rows, memory) for memory in memories]
        if len(ran) == 2:
            (fast, one), (slow, other) = ran
            assert one == other, "the certificates differ"
            print(f"from the file at {fast / slow:.2f} of the speed in memory, the same digest")


if __name__ == "__main__":
    main()
