"""What was decided before on a lesson, from the ledger and the archive.

Covered: the same lesson in any of its wordings, also where only the ledger still tells of it (after
a restore or a purge); whatever is close to a lesson a person rejected.
Not covered: the same advice in words an embedding model takes for another subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Candidate, Lesson, Status
from lessons_loop.promote.ledger.chain import Ledger, LedgerEntry
from lessons_loop.promote.records import Action, Archived
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.similar.groups import Group
from lessons_loop.promote.similar.similarity import UNRELATED, compare, level_of, nearness

TAKES_IN = (Action.PROMOTE, Action.SUPERSEDE, Action.SEED, Action.REVIVE, Action.IMPORT)
REFUSES = (Action.REJECT, Action.RETIRE)
TAKES_OUT = (*REFUSES, Action.DEMOTE)
DECIDES = (*TAKES_IN, *TAKES_OUT, Action.HOLD)
MOST_COMPARED = 10
SEEN_BEFORE, NEAR_REJECTED, HELD_BY_PERSON = "seen-before", "near-rejected", "held-by-person"
_RULE_WORD = re.compile(r"^(?:person|review|withdrawn|withdrawn from curated): ")


class Chain(NamedTuple):
    """How often a lesson came and was refused."""

    proposed: int
    """Answers that showed it, as far as they are known."""
    rejected: int
    last_by: str = ""
    last_at: str = ""
    last_reason: str = ""

    def told(self) -> str:
        """Return it as a sentence; empty when it never was rejected."""
        if not self.rejected:
            return ""
        why = self.last_reason.removeprefix(f"{self.last_by}: ")  # a rule's reason begins with it
        last = f"last by {self.last_by} on {self.last_at[:10]}: {why}"
        return f"proposed {times(self.proposed)}, rejected {self.rejected} ({last})"


def times(count: int) -> str:
    """Return how often, in words."""
    return "once" if count == 1 else f"{count} times"


class Precedent(NamedTuple):
    """An earlier decision that stands against a promotion without a person."""

    rule: str
    reason: str


def name_of(entry: LedgerEntry) -> str:
    """Return who decided, in one word."""
    return entry.actor.name or entry.actor.model or entry.actor.kind


def plain_reason(entry: LedgerEntry) -> str:
    """Return the reason of a decision without the word for who decides."""
    return _RULE_WORD.sub("", entry.reason)


class Past:
    """A ledger's decisions by lesson, as they were when first asked for."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._by_key: dict[str, list[LedgerEntry]] | None = None
        self._by_number: dict[int, LedgerEntry] = {}

    def lines(self, keys: Iterable[str]) -> list[LedgerEntry]:
        """Return the ledger lines about these lessons, oldest first."""
        by_key = self._indexed()
        found = [entry for key in set(keys) for entry in by_key.get(key, ())]
        return sorted(found, key=lambda entry: entry.n)

    def last_of(self, prefix: str, domain: str) -> list[LedgerEntry]:
        """Return the newest decision on each lesson of a domain whose key starts so."""
        ends = {
            entry.key: entry
            for key, lines in self._indexed().items()
            if key.startswith(prefix)
            for entry in lines
            if entry.domain == domain and entry.action in DECIDES
        }
        return list(ends.values())

    def line(self, number: int) -> LedgerEntry | None:
        """Return one line by its number."""
        self._indexed()
        return self._by_number.get(number)

    def decisions(
        self, keys: Iterable[str], archive: Mapping[str, Archived]
    ) -> list[dict[str, Any]]:
        """Return the decisions on these lessons, oldest first, and what put them out of use."""
        wanted = set(keys)
        ids = (f"{key}-{status.value}" for key in wanted for status in Status)
        put_out = {row.ledger_ref: row.reason for id_ in ids if (row := archive.get(id_))}
        found = {entry.n: (entry, entry.reason) for entry in self.lines(wanted)}
        for number, reason in put_out.items():
            entry = self.line(number)
            if entry is not None and number not in found:
                found[number] = entry, reason
        return [_described(*found[number]) for number in sorted(found)]

    def last_word(self, key: str) -> LedgerEntry | None:
        """Return the line of a person's decision that still counts, None where there is none."""
        counts = [
            entry
            for entry in self.lines([key])
            if self._decides(entry) and (entry.actor.kind == "human" or entry.action in TAKES_IN)
        ]
        return counts[-1] if counts and counts[-1].actor.kind == "human" else None

    def _decides(self, entry: LedgerEntry) -> bool:
        """Say whether a line decides on a lesson; an import may only have put it aside."""
        if entry.action is Action.IMPORT:
            outcome = (self.ledger.payload(entry) or {}).get("outcome")
            return outcome not in ("held", "archived")
        return entry.action in DECIDES

    def last_refusal(self, keys: Iterable[str]) -> LedgerEntry | None:
        """Return the newest line that took one of these out, if nobody let that in since."""
        relevant = (*TAKES_IN, *TAKES_OUT)
        ends = [
            lines[-1]
            for key in set(keys)
            if (
                lines := [
                    one
                    for one in self.lines([key])
                    if one.action in relevant and self._decides(one)
                ]
            )
        ]
        out = [entry for entry in ends if entry.action in TAKES_OUT]
        return max(out, key=lambda entry: entry.n, default=None)

    def refused_by_person(self) -> dict[str, LedgerEntry]:
        """Return what a person rejected, and nobody let in since, by key."""
        found = ((key, self.last_word(key)) for key in self._indexed())
        return {key: entry for key, entry in found if entry and entry.action in REFUSES}

    def chain(self, keys: Iterable[str], candidates: Sequence[Candidate] = ()) -> Chain:
        """Return how often these lessons were proposed and refused."""
        lines = [entry for entry in self.lines(keys) if entry.action in DECIDES]
        seen, most = {found.message_ref for found in candidates}, 0
        for entry in lines:
            payload = self.ledger.payload(entry)
            rows = payload.get("candidates") if payload else None
            if payload is None:
                seen.add(f"line {entry.n}")
            elif isinstance(rows, list):
                seen |= {str(row.get("message_ref")) for row in rows if isinstance(row, dict)}
                most = max(most, int(payload.get("sightings") or 0))
        refused = [entry for entry in lines if entry.action in REFUSES]
        last = refused[-1] if refused else None
        told = (name_of(last), last.at, plain_reason(last)) if last else ("", "", "")
        return Chain(max(len(seen), most, len(refused)), len(refused), *told)

    def lesson(self, entry: LedgerEntry) -> Lesson | None:
        """Return the lesson a decision was about, None where its content is gone."""
        payload = self.ledger.payload(entry)
        try:
            return Lesson.model_validate(payload.get("lesson")) if payload else None
        except ValidationError:
            return None

    def _indexed(self) -> Mapping[str, list[LedgerEntry]]:
        if self._by_key is None:
            self._by_key = {}
            for entry in self.ledger.entries():
                self._by_key.setdefault(entry.key, []).append(entry)
                self._by_number[entry.n] = entry
        return self._by_key


