"""Performs the effects of operations: once with blocking calls, once in an event loop."""

from __future__ import annotations

import functools
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

import anyio
import anyio.to_thread
import httpx2

from guarantor.client._effects import Call, Effect, Emit, EventStream, Follow, Next, Op, Send, Sleep, Stream
from guarantor.client._retry import Retry
from guarantor.client._uploads import Body
from guarantor.client.errors import ClientError

P = ParamSpec("P")
T = TypeVar("T")

# The server sends a comment every 15 seconds.
_SILENCE = 45.0
# How long an interrupted operation may take to clean up.
_CLEAN_UP = 5.0
_TOKEN_PATH = "/v1/gate/"


@dataclass(frozen=True)
class Settings:
    """What a client was made with."""

    url: str
    timeout: float
    upload_timeout: float
    retry: Retry
    headers: dict[str, str]
    verify: ssl.SSLContext | bool

    def timeouts(self, call: Call) -> httpx2.Timeout:
        """Return the limits of one request."""
        usual = self.upload_timeout if call.body is not None else self.timeout
        return httpx2.Timeout(self.timeout, read=usual + call.patience)

    def request(self, call: Call, content: Any) -> dict[str, Any]:
        """Return the arguments of the request."""
        length = (
            {"content-length": str(call.body.length)} if call.body and call.body.length is not None else {}
        )
        headers = {**call.headers, **length}
        options: dict[str, Any] = {
            "params": dict(call.params),
            "headers": headers,
            "timeout": self.timeouts(call),
        }
        if content is not None:
            options["content"] = content
        elif call.json is not None:
            options["json"] = call.json
        return options

    def stream(self, call: Call) -> dict[str, Any]:
        """Return the arguments of a request for a stream."""
        return {**self.request(call, None), "timeout": httpx2.Timeout(self.timeout, read=_SILENCE)}


class _Redacted(logging.Filter):
    """Removes tokens of gates from the lines that httpx2 logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_without_token(part) for part in record.args)
        return True


def _without_token(part: object) -> object:
    if isinstance(part, httpx2.URL) and part.path.startswith(_TOKEN_PATH):
        return f"{part.scheme}://{part.netloc.decode()}{_TOKEN_PATH}…"
    return part


logging.getLogger("httpx2").addFilter(_Redacted())


@dataclass(frozen=True)
class Done(Generic[T]):
    """The result of an operation."""

    value: T


class Machine(Generic[T]):
    """An operation in progress."""

    def __init__(self, op: Op[T]) -> None:
        self._op = op

    def feed(self, outcome: object) -> Effect | Done[T]:
        """Goes on with the outcome of an effect; None starts the operation."""
        try:
            return self._op.send(outcome)
        except StopIteration as stop:
            return Done(stop.value)

    def fail(self, error: BaseException) -> Effect | Done[T]:
        """Goes on with an error, which the operation may handle."""
        try:
            return self._op.throw(error)
        except StopIteration as stop:
            return Done(stop.value)

    def close(self) -> None:
        """End the operation."""
        self._op.close()


class Runner:
    """Performs effects with blocking calls."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.http = httpx2.Client(base_url=settings.url, headers=settings.headers, verify=settings.verify)

    def run(self, op: Op[T]) -> T:
        """Run an operation to its end."""
        machine = Machine(op)
        with ExitStack() as streams, closing(machine):
            step = machine.feed(None)
            while not isinstance(step, Done):
                step = self._step(machine, step, streams)
            return step.value

    def iterate(self, op: Stream[T]) -> Iterator[T]:
        """Yield the items of an operation."""
        machine = Machine(op)
        with ExitStack() as streams, closing(machine):
            step = machine.feed(None)
            while not isinstance(step, Done):
                if isinstance(step, Emit):
                    yield step.item
                    step = machine.feed(None)
                else:
                    step = self._step(machine, step, streams)

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def _step(self, machine: Machine[T], effect: Effect, streams: ExitStack) -> Effect | Done[T]:
        try:
            outcome = self._perform(effect, streams)
        except (httpx2.TransportError, KeyboardInterrupt) as error:
            return machine.fail(error)
        return machine.feed(outcome)

    def _perform(self, effect: Effect, streams: ExitStack) -> object:
        match effect:
            case Send(call):
                content = call.body.chunks() if call.body else None
                return self.http.request(call.method, call.path, **self.settings.request(call, content))
            case Follow(call):
                streams.close()
                source = streams.enter_context(self.http.sse(call.path, **self.settings.stream(call)))
                if source.response.status_code != 200:
                    source.response.read()
                return EventStream(source.response, iter(source))
            case Next(stream):
                return next(stream.events, None)
            case Sleep(seconds):
                time.sleep(seconds)
                return None
            case Emit():
                raise TypeError("an operation with one result emitted an item")


