"""The word a misspelt one was meant to be: one letter too many, missing, changed or swapped.

Bounded: one mistake leaves the first two letters or the last two as they are, so only
words that share either and have nearly the same length are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MISSPELT_LENGTH = 5
"""Letters from which a word is looked up: shorter ones are too often another word."""
Spellings = Mapping[tuple[int, str], list[str]]
"""Length and the first two letters, or minus the length and the last two, to the words."""


def build_spellings(words: Iterable[str]) -> Spellings:
    """Group the plain words that are long enough."""
    groups: dict[tuple[int, str], list[str]] = {}
    for word in words:
        if len(word) >= MISSPELT_LENGTH and word.isascii() and word.isalpha():
            groups.setdefault((len(word), word[:2]), []).append(word)
            groups.setdefault((-len(word), word[-2:]), []).append(word)
    return groups


def intended(spellings: Spellings, word: str) -> str | None:
    """Return the known word that is one mistake away, None where there is none."""
    if len(word) < MISSPELT_LENGTH or not word.isascii():
        return None
    for length in (len(word), len(word) + 1, len(word) - 1):
        for key in ((length, word[:2]), (-length, word[-2:])):
            for known in spellings.get(key, ()):
                if one_mistake(word, known):
                    return known
    return None


def one_mistake(word: str, known: str) -> bool:
    """Say whether two different words differ by one letter or by two swapped neighbours."""
    start, most = 0, min(len(word), len(known))
    while start < most and word[start] == known[start]:
        start += 1
    if word[start:] == known[start + 1 :] or word[start + 1 :] == known[start:]:
        return True
    swapped = word[start : start + 2] == known[start : start + 2][::-1]
    if swapped and word[start + 2 :] == known[start + 2 :]:
        return True
    # a changed letter in a short word makes another word too often: table, cable
    return len(word) > MISSPELT_LENGTH and word[start + 1 :] == known[start + 1 :]
