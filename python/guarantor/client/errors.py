# ruff: noqa: N818 - names that say what happened
"""The errors of the client. Branch on the class, or on `code`, which is stable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from guarantor._errors import GuarantorError
from guarantor.client.models import Fault

if TYPE_CHECKING:
    import httpx2

    from guarantor.client.models import Import, Job, RowFault


class ClientError(GuarantorError):
    """The base of everything that the client raises on purpose."""


class ConnectionFailed(ClientError):
    """The server could not be reached, or the connection broke, and trying again did not help."""


class UnexpectedResponse(ClientError):
    """The response is not one of Guarantor: another service, or a proxy, answered."""


def _line(fault: Fault) -> str:
    at = [f"row {fault.row}"] if fault.row is not None else []
    at += [fault.field] if fault.field is not None else []
    return f"{', '.join(at)}: {fault.message}" if at else fault.message


class ApiError(ClientError):
    """The server rejected the request and said why.

    Example:
        >>> from guarantor.client import ApiError, Client
        >>> with Client() as client:
        ...     try:
        ...         client.plan(0.1, n_actions=1)
        ...     except ApiError as error:
        ...         print(error.status, error.code, error.field)
        422 invalid_value n_actions

    """

    def __init__(
        self, status: int, problem: dict[str, Any], request_id: str | None, retry_after: float | None
    ) -> None:
        self.status = status
        """The HTTP status."""
        self.code: str = str(problem.get("code", "unknown"))
        """The stable code to branch on."""
        self.title: str = str(problem.get("title", ""))
        """What the code means."""
        self.detail: str = str(problem.get("detail", ""))
        """What happened, and what to do."""
        self.errors: list[Fault] = [_fault(fault) for fault in _faults(problem)]
        """The rows or fields that are wrong."""
        self.problem = problem
        """The whole body of the response."""
        self.request_id = request_id
        """What to look for in the server's log."""
        self.retry_after = retry_after
        """After how many seconds the server wants to be asked again, if it said so."""
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"{self.status} {self.code}: {self.detail or self.title}"]
        # An error about one field repeats it in its detail.
        told = [_line(error) for error in self.errors if _line(error) not in self.detail]
        lines += [f"  {line}" for line in told]
        if self.request_id and self.status >= 500:
            lines.append(f"  request id: {self.request_id}")
        return "\n".join(lines)

    @property
    def field(self) -> str | None:
        """The first field that is wrong."""
        return next((error.field for error in self.errors if error.field is not None), None)

    @property
    def row(self) -> int | None:
        """The first row that is wrong, from 1, as in the file."""
        return next((error.row for error in self.errors if error.row is not None), None)


class InvalidRequest(ApiError):
    """400, 415 or 422: the request cannot be read, or asks for something impossible."""


class InvalidRows(InvalidRequest):
    """Rows of the log are wrong. Nothing was stored; `errors` has the first 20 of them."""


class TooLarge(InvalidRequest):
    """413: the body is larger than the server accepts."""


class Unauthorized(ApiError):
    """401: there is no key, or the server does not know it."""


class Forbidden(ApiError):
    """403: the role of the key does not allow this."""


class GateClosed(ApiError):
    """A gate did not approve. Do not roll out."""


class NotFound(ApiError):
    """404: the resource does not exist, or belongs to another workspace."""


class Conflict(ApiError):
    """409: the resource is in use or in another state. The request may succeed later."""


class TooManyRequests(ApiError):
    """429: the server, or this key's share of it, is busy."""


class ServerError(ApiError):
    """5xx: the server failed. `request_id` says where to look in its log."""


class Unavailable(ServerError):
    """503: the server is starting, stopping, or its store is away."""


class JobError(ClientError):
    """A job did not succeed. `job` is the job."""

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job


class JobFailed(JobError):
    """The job failed; it has no certificate."""


class JobCanceled(JobError):
    """The job was canceled; it has no certificate."""


