"""The collapse test: a loop with a deliberately bad distiller, with the gate and without it.

Each round the agent answers all questions with the lessons so far; chats about a part of them,
each held by two users, go through the real filter, whose distiller proposes harm; then either
the gate decides as an operator runs it unattended, or every candidate becomes curated. The gate
proves its batches on questions no chat was about. Requests keep their seeds over the rounds,
so that only lessons make a difference.
Covered: filter, staging, gate, publishing and recall are the product's own code on real stores.
Not covered: benefit: a script stands in for agent and distiller.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.eval.collapse.chats import Chat, Distiller, learn_from
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.runs.setup import AgentSettings, open_agent, open_grader
from lessons_loop.eval.shelf import copied_set
from lessons_loop.eval.trials import Agent, Answer, Arm, Grade, trial_seed
from lessons_loop.filter.embed import Embedder
from lessons_loop.promote.cases import Casebook
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decide.changes import Resolution
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.gathering import gather, no_progress
from lessons_loop.promote.proof.prove_batch import Rehearsal, prove_batch
from lessons_loop.promote.proof.proving import Prover
from lessons_loop.promote.records import Actor, Decision, Verdict
from lessons_loop.promote.runs.drive import RunOptions, apply_resolution, run_gate
from lessons_loop.promote.session import GateSettings, open_gate

WORKERS = 4
USERS = ("first-user", "second-user")
"""So many users the gate wants to see a lesson from."""
DECISIONS = (Decision.PROMOTE, Decision.HOLD, Decision.REJECT)
UNGATED = Verdict(
    Decision.PROMOTE, "no-gate", "everything is let in", Actor(kind="rule", name="no-gate")
)


@dataclass(frozen=True)
class Collapse:
    """What a test is made of."""

    questions: tuple[EvalQuestion, ...]
    agent: AgentSettings
    distiller: Distiller
    embedder: Embedder
    domain: str
    rounds: int = 5
    chats: int = 30
    """Questions of a round whose chats are learned from; each is asked by every user."""
    seed: int = 7
    prover: Prover | None = None
    """What the gate listens to."""


class Round(NamedTuple):
    """What stood after one round; round 0 is the start."""

    number: int
    passed: int
    judged: int
    curated: int
    candidates: int = 0
    """New in this round."""
    promoted: int = 0
    held: int = 0
    rejected: int = 0
    proof: str = ""
    """What the batch's proof said, empty where none was asked for."""

    @property
    def rate(self) -> float:
        """Share of the judged questions that passed."""
        return self.passed / self.judged if self.judged else 0.0


class Batch(NamedTuple):
    """What became of a round's candidates."""

    decisions: Counter[Decision]
    proof: str = ""


Decide = Callable[[Collapse, Path], Batch]
Step = Callable[[Round], None]


def run_rounds(wish: Collapse, store: Path, decide: Decide, step: Step) -> list[Round]:
    """Return the start and each round of one store; raise LessonsError."""
    rounds: list[Round] = []
    emitted, batch = 0, Batch(Counter())
    for number in range(wish.rounds + 1):
        found = copied_set(str(store), wish.domain, None, wish.embedder)
        with open_agent(wish.agent, found, None, wish.embedder) as agent:
            passed, judged = measured(wish, agent)
            chats = list(_chats(wish, agent, number + 1)) if number < wish.rounds else []
        promoted, held, rejected = (batch.decisions[one] for one in DECISIONS)
        rounds.append(
            Round(
                number,
                passed,
                judged,
                len(found.lessons),
                emitted,
                promoted,
                held,
                rejected,
                batch.proof,
            )
        )
        step(rounds[-1])
        if number < wish.rounds:
            where = (str(store), wish.domain, wish.distiller, wish.embedder)
            emitted = asyncio.run(learn_from(chats, *where))
            batch = decide(wish, store)
    return rounds


def measured(wish: Collapse, agent: Agent) -> tuple[int, int]:
    """Return how many of all questions pass, and how many were judged."""
    grader = open_grader(wish.agent)
    answers = _answers(wish, agent, wish.questions, 0)
    grades = [grader(*pair)[0] for pair in zip(wish.questions, answers, strict=True)]
    return grades.count(Grade.PASS), sum(one is not Grade.UNJUDGED for one in grades)


def _chats(wish: Collapse, agent: Agent, number: int) -> Iterator[Chat]:
    """Yield a part of the taught questions as chats of all users, answered with today's lessons."""
    chance = random.Random(f"{wish.seed} round {number}")
    taught = split(wish.questions)[0]
    chosen = chance.sample(taught, min(wish.chats, len(taught)))
    for place, user in enumerate(USERS):
        answers = _answers(wish, agent, chosen, 10 * number + place)
        for question, answer in zip(chosen, answers, strict=True):
            if not answer.outage:
                yield Chat(question, answer, user, f"round-{number}-{question.id}-{user}")


def _answers(
    wish: Collapse, agent: Agent, questions: Sequence[EvalQuestion], run: int
) -> list[Answer]:
    seeds = [trial_seed(wish.seed, one.id, Arm.ON, run) for one in questions]
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(agent.answer, questions, [Arm.ON] * len(questions), seeds))


def split(
    questions: Sequence[EvalQuestion],
) -> tuple[tuple[EvalQuestion, ...], tuple[EvalQuestion, ...]]:
    """Return the questions chats are about, and those held out for the proof: every other one.

    Neighbours by topic and id go to different sides, so that each topic is on both.
    """
    ordered = sorted(questions, key=lambda one: (one.topic, one.id))
    return tuple(ordered[::2]), tuple(ordered[1::2])


def by_the_gate(wish: Collapse, store: Path) -> Batch:
    """Decide as an operator's weekly job does: automatic, two users, with proof."""
    settings = _settings(wish, store)
    options = RunOptions(Mode.AUTO, Rules(min_users=len(USERS)))
    if wish.prover is not None:
        options = RunOptions(Mode.AUTO, Rules(min_users=len(USERS), proving=True))
        proof = prove_batch(Rehearsal(settings, options), wish.prover)
        options = RunOptions(Mode.AUTO, options.rules, proof=proof)
    with open_gate(settings) as session:
        report = run_gate(session, options)
    decisions = Counter(outcome.verdict.decision for outcome in report.outcomes)
    return Batch(decisions, report.proof.reason if report.proof else "")


def without_gate(wish: Collapse, store: Path) -> Batch:
    """Let every candidate in."""
    promoted = 0
    with open_gate(_settings(wish, store)) as session:
        book = Casebook(session, Rules())
        groups = gather(book, session.candidates(), no_progress)
        for group in groups:
            promoted += group.lesson.key not in session.curated
            at = iso(session.now())
            apply_resolution(session, Resolution(group, UNGATED, (), at))
    return Batch(Counter({Decision.PROMOTE: promoted}))


def _settings(wish: Collapse, store: Path) -> GateSettings:
    return GateSettings(str(store), wish.domain, embedder=wish.embedder)


def summary(gated: Sequence[Round], ungated: Sequence[Round]) -> dict[str, Any]:
    """Return both courses as plain values, with the change from start to end in points."""
    return {
        name: {
            "change_points": round(100 * (rounds[-1].rate - rounds[0].rate), 1),
            "rounds": [{**one._asdict(), "rate": round(one.rate, 4)} for one in rounds],
        }
        for name, rounds in (("with_gate", gated), ("without_gate", ungated))
    }
