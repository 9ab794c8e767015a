"""Restore: make a domain what a snapshot says, as one change through the gate's one write path.

Covered: another domain, model, state directory or ledger (refused); what was forgotten since
(stays forgotten); events and candidates counted before or since (never twice); a crash at any
moment (the next run completes it); a store whose vectors were lost.
Not covered: candidates decided on since whose snapshots are gone: they are in the ledger only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import EmbeddingMismatch, EmbedError, LessonsError, StoreError
from lessons_loop.filter.models import Candidate, Curated, Record
from lessons_loop.promote.embedding.forms import SETTING, USUAL
from lessons_loop.promote.errors import WrongState
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.ledger.chain import Ledger
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.snapshot.files import RESTORE, name_of
from lessons_loop.promote.snapshot.kept import Occasion, Snapshot
from lessons_loop.promote.snapshot.restore_diff import (
    Difference,
    Elsewhere,
    Present,
    Target,
    difference,
    plain,
    same_vector,
    target_of,
)
from lessons_loop.promote.snapshot.taken import known_vectors, read_waiting
from lessons_loop.promote.snapshot.tar import read_parts
from lessons_loop.promote.store.candidates import candidate_of

CANDIDATES = "candidates.jsonl"


class Wanted(NamedTuple):
    """Which snapshot is restored, and how."""

    path: Path
    snapshot: Snapshot
    others: Sequence[Path] = ()
    """All snapshots of the domain, oldest first."""
    exact: bool = False


class Comparison(NamedTuple):
    """A snapshot beside what is there now."""

    present: Present
    target: Target
    difference: Difference
    notes: tuple[str, ...] = ()
    """What could not be taken into account."""


def compare(session: GateSession, wanted: Wanted) -> Comparison:
    """Return what restoring would change; raise StoreError where it is refused."""
    refuse_strange(session, wanted)
    present = read_present(session)
    target = target_of(wanted.snapshot, forgotten := Forgotten.load(session.state), present)
    elsewhere, notes = _elsewhere(wanted, forgotten)
    found = difference(present, target, wanted.snapshot.vectors, elsewhere, exact=wanted.exact)
    return Comparison(present, target, found, notes)


def restore(session: GateSession, wanted: Wanted, actor: Actor, reason: str = "") -> Comparison:
    """Make the session's domain what the snapshot says; where it is, nothing is written.

    Raises StoreError, EmbedError with nothing changed; a StoreError after the ledger's line
    is mended by the next run.
    """
    compared = compare(session, wanted)
    if compared.difference.empty:
        return compared
    change = _change(session, wanted, compared, actor, reason)
    session.occasion = Occasion(RESTORE, spare=wanted.path.name)
    session.apply(change)
    _check_stored(session, wanted, compared)
    return compared


def read_present(session: GateSession) -> Present:
    """Return what the session's domain holds now; raise StoreError."""
    waiting = read_waiting(session.store, session.domain)
    return Present(
        curated=dict(session.curated),
        unreadable=tuple(session.unreadable_curated),
        archive=dict(session.archive),
        candidates=waiting.candidates,
        events=waiting.events,
        uses={use.id: use for use in session.uses.rows()},
        vectors=known_vectors(session),
    )


def refuse_strange(session: GateSession, wanted: Wanted) -> None:
    """Raise StoreError for a snapshot of another domain, state, ledger or model."""
    manifest, name = wanted.snapshot.manifest, name_of(wanted.path)
    header = session.holdings.header
    if manifest.domain != session.domain:
        raise StoreError(f"snapshot {name} is of {manifest.domain}, not of {session.domain}")
    if manifest.header.state_id != header.state_id:
        raise WrongState(f"snapshot {name} is of another state directory")
    if manifest.ledger.n and not _is_in(session.ledger, manifest.ledger.n, manifest.ledger.hash):
        raise WrongState(f"snapshot {name} tells of ledger line {manifest.ledger.n}, which is none")
    mine, theirs = header.fingerprint, manifest.fingerprint
    if mine is not None and theirs is not None and not mine.matches(theirs):
        raise EmbeddingMismatch(
            f"snapshot {name} was embedded by {theirs.name or 'another model'}, "
            f"{session.domain}-lessons is by {mine.name or 'an unnamed one'}: "
            "run `lessons reembed` with the snapshot's model first"
        )


def _is_in(ledger: Ledger, number: int, digest: str) -> bool:
    return any(entry.n == number and entry.hash == digest for entry in ledger.entries())


# --- candidates that other snapshots know


def _elsewhere(wanted: Wanted, forgotten: Forgotten) -> tuple[Elsewhere, tuple[str, ...]]:
    if wanted.exact:
        return Elsewhere((), {}), ()
    decided: set[str] = set()
    later: dict[str, Record] = {}
    notes = []
    for path in wanted.others:
        if path.name == wanted.path.name:
            continue
        try:
            found = _candidates_in(path)
        except LessonsError as error:
            notes.append(f"{error}; candidates only it knows are left out")
            continue
        if path.name < wanted.path.name:
            decided.update(found)
        else:
            later |= found
    domain = wanted.snapshot.manifest.domain
    known = {id_: candidate_of(row, domain) for id_, row in later.items() if id_ not in decided}
    kept = {id_: row for id_, row in known.items() if not forgotten.covers_candidate(row)}
    return Elsewhere(decided, kept), tuple(notes)


