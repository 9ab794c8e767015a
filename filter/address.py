"""Addresses of OpenAI-compatible servers: completed for use, stripped for messages."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from lessons_loop.filter.errors import ModelError
from lessons_loop.filter.text import shorten


def completions_url(url: str) -> str:
    """Return the chat completions address for a base address; raise ModelError."""
    cleaned = url.strip()
    try:
        parts = urlsplit(cleaned)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        shown = shorten(public_url(cleaned), 80)
        raise ModelError(
            f"the model's address {shown!r} is no http(s) URL: set one like http://host/v1"
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path += "/chat/completions" if has_version(path) else "/v1/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def has_version(path: str) -> bool:
    """Say whether a base address already ends in what comes before `/chat/completions`."""
    return re.search(r"/(?:v\d+\w*|openai|api)$", path) is not None


def public_url(url: str) -> str:
    """Return an address without user, password, query and fragment."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    return re.sub(r"//[^/]*@", "//", bare)
