"""The client for event loops."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from guarantor.client._datasets import DatasetVerbs
from guarantor.client._gates import GateVerbs
from guarantor.client._imports import ImportVerbs
from guarantor.client._jobs import JobVerbs
from guarantor.client._policies import PolicyVerbs
from guarantor.client._settings import ClientOptions, described, settings_of
from guarantor.client._transport import AsyncRunner, Awaiting
from guarantor.client._verbs import ClientVerbs
from guarantor.client._webhooks import WebhookVerbs


class AsyncDatasets(DatasetVerbs, Awaiting):
    """Logs that the server stores."""


class AsyncImports(ImportVerbs, Awaiting):
    """Logs that the server reads where they lie."""


class AsyncJobs(JobVerbs, Awaiting):
    """Jobs, which learn or evaluate policies."""


class AsyncPolicies(PolicyVerbs, Awaiting):
    """Stored policies."""


class AsyncGates(GateVerbs, Awaiting):
    """Standing gates, whose URL never changes."""


class AsyncWebhooks(WebhookVerbs, Awaiting):
    """Addresses that are told when jobs end."""


class AsyncClient(ClientVerbs, Awaiting):
    """The same as `Client`, with verbs that are awaited and lists that are iterated with `async for`.

    It works with asyncio and with trio. Files are read, and data frames encoded, in threads.

    Example:
        >>> import asyncio
        >>> from guarantor.client import AsyncClient
        >>> async def plan() -> bool:
        ...     async with AsyncClient() as client:
        ...         return (await client.plan(0.05, n_actions=4)).possible
        >>> asyncio.run(plan())
        True

    """

    def __init__(
        self, url: str | None = None, key: str | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        super().__init__(AsyncRunner(settings_of(url, key, **options)))
        self.datasets: AsyncDatasets = AsyncDatasets(self._runner)
        self.imports: AsyncImports = AsyncImports(self._runner)
        self.jobs: AsyncJobs = AsyncJobs(self._runner)
        self.policies: AsyncPolicies = AsyncPolicies(self._runner)
        self.gates: AsyncGates = AsyncGates(self._runner)
        self.webhooks: AsyncWebhooks = AsyncWebhooks(self._runner)

    def __repr__(self) -> str:
        return described(self)

    async def close(self) -> None:
        """Close the connections."""
        await self._runner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
