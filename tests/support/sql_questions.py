"""The shipped questions of `sql` put to the practice model in this process, seeds as lessons."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from lessons_loop.deploy.demo.practice_model import completion, reply_to, usage_of
from lessons_loop.deploy.demo.practice_options import PracticeOptions
from lessons_loop.eval.agent.http import HarnessAgent
from lessons_loop.eval.agent.tools import load_tools
from lessons_loop.eval.grading.checks import grade_by_checks
from lessons_loop.eval.judgements.packaged import evaluation_embedder
from lessons_loop.eval.question_set import EvalQuestion, questions_folder, read_question_set
from lessons_loop.eval.shelf import Shelf
from lessons_loop.eval.trials import Arm, Grade, trial_seed
from lessons_loop.filter.embed import Purpose, fingerprint
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.promote.proof.proving import LessonSet
from lessons_loop.seeds.load import read_seeds, shipped_domains

REFERENCES = Path(__file__).parent.parent / "fixtures/eval_questions/references.yaml"
SINCE = "2026-11-01T00:00:00Z"


class InProcessWire:
    """The practice model without a server between."""

    name = "this process"
    notes: tuple[str, ...] = ()

    def __init__(self, options: PracticeOptions) -> None:
        self.options = options

    def post(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer one request."""
        _, step = reply_to(body, self.options)
        return completion(step, usage_of(body, step))


def shipped_questions() -> tuple[EvalQuestion, ...]:
    """Return the shipped questions."""
    return read_question_set(questions_folder("sql")).questions


def seed_lessons() -> dict[str, Lesson]:
    """Return the shipped seeds of `sql` by id."""
    return {seed.id: seed.lesson for seed in read_seeds(shipped_domains()["sql"], "sql").seeds}


def seed_shelf() -> Shelf:
    """Return the seeds as recall has them, with the packaged embedding model."""
    embedder = evaluation_embedder("")
    lessons = tuple(Curated(lesson=one, since=SINCE) for one in seed_lessons().values())
    texts = [one.lesson.embedded_text for one in lessons]
    vectors = embedder.embed(texts, Purpose.DOCUMENT)
    return Shelf(LessonSet("sql", lessons, vectors, fingerprint(embedder), 1), embedder)


def practice_agent(options: PracticeOptions, shelf: Shelf, database: Path) -> HarnessAgent:
    """Return an agent: practice model, demo tool on `database`, lessons of the shelf."""
    tool = Path(str(files("lessons_loop.deploy.demo").joinpath("sql_tool.py")))
    tools = load_tools(tool, {"database": str(database)})
    return HarnessAgent(InProcessWire(options), "practice-model", shelf, tools)


def passed(
    agent: HarnessAgent, questions: Iterable[EvalQuestion], arm: Arm, runs: int = 1
) -> dict[str, int]:
    """Return how often each question passed."""
    return {
        question.id: sum(_passes(agent, question, arm, run) for run in range(1, runs + 1))
        for question in questions
    }


def _passes(agent: HarnessAgent, question: EvalQuestion, arm: Arm, run: int) -> bool:
    answer = agent.answer(question, arm, trial_seed(7, question.id, arm, run))
    graded = grade_by_checks(question, answer)
    assert graded is not None, f"{question.id} needs a judge"
    return graded[0] is Grade.PASS


def reference_rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what each question's reference query gives, by the question's id."""
    queries: Mapping[str, str] = yaml.safe_load(REFERENCES.read_text("utf-8"))
    with closing(sqlite3.connect(database)) as connection:
        return {name: connection.execute(sql).fetchall() for name, sql in queries.items()}


def texts_of(question: EvalQuestion) -> Sequence[str]:
    """Return what the user says in a question."""
    return [str(one["content"]) for one in question.messages if one["role"] == "user"]
