r"""A client of a Guarantor server, with the verbs of the package.

Example:
    >>> from guarantor.client import Client
    >>> rows = b'{"x": [0.1], "action": 1, "propensity": 0.3, "reward": 1}\n' * 3
    >>> with Client() as client:
    ...     client.inspect(rows, format="ndjson", outcome="reward").rows
    3

"""

from guarantor._data import ArrowStream
from guarantor.client import models, requests
from guarantor.client._retry import Retry
from guarantor.client._uploads import Log
from guarantor.client.async_client import AsyncClient
from guarantor.client.client import Client
from guarantor.client.errors import (
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    GateClosed,
    ImportCanceled,
    ImportFailed,
    ImportNotDone,
    ImportTimeout,
    InvalidRequest,
    InvalidRows,
    JobCanceled,
    JobError,
    JobFailed,
    NotFound,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    WaitTimeout,
)

__all__ = [
    "ApiError",
    "ArrowStream",
    "AsyncClient",
    "Client",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "Forbidden",
    "GateClosed",
    "ImportCanceled",
    "ImportFailed",
    "ImportNotDone",
    "ImportTimeout",
    "InvalidRequest",
    "InvalidRows",
    "JobCanceled",
    "JobError",
    "JobFailed",
    "Log",
    "NotFound",
    "Retry",
    "ServerError",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "WaitTimeout",
    "models",
    "requests",
]
