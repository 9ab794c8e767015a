"""A model's judgement on two lessons that rules call related.

Covered: a judgement never drops a lesson that has a number, name, identifier or negation of
its own, and never clears one as near as a repetition or one that only exchanges words of the
curated lesson; trouble is no judgement; three failures in a row end judging for the run.
Not covered: whether the model is right: `lessons eval neardup --llm-url` measures that.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from lessons_loop.filter.errors import ModelError
from lessons_loop.filter.llm import HttpModel
from lessons_loop.filter.models import Lesson
from lessons_loop.promote.lint.findings import Severity
from lessons_loop.promote.lint.safety import find_injection
from lessons_loop.promote.records import Actor
from lessons_loop.promote.similar.asking import AskModel
from lessons_loop.promote.similar.folding import may_fold, may_release
from lessons_loop.promote.similar.judge_prompt import (
    JUDGE_PROMPT_VERSION,
    Word,
    judge_messages,
    read_judgement,
)
from lessons_loop.promote.similar.similarity import (
    BROADER,
    CONFLICT,
    DUP_THRESHOLD,
    DUPLICATE,
    RELATED,
    UNRELATED,
)

FAILURES_IN_A_ROW = 3
UNDECIDED = "undecided"
_RELATIONS = {
    Word.SAME: DUPLICATE,
    Word.NARROWER: DUPLICATE,
    Word.BROADER: BROADER,
    Word.CONTRADICTS: CONFLICT,
    Word.UNRELATED: UNRELATED,
}


class Judgement(NamedTuple):
    """What a model said about a pair."""

    word: Word
    reason: str
    actor: Actor

    def told(self) -> str:
        """Return it as a sentence for people."""
        return f"{self.actor.model} says {self.word.value}: {self.reason}"


def relation_after(judgement: Judgement, new: Lesson, old: Lesson, cosine: float) -> str:
    """Return the relation of a related pair once it is judged; related when it stays open.

    The words of the two bound what a model's word brings about: see `folding`.
    """
    relation = _RELATIONS.get(judgement.word, RELATED)
    if relation == UNRELATED and cosine >= DUP_THRESHOLD:
        return RELATED
    if relation == DUPLICATE:
        return relation if may_fold(new, old) else RELATED
    if relation in (BROADER, UNRELATED):
        return relation if may_release(new, old) else RELATED
    return relation


class PairJudge:
    """Asks a model about pairs; counts what it said; gives up after three failures in a row."""

    def __init__(self, model: AskModel) -> None:
        self.model = model
        self.counts: Counter[str] = Counter()
        """Judgements by word; `undecided` where none came about."""
        self.ended = ""
        """Why judging ended; empty while it goes on."""
        self._failures = 0

    def judge(self, new: Lesson, old: Lesson) -> Judgement | None:
        """Return the judgement; None when there is none: the pair stays as it is."""
        if self.ended:
            return None
        found = None if _gives_orders(new) or _gives_orders(old) else self._asked(new, old)
        self.counts[found.word.value if found else UNDECIDED] += 1
        return found

    def _asked(self, new: Lesson, old: Lesson) -> Judgement | None:
        try:
            word, reason = read_judgement(self.model.ask(judge_messages(old, new)))
        except ModelError as error:
            self._failures += 1
            if self._failures >= FAILURES_IN_A_ROW:
                self.ended = f"judging ended after {self._failures} failures: {error}"
            return None
        self._failures = 0
        actor = Actor(kind="llm", name="judge", model=self.model.model, prompt=JUDGE_PROMPT_VERSION)
        return Judgement(word, reason, actor)


class RememberingJudge(PairJudge):
    """Judges each pair once: what a rehearsal was told, the run is told too."""

    def __init__(self, model: AskModel) -> None:
        super().__init__(model)
        self._known: dict[tuple[Lesson, Lesson], Judgement] = {}

    def judge(self, new: Lesson, old: Lesson) -> Judgement | None:
        """Return the judgement, the same for the same pair; None when there is none."""
        known = self._known.get((new, old)) or super().judge(new, old)
        if known:
            self._known[new, old] = known
        return known


def judge_at(url: str, model: str, key: str = "") -> PairJudge | None:
    """Return a judge asking the model at a URL, None where none is named."""
    return PairJudge(HttpModel(url, model, key)) if url.strip() and model.strip() else None


def _gives_orders(lesson: Lesson) -> bool:
    """Say whether a lesson speaks to a model: a model's word on it counts for nothing."""
    found = find_injection(f"{lesson.trigger}\n{lesson.text}")
    return any(finding.severity is Severity.REJECT for finding in found)
