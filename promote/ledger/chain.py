"""The ledger: every decision as one line, chained by hashes.

`ledger.jsonl` holds one JSON object a line; `hash` is the sha256 of the canonical
JSON of the rest, `prev` included. What a decision was about lies beside it in
`payloads/<sha256>.json`, so that content can go and the chain stay whole.

Covered: an edited, removed, reordered or inserted line, a cut-off tail (against the
heads kept in curated's metadata), a missing or changed payload.
Not covered: somebody who can rewrite both the ledger and curated.

A last line without its newline is mended when a gate opens the ledger, see `ledger_mend`.
A whole line is never moved or dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons_loop.promote.errors import LedgerBroken
from lessons_loop.promote.files import (
    canonical,
    file_errors,
    sync_folder,
    write_atomic,
    write_together,
)
from lessons_loop.promote.ledger.check import (
    FIRST_PREV,
    Head,
    LedgerEntry,
    Line,
    Problem,
    chain_problems,
    head_problems,
    split_lines,
)

__all__ = ["FIRST_PREV", "Head", "Ledger", "LedgerEntry"]


class Ledger:
    """One state directory's ledger; `heads` tells what curated last saw, by domain."""

    def __init__(self, state: Path, heads: Callable[[], Mapping[str, Head]] | None = None) -> None:
        self.path = state / "ledger.jsonl"
        self.payloads = state / "payloads"
        self._heads = heads or dict

    def lines(self) -> list[Line]:
        """Return every line of the file; raise StoreError."""
        if not self.path.exists():
            return []
        with file_errors(self.path):
            return split_lines(self.path.read_bytes())

    def entries(self) -> list[LedgerEntry]:
        """Return the readable lines in file order; `verify` names the others."""
        return [line.entry for line in self.lines() if line.entry]

    def tail(self) -> LedgerEntry | None:
        """Return the last line; raise LedgerBroken when it cannot be read."""
        lines = self.lines()
        if lines and lines[-1].entry is None:
            found = chain_problems(lines)[-1]
            raise LedgerBroken(f"{self.path}: {found.told}")
        return lines[-1].entry if lines else None

    def verify(self, forgotten: Collection[str] = ()) -> list[str]:
        """Return every problem found, the first line's first; empty means the ledger is whole.

        `forgotten`: payloads that were deleted on purpose.
        """
        lines = self.lines()
        found = self.problems_of(lines) + self.payload_problems(lines, forgotten)
        return [problem.told for problem in sorted(found, key=lambda one: one.place)]

    def chain_problems(self) -> list[str]:
        """Return the problems of lines and heads, leaving payload files alone."""
        return [problem.told for problem in self.problems_of(self.lines())]

    def problems_of(self, lines: Sequence[Line]) -> list[Problem]:
        """Return the problems of lines and heads, the first line's first."""
        found = chain_problems(lines) + head_problems(lines, self._heads())
        return sorted(found, key=lambda one: one.place)

    def payload_problems(
        self, lines: Sequence[Line], forgotten: Collection[str] = ()
    ) -> list[Problem]:
        """Return which lines' payload files are missing or changed."""
        problems = []
        for line in lines:
            digest = line.entry.payload if line.entry else ""
            if digest and digest not in forgotten and (state := self.payload_state(digest)):
                problems.append(Problem(line.place, f"payload {digest[:12]} is {state}"))
        return problems

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
        digest, content = payload_file(payload)
        self.store_payloads({digest: content})
        return digest

    def store_payloads(self, contents: Mapping[str, bytes]) -> None:
        """Keep payload files, by sha256, on disk before it returns; raise StoreError."""
        with file_errors(self.payloads):
            self.payloads.mkdir(mode=0o700, parents=True, exist_ok=True)
        missing = [digest for digest in contents if self.payload_state(digest) != ""]
        write_together({self._payload_file(digest): contents[digest] for digest in missing})

    def append(self, *entries: LedgerEntry) -> None:
        """Add sealed lines, on disk before it returns; a failed write leaves none of them."""
        if entries:
            self._append(b"".join(entry.line() for entry in entries))

    def end_last_line(self) -> None:
        """Add the newline the last line lacks."""
        self._append(b"\n")

    def _append(self, content: bytes) -> None:
        with file_errors(self.path):
            new = not self.path.exists()
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                _append_whole(handle, content)
            finally:
                os.close(handle)
            if new:
                sync_folder(self.path.parent)

    def move_torn_tail_aside(self) -> Path | None:
        """Cut a last line without newline, keeping its bytes; return where they are."""
        lines = self.lines()
        if not lines or lines[-1].ended:
            return None
        torn = lines[-1].raw
        aside = self.path.with_name(torn_name(torn))
        write_atomic(aside, torn)
        with file_errors(self.path):
            os.truncate(self.path, self.path.stat().st_size - len(torn))
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


def torn_name(torn: bytes) -> str:
    """Return the file name an unfinished line's bytes are kept under."""
    return f"ledger.torn-{hashlib.sha256(torn).hexdigest()[:12]}"


def payload_file(payload: Mapping[str, object]) -> tuple[str, bytes]:
    """Return a payload's sha256 and its file's content."""
    content = canonical(dict(payload))
    return hashlib.sha256(content).hexdigest(), content


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
