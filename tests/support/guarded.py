"""The committed policy between raw sockets and an upstream that records; what it may let pass."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.nginx import Proxy, send_raw, statuses
from support.recorder import Recorder

TENANT = "/api/v2/tenants/default_tenant"
CURATED, STAGING, GATE = (str(uuid.UUID(int=number, version=4)) for number in (1, 2, 3))
KNOWN = {("curated", CURATED), ("staging", STAGING), ("gate", GATE)}
LOOKS = ("heartbeat", "version", "auth/identity", "pre-flight-checks")
PERMITTED = [
    *(f"GET /api/v2/{look}" for look in LOOKS),
    f"GET {TENANT}",
    *(f"GET {TENANT}/databases/{name}" for name in ("curated", "staging")),
    f"GET {TENANT}/databases/curated/collections/sql-lessons",
    f"GET {TENANT}/databases/staging/collections/sql-lessons-candidates",
    f"GET {TENANT}/databases/staging/collections/sql-lessons-events",
    f"POST {TENANT}/databases/curated/collections/{CURATED}/query",
    f"POST {TENANT}/databases/curated/collections/{CURATED}/get",
    f"GET {TENANT}/databases/curated/collections/{CURATED}/count",
    f"GET {TENANT}/databases/curated/collections/{CURATED}/count?read_level=index_and_wal",
    f"POST {TENANT}/databases/staging/collections/{STAGING}/add",
]
"""The filter's whole life, as the issue lists it."""


class Guarded(NamedTuple):
    """A proxy and what reaches the other side."""

    proxy: Proxy
    seen: Recorder

    def send(self, line: str | bytes, *headers: str, body: bytes = b"") -> list[int]:
        """Send one request line as it is; return the statuses that come back."""
        return statuses(self.answer(line, *headers, body=body))

    def answer(self, line: str | bytes, *headers: str, body: bytes = b"") -> bytes:
        """Send one request line as it is, a POST with a body; return the whole answer."""
        raw = line if isinstance(line, bytes) else line.encode("utf-8", "surrogateescape")
        body = body or (b"{}" if raw.startswith(b"POST ") else b"")
        more = "".join(f"{header}\r\n" for header in ("Host: x", "Connection: close", *headers))
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return send_raw(self.proxy.port, raw + f"\r\n{more}{length}\r\n".encode() + body)


@contextlib.contextmanager
def guarding(folder: Path) -> Iterator[Guarded]:
    """Start both."""
    with Recorder(KNOWN) as seen, Proxy(folder, seen.port) as proxy:
        yield Guarded(proxy, seen)
