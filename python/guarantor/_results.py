"""Results of the verbs in process. They read like the API's responses, and draw themselves in notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from guarantor import _html
from guarantor._data import Log
from guarantor.policy import Policy


class Result(Mapping[str, Any]):
    """A document with the fields of the API, as a mapping."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the document as a dictionary of its own: changes to it do not change the result."""
        return deepcopy(self._fields)

    def to_json(self) -> str:
        """Return the document as JSON. Its numbers are those that the digest covers, to the last bit."""
        return json.dumps(self._fields, ensure_ascii=False)


class Certificate(Result):
    """The decision, the guaranteed numbers and every term they were computed from.

    It is the document that `GET /v1/jobs/{id}/certificate` returns: `certificate["bounds"]` is its member `bounds`.
    A certificate is neither true nor false: ask for `deploy`.

    Example:
        >>> import guarantor
        >>> certificate = guarantor.certify(guarantor.simulate(rows=2000, seed=3), outcome="reward")
        >>> certificate.decision
        'deploy'
        >>> certificate.digest == guarantor.certify(guarantor.simulate(rows=2000, seed=3), outcome="reward").digest
        True
    """

    def __init__(self, fields: Mapping[str, Any], policy: Policy | None = None) -> None:
        super().__init__(fields)
        self._policy = policy

    @property
    def decision(self) -> Literal["deploy", "keep"]:
        """`deploy` if the guaranteed improvement exceeds the required one, otherwise `keep`."""
        return "deploy" if self._fields.get("decision") == "deploy" else "keep"

    @property
    def deploy(self) -> bool:
        """Whether the decision is `deploy`."""
        return self.decision == "deploy"

    def __bool__(self) -> bool:
        raise TypeError("a certificate is neither true nor false: ask for its `deploy`")

    @property
    def statement(self) -> str:
        """The result as a sentence."""
        return str(self["statement"])

    @property
    def guaranteed_improvement(self) -> float:
        """The lower bound on the improvement, in the units of the outcome."""
        return float(self["user_units"]["guaranteed_improvement"])

    @property
    def guaranteed_outcome(self) -> float:
        """The worst expected outcome of the policy, in the units of the outcome."""
        return float(self["user_units"]["guaranteed_outcome"])

    @property
    def baseline_outcome(self) -> float:
        """The mean outcome under the logging policy."""
        return float(self["user_units"]["baseline_outcome"])

    @property
    def confidence(self) -> float:
        """The probability, at least, that everything the certificate states is true."""
        return float(self["confidence"])

    @property
    def reasons(self) -> list[str]:
        """The reasons for the decision, the verdict first."""
        return [str(reason["message"]) for reason in self["reasons"]]

    @property
    def failed_checks(self) -> list[str]:
        """The names of the checks that failed."""
        return [str(check["name"]) for check in self.get("checks", []) if check["ok"] is False]

    @property
    def digest(self) -> str:
        """The digest of the document. The service and the command line give the same log and spec the same one."""
        return str(self["digest"])

    @property
    def policy(self) -> Policy | None:
        """The learned policy; None if candidates were evaluated."""
        return self._policy

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to a file, as `guarantor verify` reads it."""
        Path(path).write_text(self.to_json())

    def __repr__(self) -> str:
        improvement = f"{self.guaranteed_improvement:+.6g}"
        return f"Certificate({self.decision}, improvement ≥ {improvement}, confidence {self.confidence:.6g})"

    def _repr_html_(self) -> str:
        return _html.certificate_html(self._fields)


class Inspection(Result):
    """The health report on a log: what `guarantor inspect --json` prints.

    Example:
        >>> import guarantor
        >>> report = guarantor.inspect(guarantor.simulate(rows=1000, seed=3), outcome="reward")
        >>> report.rows, report["n_actions"], report.warnings
        (1000, 5, [])
    """

    def __init__(self, log: Log) -> None:
        super().__init__(log.to_dict())
        self.log = log

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self["rows"])

    @property
    def digest(self) -> str:
        """The digest of the rows."""
        return str(self["digest"])

    @property
    def health(self) -> dict[str, Any]:
        """The report: propensities, weights, actions, checks, drift."""
        health: dict[str, Any] = self["health"]
        return health

    @property
    def warnings(self) -> list[str]:
        """What deserves attention, as sentences."""
        return [str(warning["message"]) for warning in self.health["warnings"]]

    def __repr__(self) -> str:
        return f"Inspection({self.rows} rows, {self['n_actions']} actions, {len(self.warnings)} warnings)"

    def _repr_html_(self) -> str:
        return _html.health_html(self._fields)


class Plan(Result):
    """How many rows would certify an improvement.

    Example:
        >>> import guarantor
        >>> plan = guarantor.plan(improvement=0.05, n_actions=4)
        >>> plan.possible, plan.rows is not None
        (True, True)
    """

    @property
    def possible(self) -> bool:
        """Whether a number of rows can be promised at all."""
        return bool(self["possible"])

    @property
    def rows(self) -> int | None:
        """How many rows are needed; None if nothing can be promised."""
        rows: int | None = self["rows"]
        return rows

    @property
    def days(self) -> float | None:
        """How many days they take, if the traffic is known."""
        days: float | None = self["days"]
        return days

    @property
    def message(self) -> str:
        """The plan as a sentence."""
        return str(self["message"])

    def __repr__(self) -> str:
        return f"Plan(rows={self.rows}, days={self.days})"

    def _repr_html_(self) -> str:
        return _html.plan_html(self._fields)


class Verification(Result):
    """Whether a certificate is valid, check by check."""

    @property
    def valid(self) -> bool:
        """Whether every check passed."""
        return bool(self["valid"])

    def __bool__(self) -> bool:
        return self.valid

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [str(check["name"]) for check in self["checks"] if not check["ok"]]

    @property
    def unchecked(self) -> list[str]:
        """The members of the document that were not checked, because no key was given."""
        return [str(name) for name in self["unchecked"]]

    def __repr__(self) -> str:
        return f"Verification({'valid' if self.valid else 'NOT VALID: ' + ', '.join(self.failed)})"

    def _repr_html_(self) -> str:
        return _html.verification_html(self._fields)
