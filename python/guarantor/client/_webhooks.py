"""Webhooks and their deliveries."""

from __future__ import annotations

from typing import Unpack

from guarantor.client._effects import Op, Stream
from guarantor.client._operations import Operations, identifier
from guarantor.client._transport import items, verb
from guarantor.client.models import Delivery, Webhook, WebhookWithSecret
from guarantor.client.requests import SecretRequest, WebhookRequest


class WebhookVerbs(Operations):
    """Addresses that are told when jobs end.

    The server has no idempotency keys for them, so a POST is never repeated.
    """

    @verb
    def create(self, **request: Unpack[WebhookRequest]) -> Op[WebhookWithSecret]:
        """Create a webhook. Its secret is shown this once."""
        return (yield from self._act(WebhookWithSecret, "/v1/webhooks", request))

    @verb
    def get(self, webhook: str | Webhook) -> Op[Webhook]:
        """Return a webhook, without its secret."""
        return (yield from self._get(Webhook, f"/v1/webhooks/{identifier(webhook)}"))

    @verb
    def change(self, webhook: str | Webhook, /, **request: Unpack[WebhookRequest]) -> Op[Webhook]:
        """Replace a webhook's settings. What is left out has its default afterwards."""
        return (yield from self._put(Webhook, f"/v1/webhooks/{identifier(webhook)}", request))

    @items
    def list(self) -> Stream[Webhook]:
        """All webhooks."""
        yield from self._list(Webhook, "/v1/webhooks")

    @verb
    def delete(self, webhook: str | Webhook) -> Op[None]:
        """Delete a webhook and its deliveries."""
        yield from self._delete(f"/v1/webhooks/{identifier(webhook)}")

    @verb
    def rotate_secret(
        self, webhook: str | Webhook, /, **request: Unpack[SecretRequest]
    ) -> Op[WebhookWithSecret]:
        """Replace the secret. The old one signs too for the time of `grace`."""
        return (
            yield from self._act(WebhookWithSecret, f"/v1/webhooks/{identifier(webhook)}/secret", request)
        )

    @verb
    def test(self, webhook: str | Webhook) -> Op[Delivery]:
        """Sends an event to try the webhook."""
        return (yield from self._act(Delivery, f"/v1/webhooks/{identifier(webhook)}/test"))

    @items
    def deliveries(self, webhook: str | Webhook) -> Stream[Delivery]:
        """Return the deliveries of a webhook, newest first."""
        yield from self._list(Delivery, f"/v1/webhooks/{identifier(webhook)}/deliveries")

    @verb
    def redeliver(self, webhook: str | Webhook, delivery: str | Delivery) -> Op[Delivery]:
        """Delivers an event again."""
        path = f"/v1/webhooks/{identifier(webhook)}/deliveries/{identifier(delivery)}/redeliver"
        return (yield from self._act(Delivery, path))
