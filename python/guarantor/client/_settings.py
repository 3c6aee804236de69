"""The arguments of a client, checked."""

from __future__ import annotations

import os
import ssl

import httpx2

from guarantor.client._retry import Retry
from guarantor.client._transport import Awaiting, Blocking, Settings

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_RETRY = Retry()


def settings_of(
    url: str | None,
    key: str | None,
    timeout: float,
    upload_timeout: float,
    retry: Retry,
    verify: ssl.SSLContext | bool,
) -> Settings:
    """Return the settings of a client."""
    if url is None:
        url = os.environ.get("GUARANTOR_URL", DEFAULT_URL)
        # The key of the environment belongs to the server of the environment, and goes to no other.
        key = key or os.environ.get("GUARANTOR_API_KEY")
    parsed = httpx2.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(
            f"{parsed.scheme}://…: the URL of a server begins with http:// or https:// and names a host"
        )
    if parsed.userinfo:
        raise ValueError("the URL has a password in it; leave it out, and state the API key as key=")
    if parsed.query or parsed.fragment:
        raise ValueError(f"{url}: the URL of a server has no query")
    if key is not None and (not key.isascii() or not key.isprintable() or " " in key):
        raise ValueError("the key has characters that no key has; was it copied with a line break?")
    headers = {"user-agent": "guarantor-python", **({"authorization": f"Bearer {key}"} if key else {})}
    return Settings(str(parsed), timeout, upload_timeout, retry, headers, verify)


def described(client: Blocking | Awaiting) -> str:
    """Return a client without its key."""
    settings = client._settings  # pyright: ignore[reportPrivateUsage]
    key = "with a key" if "authorization" in settings.headers else "without a key"
    return f"<{type(client).__name__} of {settings.url}, {key}>"
