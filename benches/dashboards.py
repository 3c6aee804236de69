#!/usr/bin/env python3
"""The dashboard with many jobs and many readers.

    dashboards.py [--guarantor target/release/guarantor] [--jobs 10000] [--datasets 1000] [--dashboards 200] [--seconds 30]

Needs `pip install playwright` and chromium (`--chromium PATH`). Run it on an idle machine with a release build. It prints
1. the time from the start of the navigation until data is painted, for the lists of jobs and datasets: loaded with the files
   of the dashboard in the browser's cache, loaded without, and after a click within the dashboard;
2. the p99 of `GET /v1/jobs/{id}` by another client, first without dashboards, then with 200 that show a job that learns:
   each follows the event stream and polls the job every 2 seconds, and every other one polls the list as well.
The jobs and datasets are copies of a real one, written into the database while the server is stopped.
"""
import argparse
import asyncio
import concurrent.futures
import http.client
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
# When the first row of a table is in the page, the frame that shows it is drawn after the next `requestAnimationFrame`, and a task that is
# queued there runs when it has been. The page reports by itself: a driver that asks it would run in its thread.
PAINTED = """(done) => requestAnimationFrame(() => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => done(performance.now());
  port2.postMessage(0);
})"""
WATCH = """
const seen = new MutationObserver(() => {
  if (!document.querySelector('tbody tr a')) return;
  seen.disconnect();
  const inPage = performance.now();
  (%s)((painted) => console.debug(JSON.stringify({ inPage, painted })));
});
document.addEventListener('DOMContentLoaded', () => seen.observe(document.body, { childList: true, subtree: true }));
""" % PAINTED
LEARNS_LONG = {"bound": "log_smoothing", "prior": {"kind": "zero"}, "optimizer": {"preset": "paper", "epochs": 100_000, "max_seconds": 3600}}


class Server:
    def __init__(self, binary, directory):
        self.binary, self.directory, self.base = binary, directory, None

    def start(self):
        own = {"GUARANTOR_LISTEN": "127.0.0.1:0", "GUARANTOR_DATA_DIR": self.directory, "GUARANTOR_LOG_FILTER": "warn"}
        self.process = subprocess.Popen([self.binary, "serve"], env={**os.environ, **own}, stdout=subprocess.PIPE, text=True)
        self.base = self.process.stdout.readline().removeprefix("Guarantor listens on ").strip()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def call(self, method, path, body=None, kind="application/json"):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers={"content-type": kind})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)


def log(rows):
    """A log of two features and three actions."""
    state, lines = 1, []

    def draw():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 11) / 2**53

    for _ in range(rows):
        x, at = [draw(), draw()], draw()
        action = 0 if at < 0.5 else 1 if at < 0.8 else 2
        lines.append(json.dumps({"x": x, "action": action, "propensities": [0.5, 0.3, 0.2], "reward": int(draw() < [0.2, 0.3, 0.7][action])}))
    return "\n".join(lines).encode()


def copies(db, table, where, changes):
    """Copies of the one row that `where` selects, with other values in some columns."""
    db.row_factory = sqlite3.Row
    row = dict(db.execute(f"SELECT * FROM {table} WHERE {where}").fetchone())
    names = list(row)
    values = [[change.get(name, row[name]) for name in names] for change in changes]
    db.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values)


