"""Certifies, before a rollout, that a new decision policy is better than the one in production.

`certify`, `evaluate`, `inspect`, `plan`, `verify` and `simulate` work in process. `Client` and `AsyncClient` have the same
verbs and use a server, which signs certificates and counts the looks at each log.
"""

from typing import TYPE_CHECKING, Any

from guarantor._data import Log, Progress, Table, table
from guarantor._errors import EngineError, GuarantorError, LogError, RowError, SpecError
from guarantor._local import certify, evaluate, inspect, plan, read, simulate, verify
from guarantor._native import __version__
from guarantor._results import Certificate, Inspection, Plan, Verification
from guarantor.obp import from_obp
from guarantor.policy import Draws, Policy

if TYPE_CHECKING:
    from guarantor.client import AsyncClient, Client  # pyright: ignore

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


def __getattr__(name: str) -> Any:
    # The client imports httpx2 and pydantic, which work in process does not need.
    if name in ("AsyncClient", "Client"):
        import guarantor.client

        return getattr(guarantor.client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