def _candidates_in(path: Path) -> dict[str, Record]:
    """Return a snapshot's candidates unparsed: most of them are in many snapshots."""
    _, parts = read_parts(path, (CANDIDATES,))
    rows = (json.loads(line) for line in parts[CANDIDATES].decode().splitlines())
    return {row["id"]: Record(row["id"], row["document"], row["metadata"]) for row in rows}


# --- the change


def _change(
    session: GateSession, wanted: Wanted, compared: Comparison, actor: Actor, reason: str
) -> Change:
    found = compared.difference
    vectors = _vectors(session, wanted, compared)
    for row in found.archive if wanted.snapshot.manifest.fingerprint else ():
        if (known := wanted.snapshot.archive_vectors.get(row.id)) is not None:
            session.embedding.remember(row.lesson.embedded_text, known)
    name = name_of(wanted.path)
    return Change(
        action=Action.RESTORE,
        key="",
        reason=f"snapshot {name}" + (f": {reason}" if reason else ""),
        actor=actor,
        payload=_payload(wanted, compared),
        put=found.put,
        vectors=vectors,
        remove=found.remove,
        archive=found.archive,
        staged=found.unstage,
        events=found.unstage_events,
        unarchive=found.unarchive,
        stage=tuple(row.to_record() for row in found.stage),
        stage_events=found.stage_events,
        uses=found.uses,
        drop_uses=found.drop_uses,
        same_vectors=found.same_vectors,
    )


def _vectors(session: GateSession, wanted: Wanted, compared: Comparison) -> Vectors | None:
    """Return a unit row for each lesson to put: the snapshot's, the store's, else embedded."""
    put = compared.difference.put
    if not put:
        return None
    known = {**compared.present.vectors, **wanted.snapshot.vectors}
    keyed = {row.key: row for row in put}
    rows = {key: known[key] for key in keyed if key in known}
    if lost := {key: row for key, row in keyed.items() if key not in rows}:
        if session.embedder is None:
            raise EmbedError(
                f"snapshot {name_of(wanted.path)} has no vectors of {len(lost)} lesson(s): "
                f"pass --embedding or set {SETTING} to {USUAL}"
            )
        made = session.embed([row.lesson.embedded_text for row in lost.values()])
        rows |= dict(zip(lost, made, strict=True))
    return np.stack([rows[key] for key in keyed])


def _payload(wanted: Wanted, compared: Comparison) -> dict[str, object]:
    """Return what the ledger keeps: ids, and whole what leaves curated."""
    found, present = compared.difference, compared.present
    return {
        "snapshot": name_of(wanted.path),
        "exact": wanted.exact,
        "curated": [row.key for row in found.put],
        "left": [present.curated[key].model_dump(mode="json") for key in found.remove],
        "archive": [row.id for row in found.archive],
        "unarchived": list(found.unarchive),
        "candidates": [row.id for row in found.stage],
        "unstaged": list(found.unstage),
        "events": len(found.stage_events),
        "uses": [len(found.uses), len(found.drop_uses)],
    }


# --- reading back


def _check_stored(session: GateSession, wanted: Wanted, compared: Comparison) -> None:
    """Read everything back and compare; raise StoreError naming the parts that differ."""
    if session.dry_run:
        return
    header = session.holdings.header
    session.holdings.load(header.state_id, header.state_dir)
    now, target = read_present(session), compared.target
    sound = {
        "curated": _same(_plain_rows(now.curated), _plain_rows(target.curated)),
        "vectors": _same_vectors(now.vectors, wanted.snapshot.vectors, target.curated),
        "archive": _same(now.archive, target.archive),
        "uses": _same(now.uses, target.uses),
        "candidates": _holds(now.candidates, target.candidates, wanted.exact),
        "events": _holds(now.events, target.events, wanted.exact),
    }
    if bad := [name for name, right in sound.items() if not right]:
        raise StoreError(
            f"{', '.join(bad)} of {session.domain} are not as snapshot "
            f"{name_of(wanted.path)} says: restore it again"
        )


def _plain_rows(rows: Mapping[str, Curated]) -> dict[str, Curated]:
    return {key: plain(row) for key, row in rows.items()}


def _same(found: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    return dict(found) == dict(wanted)


def _holds(found: Mapping[str, object], wanted: Mapping[str, object], exact: bool) -> bool:
    return found.keys() == wanted.keys() if exact else wanted.keys() <= found.keys()


def _same_vectors(
    found: Mapping[str, Vectors], wanted: Mapping[str, Vectors], keys: Mapping[str, object]
) -> bool:
    return all(
        key in found and (key not in wanted or same_vector(found[key], wanted[key])) for key in keys
    )


__all__ = ["Candidate", "Comparison", "Wanted", "compare", "read_present", "restore"]