def seed(directory, job, dataset, jobs, datasets):
    """Fills the database of a stopped server."""
    db = sqlite3.connect(Path(directory) / "guarantor.sqlite")
    now = db.execute("SELECT MAX(created_at) FROM jobs").fetchone()[0]
    made = [str(uuid.uuid4()) for _ in range(datasets - 1)]
    copies(db, "datasets", f"id = '{dataset}'", [{"id": id, "name": f"log {i}", "created_at": now - i * 60_000_000} for i, id in enumerate(made)])
    copies(db, "dataset_versions", f"dataset_id = '{dataset}'", [{"dataset_id": id} for id in made])
    # Each has a ledger of its own, as if the rows differed.
    copies(db, "ledgers", "1 = 1", [{"id": id} for id in made])
    copies(db, "ledger_datasets", f"dataset_id = '{dataset}'", [{"dataset_id": id, "ledger_id": id} for id in made])
    last = db.execute("SELECT MAX(seq) FROM jobs").fetchone()[0]
    changes = []
    for i in range(jobs - 1):
        change = {"id": str(uuid.uuid4()), "seq": last + 1 + i, "created_at": now - i * 6_000_000, "dataset_id": made[i % len(made)]}
        if i % 10 == 3:
            change |= {"status": "cancelled", "result": None, "certificate": None, "evidence": None}
        changes.append(change)
    copies(db, "jobs", f"id = '{job}'", changes)
    db.commit()
    db.close()


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(name, values):
    print(f"| {name} | {statistics.median(values):.1f} | {percentile(values, 0.99):.1f} | {max(values):.1f} | {len(values)} |", flush=True)


def answer_times(base):
    """What the server alone takes for the lists."""
    print("\n| answer of the server, milliseconds | median | p99 | worst | requests |\n|---|--:|--:|--:|--:|")
    host, port = base.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    for path in ["/v1/jobs?limit=25", "/v1/jobs?decision=deploy&order=oldest&limit=25", "/v1/jobs?status=cancelled&limit=25", "/v1/datasets?limit=25"]:
        times = []
        for _ in range(100):
            before = time.perf_counter()
            connection.request("GET", path, headers={"accept-encoding": "gzip"})
            connection.getresponse().read()
            times.append((time.perf_counter() - before) * 1000)
        report(path, times)


def paint_times(base, chromium, rounds):
    from playwright.sync_api import sync_playwright

    answer_times(base)
    print("\n| first paint of data, milliseconds | median | p99 | worst | rounds |\n|---|--:|--:|--:|--:|")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        lists = [("jobs", "/jobs"), ("jobs that say keep or deploy", "/jobs?decision=deploy&order=oldest"), ("canceled jobs", "/jobs?status=cancelled"), ("datasets", "/datasets")]
        for name, path in lists:
            times = {"files cached": [], "files not cached": []}
            for _ in range(rounds):
                context = browser.new_context()
                context.add_init_script(WATCH)
                page = context.new_page()
                for kind in ["files not cached", "files cached"]:
                    with page.expect_console_message() as message:
                        page.goto(base + path, wait_until="commit")
                    times[kind].append(json.loads(message.value.text)["painted"])
                    # The rest of the dashboard is loaded after that.
                    page.wait_for_load_state("networkidle")
                context.close()
            for kind, values in times.items():
                report(f"{name}, {kind}", values)
        context = browser.new_context()
        page = context.new_page()
        for name, title, other in [("Jobs", "Jobs", "/policies"), ("Datasets", "Datasets", "/policies")]:
            times = []
            for _ in range(rounds):
                page.goto(base + other)
                page.get_by_role("link", name=name, exact=True).wait_for()
                page.wait_for_load_state("networkidle")
                times.append(page.evaluate(CLICKED, f"/{title.lower()}"))
            report(f"{name.lower()}, after a click", times)
        browser.close()


CLICKED = """(path) => new Promise((done) => {
  const link = document.querySelector(`a[href="${path}"]`);
  const from = performance.now();
  const seen = new MutationObserver(() => {
    if (!document.querySelector('tbody tr a[href^="' + path + '/"]')) return;
    seen.disconnect();
    (%s)((painted) => done(painted - from));
  });
  seen.observe(document.body, { childList: true, subtree: true });
  link.click();
})""" % PAINTED


class Connection:
    """HTTP/1.1 on one connection, as small as possible, so that the clients take little of the machine."""

    def __init__(self, host, port):
        self.host, self.port, self.stream = host, port, None

    async def get(self, path, headers=""):
        """The answer. A server with many connections may close one that waits; then another is opened, as browsers do."""
        try:
            return await self.ask(path, headers)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.stream = None
            return await self.ask(path, headers)

    async def ask(self, path, headers):
        if self.stream is None:
            self.stream = await asyncio.open_connection(self.host, self.port)
        reader, writer = self.stream
        writer.write(f"GET {path} HTTP/1.1\r\nhost: {self.host}\r\n{headers}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split(" ", 2)[1])
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(fields.get("content-length", 0))) if status != 304 else b""
        return status, fields, body


