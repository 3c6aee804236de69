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
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FEATURES, ACTIONS, GROUP = 8, 10, 1 << 20
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


class Server:
    """A server on a free port."""

    def __init__(self, binary: str, data: str) -> None:
        """Start it."""
        settings = {"GUARANTOR_LISTEN": "127.0.0.1:0", "GUARANTOR_DATA_DIR": data, "GUARANTOR_LOG_FILTER": "warn"}
        self.process = subprocess.Popen([binary, "serve"], env=settings, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.base = self.process.stdout.readline().strip().removeprefix("Guarantor listens on ")

    def ask(self, method: str, path: str, body: object = None) -> dict:
        """Send a request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def upload(self, log: Path) -> dict:
        """Send the file, as a team would."""
        command = ["curl", "-sS", "--fail-with-body", "-H", "content-type: application/vnd.apache.parquet", "-T", str(log)]
        url = f"{self.base}/v1/datasets?outcome=reward&n_actions={ACTIONS}"
        return json.loads(subprocess.run([*command, "-X", "POST", url], check=True, stdout=subprocess.PIPE).stdout)

    def processor(self) -> float:
        """Return the seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the largest resident memory since it was last asked."""
        place = Path(f"/proc/{self.process.pid}")
        peak = int((place / "status").read_text().split("VmHWM:")[1].split()[0]) * 1024
        (place / "clear_refs").write_text("5")
        return peak

    def stop(self) -> None:
        """Stop it."""
        self.process.kill()
        self.process.wait()


def timed(server: Server, work: object) -> tuple[dict, str]:
    """Do some work, and describe how long it took."""
    processor, begin = server.processor(), time.perf_counter()
    done = work()  # type: ignore[operator]
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
    while (found := server.ask("GET", f"/v1/jobs/{job}?wait=30"))["status"] in ("queued", "running"):
        pass
    assert found["status"] == "succeeded", found
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
                dataset, seconds, cost = timed(server, lambda server=server: server.upload(log))
                print(f"  upload     {cost}, {decoded / 1e6 / seconds:.0f} MB/s decoded")
                work = lambda server=server, dataset=dataset: evaluated(server, dataset["id"])
                certificate, seconds, cost = timed(server, work)
                print(f"  evaluation {cost}, {seconds / every:.2f} times DuckDB's; {certificate['digest'][:23]} {binary}")
                server.stop()


if __name__ == "__main__":
    main()
