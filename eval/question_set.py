"""Question sets: held-out questions with the checks that decide whether an answer passes.

A folder of YAML files, `eval/questions/<domain>/*.yaml`, each a list of questions.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lessons_loop.filter.models import FrozenModel


class EvalQuestion(FrozenModel):
    """One held-out question."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    messages: tuple[dict[str, Any], ...]
    """In the OpenAI chat format; the last one is the user's."""
    topic: str
    """Questions of one topic are not independent of each other."""
    checks: tuple[dict[str, Any], ...] = ()
    """Each a mapping as in the file; see `checks`."""
    rubric: str = ""
    """What a judge decides by, where no check can."""
    covers: tuple[str, ...] = ()
    """Ids of the seeds that should help; empty: none does."""
    control: bool = False
    """Unrelated, or about refusing: lessons must change nothing here."""


class QuestionSet(FrozenModel):
    """A folder of questions."""

    domain: str
    questions: tuple[EvalQuestion, ...]
    digest: str
    """sha256 over the questions: another digest is another set."""