class AsyncRunner:
    """Performs effects in an event loop: that of asyncio, or of trio."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.http = httpx2.AsyncClient(
            base_url=settings.url, headers=settings.headers, verify=settings.verify
        )

    async def run(self, op: Op[T]) -> T:
        """Run an operation to its end."""
        machine = Machine(op)
        async with AsyncExitStack() as streams:
            with closing(machine):
                step = machine.feed(None)
                while not isinstance(step, Done):
                    step = await self._step(machine, step, streams)
                return step.value

    async def iterate(self, op: Stream[T]) -> AsyncIterator[T]:
        """Yield the items of an operation."""
        machine = Machine(op)
        async with AsyncExitStack() as streams:
            with closing(machine):
                step = machine.feed(None)
                while not isinstance(step, Done):
                    if isinstance(step, Emit):
                        yield step.item
                        step = machine.feed(None)
                    else:
                        step = await self._step(machine, step, streams)

    async def close(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def _step(self, machine: Machine[T], effect: Effect, streams: AsyncExitStack) -> Effect | Done[T]:
        try:
            outcome = await self._perform(effect, streams)
        except httpx2.TransportError as error:
            return machine.fail(error)
        except anyio.get_cancelled_exc_class() as canceled:
            await self._clean_up(machine, canceled, streams)
            raise
        return machine.feed(outcome)

    async def _clean_up(
        self, machine: Machine[Any], canceled: BaseException, streams: AsyncExitStack
    ) -> None:
        """Lets a canceled operation send its last requests."""
        with anyio.move_on_after(_CLEAN_UP, shield=True):
            try:
                step = machine.fail(canceled)
                while not isinstance(step, Done):
                    step = machine.feed(await self._perform(step, streams))
            except (ClientError, httpx2.TransportError, type(canceled)):
                return  # the cancellation is what the caller must see

    async def _perform(self, effect: Effect, streams: AsyncExitStack) -> object:
        match effect:
            case Send(call):
                content = _in_threads(call.body) if call.body else None
                return await self.http.request(call.method, call.path, **self.settings.request(call, content))
            case Follow(call):
                await streams.aclose()
                source = await streams.enter_async_context(
                    self.http.sse(call.path, **self.settings.stream(call))
                )
                if source.response.status_code != 200:
                    await source.response.aread()
                return EventStream(source.response, aiter(source))
            case Next(stream):
                return await anext(stream.events, None)
            case Sleep(seconds):
                await anyio.sleep(seconds)
                return None
            case Emit():
                raise TypeError("an operation with one result emitted an item")


async def _in_threads(body: Body) -> AsyncIterator[bytes]:
    """Return the chunks of a body, read or encoded in threads, so that the event loop goes on."""
    chunks = body.chunks()
    while (chunk := await anyio.to_thread.run_sync(next, chunks, None)) is not None:
        yield chunk


class Blocking:
    """Verbs that return their result."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._settings = runner.settings


class Awaiting:
    """Verbs that are awaited."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner
        self._settings = runner.settings


class verb(Generic[P, T]):  # noqa: N801 - a decorator
    """Makes a method of an operation: one that blocks, or one that is awaited."""

    def __init__(self, op: Callable[Concatenate[Any, P], Op[T]]) -> None:
        self.op = op
        functools.update_wrapper(cast(Any, self), op)

    @overload
    def __get__(self, owner: None, kind: type) -> verb[P, T]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, owner: Blocking | Awaiting | None, kind: type) -> Any:
        if owner is None:
            return self

        @functools.wraps(self.op)
        def call(*args: P.args, **kwargs: P.kwargs) -> T | Coroutine[Any, Any, T]:
            return owner._runner.run(self.op(owner, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

        return call


class items(Generic[P, T]):  # noqa: N801 - a decorator
    """Makes a method that returns an iterator, or an asynchronous one."""

    def __init__(self, op: Callable[Concatenate[Any, P], Stream[T]]) -> None:
        self.op = op
        functools.update_wrapper(cast(Any, self), op)

    @overload
    def __get__(self, owner: None, kind: type) -> items[P, T]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, owner: Blocking | Awaiting | None, kind: type) -> Any:
        if owner is None:
            return self

        @functools.wraps(self.op)
        def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[T] | AsyncIterator[T]:
            return owner._runner.iterate(self.op(owner, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

        return call
