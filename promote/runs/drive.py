"""Drive one run of the gate: fold events, group candidates, judge, review, apply.

Without a mode nothing is written: the verdicts are a preview. `--unattended` alone
carries out what rules decide (reject, hold, count duplicates) and promotes nothing.
A failed or unreadable review is no decision: the candidate stays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lessons_loop.filter.errors import ModelError
from lessons_loop.filter.models import Candidate, Curated, Lesson
from lessons_loop.promote.cases import Case, Casebook, ask_judge
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.decay.harmful import hold_harmful
from lessons_loop.promote.decay.rules import DecayRules
from lessons_loop.promote.decay.run import demote_stale
from lessons_loop.promote.decay.uses_kept import drop_old_uses
from lessons_loop.promote.decide.changes import (
    Resolution,
    archive_change,
    duplicate_change,
    promote_change,
)
from lessons_loop.promote.evidence.seals import read_seals
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.forget.late import drop_forgotten
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.gathering import Progress, gather, no_progress
from lessons_loop.promote.records import Actor, Decision, Verdict
from lessons_loop.promote.runs.report import Outcome, RunReport
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.similar.groups import Group
from lessons_loop.promote.similar.judge import PairJudge
from lessons_loop.promote.similar.similarity import CONFLICT, RELATED
from lessons_loop.promote.store.unreadable import set_aside_old

if TYPE_CHECKING:
    from lessons_loop.promote.proof.prove_batch import Proven

FAILURES_IN_A_ROW = 3


class Review(NamedTuple):
    """What a reviewer decided on one case."""

    decision: Decision
    """PROMOTE, REJECT or SKIP."""
    reason: str
    actor: Actor
    edited: Lesson | None = None
    replaces: Curated | None = None
    """A curated lesson that is to go."""
    final: Case | None = None
    """The case as it stood when the reviewer decided, where the wording was edited."""
    stop: bool = False
    """The reviewer ends the run; what is decided stays decided."""


class Reviewer(Protocol):
    """A person or a model that decides where no rule does."""

    def review(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        """Decide on a case; raise ModelError when no decision came about."""


@dataclass(frozen=True)
class RunOptions:
    """How a run decides."""

    mode: Mode = Mode.NONE
    rules: Rules = field(default_factory=Rules)
    decay: DecayRules | None = None
    """Take lessons that stopped helping out; a preview shows them."""
    by_tools: bool = False
    """Let the results of tools judge answers without a thumb."""
    keep_uses: int = 0
    """Answers without a thumb the register keeps, the newest; 0: all."""
    ready: Callable[[], None] = lambda: None
    """Called when what goes out of use is gone and nothing is judged yet."""
    proof: Proven | None = None
    """What a rehearsal of this run decided and what was measured; None: nobody asked."""


def run_gate(
    session: GateSession,
    options: RunOptions,
    reviewer: Reviewer | None = None,
    show: Callable[[Outcome], None] = lambda outcome: None,
    progress: Progress = no_progress,
    judge: PairJudge | None = None,
) -> RunReport:
    """Run the gate once; raise StoreError or EmbedError with earlier decisions kept.

    `judge` is asked about lessons that rules call related to a curated one.
    """
    report = RunReport(session.run, session.domain, options.mode, session.dry_run)
    if options.proof:
        options.proof.check(session)
        reviewer = options.proof.reviewer(session) if reviewer is not None else None
        report.proof = options.proof.result
    candidates = _tidied(session, options, report)
    book = Casebook(session, options.rules, read_seals(session, candidates))
    found = gather(book, candidates, progress)  # held lessons are for a person only
    groups = [group for group in found if group.staged or options.mode is Mode.HUMAN]
    driver = _Driver(session, book, options, reviewer, report, judge)
    alone = reviewer is not None  # a reviewed decision took time or money: stored at once
    with nullcontext() if alone else session.batch():
        for done, group in enumerate(groups):
            progress("judging", done, len(groups))
            outcome = driver.decide(group)
            report.outcomes.append(outcome)
            show(outcome)
            if driver.stopped:
                break
    progress("judging", len(groups), len(groups))
    if judge is not None:
        report.judged, report.error = judge.counts, report.error or judge.ended
    return report


def _tidied(session: GateSession, options: RunOptions, report: RunReport) -> list[Candidate]:
    """Count events, take out of use what has to go, and return the candidates to judge."""
    candidates = session.candidates()  # before the snapshot: what it lacks is not decided on
    if options.proof:
        candidates = options.proof.known(candidates)
    write = options.mode is not Mode.NONE
    if write and drop_forgotten(session):
        gone = Forgotten.load(session.state)
        candidates = [found for found in candidates if not gone.covers_candidate(found)]
    if write or options.decay:
        folded = fold_events(session, by_tools=options.by_tools)
        report.folded, report.distiller = folded.events, folded.distiller
    if write:
        drop_old_uses(session, options.keep_uses)
    report.harmful = hold_harmful(session, write=write)
    if options.decay:
        report.decay = demote_stale(session, options.decay, write=write)
    options.ready()
    report.candidates, report.unreadable = len(candidates), session.unreadable
    report.set_aside = set_aside_old(session, write=write) if session.unreadable else 0
    return candidates


class _Driver:
    """Decides group by group; remembers how the reviewer fares."""

    def __init__(
        self,
        session: GateSession,
        book: Casebook,
        options: RunOptions,
        reviewer: Reviewer | None,
        report: RunReport,
        judge: PairJudge | None,
    ) -> None:
        self.session = session
        self.book = book
        self.mode = options.mode
        self.proof = options.proof
        self.reviewer = reviewer
        self.report = report
        self.judge = judge
        self.stopped = False
        self._failures = 0

    def decide(self, group: Group) -> Outcome:
        case = self._judged(self.book.case(group))
        if self.mode is Mode.NONE or case.verdict.decision is Decision.SKIP:
            return Outcome(case, _preview(case.verdict), group.lesson)
        asked = case.verdict.decision is Decision.PROMOTE or (
            self.mode is Mode.HUMAN and case.verdict.decision is Decision.HOLD
        )
        if not asked:
            return self._carry_out(case, case.verdict)
        if self.mode is Mode.AUTO:
            return self._carry_out(case, case.verdict)
        if self.reviewer is None:
            return Outcome(case, _preview(case.verdict), group.lesson)
        return self._reviewed(case, self.reviewer)

    def _judged(self, case: Case) -> Case:
        """Ask the judge: under a model's review it settles related lessons, a person is told."""
        if self.judge is None or case.verdict.rule not in (RELATED, CONFLICT):
            return case
        if self.mode is Mode.HUMAN:
            return ask_judge(case, self.judge)
        settles = self.mode is Mode.LLM and case.verdict.rule == RELATED
        return self.book.judged(case, self.judge) if settles else case

    def _reviewed(self, case: Case, reviewer: Reviewer) -> Outcome:
        if self.report.error:
            return _not_reviewed(case, self.report.error)
        try:
            review = reviewer.review(case, lambda lesson: self.book.recase(case, lesson))
        except ModelError as error:
            self._failures += 1
            if self._failures >= FAILURES_IN_A_ROW:
                self.report.error = f"review ended after {self._failures} failures: {error}"
            return _not_reviewed(case, str(error))
        self._failures = 0
        self.stopped = review.stop
        verdict = Verdict(
            review.decision, "review", review.reason, review.actor, case.verdict.neighbour
        )
        if review.decision is Decision.SKIP:
            return Outcome(case, verdict, case.group.lesson)
        return self._carry_out(case, verdict, review)

    def _carry_out(self, case: Case, verdict: Verdict, review: Review | None = None) -> Outcome:
        edited = review.edited if review else None
        lesson = edited or case.group.lesson
        if review and review.final:
            verdict = replace(verdict, neighbour=review.final.verdict.neighbour)
        said, verdict = verdict, self._proven(lesson, verdict)
        if verdict.decision is Decision.SKIP:
            return Outcome(case, verdict, lesson)
        replaces = review.replaces if review and verdict.decision is said.decision else None
        resolution = Resolution(
            group=case.group,
            verdict=verdict,
            findings=_final(case, review).findings,
            at=iso(self.session.now()),
            by_rules=case.verdict if review else None,
            edited=edited,
            replaces=replaces,
            history=case.history,
            judgement=case.judgement,
            proof=self.proof.result.figures if self.proof and verdict is not said else None,
        )
        apply_resolution(self.session, resolution)
        return Outcome(case, verdict, lesson)

    def _proven(self, lesson: Lesson, verdict: Verdict) -> Verdict:
        """Return the verdict as the batch's proof leaves it."""
        enters = verdict.decision is Decision.PROMOTE and lesson.key not in self.session.curated
        return self.proof.verdict_on(lesson, verdict) if self.proof and enters else verdict


