"""Policies: stored parameters, and the service as a scorer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from guarantor.client._base import Model
from guarantor.client._candidates import as_rows
from guarantor.client._effects import Op, Stream
from guarantor.client._operations import Operations, identifier
from guarantor.client._transport import items, verb
from guarantor.client.models import Action, Actions, Policy, Propensities
from guarantor.client.requests import PolicyParams

Matrix: TypeAlias = list[list[float]]
Drawn: TypeAlias = list[Action]

# About a megabyte of JSON per request.
_NUMBERS = 50_000


class PolicyVerbs(Operations):
    """Stored policies."""

    @verb
    def create(self, parameters: PolicyParams, *, idempotency_key: str | None = None) -> Op[Policy]:
        """Store a policy.

        Example:
            >>> from guarantor.client import Client
            >>> with Client() as client:
            ...     policy = client.policies.create({"kind": "uniform", "n_actions": 4, "dim": 2})
            ...     client.policies.propensities(policy, [[0.5, 1.0]])
            [[0.25, 0.25, 0.25, 0.25]]

        """
        return (yield from self._create(Policy, "/v1/policies", dict(parameters), idempotency_key))

    @verb
    def get(self, policy: str | Policy, *, include: Literal["mean"] | None = None) -> Op[Policy]:
        """Return a policy; with `include="mean"`, with its parameters."""
        return (yield from self._get(Policy, f"/v1/policies/{identifier(policy)}", {"include": include}))

    @verb
    def parameters(self, policy: str | Policy) -> Op[dict[str, Any]]:
        """Return the parameters of a policy, as `create` takes them."""
        return (yield from self._get(Model, f"/v1/policies/{identifier(policy)}/parameters")).to_dict()

    @items
    def list(self) -> Stream[Policy]:
        """All policies, newest first."""
        yield from self._list(Policy, "/v1/policies")

    @verb
    def delete(self, policy: str | Policy) -> Op[None]:
        """Delete a policy. Gates no longer open for its certificates."""
        yield from self._delete(f"/v1/policies/{identifier(policy)}")

    @verb
    def propensities(self, policy: str | Policy, contexts: Any) -> Op[Matrix]:
        """Return the probability of every action in every context, in batches.

        A context is a list of numbers (an array has one per row), or an object with `x` and `actions` if the
        policy plays over the actions that it is given.
        """
        path, found = f"/v1/policies/{identifier(policy)}/propensities", Matrix()
        for batch in _batches(as_rows("contexts", contexts)):
            found += (yield from self._compute(Propensities, path, {"contexts": batch})).propensities
        return found

    @verb
    def actions(self, policy: str | Policy, contexts: Any, *, seed: int | None = None) -> Op[Drawn]:
        """Draws an action in every context. The same seed and contexts give the same actions.

        With a seed, everything is one request, because a seed is about one request's contexts.
        """
        path, found = f"/v1/policies/{identifier(policy)}/actions", Drawn()
        rows = as_rows("contexts", contexts)
        for batch in _batches(rows) if seed is None else iter([rows]):
            body = {"contexts": batch} if seed is None else {"contexts": batch, "seed": seed}
            found += (yield from self._compute(Actions, path, body)).actions
        return found


def _batches(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Rows in groups of a bounded number of numbers."""
    start, size = 0, 0
    for i, row in enumerate(rows):
        cost = _numbers(row)
        if i > start and size + cost > _NUMBERS:
            yield rows[start:i]
            start, size = i, 0
        size += cost
    if start < len(rows):
        yield rows[start:]


def _numbers(value: Any) -> int:
    parts: Any = value.values() if isinstance(value, dict) else value  # pyright: ignore[reportUnknownVariableType]
    return sum(map(_numbers, parts)) if isinstance(value, (dict, list, tuple)) else 1
