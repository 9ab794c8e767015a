"""What an evaluation is made of: arms, answers with their tool calls, graded trials.

One trial is one question asked once in one arm. Nothing here knows where an answer came from.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import Field

from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.filter.models import FrozenModel


class Arm(StrEnum):
    """What the agent is given beside the question."""

    OFF = "off"
    """No lessons."""
    ON = "on"
    """The lessons that recall finds."""
    PLACEBO = "placebo"
    """As many irrelevant lessons of the same length."""
    OFF_AGAIN = "off-again"
    """No lessons once more: what chance alone makes of two equal arms."""


class Grade(StrEnum):
    """What became of an answer."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNJUDGED = "UNJUDGED"
    """An outage, or no grade came about: counted apart, never as a failure."""


class ToolCall(FrozenModel):
    """One call the agent made, in order."""

    tool: str
    arguments: str
    """JSON as the model wrote it."""
    result: str
    failed: bool = False


class Answer(FrozenModel):
    """What the agent said to one question."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    recalled: tuple[str, ...] = ()
    """Keys (or short references) of the lessons in the request, in order."""
    tokens_in: Annotated[int, Field(ge=0)] = 0
    """Prompt tokens of all requests of this answer, as the model's server counted them."""
    tokens_out: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0
    model: str = ""
    outage: str = ""
    """Why there is no answer; empty where there is one."""


class Trial(FrozenModel):
    """One question asked once in one arm, graded."""

    question: str
    """Id of the question."""
    topic: str
    control: bool = False
    arm: Arm
    run: int
    """From 1."""
    answer: Answer
    grade: Grade = Grade.UNJUDGED
    why: str = ""
    """The check that failed, the judge's reason, or the outage; one line."""
    graded_by: str = ""
    """`checks`, `judge MODEL` or `manual NAME`."""


class Agent(Protocol):
    """Whoever answers; called from several threads at once."""

    name: str
    """Model and where it runs, for people and the record."""

    def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
        """Answer one question; trouble with the model is an `outage`, never an exception."""


def trial_seed(base: int, question: str, arm: Arm, run: int) -> int:
    """Return the seed of one trial, 0 to 2**31 - 1: its own for each question, arm and run."""
    told = f"{base}|{question}|{arm.value}|{run}".encode()
    return int.from_bytes(hashlib.sha256(told).digest()[:4], "big") >> 1
