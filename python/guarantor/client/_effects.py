"""What the operations of the client ask of the network.

An operation is a generator. It yields effects, gets their outcome back, and returns its result. It does no
input or output itself, so the blocking and the asynchronous client share every operation, and differ only in
who performs the effects (`_transport.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import httpx2

if TYPE_CHECKING:
    from guarantor.client._uploads import Body

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    json: object = None
    body: Body | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    repeatable: bool = False
    """Whether sending it twice does no more than sending it once."""
    patience: float = 0.0
    """How many seconds the server may take beyond the usual time limit."""
    gate: bool = False
    """Whether a rejection means that a gate is closed."""


@dataclass(frozen=True)
class Send:
    """Sends a request; the outcome is the response with its body."""

    call: Call


@dataclass(frozen=True)
class Follow:
    """Opens a stream of events; the outcome is an `EventStream`."""

    call: Call


@dataclass
class EventStream:
    """An open stream of events, or the response that came instead."""

    response: httpx2.Response
    events: Any


@dataclass(frozen=True)
class Next:
    """Waits for the next event of a stream; the outcome is the event, or None at the end."""

    stream: EventStream


@dataclass(frozen=True)
class Sleep:
    """Waits."""

    seconds: float


@dataclass(frozen=True)
class Emit(Generic[T_co]):
    """Gives an item to whoever iterates."""

    item: T_co


Effect: TypeAlias = Send | Follow | Next | Sleep | Emit[Any]
Op: TypeAlias = Generator[Effect, Any, T]
"""An operation with one result."""
Stream: TypeAlias = Generator[Send | Follow | Next | Sleep | Emit[T], Any, None]
"""An operation with many items."""


def send(call: Call) -> Op[httpx2.Response]:
    """Send a request."""
    response: httpx2.Response = yield Send(call)
    return response


def follow(call: Call) -> Op[EventStream]:
    """Open a stream of events."""
    stream: EventStream = yield Follow(call)
    return stream


def next_event(stream: EventStream) -> Op[httpx2.ServerSentEvent | None]:
    """Wait for the next event."""
    event: httpx2.ServerSentEvent | None = yield Next(stream)
    return event


def observed(stream: Stream[T], see: Callable[[T], object]) -> Op[None]:
    """Run an operation with many items to its end, and show each item to a function."""
    try:
        effect = next(stream)
        while True:
            if isinstance(effect, Emit):
                see(effect.item)
                effect = stream.send(None)
                continue
            try:
                outcome: Any = yield effect
            except BaseException as error:
                effect = stream.throw(error)
            else:
                effect = stream.send(outcome)
    except StopIteration:
        return
    finally:
        stream.close()
