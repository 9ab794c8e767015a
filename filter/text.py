"""Clean and compare text: what Unicode allows and stores refuse."""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata

_SPACE = re.compile(r"\s+")


def scrub(text: str) -> str:
    """Return `text` without NUL; surrogate pairs are joined, lone ones become U+FFFD."""
    joined = text.replace("\x00", "").encode("utf-16-le", "surrogatepass")
    return joined.decode("utf-16-le", "replace")


def normalise(text: str) -> str:
    """Return the form in which two spellings of the same sentence are equal."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _SPACE.sub(" ", folded).strip().rstrip(".!;, ")


def digest(*parts: str) -> str:
    """Return the sha256 (hex) of the parts, kept apart from one another."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def user_reference(salt: bytes, identity: str) -> str:
    """Return the HMAC that stands for a user or a chat, empty where nobody is named."""
    return hmac.new(salt, identity.encode(), hashlib.sha256).hexdigest() if identity else ""


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters, an ellipsis marking a cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)].rstrip() + "…"


def repeats(line: str, text: str, run: int = 12) -> bool:
    """Say whether a line repeats a stretch of `run` characters of a text, or a shorter text whole.

    For messages of others: what they echo is somebody's chat.
    """
    if 0 < len(text.strip()) < run:
        return text.strip() in line
    return any(line[at : at + run] in text for at in range(len(line) - run + 1))
