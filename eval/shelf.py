"""Lessons in memory: a store's curated set copied, changed, and recalled from like the filter does.

Covered: rendering, calibration, reading of questions, scores, floors and choice are the
product's own code; the store keeps every byte. Not covered: the reranker, what a chat was
shown before (each question is asked in a new chat), lessons of a second domain.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lessons_loop.filter.embed import (
    Embedder,
    Fingerprint,
    Purpose,
    Vectors,
    fingerprint,
    unit_rows,
)
from lessons_loop.filter.errors import EmbeddingMismatch, StoreMissing
from lessons_loop.filter.lessons_filter import limits_of
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import parse_published
from lessons_loop.filter.question import read_question, views
from lessons_loop.filter.recall import judge, select
from lessons_loop.filter.recall_index import RecallIndex, build_index
from lessons_loop.filter.recaller import floor_for
from lessons_loop.filter.valves import LessonsValves
from lessons_loop.promote.embedding.calibrate import calibrate
from lessons_loop.promote.proof.proving import LessonSet, lesson_set_of
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.store.publish import Edition, render


def copied_set(
    store: str, domain: str, state: Path | None = None, embedder: Embedder | None = None
) -> LessonSet:
    """Return a store's curated set, read on a throw-away copy; raise StoreError, EmbedError."""
    settings = GateSettings(store, domain, state, embedder, dry_run=True)
    with open_gate(settings) as session:
        if session.created:
            raise StoreMissing(
                f"{session.store.title} has no domain {session.domain}: run `lessons init`, or"
                " name the lessons' own with --domain"
            )
        return lesson_set_of(session)


def without(found: LessonSet, keys: Collection[str]) -> LessonSet:
    """Return the set without the lessons of these keys; an unknown key changes nothing."""
    gone = frozenset(keys)
    kept = [place for place, lesson in enumerate(found.lessons) if lesson.key not in gone]
    lessons = tuple(found.lessons[place] for place in kept)
    return replace(found, lessons=lessons, vectors=found.vectors[kept])


def joined(found: LessonSet, rows: Sequence[Curated], vectors: Vectors) -> LessonSet:
    """Return the set with further lessons behind; one of the same key is replaced.

    `vectors` are their unit rows, shape (len(rows), dimension).
    """
    if len(rows) != len(vectors):
        raise ValueError(f"{len(rows)} lessons with {len(vectors)} vectors")
    if not rows:
        return found
    kept = without(found, {row.key for row in rows})
    together = np.concatenate([kept.vectors, vectors]) if len(kept.lessons) else vectors
    return replace(kept, lessons=(*kept.lessons, *rows), vectors=together)


def digest_of(found: LessonSet) -> str:
    """Return the sha256 (hex) of what recall reads of the lessons, whatever their order.

    Counters are left out: a thumb does not make another set.
    """
    told = sorted(
        [one.key, one.lesson.text, one.lesson.trigger, *one.lesson.tags] for one in found.lessons
    )
    return hashlib.sha256(json.dumps(told, ensure_ascii=True).encode()).hexdigest()


class KnownTexts:
    """An embedder that asks for each text once; several shelves may share one, and threads."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._rows: dict[tuple[Purpose, str], Vectors] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.embedder.name

    @property
    def prefixes(self) -> tuple[str, str]:
        """The model's prefixes."""
        return self.embedder.prefixes

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows, shape (len(texts), dimension); raise EmbedError."""
        with self._lock:  # one model, two cores: side by side it would not be faster
            missing = [t for t in dict.fromkeys(texts) if (purpose, t) not in self._rows]
            if missing:
                found = unit_rows(self.embedder.embed(missing, purpose), len(missing))
                keys = [(purpose, text) for text in missing]
                self._rows.update(zip(keys, found, strict=True))
            rows = [self._rows[purpose, text] for text in texts]
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)


def known_texts(embedder: Embedder) -> KnownTexts:
    """Return the embedder as one that remembers, itself where it does."""
    return embedder if isinstance(embedder, KnownTexts) else KnownTexts(embedder)


class Shelf:
    """A lesson set as recall has it after publishing; may be asked from several threads."""

    def __init__(
        self, found: LessonSet, embedder: Embedder | None, valves: LessonsValves | None = None
    ) -> None:
        """Calibrate and index the set; raise EmbedError, EmbeddingMismatch.

        Without an embedder, or where the lessons have no vectors, words alone decide.
        """
        self.lessons = found
        self.limits = limits_of(valves or LessonsValves())
        dense = bool(found.lessons) and found.fingerprint is not None
        self._embedder = known_texts(embedder) if embedder is not None and dense else None
        if self._embedder is not None and found.fingerprint is not None:
            refuse_other_model(found.fingerprint, self._embedder)
        self.index = index_of(found, self._embedder)

    def recalled(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Curated, ...]:
        """Return what the filter would inject for these messages in a chat new to it, in order."""
        asked = views(read_question(messages, None))
        index, limits = self.index, self.limits
        if not index.keys or not asked.texts or not (limits.top_k and limits.token_budget):
            return ()
        vectors = self._embedder.embed(asked.texts, Purpose.QUERY) if self._embedder else None
        return select(
            index,
            judge(index, asked.texts, vectors, asked.follow_up).scores,
            floor=floor_for(index, limits, vectors),
            top_k=limits.top_k,
            token_budget=limits.token_budget,
        )


def index_of(found: LessonSet, embedder: Embedder | None) -> RecallIndex:
    """Publish the lessons in memory as the gate does and load them as the filter does."""
    dense = found.fingerprint is not None
    vectors = found.vectors if dense else np.zeros((len(found.lessons), 0), np.float32)
    edition = Edition(found.domain, found.rev, found.lessons, vectors, found.fingerprint)
    header, body = render(edition, calibrate(found.lessons, vectors, embedder))
    return build_index([parse_published(Path("lessons"), header, body)])


def refuse_other_model(stored: Fingerprint, embedder: Embedder) -> None:
    """Raise EmbeddingMismatch: the filter would go on by words alone, and the figures with it."""
    found = fingerprint(embedder)
    if not stored.matches(found):
        raise EmbeddingMismatch(
            f"the lessons were embedded by {stored.name or 'an unnamed model'} "
            f"({stored.dimension} dimensions), the evaluation's model is {found.name} "
            f"({found.dimension}): pass the store's own with --embedding"
        )
