from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lessons_loop.filter.errors import EmbedError
from lessons_loop.filter.events import Rating
from lessons_loop.filter.models import Status
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.kept import read_manifest, read_snapshot
from lessons_loop.promote.snapshot.kept import rewrite_snapshot as rewrite
from lessons_loop.promote.snapshot.restore import Comparison, compare, restore
from support.gate import (
    HUMAN,
    archived,
    bare,
    candidate,
    gate,
    on_folder,
    promotion,
    raw_client,
    shown,
    stage,
)
from support.restoring import fill, go_back, holdings, rejection, spoil, take, wanted
from support.snapshots import TEXTS, snapshots


def test_everything_comes_back(root: Path) -> None:
    fill(root)
    before, path = holdings(root), take(root)
    spoil(root)
    go_back(root, path)
    after = holdings(root)
    assert after["candidates"] > before["candidates"] and after["events"] > before["events"]
    for part in set(before) - {"candidates", "events"}:
        assert after[part] == before[part], part
    assert [row.key for row in read_snapshot(path).curated] == list(shown(root).keys)


def test_exact_restore_leaves_nothing_that_came_since(root: Path) -> None:
    fill(root)
    before, path = holdings(root), take(root)
    spoil(root)
    go_back(root, path, exact=True)
    assert holdings(root) == before


@pytest.mark.parametrize("exact", [False, True])
def test_second_restore_changes_nothing(root: Path, exact: bool) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    go_back(root, path, exact=exact)
    after, taken = holdings(root), snapshots(root)
    with gate(root) as session:
        lines = len(session.ledger.entries())
    assert go_back(root, path, exact=exact).difference.empty
    with gate(root) as session:
        assert len(session.ledger.entries()) == lines
    assert holdings(root) == after and snapshots(root) == taken


def test_restore_is_one_line_after_its_own_snapshot(root: Path) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    now = holdings(root)
    go_back(root, path)
    with gate(root) as session:
        last = session.ledger.entries()[-1]
        payload = session.ledger.payload(last)
    assert (last.action, last.actor) == (Action.RESTORE, HUMAN)
    assert payload is not None and len(payload["left"]) == 1
    own = read_snapshot(snapshots(root)[-1])
    assert own.manifest.purpose == "restore"
    assert {row.key for row in own.curated} == set(now["curated"])


def test_restore_can_be_restored(root: Path) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    now = holdings(root)
    go_back(root, path)
    go_back(root, snapshots(root)[-1], exact=True)
    assert holdings(root) == now


def test_candidates_decided_on_since_wait_again(root: Path) -> None:
    with gate(root):
        pass
    path = take(root)
    kinds = ("promoted", "rejected")
    found = [candidate(f"Use the view {kind}.", message=kind) for kind in kinds]
    stage(root, found)
    with gate(root) as session:
        session.apply(promotion(session, found[0]))
        session.apply(rejection(found[1]))
        assert session.candidates() == []
    go_back(root, path)
    assert holdings(root)["candidates"] == {one.id for one in found}
    with gate(root) as session:
        assert [e.action for e in session.ledger.entries()][-2] == Action.REJECT


def test_decided_candidates_do_not_wait_again_going_forward(root: Path) -> None:
    found = candidate()
    stage(root, [found])
    with gate(root) as session:
        session.apply(promotion(session, found))
    first, second = snapshots(root)[0], take(root)
    go_back(root, first)
    assert holdings(root)["candidates"] == {found.id}
    go_back(root, second)
    assert holdings(root)["candidates"] == set()
    go_back(root, first)
    assert holdings(root)["candidates"] == {found.id}


def test_thumb_given_since_is_counted_again(root: Path) -> None:
    fill(root)
    with gate(root) as session:
        fold_events(session)
    path, key = take(root), candidate(TEXTS[0]).lesson.key
    thumb = Rating(message_ref="u1", user_ref="u1", at="2026-11-03T08:00:00Z", outcome="up")
    stage_rating(root, thumb)
    counts = []
    for _ in range(3):
        with gate(root) as session:
            fold_events(session)
            row = session.curated[key]
            counts.append((row.hits, row.successes))
        go_back(root, path)
    assert counts == [(4, 1)] * 3


def stage_rating(root: Path, thumb: Rating) -> None:
    record = thumb.to_record()
    with raw_client(root, "staging") as client:
        rows = client.get_collection("sql-lessons-events", embedding_function=None)
        rows.add(ids=[record.id], documents=["rating"], metadatas=[dict(record.metadata)],
                 embeddings=[[1.0]])  # fmt: skip


def test_no_embedder_is_needed_for_vectors_that_are_kept(root: Path) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    go_back(root, path)
    with gate(root) as session:
        kept = read_snapshot(path)
        keys, rows = session.nearest_vectors()
        np.testing.assert_allclose([kept.vectors[key] for key in keys], rows, atol=1e-6)
        assert session.holdings.archive_matrix()[0] == tuple(kept.archive_vectors)


def test_lost_vectors_need_an_embedder(root: Path) -> None:
    fill(root)
    path, before = take(root), holdings(root)
    rewrite(path, lambda found: replace(found, vectors={}))
    spoil(root)
    now = holdings(root)
    with pytest.raises(EmbedError, match=r"no vectors of 1 lesson\(s\): pass --embedding"):
        go_back(root, path)
    assert holdings(root) == now
    with gate(root) as session:
        restore(session, wanted(root, path), HUMAN)
    assert holdings(root)["vectors"] == before["vectors"]


def test_row_edited_by_hand_is_mended(root: Path) -> None:
    fill(root)
    path, before = take(root), holdings(root)
    key = candidate(TEXTS[0]).lesson.key
    with raw_client(root, "curated") as client:
        rows = client.get_collection("sql-lessons", embedding_function=None)
        rows.update(ids=[key], metadatas=[{"kind": "fail-fix"}])
    with gate(root) as session:
        assert list(session.unreadable_curated) == [key]
    go_back(root, path)
    assert holdings(root) == before


@pytest.mark.parametrize("act", [compare, lambda s, w: restore(s, w, HUMAN)])
def test_comparison_tells_what_a_restore_does(root: Path, act: Callable[..., Comparison]) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    with open_gate(bare(root)) as session:
        found = act(session, wanted(root, path)).difference
    assert [row.lesson.text for row in found.put] == [TEXTS[0]]
    assert len(found.remove) == len(found.unarchive) == len(found.stage) == 1
    assert len(found.drop_uses) == 1 and found.uses == ()


def test_manifest_counts_survive_the_round_trip(root: Path) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    go_back(root, path, exact=True)
    assert read_manifest(take(root)).counts() == read_manifest(path).counts()


@on_folder
@pytest.mark.parametrize("status", [Status.REJECTED, Status.HELD])
def test_run_after_a_first_decision_that_promoted_nothing_is_undone(
    root: Path, status: Status
) -> None:
    first, second = candidate("Round pressures in reports."), candidate(message="m2")
    with gate(root) as session:
        session.embed([first.lesson.embedded_text])
        row = archived(first.lesson, status, candidate=first)
        action = Action.REJECT if status is Status.REJECTED else Action.HOLD
        session.apply(Change(action, first.lesson.key, "no", HUMAN, {}, archive=(row,)))
    with gate(root) as session:
        session.apply(promotion(session, second))
    path = snapshots(root)[-1]
    with gate(root) as session:
        restore(session, wanted(root, path), HUMAN)
        assert not session.curated and len(session.archive) == 1
