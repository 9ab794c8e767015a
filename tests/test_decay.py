from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.promote.decay.rules import (
    DecayRules,
    Judgement,
    Standing,
    State,
    chance,
    judgements,
    standings,
    wilson,
)
from lessons_loop.promote.decay.uses import Use

START = datetime(2026, 11, 1, 8, tzinfo=UTC)
SINCE = dict.fromkeys("abcdefgh", "2026-10-01T00:00:00Z")
RULES = DecayRules()


def used(keys: str, thumb: str, user: str = "u", day: int = 0, minute: int = 0) -> Use:
    at = (START + timedelta(days=day, minutes=minute)).isoformat()
    return Use(
        id=f"{user}-{day}-{minute}-{keys}",
        message_ref="m",
        user_ref=user,
        at=at,
        keys=tuple(keys),
        rating=thumb,
        rated_at=at,
    )


def words(uses: list[Use], since: dict[str, str] | None = None) -> list[Judgement]:
    return judgements(uses, SINCE if since is None else since, by_tools=False)


def found(uses: list[Use], rules: DecayRules = RULES) -> dict[str, Standing]:
    return standings(words(uses), rules)


def state(uses: list[Use], key: str = "a", rules: DecayRules = RULES) -> State:
    return found(uses, rules)[key].state


def thumbs(key: str, ups: int, downs: int, users: int = 3) -> list[Use]:
    votes = ["up"] * ups + ["down"] * downs
    return [used(key, vote, f"u{n % users}", n // users) for n, vote in enumerate(votes)]


@pytest.mark.parametrize(
    ("ups", "downs", "expected"),
    [
        (0, 3, State.FAILING),
        (0, 2, State.UNTESTED),
        (1, 5, State.FAILING),
        (2, 2, State.WELL),  # at the floor is not under it
        (5, 1, State.WELL),
    ],
)
def test_lesson_is_held_against_the_others(ups: int, downs: int, expected: State) -> None:
    assert state(thumbs("a", ups, downs) + thumbs("b", 8, 1)) is expected


def test_flood_of_users_is_judged_in_seconds() -> None:
    many = [used("ab"[n % 2], ("down", "up")[n % 2], f"u{n}") for n in range(30_000)]
    began = time.thread_time()
    assert state(many) is State.FAILING
    assert time.thread_time() - began < 5  # all pairs of users and words took 17 s


def test_one_user_demotes_nothing() -> None:
    alone = [used("a", "down", "x", day) for day in range(30)]
    assert state(alone + thumbs("b", 9, 0)) is State.UNTESTED
    contradicted = [*alone, used("a", "up", "y")]
    assert state(contradicted + thumbs("b", 9, 0)) is State.WATCHED


def test_unknown_user_is_nobody() -> None:
    both = [used("a", "down", "", day) for day in range(5)] + [used("a", "down", "x")]
    assert state(both + thumbs("b", 9, 0)) is State.UNTESTED


def test_flood_of_one_day_is_one_word() -> None:
    flood = [used("a", "down", "x", 0, minute) for minute in range(50)]
    assert len(words(flood)) == 1
    (newest,) = words([*flood, used("a", "up", "x", 0, 59)])
    assert newest.good


def test_all_bad_is_no_reason_to_blame_one() -> None:
    assert state(thumbs("a", 1, 5) + thumbs("b", 2, 10)) is State.WELL
    assert state(thumbs("a", 0, 6)) is State.WATCHED  # nobody to be held against


def test_bad_luck_is_watched() -> None:
    others = [use for key in "bcdefgh" for use in thumbs(key, 4, 2)]
    assert state(thumbs("a", 1, 2) + others) is State.WATCHED


def test_uses_before_it_began_do_not_count() -> None:
    uses = thumbs("a", 0, 4) + thumbs("b", 9, 0)
    later = SINCE | {"a": "2026-11-20T00:00:00Z"}
    assert "a" not in standings(words(uses, later), RULES)


def test_bad_lesson_drags_no_other_along() -> None:
    together = [used("ab", "down", f"u{n}", n) for n in range(6)]
    alone = [used("a", "down", f"u{n}", 20 + n) for n in range(6)]
    result = found([*together, *alone, *thumbs("c", 12, 1)])
    assert (result["a"].state, result["b"].state) == (State.FAILING, State.UNTESTED)


def test_answers_of_a_demoted_lesson_are_its_own() -> None:
    together = words([used("ab", "down", f"u{n}", n) for n in range(6)] + thumbs("c", 12, 1))
    kept = [word for word in together if word.key != "a"]
    assert standings(kept, RULES, frozenset("a"))["b"].state is State.UNTESTED


def test_comment_judges_only_what_it_names() -> None:
    named = used("ab", "down").model_copy(update={"rated_keys": ("b",)})
    assert [word.key for word in words([named])] == ["b"]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (DecayRules(min_hits=10), State.UNTESTED),
        (DecayRules(min_success_rate=0.1), State.WELL),
        (DecayRules(min_success_rate=0.9), State.FAILING),
    ],
)
def test_limits_are_the_operators(rules: DecayRules, expected: State) -> None:
    assert state(thumbs("a", 1, 5) + thumbs("b", 8, 1), rules=rules) is expected


