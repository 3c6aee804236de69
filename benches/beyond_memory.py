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
import json
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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


class Server:
    """A server on a free port."""

    def __init__(self, binary: str, place: Path, data: Path, memory: int) -> None:
        """Start it."""
        settings = {
            "GUARANTOR_LISTEN": "127.0.0.1:0",
            "GUARANTOR_DATA_DIR": str(data),
            "GUARANTOR_SOURCES_ALLOW": f"file://{place}",
            "GUARANTOR_MAX_LOG_MEMORY_BYTES": str(memory),
            "GUARANTOR_LOG_FILTER": "warn",
        }
        self.process = subprocess.Popen([binary, "serve"], env=settings, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.base = self.process.stdout.readline().strip().removeprefix("Guarantor listens on ")

    def ask(self, method: str, path: str, body: object = None) -> dict:
        """Send a request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def ended(self, path: str) -> dict:
        """Wait for the end of a job or an import."""
        while (found := self.ask("GET", f"{path}?wait=30"))["status"] in ("queued", "running"):
            pass
        assert found["status"] == "succeeded", found
        return found

    def memory(self) -> int:
        """Return the largest resident memory so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def forget_peak(self) -> None:
        """Begin to measure the largest memory again."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def stop(self) -> None:
        """Stop it."""
        self.process.kill()
        self.process.wait()


def learned(binary: str, log: Path, rows: int, memory: int) -> tuple[float, str]:
    """Import a log and learn from it; return the seconds of the job and the digest of its certificate."""
    with tempfile.TemporaryDirectory(dir=log.parent) as data:
        server = Server(binary, log, Path(data), memory)
        begin = time.perf_counter()
        source = {"uris": [f"file://{log}"]}
        queued = server.ask("POST", "/v1/datasets", {"source": source, "outcome": "reward", "logging": "fixed"})
        server.ended(f"/v1/imports/{queued['id']}")
        read, peak = time.perf_counter() - begin, server.memory()
        server.forget_peak()
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
    arguments.data.mkdir(parents=True, exist_ok=True)
    for rows, memories in ((arguments.small, (4 << 30, 16 << 20)), (arguments.rows, (16 << 20,))):
        if rows == 0:
            continue
        log = arguments.data / f"{rows}.parquet"
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
