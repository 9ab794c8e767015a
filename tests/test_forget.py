from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.attempts import attempts_file
from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.events import Rating
from lessons_loop.filter.learner import Learner
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
from lessons_loop.filter.unfinished import Unfinished, UnfinishedAnswer
from lessons_loop.filter.worker import Worker
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.forget.forget import ForgetReport, forget
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.forget.late import drop_forgotten
from lessons_loop.promote.forget.subject import subject
from lessons_loop.promote.ledger.verify import verify_state
from lessons_loop.promote.records import Action, Actor
from lessons_loop.promote.runs.drive import Mode, RunOptions, run_gate
from lessons_loop.promote.snapshot.kept import list_snapshots, read_snapshot
from lessons_loop.promote.snapshot.restore import Wanted, restore
from support.commands import run_here
from support.forgetting import (
    ALONE,
    ANNA,
    BERT,
    CHAT,
    HELD,
    OTHERS,
    REJECTED,
    SECRET,
    SHARED,
    fill,
    ref,
    said,
    salted,
)
from support.gate import (
    HUMAN,
    candidate,
    gate,
    lesson,
    located,
    on_folder,
    promotion,
    server_url,
    settings,
    shown,
    stage,
)
from support.ratings import Thumbs
from support.templates import copied
from support.traces import everything, naming


@pytest.fixture
def filled(root: Path) -> Path:
    copied(fill, root)
    return root


REPORTS: dict[bool, ForgetReport] = {}
"""What the last forgetting of a `forgotten` store told, by whether it is on a server."""


def forgotten_store(root: Path) -> None:
    copied(fill, root)
    REPORTS[bool(server_url(root))] = forget_user(root)


@pytest.fixture
def forgotten(root: Path) -> Path:
    """A store in which ANNA is forgotten."""
    copied(forgotten_store, root)
    return root


def forget_user(root: Path, identity: str = ANNA, **fields: object) -> ForgetReport:
    return forget(settings(root, None, **fields), "user", identity)


def test_no_byte_of_the_forgotten_is_left(filled: Path) -> None:
    needles = (SECRET, ref(filled, ANNA))
    assert naming(filled, *needles) != []
    report = forget_user(filled)
    assert naming(filled, *needles) == []
    assert (report.candidates, report.events, report.uses) == (1, 1, 1)
    assert report.payloads >= 5 and report.snapshots >= 1


def test_what_rested_on_nothing_else_waits_for_a_person(forgotten: Path) -> None:
    report = REPORTS[bool(server_url(forgotten))]
    key = candidate(ALONE).lesson.key
    assert report.held == [key]
    with gate(forgotten) as session:
        assert key not in session.curated
        row = session.archive[f"{key}-held"]
        assert row.lesson.text == ALONE and row.candidate is None and row.curated is not None
        assert key in {one.lesson.key for one in session.held()}
    assert key not in {one.key for one in shown(forgotten).lessons}


def test_what_others_showed_stays_with_their_counts(forgotten: Path) -> None:
    with gate(forgotten) as session:
        row = session.curated[candidate(SHARED).lesson.key]
        assert (row.occurrences, row.distinct_users, row.hits) == (1, 1, 1)
        held = session.archive[f"{candidate(OTHERS).lesson.key}-held"]
        assert [one.user_ref for one in held.all_sightings] == [ref(forgotten, BERT)]
        assert [one.lesson.text for one in session.candidates()] == ["Sort by plant first."]
        assert [use.user_ref for use in session.uses.rows()] == [ref(forgotten, BERT)]


@on_folder
def test_proposals_of_nobody_else_go_rejections_stay(forgotten: Path) -> None:
    report = REPORTS[False]
    with gate(forgotten) as session:
        assert f"{candidate(HELD).lesson.key}-held" not in session.archive
        rejected = session.archive[f"{candidate(REJECTED).lesson.key}-rejected"]
        assert rejected.candidate is None and rejected.lesson.text == REJECTED
        assert (report.archived_removed, report.archived_cleaned) == (1, 2)


def test_the_ledger_says_forgotten(forgotten: Path) -> None:
    known = Forgotten.load(forgotten / "state")
    with gate(forgotten) as session:
        assert session.ledger.chain_problems() == []
        missing = [e for e in session.ledger.entries() if session.ledger.payload(e) is None]
        assert missing and {entry.payload for entry in missing} <= known.payloads
        assert session.ledger.entries()[-1].action is Action.FORGET


@on_folder
def test_a_second_time_finds_nothing(forgotten: Path) -> None:
    with gate(forgotten) as session:
        before, lines = dict(session.curated), len(session.ledger.entries())
    report = forget_user(forgotten)
    assert report.nothing
    with gate(forgotten) as session:
        assert (dict(session.curated), len(session.ledger.entries())) == (before, lines)


@on_folder
def test_dry_run_says_the_same_and_writes_nothing(filled: Path) -> None:
    before = dict(everything(filled))
    dry = forget_user(filled, dry_run=True)
    after = {file: content for file, content in everything(filled) if file in before}
    changed = [str(file) for file in before if before[file] != after.get(file)]
    assert [name for name in changed if "chroma" not in name] == []
    real = forget_user(filled)
    assert (dry.held, dry.candidates, dry.payloads) == (real.held, real.candidates, real.payloads)


