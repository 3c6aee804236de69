"""What all models have in common, of results in process and of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr

from guarantor import _html
from guarantor.policy import Policy

_SECRETS = frozenset({"token", "secret"})
_TOKEN_PATH = "/v1/gate/"
_LONGEST = 80


class Model(BaseModel):
    """A part of a response. It is read-only, and keeps members that this release does not know."""

    model_config = ConfigDict(
        extra="allow", frozen=True, populate_by_name=True, hide_input_in_errors=True, defer_build=True
    )

    _document: dict[str, Any] | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, document: Any) -> Self:
        """Return the model of a JSON object, which it keeps as it is."""
        model = cls.model_validate(document)
        model._document = document
        return model

    def _members(self) -> Mapping[str, Any]:
        if self._document is not None:
            return self._document
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object as it was sent or computed, as a dictionary of its own.

        A certificate must be verified from this one: its digest covers every member.
        """
        return deepcopy(dict(self._members()))

    def to_json(self) -> str:
        """Return the JSON object as text. Its numbers are those that the digest covers, to the last bit."""
        return json.dumps(self._members(), ensure_ascii=False)

    def __getitem__(self, name: str) -> Any:
        return self._members()[name]

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Return the members that fit on a line, without secrets."""
        for name, value in super().__repr_args__():
            if name in _SECRETS or (isinstance(value, str) and value.startswith(_TOKEN_PATH)):
                yield name, "…"
            elif isinstance(value, str) and len(value) > _LONGEST:
                yield name, value[: _LONGEST - 1] + "…"
            elif isinstance(value, (str, int, float)):
                yield name, value

    def __str__(self) -> str:
        return repr(self)


class CertificateBase(Model):
    """What certificates have besides their members. In a notebook they draw themselves.

    Members are in the units of the certificate's mathematics: improvements are shares of the outcome's range, as in
    `min_improvement`. What has `outcome` in its name is in the units of the outcome.

    Example:
        >>> import guarantor
        >>> log = guarantor.simulate(rows=2000, seed=3)
        >>> certificate = guarantor.certify(log, outcome="reward", outcome_max=4.0)
        >>> certificate.decision, certificate.deploy
        ('deploy', True)
        >>> certificate.guaranteed_outcome_improvement == 4 * certificate.guaranteed_improvement
        True
    """

    _learned: Policy | None = PrivateAttr(default=None)

    @property
    def deploy(self) -> bool:
        """Whether the decision is `deploy`."""
        return bool(self._members().get("decision") == "deploy")

    def __bool__(self) -> bool:
        raise TypeError("a certificate is neither true nor false: ask for its `deploy`")

    @property
    def guaranteed_outcome_improvement(self) -> float:
        """The lower bound on the improvement, in the units of the outcome."""
        return float(self["user_units"]["guaranteed_improvement"])

    @property
    def guaranteed_outcome(self) -> float:
        """The worst expected outcome of the policy, in the units of the outcome."""
        return float(self["user_units"]["guaranteed_outcome"])

    @property
    def baseline_outcome(self) -> float:
        """The mean outcome under the logging policy, in the units of the outcome."""
        return float(self["user_units"]["baseline_outcome"])

    @property
    def failed_checks(self) -> list[str]:
        """The names of the checks that failed."""
        checks: list[dict[str, Any]] = self._members().get("checks") or []
        return [str(check["name"]) for check in checks if check["ok"] is False]

    @property
    def learned_policy(self) -> Policy | None:
        """The policy that `certify` learned; None if candidates were evaluated, or the certificate was read."""
        return self._learned

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to a file, as `guarantor verify` reads it."""
        Path(path).write_text(self.to_json())

    def __repr__(self) -> str:
        improvement, confidence = float(self["guaranteed_improvement"]), float(self["confidence"])
        decision = "deploy" if self.deploy else "keep"
        return f"Certificate({decision}, improvement ≥ {improvement:+.6g}, confidence {confidence:.6g})"

    def _repr_html_(self) -> str:
        return _html.certificate_html(self._members())


class ReportBase(Model):
    """What datasets and inspected logs have besides their members. In a notebook they draw the health report."""

    @property
    def warnings(self) -> list[str]:
        """What deserves attention, as sentences."""
        return [str(warning["message"]) for warning in self["health"]["warnings"]]

    def _repr_html_(self) -> str:
        return _html.health_html(self._members())


class JobBase(Model):
    """In a notebook, a job draws its progress or its result."""

    def _repr_html_(self) -> str:
        return _html.job_html(self._members())


class ImportBase(Model):
    """In a notebook, an import draws how much it has read, or why it failed."""

    def _repr_html_(self) -> str:
        return _html.import_html(self._members())


class PlanBase(Model):
    """How many rows would certify an improvement. In a notebook, a plan draws itself.

    Example:
        >>> import guarantor
        >>> plan = guarantor.plan(improvement=0.05, n_actions=4)
        >>> plan.possible, plan.rows is not None
        (True, True)
    """

    def __repr__(self) -> str:
        return f"Plan(rows={self['rows']}, days={self['days']})"

    def _repr_html_(self) -> str:
        return _html.plan_html(self._members())


class VerificationBase(Model):
    """Whether a certificate is valid, check by check. It is true if every check passed."""

    def __bool__(self) -> bool:
        return self._members().get("valid") is True

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [str(check["name"]) for check in self["checks"] if not check["ok"]]

    def __repr__(self) -> str:
        return f"Verification({'valid' if self else 'NOT VALID: ' + ', '.join(self.failed)})"

    def _repr_html_(self) -> str:
        return _html.verification_html(self._members())
