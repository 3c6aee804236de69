"""Errors, progress, Ctrl-C, panics, memory: how calls behave besides their results."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from native_support import program

import guarantor
from guarantor import _native


def arrays(n: int = 200) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "x": rng.normal(size=(n, 3)),
        "action": rng.integers(0, 3, size=n),
        "propensities": np.full((n, 3), 1 / 3),
        "reward": rng.integers(0, 2, size=n).astype(float),
    }


def test_a_rejected_row_has_its_number_field_and_reason() -> None:
    log = arrays()
    log["reward"][41] = 7.0
    log["action"][99] = -1
    with pytest.raises(guarantor.LogError) as caught:
        guarantor.certify(log, outcome="reward")
    rows = caught.value.rows
    assert [(row.row, row.field) for row in rows] == [(42, "reward"), (100, "action")]
    assert caught.value.total == 2
    assert "7" in rows[0].reason
    assert "row 42, reward" in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_missing_feature_is_a_rejected_row() -> None:
    log = arrays()
    frame = {"a": [None if i == 9 else 1.0 for i in range(200)], **{k: log[k] for k in ("action", "reward")}}
    frame["propensity"] = [1 / 3] * 200
    table = pa.table({name: pa.array(list(values)) for name, values in frame.items()})
    with pytest.raises(guarantor.LogError) as caught:
        guarantor.read(table, features=["a"], outcome="reward", n_actions=3)
    assert caught.value.rows[0].row == 10
    assert caught.value.rows[0].field.startswith("x")


def test_the_file_at_fault_is_named(tmp_path: Path) -> None:
    good = '{"action":1,"propensity":0.5,"cost":-1}\n'
    (tmp_path / "a.ndjson").write_text(good * 3)
    (tmp_path / "b.ndjson").write_text(good + '{"action":1,"propensity":2,"cost":-1}\n')
    with pytest.raises(guarantor.LogError, match=r"b\.ndjson") as caught:
        guarantor.read([tmp_path / "a.ndjson", tmp_path / "b.ndjson"])
    assert [(row.row, row.field) for row in caught.value.rows] == [(2, "propensity")]
    with pytest.raises(FileNotFoundError):
        guarantor.read(tmp_path / "none.csv")
    with pytest.raises(guarantor.SpecError, match="set format"):
        guarantor.read(tmp_path / "log.txt")


def test_a_spec_that_cannot_run_has_its_code_and_field() -> None:
    with pytest.raises(guarantor.SpecError) as caught:
        guarantor.certify(arrays(), outcome="reward", delta=2.0)
    assert (caught.value.code, caught.value.field) == ("invalid_value", "delta")
    with pytest.raises(guarantor.SpecError, match="dleta"):
        guarantor.certify(arrays(), outcome="reward", spec={"dleta": 0.1})
    log = arrays()
    del log["x"]
    with pytest.raises(guarantor.SpecError) as caught:
        guarantor.certify(log, outcome="reward")
    assert caught.value.code == "learning_needs_features"
    with pytest.raises(guarantor.SpecError, match="max_memory") as caught:
        guarantor.certify(arrays(), outcome="reward", max_memory=1000)
    assert caught.value.code == "job_too_large"


def test_misuse_is_explained() -> None:
    with pytest.raises(TypeError, match="data frame"):
        guarantor.certify(42)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="different lengths"):
        guarantor.certify({"action": [1, 0], "propensity": [0.5]})
    with pytest.raises(guarantor.SpecError, match='no column "age"'):
        guarantor.read(arrays(), features=["age"])
    with pytest.raises(guarantor.LogError, match="action"):
        guarantor.read({"propensity": [0.5], "cost": [0.0]})
    log = guarantor.read(arrays(), outcome="reward")
    with pytest.raises(ValueError, match="read already"):
        guarantor.certify(log, outcome="reward")
    with pytest.raises(TypeError, match="deploy"):
        bool(guarantor.certify(log))


def test_a_log_that_was_read_serves_several_jobs() -> None:
    log = guarantor.read(arrays(), outcome="reward")
    first, second = guarantor.certify(log, delta=0.1), guarantor.certify(log, delta=0.2)
    assert first["dataset"]["digest"] == second["dataset"]["digest"] == log.digest
    assert guarantor.inspect(log).rows == len(log) == 200


def test_progress_grows_and_ends() -> None:
    seen: list[guarantor.Progress] = []
    guarantor.certify(guarantor.simulate(rows=3000), outcome="reward", progress=seen.append)
    assert seen[-1].phase == "done"
    assert seen[-1].fraction == 1.0
    assert all(a.fraction <= b.fraction for a, b in itertools.pairwise(seen))


def test_an_exception_of_the_progress_function_ends_the_job() -> None:
    def stop(_: guarantor.Progress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        guarantor.certify(guarantor.simulate(rows=3000), outcome="reward", progress=stop)


def test_ctrl_c_ends_the_job() -> None:
    # Once the job has started, another thread sends the signal. The learned policy would take many epochs more.
    started = threading.Event()

    def interrupt() -> None:
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    spec = {"bound": "cbb", "prior": {"kind": "zero"}, "optimizer": {"preset": "paper", "epochs": 100000}}
    with pytest.raises(KeyboardInterrupt):
        guarantor.certify(
            guarantor.simulate(rows=4000),
            outcome="reward",
            logging="fixed",
            spec=spec,
            progress=lambda progress: started.set() if progress.phase == "learning" else None,
        )
    killer.join()


def test_other_threads_run_meanwhile() -> None:
    # The rows come from a generator, which needs the interpreter while the engine reads. If the call kept the
    # interpreter to itself, this would wait forever.
    table = pa.table(guarantor.simulate(rows=500))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=100)

    stream = pa.RecordBatchReader.from_batches(table.schema, batches())
    assert len(guarantor.read(stream, outcome="reward")) == 500


def test_an_exception_of_a_stream_is_an_error() -> None:
    table = pa.table(guarantor.simulate(rows=500))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=100)
        raise OSError("the disk is gone")

    stream = pa.RecordBatchReader.from_batches(table.schema, batches())
    with pytest.raises(guarantor.LogError, match="the disk is gone"):
        guarantor.read(stream, outcome="reward")
    consumed = pa.RecordBatchReader.from_batches(table.schema, batches()).__arrow_c_stream__()

    class Again:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return consumed

    with pytest.raises(guarantor.LogError):
        guarantor.read(Again())
    with pytest.raises(ValueError, match="already consumed"):
        guarantor.read(Again())


def test_a_panic_is_an_exception() -> None:
    with pytest.raises(guarantor.EngineError, match="on purpose"):
        _native.panic_for_test()
    assert isinstance(guarantor.EngineError("x"), guarantor.GuarantorError)


def test_arrays_are_shared_and_not_copied() -> None:
    x = np.arange(12.0).reshape(4, 3)
    action = np.array([0, 1, 2, 0], dtype=np.int32)
    table = pa.table(guarantor.table({"x": x, "action": action}))
    values = table["x"].chunk(0).values
    assert values.buffers()[1].address == x.ctypes.data
    assert table["action"].chunk(0).buffers()[1].address == action.ctypes.data
    # A column of another order or byte order is copied, and its numbers are the same.
    for other in [np.asfortranarray(x), x[:, ::-1], x.astype(">f8"), x.astype(np.float16)]:
        column = pa.table(guarantor.table({"x": other}))["x"]
        assert np.array_equal(np.array(column.to_pylist()), np.asarray(other, dtype=float))


def test_columns_of_every_type_arrive() -> None:
    n = 50
    log = arrays(n)
    log["timestamp"] = np.datetime64("2026-01-01") + np.arange(n).astype("timedelta64[m]")
    log["event_id"] = np.array([f"e{i}" for i in range(n)])
    log["policy_version"] = np.array(["a"] * n, dtype=object)
    log["reward"] = log["reward"] > 0.5
    report = guarantor.inspect(log, outcome="reward")
    assert report["capabilities"]["timestamps"] is True
    assert report.rows == n


def test_verify_finds_what_was_changed(tmp_path: Path) -> None:
    log = guarantor.simulate(rows=1200, seed=8)
    certificate = guarantor.certify(log, outcome="reward")
    verification = guarantor.verify(certificate, log=log)
    assert verification.valid
    assert bool(verification)
    forged = certificate.to_dict()
    forged["bounds"][0]["value"] = 0.0
    failed = guarantor.verify(forged, log=log).failed
    assert "digest" in failed
    assert "bounds" in failed
    other = guarantor.verify(certificate, log=guarantor.simulate(rows=1200, seed=9))
    assert "dataset" in other.failed
    with pytest.raises(ValueError, match="public_key"):
        guarantor.verify(certificate)
    with pytest.raises(guarantor.SpecError, match="extra"):
        guarantor.verify({**certificate.to_dict(), "extra": 1}, log=log)
    certificate.save(tmp_path / "certificate.json")
    assert guarantor.verify(tmp_path / "certificate.json", log=log).valid


def test_verify_checks_signatures(tmp_path: Path) -> None:
    log = str(tmp_path / "log.ndjson")
    guarantor.simulate(rows=600, seed=8, out=log)
    signed = subprocess.run(
        [
            program(),
            "certify",
            log,
            "--outcome",
            "reward",
            "--json",
            "--signing-key",
            str(tmp_path / "key.json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(signed.stdout)
    key = signed.stderr.split()[-1]
    assert guarantor.verify(document, public_key=key).valid
    assert guarantor.verify(document, public_key=key, log=log).valid
    assert guarantor.verify(document, log=log).unchecked == ["signature"]
    document["statement"] = "Deploy everything."
    assert guarantor.verify(document, public_key=key).failed == ["signature", "digest"]


def test_candidates_of_the_log_are_evaluated() -> None:
    log = arrays(3000)
    rng = np.random.default_rng(1)
    log["reward"] = (rng.random(3000) < np.where(log["action"] == 2, 0.9, 0.2)).astype(float)
    log["candidate.third"] = np.where(log["action"] == 2, 1.0, 0.0)
    log["candidate.first"] = np.where(log["action"] == 0, 1.0, 0.0)
    options: Any = {"outcome": "reward", "exact_propensities": True, "independent_of_log": True}
    certificate = guarantor.evaluate(log, ["third", "first"], **options)
    decisions = {entry["candidate"]: entry["decision"] for entry in certificate["candidates"]}
    assert decisions == {"logged:third": "deploy", "logged:first": "keep"}
    assert certificate.learned_policy is None


def test_simulated_logs_are_those_of_the_command_line(tmp_path: Path) -> None:
    worlds: list[Literal["toy", "news", "shop"]] = ["toy", "news", "shop"]
    for world in worlds:
        arguments = ["simulate", "--dataset", world, "--rows", "60", "--seed", "3", "--out"]
        subprocess.run([program(), *arguments, tmp_path / "theirs.ndjson"], check=True, capture_output=True)
        guarantor.simulate(world, rows=60, seed=3, out=tmp_path / "ours.ndjson")
        assert (tmp_path / "ours.ndjson").read_bytes() == (tmp_path / "theirs.ndjson").read_bytes()
    with pytest.raises(guarantor.SpecError, match="rows"):
        guarantor.simulate(rows=0)
    with pytest.raises(guarantor.SpecError, match="interactions"):
        guarantor.simulate("shop", interactions=2)
