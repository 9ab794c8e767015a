"""Ask a model for one verdict: what it must offer, and how the verdict is read.

A verdict counts only from the last line, in one form and after reasons, or from one JSON
object; everything else is no decision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from lessons_loop.filter.errors import UnreadableReply
from lessons_loop.filter.llm import ChatReply
from lessons_loop.filter.text import scrub, shorten
from lessons_loop.promote.lint.hidden import find_hidden
from lessons_loop.promote.masking import mask_through

REASON_LEAST = 10
REASON_LIMIT = 400
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.IGNORECASE | re.DOTALL)
_OPEN_THINKING = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"^```[a-z]*\s*|\s*```$", re.IGNORECASE)
_VERDICT_LINE = re.compile(r"^[*_`#>\s]*(?i:VERDICT)[*_`]*\s*[:：][*_`\s]*([A-Z]+)[*_`\s]*[.]?$")
_ANY_VERDICT = re.compile(r"VERDICT[*_`]*\s*[:：][*_`\s]*([A-Z]+)", re.IGNORECASE)


_FENCES = re.compile(r"<(?=<<)|>(?=>>)")
"""What the delimiters of a prompt begin and end with."""


class AskModel(Protocol):
    """What a judging or reviewing model must be able to do."""

    model: str

    def ask(self, messages: list[dict[str, str]], max_tokens: int = 1500) -> ChatReply:
        """Return the reply; raise ModelError."""


class ReadVerdict(NamedTuple):
    """What a model decided."""

    word: str
    reason: str
    """Masked, at most 400 characters."""


def one_line(content: Mapping[str, Any]) -> str:
    """Return plain values as one line of JSON that holds no delimiter and no hidden character.

    Both are escaped, so that the values stay what they are.
    """
    line = scrub(json.dumps(content, ensure_ascii=False))
    hidden = {found.position for found in find_hidden(line)}
    shown = "".join(_escaped(c) if at in hidden else c for at, c in enumerate(line))
    return _FENCES.sub(lambda found: _escaped(found.group()), shown)


def _escaped(letter: str) -> str:
    return json.dumps(letter)[1:-1] if ord(letter) > 126 else f"\\u{ord(letter):04x}"


def read_verdict(reply: ChatReply, words: Collection[str], what: str) -> ReadVerdict:
    """Return the verdict, one of `words` (upper case).

    Raises UnreadableReply, naming `what` was asked for, when there is none beyond doubt.
    """
    if reply.finish_reason == "length":
        raise UnreadableReply(f"the {what} was cut off before its verdict")
    text = _THINKING.sub("", reply.text).strip()
    if _OPEN_THINKING.search(text):
        raise UnreadableReply(f"the {what} was cut off while thinking")
    if found := _from_json(text, words, what):
        return found
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = _VERDICT_LINE.match(lines[-1]) if lines else None
    named = {word.upper() for word in _ANY_VERDICT.findall(text)}
    if last is None or last.group(1) not in words or named != {last.group(1)}:
        raise UnreadableReply(f"the {what} has no single VERDICT line at its end")
    return _checked(last.group(1), " ".join(lines[:-1]), what)


def _from_json(text: str, words: Collection[str], what: str) -> ReadVerdict | None:
    bare = _FENCE.sub("", text).strip()
    if not bare.startswith("{"):
        return None
    try:
        found = json.loads(bare, object_pairs_hook=_unrepeated)
    except ValueError:
        return None
    reasons = [found.get(name) for name in ("reasoning", "reason", "reasons")]
    word = found.get("verdict", found.get("VERDICT"))
    if not isinstance(word, str) or word not in words:
        raise UnreadableReply(f"the {what}'s verdict is none of {', '.join(sorted(words))}")
    return _checked(word, " ".join(str(reason) for reason in reasons if reason), what)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return one object; raise ValueError where it gives a field twice: the last would count."""
    names = [name.casefold() for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a field stands twice")
    return dict(pairs)


def _checked(word: str, reason: str, what: str) -> ReadVerdict:
    if len(reason) < REASON_LEAST:
        raise UnreadableReply(f"the {what} gives no reason")
    return ReadVerdict(word, shorten(mask_through(reason), REASON_LIMIT))
