"""A transcript as the distiller sees it: masked, readable, numbered, bounded.

What is shown is what is checked: quotes and names are looked up in the same masked text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lessons_loop.filter.people import name_words
from lessons_loop.filter.proof import DOCUMENT_TOOLS, Proofs
from lessons_loop.filter.redact import Finding, find_sensitive, mask_found
from lessons_loop.filter.terms import piece_index, quantities_in
from lessons_loop.filter.text import scrub
from lessons_loop.filter.transcript import Turn

TRANSCRIPT_LIMIT = 24_000
"""Characters of the transcript in the prompt; the end is kept."""
_SHOWN_LIMITS = {"user": 3000, "assistant": 1500, "call": 3000, "result": 1500}
_MASK_LIMIT = 60_000
"""Characters of one turn that are masked and searched, half from each end."""
_SECRET_AGAIN = re.compile(r"(?=[^\s]*[\d@])\S{6,200}")
"""Values that are looked for elsewhere too: with a digit or an @, no ordinary word."""
_RECALLED_MARK = "[a lesson recalled earlier]"


@dataclass(frozen=True)
class Reading:
    """Turns with their shown texts, and where names and numbers first stand."""

    turns: tuple[Turn, ...]
    texts: tuple[str, ...]
    """What is shown of each turn: calls as `key: value`, masked, recalled lessons removed."""
    people: frozenset[str] = frozenset()
    """Words of the names of people in it; wherever they stand they are masked."""
    secrets: frozenset[str] = frozenset()
    """Secrets and addresses found in it; wherever they stand they are masked."""

    @cached_property
    def proofs(self) -> Proofs:
        """Return what in the transcript proves anything."""
        return Proofs(self.turns)

    @cached_property
    def pieces(self) -> tuple[frozenset[str], ...]:
        """Return the pieces of names in each turn; a call's tool is one of its own words."""
        tools = [turn.tool if turn.role == "call" else "" for turn in self.turns]
        return tuple(
            piece_index(f"{tool} {text}") for tool, text in zip(tools, self.texts, strict=True)
        )

    @cached_property
    def numbers(self) -> tuple[frozenset[str], ...]:
        """Return the numbers of each turn."""
        return tuple(frozenset(quantities_in(text)) for text in self.texts)

    @cached_property
    def own(self) -> tuple[int, ...]:
        """Return the positions of calls and of the user's words, orders to the loop left out."""
        ordering = self.proofs.ordering
        return tuple(p for p in self.where("user", "call") if p not in ordering)

    @cached_property
    def told(self) -> tuple[int, ...]:
        """Return the positions of what others say: results, and orders to the loop."""
        ordering = self.proofs.ordering
        return tuple(sorted({*self.where("result"), *ordering}))

    def where(self, *roles: str) -> Iterator[int]:
        """Yield the positions of turns with one of these roles."""
        return (place for place, turn in enumerate(self.turns) if turn.role in roles)


def read_turns(turns: Sequence[Turn], injected: Sequence[str]) -> Reading:
    """Return the reading of a transcript; `injected` are the texts of recalled lessons."""
    recalled = [text for text in injected if len(text) >= 12]
    bounded = [_bounded(turn) for turn in turns]
    findings = [find_sensitive(text) for text in bounded]
    people = frozenset[str]().union(*map(name_words, bounded))
    secrets = frozenset[str]().union(*map(_secrets_in, bounded, findings))
    again = _told_again(people, secrets)
    masked = map(mask_found, bounded, findings)
    return Reading(
        tuple(turns), tuple(_shown(text, recalled, again) for text in masked), people, secrets
    )


def numbered_transcript(reading: Reading) -> str:
    """Return the numbered lines for the prompt, cut in the middle of long ones, then in front."""
    lines: list[str] = []
    size = 0
    for place in range(len(reading.turns) - 1, -1, -1):
        line = _numbered(reading, place)
        size += len(line) + 1
        if size > TRANSCRIPT_LIMIT and lines:
            lines.append("(earlier lines left out)")
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def speaker(turn: Turn) -> str:
    """Return who speaks, as the prompt names it."""
    if turn.role == "result":
        kind = "FAILED" if turn.failed else "DOCUMENT" if turn.tool in DOCUMENT_TOOLS else "RESULT"
    else:
        kind = turn.role.upper()
    tool = " ".join(turn.tool.split())[:60]
    return f"{kind} {tool}" if tool and turn.role in ("call", "result") else kind


def cut_middle(text: str, limit: int) -> str:
    """Return at most `limit` characters, the middle left out of a longer text."""
    if len(text) <= limit:
        return text
    half = max(0, limit - 20)
    return f"{text[: half * 3 // 5]} [... cut ...] {text[len(text) - half * 2 // 5 :]}"


def readable_call(arguments: str) -> str:
    """Return a call's JSON arguments as `key: value` lines, without escapes."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, Mapping):
        return arguments
    return scrub("\n".join(f"{key}: {_plain(value)}" for key, value in parsed.items()))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bounded(turn: Turn) -> str:
    text = readable_call(turn.text) if turn.role == "call" else turn.text
    return cut_middle(text, _MASK_LIMIT)


def _secrets_in(text: str, findings: Sequence[Finding]) -> frozenset[str]:
    found = (text[one.start : one.end] for one in findings if one.kind != "name")
    return frozenset(value for value in found if _SECRET_AGAIN.fullmatch(value))


def _mask_again(match: re.Match[str]) -> str:
    return "[personal: name]" if match.lastgroup == "name" else "[secret: told before]"


def _told_again(people: frozenset[str], secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return what finds the same names and secrets where nothing tells that they are some."""
    names = "|".join(sorted(map(re.escape, people)))
    values = "|".join(sorted(map(re.escape, secrets), key=len, reverse=True))
    parts = [rf"(?<![\w.])(?P<name>{names})(?!\w)"] if names else []
    parts += [rf"(?<!\w)(?:{values})(?!\w)"] if values else []
    return re.compile("|".join(parts)) if parts else None


def _shown(text: str, recalled: Sequence[str], again: re.Pattern[str] | None) -> str:
    text = text.replace("</transcript", "< /transcript")
    if again is not None:
        text = again.sub(_mask_again, text)
    for lesson in recalled:
        words = [re.escape(word) for word in lesson.split()]
        text = re.sub(r"\s+".join(words), _RECALLED_MARK, text)
    return text


def _numbered(reading: Reading, place: int) -> str:
    """Return one line; its own line breaks are indented, so that none imitates a new line."""
    turn = reading.turns[place]
    text = cut_middle(reading.texts[place], _SHOWN_LIMITS[turn.role])
    indented = "\n      ".join(line for line in text.splitlines() if line.strip())
    return f"[{place + 1}] {speaker(turn)}: {indented}"
