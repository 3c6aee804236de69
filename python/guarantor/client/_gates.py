"""Standing gates and their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from guarantor.client._effects import Op, Stream
from guarantor.client._operations import Operations, identifier
from guarantor.client._transport import items, verb
from guarantor.client.errors import UnexpectedResponse
from guarantor.client.models import Gate, GateDefinition, GateToken, NewGateToken
from guarantor.client.requests import GateRequest, GateRequirements


def requirements_query(requirements: Mapping[str, Any]) -> dict[str, Any]:
    """Return requirements as a query carries them."""
    guardrails = requirements.get("guardrails")
    if not guardrails:
        return dict(requirements)
    listed = ",".join(f"{rail['outcome']}={rail['max_loss']}" for rail in guardrails)
    return {**requirements, "guardrails": listed}


class GateOperations(Operations):
    """What everything with a gate has."""

    def _ask(self, path: str, requirements: Mapping[str, Any]) -> Op[Gate]:
        """Ask a gate. Whatever is not a clear yes is an error."""
        gate = yield from self._get(Gate, path, requirements_query(requirements), gate=True)
        if gate.ok is not True or gate.decision != "deploy":
            raise UnexpectedResponse(
                "200, but the gate does not say deploy: do not roll out, and check the URL"
            )
        return gate


class GateVerbs(GateOperations):
    """Standing gates, whose URL never changes."""

    @verb
    def create(
        self, *, idempotency_key: str | None = None, **request: Unpack[GateRequest]
    ) -> Op[GateDefinition]:
        """Create a gate that asks about the last job that it selects.

        Example:
            >>> from guarantor.client import Client, GateClosed
            >>> with Client() as client:
            ...     gate = client.gates.create(name="docs", selector={"app": "docs"})
            ...     try:
            ...         client.gates.ask("docs")
            ...     except GateClosed as closed:
            ...         print(closed.code)
            ...     client.gates.delete("docs")
            no_matching_job

        """
        return (yield from self._create(GateDefinition, "/v1/gates", request, idempotency_key))

    @verb
    def ask(self, gate: str, /, **requirements: Unpack[GateRequirements]) -> Op[Gate]:
        """Asks a gate. Returns only if it is open; otherwise it raises `GateClosed`.

        Requirements can raise the gate's bar, and never lower it.
        """
        return (yield from self._ask(f"/v1/gates/{identifier(gate)}", requirements))

    @verb
    def ask_by_token(self, token: str, /, **requirements: Unpack[GateRequirements]) -> Op[Gate]:
        """Asks the gate of a token, which needs no key."""
        return (yield from self._ask(f"/v1/gate/{identifier(token)}", requirements))

    @verb
    def get(self, gate: str) -> Op[GateDefinition]:
        """Return the definition of a gate."""
        return (yield from self._get(GateDefinition, f"/v1/gates/{identifier(gate)}/definition"))

    @verb
    def change(self, gate: str, /, **request: Unpack[GateRequest]) -> Op[GateDefinition]:
        """Replace the definition of a gate. What is left out has its default afterwards."""
        return (yield from self._put(GateDefinition, f"/v1/gates/{identifier(gate)}", request))

    @items
    def list(self) -> Stream[GateDefinition]:
        """All gates."""
        yield from self._list(GateDefinition, "/v1/gates")

    @verb
    def delete(self, gate: str) -> Op[None]:
        """Delete a gate and its tokens."""
        yield from self._delete(f"/v1/gates/{identifier(gate)}")

    @verb
    def create_token(self, gate: str, *, name: str | None = None) -> Op[NewGateToken]:
        """Make a URL that asks the gate without a key. Its secret is shown this once.

        The request is never repeated.
        """
        return (yield from self._act(NewGateToken, f"/v1/gates/{identifier(gate)}/tokens", {"name": name}))

    @items
    def tokens(self, gate: str) -> Stream[GateToken]:
        """Return the tokens of a gate, without their secrets."""
        yield from self._list(GateToken, f"/v1/gates/{identifier(gate)}/tokens", paged=False)

    @verb
    def revoke_token(self, gate: str, token: str | GateToken) -> Op[None]:
        """Revokes a token."""
        yield from self._delete(f"/v1/gates/{identifier(gate)}/tokens/{identifier(token)}")