async def follow(address, job, counts, stop):
    """One page of a job: its event stream, for as long as the benchmark runs."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nhost: {address[0]}\r\naccept: text/event-stream\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head, head
    counts["streams"] += 1
    while not stop.is_set():
        chunk = await reader.read(65536)
        if not chunk:
            counts["broken streams"] += 1
            return
        counts["events"] += chunk.count(b"\nid:") + chunk.startswith(b"id:")


async def poll(address, path, every, counts, stop, wait):
    """Asks every so many seconds, with the tag of the last answer."""
    await asyncio.sleep(wait)
    connection, tag = Connection(*address), ""
    while not stop.is_set():
        status, fields, _ = await connection.get(path, f"if-none-match: {tag}\r\n" if tag else "")
        tag = fields.get("etag", "")
        counts[f"polls with {status}"] = counts.get(f"polls with {status}", 0) + 1
        await asyncio.sleep(every)


def measure(address, job, seconds):
    """Another client, in a process of its own: the simulated dashboards must not be what it waits for."""
    connection, times = http.client.HTTPConnection(*address), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = time.perf_counter()
        connection.request("GET", f"/v1/jobs/{job}")
        response = connection.getresponse()
        response.read()
        times.append((time.perf_counter() - before) * 1000)
        assert response.status == 200, response.status
        time.sleep(0.005)
    return times


async def crowd(base, job, number, seconds):
    other = concurrent.futures.ProcessPoolExecutor(1)
    host, port = base.removeprefix("http://").split(":")
    address = (host, int(port))
    print(f"\n| GET /v1/jobs/{{id}}, milliseconds | median | p99 | worst | requests |\n|---|--:|--:|--:|--:|")
    measured = lambda: asyncio.get_running_loop().run_in_executor(other, measure, address, job, seconds)
    report("while a job learns, without dashboards", await measured())
    counts = {"streams": 0, "broken streams": 0, "events": 0}
    stop = asyncio.Event()
    tasks = []
    for i in range(number):
        tasks.append(asyncio.create_task(follow(address, job, counts, stop)))
        tasks.append(asyncio.create_task(poll(address, f"/v1/jobs/{job}", 2, counts, stop, 2 * i / number)))
        if i % 2 == 0:
            tasks.append(asyncio.create_task(poll(address, "/v1/jobs?limit=25", 2, counts, stop, 2 * i / number)))
    await asyncio.sleep(3)
    report(f"while a job learns, with {number} dashboards", await measured())
    stop.set()
    for task in tasks:
        task.cancel()
    failed = [task for task in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(task, Exception)]
    other.shutdown()
    print(f"\n{counts}, {len(failed)} clients that failed {failed[:1] if failed else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guarantor", default="target/release/guarantor")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--datasets", type=int, default=1_000)
    parser.add_argument("--dashboards", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        server = Server(options.guarantor, directory)
        server.start()
        dataset = server.call("POST", "/v1/datasets?name=log&outcome=reward&logging=fixed", log(2000), "application/x-ndjson")["id"]
        job = server.call("POST", "/v1/jobs", {"dataset_id": dataset, "min_improvement": 0.01})["id"]
        while server.call("GET", f"/v1/jobs/{job}?wait=60")["status"] in ("queued", "running"):
            pass
        server.stop()
        seed(directory, job, dataset, options.jobs, options.datasets)
        server.start()
        print(f"{options.jobs} jobs, {options.datasets} datasets")
        paint_times(server.base, options.chromium, options.rounds)
        learning = server.call("POST", "/v1/jobs", {"dataset_id": dataset, **LEARNS_LONG})["id"]
        while server.call("GET", f"/v1/jobs/{learning}")["status"] == "queued":
            time.sleep(0.1)
        asyncio.run(crowd(server.base, learning, options.dashboards, options.seconds))
        server.call("POST", f"/v1/jobs/{learning}/cancel")
        server.stop()


if __name__ == "__main__":
    main()
