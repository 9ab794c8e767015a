"""The HTTP side of a lesson store's client: every answer bounded in time and size.

Covered: a limit for connecting, for sending, for each wait until the headers are whole, and
for the whole body.
Not covered: headers that trickle in byte by byte for ever hold the background thread that
waits for them; no chat does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lessons_loop.filter.errors import AnswerTooLarge, StoreUnreachable

if TYPE_CHECKING:
    import ssl

POLICY_PROXY = b"the policy proxy refuses"
"""What `deploy/base/nginx.conf` says with each 403."""


class BoundedSession:
    """Stands where Chroma's client keeps its own: limits time and size, follows no redirect.

    Built on httpx's transport: its client would log each of our regular looks.
    """

    def __init__(self, token: str, seconds: float, answer_limit: int) -> None:
        import httpx

        self.seconds, self.answer_limit, self._token = seconds, answer_limit, token
        named = {"Authorization": f"Bearer {token}"} if token else {}
        fixed = {"Content-Type": "application/json", "User-Agent": "lessons-loop"}
        self.headers = httpx.Headers(fixed | named)  # its repr hides the token
        self._transport = httpx.HTTPTransport(
            verify=trusted_certificates(), limits=httpx.Limits(keepalive_expiry=40.0)
        )

    def request(self, method: str, url: str, *, params: Any = None, content: Any = None) -> Any:
        """Return the answer; raise StoreUnreachable, AnswerTooLarge, httpx's TransportError."""
        import httpx

        extensions = {"timeout": httpx.Timeout(self.seconds).as_dict()}
        asked = httpx.Request(
            method,
            url,
            params=params,
            content=content,
            headers=self.headers,
            extensions=extensions,
        )
        answer = self._transport.handle_request(asked)
        try:
            body = read_bounded(answer.iter_bytes(), self.seconds, self.answer_limit)
        finally:
            answer.close()
        if self._token and answer.is_error:  # a server may repeat what it was sent
            body = body.replace(self._token.encode(), b"(token)")
        refuse_failure(answer.status_code, body)
        return httpx.Response(answer.status_code, content=body, request=asked)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


def trusted_certificates() -> ssl.SSLContext:
    """Return what httpx trusts: read once, and again when the setting or its file changed.

    Reading takes 13 ms and 0.7 MB, which Chroma's circular references keep for long (measured).
    """
    changed = None
    where = tuple(os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    with suppress(OSError):
        changed = os.stat(where[0] or where[1]).st_mtime_ns
    return _certificates(where, changed)


@lru_cache(maxsize=1)
def _certificates(where: tuple[str, ...], changed: int | None) -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


def read_bounded(chunks: Iterator[bytes], seconds: float, limit: int) -> bytes:
    """Return the joined chunks; raise StoreUnreachable, AnswerTooLarge beyond a limit."""
    deadline = time.monotonic() + seconds
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise AnswerTooLarge(f"the server's answer has more than {limit // 2**20} MiB")
        if time.monotonic() > deadline:
            raise StoreUnreachable(f"the server's answer took more than {seconds:g} s")
    return bytes(body)


def refuse_failure(status: int, body: bytes) -> None:
    """Raise StoreUnreachable for a status that Chroma itself would not have explained."""
    if status == 403 and POLICY_PROXY in body:
        raise StoreUnreachable(
            "the policy proxy refuses this (HTTP 403): through its address curated is read and "
            "staging added to, nothing else; gate, desk and doctor need Chroma's own address"
        )
    if status in (401, 403):
        raise StoreUnreachable(
            f"the server refuses access (HTTP {status}): check `chroma_token` "
            "(LESSONS_CHROMA_TOKEN) and what it may do"
        )
    between = status in (408, 429, 502, 503, 504)  # proxies say these, some of them in JSON
    if between or (status >= 500 and not body.lstrip().startswith(b"{")):
        raise StoreUnreachable(f"the server answers HTTP {status}")
    if 300 <= status < 400:
        raise StoreUnreachable(f"the server answers with a redirect (HTTP {status}): set that one")
