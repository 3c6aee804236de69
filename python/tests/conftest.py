"""A server for all tests that need one, and for the examples in docstrings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from servers import Proxy, Server, binary

from guarantor.client import Client, Retry

# Waits that a test does not notice.
HASTY = Retry(attempts=5, first=0.001)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server without keys. Its rows differ from test to test, so that looks do not add up."""
    if binary() is None:
        pytest.skip("there is no server: build it with cargo build, or name it in GUARANTOR_BIN")
    with Server(WEBHOOK_ALLOW="http://127.0.0.1:9/") as running:
        yield running


@pytest.fixture
def own_server() -> Iterator[Callable[..., Server]]:
    """Starts servers of a test's own."""
    if binary() is None:
        pytest.skip("there is no server: build it with cargo build, or name it in GUARANTOR_BIN")
    started: list[Server] = []

    def start(**settings: str) -> Server:
        started.append(Server(**settings))
        return started[-1]

    yield start
    for one in started:
        one.__exit__()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """A client of the server."""
    with Client(server.url, retry=HASTY) as made:
        yield made


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy in front of the server."""
    with Proxy(server.address) as made:
        yield made


@pytest.fixture(autouse=True)
def _server_of_examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of the client say `Client()`, which asks the environment."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.name.startswith("guarantor.client"):
        running: Server = request.getfixturevalue("server")
        monkeypatch.setenv("GUARANTOR_URL", running.url)
        monkeypatch.delenv("GUARANTOR_API_KEY", raising=False)
