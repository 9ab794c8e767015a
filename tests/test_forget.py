from __future__ import annotations

import hashlib
import hmac
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.models import Candidate, Evidence, EvidenceKind, Status
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths, ensure_salt
from lessons_loop.promote.fold import fold_events
from lessons_loop.promote.forget import ForgetReport, forget
from lessons_loop.promote.forget_late import drop_forgotten
from lessons_loop.promote.forgotten import Forgotten
from lessons_loop.promote.records import Action, Actor
from lessons_loop.promote.run import Mode, RunOptions, run_gate
from lessons_loop.promote.session import GateSession
from support.gate import (
    archived,
    candidate,
    gate,
    on_folder,
    promotion,
    server_url,
    settings,
    shown,
    stage,
    stage_usage,
)

ANNA, BERT = "user-anna-0001", "user-bert-0002"
CHAT = "chat-of-anna-1"
SECRET = "Anna asked for the turbine of hall seven"
"""Stands in every quote of hers."""
ALONE, SHARED = "Look serials up in equipment_machine.", "Bound every telemetry read by day_key."
HELD, OTHERS = "Cast the torque column before you sum it.", "Filter stock by plant before a join."
REJECTED = "Round pressures to two digits in reports."


def salted(root: Path) -> bytes:
    return ensure_salt(StorePaths(root / "state" if server_url(root) else root))


def ref(root: Path, identity: str) -> str:
    return hmac.new(salted(root), identity.encode(), hashlib.sha256).hexdigest()


def said(root: Path, text: str, user: str, message: str, chat: str = "") -> Candidate:
    quote = SECRET if user == ANNA else "3 rows from equipment_machine"
    proof = Evidence(kind=EvidenceKind.TOOL_SUCCESS, quote=quote, excerpt=f"[1] {quote}: ok")
    return candidate(
        text,
        user=ref(root, user),
        chat=ref(root, chat or f"chat-of-{user}"),
        message=hashlib.sha256(message.encode()).hexdigest(),
        evidence=proof,
    )


def used(root: Path, user: str, message: str, keys: tuple[str, ...]) -> Usage:
    return Usage(
        keys=keys,
        message_ref=hashlib.sha256(message.encode()).hexdigest(),
        user_ref=ref(root, user),
        chat_ref=ref(root, CHAT),
        at="2026-11-01T09:00:00Z",
    )


def hold(session: GateSession, *seen: Candidate, status: Status = Status.HELD) -> None:
    from lessons_loop.promote.records import Change

    first, rest = seen[0], seen[1:]
    session.apply(
        Change(
            action=Action.HOLD if status is Status.HELD else Action.REJECT,
            key=first.lesson.key,
            reason="min-users: one user",
            actor=Actor(kind="rule", name="min-users")
            if status is Status.HELD
            else Actor(kind="human", name="alex"),
            payload={"candidates": [one.model_dump(mode="json") for one in seen]},
            archive=(archived(first.lesson, status, candidate=first, sightings=rest),),
            staged=tuple(one.id for one in seen),
        )
    )


def promoted(session: GateSession, *seen: Candidate) -> str:
    from dataclasses import replace

    change = promotion(session, seen[0])
    row = change.put[0].model_copy(
        update={"occurrences": len(seen), "distinct_users": len({c.user_ref for c in seen})}
    )
    payload = {"candidates": [one.model_dump(mode="json") for one in seen], "sightings": len(seen)}
    session.apply(
        replace(change, payload=dict(payload), put=(row,), staged=tuple(c.id for c in seen))
    )
    return seen[0].lesson.key


@pytest.fixture
def filled(root: Path) -> Path:
    """Anna's traces everywhere, beside Bert's."""
    with gate(root):
        pass
    stage(root, [said(root, ALONE, ANNA, "m1", CHAT)])
    with gate(root) as session:
        alone = promoted(session, said(root, ALONE, ANNA, "m1", CHAT))
        shared = [said(root, SHARED, ANNA, "m2"), said(root, SHARED, BERT, "m3")]
        both = promoted(session, *shared)
        hold(session, said(root, HELD, ANNA, "m4"))
        hold(session, said(root, OTHERS, ANNA, "m5"), said(root, OTHERS, BERT, "m6"))
        hold(session, said(root, REJECTED, ANNA, "m7"), status=Status.REJECTED)
    stage_usage(root, "sql", [used(root, ANNA, "u1", (alone, both))])
    stage_usage(root, "sql", [used(root, BERT, "u2", (both,))])
    with gate(root) as session:
        fold_events(session)
    stage_usage(root, "sql", [used(root, ANNA, "u3", (both,))])
    stage(root, [said(root, "Sort by machine first.", ANNA, "m8")])
    stage(root, [said(root, "Sort by plant first.", BERT, "m9")])
    return root


def forget_user(root: Path, identity: str = ANNA, **fields: object) -> ForgetReport:
    return forget(settings(root, None, **fields), "user", identity)


