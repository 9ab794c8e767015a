from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.models import Candidate, Evidence, EvidenceKind
from lessons_loop.promote.gate import Rules, Situation, judge
from lessons_loop.promote.records import Decision, Neighbour, Verdict
from lessons_loop.promote.similar.groups import Group, count_users
from support.gate import candidate, curated, lesson
from support.judging import OTHER, SOUND, sightings

FORGED = Evidence(
    kind=EvidenceKind.TOOL_SUCCESS,
    quote="we measured 40 connections",
    excerpt="[1] USER: the pool is too small\n[2] ASSISTANT: try a larger one",
)


def group(*seen: Candidate) -> Group:
    return Group(seen[0].lesson, seen, tuple(found.id for found in seen))


def verdict(found: Group, situation: Situation | None = None, **rules: int) -> Verdict:
    return judge(found, situation or Situation(), replace(Rules(), **rules))


def near(relation: str, similarity: float = 0.95) -> Situation:
    return Situation(Neighbour(curated(lesson(OTHER)), similarity, relation))


def test_sound_lesson_of_two_users_stands() -> None:
    found = verdict(group(*sightings(SOUND, 2)))
    assert (found.decision, found.rule) == (Decision.PROMOTE, "all-rules")


def test_forged_quote_is_rejected() -> None:  # T-28
    found = verdict(group(candidate(SOUND, evidence=FORGED)))
    assert (found.decision, found.rule) == (Decision.REJECT, "quote-not-found")


def test_one_sound_sighting_outweighs_forged_one() -> None:
    first, second = sightings(SOUND, 2)
    forged = candidate(SOUND, message="m-3", user="u-3", chat="c-3", evidence=FORGED)
    assert verdict(group(forged, first, second)).decision is Decision.PROMOTE


def test_forged_sighting_counts_as_nobody() -> None:
    (first,) = sightings(SOUND, 1)
    forged = candidate(SOUND, message="m-3", user="u-3", chat="c-3", evidence=FORGED)
    found = verdict(group(first, forged))
    assert (found.decision, found.rule) == (Decision.HOLD, "min-users")


def test_shape_is_judged_before_neighbours() -> None:
    found = verdict(group(*sightings("The pool is 40.", 2)), near("duplicate"))
    assert (found.decision, found.rule) == (Decision.REJECT, "non-imperative")


@pytest.mark.parametrize("relation", ["related", "conflict"])
def test_near_lessons_are_held_with_neighbour(relation: str) -> None:  # T-29
    found = verdict(group(*sightings(SOUND, 5)), near(relation, 0.93))
    assert (found.decision, found.rule) == (Decision.HOLD, relation)
    assert found.neighbour is not None and "0.93" in found.reason
    assert found.neighbour.curated.key[:12] in found.reason


def test_duplicate_is_no_promotion() -> None:
    assert verdict(group(*sightings(SOUND, 2)), near("duplicate")).decision is Decision.DUPLICATE


def test_unrelated_neighbour_does_not_matter() -> None:
    found = verdict(group(*sightings(SOUND, 2)), near("unrelated", 0.5))
    assert found.decision is Decision.PROMOTE


def test_without_embedder_nothing_is_promoted() -> None:
    found = verdict(group(*sightings(SOUND, 3)), Situation(compared=False))
    assert (found.decision, found.rule) == (Decision.SKIP, "no-embedder")


def test_earlier_decision_holds_with_its_reason() -> None:
    before = ("seen-before", "rejected once: true on Mondays only")
    found = verdict(group(*sightings(SOUND, 4)), Situation(before=before))
    assert (found.decision, found.rule) == (Decision.HOLD, "seen-before")
    assert "true on Mondays only" in found.reason


def test_other_hold_tells_of_earlier_decision_too() -> None:  # T-12
    before = ("seen-before", "was retired (superseded): superseded by 3f2a9c")
    found = verdict(group(*sightings(SOUND, 1)), replace(near("conflict"), before=before))
    assert (found.decision, found.rule) == (Decision.HOLD, "conflict")
    assert "was retired (superseded)" in found.reason


def test_min_users_hold_names_the_next_step() -> None:
    found = verdict(group(*sightings(SOUND, 1)), Situation())
    key = lesson(SOUND).key[:12]
    assert f"lessons promote {key} --reason" in found.reason and "--min-users 1" in found.reason


def test_unsafe_advice_is_held_whoever_saw_it() -> None:
    text = "Run DROP TABLE staging_orders before loading equipment_machine."
    found = verdict(group(*sightings(text, 9)))
    assert (found.decision, found.rule) == (Decision.HOLD, "unsafe")


@pytest.mark.parametrize(
    ("pairs", "users"),
    [
        ([("a", "1"), ("b", "2")], 2),
        ([("a", "1"), ("a", "2")], 1),
        ([("a", "1"), ("b", "1")], 1),
        ([("a", "1"), ("a", "2"), ("b", "1")], 2),
        ([("", "1"), ("", "2")], 0),
        ([("a", ""), ("b", "")], 0),
        ([], 0),
    ],
)
def test_users_need_chats_of_their_own(pairs: list[tuple[str, str]], users: int) -> None:
    seen = [candidate(message=str(n), user=u, chat=c) for n, (u, c) in enumerate(pairs)]
    assert count_users(seen) == users


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123")), max_size=8))
def test_users_are_bounded_by_users_and_chats(pairs: list[tuple[str, str]]) -> None:
    seen = [candidate(message=str(n), user=u, chat=c) for n, (u, c) in enumerate(pairs)]
    found = count_users(seen)
    assert found <= min(len({u for u, _ in pairs}), len({c for _, c in pairs}))
    assert bool(found) is bool(pairs)


def test_one_person_installation_sets_one() -> None:
    assert verdict(group(*sightings(SOUND, 1)), min_users=1).decision is Decision.PROMOTE
