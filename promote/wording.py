"""Split a lesson into the words that carry its meaning, each with its sign.

A word under a negation is another word than the same one without: `divide` and
`not divide` never match. Articles, copulas and pronouns are left out; direction
(on, off, before, without) stays, because it turns advice round.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lessons_loop.promote.language import word_set

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
_SCOPE_ENDS = word_set("when if because since so but and or then as for where wenn weil quand")
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

    @property
    def signed(self) -> tuple[str, bool]:
        """The form with its sign."""
        return self.form, self.negated


def words_of(text: str) -> tuple[Word, ...]:
    """Return the meaning-carrying words of `text`, in order."""
    marked = _NEGATING_PHRASES.sub(" instead-of ", text)
    found: list[Word] = []
    negated, clause = False, 0
    bare_at = -1  # a negator with nothing behind it negates its clause: "nutze das nicht"
    for chunk in (*_CHUNK.findall(marked), ";"):
        bare = chunk.strip(".:!?…")
        if not bare or bare in ",;":
            if bare_at == len(found):
                found = _negate_clause(found, clause)
            negated, clause, bare_at = False, clause + 1, -1
            continue
        lower = bare.casefold().replace("’", "'")
        if (lower in _NEGATORS and not bare.isupper()) or lower == "instead-of":
            negated, bare_at = True, len(found)
            continue
        negated = negated and lower not in _SCOPE_ENDS
        found.extend(_words(bare, lower, negated, clause, first=not found))
        if chunk[-1] in ".:!?":
            negated, clause, bare_at = False, clause + 1, -1
    return tuple(found)


def _negate_clause(words: list[Word], clause: int) -> list[Word]:
    return [word._replace(negated=True) if word.clause == clause else word for word in words]


def has_condition(text: str) -> bool:
    """Say whether the advice is bound to a condition."""
    return any(word.casefold() in CONDITIONS for word in re.findall(r"\w+", text))


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
