"""What the operations of all resources share: building requests, reading responses, pages."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from guarantor.client._base import Model
from guarantor.client._effects import Call, Emit, Op, Sleep, Stream
from guarantor.client._retry import attempted, retry_after
from guarantor.client._transport import Settings
from guarantor.client._uploads import Body, Log, upload_of
from guarantor.client.errors import InvalidRequest, NotFound, UnexpectedResponse, error_of

M = TypeVar("M", bound=Model)
Group = TypeVar("Group", bound="Operations")

_PAGE = "100"

FINISHED = frozenset({"succeeded", "failed", "cancelled"})
"""The statuses of a job or an import that has ended."""

# The longest wait that a server allows unless its operator chose another one.
_WAIT = 60


def identifier(resource: str | Model) -> str:
    """Return the id of a resource, or of its model, as a part of a path."""
    text = resource if isinstance(resource, str) else str(resource["id"])
    if not text or text in (".", ".."):
        raise ValueError(f"{text!r} is not an id")
    return quote(text, safe="")


def query(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as the server reads them from a query. What is None is left out."""
    return {name: _text(value) for name, value in options.items() if value is not None}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, allow_nan=False)


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that are not None. The server fills in the others."""
    return {name: value for name, value in options.items() if value is not None}


def keyed(idempotency_key: str | None) -> dict[str, str]:
    """Return the header that makes a creating request safe to repeat."""
    return {"idempotency-key": idempotency_key or str(uuid.uuid4())}


def parse(model: type[M], response: httpx2.Response) -> M:
    """Return the body of a response as a model, which keeps the body as it was sent."""
    try:
        return model.of(json.loads(response.content))
    except (ValueError, ValidationError) as error:
        detail = f"{response.status_code}: the body is not a {model.__name__} of this release: {error}"
        raise UnexpectedResponse(detail) from None


class Operations:
    """The base of the verbs of a resource."""

    _settings: Settings

    def _group(self, kind: type[Group]) -> Group:
        """Return the operations of another resource on the same server."""
        group = kind()
        group._settings = self._settings
        return group

    def _sent(self, call: Call) -> Op[httpx2.Response]:
        """Send a request, repeatedly if that is safe, and raises what the server rejects."""
        response, attempts = yield from attempted(call, self._settings.retry)
        if response.status_code < 300:
            return response
        error = error_of(response, retry_after=retry_after(response), gate=call.gate)
        if call.method == "DELETE" and attempts > 1 and isinstance(error, NotFound):
            return response  # an earlier attempt deleted it, and its answer was lost
        raise error

    def _call(self, model: type[M], call: Call) -> Op[M]:
        return parse(model, (yield from self._sent(call)))

    def _get(
        self, model: type[M], path: str, params: Mapping[str, Any] | None = None, *, gate: bool = False
    ) -> Op[M]:
        return (
            yield from self._call(model, Call("GET", path, query(params or {}), repeatable=True, gate=gate))
        )

    def _delete(self, path: str) -> Op[None]:
        yield from self._sent(Call("DELETE", path, repeatable=True))

    def _put(self, model: type[M], path: str, body: Mapping[str, Any]) -> Op[M]:
        return (yield from self._call(model, Call("PUT", path, json=stated(body), repeatable=True)))

    def _compute(self, model: type[M], path: str, body: object) -> Op[M]:
        """Return a POST that changes nothing, so that it may be repeated."""
        return (yield from self._call(model, Call("POST", path, json=body, repeatable=True)))

    def _create(
        self, model: type[M], path: str, body: Mapping[str, Any], idempotency_key: str | None
    ) -> Op[M]:
        """Return a POST with a key, so that it may be repeated."""
        headers = keyed(idempotency_key)
        return (
            yield from self._call(
                model, Call("POST", path, json=stated(body), headers=headers, repeatable=True)
            )
        )

    def _act(self, model: type[M], path: str, body: Mapping[str, Any] | None = None) -> Op[M]:
        """Return a POST that acts each time that it is sent. It is never repeated."""
        return (yield from self._call(model, Call("POST", path, json=None if body is None else stated(body))))

    def _until_ended(
        self,
        model: type[M],
        path: str,
        timeout: float | None,
        late: Callable[[M], Exception],
        *,
        see: Callable[[M], object] | None = None,
    ) -> Op[M]:
        """Wait until a job or an import has ended. The server answers when it has, or, for `see`, every second."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        longest = _WAIT if see is None else 1
        while True:
            asked = time.monotonic()
            seconds = longest if timeout is None else max(0, min(longest, math.ceil(deadline - asked)))
            call = Call("GET", path, {"wait": str(seconds)}, repeatable=True, patience=seconds)
            try:
                found = yield from self._call(model, call)
            except InvalidRequest as error:
                if error.field != "wait" or longest <= 1:
                    raise
                longest //= 2  # the operator allows less
                continue
            if see is not None:
                see(found)
            if found["status"] in FINISHED:
                return found
            now = time.monotonic()
            if now >= deadline:
                raise late(found)
            if now - asked < seconds / 2:
                # It answered early because it shuts down. Another process will take over.
                yield Sleep(self._settings.retry.first)

    def _upload(
        self,
        model: type[M],
        path: str,
        log: Log | Body,
        options: Mapping[str, Any],
        idempotency_key: str | None,
    ) -> Op[M]:
        """Return a POST of a log."""
        upload = upload_of(log, options.get("format"))
        params = query({name: value for name, value in options.items() if name != "format"}) | upload.params
        headers = {**upload.headers, **keyed(idempotency_key)}
        call = Call(
            "POST", path, params, body=upload.body, headers=headers, repeatable=upload.body.replayable
        )
        return (yield from self._call(model, call))

    def _list(
        self, model: type[M], path: str, params: Mapping[str, Any] | None = None, *, paged: bool = True
    ) -> Stream[M]:
        """Return the items of all pages, which are fetched as they are needed."""
        options = {**({"limit": _PAGE} if paged else {}), **query(params or {})}
        while True:
            response = yield from self._sent(Call("GET", path, options, repeatable=True))
            page = _page(response)
            for item in page["data"]:
                yield Emit(item_of(model, item))
            if not page.get("has_more") or page.get("next") is None:
                return
            options["after"] = str(page["next"])


def _page(response: httpx2.Response) -> dict[str, Any]:
    try:
        page: Any = json.loads(response.content)
    except ValueError:
        page = None
    if isinstance(page, dict) and isinstance(page.get("data"), list):  # pyright: ignore[reportUnknownMemberType]
        return cast("dict[str, Any]", page)
    raise UnexpectedResponse(f"{response.status_code}: the body is not a page of a list")


def item_of(model: type[M], item: Any) -> M:
    """Return an item of a list or a stream as a model."""
    try:
        return model.of(json.loads(item) if isinstance(item, str) else item)
    except (ValueError, ValidationError) as error:
        raise UnexpectedResponse(
            f"an item of the list is not a {model.__name__} of this release: {error}"
        ) from None
