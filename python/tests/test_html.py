"""Drawings: complete, without scripts, and safe with hostile texts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

import guarantor
from guarantor import _html


@pytest.fixture(scope="module")
def deploy() -> guarantor.Certificate:
    return guarantor.certify(guarantor.simulate(rows=3000, seed=1), outcome="reward")


@pytest.fixture(scope="module")
def keep() -> guarantor.Certificate:
    return guarantor.certify(guarantor.simulate(rows=60, seed=1), outcome="reward")


def parsed(html: str) -> ET.Element:
    """Every element is closed, so the text is XML too. Nothing in it can run or load."""
    root = ET.fromstring(html)
    for element in root.iter():
        assert element.tag not in {"script", "style", "link", "img", "iframe", "object", "foreignObject"}
        assert not any(name.lower().startswith("on") or "href" in name.lower() for name in element.attrib)
    return root


def text_of(html: str) -> str:
    return " ".join("".join(parsed(html).itertext()).split())


def test_certificates_show_verdict_interval_waterfall_and_checks(
    deploy: guarantor.Certificate, keep: guarantor.Certificate
) -> None:
    shown = deploy._repr_html_()
    assert "✓ Deploy" in text_of(shown)
    assert deploy.statement in text_of(shown)
    assert len(parsed(shown).findall(".//svg")) == 2
    assert "checks, none failed" in text_of(shown)
    assert deploy.digest in text_of(shown)
    # The waterfall has the estimate, every step and the guarantee.
    bars = [svg for svg in parsed(shown).findall(".//svg") if svg.attrib["aria-label"].startswith("What")]
    assert len(bars[0].findall("rect")) == len(deploy["breakdown"]["steps"]) + 2
    assert "■ Keep" in text_of(keep._repr_html_())
    assert "✓ Deploy" not in text_of(keep._repr_html_())


def test_anything_but_deploy_is_drawn_as_keep(deploy: guarantor.Certificate) -> None:
    for decision in ["keep", "Deploy", "", None, 1]:
        assert "■ Keep" in text_of(_html.certificate_html({**deploy.to_dict(), "decision": decision}))


def test_reports_plans_and_verifications_draw_themselves(deploy: guarantor.Certificate) -> None:
    log = guarantor.simulate(rows=3000, seed=1)
    report = text_of(guarantor.inspect(log, outcome="reward")._repr_html_())
    assert "Nothing to fix" in report
    assert "How often each action was taken" in report
    assert "rows" in text_of(guarantor.plan(0.05, n_actions=4)._repr_html_())
    assert "✓ Valid" in text_of(guarantor.verify(deploy, log=log)._repr_html_())


def test_jobs_of_every_status_draw(deploy: guarantor.Certificate) -> None:
    job: dict[str, Any] = {"id": "j", "status": "running", "spec": {}, "result": None, "error": None}
    assert "certifying, 40%" in text_of(
        _html.job_html({**job, "progress": {"phase": "certifying", "fraction": 0.4}})
    )
    assert "Failed" in text_of(_html.job_html({**job, "status": "failed", "error": {"message": "no rows"}}))
    done = {**job, "status": "succeeded", "result": {**deploy.to_dict(), "decision": "keep"}}
    assert "■ Keep" in text_of(_html.job_html(done))


def test_imports_draw_how_far_they_are_and_why_they_failed() -> None:
    source: dict[str, Any] = {"id": "i", "status": "running", "error": None}
    assert "Running" in text_of(_html.import_html({**source, "progress": None}))
    halfway = {"objects": 2, "bytes": 4000, "bytes_read": 2000}
    assert "2 000 of 4 000 bytes read, 50%" in text_of(_html.import_html({**source, "progress": halfway}))
    faults = [{"row": 7, "field": "propensity", "message": "exceeds 1"}]
    error = {"message": "1 row is invalid", "uri": "s3://logs/a", "errors": faults}
    failed = text_of(_html.import_html({**source, "status": "failed", "error": error}))
    assert all(part in failed for part in ("Failed", "row 7", "exceeds 1", "s3://logs/a"))


@pytest.mark.parametrize(
    "draw",
    [
        _html.certificate_html,
        _html.health_html,
        _html.import_html,
        _html.job_html,
        _html.plan_html,
        _html.verification_html,
    ],
)
def test_texts_cannot_become_markup(draw: Callable[[dict[str, Any]], str]) -> None:
    evil = "<script>alert('1')</script>\"'&"
    fields = {
        "decision": evil,
        "statement": evil,
        "status": evil,
        "id": evil,
        "message": evil,
        "digest": evil,
        "error": {"message": evil},
        "reasons": [{"message": evil}],
        "checks": [{"ok": None, "name": evil, "message": evil, "detail": evil}],
        "candidates": [{"candidate": evil}, {"candidate": evil}],
        "guardrails": [{"outcome": evil}],
        "warnings": [{"message": evil}],
    }
    assert "alert" in text_of(draw(fields)) or draw is _html.verification_html
    assert parsed(draw({})) is not None
