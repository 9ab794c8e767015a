"""Look up what the store knows about a group: neighbour, earlier decisions, findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Lesson, Status
from lessons_loop.promote.decay.harmful import HARMFUL, harm_among
from lessons_loop.promote.evidence.seals import Seals
from lessons_loop.promote.gate import RELATION_REASONS, Rules, Situation, examine, judge
from lessons_loop.promote.ledger.past import Precedent, Precedents, keys_of
from lessons_loop.promote.lint.findings import Finding
from lessons_loop.promote.proof.proving import PROOF
from lessons_loop.promote.records import Archived, Neighbour, Verdict
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.similar.groups import Group
from lessons_loop.promote.similar.judge import Judgement, PairJudge, relation_after
from lessons_loop.promote.similar.similarity import (
    DUPLICATE,
    RELATED,
    TEXT_ALONE,
    level_of,
    nearest,
    nearness,
    repeats,
)

MOST_JUDGED = 3
"""Neighbours a model is asked about for one lesson; a further related one holds it."""
NOT_PASSED = "did not pass on"
OUT = (Status.REJECTED, Status.STALE, Status.SUPERSEDED)


@dataclass(frozen=True)
class Case:
    """One group with everything the rules found out about it."""

    group: Group
    verdict: Verdict
    findings: tuple[Finding, ...]
    history: tuple[dict[str, Any], ...] = ()
    """Earlier decisions from the ledger, oldest first."""
    judgement: Judgement | None = None
    """What a model said about it and its neighbour."""


def ask_judge(case: Case, judge: PairJudge) -> Case:
    """Return the case with a model's judgement on it and its neighbour, where there is one."""
    near = case.verdict.neighbour
    if near is None:
        return case
    return replace(case, judgement=judge.judge(case.group.lesson, near.curated.lesson))


