"""What all models of the client have in common."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

_SECRETS = frozenset({"token", "secret"})
_TOKEN_PATH = "/v1/gate/"
_LONGEST = 80


class Model(BaseModel):
    """A part of a response. It is read-only, and keeps members that this release does not know."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, hide_input_in_errors=True)

    _document: dict[str, Any] | None = PrivateAttr(default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object as the server sent it.

        A certificate must be verified from this one: its digest covers every member.
        """
        if self._document is not None:
            return self._document
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def to_json(self) -> str:
        """Return the JSON object as text. Its numbers are those that the digest covers, to the last bit."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

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


def draw(function: str, document: dict[str, Any]) -> str | None:
    """Return the document as HTML, or None if this installation cannot draw."""
    try:
        module = importlib.import_module("guarantor._html")
    except ImportError:
        return None
    drawn: str = getattr(module, function)(document)
    return drawn


class CertificateBase(Model):
    """What certificates have besides their members. In a notebook they draw themselves."""

    @property
    def deploy(self) -> bool:
        """Whether the decision is `deploy`."""
        return self.to_dict().get("decision") == "deploy"

    def __bool__(self) -> bool:
        raise TypeError("a certificate is neither true nor false: ask for its `deploy`")

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
        checks: list[dict[str, Any]] = self.to_dict().get("checks") or []
        return [str(check["name"]) for check in checks if check["ok"] is False]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to a file, as `guarantor verify` reads it."""
        Path(path).write_text(self.to_json())

    def _repr_html_(self) -> str | None:
        return draw("certificate_html", self.to_dict())


class DatasetBase(Model):
    """What datasets have besides their members. In a notebook they draw their health report."""

    @property
    def warnings(self) -> list[str]:
        """What deserves attention, as sentences."""
        return [str(warning["message"]) for warning in self["health"]["warnings"]]

    def _repr_html_(self) -> str | None:
        return draw("health_html", self.to_dict())


class JobBase(Model):
    """In a notebook, a job draws its progress or its result."""

    def _repr_html_(self) -> str | None:
        return draw("job_html", self.to_dict())


class PlanBase(Model):
    """In a notebook, a plan draws itself."""

    def _repr_html_(self) -> str | None:
        return draw("plan_html", self.to_dict())


class VerificationBase(Model):
    """A verification is true if the certificate is valid."""

    def __bool__(self) -> bool:
        return self.to_dict().get("valid") is True

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [str(check["name"]) for check in self["checks"] if not check["ok"]]

    def _repr_html_(self) -> str | None:
        return draw("verification_html", self.to_dict())
