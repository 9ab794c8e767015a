"""Everyday chats of several turns get no lessons, also after work, with the real MiniLM."""

from __future__ import annotations

import pytest

from lessons_loop.eval.judgements.everyday_chats import everyday_chats_injected, held, turns_of
from lessons_loop.eval.judgements.packaged import evaluation_embedder
from lessons_loop.eval.judgements.retrieval import bench_of
from lessons_loop.filter.models import Curated
from lessons_loop.promote.embedding.everyday import everyday_chats
from lessons_loop.seeds.load import read_seeds, shipped_domains

SINCE = "2026-11-01T00:00:00Z"


@pytest.fixture(scope="module")
def embedder():
    return evaluation_embedder("")


@pytest.fixture(scope="module")
def bench(embedder):
    seeds = read_seeds(shipped_domains()["sql"], "sql").seeds
    return bench_of({seed.id: Curated(lesson=seed.lesson, since=SINCE) for seed in seeds}, embedder)


def test_everyday_turns_get_no_lessons(bench, embedder):
    assert everyday_chats_injected(bench, embedder) <= 0.05


def test_work_before_everyday_turns_gets_its_lesson(bench, embedder):
    chat = next(chat for chat in everyday_chats("test") if chat.after_work)
    found = list(held(bench, embedder, turns_of(bench, chat, 0)))
    assert [turn.everyday for turn, _ in found] == [False] + [True] * len(chat.turns)
    assert found[0][1] and not found[-1][1]


def test_chats_are_two_separate_sets_in_many_languages():
    ours, others = everyday_chats(), everyday_chats("test")
    asked = [turn.ask for chat in (*ours, *others) for turn in chat.turns]
    assert len(others) >= 12 and len(set(asked)) == len(asked)
    assert all(4 <= len(chat.turns) <= 10 for chat in (*ours, *others))
    assert sum(chat.after_work for chat in others) >= 4
    assert len([text for text in asked if not text.isascii()]) >= 20