def apply_resolution(session: GateSession, found: Resolution) -> int:
    """Carry a decision out through the one write path; return the ledger line's number."""
    decision, near = found.verdict.decision, found.verdict.neighbour
    lesson = found.edited or found.group.lesson
    if decision is Decision.PROMOTE and lesson.key not in session.curated:
        return session.apply(promote_change(found, session.embed([lesson.embedded_text])))
    if decision in (Decision.PROMOTE, Decision.DUPLICATE):
        old = session.curated.get(lesson.key) or (near.curated if near else None)
        if old is None:
            raise AssertionError("a duplicate without a neighbour")
        return session.apply(duplicate_change(found, session.curated.get(old.key, old)))
    return session.apply(archive_change(found))


def _preview(verdict: Verdict) -> Verdict:
    """Return the verdict as nobody carries it out: what would be promoted is skipped."""
    if verdict.decision is not Decision.PROMOTE:
        return verdict
    reason = "no rule stands against it, nobody decided"
    return replace(verdict, decision=Decision.SKIP, rule="no-review", reason=reason)


def _not_reviewed(case: Case, why: str) -> Outcome:
    verdict = replace(case.verdict, decision=Decision.SKIP, rule="not-reviewed", reason=why)
    return Outcome(case, verdict, case.group.lesson, not_reviewed=True)


def _final(case: Case, review: Review | None) -> Case:
    return review.final if review and review.final else case
