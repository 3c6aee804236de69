"""Every operation of the OpenAPI document, through the client and a real server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from logs import ndjson
from servers import ROOT, Proxy, Server, answered

import guarantor
from guarantor import partials
from guarantor.client import (
    AsyncClient,
    Client,
    Conflict,
    Forbidden,
    GateClosed,
    NotFound,
    Unauthorized,
    UnexpectedResponse,
)

# Operations that the client does in another way, or leaves to others.
ELSEWHERE = {
    ("POST", "/v1/gate/{token}"): "for tools that can only POST; the client asks with GET",
}


def operations() -> dict[str, tuple[str, re.Pattern[str]]]:
    """The method and the path of every operation."""
    document = json.loads((ROOT / "openapi" / "openapi.json").read_text())
    found = {}
    for path, methods in document["paths"].items():
        pattern = re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path) + "$")
        for method, operation in methods.items():
            if (method.upper(), path) not in ELSEWHERE:
                found[operation["operationId"]] = (method.upper(), pattern)
    return found


def called(requests: list[httpx2.Request]) -> set[str]:
    """The operations that the requests were."""
    made = {(request.method, request.url.path) for request in requests}
    return {
        name
        for name, (method, pattern) in operations().items()
        if any(method == used and pattern.match(path) for used, path in made)
    }


def deployed(client: Client) -> Any:
    log = ndjson(1500, seed=51)
    spec: Any = {"min_improvement": 0.05, "metadata": {"app": "shop"}}
    return client.certify(log, format="ndjson", outcome="reward", **spec)


def use_gates(client: Client, job: str) -> None:
    gate = client.gates.create(name="shop", selector={"app": "shop"}, requirements={"min_improvement": 0.01})
    assert client.gates.ask("shop").job_id == job
    assert client.gates.ask("shop", max_age="7d", version="newest").ok
    with pytest.raises(GateClosed) as closed:
        client.gates.ask("shop", min_improvement=0.9)
    assert (closed.value.status, closed.value.code) == (403, "requirement_failed")
    assert closed.value.problem["required"] == 0.9
    assert client.jobs.gate(job, baseline="certified").decision == "deploy"
    with pytest.raises(GateClosed):
        client.jobs.gate(job, guardrails=[{"outcome": "complaints", "max_loss": 0.1}])
    for changed in ({"ok": False}, {"decision": "keep"}, {"decision": "maybe"}, {"ok": None}):
        body = json.dumps(client.gates.ask("shop").to_dict() | changed)
        with Proxy(("127.0.0.1", 9)) as proxy, Client(proxy.url) as misled:
            proxy.scripts = [answered("200 OK", {"content-type": "application/json"}, body)]
            with pytest.raises(UnexpectedResponse):
                misled.gates.ask("shop")
    assert client.gates.get("shop") == gate
    assert [found.name for found in client.gates.list()] == ["shop"]
    assert client.gates.change("shop", selector={"app": "other"}).selector == {"app": "other"}
    with pytest.raises(GateClosed) as nothing:
        client.gates.ask("shop")
    assert nothing.value.code == "no_matching_job"
    client.gates.change("shop", selector={"app": "shop"})
    token = client.gates.create_token("shop", name="argo")
    assert client.gates.ask_by_token(token.token).ok
    assert [found.id for found in client.gates.tokens("shop")] == [token.id]
    client.gates.revoke_token("shop", token)
    with pytest.raises(NotFound):
        client.gates.ask_by_token(token.token)
    client.gates.delete("shop")
    with pytest.raises(NotFound):
        client.gates.ask("shop")


def use_policies(client: Client, job: str) -> None:
    learned = client.jobs.policy(job, include="mean")
    assert learned.source_job_id == job
    parameters = client.policies.parameters(learned)
    copy = client.policies.create(parameters)  # type: ignore[arg-type]
    assert copy.digest == learned.digest
    contexts = [[i / 20_000, 0.5] for i in range(40_000)]  # more than one request
    propensities = client.policies.propensities(copy, contexts)
    assert len(propensities) == 40_000
    assert all(abs(sum(row) - 1) < 1e-9 for row in propensities[::1000])
    drawn = client.policies.actions(copy, contexts[:5], seed=3)
    assert drawn == client.policies.actions(copy, contexts[:5], seed=3)
    assert [action.propensity for action in drawn] == pytest.approx(
        [row[action.action] for row, action in zip(propensities, drawn, strict=False)]
    )
    assert client.policies.get(copy).id == copy.id
    assert copy.id in [policy.id for policy in client.policies.list()]
    client.policies.delete(copy)
    with pytest.raises(NotFound):
        client.policies.get(copy)


def use_webhooks(client: Client) -> None:
    webhook = client.webhooks.create(url="http://127.0.0.1:9/hook", events=["job.succeeded"])
    assert webhook.secret
    assert webhook.secret.startswith("whsec_")
    assert webhook.secret not in repr(webhook)
    assert client.webhooks.get(webhook).id == webhook.id
    assert [found.id for found in client.webhooks.list()] == [webhook.id]
    assert client.webhooks.change(webhook, url="http://127.0.0.1:9/other").url.endswith("/other")
    assert client.webhooks.rotate_secret(webhook, grace="1h").secret != webhook.secret
    delivery = client.webhooks.test(webhook)
    assert [found.id for found in client.webhooks.deliveries(webhook)] == [delivery.id]
    with suppress(Conflict):  # it may still wait for its first attempt
        assert client.webhooks.redeliver(webhook, delivery).id == delivery.id
    client.webhooks.delete(webhook)


def use_datasets(client: Client, dataset: str) -> None:
    grown = client.datasets.append(dataset, ndjson(100, seed=52), format="ndjson")
    assert (grown.rows, grown.version) == (1600, 2)
    more = client.datasets.add_candidates(grown, {"c": [0.5] * 1600})
    assert more.capabilities.candidates == ["c"]
    assert [version.version for version in client.datasets.versions(dataset)] == [3, 2, 1]
    ledger = client.datasets.ledger(dataset)
    assert (ledger.looks, [look.look for look in client.datasets.looks(dataset)]) == (1, [1])
    assert client.datasets.get(dataset).version == 3
    assert [found.id for found in client.datasets.list()] == [dataset]
    spare = client.datasets.create(ndjson(10, seed=53), format="ndjson", outcome="reward")
    client.datasets.delete(spare)
    with pytest.raises(NotFound):
        client.datasets.get(spare)


def use_imports(client: Client, file: Path) -> None:
    file.write_bytes(ndjson(30, seed=54))
    dataset = client.datasets.create_from(file.as_uri(), outcome="reward")
    assert client.imports.get(dataset).status == "succeeded"
    assert [found.id for found in client.imports.list()] == [dataset.id]
    assert [found.uri for found in client.imports.objects(dataset)] == [file.as_uri()]
    with pytest.raises(Conflict, match="import_finished"):
        client.imports.cancel(dataset.id)
    client.datasets.delete(dataset)


def use_partials(client: Client) -> None:
    recipe = partials.freeze(guarantor.simulate(rows=600, seed=1), outcome="reward")
    sums = [partials.partial(guarantor.simulate(rows=400, seed=2), recipe, "all")]
    merged = client.merge(recipe, sums, expected_rows=400, name="merged")
    assert merged.digest == partials.merge(recipe, sums).digest
    assert merged.learned_policy == recipe.policy
    assert client.verify(merged).signature == "valid"
    client.datasets.delete(merged.to_dict()["issued"]["dataset_id"])


def test_every_operation_works(own_server: Callable[..., Server], tmp_path: Path) -> None:
    server = own_server(WEBHOOK_ALLOW="http://127.0.0.1:9/", SOURCES_ALLOW=tmp_path.as_uri())
    key = server.create_key()
    server.kill()
    server.start()
    requests: list[httpx2.Request] = []
    with Client(server.url, key=key) as client:
        client._runner.http.event_hooks = {"request": [requests.append]}
        certificate = deployed(client)
        issued = certificate.to_dict()["issued"]
        use_gates(client, issued["job_id"])
        use_policies(client, issued["job_id"])
        use_webhooks(client)
        use_datasets(client, issued["dataset_id"])
        use_imports(client, tmp_path / "log.ndjson")
        use_partials(client)
        deploys = [job.id for job in client.jobs.list(decision="deploy", status="succeeded")]
        assert issued["job_id"] in deploys
        assert client.jobs.certificate(issued["job_id"]).to_dict() == certificate.to_dict()
        assert client.jobs.get(issued["job_id"]).status == "succeeded"
        assert len(list(client.jobs.events(issued["job_id"]))) == len(
            list(client.jobs.history(issued["job_id"]))
        )
        with pytest.raises(Exception, match="409 job_finished"):
            client.jobs.cancel(issued["job_id"])
        assert client.verify(certificate).signature == "valid"
        assert client.signing_keys().earlier == []
        assert client.plan(improvement=0.1, n_actions=2).possible
        assert client.health().status == "ok"
        assert client.is_ready()
        assert client.is_alive()
        assert "guarantor_" in client.metrics()
    missing = set(operations()) - called(requests)
    assert not missing, "operations of the OpenAPI document that the client does not have"


def test_lists_go_on_over_pages(client: Client) -> None:
    ids = [client.policies.create({"kind": "uniform", "n_actions": 2, "dim": i}).id for i in range(101)]
    policies = client.policies.list()
    newest_first = [next(policies).id for _ in ids]
    assert newest_first == ids[::-1], "more than one page"

    async def by_pages() -> list[str]:
        async with AsyncClient(client._settings.url) as own:
            return [policy.id async for policy in own.policies.list()]

    assert asyncio.run(by_pages())[:101] == newest_first


def test_keys_roles_and_workspaces(own_server: Callable[..., Server]) -> None:
    server = own_server()
    admin, reader, stranger = (
        server.create_key("a"),
        server.create_key("a", "read"),
        server.create_key("b"),
    )
    server.kill()
    server.start()
    with Client(server.url, key=admin) as client:
        dataset = client.datasets.create(ndjson(10, seed=55), format="ndjson", outcome="reward")
    with Client(server.url) as nobody, pytest.raises(Unauthorized):
        nobody.datasets.get(dataset)
    with Client(server.url, key="wrong") as nobody, pytest.raises(Unauthorized):
        nobody.datasets.get(dataset)
    with Client(server.url, key=reader) as client:
        assert client.datasets.get(dataset) == dataset
        with pytest.raises(Forbidden) as error:
            client.datasets.delete(dataset)
        assert error.value.code == "role_not_sufficient"
    with Client(server.url, key=stranger) as client, pytest.raises(NotFound):
        client.datasets.get(dataset)


def test_ids_cannot_leave_their_path(client: Client) -> None:
    for hostile in ("../../healthz", "a/b", "a?b=c", "%2e%2e"):
        with pytest.raises(Exception) as error:  # noqa: PT011 - 400 or 404, never another resource
            client.datasets.get(hostile)
        assert getattr(error.value, "status", None) in (400, 404, 422), error.value
    for hostile in ("", ".", ".."):
        with pytest.raises(ValueError, match="not an id"):
            client.datasets.get(hostile)
