"""Score what distilling makes of labelled exchanges: false, missed, right, leaked.

Covered: the filter's own way from messages to candidates (transcript, cheap checks,
prompt, reply, hard checks) with default valves.
Not covered: whether an emitted lesson is true beyond its key facts.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lessons_loop.eval.rows import share
from lessons_loop.filter.distill import Origin, Outcome, distill, skip_reason
from lessons_loop.filter.llm import ChatReply
from lessons_loop.filter.models import Candidate
from lessons_loop.filter.transcript import Turn, read_transcript
from lessons_loop.filter.valves import LessonsValves

ASK_TRIES = 2
"""Times an exchange is asked about before it counts as not answered."""
_WHOLE_NUMBER = re.compile(r"[\d.,]+")
Ask = Callable[[list[dict[str, str]]], Awaitable[ChatReply]]


@dataclass(frozen=True)
class LabelledExchange:
    """A finished exchange and what it supports."""

    id: str
    category: str
    turns: tuple[Turn, ...]
    should_emit: int
    """0: nothing may be emitted."""
    key_facts: tuple[str, ...]
    """Each must be stated; `|` separates spellings of which one is enough."""
    forbidden: tuple[str, ...]


@dataclass(frozen=True)
class Distilled:
    """What became of one exchange."""

    exchange: LabelledExchange
    skipped: str | None
    """Why no model was asked, None when one was."""
    outcome: Outcome
    failure: str = ""
    """Why the model did not answer, empty when it did."""


def parse_exchange(row: Any) -> LabelledExchange:
    """Read one record of an exchange file; raise KeyError, TypeError or ValueError."""
    label = row["label"]
    wanted = label["should_emit"]
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise ValueError("label.should_emit is no number")
    return LabelledExchange(
        id=str(row["id"]),
        category=str(row.get("category", "")),
        turns=read_transcript(row["messages"]),
        should_emit=wanted,
        key_facts=_texts(label.get("key_facts", []), "key_facts"),
        forbidden=_texts(label.get("forbidden", []), "forbidden"),
    )


def _texts(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError(f"label.{name} is no list of strings")
    return tuple(value)


async def distill_exchange(
    exchange: LabelledExchange, ask: Ask, model: str, pause: float = 0.0
) -> Distilled:
    """Distill one exchange as the filter does with default valves; nothing is raised.

    `pause` is the seconds before a second try.
    """
    valves = LessonsValves()
    least = valves.distill_min_reply_chars
    skipped = skip_reason(exchange.turns, finish_reason="stop", min_reply_chars=least)
    if skipped is not None:
        return Distilled(exchange, skipped, Outcome())
    outcome = Outcome()
    for attempt in range(ASK_TRIES):
        if attempt:
            await asyncio.sleep(pause)
        outcome = await distill(
            exchange.turns,
            _origin(exchange, model),
            ask,
            max_lessons=valves.distill_max_lessons,
            injected=(),
        )
        if "endpoint-failed" not in outcome.counts:
            return Distilled(exchange, None, outcome)
    return Distilled(exchange, None, Outcome(), outcome.warning)


def _origin(exchange: LabelledExchange, model: str) -> Origin:
    reference = f"eval-{exchange.id}"
    return Origin(
        domain="eval",
        message_ref=reference,
        chat_ref=reference,
        user_ref="eval",
        at="2026-01-01T00:00:00Z",
        model=model,
    )


def score_distilling(done: Sequence[Distilled]) -> dict[str, Any]:
    """Return the figures over the answered exchanges.

    Shares (None of nothing): `false_emits` of the exchanges that support no lesson;
    `missed_emits` of those that do; `facts_covered` of the key facts of the latter.
    Counts: `forbidden_leaks` (forbidden strings in text, trigger or tags of lessons),
    `forbidden_in_evidence` (in the stored quote or excerpt, which only the gate reads),
    `unreadable`, `cut_off` (replies), `dropped` (lessons by rule), `skipped` (exchanges no
    model was asked about, by reason) and every `n_…`.
    """
    answered = [one for one in done if not one.failure]
    empty = [one for one in answered if not one.exchange.should_emit]
    worth = [one for one in answered if one.exchange.should_emit]
    false = [one for one in empty if one.outcome.candidates]
    missed = [one for one in worth if not one.outcome.candidates]
    facts = sum(len(one.exchange.key_facts) for one in worth)
    lacking = sum(len(missing_facts(one)) for one in worth)
    counts = sum((Counter(one.outcome.counts) for one in answered), Counter[str]())
    return {
        "n_exchanges": len(done),
        "n_not_answered": len(done) - len(answered),
        "n_skipped": sum(one.skipped is not None for one in done),
        "skipped": dict(Counter(one.skipped for one in done if one.skipped is not None)),
        "n_without_lesson": len(empty),
        "false_emits": share(len(false), len(empty)),
        "n_false_emits": len(false),
        "n_with_lesson": len(worth),
        "missed_emits": share(len(missed), len(worth)),
        "n_missed_emits": len(missed),
        "n_facts": facts,
        "facts_covered": share(facts - lacking, facts),
        "forbidden_leaks": sum(len(leaks(one)) for one in answered),
        "forbidden_in_evidence": sum(len(leaks(one, evidence=True)) for one in answered),
        "unreadable": counts["unreadable"],
        "cut_off": counts["cut-off"],
        "n_nothing": counts["nothing"],
        "n_emitted": counts["emitted"],
        "dropped": _dropped(counts),
        "by_category": _by_category(answered),
        "mistakes": [mistake for one in done if (mistake := _mistake(one))],
    }


def leaks(one: Distilled, *, evidence: bool = False) -> tuple[str, ...]:
    """Return the forbidden strings in its lessons, or in their evidence."""
    parts = _evidence_parts if evidence else _lesson_parts
    text = "\n".join(part for found in one.outcome.candidates for part in parts(found))
    return tuple(bad for bad in one.exchange.forbidden if _occurs(bad, text.casefold()))


def missing_facts(one: Distilled) -> tuple[str, ...]:
    """Return the key facts that none of its lessons states."""
    text = "\n".join(
        part for found in one.outcome.candidates for part in _lesson_parts(found)
    ).casefold()
    facts = one.exchange.key_facts
    return tuple(
        fact for fact in facts if not any(way.casefold() in text for way in fact.split("|"))
    )


def _lesson_parts(found: Candidate) -> tuple[str, ...]:
    return (found.lesson.text, found.lesson.trigger, *found.lesson.tags)


def _evidence_parts(found: Candidate) -> tuple[str, ...]:
    return (found.evidence.quote, found.evidence.excerpt)


def _occurs(bad: str, folded: str) -> bool:
    """Say whether a forbidden string stands in a case-folded text; a number as a whole one."""
    pattern = re.escape(bad.casefold())
    if _WHOLE_NUMBER.fullmatch(bad):
        pattern = rf"(?<![\d.,]){pattern}(?![\d]|[.,]\d)"
    return re.search(pattern, folded) is not None


def _dropped(counts: Counter[str]) -> dict[str, int]:
    rules = {key.partition(":")[2]: count for key, count in counts.items() if ":" in key}
    return dict(sorted(rules.items(), key=lambda entry: (-entry[1], entry[0])))


def _by_category(answered: Sequence[Distilled]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one in answered:
        row = found.setdefault(
            one.exchange.category or "none",
            {"n": 0, "with_lesson": 0, "emitted": 0, "facts": 0, "facts_covered": 0},
        )
        facts = len(one.exchange.key_facts) if one.exchange.should_emit else 0
        row["n"] += 1
        row["with_lesson"] += bool(one.exchange.should_emit)
        row["emitted"] += bool(one.outcome.candidates)
        row["facts"] += facts
        row["facts_covered"] += facts - len(missing_facts(one)) if facts else 0
    return dict(sorted(found.items()))


def _mistake(one: Distilled) -> dict[str, Any] | None:
    """Return what went wrong with one exchange, None for nothing; no text of it is repeated."""
    wrong: dict[str, Any] = {}
    wanted, emitted = one.exchange.should_emit, bool(one.outcome.candidates)
    if one.failure:
        wrong["not_answered"] = True
    elif emitted and not wanted:
        wrong["false_emit"] = True
    elif wanted and not emitted:
        wrong["missed_emit"] = one.skipped or ", ".join(sorted(one.outcome.counts)) or "nothing"
    elif wanted and (lacking := missing_facts(one)):
        wrong["missing_facts"] = list(lacking)
    if found := leaks(one):
        wrong["forbidden_leaks"] = len(found)
    return {"id": one.exchange.id, **wrong} if wrong else None
