"""Placebo lessons: as many, of the same length, about nothing that matters to the chat.

What the block's mere presence does (its length, its tone) shows in the placebo arm; only
what `on` does beyond it is the lessons' own. The texts are shipped in `placebo.yaml`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Annotated, Literal

import yaml
from pydantic import Field

from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.lexical import terms
from lessons_loop.filter.models import (
    TEXT_LIMIT,
    TRIGGER_LIMIT,
    Curated,
    FrozenModel,
    Lesson,
)
from lessons_loop.promote.lint.language import guess_language
from lessons_loop.promote.proof.proving import LessonSet

TOLERANCE = 0.10
"""How much longer or shorter a placebo may be than its original."""
TRIES = 60
"""Orders of the shipped texts that are tried for a text no other placebo has."""
OR = ", "
"""Between triggers."""
SYLLABLES = ("la", "mo", "ri", "fu", "ne", "bo", "ta", "si")


class PlaceboText(FrozenModel):
    """One shipped piece of irrelevant advice."""

    topic: str
    lang: Literal["en", "de"]
    kind: Kind
    trigger: Annotated[str, Field(max_length=TRIGGER_LIMIT)]
    text: Annotated[str, Field(max_length=TEXT_LIMIT)]


@cache
def placebo_texts() -> tuple[PlaceboText, ...]:
    """Return the shipped texts."""
    content = files("lessons_loop.eval").joinpath("placebo.yaml").read_text("utf-8")
    return tuple(PlaceboText.model_validate(row) for row in yaml.safe_load(content))


def placebo_for(lessons: Sequence[Curated], seed: int) -> tuple[Curated, ...]:
    """Return one irrelevant lesson for each, same order, trigger and text as long within 10 %.

    None shares a term with any of the originals; the same for the same lessons and seed.
    """
    avoided = frozenset().union(*(_terms_of(one.lesson) for one in lessons))
    return _placebos(lessons, seed, avoided)


def placebo_set(found: LessonSet, seed: int) -> LessonSet:
    """Return the set with irrelevant texts under the same vectors, tags and counters.

    No lesson shares a term with its own original. Recall by vectors finds the same places;
    the share of words in its scores is gone, so a few questions get fewer lessons.
    """
    rows = _placebos(found.lessons, seed, None)
    kept = [
        row.model_copy(update={"lesson": row.lesson.model_copy(update={"tags": one.lesson.tags})})
        for row, one in zip(rows, found.lessons, strict=True)
    ]
    return replace(found, lessons=tuple(kept))


def _placebos(
    lessons: Sequence[Curated], seed: int, avoided: frozenset[str] | None
) -> tuple[Curated, ...]:
    made: list[Curated] = []
    taken: set[str] = set()
    for one in lessons:
        away = _terms_of(one.lesson) if avoided is None else avoided
        fresh = _placebo(one, seed, away, taken)
        taken.add(fresh.key)
        made.append(fresh)
    return tuple(made)


def _placebo(original: Curated, seed: int, avoided: frozenset[str], taken: set[str]) -> Curated:
    """Return an irrelevant lesson whose key is not taken, as far as so short a text can."""
    old = original.lesson
    for salt in range(TRIES):
        chance = random.Random(f"{original.key}|{seed}|{salt}")
        order = _ordered(old, avoided, chance)
        lesson = Lesson(
            domain=old.domain,
            text=_filled([one.text for one in order], " ", len(old.text), avoided, salt),
            kind=order[0].kind,
            trigger=_filled([one.trigger for one in order], OR, len(old.trigger), avoided, 0),
            status=old.status,
            source="placebo",
        )
        if lesson.key not in taken:
            break
    return original.model_copy(
        update={"lesson": lesson, "seed_id": "", "supersedes": "", "proof": ""}
    )


def _ordered(old: Lesson, avoided: frozenset[str], chance: random.Random) -> list[PlaceboText]:
    """Shuffle the texts: those of the lesson's language first, those that share a word last.

    These come without the words they share.
    """
    german = guess_language(old.text) == "de"
    alone: list[PlaceboText] = []
    sharing: list[PlaceboText] = []
    for one, known in chance.sample(_shipped(), len(_shipped())):
        if known.isdisjoint(avoided):
            alone.append(one)
        else:
            kept = {
                name: _without_words(getattr(one, name), avoided) for name in ("text", "trigger")
            }
            sharing.append(one.model_copy(update=kept))
    return [
        *sorted(alone, key=lambda one: (one.lang == "de") is not german),
        *sorted(sharing, key=lambda one: (one.lang == "de") is not german),
    ]


@cache
def _shipped() -> tuple[tuple[PlaceboText, frozenset[str]], ...]:
    """Return the shipped texts, each with its terms."""
    return tuple((one, frozenset(terms(f"{one.trigger} {one.text}"))) for one in placebo_texts())


def _terms_of(lesson: Lesson) -> frozenset[str]:
    return frozenset(terms(lesson.searched_text))


def _filled(
    parts: Sequence[str], between: str, length: int, avoided: frozenset[str], salt: int
) -> str:
    """Return a text of about `length` characters out of the parts, the first that fits."""
    spare = int(length * TOLERANCE)
    least = length - spare
    longest = min(length + spare, TRIGGER_LIMIT if between == OR else TEXT_LIMIT)
    parts = [part for part in parts if part]
    wholes = () if salt else _wholes(parts, between, longest)
    for text in chain(wholes, _cuts(parts, between, length, salt)):
        if least <= len(text) <= longest and not terms(text) & avoided:
            return text
    return _syllables(length, avoided)


def _without_words(text: str, avoided: frozenset[str]) -> str:
    return " ".join(word for word in text.split() if not terms(word) & avoided)


def _wholes(parts: Sequence[str], between: str, longest: int) -> Iterator[str]:
    """Yield whole parts, one, then two, then more of them behind one another."""
    for count in range(1, 6):
        for start in range(len(parts)):
            text = between.join(parts[start : start + count])
            if len(text) <= longest:
                yield text


def _cuts(parts: Sequence[str], between: str, length: int, salt: int) -> Iterator[str]:
    """Yield texts cut between words near the length, then within one.

    With another `salt` the first part is cut short too, so that many different texts come about.
    """
    for start in range(len(parts)):
        head = parts[start]
        if salt:
            head = head[: length * (2 + salt % 7) // 10].rpartition(" ")[0]
        whole = between.join(filter(None, [head, *parts[start + 1 :], *parts[:start]]))
        text = whole[: length + 40]
        yield from sorted(_ends(text, length), key=lambda end: abs(len(end) - length))
    for part in parts:
        yield part[:length].strip()


def _ends(text: str, length: int) -> Iterator[str]:
    """Yield the text up to each word that ends near the length, closed like a sentence."""
    at = text.find(" ", max(0, int(length * (1 - TOLERANCE)) - 2))
    while 0 <= at <= length * (1 + TOLERANCE) + 1:
        bare = text[:at].rstrip(" ,;:.")
        yield bare
        yield f"{bare}."
        at = text.find(" ", at + 1)


def _syllables(length: int, avoided: frozenset[str]) -> str:
    """Return words without a meaning: for a lesson that uses up the shipped ones."""
    words: list[str] = []
    chance = random.Random(length)
    while len(" ".join(words)) < length:
        word = "".join(chance.choices(SYLLABLES, k=chance.randint(2, 4)))
        if not terms(word) & avoided:
            words.append(word)
    text = " ".join(words)[:length].strip()
    return text if len(text) == length else f"{text}o"
