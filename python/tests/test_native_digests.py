"""The same log and spec give the same digest, wherever they come from and whoever computes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from native_support import command_line, request
from servers import Server

import guarantor

ROWS = 1500
SPEC = {"min_improvement": 0.01, "delta": 0.1, "seed": 5}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("logs")
    for name in ["log.ndjson", "log.csv", "log.parquet", "log.arrows", "log.ndjson.gz"]:
        guarantor.simulate(rows=ROWS, seed=4, out=directory / name)
    (directory / "spec.json").write_text(json.dumps(SPEC))
    return directory


@pytest.fixture(scope="module")
def expected(logs: Path) -> dict[str, Any]:
    """The certificate of the command line."""
    return command_line(
        "certify", logs / "log.ndjson", "--outcome", "reward", "--spec", logs / "spec.json", "--json"
    )


def certify(data: Any, **options: Any) -> guarantor.Certificate:
    return guarantor.certify(data, outcome="reward", spec=SPEC, **options)


def test_files_give_the_certificate_of_the_command_line(logs: Path, expected: dict[str, Any]) -> None:
    certificate = certify(logs / "log.ndjson")
    assert certificate.to_dict() == expected
    for name in ["log.csv", "log.parquet", "log.arrows", "log.ndjson.gz"]:
        assert certify(str(logs / name)).digest == expected["digest"], name


def test_the_service_gives_the_same_digest(logs: Path, expected: dict[str, Any]) -> None:
    with Server() as running:
        url = running.url
        log = (logs / "log.parquet").read_bytes()
        dataset = request(f"{url}/v1/datasets?outcome=reward", log, "application/vnd.apache.parquet")
        job = request(f"{url}/v1/jobs", json.dumps({"dataset_id": dataset["id"], **SPEC}).encode())
        job = request(f"{url}/v1/jobs/{job['id']}?wait=60")
        assert job["status"] == "succeeded"
        certificate = request(f"{url}/v1/jobs/{job['id']}/certificate")
    assert certificate["digest"] == expected["digest"]
    assert certify(logs / "log.parquet").digest == certificate["digest"]


def frames() -> dict[str, Callable[[pa.Table], Any]]:
    def arrays(table: pa.Table) -> dict[str, Any]:
        # Lists of one length are matrices.
        return {name: np.array(table[name].to_pylist()) for name in table.column_names}

    return {
        "pyarrow": lambda table: table,
        "pyarrow batches": lambda table: pa.RecordBatchReader.from_batches(
            table.schema, table.to_batches(max_chunksize=97)
        ),
        "pandas": lambda table: table.to_pandas(),
        "pandas numpy": lambda table: pd.DataFrame({k: list(v) for k, v in arrays(table).items()}),
        "polars": pl.from_arrow,
        "duckdb": lambda table: duckdb.from_arrow(table),
        "arrays": arrays,
        "table": lambda table: guarantor.table(table),
        "simulated": lambda _: guarantor.simulate(rows=ROWS, seed=4),
    }


@pytest.mark.parametrize("library", frames())
def test_data_frames_give_the_same_digest(library: str, expected: dict[str, Any]) -> None:
    table = pa.table(guarantor.simulate(rows=ROWS, seed=4))
    assert certify(frames()[library](table)).digest == expected["digest"]


def test_feature_columns_and_other_names_give_the_same_digest(expected: dict[str, Any]) -> None:
    frame = pa.table(guarantor.simulate(rows=ROWS, seed=4)).to_pandas()
    x = np.stack(frame["x"].to_numpy())
    names = [f"feature_{j}" for j in range(x.shape[1])]
    columns = {name: x[:, j] for j, name in enumerate(names)}
    columns |= {"arm": frame["action"], "propensities": frame["propensities"], "click": frame["reward"] > 0.5}
    shaped = pd.DataFrame(columns)
    certificate = certify(shaped, features=names, rename={"arm": "action", "click": "reward"})
    assert certificate.digest == expected["digest"]
    # The order of the features is part of the log.
    other = certify(shaped, features=names[::-1], rename={"arm": "action", "click": "reward"})
    assert other.digest != expected["digest"]


def test_threads_and_several_files_change_nothing(
    tmp_path: Path, expected: dict[str, Any], logs: Path
) -> None:
    assert certify(logs / "log.ndjson", threads=1).digest == expected["digest"]
    lines = (logs / "log.ndjson").read_text().splitlines(keepends=True)
    (tmp_path / "a.ndjson").write_text("".join(lines[:400]))
    (tmp_path / "b.ndjson").write_text("".join(lines[400:]))
    assert certify([tmp_path / "a.ndjson", tmp_path / "b.ndjson"]).digest == expected["digest"]
    assert certify([tmp_path / "b.ndjson", tmp_path / "a.ndjson"]).digest != expected["digest"]


def test_another_number_or_spec_gives_another_digest(expected: dict[str, Any]) -> None:
    table = pa.table(guarantor.simulate(rows=ROWS, seed=4))
    rewards = table["reward"].to_numpy().copy()
    rewards[700] = 1 - rewards[700]
    changed = table.set_column(table.column_names.index("reward"), "reward", pa.array(rewards))
    assert certify(changed).digest != expected["digest"]
    assert certify(table, delta=0.2).digest != expected["digest"]


def test_policies_and_action_sets_give_the_digests_of_the_command_line(tmp_path: Path) -> None:
    guarantor.simulate("news", rows=600, seed=2, out=tmp_path / "news.dsjson")
    expected = command_line("certify", tmp_path / "news.dsjson", "--json")
    learned = guarantor.certify(tmp_path / "news.dsjson")
    assert learned.digest == expected["digest"]
    table = guarantor.simulate("news", rows=600, seed=2)
    assert guarantor.inspect(table, outcome="reward")["capabilities"]["action_sets"] is not None

    # A candidate that is a policy: its id follows from its parameters here and there.
    guarantor.simulate(rows=ROWS, seed=6, out=tmp_path / "log.parquet")
    policy = guarantor.certify(guarantor.simulate(rows=ROWS, seed=4), outcome="reward").learned_policy
    assert policy is not None
    policy.save(tmp_path / "policy.json")
    spec = {"candidates": [{"kind": "policy", "policy_id": "mine"}], "independent_of_log": True}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    arguments: list[str | Path] = ["--outcome", "reward", "--spec", tmp_path / "spec.json", "--json"]
    named = f"mine={tmp_path / 'policy.json'}"
    expected = command_line("certify", tmp_path / "log.parquet", *arguments, "--policy", named)
    by_name = guarantor.certify(
        tmp_path / "log.parquet", outcome="reward", spec=spec, policies={"mine": tmp_path / "policy.json"}
    )
    assert by_name.to_dict() == expected
    evaluated = guarantor.evaluate(
        tmp_path / "log.parquet", [policy], outcome="reward", independent_of_log=True
    )
    assert evaluated.digest == expected["digest"]


def test_a_logging_policy_supplies_propensities(tmp_path: Path) -> None:
    uniform = {"kind": "uniform", "n_actions": 5, "dim": 8}
    table = pa.table(guarantor.simulate(rows=ROWS, seed=6, policy=uniform)).drop_columns(["propensities"])
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "uniform.json").write_text(json.dumps(uniform))
    arguments: list[str | Path] = [
        "--outcome",
        "reward",
        "--logging-policy",
        tmp_path / "uniform.json",
        "--json",
    ]
    expected = command_line("certify", tmp_path / "log.parquet", *arguments)
    certificate = guarantor.certify(table, outcome="reward", logging_policy=uniform)
    assert certificate.digest == expected["digest"]


def test_inspect_reports_what_the_command_line_reports(logs: Path) -> None:
    expected = command_line("inspect", logs / "log.csv", "--outcome", "reward", "--json")
    assert guarantor.inspect(logs / "log.csv", outcome="reward").to_dict() == expected


def test_plan_is_that_of_the_command_line() -> None:
    expected = command_line("plan", "--improvement", "0.03", "--n-actions", "4", "--json")
    assert guarantor.plan(0.03, n_actions=4).to_dict() == expected


def test_arrays_need_no_pyarrow(expected: dict[str, Any]) -> None:
    # A process without pyarrow: arrays, pandas and polars still work.
    program = f"""
import sys
sys.modules["pyarrow"] = None
import numpy as np, pandas as pd, polars as pl, guarantor
frame = pl.DataFrame(guarantor.simulate(rows={ROWS}, seed=4))
arrays = {{name: np.array(frame[name].to_list()) for name in frame.columns}}
pandas = pd.DataFrame({{name: list(values) for name, values in arrays.items()}})
for data in [arrays, frame, pandas]:
    print(guarantor.certify(data, outcome="reward", spec={SPEC!r}).digest)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [expected["digest"]] * 3, done.stderr
