"""Split a lesson into the words that carry its meaning, each with its sign.

A word under a negation is another word than the same one without: `divide` and
`not divide` never match. Articles, copulas and pronouns are left out; direction
(on, off, before, without) stays, because it turns advice round.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from lessons_loop.promote.lint.imperative import Mood, mood_of
from lessons_loop.promote.lint.language import word_set

_STOP = word_set(
    "the a an and of is are be was were been being it its they them their that which who so as at "
    "in for by with to this these those there then can may will would do does did has have had "
    "when if where while because since once also just you your "
    "der die das den dem des ein eine einen einem einer und ist sind es sie für mit von zu im am "
    "wenn weil auch le la les un une des du de et est sont il elle pour avec par que qui quand "
    "el los las unos una y es son para con del al se cuando lo gli i e è sono per di da che quando "
    "o os as um uma é são em no na do het een en van voor met op als"
)
_NEGATORS = word_set(
    "not no never cannot without neither nor none avoid don't doesn't isn't aren't won't can't "
    "mustn't shouldn't nicht kein keine keinen nie niemals ohne statt anstatt ne pas jamais "
    "sans nunca jamás sin non mai senza não nem sem niet geen nooit zonder не нет без никогда"
)
_NEGATING_PHRASES = re.compile(
    r"\b(?:instead of|rather than|in place of|plutôt que|au lieu de|en lugar de|en vez de"
    r"|invece di|em vez de|in plaats van|вместо)\b",
    re.IGNORECASE,
)
_INSTEAD = "\u2260"
"""Stands in for a phrase such as "instead of", padded: places in the text stay what they are."""
_SCOPE_ENDS = word_set("when if because since so but and or then as for where wenn weil quand")
_PHRASE_ENDS = word_set("to for on in für auf bei pour dans para en per in voor op для")
"""Words that end what stands behind "instead of": one phrase, not the rest of the clause."""
_LISTING = re.compile(r"\s*(?!(?:but|then|use|instead)\b)\S+(?:\s+[^\s,;.]+){0,2}?(?:,|\s+n?or\b)")
"""What follows a comma inside a list: `never by LIKE, ILIKE or = on …`."""
_ALTERNATIVE = re.compile(r"\s*(?!(?:it|they|you|this|that|else|the|a|an)\b)\S")
_PART = re.compile(r"[.;:!?]\s+|,?\s+(?=(?:because|since|otherwise|so that|weil|denn|sonst)\b)")
TURNING = word_set(
    "off out down before after above below under over more less least most min max minimum maximum "
    "first last unless except only until on up in from to or "
    "不 没 沒 無 无 别 勿 非 未 な ず 안 않 못 말"
)
"""Words whose loss inside a match can turn the advice round."""
CONDITIONS = word_set(
    "when if while once unless where whenever wenn falls sobald quand si lorsque cuando quando als"
)
EXCEPTIONS = word_set(
    "unless except excluding but besides sauf sinon salvo excepto tranne außer ausser behalve кроме"
)
"""Words that take something back, wherever in the text they stand."""
_OPPOSITES = {
    frozenset(pair.split("/"))
    for pair in word_set(
        "enabl/disabl on/off true/false alway/never befor/after allow/deny allow/forbid up/down "
        "rais/low increas/decreas add/remov abov/below more/less first/last staging/production "
        "min/max old/new read/writ start/stop push/pull includ/exclud with/without"
    )
}
_CHUNK = re.compile(
    r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,])|[^\s,;()\[\]{}\"'`“”‘’、。，；：「」]+|[;,]|(?<=[^\s])[.:](?=\s|$)"
)
_QUOTED = re.compile(r"[\"'`‘“]([^\s\"'`’”]+)[\s]?[\"'`’”]")
"""One word in quotes stands for itself, as a name does."""
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NUMBER = re.compile(r"^[<>=~]*\d[\d.,]*%?$")
_IDENTIFIER = re.compile(
    r"_|\d.*[A-Za-z]|[A-Za-z].*\d|[a-z][A-Z]|[\w)]\.\w|/|=|::|^--?\w|^[A-Z]{2,}[a-z]?$|^[$@#*]|\*$"
)


class Word(NamedTuple):
    """One word that carries meaning."""

    form: str
    """For comparing: stem of a word, the very letters of an identifier or number."""
    shown: str
    negated: bool
    hard: bool
    """A number, an identifier or a name: another one means another thing."""
    clause: int
    advice: bool = True
    """False: it only explains why."""
    end: int = 0
    """Where in the text it ends."""

    @property
    def signed(self) -> tuple[str, bool]:
        """The form with its sign."""
        return self.form, self.negated


@lru_cache(maxsize=4_096)
def words_of(text: str) -> tuple[Word, ...]:
    """Return the meaning-carrying words of `text`, in order."""
    marked = _NEGATING_PHRASES.sub(lambda found: _INSTEAD.ljust(len(found.group())), text)
    reader = _Reader(marked)
    for chunk in _CHUNK.finditer(marked):
        reader.take(chunk.group(), marked[chunk.end() :], chunk.start())
    reader.end_clause()
    return tuple(reader.found)


def _reasons(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the parts that advise nothing; the first part always advises."""
    breaks = [found.end() for found in _PART.finditer(text)]
    for start, end in pairwise([*breaks, len(text)]):
        if mood_of(text[start:end]) is Mood.STATEMENT:
            yield start, end


