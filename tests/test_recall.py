"""Which lessons are chosen: the right one of look-alikes, nothing for small talk, within budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.question import Question, views
from lessons_loop.filter.recall import score, select
from lessons_loop.filter.recall_index import build_index, centre, cosines, tokens, twins
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.shelf import CERTS, SERIALS, put_published, shelf, shelved

EMBEDDER = HashEmbedder(256)


@pytest.fixture
def paths(tmp_path):
    return StorePaths(tmp_path)


def chosen(index, text, *, vectors=True, top_k=5, token_budget=512, shown=(), floor=None):
    rows = EMBEDDER.embed([text], Purpose.QUERY) if vectors else None
    default = index.floor if vectors else index.lexical_floor
    found = select(
        index,
        score(index, [text], rows),
        floor=default if floor is None else floor,
        top_k=top_k,
        token_budget=token_budget,
        shown=shown,
    )
    return [lesson.lesson.text for lesson in found]


@pytest.mark.parametrize("vectors", [True, False])
def test_fitting_lesson_is_found(paths, vectors):
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    question = "operating hours of the machine with serial SN-4711?"
    assert chosen(index, question, vectors=vectors)[0] == SERIALS


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("text", ["hello!", "thanks a lot", "tell me a story about a dragon"])
def test_small_talk_gets_nothing(paths, text, vectors):  # T-04
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    assert chosen(index, text, vectors=vectors) == []


def test_single_lesson_is_found_by_words_alone(paths):
    only = shelved("Look a machine up by serial_key.", "operating hours of a machine by serial")
    index = build_index([put_published(paths, [only], EMBEDDER)])
    asked = "How many operating hours did machine SN-000815 run over the trailing 12 months?"
    assert chosen(index, asked, vectors=False) == [only.lesson.text]
    assert chosen(index, "how was your weekend by the sea?", vectors=False) == []


def test_empty_set_gives_nothing(paths):  # T-04
    index = build_index([put_published(paths, (), EMBEDDER)])
    assert (index.keys, index.dimension) == ((), 0)
    assert build_index([]).keys == ()


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("exit code 137 in my pod", "Raise the memory limit when a pod exits with code 137."),
        ("exit code 143 in my pod", "Handle SIGTERM in time when a pod exits with code 143."),
    ],
)
def test_number_decides_between_look_alikes(paths, asked, text):
    twins = [
        shelved("Raise the memory limit when a pod exits with code 137.", "pod exit code 137"),
        shelved("Handle SIGTERM in time when a pod exits with code 143.", "pod exit code 143"),
    ]
    index = build_index([put_published(paths, [*shelf(), *twins], EMBEDDER)])
    best = int(np.argmax(score(index, [asked], EMBEDDER.embed([asked], Purpose.QUERY))))
    assert index.lesson(best).lesson.text == text


def test_best_view_counts(paths):
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    texts = ["nothing of interest here", "expiring ingress certificate"]
    rows = EMBEDDER.embed(texts, Purpose.QUERY)
    best = int(np.argmax(score(index, texts, rows)))
    assert index.lesson(best).lesson.text == CERTS


def test_order_does_not_follow_tiny_score_differences(paths):  # T-03
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    scores = np.array([0.5, 0.5001, 0.5002], np.float32)
    limits = {"floor": 0.3, "top_k": 5, "token_budget": 512}
    once = select(index, scores, **limits)
    again = select(index, scores[::-1].copy(), **limits)
    assert once == again and len(once) == 3


def test_shown_lessons_keep_their_place(paths):  # T-03
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    keys = sorted(index.keys)
    last = index.places[keys[-1]]
    scores = np.full(3, 0.5, np.float32)
    scores[last] = 0.2
    found = select(index, scores, floor=0.3, top_k=5, token_budget=512, shown=(keys[-1],))
    assert [lesson.key for lesson in found] == [keys[-1], *keys[:-1]]
    scores[last] = 0.1
    found = select(index, scores, floor=0.3, top_k=5, token_budget=512, shown=(keys[-1],))
    assert [lesson.key for lesson in found] == keys[:-1]


def test_new_lesson_is_not_crowded_out_by_shown_ones(paths):
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    shown = index.keys[:2]
    scores = np.array([0.2, 0.2, 0.9], np.float32)
    found = select(index, scores, floor=0.3, top_k=2, token_budget=512, shown=shown)
    assert index.keys[2] in [lesson.key for lesson in found] and len(found) == 2


def test_contradicting_twins_are_never_shown_together(paths):
    pair = [
        shelved("Friday deploys to production are allowed.", "deploys"),
        shelved("Friday deploys to production are not allowed.", "deploys"),
    ]
    index = build_index([put_published(paths, pair, EMBEDDER)])
    assert len(chosen(index, "Friday deploys to production", floor=0.0)) == 1


def test_look_alikes_for_two_triggers_stand_side_by_side(paths):
    words = "orders of the shop from the table that the storage option of the last update fills"
    pair = [
        shelved(f"Read the new {words}.", "order storage option enabled"),
        shelved(f"Read the old {words}.", "order storage option disabled"),
    ]
    index = build_index([put_published(paths, pair, EMBEDDER)])
    assert twins(index, 0, 1)
    assert len(chosen(index, "orders of the shop", floor=0.0)) == 2


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(3, 60), min_size=1, max_size=6),
    budget=st.integers(0, 400),
    top_k=st.integers(0, 6),
)
def test_budget_holds_and_lessons_stay_whole(tmp_path_factory, lengths, budget, top_k):  # T-08
    paths = StorePaths(tmp_path_factory.mktemp("s"))
    texts = [f"Use rule {i} " + f"w{i} " * length for i, length in enumerate(lengths)]
    lessons = [shelved(text.strip(), f"case {i}") for i, text in enumerate(texts)]
    index = build_index([put_published(paths, lessons, EMBEDDER)])
    found = select(
        index, np.ones(len(lessons), np.float32), floor=0.5, top_k=top_k, token_budget=budget
    )
    assert len(found) <= top_k
    assert sum(tokens(c.lesson.searched_text) for c in found) <= budget
    assert {c.lesson.text for c in found} <= {c.lesson.text for c in lessons}


def test_oversized_lesson_is_passed_over(paths):  # T-08
    long = shelved("Use " + "verylongword " * 30, "case " * 30)
    index = build_index([put_published(paths, [long, *shelf()], EMBEDDER)])
    found = select(index, np.ones(4, np.float32), floor=0.5, top_k=5, token_budget=130)
    assert long.key not in [c.key for c in found] and len(found) == 3


def test_files_of_two_models_are_recalled_by_words(paths):  # T-07
    other = [shelved("Prune old volumes.", "full disk", domain="ops")]
    sets = [
        put_published(paths, shelf(), EMBEDDER),
        put_published(paths, other, HashEmbedder(256, salt="other")),
    ]
    index = build_index(sets)
    assert (index.dimension, len(index.keys)) == (0, 4)
    assert chosen(index, "disk is full of old volumes", vectors=False) == ["Prune old volumes."]


def test_unrelated_texts_that_score_high_are_centred(paths):
    class Crowded(HashEmbedder):
        def _row(self, text):
            return [value + 2.0 for value in super()._row(text)]

    crowded = Crowded(256)
    found = put_published(paths, shelf(), crowded)
    assert found.header.mean
    index = build_index([found])
    for text, wanted in (("how are you?", []), ("expiring certificate of the ingress", [CERTS])):
        scores = score(index, [text], crowded.embed([text], Purpose.QUERY))
        got = select(index, scores, floor=index.floor, top_k=1, token_budget=512)
        assert [c.lesson.text for c in got] == wanted


@pytest.mark.parametrize(
    ("text", "cost"), [("", 0), ("abcd" * 10, 10), ("привет", 3), ("请用新表", 4), ("größe", 2)]
)
def test_scripts_cost_what_tokenizers_make_of_them(text, cost):
    assert tokens(text) == cost


PAIR = [
    shelved("Read Cloud issues from the jql address of Jira.", "searching issues on Jira Cloud"),
    shelved("Read server issues from the old address of Jira.", "searching issues on Jira Server"),
]


def follow_up_scores(index, last, *earlier, vectors=True):
    asked = views(Question(last, tuple(earlier), tuple(earlier[::2])))
    rows = EMBEDDER.embed(asked.texts, Purpose.QUERY) if vectors else None
    return score(index, asked.texts, rows, asked.follow_up)


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize(("last", "place"), [("and on Cloud?", 0), ("and on Server?", 1)])
def test_last_turn_decides_between_look_alikes(paths, last, place, vectors):
    index = build_index([put_published(paths, [*PAIR, *shelf()], EMBEDDER)])
    other = "Cloud" if place else "Server"
    earlier = f"searching issues on Jira {other}, all of May", f"Read them from Jira {other}."
    scores = follow_up_scores(index, last, *earlier, vectors=vectors)
    assert index.lesson(int(np.argmax(scores))).lesson.text == PAIR[place].lesson.text


def test_follow_up_without_a_topic_of_its_own_keeps_the_old_one(paths):
    index = build_index([put_published(paths, [*PAIR, *shelf()], EMBEDDER)])
    scores = follow_up_scores(index, "and for last month?", "searching issues on Jira Cloud", "12.")
    assert index.lesson(int(np.argmax(scores))).lesson.text == PAIR[0].lesson.text
    assert scores.max() >= index.floor


@pytest.mark.parametrize(
    "last",
    [
        "Recommend three board games for rainy afternoons",
        "thanks! something else: which board games suit teenagers?",
    ],
)
def test_changed_topic_leaves_the_old_lessons_behind(paths, last):
    index = build_index([put_published(paths, [*PAIR, *shelf()], EMBEDDER)])
    scores = follow_up_scores(index, last, "searching issues on Jira Cloud", "12.")
    assert scores.max() < index.floor


def test_mean_is_left_out_without_a_copy(paths):
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    rows = EMBEDDER.embed(["expiring certificate of the ingress", "hello"], Purpose.QUERY)
    plain = centre(index.vectors, index.mean) @ centre(rows, index.mean).T
    assert np.allclose(np.array(cosines(index, rows)).T, plain, atol=1e-5)


def test_lessons_far_behind_the_best_stay_out(paths):
    index = build_index([put_published(paths, shelf(), EMBEDDER)])
    scores = np.array([0.9, 0.6, 0.5], np.float32)
    found = select(index, scores, floor=0.3, top_k=5, token_budget=512)
    assert {one.key for one in found} == {index.keys[0], index.keys[1]}
