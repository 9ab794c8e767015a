"""Score what the gate makes of labelled candidates: stopped, held, let through.

Each candidate is judged alone, among its own curated neighbours, through the gate's rules
and, where a model is given, its judgement on related lessons and its review. One sighting
counts as enough (`min_users` 1), and a curated neighbour, given as text only, has that text
as its trigger.
The evidence of these files is prose about an exchange, not a transcript: the rules that look
quotes and roles up in transcript lines are left out, and a reviewing model reads the prose as
the excerpt. So without a model nothing here can tell that evidence is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessons_loop.eval.rows import share
from lessons_loop.filter.embed import Embedder, Purpose, Vectors, fingerprint
from lessons_loop.filter.errors import InvalidLesson, UnreadableReply
from lessons_loop.filter.models import (
    EXCERPT_LIMIT,
    QUOTE_LIMIT,
    TRIGGER_LIMIT,
    Candidate,
    Curated,
    Evidence,
    EvidenceKind,
    Lesson,
    Status,
)
from lessons_loop.filter.text import shorten
from lessons_loop.promote.cases import Case, Casebook
from lessons_loop.promote.gate import Rules
from lessons_loop.promote.ledger.past import Precedent
from lessons_loop.promote.records import Archived, Decision, Neighbour
from lessons_loop.promote.runs.drive import Reviewer
from lessons_loop.promote.similar.groups import Group
from lessons_loop.promote.similar.judge import PairJudge
from lessons_loop.promote.similar.similarity import RELATED, level_of, nearest

EVALUATION_RULES = Rules(min_users=1, check_evidence=False)
_WHEN = "2026-01-01T00:00:00Z"
GOOD = "promote"
"""The label of what should be let through."""
STOPPED, HELD, LET_THROUGH, NOT_REVIEWED = "stopped", "held", "let_through", "not_reviewed"
_ENDINGS = {
    Decision.PROMOTE: LET_THROUGH,
    Decision.HOLD: HELD,
    Decision.REJECT: STOPPED,
    Decision.DUPLICATE: STOPPED,
}


@dataclass(frozen=True)
class LabelledCandidate:
    """A candidate, the curated lessons near it, and what should become of it."""

    id: str
    fields: dict[str, Any]
    evidence: str
    """Prose."""
    curated: tuple[str, ...]
    label: str
    """promote or reject."""
    reason: str


@dataclass(frozen=True)
class Judged:
    """What became of one candidate."""

    candidate: LabelledCandidate
    ending: str
    """stopped, held, let_through or not_reviewed."""
    rule: str
    why: str


def parse_candidate(row: Any) -> LabelledCandidate:
    """Read one record of a candidate file; raise KeyError, TypeError or ValueError."""
    label, fields = row["label"], dict(row["candidate"])
    if label not in (GOOD, "reject"):
        raise ValueError("label is neither promote nor reject")
    return LabelledCandidate(
        id=str(row["id"]),
        fields=fields | {"tags": tuple(fields.get("tags", ()))},
        evidence=str(row["evidence"]),
        curated=tuple(map(str, row["curated"])),
        label=label,
        reason=str(row["reason"]),
    )


class Judging:
    """Judges candidates, each among its own neighbours, as a run of the gate would."""

    def __init__(
        self,
        embedder: Embedder,
        reviewer: Reviewer | None = None,
        judge: PairJudge | None = None,
    ) -> None:
        self.embedder = embedder
        self.reviewer = reviewer
        self.judge = judge
        self._level = level_of(fingerprint(embedder))

    def judged(self, found: LabelledCandidate) -> Judged:
        """Judge one; raise EmbedError, and ModelError when the reviewer cannot be asked."""
        try:
            lesson = Lesson.build(domain="eval", **found.fields)
        except InvalidLesson as error:
            return Judged(found, STOPPED, "shape", str(error))
        book = _LooseCasebook(found.curated, self.embedder, self._level)
        case = book.case(Group(lesson, (_sighting(lesson, found.evidence),)))
        if self.judge is not None and case.verdict.rule == RELATED:
            case = book.judged(case, self.judge)
        return self._reviewed(found, case, book)

    def _reviewed(self, found: LabelledCandidate, case: Case, book: Casebook) -> Judged:
        verdict = case.verdict
        if verdict.decision is not Decision.PROMOTE or self.reviewer is None:
            return Judged(found, _ENDINGS[verdict.decision], verdict.rule, verdict.reason)
        try:
            review = self.reviewer.review(case, lambda lesson: book.recase(case, lesson))
        except UnreadableReply as error:
            return Judged(found, NOT_REVIEWED, "unreadable", str(error))
        return Judged(found, _ENDINGS[review.decision], "review", review.reason)


class _LooseCasebook(Casebook):
    """A casebook without a store: a few curated lessons given as texts, no history."""

    def __init__(self, texts: Sequence[str], embedder: Embedder, level: float) -> None:
        self.rules = EVALUATION_RULES
        self._embedder = embedder
        self._given_level = level
        rows = [_curated(text) for text in texts]
        self._curated = {row.key: row for row in rows}

    @property
    def compares(self) -> bool:
        return True

    def vector(self, lesson: Lesson) -> Vectors:
        row: Vectors = self._rows([lesson.embedded_text])[0]
        return row

    def texts(self, lessons: Sequence[Lesson]) -> Vectors:
        return self._rows([lesson.text for lesson in lessons])

    def neighbour(self, lesson: Lesson, aside: Collection[str] = ()) -> Neighbour | None:
        if not self._curated:
            return None
        rows = self._rows([row.lesson.embedded_text for row in self._curated.values()])
        return nearest(
            lesson,
            self.vector(lesson),
            self._curated,
            (list(self._curated), rows),
            self.rules.dup_threshold,
            self.texts,
            self._given_level,
            aside,
        )

    def earlier(self, lesson: Lesson) -> tuple[Archived, ...]:
        return ()

    def before(self, group: Group, earlier: Sequence[Archived]) -> Precedent | None:
        return None

    def decisions(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        return []

    def _rows(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(self._embedder.embed(texts, Purpose.DOCUMENT))


def _sighting(lesson: Lesson, prose: str) -> Candidate:
    excerpt = f"[1] summary of the exchange: {prose}"[:EXCERPT_LIMIT]
    evidence = Evidence(
        kind=EvidenceKind.TOOL_SUCCESS, quote=excerpt[:QUOTE_LIMIT], excerpt=excerpt
    )
    return Candidate(
        lesson=lesson,
        evidence=evidence,
        message_ref="eval",
        chat_ref="eval",
        user_ref="eval",
        at=_WHEN,
    )


def _curated(text: str) -> Curated:
    lesson = Lesson.build(
        domain="eval",
        text=text,
        kind="resolution-pattern",
        trigger=shorten(text, TRIGGER_LIMIT),
        status=Status.CURATED,
    )
    return Curated(lesson=lesson, since=_WHEN)


def score_gate(done: Sequence[Judged]) -> dict[str, Any]:
    """Return the figures.

    Counts: `stopped` (rejected, or dropped as a repetition) by the label's reason, `let_through`,
    `held` and `not_reviewed` (of all) and every `n_…`; with these each candidate is counted once.
    Shares (None of nothing): `stopped_or_held_share` by reason, `good_passed`,
    `good_without_neighbour_passed`, `bad_let_through`.
    `by_reason` is the confusion in counts.
    """
    good = [one for one in done if one.candidate.label == GOOD]
    alone = [one for one in good if not one.candidate.curated]
    bad = [one for one in done if one.candidate.label != GOOD]
    table = _by_reason(done)
    return {
        "n_candidates": len(done),
        "stopped": {reason: row[STOPPED] for reason, row in table.items()},
        "let_through": _ended(done, LET_THROUGH),
        "held": _ended(done, HELD),
        "not_reviewed": _ended(done, NOT_REVIEWED),
        "stopped_or_held_share": {
            reason: share(row[STOPPED] + row[HELD], row["n"]) for reason, row in table.items()
        },
        "n_good": len(good),
        "good_passed": share(_ended(good, LET_THROUGH), len(good)),
        "n_good_without_neighbour": len(alone),
        "good_without_neighbour_passed": share(_ended(alone, LET_THROUGH), len(alone)),
        "n_bad": len(bad),
        "bad_let_through": share(_ended(bad, LET_THROUGH), len(bad)),
        "by_reason": table,
        "by_rule": dict(Counter(one.rule for one in done if one.ending != LET_THROUGH)),
        "mistakes": [_mistake(one) for one in done if _is_mistake(one)],
    }


def _by_reason(done: Sequence[Judged]) -> dict[str, dict[str, int]]:
    empty = {"n": 0, STOPPED: 0, HELD: 0, LET_THROUGH: 0, NOT_REVIEWED: 0}
    table: dict[str, dict[str, int]] = {}
    for one in done:
        row = table.setdefault(one.candidate.reason, dict(empty))
        row["n"] += 1
        row[one.ending] += 1
    return dict(sorted(table.items()))


def _ended(done: Sequence[Judged], ending: str) -> int:
    return sum(one.ending == ending for one in done)


def _is_mistake(one: Judged) -> bool:
    return (one.candidate.label == GOOD) != (one.ending == LET_THROUGH)


def _mistake(one: Judged) -> dict[str, str]:
    return {
        "id": one.candidate.id,
        "reason": one.candidate.reason,
        "ending": one.ending,
        "rule": one.rule,
    }