class _Reader:
    """Collects words, keeping track of clause and negation."""

    def __init__(self, text: str) -> None:
        self.found: list[Word] = []
        self._reasons = tuple(_reasons(text))
        self._quoted = frozenset(found.start(1) for found in _QUOTED.finditer(text))
        self._negator = ""
        self._clause = 0
        self._bare_at = -1  # a negator with nothing behind it negates its clause

    def take(self, chunk: str, rest: str, place: int) -> None:
        """Read one chunk; `rest` is the text behind it."""
        bare = chunk.strip(".:!?…")
        if not bare or bare in ",;":
            if not (self._negator and chunk == "," and _LISTING.match(rest)):
                self.end_clause()
            return
        lower = bare.casefold().replace("’", "'")
        if (lower in _NEGATORS and not bare.isupper()) or lower == _INSTEAD:
            self._negator, self._bare_at = lower, len(self.found)
            if chunk[-1] in ".!?":
                self.end_clause()
            return
        said = self._bare_at != len(self.found)  # `not when it runs`: what follows is negated
        if said and not bare.isupper() and self._ends_scope(lower, rest):
            self._negator = ""
        advice = not any(start <= place < end for start, end in self._reasons)
        words = _words(bare, lower, bool(self._negator), self._clause, first=not self.found)
        hard = any(word.hard for word in words) or place in self._quoted
        end = place + len(chunk)
        self.found += [word._replace(advice=advice, hard=hard, end=end) for word in words]
        if chunk[-1] in ".:!?":
            self.end_clause()

    def end_clause(self) -> None:
        """Close a clause: `nutze das nicht` negates all of it."""
        if self._bare_at == len(self.found):
            self.found = _negate_clause(self.found, self._clause)
        self._negator, self._bare_at = "", -1
        self._clause += 1

    def _ends_scope(self, lower: str, rest: str) -> bool:
        if lower in ("or", "nor"):
            return not _ALTERNATIVE.match(rest)
        return lower in _SCOPE_ENDS or (self._negator == _INSTEAD and lower in _PHRASE_ENDS)


def _negate_clause(words: list[Word], clause: int) -> list[Word]:
    return [word._replace(negated=True) if word.clause == clause else word for word in words]


def has_condition(text: str) -> bool:
    """Say whether the advice is bound to a condition."""
    return any(word.casefold() in CONDITIONS for word in re.findall(r"\w+", text))


def is_identifier(form: str) -> bool:
    """Say whether a form is written as code is, not as a word or a number."""
    return bool(_IDENTIFIER.search(form)) and not _NUMBER.match(form)


def opposed(left: str, right: str) -> bool:
    """Say whether two forms are opposites."""
    return frozenset((left, right)) in _OPPOSITES


def _words(bare: str, lower: str, negated: bool, clause: int, *, first: bool) -> list[Word]:
    if _CJK.search(bare):
        return [Word(letter, letter, negated, False, clause) for letter in bare]
    if _NUMBER.match(bare):
        plain = bare.strip("<>=~").rstrip(".,")
        return [Word(_plain_number(plain), bare, negated, True, clause)]
    if _IDENTIFIER.search(bare):
        return [Word(bare, bare, negated, True, clause)]
    parts = [part for part in re.split(r"[-–—/]", bare) if part]
    named = bare[:1].isupper() and not first
    return [
        Word(stem(part), part, negated, named, clause)
        for part in parts
        if part.casefold() not in _STOP or len(parts) > 1
    ]


def _plain_number(text: str) -> str:
    """Return 10,000 and 10000 alike; 1.5 and 1,5 too."""
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", text):
        return text.replace(",", "")
    return text.replace(",", ".")


def stem(word: str) -> str:
    """Return a form equal for the usual inflections of an English word, and plurals elsewhere."""
    plain = word.casefold().removesuffix("'s").removesuffix("’s")
    for suffix, rest in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e")):
        if plain.endswith(suffix) and len(plain) - len(suffix) >= 3:
            plain = plain.removesuffix(suffix) + rest
            break
    else:
        if plain.endswith("s") and not plain.endswith(("ss", "us", "is")) and len(plain) > 3:
            plain = plain[:-1]
    if len(plain) > 3 and plain[-1] == plain[-2] and plain[-1] not in "sl":
        plain = plain[:-1]
    return plain.removesuffix("e") if len(plain) > 3 else plain