class Precedents:
    """Finds what stands against a lesson from before, for one session."""

    def __init__(self, session: GateSession, threshold: float) -> None:
        self.session = session
        self.threshold = threshold
        self.past = Past(session.ledger)
        self._refused: list[tuple[LedgerEntry, Lesson]] | None = None
        self._matrix: Vectors | None = None

    def find(self, group: Group, earlier: Sequence[Archived]) -> Precedent | None:
        """Return what counts most: a person's hold, a refusal, a refusal of what is close."""
        keys = keys_of(group) | {row.lesson.key for row in earlier}
        words = [word for key in sorted(keys) if (word := self.past.last_word(key))]
        for word in words:
            if word.action is Action.HOLD:
                since = f"{name_of(word)} holds it since {word.at[:10]}: {plain_reason(word)}"
                return Precedent(HELD_BY_PERSON, since)
        row = earlier[-1] if earlier else None
        chain = self.past.chain(keys, group.candidates).told()
        if row is not None:
            return Precedent(SEEN_BEFORE, _fate(row, chain))
        if gone := self.past.last_refusal(keys):
            return Precedent(SEEN_BEFORE, chain or _taken_out(gone))
        return self._near_refused(group)

    def _near_refused(self, group: Group) -> Precedent | None:
        """Return the refusal by a person of something close to the lesson."""
        rows = [row for row in self._all_refused() if row[0].key not in keys_of(group)]
        if self.session.embedder is None or not rows:
            return None
        lesson, session = group.lesson, self.session
        vector = session.embed([lesson.embedded_text])[0]
        matrix = session.embed([old.embedded_text for _, old in rows])
        cosines = np.clip(matrix @ vector, -1.0, 1.0)
        top = [int(at) for at in np.argsort(-cosines, kind="stable")[:MOST_COMPARED]]
        olds, level = [rows[at][1] for at in top], level_of(session.holdings.model)
        near = nearness(lesson, olds, cosines[top], self._texts, level)
        for at in np.argsort(-near, kind="stable"):
            cosine = float(near[at])
            if compare(lesson, olds[at], cosine, self.threshold, level).relation != UNRELATED:
                return self._close_to(rows[top[at]][0], group, cosine)
        return None

    def _close_to(self, entry: LedgerEntry, group: Group, cosine: float) -> Precedent:
        chain = self.past.chain({entry.key, *keys_of(group)}, group.candidates).told()
        reason = f"is close to lesson {entry.key[:12]} that a person rejected ({cosine:.2f})"
        return Precedent(NEAR_REJECTED, f"{reason}; {chain}")

    def _texts(self, lessons: Sequence[Lesson]) -> Vectors:
        return self.session.embed([lesson.text for lesson in lessons])

    def _all_refused(self) -> list[tuple[LedgerEntry, Lesson]]:
        if self._refused is None:
            entries = self.past.refused_by_person()
            found = ((entry, self._content(key, entry)) for key, entry in entries.items())
            self._refused = [
                (entry, lesson)
                for entry, lesson in found
                if lesson is not None and lesson.domain == self.session.domain
            ]
        return [one for one in self._refused if one[0].key not in self.session.curated]

    def _content(self, key: str, entry: LedgerEntry) -> Lesson | None:
        row = self.session.archive.get(f"{key}-{Status.REJECTED.value}")
        return row.lesson if row else self.past.lesson(entry)


def keys_of(group: Group) -> set[str]:
    """Return the keys of all wordings of a group."""
    seen = {found.lesson.key for found in group.candidates}
    return {group.key, *seen, *(row.lesson.key for row in group.held)}


def _fate(row: Archived, chain: str) -> str:
    if row.status is Status.REJECTED and chain:
        return chain
    word = "rejected" if row.status is Status.REJECTED else f"retired ({row.status.value})"
    return f"was {word} on {row.at[:10]}: {row.reason}"


def _taken_out(entry: LedgerEntry) -> str:
    return (
        f"was taken out on {entry.at[:10]} by {name_of(entry)} ({entry.action.value}): "
        f"{plain_reason(entry)}"
    )


def _described(entry: LedgerEntry, reason: str) -> dict[str, Any]:
    return {
        "n": entry.n,
        "at": entry.at,
        "action": entry.action.value,
        "actor": name_of(entry),
        "kind": entry.actor.kind,
        "model": entry.actor.model,
        "run": entry.run,
        "reason": reason,
    }
