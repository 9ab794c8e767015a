"""Group repeats: the same lesson seen again, in the same words or others.

Covered: equal keys; a candidate that says nothing another one does not say.
Not covered: merely related candidates: each is judged on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Candidate, Lesson
from lessons_loop.promote.records import Archived
from lessons_loop.promote.similar.similarity import repeats

Sighted = TypeVar("Sighted", Candidate, Archived)


@dataclass(frozen=True)
class Group:
    """Sightings of one lesson, oldest first."""

    lesson: Lesson
    """The fullest wording; the others say nothing it does not say."""
    candidates: tuple[Candidate, ...]
    """Staged and held sightings."""
    staged: tuple[str, ...] = ()
    """Ids of those that lie in staging."""
    held: tuple[Archived, ...] = ()
    """Held lessons among them."""

    @property
    def key(self) -> str:
        """Key of the lesson judged."""
        return self.lesson.key

    @property
    def sightings(self) -> int:
        """How many answers showed it."""
        return len({candidate.message_ref for candidate in self.candidates})

    @property
    def users(self) -> int:
        """Distinct users who showed it in distinct chats."""
        return count_users(self.candidates)


def count_users(candidates: Iterable[Candidate]) -> int:
    """Return how many users showed it in chats of their own; nameless ones count as nobody."""
    chats: dict[str, set[str]] = {}
    for seen in candidates:
        if seen.user_ref and seen.chat_ref:
            chats.setdefault(seen.user_ref, set()).add(seen.chat_ref)
    taken: dict[str, str] = {}
    return sum(_seat(user, chats, taken, set()) for user in chats)


def _seat(user: str, chats: Mapping[str, set[str]], taken: dict[str, str], tried: set[str]) -> bool:
    for chat in sorted(chats[user] - tried):
        tried.add(chat)
        if chat not in taken or _seat(taken[chat], chats, taken, tried):
            taken[chat] = user
            return True
    return False


def group_repeats(
    candidates: Sequence[Candidate],
    held: Sequence[Archived],
    vector_of: Callable[[Lesson], Vectors] | None,
    threshold: float,
) -> list[Group]:
    """Return the groups in order of their oldest sighting.

    `vector_of` gives a lesson's unit vector; None: only equal keys are grouped.
    """
    lessons = _by_key(candidates, held)
    leads = _leads(list(lessons.values()), vector_of, threshold)
    members: dict[str, list[str]] = {}
    for key in lessons:
        members.setdefault(leads[key], []).append(key)
    seen, rows = _indexed(candidates), _indexed(held)
    return [_group(lessons[lead], keys, seen, rows) for lead, keys in members.items()]


def _by_key(candidates: Sequence[Candidate], held: Sequence[Archived]) -> dict[str, Lesson]:
    lessons: dict[str, Lesson] = {}
    for lesson in (*(row.lesson for row in held), *(seen.lesson for seen in candidates)):
        lessons.setdefault(lesson.key, lesson)
    return lessons


def _leads(
    lessons: Sequence[Lesson],
    vector_of: Callable[[Lesson], Vectors] | None,
    threshold: float,
) -> dict[str, str]:
    """Return, for each key, the key of the lesson that says all of it."""
    leads = {lesson.key: lesson.key for lesson in lessons}
    if vector_of is None or len(lessons) < 2:
        return leads
    longest = sorted(lessons, key=lambda lesson: -len(lesson.text))
    heads: list[Lesson] = []
    rows = np.empty((len(lessons), len(vector_of(lessons[0]))), dtype=np.float32)
    for lesson in longest:
        vector = vector_of(lesson)
        head = _head(lesson, heads, rows[: len(heads)] @ vector, threshold)
        if head is None:
            rows[len(heads)] = vector
            heads.append(lesson)
        else:
            leads[lesson.key] = head.key
    return leads


def _head(
    lesson: Lesson, heads: Sequence[Lesson], cosines: Vectors, threshold: float
) -> Lesson | None:
    """Return the nearest of `heads` that says all of `lesson`."""
    near = np.flatnonzero(cosines >= threshold)
    for at in map(int, near[np.argsort(-cosines[near], kind="stable")]):
        if repeats(lesson, heads[at], float(cosines[at]), threshold):
            return heads[at]
    return None


def _indexed(things: Sequence[Sighted]) -> dict[str, list[Sighted]]:
    found: dict[str, list[Sighted]] = {}
    for thing in things:
        found.setdefault(thing.lesson.key, []).append(thing)
    return found


def _group(
    lesson: Lesson,
    keys: Sequence[str],
    candidates: Mapping[str, list[Candidate]],
    held: Mapping[str, list[Archived]],
) -> Group:
    mine = [row for key in keys for row in held.get(key, ())]
    staged = [seen for key in keys for seen in candidates.get(key, ())]
    seen = {found.id: found for row in mine for found in row.all_sightings}
    seen |= {found.id: found for found in staged}
    ordered = sorted(seen.values(), key=lambda found: (found.at, found.id))
    return Group(lesson, tuple(ordered), tuple(found.id for found in staged), tuple(mine))
