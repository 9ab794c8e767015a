"""Questions and answers as the evaluation has them, in one line each."""

from __future__ import annotations

from typing import Any

from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Answer, Arm, ToolCall, Trial


def asked(*checks: dict[str, Any], rubric: str = "", text: str = "how many?") -> EvalQuestion:
    """Return a question with these checks."""
    messages = ({"role": "user", "content": text},)
    return EvalQuestion(id="q", messages=messages, topic="t", checks=checks, rubric=rubric)


def answered(text: str = "done", *calls: ToolCall, **fields: Any) -> Answer:
    """Return an answer with these tool calls."""
    return Answer(text=text, calls=calls, **fields)


def called(result: str = "{}", tool: str = "run_sql", failed: bool = False) -> ToolCall:
    """Return one tool call."""
    return ToolCall(tool=tool, arguments='{"sql":"SELECT 1"}', result=result, failed=failed)


def trial(question: EvalQuestion, answer: Answer, arm: Arm = Arm.OFF, run: int = 1) -> Trial:
    """Return a trial nobody has graded."""
    return Trial(question=question.id, topic=question.topic, arm=arm, run=run, answer=answer)
