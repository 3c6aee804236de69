"""What the tests of the native half have in common: the command line and a server of the same build."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from servers import binary, command


def program() -> str:
    """The program that was built with the wheel."""
    found = binary()
    assert found is not None, "build the program with cargo build, or name it in GUARANTOR_BIN"
    return str(found)


def command_line(*arguments: str | Path) -> dict[str, Any]:
    """Run the command line, and return the JSON that it prints. Exit codes 0 and 1 are answers."""
    done = command(*arguments)
    assert done.returncode in (0, 1), done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def request(url: str, body: bytes | None = None, content_type: str = "application/json") -> dict[str, Any]:
    """Send a request, and return the JSON of the response."""
    headers = {"content-type": content_type} if body is not None else {}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
        answer: dict[str, Any] = json.load(response)
        return answer
