"""Certifies, before a rollout, that a new decision policy is better than the one in production."""

from typing import TYPE_CHECKING, Any

from guarantor._native import __version__

if TYPE_CHECKING:
    from guarantor.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> Any:
    # The client imports httpx2 and pydantic, which work in process does not need.
    if name in ("AsyncClient", "Client"):
        import guarantor.client

        return getattr(guarantor.client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