@on_folder
def test_forgetting_everybody_in_turn_leaves_nobody(forgotten: Path) -> None:
    report = forget_user(forgotten, BERT)
    assert report.held == [candidate(SHARED).lesson.key]
    assert naming(forgotten, ref(forgotten, BERT)) == []


def test_a_chat_alone_can_be_forgotten(filled: Path) -> None:
    report = forget(settings(filled), "chat", CHAT)
    assert report.held == [candidate(ALONE).lesson.key]
    assert naming(filled, ref(filled, CHAT)) == []
    assert naming(filled, ref(filled, ANNA)) != []


@on_folder
def test_rows_on_their_way_are_dropped_later_ones_learned(forgotten: Path) -> None:
    late = said(forgotten, "Join by serial only.", ANNA, "m10")
    fresh = late.model_copy(update={"at": "2099-01-01T00:00:00Z", "message_ref": "f" * 64})
    stage(forgotten, [late, fresh])
    rating = Rating(
        outcome="up", message_ref=late.message_ref, user_ref=ref(forgotten, ANNA), at=late.at
    )
    assert Forgotten.load(forgotten / "state").covers_event(rating)
    with gate(forgotten) as session:
        assert drop_forgotten(session) == 1
        assert fresh.id in {one.id for one in session.candidates()}
        assert drop_forgotten(session) == 0


def test_a_run_drops_what_comes_late(forgotten: Path) -> None:
    stage(forgotten, [said(forgotten, "Join by serial only.", ANNA, "m10")])
    with gate(forgotten) as session:
        run_gate(session, RunOptions(Mode.RULES))
    assert naming(forgotten / "state", ref(forgotten, ANNA)) == []


@on_folder
def test_answers_under_way_go_too(filled: Path) -> None:
    register = Unfinished(attempts_file(filled), "worker")
    rows = [
        UnfinishedAnswer(
            f"m-{who}", f"c-{who}", "p", "sql", "stop", "{}", "[]", ref(filled, who), "", ""
        )
        for who in (ANNA, BERT)
    ]
    register.note(rows)
    forget_user(filled, dry_run=True)
    assert register.holds(f"m-{ANNA}")
    forget_user(filled)
    assert register.holds(f"m-{BERT}") and naming(filled, f"m-{ANNA}", ref(filled, ANNA)) == []


@on_folder
def test_spool_and_leftovers_of_crashes_go_too(filled: Path) -> None:
    paths = StorePaths(filled)
    Spool(paths).append_candidates([said(filled, "Join by serial only.", ANNA, "m11")])
    Thumbs(filled).rate("f", 1, user=ANNA)
    (paths.spool / "bad").mkdir()
    (paths.spool / "bad" / "x.json").write_text(f"half of {ref(filled, ANNA)}")
    (filled / "staging.damaged-x").mkdir()
    (filled / "staging.damaged-x" / "chroma.sqlite3").write_text(SECRET)
    report = forget_user(filled)
    assert naming(filled, SECRET, ref(filled, ANNA)) == []
    assert (report.files, report.wreckage) == (3, 1)


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


@on_folder
def test_a_seed_obeys_until_a_person_promotes_it_again(forgotten: Path) -> None:
    seed = Actor(kind="seed", name="seed:sql")
    with gate(forgotten) as session:
        report = take_in(session, [(lesson(ALONE), "s1")], seed)
        assert report.skipped == 1 and report.notes[0].reason.startswith("forgotten")
        session.apply(promotion(session, said(forgotten, ALONE, BERT, "m12")))
    assert not forget_user(forgotten).held
    with gate(forgotten) as session:
        assert candidate(ALONE).lesson.key in session.curated


@on_folder
def test_the_plugin_writes_the_same_references(root: Path) -> None:
    with gate(root):
        pass
    salted(root)
    learner = Learner(Spool(StorePaths(root)), Worker(), Alerts())
    assert subject(located(root), "user", ANNA).ref == learner.reference(ANNA)


@on_folder
def test_verify_says_forgotten_not_broken(filled: Path) -> None:
    assert run_here("forget", "--user", ANNA, "--yes", "--store", str(filled)).code == 0
    done = run_here("verify", "--store", str(filled))
    assert done.code == 0 and "forgotten" in done.out, done
    done = run_here("status", "--check", "--store", str(filled))
    assert done.code == 0 and "lines, verified" in done.out, done


@on_folder
def test_going_back_to_cleaned_snapshots_leaves_counters_and_references_right(
    forgotten: Path,
) -> None:
    for path in list_snapshots(forgotten / "state", "sql"):
        with gate(forgotten) as session:
            restore(session, Wanted(path, read_snapshot(path)), HUMAN)
            uses = list(session.uses.rows())
            for key, row in session.curated.items():
                assert row.hits == sum(key in use.keys for use in uses)
        assert verify_state(str(forgotten), forgotten / "state").problems == []
