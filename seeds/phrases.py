"""Phrases of rule lists: what opens, forbids, orders; how a rule joins its context. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from lessons_loop.promote.lint.imperative import Mood, mood_of
from lessons_loop.promote.lint.language import guess_language

_I = re.IGNORECASE
_MARKS = re.compile(r"^\s*(?:\[[ xX]\]|[✅✓✔☑➜→►▶■●○◦▪]\ufe0f?)\s*")
_FORBIDDING_MARK = re.compile(r"^\s*(?:❌|✗|✘|✖|🚫|⛔)\ufe0f?\s*")
_FORBIDS = re.compile(
    r"^\W*(?:you (?:must|should|may) (?:not|never)|(?:please )?(?:do not|don['’]?t)s?(?: do)?"
    r"|do nots|never(?: ever)?(?: do)?(?: this)?|avoid(?: this)?|forbidden|prohibited"
    r"|not allowed|what not to do|things to avoid|mistakes to avoid|anti-?patterns?|no-?gos?"
    r"|(?:must|should|shall|may) (?:not|never)|bad(?: practices?)?|(?:[\w'’]+ ){1,4}(?:not|n['’]t"
    r"|don['’]t|never) do|verboten|nicht erlaubt|niemals|nie|vermeide[nt]?|zu vermeiden"
    r"|auf keinen fall|das nicht|(?:\w+ ){1,4}nicht tun)\W*$",
    _I,
)
_INSTEAD = re.compile(r"^\W*(?:instead|rather|better|stattdessen|besser|sondern)\b", _I)
_GENERIC = re.compile(
    r"^\W*(?:(?:the|these|our|your|some|my|general|basic|important|other|more|house|team|key"
    r"|following|allgemeine|unsere|wichtige|weitere)\s+)*"
    r"(?:rules?|guidelines?|notes?|general|important|instructions?|system prompt|overview"
    r"|introduction|best practices|tips|remarks|hints|misc\w*|do|dos|dos? and don['’]?ts?|always"
    r"|must|conventions?|requirements|checklist|role|task|context|regeln|hinweise?|allgemein\w*"
    r"|wichtig\w*|grundsätz\w*|überblick|einleitung|sonstiges|immer|grundregeln|hausregeln)\W*$"
    r"|\b(?:following|these|below|folgend\w*|diese) (?:\w+ )?(?:rules?|guidelines|points"
    r"|instructions|steps|regeln|punkte|hinweise)\b|\b(?:as follows|note|remember)\W*$",
    _I,
)
_PROCEDURE = re.compile(
    r"\b(?:steps?|procedure|how to|in (?:this|that|the following) order|one after another"
    r"|runbook for|schritte?|vorgehen|ablauf|anleitung|in dieser reihenfolge)\b|^\W*(?:to|um) \w+",
    _I,
)
_LEAD_IN = re.compile(
    r"^(?:when|if|for|in|on|with|before|after|while|whenever|at|during|unless|wenn|falls|bei|beim"
    r"|für|vor|nach|während|sobald|im|am|auf)\b",
    _I,
)
_NEGATIVE = re.compile(
    r"^\W*(?:(?:always|please|immer|bitte)\s+)?(?:never|do not|don['’]t|no|not|avoid|without"
    r"|nie|niemals|kein\w*|nicht|vermeide\w*)\b",
    _I,
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|approx|incl|resp|no|nr|z\. ?b|d\. ?h|bzw|ca|usw|ggf|evtl|u\. ?a)"
    r"|(?-i:\b[A-Z]))\.$",
    _I,
)
_BOUNDARY = re.compile(r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？])\s*|\n")
_LABEL = re.compile(r"^([^:.;,]{2,40}):\s+(.{4,})$", re.DOTALL)
_NO_VERB_FIRST = re.compile(r"^\W*(?:[A-Za-z]+ing\b|(?i:the|an?|any|all|each|every|no)\b|`|\S*_)")
_CAPITALISED = re.compile(r"^[^\W\d_][^\W\d_A-ZÄÖÜ]*(?:-[a-zäöüß]+)*(?=[\s,.:;]|$)")
_GERMAN_OPENER = re.compile(
    r"\b(?:verboten|nicht erlaubt|niemals|nie|vermeide\w*|auf keinen|das)", _I
)
_ROLE = re.compile(
    r"^\W*(?:you(?:['’]re| are| will| answer| help| have| act| serve)|your (?:role|name|job|task)"
    r"|du (?:bist|hilfst|beantwortest)|sie sind|deine (?:rolle|aufgabe))\b",
    _I,
)
_TITLE_LENGTH = 60
_LOOKED_AT = 400
"""Characters looked at on each side of a possible sentence end."""


class Sentence(NamedTuple):
    """A sentence and how many lines below its paragraph's first it begins."""

    text: str
    offset: int


def forbids(opener: str) -> bool:
    """Say whether a heading or intro such as `Never:` turns the rules below it round."""
    return bool(_FORBIDS.match(opener))


def allows(opener: str) -> bool:
    """Say whether words such as `Instead:` end a prohibition."""
    return bool(_INSTEAD.match(opener))


