"""A notebook becomes a pipeline by changing one line: the same calls, in process and by a server, mean the same."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from logs import rows

import guarantor
from guarantor.client import Client

MADE = rows(2000, seed=71)
BEST = np.array([[0.0, 1.0, 0.0] if row["x"][0] > 0 else [0.0, 0.0, 1.0] for row in MADE])
LOGGED = [p[row["action"]] for p, row in zip(BEST, MADE, strict=True)]
UNIFORM = {"kind": "uniform", "n_actions": 3, "dim": 2}


def notebook(here: Any) -> dict[str, Any]:
    """What a notebook does with `here`, which is the package or a client, and what it reads off the results."""
    frame = pd.DataFrame(MADE).assign(reward=lambda rows: 10 * rows["reward"])
    log: Any = {"outcome": "reward", "outcome_max": 10.0}
    report = here.inspect(frame, **log)
    learned = here.certify(frame, min_improvement=0.01, metadata={"app": "shop"}, name="shop", **log)
    given = here.evaluate(
        frame, {"best": BEST, "logged": LOGGED, "uniform": UNIFORM}, independent_of_log=True, **log
    )
    plan = here.plan(0.05, n_actions=3)
    x = [row["x"] for row in MADE[:5]]
    return {
        "report": (report.rows, report.n_actions, report.dim, report.digest, report.warnings),
        "health": report.health.model_dump(),
        "decisions": (learned.decision, learned.deploy, given.decision, given.candidate),
        "digests": (learned.digest, given.digest),
        "paper's units": (learned.guaranteed_improvement, learned["guaranteed_improvement"]),
        "outcome's units": (
            learned.guaranteed_outcome_improvement,
            learned.guaranteed_outcome,
            learned.baseline_outcome,
        ),
        "reasons": [(reason.code, reason.message) for reason in learned.reasons],
        "checks": (learned.failed_checks, [check.name for check in learned.checks]),
        "candidates": [
            (found.decision, found.user_units.guaranteed_improvement) for found in given.candidates
        ],
        "policy": (learned.policy.digest, learned.learned_policy.digest, learned.confidence),
        "plays": learned.learned_policy.propensities(x).tolist(),
        "evaluated": given.learned_policy,
        "plan": (plan.possible, plan.rows, plan.message),
        "texts": (repr(learned), repr(plan), learned.statement),
        "html": (report._repr_html_(), learned._repr_html_(), plan._repr_html_()),
    }


def test_the_same_calls_mean_the_same(client: Client) -> None:
    here, there = notebook(guarantor), notebook(client)
    assert here.keys() == there.keys()
    for what in here:
        assert here[what] == there[what], what
    assert here["decisions"][:3] == ("deploy", True, "deploy")
    improvement = here["paper's units"][0]
    assert here["outcome's units"][0] == pytest.approx(10 * improvement)


def test_results_are_read_only_documents() -> None:
    certificate = guarantor.certify(guarantor.simulate(rows=1000, seed=3), outcome="reward")
    assert isinstance(certificate, guarantor.Certificate)
    certificate.to_dict()["decision"] = "changed"
    assert certificate["decision"] in ("deploy", "keep")
    with pytest.raises(ValueError, match="frozen"):
        certificate.decision = "deploy"
    with pytest.raises(TypeError, match="deploy"):
        bool(certificate)
    again = pickle.loads(pickle.dumps(certificate))
    assert again == certificate
    assert again.learned_policy == certificate.learned_policy


def test_arrays_of_candidates_need_the_rows_of_a_frame() -> None:
    frame = pd.DataFrame(MADE)
    with pytest.raises(ValueError, match="1999 rows, and the log has 2000"):
        guarantor.evaluate(frame, {"best": BEST[1:]}, outcome="reward", independent_of_log=True)
    with pytest.raises(ValueError, match="data frame"):
        guarantor.evaluate("log.parquet", {"best": BEST}, outcome="reward", independent_of_log=True)