class Casebook:
    """Makes cases from one session's present state."""

    seals = Seals()

    def __init__(self, session: GateSession, rules: Rules, seals: Seals = seals) -> None:
        self.session = session
        self.rules = rules
        self.seals = seals
        self.precedents = Precedents(session, rules.dup_threshold)

    @property
    def compares(self) -> bool:
        """Whether there is an embedder to compare with."""
        return self.session.embedder is not None

    def vector(self, lesson: Lesson) -> Vectors:
        """Return a lesson's unit vector, shape (dimension,); raise EmbedError."""
        row: Vectors = self.session.embed([lesson.embedded_text])[0]
        return row

    def texts(self, lessons: Sequence[Lesson]) -> Vectors:
        """Return unit rows of the texts without their triggers; raise EmbedError."""
        return self.session.embed([lesson.text for lesson in lessons])

    def case(self, group: Group, near: Neighbour | None = None) -> Case:
        """Judge a group against curated and archive as they stand now; `near`: as judged."""
        earlier = self.earlier(group.lesson)
        before = self.before(group, earlier)
        unsealed = self.seals.lacking(group.candidates)
        near = near or self.neighbour(group.lesson)
        situation = Situation(near, before, self.compares, unsealed)
        verdict = judge(group, situation, self.rules)
        if verdict.neighbour is None:
            verdict = replace(verdict, neighbour=situation.neighbour)
        findings = examine(group.lesson, group.candidates, self.rules)
        keys = keys_of(group) | {row.lesson.key for row in earlier}
        return Case(group, verdict, findings, tuple(self.decisions(keys)))

    def judged(self, case: Case, judge: PairJudge) -> Case:
        """Return a related case as a model's judgements leave it.

        A neighbour that is no obstacle is set aside and the next one looked at.
        """
        aside: list[str] = []
        while case.verdict.rule == RELATED and len(aside) < MOST_JUDGED:
            asked = ask_judge(case, judge)
            near, said = asked.verdict.neighbour, asked.judgement
            if near is None or said is None:
                return case
            case = self._settled(asked, near, said)
            if case.verdict.rule in RELATION_REASONS:
                return case
            aside.append(near.curated.key)
            following = self.neighbour(case.group.lesson, aside)
            if following is not None and following.relation in RELATION_REASONS:
                case = self.case(case.group, following)
        return case

    def _settled(self, case: Case, near: Neighbour, said: Judgement) -> Case:
        relation = relation_after(said, case.group.lesson, near.curated.lesson, near.similarity)
        verdict = self.case(case.group, replace(near, relation=relation)).verdict
        if verdict.rule == RELATED:
            verdict = replace(verdict, reason=f"{verdict.reason}; {said.told()}")
        elif verdict.rule == relation:
            verdict = replace(verdict, reason=said.told(), actor=said.actor)
        return replace(case, verdict=verdict)

    def recase(self, case: Case, lesson: Lesson) -> Case:
        """Judge the same sightings again under another wording."""
        return self.case(replace(case.group, lesson=lesson))

    def neighbour(self, lesson: Lesson, aside: Collection[str] = ()) -> Neighbour | None:
        """Return the curated lesson that matters most; without an embedder, an equal one."""
        curated = self.session.curated
        if not self.compares:
            same = curated.get(lesson.key)
            return Neighbour(same, 1.0, DUPLICATE) if same else None
        matrix = self.session.nearest_vectors()
        threshold = self.rules.dup_threshold
        vector = self.vector(lesson)
        level = self._level()
        return nearest(lesson, vector, curated, matrix, threshold, self.texts, level, aside)

    def _level(self) -> float:
        return level_of(self.session.holdings.model)

    def earlier(self, lesson: Lesson) -> tuple[Archived, ...]:
        """Return rejected or retired lessons that say the same, oldest decision first."""
        archive = self.session.archive
        ids = (f"{lesson.key}-{status.value}" for status in OUT)
        found = {id_: archive[id_] for id_ in ids if id_ in archive}
        if self.compares:
            found |= {row.id: row for row in self._repeated(lesson)}
        return tuple(sorted(found.values(), key=lambda row: row.ledger_ref))

    def _repeated(self, lesson: Lesson) -> Iterable[Archived]:
        ids, vectors = self.session.archive_vectors()
        vector = self.vector(lesson)
        if not ids or vectors.shape[1] != len(vector):  # kept before the domain named its model
            return
        cosines = vectors @ vector
        least = self.rules.dup_threshold - TEXT_ALONE
        rows = [
            (self.session.archive[ids[at]], float(cosines[at]))
            for at in map(int, np.flatnonzero(cosines >= least))
        ]
        out = [(row, cosine) for row, cosine in rows if row.status in OUT]
        olds = [row.lesson for row, _ in out]
        cosines = np.array([cosine for _, cosine in out])
        near = nearness(lesson, olds, cosines, self.texts, self._level())
        for (row, _), cosine in zip(out, near, strict=True):
            if repeats(lesson, row.lesson, float(cosine), self.rules.dup_threshold):
                yield row

    def before(self, group: Group, earlier: Sequence[Archived]) -> Precedent | None:
        """Return the earlier decision, or measurement, that stands against a group."""
        return self._measured(group) or self.precedents.find(group, earlier)

    def _measured(self, group: Group) -> Precedent | None:
        """Return the measurement for which a lesson of the group is held."""
        if harm := harm_among(group.held):
            return Precedent(HARMFUL, f"lesson {harm.row.key[:12]} was {harm.told}")
        for row in () if self.rules.proving else group.held:
            if row.reason.startswith(f"{PROOF}: "):
                why = row.reason.removeprefix(f"{PROOF}: ")
                told = f"{NOT_PASSED} {row.at[:10]}, run with --proof: {why}"
                return Precedent(PROOF, why if why.startswith(NOT_PASSED) else told)
        return None

    def decisions(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Return the decisions on these lessons, oldest first, and what put them out of use."""
        return self.precedents.past.decisions(keys, self.session.archive)