def is_generic(opener: str) -> bool:
    """Say whether a heading or intro says nothing about the rules below it."""
    return not opener.strip() or bool(_GENERIC.search(opener))


def is_procedure(opener: str) -> bool:
    """Say whether the numbered list below is one procedure rather than several rules."""
    return bool(_PROCEDURE.search(opener))


def instructs(text: str) -> bool:
    """Say whether a text tells its reader what to do, if only as an obligation."""
    return mood_of(text) in (Mood.INSTRUCTION, Mood.OBLIGATION)


def unmarked(text: str) -> tuple[str, bool]:
    """Return a bullet without its check box or emoji, and whether that one forbids."""
    plain = _FORBIDDING_MARK.sub("", text)
    return _MARKS.sub("", plain).strip(), plain != text


def is_negative(text: str) -> bool:
    """Say whether a rule forbids something by itself."""
    return bool(_NEGATIVE.match(text))


def describes_role(text: str) -> bool:
    """Say whether a sentence tells the assistant what it is: `You are the SQL assistant`."""
    return bool(_ROLE.match(text))


def is_title(text: str) -> bool:
    """Say whether a paragraph is a heading without the sign of one."""
    short = len(text) <= _TITLE_LENGTH and "\n" not in text
    return short and text[-1:].isalnum() and not instructs(text) and not describes_role(text)


def forbid(text: str, opener: str = "") -> str:
    """Return a rule that stands under an opener such as `Never:` as a text that says so itself."""
    if is_negative(text) or allows(text):
        return text
    if guess_language(text) == "de" or _GERMAN_OPENER.search(opener):
        return f"Niemals {lower_first(text) if _verb_first(text) else text}"
    if (label := _LABEL.match(text)) and not instructs(label[1]) and instructs(label[2]):
        return f"{label[1]}: {lower_first(forbid(label[2]))}"
    word = "Avoid" if _NO_VERB_FIRST.match(text) else "Never"
    return f"{word} {lower_first(text)}"


def _verb_first(text: str) -> bool:
    return mood_of(text) is Mood.INSTRUCTION and text.split()[0].casefold().endswith("e")


def join(parent: str, text: str) -> str:
    """Return a nested rule with its parent's words before it."""
    opener = parent.strip().rstrip(":.,; ")
    if not opener:
        return text
    if _LEAD_IN.match(opener) and guess_language(opener) in ("en", "de"):
        return f"{opener}, {lower_first(text)}"
    noun_first = guess_language(text) == "de" and not _verb_first(text)
    return f"{opener}: {text if noun_first else lower_first(text)}"


def lower_first(text: str) -> str:
    """Return the text with a plain capitalised first word in lower case; names stay."""
    word = _CAPITALISED.match(text)
    if word is None or (word.end() == 1 and word.group() == "I"):
        return text
    return text[0].lower() + text[1:]


def finished(text: str) -> str:
    """Return a rule as a sentence: capital first, full stop last."""
    if not text:
        return text
    first = text[0].upper() if text.split()[0].rstrip(",.:;").isalpha() else text[0]
    last = "" if text.endswith((".", "!", "?", "`", "。")) else "."
    return f"{first}{text[1:].rstrip(',;: ')}{last}"


def sentences(text: str) -> list[Sentence]:
    """Split a paragraph at sentence ends and at line breaks its writer chose."""
    width = max(map(len, text.split("\n")), default=0)
    cuts = [(found.start(), found.end()) for found in _BOUNDARY.finditer(text)]
    found: list[Sentence] = []
    start = offset = counted = 0
    for stop, resume in [*cuts, (len(text), len(text))]:
        if stop < len(text) and not _ends_here(text, start, (stop, resume), width):
            continue
        offset += text.count("\n", counted, start)
        counted = start
        if said := " ".join(text[start:stop].split()):
            found.append(Sentence(said, offset))
        start = resume
    return found


def _ends_here(text: str, start: int, cut: tuple[int, int], width: int) -> bool:
    stop, resume = cut
    before = text[max(start, stop - _LOOKED_AT) : stop]
    after = text[resume : resume + _LOOKED_AT]
    if not before.strip() or not after.strip():
        return False
    if text[stop:resume] == "\n":
        return _chosen_break(before.rsplit("\n", 1)[-1], after, width)
    return not _ABBREVIATION.search(before[-12:]) and not after[0].islower()


def _chosen_break(line: str, after: str, width: int) -> bool:
    """Say whether a line ends where it would not have had to: the next word had room."""
    word = after.split()[0]
    return not word[0].islower() and len(line) + 1 + len(word) < width


def grouped(parts: list[Sentence]) -> list[Sentence]:
    """Join sentences to rules: each begins with an instruction, its reasons follow it."""
    groups: list[Sentence] = []
    for part in parts:
        last = groups[-1].text if groups else ""
        reason = instructs(last) and not instructs(part.text) and not describes_role(part.text)
        if last.endswith((":", "：")) or (last and reason):
            groups[-1] = Sentence(f"{_ended(last)} {part.text}", groups[-1].offset)
        else:
            groups.append(part)
    return groups


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":", "。")) else f"{text}."
