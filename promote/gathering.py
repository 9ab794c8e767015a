"""Gather what waits for a decision: embed in batches, group what says the same.

Groups are made by the texts alone: one lesson told under two triggers is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lessons_loop.filter.models import Candidate
from lessons_loop.promote.cases import Casebook
from lessons_loop.promote.similar.groups import Group, group_repeats

EMBED_BATCH = 64

Progress = Callable[[str, int, int], None]
"""Called with what is done, how many are done, how many there are."""


def no_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


def gather(book: Casebook, candidates: Sequence[Candidate], progress: Progress) -> list[Group]:
    """Return staged and held lessons, grouped by what they say; raise EmbedError."""
    held, threshold = book.session.held(), book.rules.dup_threshold
    if not book.compares:
        return group_repeats(candidates, held, None, threshold)
    lessons = [*(seen.lesson for seen in candidates), *(row.lesson for row in held)]
    _embed_all(book, [lesson.text for lesson in lessons], progress, "embedding")
    groups = group_repeats(candidates, held, lambda lesson: book.texts([lesson])[0], threshold)
    leads = [group.lesson.embedded_text for group in groups]
    _embed_all(book, leads, progress, "embedding with triggers")
    return groups


def _embed_all(book: Casebook, texts: Sequence[str], progress: Progress, what: str) -> None:
    unique = list(dict.fromkeys(texts))
    for start in range(0, len(unique), EMBED_BATCH):
        progress(what, start, len(unique))
        book.session.embed(unique[start : start + EMBED_BATCH])
    progress(what, len(unique), len(unique))
