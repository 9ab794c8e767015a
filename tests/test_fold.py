from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.events import COUNTS_LIMIT, Rating, tally_of
from lessons_loop.filter.inject import reference
from lessons_loop.promote.decay.fold import FoldReport, fold_events, judged_tallies
from lessons_loop.promote.decay.fold_rows import OTHER_COUNTS, WAIT_DAYS, new_use, rated, waits
from lessons_loop.promote.decay.judged import judged
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.store.candidates import delete_staged, read_events
from support.folding import USED, rating, usage, with_lessons
from support.gate import (
    gate,
    located,
    raw_client,
    shown,
    stage_events,
    stage_usage,
)

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def use(*keys: str, **fields: Any) -> Use:
    return Use(**({"id": "u", "message_ref": "m", "at": USED, "keys": keys} | fields))


def counters(session: GateSession) -> list[tuple[int, int, int]]:
    return [(row.hits, row.successes, row.failures) for row in session.curated.values()]


def test_events_become_counters_once(root: Path) -> None:
    key = with_lessons(root)[0]
    with gate(root) as session:
        vectors = session.nearest_vectors()[1].tolist()
    stage_usage(root, "sql", [usage(key, message=f"m{n}") for n in range(4)])
    with gate(root) as session:
        assert fold_events(session) == FoldReport(4, 1, 0, 0)
        assert fold_events(session) == FoldReport(0, 0, 0, 0)
    with gate(root) as session:
        row = session.curated[key]
        assert (row.hits, row.last_used) == (4, USED)
        assert (row.verdict_ref, row.ledger_ref) == (2, 2)
        assert session.nearest_vectors()[1].tolist() == vectors
        actions = [e.action for e in session.ledger.entries()]
        assert actions == ["init", "promote", "promote", "fold", "fold"]
    assert {one.hits for one in shown(root).lessons} == {4, 0}


def test_event_that_comes_again_counts_no_more(root: Path) -> None:
    key = with_lessons(root)[0]
    for _ in range(2):
        stage_usage(root, "sql", [usage(key)])
        with gate(root) as session:
            fold_events(session)
            assert session.curated[key].hits == 1
            assert session.events() == ([], [], [], [], ())


def test_unknown_and_malformed_events_are_counted_and_gone(root: Path) -> None:
    stage_usage(root, "sql", [usage("no-such-key")])
    with raw_client(root, "staging") as client:
        collection = client.get_collection("sql-lessons-events", embedding_function=None)
        collection.add(
            ids=["bad", "thumb"],
            documents=["x", "y"],
            metadatas=[{"type": "used", "keys": 5}, {"type": "rating"}],
            embeddings=[[1.0], [1.0]],
        )
    with gate(root) as session:
        assert fold_events(session) == FoldReport(1, 0, 1, 2)
        assert list(session.uses.rows()) == []
        assert session.events() == ([], [], [], [], ())


def test_no_event_writes_nothing(root: Path) -> None:
    with gate(root):
        pass
    with gate(root) as session:
        fold_events(session)
        assert [e.action for e in session.ledger.entries()] == ["init"]


def test_thumb_judges_what_was_shown(root: Path) -> None:
    one, other = with_lessons(root)
    up, down = rating("up", message="a"), rating("down", reference(other), message="b")
    seen = [usage(one, other, message="a"), usage(one, other, message="b")]
    stage_events(root, [*seen, up, down])
    with gate(root) as session:
        assert fold_events(session).lessons == 2
        assert counters(session) == [(2, 1, 0), (2, 1, 1)]
    stage_events(root, [rating("none", message="b", minute=5)])
    with gate(root) as session:
        fold_events(session)
        assert counters(session) == [(2, 1, 0), (2, 1, 0)]
        assert fold_events(session) == FoldReport(0, 0, 0, 0)


def test_rating_waits_for_its_use(root: Path) -> None:
    one, _ = with_lessons(root)
    soon = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stage_events(root, [rating("up", at=soon), rating("up", at="2026-01-01", message="x")])
    with gate(root) as session:
        assert fold_events(session)[:5] == (1, 0, 0, 0, 1)
    stage_events(root, [usage(one)])
    with gate(root) as session:
        assert fold_events(session)[:5] == (2, 1, 0, 0, 0)
        assert counters(session)[0] == (1, 1, 0)


def test_thumb_of_somebody_else_judges_nothing(root: Path) -> None:
    one, _ = with_lessons(root)
    stage_events(root, [usage(one, user_ref="asker"), rating("down", user_ref="reader")])
    with gate(root) as session:
        fold_events(session)
        assert counters(session)[0] == (1, 0, 0)


def test_tallies_are_added_up_and_gone(root: Path) -> None:
    with_lessons(root)
    stage_events(root, [tally_of(name, {"nothing": 2, "kept": 1}, USED) for name in "ab"])
    with gate(root) as session:
        assert fold_events(session).distiller == {"kept": 2, "nothing": 4}
        assert session.events() == ([], [], [], [], ())
        entry = session.ledger.entries()[-1]
        assert (session.ledger.payload(entry) or {})["distiller"] == {"kept": 2, "nothing": 4}


def test_flood_of_counter_names_stays_a_short_line(root: Path) -> None:
    with_lessons(root)
    names = [[f"n{n}-{i}" for i in range(COUNTS_LIMIT)] for n in range(3)]
    stage_events(root, [tally_of(some[0], dict.fromkeys(some, 1), USED) for some in names])
    with gate(root) as session:
        found = fold_events(session).distiller
    assert (len(found), found[OTHER_COUNTS]) == (COUNTS_LIMIT + 1, 2 * COUNTS_LIMIT)


