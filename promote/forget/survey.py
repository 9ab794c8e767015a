"""Find what one domain holds of somebody, and what its lessons rest on besides.

A curated row names nobody: what it rested on is read from the ledger's payloads, and from
what earlier forgettings kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lessons_loop.filter.models import Curated, Record, Status
from lessons_loop.filter.store import collection_names
from lessons_loop.filter.text import digest
from lessons_loop.promote.decay.judged import judged
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.forget.forgotten import Forgotten, Tombstone, mark
from lessons_loop.promote.forget.subject import Subject, redacted, still_named
from lessons_loop.promote.ledger.chain import LedgerEntry
from lessons_loop.promote.records import Action, Archived
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.store.places import StagingPlace
from lessons_loop.promote.store.rows import find_collection, read_rows

FROM_FILES = (Action.SEED, Action.IMPORT)


@dataclass
class Traces:
    """What a domain holds of whom is to be forgotten."""

    messages: set[str] = field(default_factory=set)
    candidates: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    cleaned: list[Archived] = field(default_factory=list)
    """Archived rows without their quotes and references."""
    dropped: list[Archived] = field(default_factory=list)
    """Archived rows nothing is left of: proposals nobody else showed, never in use."""
    to_hold: list[Curated] = field(default_factory=list)
    """Curated lessons that rested on nothing else."""
    corrected: list[Curated] = field(default_factory=list)
    """Curated lessons others showed too, as they shall be."""
    payloads: list[str] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    """Of lessons that go out of use, wherever they stood."""
    remains: list[dict[str, Any]] = field(default_factory=list)
    """What those payload files told of others, by ledger line."""

    def __bool__(self) -> bool:
        """Say whether anything was found."""
        rows = (self.candidates, self.events, self.uses, self.cleaned, self.dropped)
        return any((*rows, self.to_hold, self.corrected, self.payloads))


class _Decision:
    """A ledger line with what is still known of its payload."""

    def __init__(self, entry: LedgerEntry, content: dict[str, Any] | None) -> None:
        self.entry, self.content = entry, content

    def sightings(self) -> list[dict[str, Any]]:
        """Return the candidates it was decided on."""
        content = self.content or {}
        found = content.get("candidates") or [content.get("candidate")]
        return [one for one in found if isinstance(one, dict)]

    def unlisted(self) -> int:
        """Return how many sightings it counted beyond those it lists."""
        return max(0, int((self.content or {}).get("sightings") or 0) - len(self.sightings()))


def survey(session: GateSession, subject: Subject, forgotten: Forgotten) -> Traces:
    """Return everything of `subject` in the session's domain; raise StoreError."""
    traces = Traces()
    staged = staged_records(session.store, session.domain)
    decisions = list(_decisions(session))
    uses = list(session.uses.rows())
    _collect_messages(traces, session, subject, staged, decisions, uses)
    needles = {subject.ref, *traces.messages}
    known = Forgotten([*forgotten.stones, stone_of(subject, "", traces.messages)])
    candidates, events = (_named(records, needles) for records in staged)
    traces.candidates, traces.events = candidates, events
    traces.uses = [use for use in uses if still_named(use.model_dump(), needles)]
    _survey_payloads(traces, decisions, subject, needles)
    basis = _Basis(decisions, known)
    _survey_archive(traces, session, known, basis)
    _survey_curated(traces, session, basis)
    traces.texts = _texts_out_of_use(traces, session, staged[0])
    return traces


def _texts_out_of_use(traces: Traces, session: GateSession, staged: Sequence[Record]) -> set[str]:
    gone = {row.key for row in traces.to_hold}
    stay = {row.lesson.text for row in session.curated.values() if row.key not in gone}
    proposed = set(traces.candidates)
    found = {one.document for one in staged if one.id in proposed}
    found.update(row.lesson.text for row in traces.dropped)
    found.update(row.lesson.text for row in traces.to_hold)
    return found - stay


def stone_of(subject: Subject, at: str, messages: Sequence[str] | set[str] = ()) -> Tombstone:
    """Return a tombstone for the subject."""
    marks = tuple(sorted(map(mark, messages)))
    return Tombstone(what=subject.what, who=mark(subject.ref), at=at, messages=marks)


def staged_records(place: StagingPlace, domain: str) -> tuple[list[Record], list[Record]]:
    """Return staging's rows as they are, candidates and events; raise StoreError."""
    names = collection_names(domain)
    found: list[list[Record]] = [[], []]
    with place.staging() as client:
        for at, name in enumerate((names["candidates"], names["events"])):
            collection = find_collection(client, name) if client is not None else None
            if collection is not None:
                found[at] = [
                    Record(id_, document or "", dict(metadata or {}))
                    for page in read_rows(collection)
                    for id_, document, metadata in zip(*page, strict=True)
                ]
    return found[0], found[1]


def _named(records: Sequence[Record], needles: set[str]) -> list[str]:
    return [one.id for one in records if still_named(one._asdict(), needles)]


def _decisions(session: GateSession) -> Iterator[_Decision]:
    entries = [one for one in session.ledger.entries() if one.domain == session.domain]
    contents = {entry.n: session.ledger.payload(entry) for entry in entries}
    kept: dict[str, Any] = {}
    for entry in entries:
        if entry.action is Action.FORGET:
            for one in (contents[entry.n] or {}).get("remains", ()):
                kept[one["payload"]] = one["content"]
    for entry in entries:
        found = contents[entry.n]
        yield _Decision(entry, kept.get(entry.payload) if found is None else found)


