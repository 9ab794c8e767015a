"""How well recall finds the right lesson, measured through the product's own code.

The gate's calibration and published form, then the filter's question reading, views,
scores and choice, all in memory.

Covered: order of the lessons, what would be injected at the calibrated floor and the
default budget, small talk. Not covered: whether a chat model follows a lesson; what a
chat was shown before (each question is asked in a chat of its own).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from lessons_loop.eval.rows import BadFile, read_rows, share
from lessons_loop.filter.embed import Embedder, Purpose, Vectors, fingerprint
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.filter.published import parse_published
from lessons_loop.filter.question import Question, read_question, views
from lessons_loop.filter.recall import score, select
from lessons_loop.filter.recall_index import RecallIndex, build_index
from lessons_loop.filter.valves import LessonsValves
from lessons_loop.promote.embedding.calibrate import calibrate
from lessons_loop.promote.embedding.everyday import everyday_messages
from lessons_loop.promote.store.publish import Edition, render

SINCE = "2026-01-01T00:00:00Z"
"""A lesson must say since when it is curated; recall does not look at it."""
AT_ONCE = 64
"""Texts embedded per call, so that a long paste beside short questions costs little padding."""


class AskedQuestion(BaseModel):
    """One line of the question file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    messages: tuple[dict[str, Any], ...] = Field(min_length=1)
    relevant: tuple[str, ...]
    """Ids of the lessons that help; empty: none does."""
    style: str = "plain"


class Bench(NamedTuple):
    """Lessons ready to be recalled, and their ids in the file."""

    recall: RecallIndex
    ids: Mapping[str, str]
    """Lesson key to id."""


class Outcome(NamedTuple):
    """What recall made of one question."""

    style: str
    relevant: frozenset[str]
    order: tuple[str, ...]
    """All lessons, best first."""
    injected: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Place of the first right lesson, 1 is the best; 0 where there is none."""
        return next((i for i, name in enumerate(self.order, 1) if name in self.relevant), 0)

    @property
    def served(self) -> bool:
        """Say whether a right lesson would be injected."""
        return bool(self.relevant.intersection(self.injected))


def read_lessons(path: Path) -> dict[str, Curated]:
    """Return the lessons by id; raise BadFile."""
    found: dict[str, Curated] = {}
    for name, curated in read_rows(path, _lesson_of):
        if name in found:
            raise BadFile(f"{path} holds the id {name} twice")
        found[name] = curated
    if len({curated.key for curated in found.values()}) < len(found):
        raise BadFile(f"{path} holds the same lesson under two ids")
    return found


def _lesson_of(row: Any) -> tuple[str, Curated]:
    if missing := [name for name in ("id", "text", "kind", "trigger") if name not in row]:
        raise ValueError(f"a lesson needs the field {missing[0]}")
    fields = {name: row[name] for name in ("text", "kind", "trigger")}
    lesson = Lesson(domain=row.get("domain", "eval"), tags=tuple(row.get("tags", ())), **fields)
    return str(row["id"]), Curated(lesson=lesson, since=SINCE)


def read_questions(path: Path, known: Iterable[str]) -> list[AskedQuestion]:
    """Return the questions; raise BadFile, also for one that wants an unknown lesson."""
    ids = frozenset(known)
    questions = read_rows(path, AskedQuestion.model_validate)
    for question in questions:
        if strange := sorted(set(question.relevant) - ids):
            raise BadFile(f"{path}: {question.id} wants lesson {strange[0]}, which is not given")
    return questions


def bench_of(lessons: Mapping[str, Curated], embedder: Embedder) -> Bench:
    """Publish the lessons in memory as the gate does and load them as the filter does."""
    curated = list(lessons.values())
    texts = [one.lesson.embedded_text for one in curated]
    vectors = embedder.embed(texts, Purpose.DOCUMENT)
    edition = Edition("eval", 1, curated, vectors, fingerprint(embedder))
    header, body = render(edition, calibrate(curated, vectors, embedder))
    index = build_index([parse_published(Path("lessons"), header, body)])
    return Bench(index, {one.key: name for name, one in lessons.items()})


def ask_all(bench: Bench, asked: Sequence[AskedQuestion], embedder: Embedder) -> list[Outcome]:
    """Recall for every question."""
    questions = [read_question(one.messages, None) for one in asked]
    ranked = ranked_all(bench.recall, questions, embedder)
    return [
        Outcome(one.style, frozenset(one.relevant), *_named(bench, scores))
        for one, scores in zip(asked, ranked, strict=True)
    ]


def ranked_all(
    index: RecallIndex, questions: Sequence[Question], embedder: Embedder
) -> list[Vectors]:
    """Return each question's scores, shape (n,), as the inlet computes them."""
    asked = [views(question) for question in questions]
    rows = embedded(embedder, [text for one in asked for text in one.texts])
    scores, start = [], 0
    for one in asked:
        vectors = rows[start : start + len(one.texts)]
        start += len(one.texts)
        empty = np.zeros(len(index.keys), np.float32)
        scores.append(score(index, one.texts, vectors, one.follow_up) if one.texts else empty)
    return scores


def embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return the unit rows of the texts, similar lengths embedded together."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    parts = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)]
    rows = [embedder.embed([texts[place] for place in part], Purpose.QUERY) for part in parts]
    joined: Vectors = np.concatenate(rows)[np.argsort(order)]
    return joined


def _named(bench: Bench, scores: Vectors) -> tuple[tuple[str, ...], tuple[str, ...]]:
    keys, ids = bench.recall.keys, bench.ids
    order = np.argsort(-scores, kind="stable")
    injected = tuple(ids[lesson.key] for lesson in chosen(bench, scores))
    return tuple(ids[keys[place]] for place in order), injected


def chosen(bench: Bench, scores: Vectors, shown: Sequence[str] = ()) -> tuple[Curated, ...]:
    """Return what would be injected in a chat that shows the lessons of these keys."""
    valves = LessonsValves()
    return select(
        bench.recall,
        scores,
        floor=bench.recall.floor,
        top_k=valves.top_k,
        token_budget=valves.token_budget,
        shown=shown,
    )


def everyday_injected(bench: Bench, embedder: Embedder) -> float | None:
    """Return the share of the everyday test messages that get a lesson."""
    questions = [Question(text) for text in everyday_messages("test")]
    ranked = ranked_all(bench.recall, questions, embedder)
    return share(sum(bool(_named(bench, scores)[1]) for scores in ranked), len(ranked))


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the shares; null where there is nothing to take a share of."""
    answerable = [o for o in outcomes if o.relevant]
    others = [o for o in outcomes if not o.relevant]
    injected = [(o, name) for o in outcomes for name in o.injected]
    right = sum(name in o.relevant for o, name in injected)
    return {
        "questions": len(outcomes),
        "answerable": len(answerable),
        **ranking(answerable),
        "answerable_served": share(sum(o.served for o in answerable), len(answerable)),
        "unanswerable_injected": {
            style: share(sum(bool(o.injected) for o in group), len(group))
            for style, group in by_style(others).items()
        },
        "injected_precision": share(right, len(injected)),
        "by_style": {
            style: {
                "n": len(group),
                **ranking(group),
                "served": share(sum(o.served for o in group), len(group)),
            }
            for style, group in by_style(answerable).items()
        },
    }


def ranking(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Return recall at 1 and 5 (found of what could be found) and the mean reciprocal rank."""
    return {
        "recall_at_1": mean([recall_at(1, outcome) for outcome in outcomes]),
        "recall_at_5": mean([recall_at(5, outcome) for outcome in outcomes]),
        "mrr": mean([1 / o.rank if o.rank else 0.0 for o in outcomes]),
    }


def recall_at(k: int, outcome: Outcome) -> float:
    """Return found / min(k, number relevant)."""
    found = len(outcome.relevant.intersection(outcome.order[:k]))
    return found / min(k, len(outcome.relevant))


def mean(values: Sequence[float]) -> float | None:
    """Return the mean rounded to 4 places, None of nothing."""
    return round(sum(values) / len(values), 4) if values else None


def by_style(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Group by style, sorted by its name."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.style, []).append(outcome)
    return dict(sorted(groups.items()))
