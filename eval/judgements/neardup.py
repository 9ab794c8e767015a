"""Score what the gate makes of pairs: a curated lesson, and a new one beside it.

Each pair is compared alone, through the gate's own code: `a` is curated, `b` is new, both
without a trigger of their own (a pair has none, so one that says nothing stands in both).
Covered: the relation that rules find, and what a model's judgement makes of a related pair.
Not covered: the rest of the gate (lint, corroboration, review), and other curated lessons
standing nearer than the right one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessons_loop.eval.rows import share
from lessons_loop.filter.embed import Embedder, Purpose, Vectors, fingerprint
from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.models import Curated, Lesson, Status
from lessons_loop.promote.gate import RELATION_REASONS
from lessons_loop.promote.similar.judge import Judgement, PairJudge, relation_after
from lessons_loop.promote.similar.similarity import DUPLICATE, RELATED, UNRELATED, level_of, nearest

LABELS = ("duplicate", "distinct", "contradiction")
DROPPED, HELD, LET_THROUGH = "dropped", "held", "let_through"
EMBED_BATCH = 256
_WHEN = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Pair:
    """A curated and a new lesson, and how they stand to each other."""

    id: str
    old: Lesson
    new: Lesson
    label: str
    """duplicate, distinct or contradiction."""
    relation: str
    """How the pair was made: paraphrase, subset, superset, number, negation, …"""


@dataclass(frozen=True)
class Compared:
    """What became of the new lesson of a pair."""

    pair: Pair
    ending: str
    """dropped, held or let_through."""
    relation: str
    """What decided: duplicate, conflict, related, broader or unrelated."""
    similarity: float
    judgement: Judgement | None = None


def parse_pair(row: Any) -> Pair:
    """Read one record of a file of pairs; raise KeyError, TypeError or ValueError."""
    label = row["label"]
    if label not in LABELS:
        raise ValueError(f"label is none of {', '.join(LABELS)}")
    old, new = (_lesson(row[side]) for side in ("a", "b"))
    return Pair(str(row["id"]), old, new, label, str(row["relation"]))


def _lesson(text: str) -> Lesson:
    return Lesson(domain="eval", text=text, kind=Kind.RESOLUTION_PATTERN, trigger="any question")


class PairGate:
    """Compares pairs as the gate does; raises EmbedError."""

    def __init__(self, pairs: Sequence[Pair], embedder: Embedder, judge: PairJudge | None) -> None:
        self.judge = judge
        self._level = level_of(fingerprint(embedder))
        self._rows = dict(_embedded((text for pair in pairs for text in _texts(pair)), embedder))

    def compare(self, pair: Pair, threshold: float) -> Compared:
        """Return what becomes of the new lesson; `threshold` as in `promote`."""
        curated = Curated(
            lesson=pair.old.model_copy(update={"status": Status.CURATED}), since=_WHEN
        )
        row, vector = self._rows[pair.old.text], self._rows[pair.new.text]
        matrix = ([curated.key], row[None, :])
        known = {curated.key: curated}
        near = nearest(pair.new, vector, known, matrix, threshold, level=self._level)
        relation = near.relation if near else UNRELATED
        cosine = near.similarity if near else 0.0
        if relation != RELATED or self.judge is None:
            return Compared(pair, _ending(relation), relation, cosine)
        said = self.judge.judge(pair.new, pair.old)
        settled = relation_after(said, pair.new, pair.old, cosine) if said else RELATED
        return Compared(pair, _ending(settled), settled, cosine, said)


def _texts(pair: Pair) -> tuple[str, str]:
    return pair.old.text, pair.new.text


def _embedded(texts: Iterable[str], embedder: Embedder) -> Iterator[tuple[str, Vectors]]:
    unique = list(dict.fromkeys(texts))
    for start in range(0, len(unique), EMBED_BATCH):
        batch = unique[start : start + EMBED_BATCH]
        yield from zip(batch, np.asarray(embedder.embed(batch, Purpose.DOCUMENT)), strict=True)


def _ending(relation: str) -> str:
    if relation == DUPLICATE:
        return DROPPED
    return HELD if relation in RELATION_REASONS else LET_THROUGH


def score_pairs(done: Sequence[Compared], judge: PairJudge | None) -> dict[str, Any]:
    """Return the figures: shares of a class (0 to 1, None of nothing), and counts.

    A duplicate is caught when it is dropped, or held with its curated lesson shown: the
    neighbour of a pair is always the right one.
    """
    endings = {label: Counter[str]() for label in LABELS}
    for one in done:
        endings[one.pair.label][one.ending] += 1

    def part(label: str, *wanted: str) -> float | None:
        found = endings[label]
        return share(sum(found[ending] for ending in wanted), found.total())

    return {
        "contradictions_dropped": part("contradiction", DROPPED),
        "contradictions_let_through": part("contradiction", LET_THROUGH),
        "distinct_dropped": part("distinct", DROPPED),
        "distinct_held": part("distinct", HELD),
        "duplicates_dropped": part("duplicate", DROPPED),
        "duplicates_caught": part("duplicate", DROPPED, HELD),
        "n_pairs": len(done),
        "n": {label: found.total() for label, found in endings.items()},
        "by_relation": _by_relation(done),
        "judged": dict(judge.counts) if judge else {},
        "judging_ended": judge.ended if judge else "",
        "mistakes": [_mistake(one) for one in done if _is_mistake(one)],
    }


def _by_relation(done: Sequence[Compared]) -> list[dict[str, Any]]:
    """Return one row per label and relation: n, endings, and what decided."""
    table: dict[tuple[str, str], list[Compared]] = {}
    for one in sorted(done, key=lambda one: (LABELS.index(one.pair.label), one.pair.relation)):
        table.setdefault((one.pair.label, one.pair.relation), []).append(one)
    return [
        {"label": label, "relation": relation, "n": len(rows)}
        | {DROPPED: 0, HELD: 0, LET_THROUGH: 0}
        | Counter(one.ending for one in rows)
        | {"decided": dict(Counter(one.relation for one in rows))}
        for (label, relation), rows in table.items()
    ]


def _is_mistake(one: Compared) -> bool:
    if one.pair.label == "duplicate":
        return one.ending == LET_THROUGH
    return one.ending != (HELD if one.pair.label == "contradiction" else LET_THROUGH)


def _mistake(one: Compared) -> Mapping[str, Any]:
    return {
        "id": one.pair.id,
        "label": one.pair.label,
        "relation": one.pair.relation,
        "ending": one.ending,
        "decided": one.relation,
        "similarity": one.similarity,
        "judgement": one.judgement.word.value if one.judgement else "",
    }
