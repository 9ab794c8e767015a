"""Check a ledger's lines and heads: pure. A problem names the place in the file.

Covered: any edited, removed, inserted or moved line, also one that reads the same but is
spelt otherwise; a cut-off tail, as far as curated has seen it.
Not covered: a line that was changed and sealed anew is told as the one after it, which
no longer follows; somebody who can rewrite ledger and curated both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.promote.files import canonical
from lessons_loop.promote.records import Action, Actor

FIRST_PREV = "0" * 64


class Head(NamedTuple):
    """The last line a domain's curated lessons have seen; n = 0 before the first."""

    n: int
    hash: str


class LedgerEntry(BaseModel):
    """One decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int
    at: str
    run: str
    action: Action
    domain: str
    key: str
    actor: Actor
    reason: str
    payload: str
    """sha256 of the payload file's bytes."""
    prev: str
    hash: str = ""

    def computed_hash(self) -> str:
        """Return the hash this line should carry."""
        return hashlib.sha256(canonical(self.model_dump(mode="json", exclude={"hash"}))).hexdigest()

    def sealed(self) -> LedgerEntry:
        """Return the line with its hash."""
        return self.model_copy(update={"hash": self.computed_hash()})

    def line(self) -> bytes:
        """Return the line as the file holds it."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False).encode() + b"\n"


class Line(NamedTuple):
    """One line of the file."""

    place: int
    """From 1."""
    raw: bytes
    """Without its newline."""
    entry: LedgerEntry | None
    """None: cannot be read."""
    ended: bool = True
    """False: the last line, without its newline."""

    @property
    def sound(self) -> LedgerEntry | None:
        """Return the entry where it is what the gate wrote, byte for byte."""
        found = self.entry
        if found is None or found.hash != found.computed_hash():
            return None
        return found if found.line()[:-1] == self.raw else None


class Problem(NamedTuple):
    """Something that is not as it was written."""

    place: int
    """Line of the file."""
    text: str

    @property
    def told(self) -> str:
        """Return it as one line."""
        return f"line {self.place}: {self.text}"


def split_lines(content: bytes) -> list[Line]:
    """Return the lines of a ledger's file."""
    parts = content.split(b"\n")
    lines = [Line(place, raw, _read(raw)) for place, raw in enumerate(parts[:-1], start=1)]
    if parts[-1]:
        lines.append(Line(len(parts), parts[-1], None, ended=False))
    return lines


def _read(raw: bytes) -> LedgerEntry | None:
    try:
        return LedgerEntry.model_validate_json(raw)
    except ValidationError:
        return None


def read_torn(line: Line) -> LedgerEntry | None:
    """Return the entry of a last line that lacks its newline alone."""
    return Line(line.place, line.raw, _read(line.raw)).sound


def chain_problems(lines: Iterable[Line]) -> list[Problem]:
    """Return what is wrong with the lines alone, in file order."""
    problems: list[Problem] = []
    number, prev = 1, FIRST_PREV
    known = True
    """Whether `prev` is what the line before it should have ended with."""
    for line in lines:
        found = _problem_of(line, number, prev if known else None)
        problems += [Problem(line.place, found)] if found else []
        known = line.entry is not None
        number = line.entry.n + 1 if line.entry else number + 1
        prev = line.entry.hash if line.entry else ""
    return problems


def _problem_of(line: Line, number: int, prev: str | None) -> str:
    entry = line.entry
    if not line.ended:
        return "has no end"
    if entry is None:
        return "cannot be read"
    if entry.hash != entry.computed_hash():
        return "was edited, its hash does not match"
    if entry.line()[:-1] != line.raw:
        return "was spelt anew, it is not as the gate wrote it"
    if entry.n != number:
        return f"number {entry.n} stands where number {number} should be"
    if prev not in (None, entry.prev):
        return "does not follow the line before it: one of the two was changed"
    return ""


def head_problems(
    lines: Sequence[Line], heads: Mapping[str, Head], open_lines: Iterable[LedgerEntry] = ()
) -> list[Problem]:
    """Return where curated has seen other lines; `open_lines`: of the change under way."""
    entries = [line.entry for line in lines if line.entry]
    by_number = {entry.n: entry for entry in entries}
    under_way = {entry.hash for entry in open_lines}
    last = {e.domain: e.n for e in entries if e.hash not in under_way}
    problems = []
    for domain, head in heads.items():
        found = by_number.get(head.n)
        if head.n and found is None:
            text = f"is missing, {domain} has seen line {head.n}: the ledger was cut off"
            problems.append(Problem(min(head.n, len(lines) + 1), text))
        elif found is not None and found.hash != head.hash:
            text = f"is not the one curated was written with ({domain})"
            problems.append(Problem(head.n, text))
        elif last.get(domain, 0) > head.n:
            text = f"is unknown to curated ({domain})"
            problems.append(Problem(last[domain], text))
    return problems
