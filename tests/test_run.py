from __future__ import annotations

import json
from pathlib import Path

from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Status
from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Action, Decision
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.kept import list_snapshots, read_snapshot
from support.gate import (
    HUMAN,
    bare,
    candidate,
    gate,
    on_folder,
    server_url,
    settings,
    stage,
    stage_usage,
)
from support.judging import OTHER, SOUND, sightings
from support.running import (
    EMBEDDER,
    SECRET,
    counts,
    fill,
    run,
)


def tree(root: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


def test_auto_promotes_what_two_users_showed(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    assert counts(run(root, Mode.AUTO)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        assert (row.occurrences, row.distinct_users) == (2, 2)
        assert session.candidates() == [] and session.ledger.verify() == []


def test_curated_row_names_no_chat_or_user(root: Path) -> None:  # T-48
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        shown = row.model_dump_json()
    assert "user-0" not in shown and "chat-" not in shown and "3 rows" not in shown


def test_preview_writes_nothing_and_promotes_nothing(root: Path) -> None:
    fill(root, *sightings(SOUND, 2), candidate("The pool is 40.", message="m-9"))
    report = run(root, Mode.NONE)
    assert counts(report) == {"skipped": 1, "rejected": 1}
    with gate(root, EMBEDDER) as session:
        assert len(session.candidates()) == 3 and not session.curated and not session.archive


def test_rules_alone_never_promote(root: Path) -> None:
    fill(root, *sightings(SOUND, 2), candidate("The pool is 40.", message="m-9"))
    assert counts(run(root, Mode.RULES)) == {"skipped": 1, "rejected": 1}
    with gate(root, EMBEDDER) as session:
        assert [row.status for row in session.archive.values()] == [Status.REJECTED]
        assert len(session.candidates()) == 2 and not session.curated


def test_nothing_to_do_is_an_empty_report(root: Path) -> None:
    assert counts(run(root, Mode.RULES)) == {}


def test_held_lesson_is_counted_with_later_sighting(root: Path) -> None:
    first, second, third = sightings(SOUND, 3)
    fill(root, first)
    assert counts(run(root, Mode.AUTO, min_users=3)) == {"held": 1}
    fill(root, second)
    assert counts(run(root, Mode.AUTO, min_users=3)) == {"held": 1}
    assert counts(run(root, Mode.AUTO, min_users=3)) == {}
    fill(root, third)
    assert counts(run(root, Mode.AUTO, min_users=3)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        assert session.held() == []
        assert next(iter(session.curated.values())).distinct_users == 3


def test_reworded_sightings_count_together(root: Path) -> None:
    shorter = "Look serials up in equipment_machine."
    full = "Look serials up in equipment_machine; raw ones are spelled in many ways."
    fill(root, *sightings(full, 1), candidate(shorter, message="m-8", user="u-8", chat="c-8"))
    assert counts(run(root, Mode.AUTO, dup_threshold=0.6)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        assert [row.lesson.text for row in session.curated.values()] == [full]


def test_added_advice_needs_users_of_its_own(root: Path) -> None:
    shorter = "Look serials up in equipment_machine."
    full = "Look serials up in equipment_machine; read serial_key."
    fill(root, *sightings(full, 1), candidate(shorter, message="m-8", user="u-8", chat="c-8"))
    report = run(root, Mode.AUTO, dup_threshold=0.6)
    assert counts(report) == {"held": 1} and report.outcomes[0].case.group.users == 2
    assert "2 showed a part of it" in report.outcomes[0].verdict.reason
    fill(root, candidate(full, message="m-9", user="u-9", chat="c-9"))
    assert counts(run(root, Mode.AUTO, dup_threshold=0.6)) == {"promoted": 1}


def test_one_lesson_under_two_triggers_is_one(root: Path) -> None:
    shorter = "Look serials up in equipment_machine."
    full = "Look serials up quickly in equipment_machine."
    other = "monthly reports which the sales team asks for every week"
    seen = candidate(shorter, trigger=other, message="m-8", user="u-8", chat="c-8")
    fill(root, *sightings(full, 1), seen)
    assert counts(run(root, Mode.AUTO, dup_threshold=0.85)) == {"promoted": 1}


def test_held_wording_is_closed_by_fuller_one(root: Path) -> None:
    fill(root, candidate("Look serials up in equipment_machine.", message="m-8"))
    assert counts(run(root, Mode.AUTO)) == {"held": 1}
    fuller = "Look serials up quickly in equipment_machine."
    fill(root, candidate(fuller, message="m-9", user="u-9", chat="c-9"))
    assert counts(run(root, Mode.AUTO, dup_threshold=0.6)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        assert session.held() == []
        assert "merged into" in [row.reason for row in session.archive.values()][-1]


def test_duplicate_is_folded_into_curated(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    fill(root, candidate(SOUND.upper()[0] + SOUND[1:], message="m-5", user="u-5", chat="c-5"))
    assert counts(run(root, Mode.AUTO)) == {"duplicates": 1}
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        assert row.occurrences == 3 and session.candidates() == []
        entry = session.ledger.entries()[-1]
        assert entry.action is Action.DUPLICATE
        payload = session.ledger.payload(entry)
        assert payload is not None and payload["candidates"][0]["lesson"]["text"] == SOUND


def test_contradiction_is_held_never_dropped(root: Path) -> None:  # T-29
    fill(root, *sightings("Divide Stripe amounts by 100 for JPY orders.", 2))
    run(root, Mode.AUTO)
    fill(root, *sightings("Do not divide Stripe amounts by 100 for JPY orders.", 3))
    report = run(root, Mode.AUTO)
    assert counts(report) == {"held": 1}
    assert report.outcomes[0].verdict.rule == "conflict"
    with gate(root, EMBEDDER) as session:
        assert "Do not divide" in session.held()[0].lesson.text


def test_promotion_is_neighbour_of_the_next_candidate(root: Path) -> None:
    fill(
        root,
        *sightings("Set pool_size to 10 for orders_db.", 2),
        *sightings("Set pool_size to 20 for orders_db.", 2),
    )
    assert counts(run(root, Mode.AUTO)) == {"promoted": 1, "held": 1}


def test_rejected_lesson_comes_back_held_with_history(root: Path) -> None:
    fill(root, *sightings(SOUND, 1))
    with gate(root, EMBEDDER) as session:
        key = session.candidates()[0].lesson.key
        decide(session, [key[:8]], Wanted(Decision.REJECT, "one site only", HUMAN), Rules())
    fill(root, *(seen for seen in sightings(SOUND, 4)[1:]))
    report = run(root, Mode.AUTO)
    assert counts(report) == {"held": 1}
    assert report.outcomes[0].verdict.rule == "seen-before"
    assert "one site only" in report.outcomes[0].case.history[0]["reason"]


def test_rejected_secret_is_masked_everywhere(root: Path) -> None:  # T-46
    fill(root, candidate(f"Use {SECRET} for deploys of orders_api.", trigger=f"on {SECRET}"))
    report = run(root, Mode.RULES)
    assert counts(report) == {"rejected": 1}
    assert SECRET not in json.dumps(report.as_dict())
    # Chroma's index files carry leftovers of the process's memory; they are private instead
    left = {
        name: raw
        for name, raw in tree(root).items()
        if "/staging/" not in name and not name.endswith(".bin")
    }
    if not server_url(root):
        assert (root / "gate").stat().st_mode & 0o077 == 0
    assert not [name for name, raw in left.items() if SECRET.encode() in raw]


def test_usage_events_are_folded_first(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    key = candidate(SOUND).lesson.key
    usage = Usage(keys=(key,), message_ref="m-1", user_ref="u", at="2026-11-02T08:00:00Z")
    stage_usage(root, "sql", [usage])
    assert counts(run(root, Mode.RULES)) == {"folded": 1}


def test_dry_run_judges_alike_and_changes_no_byte(root: Path) -> None:  # T-32
    fill(root, *sightings(SOUND, 2), *sightings(OTHER, 2), candidate("The pool is 40."))
    with gate(root, EMBEDDER):
        pass
    before = tree(root)
    with gate(root, EMBEDDER, dry_run=True) as session:
        dry = run_gate(session, RunOptions(Mode.AUTO))
    assert tree(root) == before
    assert counts(dry) == counts(run(root, Mode.AUTO)) == {"promoted": 2, "rejected": 1}


def test_without_embedder_candidates_stay(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    with open_gate(bare(root)) as session:
        report = run_gate(session, RunOptions(Mode.AUTO))
        assert counts(report) == {"skipped": 1} and len(session.candidates()) == 2


@on_folder
def test_what_arrives_after_the_snapshot_waits_for_the_next_run(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    late = [sightings(OTHER, 2, kind="perf-guard")]

    def arrive(name: str) -> None:
        if name == "payload" and late:
            stage(root, late.pop())

    used = Usage(keys=("k",), message_ref="m", user_ref="u", at="2026-11-02T08:00:00Z")
    stage_usage(root, "sql", [used])
    with gate(root):
        pass
    with open_gate(settings(root), checkpoint=arrive) as session:
        run_gate(session, RunOptions(Mode.AUTO))
        saved = read_snapshot(list_snapshots(session.state, "sql")[-1]).candidates
        assert not late and {row.lesson.text for row in session.curated.values()} == {SOUND}
        assert {found.lesson.text for found in saved} == {SOUND}
