"""Lift by topic: where lessons help and where they do not. Too few questions for a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lessons_loop.eval.stats.pairs import Effect, Pair


@dataclass(frozen=True)
class TopicRow:
    """One topic; rates are means over its questions."""

    topic: str
    questions: int
    off: float
    on: float
    fixed: int
    broken: int


def topic_rows(pairs: Iterable[Pair]) -> list[TopicRow]:
    """Return the topics of the pairs, the worst lift first."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.topic, []).append(pair)
    found = [_topic(name, mine) for name, mine in groups.items()]
    return sorted(found, key=lambda one: (one.on - one.off, one.topic))


def _topic(name: str, pairs: Sequence[Pair]) -> TopicRow:
    effects = [pair.effect for pair in pairs]
    off = sum(pair.off for pair in pairs) / len(pairs)
    on = sum(pair.on for pair in pairs) / len(pairs)
    counts = effects.count(Effect.FIXED), effects.count(Effect.BROKEN)
    return TopicRow(name, len(pairs), round(off, 4), round(on, 4), *counts)