def everything(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Every byte under a store, packed snapshots unpacked too."""
    for file in root.rglob("*"):
        if file.is_file():
            yield file, file.read_bytes()
        if file.name.endswith(".tar.gz"):
            with tarfile.open(file) as tar:
                for member in tar:
                    part = tar.extractfile(member)
                    assert part is not None
                    yield file / member.name, part.read()


def naming(root: Path, *needles: str) -> list[str]:
    found = [
        str(file.relative_to(root))
        for file, content in everything(root)
        if any(needle.encode() in content for needle in needles)
    ]
    return [name for name in found if not name.startswith("server")]


def test_no_byte_of_the_forgotten_is_left(filled: Path) -> None:
    needles = (SECRET, ref(filled, ANNA))
    assert naming(filled, *needles) != []
    report = forget_user(filled)
    assert naming(filled, *needles) == []
    assert (report.candidates, report.events, report.uses) == (1, 1, 1)
    assert report.payloads >= 5 and report.snapshots >= 1


def test_what_rested_on_nothing_else_waits_for_a_person(filled: Path) -> None:
    report = forget_user(filled)
    key = candidate(ALONE).lesson.key
    assert report.held == [key]
    with gate(filled) as session:
        assert key not in session.curated
        row = session.archive[f"{key}-held"]
        assert row.lesson.text == ALONE and row.candidate is None and row.curated is not None
        assert key in {one.lesson.key for one in session.held()}
    assert key not in {one.key for one in shown(filled).lessons}


def test_what_others_showed_stays_with_their_counts(filled: Path) -> None:
    forget_user(filled)
    with gate(filled) as session:
        row = session.curated[candidate(SHARED).lesson.key]
        assert (row.occurrences, row.distinct_users, row.hits) == (1, 1, 1)
        held = session.archive[f"{candidate(OTHERS).lesson.key}-held"]
        assert [one.user_ref for one in held.all_sightings] == [ref(filled, BERT)]
        assert [one.lesson.text for one in session.candidates()] == ["Sort by plant first."]
        assert [use.user_ref for use in session.uses.rows()] == [ref(filled, BERT)]


def test_proposals_of_nobody_else_go_rejections_stay(filled: Path) -> None:
    report = forget_user(filled)
    with gate(filled) as session:
        assert f"{candidate(HELD).lesson.key}-held" not in session.archive
        rejected = session.archive[f"{candidate(REJECTED).lesson.key}-rejected"]
        assert rejected.candidate is None and rejected.lesson.text == REJECTED
        assert (report.archived_removed, report.archived_cleaned) == (1, 2)


def test_the_ledger_says_forgotten(filled: Path) -> None:
    forget_user(filled)
    known = Forgotten.load(filled / "state")
    with gate(filled) as session:
        assert session.ledger.chain_problems() == []
        missing = [e for e in session.ledger.entries() if session.ledger.payload(e) is None]
        assert missing and {entry.payload for entry in missing} <= known.payloads
        assert session.ledger.entries()[-1].action is Action.FORGET


def test_a_second_time_finds_nothing(filled: Path) -> None:
    forget_user(filled)
    with gate(filled) as session:
        before, lines = dict(session.curated), len(session.ledger.entries())
    report = forget_user(filled)
    assert report.nothing
    with gate(filled) as session:
        assert (dict(session.curated), len(session.ledger.entries())) == (before, lines)


def test_dry_run_says_the_same_and_writes_nothing(filled: Path) -> None:
    before = dict(everything(filled))
    dry = forget_user(filled, dry_run=True)
    after = {file: content for file, content in everything(filled) if file in before}
    changed = [str(file) for file in before if before[file] != after.get(file)]
    assert [name for name in changed if "chroma" not in name and "lock" not in name] == []
    real = forget_user(filled)
    assert (dry.held, dry.candidates, dry.payloads) == (real.held, real.candidates, real.payloads)


def test_forgetting_everybody_in_turn_leaves_nobody(filled: Path) -> None:
    forget_user(filled)
    report = forget_user(filled, BERT)
    assert report.held == [candidate(SHARED).lesson.key]
    assert naming(filled, ref(filled, BERT)) == []


def test_a_chat_alone_can_be_forgotten(filled: Path) -> None:
    report = forget(settings(filled), "chat", CHAT)
    assert report.held == [candidate(ALONE).lesson.key]
    assert naming(filled, ref(filled, CHAT)) == []
    assert naming(filled, ref(filled, ANNA)) != []


def test_rows_on_their_way_are_dropped_later_ones_learned(filled: Path) -> None:
    forget_user(filled)
    late = said(filled, "Join by serial only.", ANNA, "m10")
    fresh = late.model_copy(update={"at": "2099-01-01T00:00:00Z", "message_ref": "f" * 64})
    stage(filled, [late, fresh])
    rating = Rating(
        outcome="up", message_ref=late.message_ref, user_ref=ref(filled, ANNA), at=late.at
    )
    assert Forgotten.load(filled / "state").covers_event(rating)
    with gate(filled) as session:
        assert drop_forgotten(session) == 1
        assert fresh.id in {one.id for one in session.candidates()}
        assert drop_forgotten(session) == 0


def test_a_run_drops_what_comes_late(filled: Path) -> None:
    forget_user(filled)
    stage(filled, [said(filled, "Join by serial only.", ANNA, "m10")])
    with gate(filled) as session:
        run_gate(session, RunOptions(Mode.RULES))
    assert naming(filled / "state", ref(filled, ANNA)) == []


@on_folder
def test_spool_and_leftovers_of_crashes_go_too(filled: Path) -> None:
    paths = StorePaths(filled)
    Spool(paths).append_candidates([said(filled, "Join by serial only.", ANNA, "m11")])
    (paths.spool / "bad").mkdir()
    (paths.spool / "bad" / "x.json").write_text(f"half of {ref(filled, ANNA)}")
    (filled / "staging.damaged-x").mkdir()
    (filled / "staging.damaged-x" / "chroma.sqlite3").write_text(SECRET)
    report = forget_user(filled)
    assert naming(filled, SECRET, ref(filled, ANNA)) == []
    assert (report.files, report.wreckage) == (2, 1)


def test_an_address_is_no_id(root: Path) -> None:
    with gate(root):
        pass
    salted(root)
    with pytest.raises(LessonsError, match="by the id, not the address"):
        forget_user(root, "anna@example.org")


@on_folder
def test_without_the_salt_nobody_is_found(filled: Path) -> None:
    (filled / "salt").unlink()
    with pytest.raises(StoreError, match="restore it, or set LESSONS_SALT"):
        forget_user(filled)
