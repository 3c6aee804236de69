"""Results of the verbs in process: the models of the client, so that both read alike and draw themselves alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import PrivateAttr

from guarantor._data import Log
from guarantor.client._base import ReportBase
from guarantor.client.models import (
    Capabilities,
    Certificate,
    Health,
    Logging,
    NamedOutcome,
    Outcome,
    Plan,
    Repetitions,
)
from guarantor.client.models import Verification as VerificationOfChecks
from guarantor.policy import Policy

__all__ = ["Certificate", "Inspection", "Plan", "Verification", "certificate_of", "inspection_of"]


class Inspection(ReportBase):
    """The health report on a log: what `guarantor inspect --json` prints, with the names that datasets have.

    Example:
        >>> import guarantor
        >>> report = guarantor.inspect(guarantor.simulate(rows=1000, seed=3), outcome="reward")
        >>> report.rows, report.n_actions, report.warnings
        (1000, 5, [])
    """

    valid: bool
    rows: int
    contexts: int
    n_actions: int
    dim: int
    outcome: Outcome
    outcomes: list[NamedOutcome] | None = None
    digest: str
    logging: Logging
    repetitions: Repetitions
    exact_propensities: bool
    capabilities: Capabilities
    health: Health

    _log: Log | None = PrivateAttr(default=None)

    @property
    def log(self) -> Log:
        """The log, for jobs."""
        assert self._log is not None, "inspection_of sets it"
        return self._log

    def __repr__(self) -> str:
        return f"Inspection({self.rows} rows, {self.n_actions} actions, {len(self.warnings)} warnings)"


class Verification(VerificationOfChecks):
    """Whether a certificate is valid, check by check. It is true if every check passed.

    Attributes:
        unchecked: The members of the document that were not checked, because no key was given.
    """

    unchecked: list[str]


def certificate_of(document: str, learned: Policy | None) -> Certificate:
    """Return the certificate that the native module wrote."""
    certificate = Certificate.of(json.loads(document))
    certificate._learned = learned
    return certificate


def inspection_of(log: Log) -> Inspection:
    """Return the report on a log that was read."""
    report = Inspection.of(log.to_dict())
    report._log = log
    return report


def plan_of(document: str) -> Plan:
    """Return the plan that the native module wrote."""
    return Plan.of(json.loads(document))


def verification_of(document: Mapping[str, Any]) -> Verification:
    """Return a verification."""
    return Verification.of(dict(document))
