"""The real server on a free port, and a proxy that breaks the connections it is told to break."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"


def binary() -> Path | None:
    """The server's binary: GUARANTOR_BIN, or the debug build of the workspace."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("GUARANTOR_BIN", target / "debug" / "guarantor"))
    return path if path.exists() else None


def command(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command line."""
    found = binary()
    assert found is not None
    return subprocess.run([found, *args], capture_output=True, text=True, check=False)


class Server:
    """A server process with a data directory of its own, which survives restarts."""

    def __init__(self, **settings: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="guarantor-")
        # What the tests themselves are told would be unknown settings.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GUARANTOR_")}
        self.data = Path(self._directory.name)
        own = {"LISTEN": f"{HOST}:0", "DATA_DIR": self._directory.name, "LOG_FILTER": "error"}
        self._environment = kept | {f"GUARANTOR_{name}": value for name, value in {**own, **settings}.items()}
        self.start()

    def start(self) -> None:
        """Starts a process on the directory, and waits until it listens."""
        found = binary()
        assert found is not None
        self._process = subprocess.Popen(
            [found, "serve"], env=self._environment, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line.startswith("Guarantor listens on "), line
        self.url = line.removeprefix("Guarantor listens on ")

    def terminate(self) -> None:
        """Stops the process like an orchestrator."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stops the process like a crash."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def create_key(self, workspace: str = "default", role: str = "admin") -> str:
        """Creates an API key. The server asks for keys from its next start."""
        made = command("keys", "create", "--workspace", workspace, "--name", "test", "--role", role,
                       "--data-dir", self._directory.name)  # fmt: skip
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        self._directory.cleanup()


Script = Callable[["Proxy", socket.socket], None]


class Proxy:
    """Passes connections on to a server, except those for which there is a script, in their order."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.scripts: list[Script] = []
        self.connections = 0
        self.requests: list[bytes] = []
        """The first bytes of every connection, as far as they were read at once."""
        self._listener = socket.create_server((HOST, 0))
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            script = self.scripts.pop(0) if self.scripts else passed()
            threading.Thread(target=self._serve, args=(script, client), daemon=True).start()

    def _serve(self, script: Script, client: socket.socket) -> None:
        with suppress(OSError), client:
            script(self, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would leave the thread in accept, and the port open.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _pump(source: socket.socket, sink: socket.socket, most: int | None, seen: list[bytes]) -> None:
    """Copies bytes until the end, or until there were `most` of them; then both connections are cut."""
    left = most
    with suppress(OSError):
        while left is None or left > 0:
            chunk = source.recv(65_536 if left is None else min(65_536, left))
            if not chunk:
                break
            seen.append(chunk)
            left = None if left is None else left - len(chunk)
            sink.sendall(chunk)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def passed(*, request: int | None = None, response: int | None = None) -> Script:
    """Passes a connection on, and cuts it after that many bytes in one direction."""

    def script(proxy: Proxy, client: socket.socket) -> None:
        with socket.create_connection(proxy.target) as upstream:
            back = threading.Thread(target=_pump, args=(upstream, client, response, []), daemon=True)
            back.start()
            _pump(client, upstream, request, proxy.requests)
            back.join()

    return script


def answered(status: str, headers: dict[str, str] | None = None, body: str = "") -> Script:
    """Answers the first request itself, without the server."""

    def script(proxy: Proxy, client: socket.socket) -> None:
        proxy.requests.append(_head(client))
        lines = {"content-length": str(len(body.encode())), "connection": "close", **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        client.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n{body}".encode())
        client.shutdown(socket.SHUT_WR)
        # Until the client hangs up: a reset would take the answer with it.
        while client.recv(65_536):
            pass

    return script


def refused() -> Script:
    """Closes the connection without an answer."""

    def script(proxy: Proxy, client: socket.socket) -> None:
        proxy.requests.append(_head(client))

    return script


def _head(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = client.recv(65_536)
        if not chunk:
            break
        head += chunk
    return head