class WaitTimeout(JobError, TimeoutError):
    """The job has not ended in the time given. It goes on; wait for it again."""


class ImportNotDone(ClientError):
    """A log by reference did not become a dataset. `import_` is the import."""

    def __init__(self, message: str, import_: Import) -> None:
        super().__init__(message)
        self.import_ = import_


class ImportFailed(ImportNotDone):
    """The import failed; nothing was stored."""

    def __init__(self, import_: Import) -> None:
        error = import_.error
        self.code: str = error.code if error else "unknown"
        """The stable code to branch on."""
        self.detail: str = error.message if error else "it did not say why"
        """What went wrong."""
        self.uri: str | None = error.uri if error else None
        """The object that is at fault, if it is one."""
        self.errors: list[RowFault] = (error.errors if error else None) or []
        """The first rows that are wrong, by their numbers in that object."""
        at = f"{self.uri}: " if self.uri and self.uri not in self.detail else ""
        lines = [f"import {import_.id} failed: {self.code}: {at}{self.detail}"]
        told = [_line(Fault(message=each.message, row=each.row, field=each.field)) for each in self.errors]
        lines += [f"  {line}" for line in told if line not in self.detail]
        super().__init__("\n".join(lines), import_)


class ImportCanceled(ImportNotDone):
    """The import was canceled; nothing was stored."""


class ImportTimeout(ImportNotDone, TimeoutError):
    """The import has not ended in the time given. It goes on; wait for it again."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: InvalidRequest,
    409: Conflict,
    413: TooLarge,
    415: InvalidRequest,
    421: InvalidRequest,
    422: InvalidRequest,
    429: TooManyRequests,
    503: Unavailable,
}
_BY_CODE: dict[str, type[ApiError]] = {"invalid_rows": InvalidRows, "repeated_rows": InvalidRows}

# The answers of a gate that mean that it is closed. A wrong key or a missing gate is another error.
_CLOSED = frozenset(
    {
        "decision_keep",
        "certificate_outdated",
        "requirement_failed",
        "signature_invalid",
        "dataset_gone",
        "policy_gone",
        "no_matching_job",
        "job_unfinished",
        "job_failed",
        "job_cancelled",
    }
)


def _faults(problem: dict[str, Any]) -> list[dict[str, Any]]:
    return problem.get("errors") or []


def _fault(fault: dict[str, Any]) -> Fault:
    return Fault(message=str(fault.get("message", "")), row=fault.get("row"), field=fault.get("field"))


def _problem(response: httpx2.Response) -> dict[str, Any] | None:
    """Return the body of an error of Guarantor, or None if something else answered."""
    try:
        body: Any = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return cast(dict[str, Any], body) if isinstance(body, dict) and "code" in body else None


def error_of(
    response: httpx2.Response, *, retry_after: float | None = None, gate: bool = False
) -> ClientError:
    """Return the error that a response of 300 or more stands for."""
    status, problem = response.status_code, _problem(response)
    if problem is None and status not in (429, 503):
        kind = response.headers.get("content-type", "no content type")
        at = response.headers.get("location")
        where = f" to {at}, which is not followed" if at else ""
        return UnexpectedResponse(
            f"{status} ({kind}){where}: this is not a response of Guarantor; check the URL"
        )
    # A proxy in front of the server may answer 429 and 503 on its own.
    problem = problem or {
        "code": "unavailable" if status == 503 else "too_many_requests",
        "title": "a proxy answered",
    }
    code = str(problem["code"])
    kinds = {**_BY_CODE, **dict.fromkeys(_CLOSED, GateClosed)} if gate else _BY_CODE
    default = ServerError if status >= 500 else ApiError
    kind_of: type[ApiError] = kinds.get(code) or _BY_STATUS.get(status, default)
    return kind_of(status, problem, response.headers.get("x-request-id"), retry_after)
