"""What all models of the client have in common."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
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
    """A certificate draws itself in a notebook."""

    def _repr_html_(self) -> str | None:
        return draw("certificate_html", self.to_dict())


class DatasetBase(Model):
    """A dataset draws its health report in a notebook."""

    def _repr_html_(self) -> str | None:
        return draw("health_html", self.to_dict())


class JobBase(Model):
    """A job draws its progress or its result in a notebook."""

    def _repr_html_(self) -> str | None:
        return draw("job_html", self.to_dict())
