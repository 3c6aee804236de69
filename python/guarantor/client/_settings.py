"""The arguments of a client, checked."""

from __future__ import annotations

import os
import ssl
from typing import TypedDict, Unpack

import httpx2

from guarantor.client._retry import Retry
from guarantor.client._transport import Awaiting, Blocking, Settings

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_RETRY = Retry()


class ClientOptions(TypedDict, total=False):
    """How a client behaves.

    Attributes:
        timeout: Seconds until a request fails that gets no answer; 30 by default. Waiting for jobs takes as long as
            it takes.
        upload_timeout: The same for uploads, which are checked while they are sent; 600 by default.
        retry: When requests are repeated. Only those are that do no more when they are sent twice.
        verify: How to check the certificate of the server's TLS; an `ssl.SSLContext` for one's own authority.
    """

    timeout: float
    upload_timeout: float
    retry: Retry
    verify: ssl.SSLContext | bool


def settings_of(url: str | None, key: str | None, **options: Unpack[ClientOptions]) -> Settings:
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
    unknown = set(options) - set(ClientOptions.__annotations__)
    if unknown:
        raise TypeError(f"a client has no option {', '.join(sorted(unknown))}")
    return Settings(
        str(parsed),
        options.get("timeout", 30.0),
        options.get("upload_timeout", 600.0),
        options.get("retry", DEFAULT_RETRY),
        headers,
        options.get("verify", True),
    )


def described(client: Blocking | Awaiting) -> str:
    """Return a client without its key."""
    settings = client._settings  # pyright: ignore[reportPrivateUsage]
    key = "with a key" if "authorization" in settings.headers else "without a key"
    return f"<{type(client).__name__} of {settings.url}, {key}>"
