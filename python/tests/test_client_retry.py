"""When requests are repeated, and after how long; and what errors say."""

from __future__ import annotations

import httpx2
import pytest

from guarantor.client import (
    ApiError,
    Conflict,
    Forbidden,
    GateClosed,
    InvalidRows,
    NotFound,
    Retry,
    TooLarge,
    TooManyRequests,
    Unavailable,
    UnexpectedResponse,
)
from guarantor.client._retry import retry_after
from guarantor.client.errors import error_of


def response(status: int, body: object = None, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


def problem(status: int, code: str, **more: object) -> httpx2.Response:
    return response(
        status, {"status": status, "code": code, "title": "t", "detail": "d", "errors": [], **more}
    )


def test_waits_double_and_never_fall_below_what_the_server_asks() -> None:
    retry = Retry(attempts=4, first=1.0, longest=3.0, jitter=lambda: 1.0)
    assert [retry.delay(attempt, None) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 3.0, None]
    assert retry.delay(1, 2.5) == 2.5
    assert retry.delay(1, 4.0) is None, "a longer wait than the longest is the caller's decision"
    assert Retry(jitter=lambda: 0.0).delay(3, None) == 0.0
    assert Retry(attempts=10**9).delay(10**8, None) is not None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("-3", 0.0),
        ("Wed, 18 Nov 2026 00:00:05 GMT", 5.0),
        ("soon", None),
        ("nan", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str, seconds: float | None) -> None:
    now = 1794960000.0  # 2026-11-18T00:00:00Z
    assert retry_after(response(503, retry_after=text), lambda: now) == seconds


@pytest.mark.parametrize(
    ("status", "code", "gate", "kind"),
    [
        (403, "role_not_sufficient", False, Forbidden),
        (403, "role_not_sufficient", True, Forbidden),
        (403, "decision_keep", True, GateClosed),
        (409, "job_unfinished", True, GateClosed),
        (409, "job_unfinished", False, Conflict),
        (424, "job_failed", True, GateClosed),
        (404, "not_found", True, NotFound),
        (413, "body_too_large", False, TooLarge),
        (422, "invalid_rows", False, InvalidRows),
        (429, "queue_full", False, TooManyRequests),
        (503, "unavailable", False, Unavailable),
    ],
)
def test_the_class_of_an_error(status: int, code: str, gate: bool, kind: type[ApiError]) -> None:
    error = error_of(problem(status, code), gate=gate)
    assert type(error) is kind
    assert isinstance(error, ApiError)
    assert (error.status, error.code) == (status, code)


def test_an_error_names_the_row_the_field_and_what_to_do() -> None:
    errors = [{"message": "must be in (0, 1]", "row": 7, "field": "propensity"}]
    error = error_of(problem(422, "invalid_rows", detail="2 rows are invalid", errors=errors))
    assert isinstance(error, InvalidRows)
    assert (error.row, error.field) == (7, "propensity")
    assert str(error) == "422 invalid_rows: 2 rows are invalid\n  row 7, propensity: must be in (0, 1]"


def test_what_is_not_guarantor_is_said_to_be_something_else() -> None:
    page = httpx2.Response(404, text="<html>", headers={"content-type": "text/html"})
    assert isinstance(error_of(page), UnexpectedResponse)
    moved = error_of(httpx2.Response(302, headers={"location": "https://login.example/"}))
    assert "https://login.example/, which is not followed" in str(moved)
    # A proxy that is overloaded is worth another attempt.
    assert isinstance(error_of(httpx2.Response(503, text="busy")), Unavailable)
