"""Broken connections, overload and restarts between the client and a real server."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pandas as pd
import pytest
from conftest import HASTY
from logs import ENDLESS, ndjson, rows
from servers import Proxy, Server, answered, passed, refused

from guarantor.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    GateClosed,
    JobCanceled,
    JobFailed,
    Retry,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)

BUSY = answered("429 Too Many Requests", {"retry-after": "0"}, '{"code": "too_many_requests"}')
AWAY = answered("503 Service Unavailable", {"retry-after": "0"}, "a proxy, not Guarantor")


def named(client: Client, name: str) -> int:
    return sum(dataset.name == name for dataset in client.datasets.list())


def test_overload_and_broken_connections_are_waited_out(server: Server, proxy: Proxy, client: Client) -> None:
    proxy.scripts = [BUSY, AWAY, refused(), passed(response=20)]
    with Client(proxy.url, retry=HASTY) as through:
        assert through.health().to_dict() == client.health().to_dict()
    assert proxy.connections == 5


def test_a_lost_answer_creates_one_dataset_and_one_job(proxy: Proxy, client: Client) -> None:
    frame = pd.DataFrame(rows(200, seed=31))
    with Client(proxy.url, retry=HASTY) as through:
        # The server has stored it, and the answer is cut off.
        proxy.scripts = [passed(response=30)]
        dataset = through.datasets.create(frame, outcome="reward", name="lost answer")
        proxy.scripts = [passed(response=30)]
    with Client(proxy.url, retry=HASTY) as through:
        job = through.jobs.create(dataset)
    assert named(client, "lost answer") == 1
    assert [found.id for found in client.jobs.list(dataset=dataset)] == [job.id]
    assert not proxy.scripts, "both answers were lost"


def test_an_upload_that_is_cut_is_sent_again(proxy: Proxy, client: Client) -> None:
    log = ndjson(4000, seed=32)
    proxy.scripts = [passed(request=len(log) // 2), BUSY]
    with Client(proxy.url, retry=HASTY) as through:
        dataset = through.datasets.create(log, format="ndjson", outcome="reward", name="cut")
    assert dataset.rows == 4000
    assert named(client, "cut") == 1
    assert proxy.connections == 3


def test_what_can_be_read_once_is_not_sent_twice(proxy: Proxy, client: Client) -> None:
    proxy.scripts = [passed(request=2000)]
    with Client(proxy.url, retry=HASTY) as through, pytest.raises(ConnectionFailed):
        through.datasets.create(iter([ndjson(400, seed=33)]), format="ndjson", outcome="reward", name="once")
    assert proxy.connections == 1
    assert named(client, "once") == 0


@pytest.mark.parametrize("fault", [BUSY, AWAY, refused()], ids=["429", "503", "closed"])
def test_what_acts_each_time_is_never_repeated(proxy: Proxy, fault: Any) -> None:
    proxy.scripts = [fault]
    kinds = (TooManyRequests, Unavailable, ConnectionFailed)
    with Client(proxy.url, retry=HASTY) as through, pytest.raises(kinds):
        through.webhooks.create(url="http://127.0.0.1:9/")
    assert proxy.connections == 1


def test_the_number_of_attempts_is_bounded(proxy: Proxy) -> None:
    proxy.scripts = [AWAY] * 9
    with Client(proxy.url, retry=Retry(attempts=3, first=0.001)) as through, pytest.raises(Unavailable):
        through.health()
    assert proxy.connections == 3
    proxy.scripts = [answered("503 Service Unavailable", {"retry-after": "3600"})]
    with Client(proxy.url, retry=HASTY) as through, pytest.raises(Unavailable) as asked:
        through.health()
    assert asked.value.retry_after == 3600.0
    assert proxy.connections == 4, "an hour is not waited in silence"


def test_nobody_listens(proxy: Proxy) -> None:
    proxy.__exit__()
    with Client(proxy.url, retry=HASTY) as client, pytest.raises(ConnectionFailed, match="ConnectError"):
        client.health()


def test_another_service_is_recognized(proxy: Proxy) -> None:
    proxy.scripts = [answered("200 OK", {"content-type": "text/html"}, "<html>"),
                     answered("302 Found", {"location": "https://sign-in.example/"})]  # fmt: skip
    with Client(proxy.url, key="k", retry=HASTY) as client:
        with pytest.raises(UnexpectedResponse, match="not a ServiceHealth"):
            client.health()
        with pytest.raises(UnexpectedResponse, match="not followed"):
            client.health()


def test_a_silent_server_is_given_up(proxy: Proxy) -> None:
    hold = threading.Event()

    def silent(_: Proxy, __: socket.socket) -> None:
        hold.wait(30)

    proxy.scripts = [silent] * 2
    retry = Retry(attempts=2, first=0.001)
    with (
        Client(proxy.url, timeout=0.2, retry=retry) as client,
        pytest.raises(ConnectionFailed, match="Timeout"),
    ):
        client.health()
    hold.set()
    assert proxy.connections == 2


def test_a_body_that_is_too_large_is_refused_clearly(own_server: Callable[..., Server]) -> None:
    server = own_server(MAX_UPLOAD_BYTES="100000")
    log = ndjson(5000, seed=34)
    assert len(log) > 300_000
    with Client(server.url, retry=HASTY) as client:
        for body in (log, iter([log[:50_000], log[50_000:]]), pd.DataFrame(rows(5000, seed=34))):
            form: Any = None if isinstance(body, pd.DataFrame) else "ndjson"
            with pytest.raises(TooLarge) as error:
                client.datasets.create(body, format=form, outcome="reward")
            assert error.value.code == "body_too_large"
            assert "100000" in str(error.value).replace(" ", "").replace(",", "")
        assert list(client.datasets.list()) == []


def test_the_key_is_in_no_error_no_log_and_no_representation(
    own_server: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = own_server()
    key = server.create_key()
    server.kill()
    server.start()
    with Client(server.url) as client, pytest.raises(Unauthorized):
        client.datasets.get("0")
    with Client(server.url, key=key) as client:
        client.gates.create(name="g", selector={"app": "g"})
        token = client.gates.create_token("g", name="argo")
        with pytest.raises(Exception) as closed:  # noqa: PT011 - whatever it is, it must not show the token
            client.gates.ask_by_token(token.token)
        with Proxy(server.address) as proxy:
            proxy.scripts = [refused()] * 9
            with Client(proxy.url, key=key, retry=HASTY) as broken, pytest.raises(ConnectionFailed) as failed:
                broken.gates.ask_by_token(token.token)
        shown = [
            repr(client),
            str(client),
            repr(client.datasets),
            repr(token),
            str(closed.value),
            repr(failed.value),
        ]
    text = "\n".join([*shown, caplog.text])
    assert "HTTP Request" in caplog.text, "httpx2 did log"
    assert key not in text
    assert token.token not in text
    for wrong in (
        "http://user:password@127.0.0.1:1",
        "ftp://127.0.0.1",
        "127.0.0.1:8080",
        "http://127.0.0.1/?a=b",
    ):
        with pytest.raises(ValueError) as rejected:  # noqa: PT011
            Client(wrong)
        assert "password@" not in str(rejected.value)
    with pytest.raises(ValueError, match="line break") as rejected:
        Client(server.url, key=f"{key}\n")
    assert key not in str(rejected.value)


def test_the_key_of_the_environment_goes_to_its_own_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARANTOR_URL", "http://127.0.0.1:7")
    monkeypatch.setenv("GUARANTOR_API_KEY", "secret")
    assert repr(Client()) == "<Client of http://127.0.0.1:7, with a key>"
    assert repr(AsyncClient("http://127.0.0.1:8")) == "<AsyncClient of http://127.0.0.1:8, without a key>"


def test_events_go_on_across_a_restart(own_server: Callable[..., Server]) -> None:
    server = own_server(SHUTDOWN_SECONDS="0")
    with (
        Proxy(server.address) as proxy,
        Client(proxy.url, retry=Retry(attempts=50, first=0.05, longest=0.2)) as client,
    ):
        dataset = client.datasets.create(
            ndjson(100, seed=35), format="ndjson", outcome="reward", logging="fixed"
        )
        job = client.jobs.create(dataset, **ENDLESS)
        ids, names = [], []
        restarted = False
        for event in client.jobs.events(job):
            ids.append(event.id)
            names.append(event.event)
            if event.event == "progress" and not restarted:
                restarted = True
                server.terminate()
                server.start()
                proxy.target = server.address
            if restarted and names.count("started") == 2 and "cancel_requested" not in names:
                client.jobs.cancel(job)
        assert restarted
        assert ids == list(range(1, len(ids) + 1)), "no event is missing, and none comes twice"
        assert names[-1] == "cancelled"
        assert names.count("started") == 2
        # Someone who comes late gets the rest of the history, and an end.
        assert [event.id for event in client.jobs.events(job, after=len(ids) - 1)] == [len(ids)]
        assert list(client.jobs.events(job, after=len(ids))) == []
        assert [event.id for event in client.jobs.history(job)] == ids


def test_streams_that_are_refused_or_cut_are_opened_again(proxy: Proxy, client: Client) -> None:
    dataset = client.datasets.create(ndjson(300, seed=36), format="ndjson", outcome="reward")
    job = client.jobs.wait(client.jobs.create(dataset))
    expected = [event.id for event in client.jobs.history(job)]
    # After the head and the first event. How many reports of progress follow depends on the machine.
    proxy.scripts = [BUSY, passed(response=400), refused(), AWAY]
    with Client(proxy.url, retry=HASTY) as through:
        assert [event.id for event in through.jobs.events(job)] == expected
    assert proxy.connections == 5


def test_ctrl_c_cancels_the_job(server: Server, client: Client) -> None:
    log = ndjson(100, seed=37)
    dataset = client.datasets.create(log, format="ndjson", outcome="reward", logging="fixed")

    def press() -> None:
        with Client(server.url) as other:
            while not (jobs := list(other.jobs.list(dataset=dataset))):
                pass
            next(event for event in other.jobs.events(jobs[0]) if event.event == "progress")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    # A process that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=press)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.certify(dataset, **ENDLESS)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    (job,) = client.jobs.list(dataset=dataset)
    with pytest.raises(JobCanceled):
        client.jobs.result(job)


def test_an_interruption_from_the_progress_callback_cancels_too(client: Client) -> None:
    log = ndjson(100, seed=42)
    dataset = client.datasets.create(log, format="ndjson", outcome="reward", logging="fixed")

    def see(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.certify(dataset, progress=see, **ENDLESS)
    (job,) = client.jobs.list(dataset=dataset)
    assert client.jobs.wait(job).status == "cancelled"


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_canceled_task_cancels_the_job(server: Server, client: Client, loop: str) -> None:
    pytest.importorskip(loop)
    dataset = client.datasets.create(
        ndjson(100, seed=380 + len(loop)), format="ndjson", outcome="reward", logging="fixed"
    )

    async def work() -> None:
        async with AsyncClient(server.url) as own:
            with anyio.CancelScope() as scope:
                await own.certify(dataset, progress=lambda _: scope.cancel(), **ENDLESS)
            assert scope.cancelled_caught

    anyio.run(work, backend=loop)
    (job,) = client.jobs.list(dataset=dataset)
    assert client.jobs.wait(job).status == "cancelled"


def test_a_failed_job_is_an_error_with_its_reason(own_server: Callable[..., Server]) -> None:
    server = own_server()
    with Client(server.url, retry=HASTY) as client:
        dataset = client.datasets.create(ndjson(300, seed=40), format="ndjson", outcome="reward")
        for path in (server.data / "blobs").rglob("*"):
            if path.is_file():
                path.write_bytes(b"")
        with pytest.raises(JobFailed, match="damaged") as failed:
            client.certify(dataset)
        assert failed.value.job.status == "failed"
        with pytest.raises(GateClosed) as closed:
            client.jobs.gate(failed.value.job)
        assert (closed.value.status, closed.value.code) == (424, "job_failed")


def test_an_operator_may_allow_shorter_waits(own_server: Callable[..., Server]) -> None:
    server = own_server(MAX_WAIT_SECONDS="1")
    with Client(server.url, retry=HASTY) as client:
        certificate = client.certify(ndjson(300, seed=39), format="ndjson", outcome="reward")
    assert certificate.decision in ("deploy", "keep")
