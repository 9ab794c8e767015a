"""Guess what a hand-written rule does not say: kind, trigger, tags, id. All guesses are marked.

The kind, first rule that fits: a failure word makes a fail-fix; a cost word together
with a limiting word a perf-guard; a named table, column, field or unit a schema-map;
everything else is a resolution-pattern.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import NamedTuple

from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.models import TAG_LENGTH, TRIGGER_LIMIT
from lessons_loop.promote.lint.language import word_set
from lessons_loop.seeds.phrases import is_generic, lower_first

ID_LENGTH = 35
ID_WORDS = 6
TAGS_GUESSED = 4
GIST_LENGTH = 110
_I = re.IGNORECASE
_FAILURE = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure|ures|ing)?|refused?|refuses|rejected|exceptions?|crash\w*"
    r"|broken|not found|denied|time[sd]? ?out|timeouts?|hangs?|stuck|missing|wrong|unauthorized"
    r"|forbidden|corrupt\w*|[45]\d\d(?= (?:from|error|response|status))|oomkilled|\w+backoff"
    r"|fehler\w*|fehlschl\w*|scheitert|abgelehnt|abgewiesen|abst[uü]rz\w*|hängt|falsch\w*)\b",
    _I,
)
_COST = re.compile(
    r"\b(?:slow\w*|scans?|limit|index(?:es)?|memory|ram|disk|full|cost\w*|expensive|bound\w*"
    r"|batch\w*|rows|load|timeouts?|quota|rate|cache\w*|partition\w*|gpu|cpu|large|huge|big"
    r"|langsam\w*|speicher\w*|kosten|teuer\w*|last|große\w*|zeilen)\b|\bselect \*",
    _I,
)
_LIMITING = re.compile(
    r"\b(?:never|avoid|do not|don['’]t|always|limits?|bound\w*|cap|at most|only|restrict\w*|lower"
    r"|reduce|instead|nie|niemals|immer|höchstens|nur|begrenz\w*|beschränk\w*|vermeide\w*)\b",
    _I,
)
_PLACE = re.compile(
    r"\b(?:tables?|columns?|fields?|units?|keys?|stored|lives?|schema|means?|joins?|database"
    r"|tabellen?|spalten?|felder?|einheit\w*|schlüssel\w*|gespeichert|bedeutet)\b",
    _I,
)
_IDENTIFIER = re.compile(
    r"`([^`\s]{2,40})`|\b([a-z]\w*\.[a-z_]\w+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b|\b([A-Z]{3,12})\b"
)
_CONDITION = re.compile(
    r"^(?:when(?:ever)?|if|for|before|after|while|wenn|falls|für|vor|nach|beim?)\s+(.{6,140}?)"
    r"(?:,|:)\s",
    _I,
)
_CONDITION_BEHIND = re.compile(r",?\s(?:when(?:ever)?|if|wenn|falls|sobald)\s+([^.;]{8,140})", _I)
_LABELLED = re.compile(r"^([^:.;]{4,80}):\s")
_FIRST_CLAUSE = re.compile(r"^(.{20,}?)(?:[.;:](?:\s|$)|,\s(?:because|since|as|so|weil|da)\s)")
_TITLE = re.compile(
    r"^(?:\w+ )?(?:rules?|guidelines?|notes|regeln|hinweise) (?:for|on|about|für|zu[rm]?)"
    r" (?:(?:the|our|die|das|den|der|dem) )?|^(?:system prompt|runbook|handbook|guide)\s?[:–-]\s",
    _I,
)
_LEADING = re.compile(
    r"^\W*(?:(?:always|please|only|never|do not|don['’]t|avoid|immer|bitte|stets|niemals|nie)\s+)+",
    _I,
)
_WORD = re.compile(r"[^\W_]+(?:[-_][^\W_]+)*")
_STOP = word_set(
    "the a an and or of to in on is are was be by for with from not no never always do does don use"
    " it its as at that this when if then than only must should all any every each into instead der"
    " die das den dem ein eine einen und oder nicht kein keine immer nie niemals mit für von zu im"
    " am bei wenn auf ist sind wird werden nur statt aus vor nach über rules rule regeln notes how"
    " runbook page guide handbook"
)
_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "o"})


class KindGuess(NamedTuple):
    """A kind and the words it rests on."""

    kind: Kind
    why: str


def guess_kind(text: str, trigger: str = "") -> KindGuess:
    """Return the kind by the rule at the top of this module."""
    spoken = f"{trigger} {text}"
    if found := _FAILURE.search(spoken):
        return KindGuess(Kind.FAIL_FIX, f"'{found.group()}' tells of a failure")
    cost, limiting = _COST.search(spoken), _LIMITING.search(text)
    if cost and limiting and cost.group() != limiting.group():
        return KindGuess(Kind.PERF_GUARD, f"'{limiting.group()}' limits, '{cost.group()}' costs")
    place = _PLACE.search(spoken)
    if place and _IDENTIFIER.search(text):
        return KindGuess(Kind.SCHEMA_MAP, f"'{place.group()}' tells where something is")
    return KindGuess(Kind.RESOLUTION_PATTERN, "no word tells of a failure, a cost or a place")


def guess_trigger(text: str, context: Sequence[str], given: str = "") -> str:
    """Return when the rule applies: its condition, else its first clause, below its heading."""
    gist = given or condition_of(text) or first_clause(text)
    above = next((one for one in reversed(context) if not is_generic(one)), "")
    above = clipped(_TITLE.sub("", above).rstrip(":. "), 60)
    new = set(content_words(above)) - set(content_words(gist))
    parts = [above, gist] if new else [gist]
    return clipped(": ".join(" ".join(part.split()) for part in parts), TRIGGER_LIMIT)


def condition_of(text: str) -> str:
    """Return the situation a rule names itself, empty when it names none."""
    if found := _CONDITION.match(text) or _LABELLED.match(text):
        return _LEADING.sub("", found.group(1))
    found = _CONDITION_BEHIND.search(text)
    return clipped(found.group(1), GIST_LENGTH) if found else ""


def first_clause(text: str) -> str:
    """Return how the rule begins."""
    found = _FIRST_CLAUSE.match(text)
    clause = _LEADING.sub("", found.group(1) if found else text).rstrip(". ")
    return clipped(lower_first(clause), GIST_LENGTH)


def clipped(text: str, limit: int) -> str:
    """Return at most `limit` characters, cut between words."""
    if len(text) <= limit:
        return text
    return text[: limit + 1].rsplit(" ", 1)[0][:limit].rstrip(" ,;:-")


def guess_tags(text: str, context: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the nearest headings, then names in the text, at most four."""
    above = [word for one in reversed(context[-2:]) for word in content_words(one)[:3]]
    names = ["".join(found) for found in _IDENTIFIER.findall(text)]
    known = {word.casefold(): word for word in reversed([*above, *names])}
    ordered = dict.fromkeys(word.casefold() for word in [*above, *names])
    fitting = [known[word] for word in ordered if 2 < len(word) <= TAG_LENGTH]
    return tuple(fitting[:TAGS_GUESSED])


def content_words(text: str) -> list[str]:
    """Return a text's words without articles, prepositions and the like, in lower case."""
    words = (word.casefold() for word in _WORD.findall(text))
    return [word for word in words if word not in _STOP and not word.isdigit()]


def slug(text: str) -> str:
    """Return an id made of a text's first content words; empty where it has no Latin letters."""
    words = [ascii_word(word) for word in content_words(text)]
    kept = [word for word in words if word][:ID_WORDS]
    while kept and len("-".join(kept)) > ID_LENGTH:
        kept.pop()
    return "-".join(kept)


def ascii_word(word: str) -> str:
    """Return a word in a-z, 0-9 and '-'."""
    plain = unicodedata.normalize("NFKD", word.casefold().translate(_LETTERS))
    return re.sub(r"[^a-z0-9]+", "-", plain.encode("ascii", "ignore").decode()).strip("-")


def unique_id(wanted: str, line: int, taken: Collection[str]) -> str:
    """Return `wanted`, or it with a number where it is taken; the line where it is empty."""
    base = wanted or f"rule-{line}"
    numbered = (f"{base}-{number}" for number in range(2, len(taken) + 3))
    return base if base not in taken else next(one for one in numbered if one not in taken)