def test_tools_judge_only_when_asked_to(root: Path) -> None:
    one, _ = with_lessons(root)
    stage_events(root, [usage(one, message=name, tools=name) for name in ("ok", "failed")])
    for by_tools, expected in ((False, (2, 0, 0)), (True, (2, 1, 1)), (False, (2, 0, 0))):
        with gate(root) as session:
            fold_events(session, by_tools=by_tools)
            assert counters(session)[0] == expected


@pytest.mark.parametrize(
    ("fields", "by_tools", "expected"),
    [
        ({"rating": "up"}, False, {"a": True, "b": True}),
        ({"rating": "down", "rated_keys": ("b",)}, True, {"b": False}),
        ({"rating": "up", "tools": "failed"}, True, {"a": True, "b": True}),
        ({"rating": "down", "rating_reason": "too_verbose"}, False, {}),
        ({"rating": "up", "rating_reason": "dont_like_the_style"}, False, {}),
        ({"rating": "down", "rating_reason": "being_lazy", "tools": "ok"}, True, {"a": 1, "b": 1}),
        ({"rating": "down", "rating_reason": "not_helpful"}, False, {"a": False, "b": False}),
        ({"tools": "failed"}, True, {"a": False, "b": False}),
        ({"tools": "failed"}, False, {}),
        ({}, True, {}),
    ],
)
def test_what_judges(fields: dict[str, Any], by_tools: bool, expected: dict[str, bool]) -> None:
    assert judged(use("a", "b", **fields), by_tools=by_tools) == expected


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        ("9999-12-31T23:59:59Z", "2026-11-20T00:00:00Z"),
        ("yesterday", "yesterday"),
        ("2026-11-02", "2026-11-02T00:00:00Z"),
        ("2026-11-02T08:00:00+02:00", "2026-11-02T06:00:00Z"),
    ],
)
def test_forged_times_do_no_harm(at: str, kept: str) -> None:
    found = new_use(usage("k", at=at), {"k"}, NOW)
    assert found is not None and found.at == kept


def test_time_that_is_none_leaves_last_used(root: Path) -> None:
    key = with_lessons(root)[0]
    stage_events(root, [usage(key, at="yesterday")])
    with gate(root) as session:
        fold_events(session)
        assert (session.curated[key].hits, session.curated[key].last_used) == (1, "")


@pytest.mark.parametrize(
    ("days", "expected"), [(0, True), (WAIT_DAYS, True), (WAIT_DAYS + 1, False), (-2, False)]
)
def test_waiting_ends(days: int, expected: bool) -> None:
    moment = (NOW - timedelta(days=days)).isoformat()
    assert waits([rating("up", at=moment)], NOW) is expected
    assert not waits([rating("up", at="whenever")], NOW)


def test_names_that_are_no_lesson_of_the_answer_name_none() -> None:
    shown_keys = ("a" * 64, "b" * 64)
    named = rated(use(*shown_keys), [rating("down", "aaaaaaaa", "deadbeef")])
    assert named.rated_keys == ("a" * 64,)
    assert rated(use(*shown_keys), [rating("down", "deadbeef")]).rated_keys == ()


RATINGS = st.lists(
    st.builds(
        rating,
        st.sampled_from(["up", "down", "none"]),
        minute=st.integers(0, 3),
        reason=st.sampled_from(["", "too_verbose", "other"]),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(RATINGS, st.randoms(use_true_random=False), st.lists(st.integers(0, 6), max_size=3))
def test_order_and_split_of_ratings_change_nothing(
    ratings: list[Rating], random: Any, cuts: list[int]
) -> None:
    mixed = random.sample(ratings, len(ratings))
    found = use("a", "b")
    for start, end in pairwise([0, *sorted(cuts), len(mixed)]):
        found = rated(found, mixed[start:end])
    assert found == rated(use("a", "b"), ratings)
    tallies = judged_tallies([found], by_tools=False)
    assert all(good + bad == 1 for good, bad in tallies.values())


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(RATINGS, st.integers(0, 6), st.booleans())
def test_runs_end_with_the_same_counters(
    tmp_path_factory: pytest.TempPathFactory, ratings: list[Rating], cut: int, first: bool
) -> None:
    results = []
    for parts in ([ratings], [ratings[:cut], ratings[cut:]]):
        root = tmp_path_factory.mktemp("store")
        key = with_lessons(root)[0]
        used: Sequence[Any] = [usage(key)]
        for staged in [used, *parts] if first else [[*used, *parts[0]], *parts[1:]]:
            stage_events(root, list(staged))
            with gate(root) as session:
                fold_events(session)
        with gate(root) as session:
            results.append(counters(session))
    assert results[0] == results[1]


def test_uses_go_back_to_staging_and_count_once(root: Path) -> None:
    one, other = with_lessons(root)
    stage_events(root, [usage(one, other, user_ref="u"), rating("down", user_ref="u")])
    with gate(root) as session:
        fold_events(session)
        before = list(session.uses.rows())
        (kept,) = before
        assert [record.metadata["type"] for record in kept.to_events()] == ["used", "rating"]
    stage_events(root, kept.to_events())
    with gate(root) as session:
        fold_events(session)
        assert list(session.uses.rows()) == before
        assert counters(session) == [(1, 0, 1), (1, 0, 1)]


@pytest.mark.parametrize("late", [0, 1])
def test_many_rows_go_and_later_ones_stay(root: Path, late: int) -> None:
    many = [usage("k", message=f"m{n}") for n in range(520 + late)]
    stage_events(root, many)
    delete_staged(located(root), "sql", [], [one.id for one in many[:520]])
    left = read_events(located(root), "sql").usages
    assert [event for _, event in left] == many[520:]
    stage_events(root, [usage("k", message="new")])
    assert len(read_events(located(root), "sql").usages) == late + 1
