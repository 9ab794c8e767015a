"""A batch that has to prove itself before anything of it is written.

The whole run is rehearsed on a throw-away copy with the real reviewer; the copy's curated is
what the prover compares with what was there before. Then the run is done for real with the
decisions of the rehearsal: carried out where the proof passed, else every lesson the batch
would have brought in is held with the numbers; what was rejected, held or counted as a
repetition goes that way in both cases.
Covered: a candidate that came or was rewritten meanwhile waits for the next run; a curated set
that changed meanwhile ends the run; no proof (an outage, no settings): nothing is written.
Not covered: lessons that decay takes out in the real run only; that needs no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lessons_loop.filter.errors import LessonsError, ModelError
from lessons_loop.filter.models import Candidate, Curated, Lesson
from lessons_loop.promote.cases import Case
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.gathering import Progress, no_progress
from lessons_loop.promote.proof.proving import (
    CHANGED,
    NOTHING_NEW,
    PROOF,
    LessonSet,
    ProofCase,
    ProofResult,
    Prover,
    as_recalled,
    lesson_set_of,
    state_of,
)
from lessons_loop.promote.records import Actor, Decision, Verdict
from lessons_loop.promote.runs.drive import Review, Reviewer, RunOptions, run_gate
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.similar.judge import PairJudge
from lessons_loop.promote.state import locate

RULE = Actor(kind="rule", name=PROOF)
LATE = "was not part of the batch that was proven: it waits for the next run"


@dataclass(frozen=True)
class Proven:
    """What a rehearsal decided and what the prover said of it; see `run.RunOptions`."""

    result: ProofResult
    new: frozenset[str]
    """What the batch brings into curated, see `as_recalled`."""
    candidates: frozenset[str]
    """Ids of the candidates it rests on."""
    state: tuple[tuple[str, ...], ...]
    """What stood in the store when it began, see `state_of`."""
    said: Mapping[str, Review | ModelError] = field(default_factory=dict)
    """What the reviewer said, by the key of the lesson that was judged."""

    def check(self, session: GateSession) -> None:
        """Raise LessonsError where the store is no more what was proven."""
        if state_of(session) != self.state:
            raise LessonsError(CHANGED)

    def known(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates the proof was about."""
        return [seen for seen in candidates if seen.id in self.candidates]

    def verdict_on(self, lesson: Lesson, verdict: Verdict) -> Verdict:
        """Return what becomes of a lesson that would enter curated."""
        if as_recalled(lesson) not in self.new:
            return replace(verdict, decision=Decision.SKIP, rule=PROOF, reason=LATE, actor=RULE)
        if self.result.passed:
            return replace(verdict, reason=f"{verdict.reason}; {self.result.reason}")
        held = (Decision.HOLD, PROOF, self.result.reason, RULE)
        return Verdict(*held, verdict.neighbour)

    def reviewer(self, session: GateSession) -> Reviewer:
        """Return a reviewer that says again what was said in the rehearsal."""
        return _Recalled(self.said, session.curated)


@dataclass
class _Remembering:
    """A reviewer that notes what another one said."""

    inner: Reviewer
    said: dict[str, Review | ModelError] = field(default_factory=dict)

    def review(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        """Ask the other one."""
        try:
            found = self.inner.review(case, recase)
        except ModelError as error:
            self.said[case.group.key] = error
            raise
        self.said[case.group.key] = found
        return found


@dataclass(frozen=True)
class _Recalled:
    """A reviewer that only repeats."""

    said: Mapping[str, Review | ModelError]
    curated: Mapping[str, Curated]

    def review(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        """Return what was said on this lesson; raise ModelError where that was an outage."""
        found = self.said.get(case.group.key)
        if found is None:
            return Review(Decision.SKIP, LATE, RULE)
        if isinstance(found, ModelError):
            raise found
        old = self.curated.get(found.replaces.key) if found.replaces else None
        return found._replace(replaces=old)


@dataclass(frozen=True)
class Rehearsal:
    """How a batch is tried out."""

    settings: GateSettings
    options: RunOptions
    reviewer: Reviewer | None = None
    judge: PairJudge | None = None
    progress: Progress = no_progress
    keep: bool = True
    """False: the run is a preview, nothing is kept."""


def prove_batch(trial: Rehearsal, prover: Prover) -> Proven:
    """Rehearse the run and have it proven; raise LessonsError with nothing written.

    A preview (no mode) is proven as if everything no rule stands against were promoted.
    """
    remembering = _Remembering(trial.reviewer) if trial.reviewer is not None else None
    mode = Mode.AUTO if trial.options.mode is Mode.NONE else trial.options.mode
    before: list[LessonSet] = []
    with open_gate(replace(trial.settings, dry_run=True)) as session:
        state = state_of(session)
        candidates = frozenset(seen.id for seen in session.candidates())
        ready = replace(
            trial.options, mode=mode, ready=lambda: before.append(lesson_set_of(session))
        )
        run_gate(session, ready, remembering, progress=trial.progress, judge=trial.judge)
        after = lesson_set_of(session)
    result, new = proven_by(prover, trial.settings, before[0], after, keep=trial.keep)
    said = remembering.said if remembering else {}
    measured = frozenset(as_recalled(row.lesson) for row in after.lessons if row.key in new)
    return Proven(result, measured, candidates, state, said)


def proven_by(
    prover: Prover, settings: GateSettings, before: LessonSet, after: LessonSet, *, keep: bool
) -> tuple[ProofResult, tuple[str, ...]]:
    """Return what the prover says, and the keys only the second set has; raise LessonsError."""
    known = {row.key for row in before.lessons}
    new = tuple(row.key for row in after.lessons if row.key not in known)
    if not new:
        return NOTHING_NEW, new
    state = locate(settings.store, settings.state).state  # the copy's own is gone
    return prover(ProofCase(before, after, new, settings.embedder, state, keep)), new
