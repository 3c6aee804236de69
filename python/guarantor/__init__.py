"""Certifies, before a rollout, that a new decision policy is better than the one in production.

`certify`, `evaluate`, `inspect`, `plan`, `verify` and `simulate` work in process. `Client` and `AsyncClient` have the same
verbs and use a server, which signs certificates and counts the looks at each log.
"""

import importlib
from typing import TYPE_CHECKING, Any

from guarantor._data import Log, Progress, Table, table
from guarantor._errors import EngineError, GuarantorError, LogError, RowError, SpecError
from guarantor._local import certify, evaluate, inspect, plan, read, simulate, verify
from guarantor._native import __version__
from guarantor.obp import from_obp
from guarantor.policy import Draws, Policy

if TYPE_CHECKING:
    from guarantor._results import Certificate, Inspection, Plan, Verification
    from guarantor.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Certificate",
    "Client",
    "Draws",
    "EngineError",
    "GuarantorError",
    "Inspection",
    "Log",
    "LogError",
    "Plan",
    "Policy",
    "Progress",
    "RowError",
    "SpecError",
    "Table",
    "Verification",
    "__version__",
    "certify",
    "evaluate",
    "from_obp",
    "inspect",
    "plan",
    "read",
    "simulate",
    "table",
    "verify",
]


# Results and clients need pydantic and httpx2. They are imported when they are first used: a worker that sums over a
# partition never does.
_LATER = {
    **dict.fromkeys(["AsyncClient", "Client"], "guarantor.client"),
    **dict.fromkeys(["Certificate", "Inspection", "Plan", "Verification"], "guarantor._results"),
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
