"""A server that a benchmark starts on a free port."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path


class Server:
    """A server on a free port."""

    def __init__(self, binary: str, data: Path | str, **settings: object) -> None:
        """Start it. Settings are named as in the configuration."""
        environment = {f"GUARANTOR_{name.upper()}": str(value) for name, value in settings.items()}
        environment |= {
            "GUARANTOR_LISTEN": "127.0.0.1:0",
            "GUARANTOR_DATA_DIR": str(data),
            "GUARANTOR_LOG_FILTER": "warn",
        }
        self.process = subprocess.Popen([binary, "serve"], env=environment, stdout=subprocess.PIPE, text=True)
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

    def upload(self, log: Path, query: str) -> dict:
        """Send a Parquet file, as a team would."""
        command = ["curl", "-sS", "--fail-with-body", "-H", "content-type: application/vnd.apache.parquet", "-T", str(log)]
        url = f"{self.base}/v1/datasets?{query}"
        return json.loads(subprocess.run([*command, "-X", "POST", url], check=True, stdout=subprocess.PIPE).stdout)

    def processor(self) -> float:
        """Return the seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the largest resident memory since this was last called."""
        place = Path(f"/proc/{self.process.pid}")
        peak = int((place / "status").read_text().split("VmHWM:")[1].split()[0]) * 1024
        (place / "clear_refs").write_text("5")
        return peak

    def stop(self) -> None:
        """Stop it."""
        self.process.kill()
        self.process.wait()
