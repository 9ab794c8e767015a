from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.promote.similar.similarity import compare, nearest
from lessons_loop.promote.similar.wording import stem, words_of
from support.gate import curated, lesson

WORDS = st.lists(
    st.sampled_from(["read", "orders", "key", "sum", "table", "drop", "day_key", "100", "Stripe"]),
    min_size=2,
    max_size=9,
)


def relation(new: str, old: str, cosine: float = 0.97) -> str:
    mine = lesson(new, trigger="questions about orders")
    theirs = lesson(old, trigger="questions about orders")
    return compare(mine, theirs, cosine, 0.90).relation


OLD = "When HPOS is enabled, read orders from wp_wc_orders and wp_wc_orders_meta."


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("When HPOS is enabled, read orders from wp_wc_orders.", OLD),
        ("When HPOS is enabled, read the order from wp_wc_orders", OLD),
        ("Prefix queries with 'query: '.", "Prefix queries with 'query: ' for an E5 model."),
        ("Stop at 10000 rows.", "Stop at 10,000 rows in Elasticsearch."),
        ("使用订单表查询。", "使用订单表查询客户。"),
    ],
)
def test_what_adds_nothing_is_duplicate(new: str, old: str) -> None:
    assert relation(new, old) == "duplicate"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        # T-29: negation, number, name, swap, direction, condition
        ("Allow production deploys on Friday.", "Do not allow production deploys on Friday."),
        ("Do not deploy on Friday.", "Deploy on Friday."),
        ("Set the pool to 10.", "Set the pool to 100."),
        ("Read orders from wp_posts.", "Read orders from wp_orders."),
        ("Use NOT IN instead of NOT EXISTS.", "Use NOT EXISTS instead of NOT IN."),
        ("Convert cents to euros.", "Convert euros to cents."),
        ("Turn caching on.", "Turn caching off."),
        ("Load staging before production.", "Load production before staging."),
        ("Read orders from wp_wc_orders.", OLD),
        ("Delete old rows.", "Delete old rows only after a backup."),
        ("Use the cache.", "Use the cache, except in tests."),
        ("Nutze den Index.", "Nutze den Index nicht."),
        ("Utilisez le cache.", "N'utilisez jamais le cache."),
        ("缓存查询。", "不缓存查询。"),
    ],
)
def test_what_could_contradict_is_never_duplicate(new: str, old: str) -> None:
    assert relation(new, old, 0.999) in ("related", "conflict")


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Divide amounts by 100.", "Do not divide amounts by 100."),
        ("Set hits to 1,000.", "Set hits to 10,000."),
        ("Read orders from wp_posts.", "Read orders from wp_wc_orders."),
        ("When HPOS is disabled, read orders.", "When HPOS is enabled, read orders."),
    ],
)
def test_opposite_advice_is_conflict(new: str, old: str) -> None:
    assert relation(new, old, 0.95) == "conflict"


def test_same_words_far_apart_are_no_duplicate() -> None:
    assert relation("Set the pool to 100.", "Set the pool to 100 today.", 0.85) == "related"


def test_far_lessons_are_unrelated() -> None:
    assert relation("Bake bread slowly.", "Set the pool to 100.", 0.6) == "unrelated"
    assert relation("Bake bread with rye.", "Set the pool to 100.", 0.75) == "unrelated"


def test_same_key_is_duplicate_at_any_distance() -> None:
    assert relation("Set  the pool to 100", "set the pool to 100.", 0.1) == "duplicate"


def test_trigger_naming_something_else_is_no_duplicate() -> None:
    old, new = "Page with startAt; sort by id.", "Page with startAt."
    known = lesson(old, trigger="Jira API v2")
    assert compare(lesson(new, trigger="Jira API v3"), known, 0.97, 0.9).relation == "related"
    assert compare(lesson(new, trigger="paging"), known, 0.97, 0.9).relation == "duplicate"


def test_differences_are_shown_with_sign() -> None:
    found = compare(lesson("Do not cut at 10."), lesson("Cut at 20."), 0.95, 0.9)
    assert "not 10" in found.new_only and "20" in found.old_only


def test_nearest_prefers_duplicate_over_nearer_related() -> None:
    rows = [curated(lesson("Cut rows at 20.")), curated(lesson("Cut rows at 10 and sort."))]
    vectors = np.array([[0.99, 0.141], [0.95, 0.312]], dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    known = {row.key: row for row in rows}
    vector = np.array([1.0, 0.0], np.float32)
    found = nearest(lesson("Cut rows at 10."), vector, known, (list(known), vectors))
    assert found is not None and found.relation == "duplicate"
    assert found.curated.lesson.text == "Cut rows at 10 and sort."


def test_nearest_of_nothing_is_none() -> None:
    empty = np.empty((0, 2), dtype=np.float32)
    assert nearest(lesson(), np.array([1.0, 0.0], np.float32), {}, ([], empty)) is None


@given(WORDS, st.integers(0, 8), st.sampled_from(["not", "never", "without", "instead of"]))
def test_added_negation_is_never_duplicate(words: list[str], at: int, negation: str) -> None:
    place = min(at, len(words) - 1)
    plain = " ".join(words)
    negated = " ".join([*words[:place], negation, *words[place:]])
    assert relation(plain, negated, 0.999) != "duplicate"
    assert relation(negated, plain, 0.999) != "duplicate"


@given(WORDS)
def test_part_of_itself_is_duplicate(words: list[str]) -> None:
    whole = " ".join(words)
    assert relation(whole, f"{whole}; sort rows") == "duplicate"


@pytest.mark.parametrize(
    ("one", "other"),
    [("queries", "query"), ("deploys", "deploy"), ("adds", "adding"), ("planned", "plan")],
)
def test_inflections_share_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_identifiers_keep_their_letters() -> None:
    hard = {word.form for word in words_of("Read value.int_value and createdAt from o3-mini.")}
    assert {"value.int_value", "createdAt", "o3-mini"} <= hard
