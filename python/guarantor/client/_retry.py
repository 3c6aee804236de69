"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import count

import httpx2

from guarantor.client._effects import Call, Op, Sleep, send
from guarantor.client.errors import ApiError, ClientError, ConnectionFailed, error_of

# These say that the request itself is wrong, so sending it again cannot help.
_HOPELESS = (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)


@dataclass(frozen=True)
class Retry:
    """How often a request is repeated, and how long to wait in between.

    The wait is random between nothing and a limit that doubles with every attempt, and never shorter than the
    `Retry-After` of the response.

    Example:
        >>> from guarantor.client import Client, Retry
        >>> patient = Client("http://127.0.0.1:8080", retry=Retry(attempts=10))
        >>> impatient = Client("http://127.0.0.1:8080", retry=Retry(attempts=1))

    """

    attempts: int = 6
    """How often a request is sent at most."""
    first: float = 0.5
    """The limit of the first wait, in seconds."""
    longest: float = 60.0
    """The longest wait. If the server asks for a longer one, the error is raised, with `retry_after`."""
    jitter: Callable[[], float] = field(default=random.random, repr=False)

    def delay(self, attempt: int, asked: float | None) -> float | None:
        """How long to wait after this attempt (from 1), or None if it was the last one."""
        if attempt >= self.attempts or (asked is not None and asked > self.longest):
            return None
        # A bounded exponent: nobody needs 2 to the power of a thousand seconds.
        limit = min(self.longest, self.first * 2.0 ** min(attempt - 1, 32))
        return max(asked or 0.0, limit * self.jitter())


def retry_after(response: httpx2.Response, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds of `Retry-After`, which is a number or a date."""
    text = response.headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(int(text)))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now())
    except (ValueError, TypeError):
        return None


def broken(error: httpx2.TransportError, call: Call) -> ConnectionFailed:
    """Return the error of a connection, without the URL: a token may be part of it."""
    what = str(error) or type(error).__name__
    failure = ConnectionFailed(f"{call.method} failed: {what} ({type(error).__name__})")
    failure.__cause__ = error
    return failure


def transient(response: httpx2.Response) -> bool:
    """Whether the same request may succeed later."""
    if response.status_code in (429, 503):
        return True
    if response.status_code != 409:
        return False
    error = error_of(response)
    return isinstance(error, ApiError) and error.code == "idempotency_in_progress"


def attempted(call: Call, retry: Retry) -> Op[tuple[httpx2.Response, int]]:
    """Send a request until it is answered for good. Returns the response, and how often it was sent."""
    for attempt in count(1):
        asked: float | None = None
        failure: ClientError
        try:
            response = yield from send(call)
        except _HOPELESS as error:
            raise broken(error, call) from error
        except httpx2.TransportError as error:
            failure = broken(error, call)
        else:
            if not transient(response):
                return response, attempt
            asked = retry_after(response)
            failure = error_of(response, retry_after=asked, gate=call.gate)
        delay = retry.delay(attempt, asked) if call.repeatable else None
        if delay is None:
            raise failure
        yield Sleep(delay)
    raise AssertionError("unreachable")