def _collect_messages(
    traces: Traces,
    session: GateSession,
    subject: Subject,
    staged: tuple[list[Record], list[Record]],
    decisions: Sequence[_Decision],
    uses: Sequence[Use],
) -> None:
    rows: list[Mapping[str, Any]] = [dict(one.metadata) for part in staged for one in part]
    rows = [row for row in rows if row.get("type") != "rating"]  # who rates, did not ask
    rows += [one for found in decisions for one in found.sightings()]
    rows += [seen.model_dump() for row in session.archive.values() for seen in row.all_sightings]
    rows += [use.model_dump() for use in uses]
    mine = (row for row in rows if subject.owns(dict(row)))
    traces.messages = {str(row["message_ref"]) for row in mine if row.get("message_ref")}


def _survey_payloads(
    traces: Traces, decisions: Sequence[_Decision], subject: Subject, needles: set[str]
) -> None:
    ids = {f"-{digest(needle)[:16]}" for needle in needles}  # how a candidate's id ends
    for found in decisions:
        content = found.content
        named = needles | ids if found.entry.action is Action.INIT else needles  # seals kept by id
        if content is None or not still_named(content, named):
            continue
        traces.payloads.append(found.entry.payload)
        parts = [{"n": found.entry.n, "payload": found.entry.payload, "content": content}]
        if found.entry.action is Action.FORGET:
            parts = list(content.get("remains", ()))
        for part in parts:
            rest = redacted(part["content"], subject)
            if _has_sightings(rest) and not still_named(rest, needles):
                traces.remains.append(part | {"content": rest})


def _has_sightings(content: dict[str, Any]) -> bool:
    return bool(content.get("candidates") or content.get("candidate"))


class _Basis:
    """What a lesson rested on, by the ledger."""

    def __init__(self, decisions: Sequence[_Decision], forgotten: Forgotten) -> None:
        self._of: dict[str, list[_Decision]] = {}
        for found in decisions:
            self._of.setdefault(found.entry.key, []).append(found)
        self._forgotten = forgotten

    def sightings(self, key: str) -> dict[bool, set[tuple[str, str]]]:
        """Return user and message of the forgotten sightings (True) and of the others."""
        found: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
        for decision in self._of.get(key, ()):
            for one in decision.sightings():
                whose = str(one.get("user_ref", "")), str(one.get("message_ref", ""))
                found[self._is_forgotten(one)].add(whose)
        return found

    def rests_elsewhere(self, key: str) -> bool:
        """Say whether anything but the forgotten stands for the lesson."""
        lines = self._of.get(key, ())
        return bool(self.sightings(key)[False]) or any(
            one.entry.action in FROM_FILES
            or one.unlisted()
            or (one.content is None and one.entry.payload not in self._forgotten.payloads)
            for one in lines
        )

    def rejected_by_rule(self, key: str) -> bool:
        """Say whether a rule alone rejected it: it would do so again."""
        last = [one.entry for one in self._of.get(key, ()) if one.entry.action is Action.REJECT]
        return bool(last) and last[-1].actor.kind == "rule"

    def _is_forgotten(self, one: Mapping[str, Any]) -> bool:
        users, chats = self._forgotten.users, self._forgotten.chats
        return (
            mark(str(one.get("message_ref", ""))) in self._forgotten.messages
            or str(one.get("at", "")) <= users.get(mark(str(one.get("user_ref", ""))), "")
            or mark(str(one.get("chat_ref", ""))) in chats
        )


def _survey_archive(traces: Traces, session: GateSession, known: Forgotten, basis: _Basis) -> None:
    for row in session.archive.values():
        cleaned, key = known.cleaned(row), row.lesson.key
        if cleaned == row:
            continue
        proposal = row.curated is None and (
            row.status in (Status.HELD, Status.SUPERSEDED) or basis.rejected_by_rule(key)
        )
        if proposal and not cleaned.all_sightings and not basis.rests_elsewhere(key):
            traces.dropped.append(row)
        else:
            traces.cleaned.append(cleaned)


def _survey_curated(traces: Traces, session: GateSession, basis: _Basis) -> None:
    used: dict[str, list[Use]] = {}
    for use in traces.uses:
        for key in use.keys:
            used.setdefault(key, []).append(use)
    for key, row in session.curated.items():
        seen = basis.sightings(key)
        if seen[True] and not basis.rests_elsewhere(key):
            traces.to_hold.append(row)
        elif (fresh := _corrected(row, seen, used.get(key, ()))) != row:
            traces.corrected.append(fresh)


def _corrected(
    row: Curated, seen: dict[bool, set[tuple[str, str]]], uses: Sequence[Use]
) -> Curated:
    """Return a row without what the forgotten sightings and uses counted."""
    gone = {user for user, _ in seen[True]} - {user for user, _ in seen[False]}
    counts = {
        "occurrences": max(0, row.occurrences - len({one for _, one in seen[True]})),
        "distinct_users": max(0, row.distinct_users - len(gone)),
    }
    return without_uses(row, uses).model_copy(update=counts)


def without_uses(row: Curated, uses: Sequence[Use]) -> Curated:
    """Return a row without what some uses of it counted.

    The next fold makes successes and failures anew from the register.
    """
    words = [judged(use, by_tools=False).get(row.key) for use in uses]
    left = max(0, row.hits - len(uses))  # a run may have judged by tools besides
    counts = {
        "hits": left,
        "successes": min(left, max(0, row.successes - words.count(True))),
        "failures": min(left, max(0, row.failures - words.count(False))),
    }
    return row.model_copy(update=counts)
