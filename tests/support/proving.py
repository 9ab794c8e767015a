"""Test tools for proofs: a small question set, a model that follows lessons, lesson sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lessons_loop.eval.proving.asking import Asking
from lessons_loop.eval.proving.prover import asking_of
from lessons_loop.eval.runs.setup import AgentSettings, JudgeSettings
from lessons_loop.filter.embed import Purpose, fingerprint
from lessons_loop.filter.models import Curated
from lessons_loop.promote.proof.proving import LessonSet, ProofCase
from support.gate import HashEmbedder, curated, lesson
from support.llm_server import LlmServer, Received, completion, send

THINGS = {
    "pumps": "litres lifted by pumps",
    "trucks": "loads hauled on trucks",
    "valves": "leaks from valves",
    "motors": "torque of motors",
}
"""What is asked about, in words the things do not share."""
SITES = ("north", "south", "east", "west", "harbour", "hill")
GOOD = "Read {} in fact_{}."
BAD = "Look {} up in ledger_old."
SECRET_QUESTION = "on the blue list"
"""Stands in every question: nothing but an agent may ever see it."""
EMBEDDER = HashEmbedder(256)


def question_files(folder: Path, things: Iterable[str] = THINGS) -> Path:
    """Write a question set: six questions on each thing, two controls."""
    rows = [
        {
            "id": f"{thing}-{site}",
            "topic": f"{thing}-{site[:1]}",
            "question": f"{THINGS[thing]} {site} {SECRET_QUESTION}?",
            "checks": [{"contains": "number 12"}],
        }
        for thing in things
        for site in SITES
    ]
    controls = [
        {
            "id": f"control-{n}",
            "topic": f"control-{n}",
            "question": f"What is {n} plus {n} {SECRET_QUESTION}?",
            "control": True,
            "checks": [{"contains": "number 12"}],
        }
        for n in range(2)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all.yaml").write_text(yaml.safe_dump([*rows, *controls]))
    return folder


def good(thing: str) -> Curated:
    """Return a lesson without which the model does not know the thing."""
    text = GOOD.format(THINGS[thing], thing)
    return curated(lesson(text, trigger=THINGS[thing], tags=()))


def bad(thing: str) -> Curated:
    """Return a lesson that ruins every answer on the thing."""
    return curated(lesson(BAD.format(THINGS[thing]), trigger=THINGS[thing], tags=()))


def lesson_set(*lessons: Curated) -> LessonSet:
    """Return a set with vectors."""
    texts = [one.lesson.embedded_text for one in lessons]
    vectors = EMBEDDER.embed(texts, Purpose.DOCUMENT) if texts else np.zeros((0, 256), np.float32)
    return LessonSet("sql", lessons, vectors, fingerprint(EMBEDDER))


@contextmanager
def following(
    error_rate: float = 0.0, unknown: Sequence[str] = (), name: str = "some-model"
) -> Iterator[LlmServer]:
    """Serve a model that obeys the lessons it is shown, and else errs as often as told.

    What is `unknown` it only knows from a good lesson; `name` is what it calls itself.
    """

    def step(handler: Any, received: Received) -> None:
        body = received.body
        told = completion(reply(body, error_rate, unknown)) | {"model": name}
        send(handler, json.dumps(told).encode())

    with LlmServer([step]) as server:
        yield server


def reply(body: Any, error_rate: float, unknown: Sequence[str]) -> str:
    """Return what the model says to one request."""
    system = " ".join(m["content"] for m in body["messages"] if m["role"] == "system")
    asked = body["messages"][-1]["content"]
    for thing in THINGS:
        if thing in asked and BAD.format(THINGS[thing]) in system:
            return "The number 99."
        if thing in asked and thing in unknown and GOOD.format(THINGS[thing], thing) not in system:
            return "I do not know."
    drawn = hashlib.sha256(f"{body.get('seed')}|{asked}".encode()).digest()
    wrong = int.from_bytes(drawn[:4], "big") / 2**32 < error_rate
    return "I am not sure." if wrong else "The number 12."


def asking(server: LlmServer, folder: Path, **more: Any) -> Asking:
    """Return whom a proof asks."""
    settings = AgentSettings(server.url, "some-model", seconds=20)
    return asking_of(settings, JudgeSettings(), str(folder), **more)


def case(before: LessonSet, after: LessonSet, state: Path, keep: bool = True) -> ProofCase:
    """Return a batch to prove."""
    known = {row.key for row in before.lessons}
    new = tuple(row.key for row in after.lessons if row.key not in known)
    return ProofCase(before, after, new, EMBEDDER, state, keep)
