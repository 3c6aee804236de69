"""Logs by reference, which a real server reads from a folder that its operator allows."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from conftest import HASTY
from logs import ndjson, rows
from servers import Server

from guarantor.client import (
    AsyncClient,
    Client,
    Conflict,
    Forbidden,
    ImportCanceled,
    ImportFailed,
    ImportTimeout,
    InvalidRequest,
    JobFailed,
    NotFound,
)
from guarantor.client.models import ImportProgress


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of a log, and one with a row that is wrong."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "day-1.ndjson").write_bytes(ndjson(400, seed=71))
    (logs / "day-2.ndjson").write_bytes(ndjson(300, seed=72))
    wrong = ndjson(5, seed=73).splitlines(keepends=True)
    wrong[2] = wrong[2].replace(b'"action": ', b'"action": 3')
    (logs / "wrong.ndjson").write_bytes(b"".join(wrong))
    return logs


@pytest.fixture
def place(folder: Path, own_server: Callable[..., Server]) -> Server:
    """A server that may read the folder."""
    return own_server(SOURCES_ALLOW=folder.as_uri())


@pytest.fixture
def reader(place: Server) -> Iterator[Client]:
    with Client(place.url, retry=HASTY) as made:
        yield made


def test_a_log_by_reference_is_the_log_that_would_have_been_uploaded(reader: Client, folder: Path) -> None:
    seen: list[ImportProgress] = []
    uri = f"{folder.as_uri()}/day-*.ndjson"
    dataset = reader.datasets.create_from(uri, outcome="reward", name="by reference", progress=seen.append)
    assert (dataset.rows, dataset.name, dataset.pinned) == (700, "by reference", False)
    content = b"".join((folder / f"day-{day}.ndjson").read_bytes() for day in (1, 2))
    uploaded = reader.datasets.create(content, format="ndjson", outcome="reward")
    assert dataset.digest == uploaded.digest
    assert all(0 <= report.bytes_read <= report.bytes for report in seen)
    # The import has the id of its dataset, and says what was read.
    found = reader.imports.get(dataset)
    assert (found.id, found.status, found.uris, found.materialize) == (
        dataset.id, "succeeded", [uri], True)  # fmt: skip
    objects = list(reader.imports.objects(dataset))
    assert [Path(each.uri).name for each in objects] == ["day-1.ndjson", "day-2.ndjson"]
    assert sum(each.bytes for each in objects) == len(content)
    assert [each.id for each in reader.imports.list()] == [dataset.id]
    assert reader.certify(dataset).decision in ("deploy", "keep")
    reader.datasets.delete(dataset)
    with pytest.raises(NotFound):
        reader.imports.get(dataset.id)


def test_the_first_outcome_that_is_declared_is_the_primary_one(reader: Client, folder: Path) -> None:
    shop = rows(50, seed=77)
    for row in shop:
        row["outcomes"] = {"revenue": row.pop("reward"), "complaint": 0}
    file = folder / "shop.ndjson"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in shop))
    outcomes: Any = {"revenue": {"kind": "reward"}, "complaint": {"kind": "cost"}}
    dataset = reader.datasets.create_from(file.as_uri(), outcomes=outcomes)
    assert [outcome.name for outcome in dataset.capabilities.outcomes or []] == ["revenue", "complaint"]
    uploaded = reader.datasets.create(file, outcomes=outcomes)
    assert dataset.digest == uploaded.digest


def test_a_pinned_object_that_changes_fails_the_job(reader: Client, folder: Path) -> None:
    file = folder / "day-1.ndjson"
    dataset = reader.datasets.create_from([file.as_uri()], materialize=False, outcome="reward")
    assert dataset.pinned
    assert reader.certify(dataset).decision in ("deploy", "keep")
    with pytest.raises(InvalidRequest, match="pinned"):
        reader.datasets.append(dataset, ndjson(10, seed=74), format="ndjson")
    file.write_bytes(ndjson(400, seed=75))
    with pytest.raises(JobFailed, match=r"day-1\.ndjson") as failed:
        reader.certify(dataset, seed=2)
    assert failed.value.job.error
    assert failed.value.job.error.code == "source_changed"


def test_a_rejected_log_is_an_error_with_its_rows(reader: Client, folder: Path) -> None:
    uri = (folder / "wrong.ndjson").as_uri()
    with pytest.raises(ImportFailed) as failed:
        reader.datasets.create_from(uri, outcome="reward")
    error = failed.value
    assert (error.code, error.uri) == ("invalid_rows", uri)
    assert [(fault.row, fault.field) for fault in error.errors] == [(3, "action")]
    assert "row 3, action" in str(error)
    assert uri in str(error)
    assert error.import_.status == "failed"
    assert "row 3" in error.import_._repr_html_()
    with pytest.raises(NotFound):
        reader.datasets.get(error.import_.id)
    with pytest.raises(ImportFailed) as missing:
        reader.datasets.create_from(f"{folder.as_uri()}/none-*.ndjson", outcome="reward")
    assert (missing.value.code, missing.value.errors) == ("source_not_found", [])


def test_only_allowed_places_are_read(reader: Client, client: Client, folder: Path) -> None:
    for uris, code in ((["s3://logs/x.ndjson"], "address_not_allowed"), ("x.ndjson", "invalid_value")):
        with pytest.raises(InvalidRequest) as rejected:
            reader.datasets.create_from(uris)
        assert (rejected.value.code, rejected.value.field) == (code, "source.uris[0]")
    with pytest.raises(Forbidden) as off:
        client.datasets.create_from(folder.as_uri() + "/day-1.ndjson")
    assert off.value.code == "sources_off"
    # What looks like an address is never taken for a file of the client's machine.
    with pytest.raises(ValueError, match="create_from"):
        client.datasets.create("s3://logs/x.ndjson")


def test_imports_are_queued_waited_for_and_canceled(reader: Client, folder: Path) -> None:
    uri = (folder / "day-2.ndjson").as_uri()
    queued = reader.imports.create(uri, outcome="reward", idempotency_key="nightly")
    assert reader.imports.create(uri, outcome="reward", idempotency_key="nightly").id == queued.id
    assert reader.imports.wait(queued).status == "succeeded"
    assert reader.imports.result(queued).rows == 300
    assert "Succeeded" in reader.imports.get(queued)._repr_html_()
    with pytest.raises(Conflict, match="import_finished"):
        reader.imports.cancel(queued)


@pytest.fixture
def stuck(own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose bucket accepts connections and never answers, so that imports run until they are canceled."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        # Progress is written when the lease is renewed.
        yield own_server(
            SOURCES_ALLOW="s3://logs", S3_ENDPOINT=endpoint, S3_ALLOW_HTTP="true", LEASE_SECONDS="1"
        )


ENDLESS = "s3://logs/day-1.ndjson"


def test_an_import_that_takes_too_long_goes_on(stuck: Server) -> None:
    with Client(stuck.url, retry=HASTY) as client:
        queued = client.imports.create(ENDLESS, outcome="reward")
        with pytest.raises(ImportTimeout, match="goes on") as late:
            client.imports.result(queued, timeout=0)
        assert isinstance(late.value, TimeoutError)
        assert late.value.import_.id == queued.id
        client.imports.cancel(queued)
        assert client.imports.wait(queued).status == "cancelled"
        with pytest.raises(ImportCanceled) as canceled:
            client.imports.result(queued)
        assert canceled.value.import_.id == queued.id
        # Canceling again changes nothing.
        assert client.imports.cancel(queued).status == "cancelled"


def test_ctrl_c_cancels_the_import(stuck: Server) -> None:
    def interrupt(_: ImportProgress) -> None:
        raise KeyboardInterrupt

    with Client(stuck.url, retry=HASTY) as client:
        with pytest.raises(KeyboardInterrupt):
            client.datasets.create_from(ENDLESS, outcome="reward", progress=interrupt)
        (found,) = client.imports.list()
        assert client.imports.wait(found).status == "cancelled"


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_canceled_task_cancels_the_import(stuck: Server, loop: str) -> None:
    pytest.importorskip(loop)

    async def work() -> None:
        async with AsyncClient(stuck.url, retry=HASTY) as own:
            with anyio.CancelScope() as scope:
                await own.datasets.create_from(
                    ENDLESS, outcome="reward", materialize=False, progress=lambda _: scope.cancel()
                )
            assert scope.cancelled_caught
            (found,) = [each async for each in own.imports.list()]
            assert (await own.imports.wait(found)).status == "cancelled"

    anyio.run(work, backend=loop)


def test_the_asynchronous_client_imports_too(place: Server, folder: Path) -> None:
    async def work() -> None:
        async with AsyncClient(place.url, retry=HASTY) as own:
            uri = (folder / "day-1.ndjson").as_uri()
            dataset = await own.datasets.create_from(uri, outcome="reward")
            assert [each.uri async for each in own.imports.objects(dataset)] == [uri]

    anyio.run(work)


def test_waiting_asks_once_for_as_long_as_the_server_lets_it(reader: Client, folder: Path) -> None:
    asked: list[Any] = []

    def note(request: httpx2.Request) -> None:
        asked.append((request.method, request.url.params.get("wait")))

    reader._runner.http.event_hooks = {"request": [note]}
    reader.datasets.create_from((folder / "day-1.ndjson").as_uri(), outcome="reward")
    assert asked == [("POST", None), ("GET", "60"), ("GET", None)]
