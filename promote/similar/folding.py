"""Tell what a model's word on two related lessons may bring about; words set the bounds.

A model that errs, or that a lesson's text talks over, must drop nothing that decides: the new
text may name nothing the old one does not name and advise, and forbid nothing of its own.
Where the new text is the old sentence with a few words exchanged, one is most likely put in
the other's place: then a model alone neither drops it nor calls it harmless.
Not covered: another meaning told in other words throughout; there the model alone decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from lessons_loop.filter.models import Lesson
from lessons_loop.promote.similar.opposition import contradicts, missing, subsequence
from lessons_loop.promote.similar.similarity import same_situation, takes_back
from lessons_loop.promote.similar.wording import TURNING, Word, has_condition, words_of

_NULL_TEST = re.compile(r"(\w+)\s+is\s+(not\s+)?null\b")
SAME_SENTENCE = 0.6
"""Share of its words, in order, from which a text is the other one with words exchanged."""


def may_fold(new: Lesson, old: Lesson) -> bool:
    """Say whether `new` could be `old` in other words: nothing in it that decides differs."""
    mine, theirs = words_of(new.text), words_of(old.text)
    if _adds(mine, theirs) or _reorders_names(mine, theirs) or _advises_a_reason(mine, theirs):
        return False
    if exchanges_words(new.text, old.text):
        return False
    if has_condition(old.text) and not has_condition(new.text):
        return False
    kept = not takes_back(theirs) - takes_back(mine) and same_situation(new, old)
    return kept and not contradicts(new.text, old.text)


def may_release(new: Lesson, old: Lesson) -> bool:
    """Say whether `new` could stand beside `old`: it does not just exchange words of it."""
    whole = subsequence(words_of(old.text), words_of(new.text))
    if tests_the_opposite(new.text, old.text):
        return False
    return whole is not None or not exchanges_words(new.text, old.text)


def tests_the_opposite(new: str, old: str) -> bool:
    """Say whether one text wants a column empty that the other wants filled."""
    mine, theirs = (dict(_NULL_TEST.findall(text.casefold())) for text in (new, old))
    return any(bool(theirs[name]) != bool(mine[name]) for name in mine.keys() & theirs.keys())


def exchanges_words(new: str, old: str) -> bool:
    """Say whether `new` is the sentence of `old` with other words in some of its places."""
    left = [word.signed for word in words_of(new)]
    right = [word.signed for word in words_of(old)]
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    matched = sum(block.size for block in blocks)
    return matched < len(left) and matched >= SAME_SENTENCE * len(left)


def _adds(mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    """Say whether a word of its own is a name, a negation, or turns advice round."""
    forms = {word.form for word in theirs}
    return any(
        word.hard
        or word.negated
        or word.form in forms
        or {word.form, word.shown.casefold()} & TURNING
        for word in missing(mine, theirs)
    )


def _reorders_names(mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    names = [word for word in mine if word.hard]
    return bool(names) and subsequence(names, theirs) is None


def _advises_a_reason(mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    """Say whether it advises a name that the old one only gives as a reason."""
    advised = {word.form for word in theirs if word.hard and word.advice}
    return any(word.hard and word.advice and word.form not in advised for word in mine)
