"""The verbs of the package, done by a server: the same results as the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from logs import ENDLESS, ndjson, rows
from servers import Server, command

from guarantor.client import AsyncClient, Client, InvalidRequest, InvalidRows, WaitTimeout, models

SPEC: dict[str, Any] = {"min_improvement": 0.01, "seed": 7}


@pytest.fixture(scope="module")
def by_command_line(tmp_path_factory: pytest.TempPathFactory, server: Server) -> dict[str, Any]:
    """The certificate of the command line on the log that all tests of this module certify."""
    directory = tmp_path_factory.mktemp("log")
    log, spec = directory / "log.ndjson", directory / "spec.json"
    log.write_bytes(ndjson(2000))
    spec.write_text(json.dumps(SPEC))
    done = command("certify", log, "--outcome", "reward", "--spec", spec, "--json")
    assert done.returncode == 0, done.stderr
    certificate: dict[str, Any] = json.loads(done.stdout)
    return certificate


def log_as(kind: str, tmp_path: Path) -> Any:
    table = pa.Table.from_pylist(rows(2000))
    match kind:
        case "pandas":
            return pd.DataFrame(rows(2000))
        case "polars":
            return pl.DataFrame(rows(2000))
        case "pyarrow":
            return table
        case "reader":
            return table.to_reader()
        case "parquet":
            pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
            return tmp_path / "log.parquet"
        case _:
            (tmp_path / "log.ndjson").write_bytes(ndjson(2000))
            return str(tmp_path / "log.ndjson")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "reader", "parquet", "ndjson"])
def test_the_digest_is_that_of_the_command_line(
    client: Client, by_command_line: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    dataset = client.datasets.create(log_as(kind, tmp_path), outcome="reward")
    assert dataset.digest == by_command_line["dataset"]["digest"]
    if kind in ("pandas", "ndjson"):
        certificate = client.certify(dataset, **SPEC)
        assert certificate.decision == "deploy"
        assert certificate.digest == by_command_line["digest"]
        assert certificate.to_dict()["issued"]["dataset_id"] == dataset.id


def test_one_call_is_upload_job_wait_and_certificate(client: Client, by_command_line: dict[str, Any]) -> None:
    seen: list[models.Progress] = []
    certificate = client.certify(pd.DataFrame(rows(2000)), outcome="reward", progress=seen.append, **SPEC)
    assert certificate.digest == by_command_line["digest"]
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1, "the end is reported, however short the job"
    assert client.verify(certificate).valid
    changed = {**certificate.to_dict(), "guaranteed_improvement": 0.9}
    checked = client.verify(changed)
    assert not checked.valid
    assert "signature" in [check.name for check in checked.checks if not check.ok]


def test_certificates_are_verified_as_text_and_from_files(client: Client, tmp_path: Path) -> None:
    certificate = client.certify(ndjson(300, seed=11), format="ndjson", outcome="reward")
    text = json.dumps(certificate.to_dict())
    (tmp_path / "certificate.json").write_text(text)
    for given in (text, text.encode(), tmp_path / "certificate.json", str(tmp_path / "certificate.json")):
        assert client.verify(given).valid
    with pytest.raises(TypeError, match="not int"):
        client.verify(7)  # type: ignore[arg-type]


def test_a_key_of_ones_own_makes_a_second_run_the_same_run(client: Client) -> None:
    frame = pd.DataFrame(rows(300, seed=12))
    first, second = (client.certify(frame, outcome="reward", idempotency_key="nightly-12") for _ in range(2))
    assert first.to_dict() == second.to_dict()
    ledger = client.datasets.ledger(first.to_dict()["issued"]["dataset_id"])
    assert ledger.looks == 1


def test_several_files_are_one_log(client: Client, tmp_path: Path) -> None:
    whole = ndjson(400, seed=13).splitlines(keepends=True)
    for i, part in enumerate((whole[:250], whole[250:])):
        (tmp_path / f"{i}.ndjson").write_bytes(b"".join(part))
    names = [tmp_path / "0.ndjson", tmp_path / "1.ndjson"]
    assert client.inspect(names, outcome="reward").digest == client.inspect(
        b"".join(whole), format="ndjson", outcome="reward"
    ).digest  # fmt: skip


def test_evaluate_takes_arrays_names_parameters_and_policies(client: Client) -> None:
    made = rows(1500, seed=14)
    best = [[0.0, 1.0, 0.0] if row["x"][0] > 0 else [0.0, 0.0, 1.0] for row in made]
    logged = [p[row["action"]] for p, row in zip(best, made, strict=True)]
    frame = pd.DataFrame(made)
    uniform: Any = {"kind": "uniform", "n_actions": 3, "dim": 2}
    certificate = client.evaluate(
        frame,
        outcome="reward",
        candidates={"best": best, "best_logged": logged, "uniform": uniform},
        independent_of_log=True,
    )
    results = {result.candidate: result.decision for result in certificate.candidates}
    assert len(results) == 3
    assert results["logged:best"] == results["logged:best_logged"] == "deploy"
    assert [d for name, d in results.items() if name.startswith("policy:")] == ["keep"]
    policy = client.policies.create(uniform)
    again = client.evaluate(
        client.datasets.create(pd.DataFrame(rows(500, seed=15)), outcome="reward"),
        candidates=[policy],
        independent_of_log=True,
    )
    assert again.decision == "keep"


def test_candidates_are_matched_by_event_ids(client: Client) -> None:
    made = [{**row, "event_id": f"e{i}"} for i, row in enumerate(rows(300, seed=16))]
    frame = pd.DataFrame(made)
    certificate = client.evaluate(
        frame, outcome="reward", candidates={"c": [[1 / 3] * 3] * 300}, independent_of_log=True
    )
    assert certificate.decision == "keep"


def test_evaluate_without_the_attestation_is_rejected(client: Client) -> None:
    log = pd.DataFrame(rows(300, seed=17))
    with pytest.raises(InvalidRequest) as error:
        client.evaluate(log, outcome="reward", candidates={"c": [0.5] * 300})
    assert error.value.code == "attestation_required"


def test_inspect_leaves_nothing_behind(client: Client) -> None:
    before = [dataset.id for dataset in client.datasets.list()]
    report = client.inspect(pd.DataFrame(rows(100, seed=18)), outcome="reward", name="inspected")
    assert report.health.action_counts
    assert [dataset.id for dataset in client.datasets.list()] == before
    stored = client.datasets.create(ndjson(100, seed=19), format="ndjson", outcome="reward")
    assert client.inspect(stored) == stored
    with pytest.raises(TypeError, match="on the server already"):
        client.certify(stored, outcome="cost")


def test_wrong_rows_are_named(client: Client) -> None:
    wrong = pd.DataFrame(rows(50, seed=20))
    wrong.loc[6, "reward"] = 2.0
    with pytest.raises(InvalidRows) as error:
        client.certify(wrong, outcome="reward")
    assert (error.value.row, error.value.field) == (7, "reward")
    assert "row 7, reward" in str(error.value)


def test_a_plan_is_that_of_the_command_line(client: Client) -> None:
    done = command("plan", "--improvement", "0.05", "--n-actions", "4", "--full-propensities", "--json")
    assert client.plan(improvement=0.05, n_actions=4, full_propensities=True).to_dict() == json.loads(
        done.stdout
    )


def test_waiting_ends_with_its_time_and_the_job_goes_on(client: Client) -> None:
    dataset = client.datasets.create(ndjson(100, seed=21), format="ndjson", outcome="reward", logging="fixed")
    with pytest.raises(WaitTimeout) as waited:
        client.certify(dataset, timeout=0.5, **ENDLESS)
    job = client.jobs.get(waited.value.job)
    assert job.status in ("queued", "running")
    client.jobs.cancel(job)
    assert client.jobs.wait(job).status == "cancelled"
    assert client.jobs.cancel(job).status == "cancelled", "canceling twice does no more"


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_asynchronous_client_does_the_same(
    server: Server, by_command_line: dict[str, Any], loop: str
) -> None:
    pytest.importorskip(loop)

    async def work() -> tuple[str, int, list[str]]:
        async with AsyncClient(server.url) as client:
            log = pd.DataFrame(rows(2000))
            certificate = await client.certify(log, outcome="reward", **SPEC)
            plan = await client.plan(0.1, n_actions=2)
            issued = certificate.to_dict()["issued"]
            events = [event.event async for event in client.jobs.events(issued["job_id"])]
            assert (await client.verify(certificate)).valid
            return certificate.digest, plan.rows or 0, events

    digest, needed, events = anyio.run(work, backend=loop)
    assert digest == by_command_line["digest"]
    assert needed > 0
    assert (events[0], events[-1]) == ("queued", "succeeded")
