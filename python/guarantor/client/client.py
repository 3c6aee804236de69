"""The blocking client."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from guarantor.client._datasets import DatasetVerbs
from guarantor.client._gates import GateVerbs
from guarantor.client._imports import ImportVerbs
from guarantor.client._jobs import JobVerbs
from guarantor.client._policies import PolicyVerbs
from guarantor.client._settings import ClientOptions, described, settings_of
from guarantor.client._transport import Blocking, Runner
from guarantor.client._verbs import ClientVerbs
from guarantor.client._webhooks import WebhookVerbs


class Datasets(DatasetVerbs, Blocking):
    """Logs that the server stores."""


class Imports(ImportVerbs, Blocking):
    """Logs that the server reads where they lie."""


class Jobs(JobVerbs, Blocking):
    """Jobs, which learn or evaluate policies."""


class Policies(PolicyVerbs, Blocking):
    """Stored policies."""


class Gates(GateVerbs, Blocking):
    """Standing gates, whose URL never changes."""


class Webhooks(WebhookVerbs, Blocking):
    """Addresses that are told when jobs end."""


class Client(ClientVerbs, Blocking):
    """A Guarantor server, with the verbs of the package and all resources of the API.

    Args:
        url: The address of the server. Without it, `GUARANTOR_URL` and `GUARANTOR_API_KEY` of the environment say which
            server and key to use, and otherwise it is `http://127.0.0.1:8080`.
        key: The API key, if the server has keys.
        **options: `timeout`, `upload_timeout`, `retry` and `verify`; see `ClientOptions`.

    Example:
        >>> from guarantor.client import Client
        >>> with Client() as client:
        ...     client.is_ready()
        True

    """

    def __init__(
        self, url: str | None = None, key: str | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        super().__init__(Runner(settings_of(url, key, **options)))
        self.datasets: Datasets = Datasets(self._runner)
        self.imports: Imports = Imports(self._runner)
        self.jobs: Jobs = Jobs(self._runner)
        self.policies: Policies = Policies(self._runner)
        self.gates: Gates = Gates(self._runner)
        self.webhooks: Webhooks = Webhooks(self._runner)

    def __repr__(self) -> str:
        return described(self)

    def close(self) -> None:
        """Close the connections."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
