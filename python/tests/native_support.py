"""What the tests of the native half have in common: the command line and a server of the same build."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BINARY = os.environ.get("GUARANTOR_BIN") or str(
    Path(__file__).resolve().parents[2] / "target" / "debug" / "guarantor"
)


def command_line(*arguments: str | Path) -> dict[str, Any]:
    """Run the command line, and return the JSON that it prints. Exit codes 0 and 1 are answers."""
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A server on a free port, with an empty data directory."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = [BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", directory]
        # What the tests themselves are told would be unknown settings.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GUARANTOR_")}
        process = subprocess.Popen(
            arguments, env=kept, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield line.split()[-1]
        finally:
            process.terminate()
            process.wait()


def request(url: str, body: bytes | None = None, content_type: str = "application/json") -> dict[str, Any]:
    """Send a request, and return the JSON of the response."""
    headers = {"content-type": content_type} if body is not None else {}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
        answer: dict[str, Any] = json.load(response)
        return answer
