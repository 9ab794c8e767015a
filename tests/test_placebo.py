"""Placebo lessons: as long as the originals, about nothing they are about."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.eval.placebo import TOLERANCE, placebo_for, placebo_set, placebo_texts
from lessons_loop.filter.inject import block
from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.lexical import STOP_WORDS, terms
from lessons_loop.filter.models import Curated
from lessons_loop.promote.embedding.vector_table import FIRST_ROOM
from lessons_loop.promote.proof.proving import LessonSet
from lessons_loop.seeds.load import read_seeds, shipped_domains
from support.gate import curated, lesson

SHIPPED = " ".join(f"{one.text} {one.trigger}" for one in placebo_texts())
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\n"), min_size=1)
WORDS = st.lists(st.sampled_from(sorted(set(SHIPPED.split()))), min_size=1, max_size=60).map(
    " ".join
)


def lines(most):
    """Any line a lesson may hold: odd characters, or the shipped words themselves."""
    return (LINES | WORDS).map(lambda text: text[:most]).filter(str.strip)


LESSONS = st.builds(
    lambda text, trigger, kind, hits: curated(
        lesson(text, trigger=trigger, kind=kind, tags=()), hits=hits
    ),
    lines(400),
    lines(160),
    st.sampled_from(Kind),
    st.integers(0, 99),
)


def seeds():
    """Return the shipped seeds as curated lessons."""
    sets = [read_seeds(folder) for folder in shipped_domains().values()]
    return [curated(one.lesson) for found in sets for one in found.seeds]


def content_words(text):
    return {word for word in re.findall(r"\w+", text.casefold())} - STOP_WORDS


def close(new, old):
    return abs(len(new) - len(old)) <= TOLERANCE * len(old)


def test_enough_texts_are_shipped():
    texts = placebo_texts()
    assert len(texts) >= 80 and len({one.text for one in texts}) == len(texts)
    assert {one.kind for one in texts} == set(Kind)
    assert sum(one.lang == "de" for one in texts) >= 12 and len({o.topic for o in texts}) >= 15


def test_texts_are_about_no_domain_that_is_shipped():
    subject = content_words(" ".join(f"{s.lesson.trigger} {s.lesson.text}" for s in seeds()))
    named = {"query", "table", "column", "machine", "telemetry", "server", "model", "chat", "user"}
    assert len(named & subject) >= 7
    assert not content_words(SHIPPED) & (named | {"database", "tool", "file", "prompt", "lesson"})
    assert not re.search(r"\d|_|https?:", SHIPPED)


@pytest.mark.parametrize("seed", [0, 7])
def test_seeds_get_placebos_of_their_length(seed):
    for original in seeds():
        (found,) = placebo_for([original], seed)
        assert close(found.lesson.text, original.lesson.text)
        assert close(found.lesson.trigger, original.lesson.trigger)
        old = terms(original.lesson.searched_text)
        assert not terms(found.lesson.searched_text) & old


def test_a_block_of_placebos_is_as_long():
    originals = seeds()[:5]
    found = placebo_for(originals, 3)
    assert close(block(found), block(originals)) and len(found) == 5
    assert len({one.key for one in found}) == 5


@settings(deadline=None, max_examples=60)
@given(st.lists(LESSONS, max_size=6), st.integers(0, 2**31 - 1))
def test_any_lessons_get_placebos(originals, seed):
    found = placebo_for(originals, seed)
    avoided = set().union(*(terms(one.lesson.searched_text) for one in originals))
    assert len(found) == len(originals) and placebo_for(originals, seed) == found
    for new, old in zip(found, originals, strict=True):
        assert close(new.lesson.text, old.lesson.text)
        assert close(new.lesson.trigger, old.lesson.trigger)
        assert not terms(new.lesson.searched_text) & avoided
        assert (new.hits, new.since, new.lesson.domain) == (old.hits, old.since, old.lesson.domain)
        assert Curated.from_record(new.to_record()) == new


def test_lessons_that_share_a_word_with_every_text_get_words_all_the_same():
    words = [max(one.text.split(), key=len).strip(",.;") for one in placebo_texts()]
    texts = [" ".join(words[at : at + 25]) for at in range(0, len(words), 25)]
    originals = [curated(lesson(text, trigger="x")) for text in texts]
    assert all(terms(one.text) & terms(" ".join(words)) for one in placebo_texts())
    for found in placebo_for(originals, 2):
        assert content_words(found.lesson.text) <= content_words(SHIPPED)


def test_german_lessons_get_german_placebos():
    german = curated(
        lesson("Die Stunden immer nach dem Tag begrenzen und nicht ohne LIMIT fragen.")
    )
    (found,) = placebo_for([german], 1)
    own = " ".join(one.text for one in placebo_texts() if one.lang == "de")
    assert set(re.findall(r"\w+", found.lesson.text)) <= set(re.findall(r"\w+", own))


def test_another_seed_gives_other_placebos():
    original = seeds()[0]
    found = {placebo_for([original], seed)[0].lesson.text for seed in range(8)}
    assert len(found) >= 5


def made(count):
    rows = tuple(
        curated(lesson(f"Use column {n} of the big table, it is indexed; never scan them all."))
        for n in range(count)
    )
    return LessonSet("sql", rows, np.eye(count, 8, dtype=np.float32), None, 4)


def test_a_set_keeps_vectors_counters_and_tags():
    found = made(4 * FIRST_ROOM)
    other = placebo_set(found, 5)
    assert other.vectors is found.vectors and (other.rev, other.domain) == (4, "sql")
    assert len({one.key for one in other.lessons}) == len(found.lessons)
    for new, old in zip(other.lessons, found.lessons, strict=True):
        assert new.lesson.tags == old.lesson.tags and new.since == old.since
        assert not content_words(new.lesson.text) & content_words(old.lesson.text)
        assert close(new.lesson.text, old.lesson.text)


def test_what_was_proved_of_the_original_goes():
    proved = seeds()[0].model_copy(update={"proof": "{}", "seed_id": "s", "supersedes": "k"})
    (found,) = placebo_for([proved], 1)
    assert (found.proof, found.seed_id, found.supersedes) == ("", "", "")


def test_no_lessons_have_no_placebos():
    assert placebo_for([], 1) == () and placebo_set(made(0), 1).lessons == ()
