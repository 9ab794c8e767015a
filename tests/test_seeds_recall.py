"""The shipped lessons are recalled for the questions they answer, with the real MiniLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.inject import block
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import read_published
from lessons_loop.filter.recall import score, select
from lessons_loop.filter.recall_index import RecallIndex, build_index
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.embedding.minilm import MiniLM
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.seeds.load import load_domain, read_seeds, shipped_domains
from lessons_loop.seeds.questions import read_seed_questions
from support.demo import called, converse, load_tool, practice_server

Recall = Callable[[str], tuple[Curated, ...]]
SEEDS = [seed for folder in shipped_domains().values() for seed in read_seeds(folder).seeds]
QUESTIONS = read_seed_questions(
    Path(__file__).parent / "fixtures" / "seeds" / "questions.yaml", {seed.id for seed in SEEDS}
)


class Seeded(NamedTuple):
    """The shipped seeds as the filter holds them once the gate has published them."""

    index: RecallIndex
    embedder: MiniLM

    def scores(self, question: str) -> Any:
        return score(self.index, [question], self.embedder.embed([question], Purpose.QUERY))

    def recall(self, question: str) -> tuple[Curated, ...]:
        scores = self.scores(question)
        return select(self.index, scores, floor=self.index.floor, top_k=5, token_budget=512)

    def ranked(self, question: str) -> list[str]:
        order = np.argsort(-self.scores(question), kind="stable")
        return [self.index.lesson(int(place)).seed_id for place in order[:5]]


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    store = tmp_path_factory.mktemp("seeded")
    embedder = MiniLM()
    for domain, folder in shipped_domains().items():
        with open_gate(GateSettings(str(store), domain, embedder=embedder)) as session:
            load_domain(session, folder)
    published = [read_published(StorePaths(store).published(name)) for name in shipped_domains()]
    return Seeded(build_index([found for found in published if found]), embedder)


@pytest.fixture(scope="module")
def recall(seeded: Seeded) -> Recall:
    return seeded.recall


@pytest.fixture(scope="module")
def chat(database: Path) -> Iterator[tuple[str, Any]]:
    with practice_server() as url:
        yield url, load_tool(database)


@pytest.mark.parametrize(
    "question",
    [
        "How many operating hours did machine SN-004711 run in the trailing 12 months?",
        "Which work orders are open on SN-004711?",
        "When was SN-000815 last serviced?",
        "Which model is SN-002024?",
        "How many work orders were about a hydraulic leak?",
    ],
)
def test_seeded_store_spares_the_refusal(
    recall: Recall, chat: tuple[str, Any], question: str
) -> None:
    url, tool = chat
    system = {"role": "system", "content": block(recall(question))}
    messages = converse(url, tool, [system, {"role": "user", "content": question}])
    assert called(messages) == ["run_sql"]


@pytest.mark.parametrize(
    ("question", "seed_id"),
    [
        ("run_sql says: no LIMIT: a query on work_order must end with one", "error-no-limit"),
        ("error: no such function: NOW", "error-other-dialect"),
        ("error: no lower bound on the day", "error-no-day-bound"),
        ("my filter's inlet raised and now every chat fails", "hooks-fail-open"),
        (
            "after updating one valve over the API the others are back to default",
            "valves-update-replaces",
        ),
    ],
)
def test_errors_recall_their_cure(recall: Recall, question: str, seed_id: str) -> None:
    assert seed_id in [curated.seed_id for curated in recall(question)]


@pytest.mark.parametrize("chatter", ["Hello, how are you?", "Write a poem about autumn", "thanks!"])
def test_small_talk_recalls_nothing(recall: Recall, chatter: str) -> None:
    assert recall(chatter) == ()


def test_questions_are_many_and_mixed() -> None:
    answerable = [question for question in QUESTIONS if question.relevant]
    asked = {ident for question in answerable for ident in question.relevant}
    assert len(answerable) >= 40 and len(QUESTIONS) > len(answerable)
    assert {seed.lesson.domain for seed in SEEDS if seed.id in asked} == set(shipped_domains())
    assert {question.style for question in QUESTIONS} >= {"plain", "noword", "error", "typo"}


def test_recall_at_5_of_the_shipped_seeds(seeded: Seeded) -> None:
    asked = [question for question in QUESTIONS if question.relevant]
    missed = [
        question.id
        for question in asked
        if not set(question.relevant) & set(seeded.ranked(question.question))
    ]
    assert len(missed) <= 0.05 * len(asked), missed


def test_answerable_questions_are_served(seeded: Seeded) -> None:
    asked = [question for question in QUESTIONS if question.relevant]
    unserved = [
        question.id
        for question in asked
        if not set(question.relevant) & {row.seed_id for row in seeded.recall(question.question)}
    ]
    assert len(unserved) <= 0.1 * len(asked), unserved


def test_what_no_seed_answers_gets_none(seeded: Seeded) -> None:
    asked = [question for question in QUESTIONS if not question.relevant]
    assert [question.id for question in asked if seeded.recall(question.question)] == []


def test_each_seed_is_first_for_its_own_trigger(seeded: Seeded) -> None:
    first = {seed.id: seeded.ranked(seed.lesson.trigger)[0] for seed in SEEDS}
    assert {ident: other for ident, other in first.items() if ident != other} == {}


def test_each_seed_is_served_for_its_own_trigger(seeded: Seeded) -> None:
    unserved = [
        seed.id
        for seed in SEEDS
        if seed.id not in [row.seed_id for row in seeded.recall(seed.lesson.trigger)]
    ]
    assert unserved == []