def test_chance_and_bounds_are_the_textbook_ones() -> None:
    assert chance(0, 3, 0.7) == pytest.approx(0.027)
    assert chance(3, 3, 0.7) == 1.0 and chance(0, 5, 1.0) == 0.0
    assert chance(10_000, 20_000, 0.5) == pytest.approx(0.5028, abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


@given(
    st.lists(
        st.builds(
            used,
            st.sampled_from(["a", "ab", "bc", "abc", "z"]),
            st.sampled_from(["up", "down", ""]),
            st.sampled_from(["", "u", "v", "w"]),
            st.integers(0, 9),
        ),
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_order_of_uses_changes_nothing(uses: list[Use], shuffled: random.Random) -> None:
    distinct = list({use.id: use for use in uses}.values())
    mixed = shuffled.sample(distinct, len(distinct))
    result = found(distinct)
    assert result == found(mixed)
    for one in result.values():
        assert 0 <= one.good <= one.judged
        failing = one.state is State.FAILING
        assert not failing or (one.judged >= RULES.min_hits and one.users >= 2)


def lost(
    seed: int, *, bad: str = "", uses: int = 200, size: int = 100, rules: DecayRules = RULES
) -> dict[str, int]:
    """Return whom decay takes out, and after how many answers, looking after every twenty."""
    dice = random.Random(seed)
    keys = [f"k{n}" for n in range(size)]
    gone: dict[str, int] = {}
    seen: list[Use] = []
    for n in range(uses):
        live = [key for key in keys if key not in gone]
        shown = tuple((live * 2)[(first := dice.randrange(len(live))) : first + 5])
        vote = "up" if dice.random() < (0.2 if bad in shown else 0.7) else "down"
        one = used("", vote, f"u{dice.randrange(20)}", n)
        seen.append(one.model_copy(update={"keys": shown}))
        if n % 20 == 19:
            since = {key: "2026-10-01T00:00:00Z" for key in live}
            result = standings(words(seen, since), rules, frozenset(gone))
            gone |= {key: n for key, one in result.items() if one.state is State.FAILING}
    return gone


def test_stricter_chance_loses_fewer_good_lessons() -> None:
    gone = {
        chance: sum(len(lost(seed, rules=DecayRules(max_chance=chance))) for seed in range(3))
        for chance in (1.0, RULES.max_chance, 0.01)
    }  # of 300
    assert gone[1.0] > gone[RULES.max_chance] > gone[0.01]
    assert gone[RULES.max_chance] <= 15


def test_truly_bad_lesson_is_found() -> None:
    results = [lost(seed, bad="k7", uses=300, size=20) for seed in range(4)]
    assert sum("k7" in gone for gone in results) >= 3
    assert sum(len(gone) for gone in results) <= 12
