"""The ledger: every decision as one line, chained by hashes.

`ledger.jsonl` holds one JSON object a line; `hash` is the sha256 of the canonical
JSON of the rest, `prev` included. What a decision was about lies beside it in
`payloads/<sha256>.json`, so that content can go and the chain stay whole.

Covered: an edited, removed, reordered or inserted line, a cut-off tail (against the
heads kept in curated's metadata), a missing or changed payload.
Not covered: somebody who can rewrite both the ledger and curated.

A last line without its newline was never acknowledged (the crash came first): it is
moved aside to `ledger.torn-<hash>` when a gate opens the ledger. A whole line is
never moved or dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.promote.errors import LedgerBroken
from lessons_loop.promote.files import canonical, file_errors, sync_folder, write_atomic
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


class Ledger:
    """One state directory's ledger; `heads` tells what curated last saw, by domain."""

    def __init__(self, state: Path, heads: Callable[[], Mapping[str, Head]] | None = None) -> None:
        self.path = state / "ledger.jsonl"
        self.payloads = state / "payloads"
        self._heads = heads or dict

    def entries(self) -> list[LedgerEntry]:
        """Return the readable lines in file order; `verify` names the others."""
        return [entry for entry in self._parsed() if isinstance(entry, LedgerEntry)]

    def tail(self) -> LedgerEntry | None:
        """Return the last line; raise LedgerBroken when it cannot be read."""
        parsed = self._parsed()
        if parsed and not isinstance(parsed[-1], LedgerEntry):
            raise LedgerBroken(f"{self.path}: {parsed[-1]}")
        return parsed[-1] if parsed else None  # type: ignore[return-value]

    def verify(self) -> list[str]:
        """Return every problem found, in file order; empty means the ledger is whole."""
        return self.chain_problems() + self._payload_problems()

    def chain_problems(self) -> list[str]:
        """Return the problems of lines and heads, leaving payload files alone."""
        parsed = self._parsed()
        problems = [entry for entry in parsed if isinstance(entry, str)]
        entries = [entry for entry in parsed if isinstance(entry, LedgerEntry)]
        prev, number = FIRST_PREV, 0
        for entry in entries:
            problems += _line_problems(entry, prev, number + 1)
            prev, number = entry.hash, entry.n
        return problems + _head_problems(entries, self._heads())

    def payload(self, entry: LedgerEntry) -> dict[str, Any] | None:
        """Return what a decision was about, None when the file is gone or changed."""
        try:
            content = self._payload_file(entry.payload).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != entry.payload:
            return None
        found = json.loads(content)
        return found if isinstance(found, dict) else None

    def store_payload(self, payload: Mapping[str, object]) -> str:
        """Keep a payload on disk and return its sha256; raise StoreError."""
        content = canonical(dict(payload))
        digest = hashlib.sha256(content).hexdigest()
        with file_errors(self.payloads):
            self.payloads.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.payload_state(digest) != "":
            write_atomic(self._payload_file(digest), content)
        return digest

    def append(self, entry: LedgerEntry) -> None:
        """Add a sealed line, on disk before it returns; a failed write leaves no half line."""
        with file_errors(self.path):
            new = not self.path.exists()
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                _append_whole(handle, entry.line())
            finally:
                os.close(handle)
            if new:
                sync_folder(self.path.parent)

    def move_torn_tail_aside(self) -> Path | None:
        """Cut a last line without newline, keeping its bytes; return where they are."""
        if not self.path.exists():
            return None
        with file_errors(self.path):
            content = self.path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole == len(content):
                return None
            torn = content[whole:]
            aside = self.path.with_name(f"ledger.torn-{hashlib.sha256(torn).hexdigest()[:12]}")
            write_atomic(aside, torn)
            os.truncate(self.path, whole)
        return aside

    def payload_state(self, digest: str) -> str:
        """Return "" for a sound payload file, else `missing` or `changed`."""
        try:
            content = self._payload_file(digest).read_bytes()
        except OSError:
            return "missing"
        return "" if hashlib.sha256(content).hexdigest() == digest else "changed"

    def _payload_file(self, digest: str) -> Path:
        return self.payloads / f"{Path(digest).name}.json"

    def _payload_problems(self) -> list[str]:
        problems = []
        for entry in self.entries():
            if state := self.payload_state(entry.payload):
                problems.append(f"line {entry.n}: payload {entry.payload[:12]} is {state}")
        return problems

    def _parsed(self) -> list[LedgerEntry | str]:
        if not self.path.exists():
            return []
        with file_errors(self.path):
            lines = self.path.read_bytes().split(b"\n")
        parsed: list[LedgerEntry | str] = []
        for number, line in enumerate(lines[:-1], start=1):
            try:
                parsed.append(LedgerEntry.model_validate_json(line))
            except ValidationError:
                parsed.append(f"line {number}: cannot be read")
        if lines[-1]:
            parsed.append(f"line {len(lines)}: has no end")
        return parsed


def _append_whole(handle: int, line: bytes) -> None:
    size = os.fstat(handle).st_size
    try:
        view = memoryview(line)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


def _line_problems(entry: LedgerEntry, prev: str, number: int) -> list[str]:
    problems = []
    if entry.hash != entry.computed_hash():
        problems.append(f"line {entry.n}: was edited, its hash does not match")
    if entry.n != number:
        problems.append(f"line {entry.n}: stands where line {number} should be")
    elif entry.prev != prev:
        problems.append(f"line {entry.n}: does not follow the line before it")
    return problems


def _head_problems(entries: list[LedgerEntry], heads: Mapping[str, Head]) -> list[str]:
    by_number = {entry.n: entry.hash for entry in entries}
    last = {entry.domain: entry.n for entry in entries}
    problems = []
    for domain, head in heads.items():
        found = by_number.get(head.n)
        if head.n and found is None:
            problems.append(f"{domain}: line {head.n} is missing, the ledger was cut off")
        elif head.n and found != head.hash:
            problems.append(f"{domain}: line {head.n} is not the one curated was written with")
        elif last.get(domain, 0) > head.n:
            problems.append(f"{domain}: line {last[domain]} is unknown to curated")
    return problems
