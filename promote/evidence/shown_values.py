"""Hold a figure nothing that ran shows, a name picked out of an answer, and a result's own advice.

A query can be honest and its lesson give another number than came back, or favour one of the
names that did. A sentence inside a result is text somebody wrote, such as a document's is.
Covered: figures told in words and shown by nothing that ran; capitalised names; sentences in
JSON strings; changing where only queries ran, removing what nothing removed, a comparison turned
round; names from a trace a user wrote.
Not covered: a scale (`by 100`) and a name in small letters; a result that is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lessons_loop.promote.lint.findings import Finding, holds

_I = re.IGNORECASE
_FIGURE = re.compile(r"(?<![\w.,:/=(-])\d+(?:[.,:]\d+)*(?![\w/(]|[.,:]\d|-\w)")
_ANY_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_CONDITION = re.compile(
    r"\b(?:when|if|once|after|unless|wenn|falls|sobald|quand|lorsque|si|cuando|quando|se|als)\b"
    r"[^.;,]*|时|の場合",
    _I,
)
_SCALE = re.compile(r"(?:\b(?:by|durch|mit|par|por|per|entre)|[*/×÷])\s+(?:10+|60|3600|24|1024)\b")
_SMALLEST = 2
_STEM = 5
_PICKED = re.compile(r"(?<=[a-z0-9,] )(?:[A-Z][a-zà-ÿ]{3,}|[A-Z]+\d+)\b")
_NOTE = re.compile(r'(?<=[:\[,])\s*"((?:[^"\\]|\\.){20,})"')
_NOTE_WORDS = 5
"""Words from which a string of a result is a sentence somebody wrote."""

_REMOVES = re.compile(
    r"\b(?:clear|delete|wipe|purge|erase|empty|flush|destroy|evict|kill|terminate|shred|lösch\w*"
    r"|leere\w*|supprim\w*|vide[rz]?|borra\w*|vacía\w*|elimin[ae]\w*)(?= (?:\w+ ){0,3}\w{3})",
    _I,
)
_REMOVED = re.compile(
    r"clear|delet|wipe|purge|eras|empty|flush|destroy|evict|kill|terminat|shred|remov|clean|prune"
    r"|drop|truncat|vacuum|reset|unlink|trim|rotat|expire|lösch|leer|supprim|vid|borra|vac|elimin"
    r"|\brm\b|\bdel\b",
    _I,
)
_TRACE = re.compile(
    r"\b(?:CALL|RESULT|TOOL|FUNCTION)\b\s+\w+|\[\d+\]\s*\w+|\b(?:returned|result of \w+)\W*[{\[]"
)
_CHANGES = re.compile(
    r"(?:^\W*|[.;:] |\b(?:and|then|und|et|y) )(?:set (?:\w+ ){0,2}(?:rows?|lines?|entries|records"
    r"|accounts?)|reuse|plan(?! for)"
    r"|interpolate|mark|assign|update|extend|reserve|postpone|cancel|close"
    r"|release|overwrite|book|renew|restart|stop|approve|prolong\w*|annul\w*|setze|verlänger\w*"
    r"|buche|storniere?|kündige?|reserv[ea]\w*|cancela\w*|cierra\w*|aplaza\w*)\b",
    _I,
)
_QUERY = re.compile(r"\bselect\b", _I)
_WRITES = re.compile(
    r"\b(?:insert|update|delete|set|create|alter|drop|merge|grant|truncate|call|explain|refresh"
    r"|analyze|vacuum)\b",
    _I,
)
_COMPARES = re.compile(r"\b([A-Za-z]\w*)\s*([<>]=?|=|!=|<>)(?=\s*['\"\w(-])")
_IDENTIFIER = re.compile(r"\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b")


class Told(NamedTuple):
    """What an exchange was told, and what ran."""

    asked: str
    """The question, and remarks that a call carried out."""
    remarks: str
    calls: str
    """Calls and failures."""
    results: str


def parted_notes(result: str) -> tuple[str, str]:
    """Return a result without its sentences, and those."""
    notes = [found for found in _NOTE.findall(result) if len(found.split()) >= _NOTE_WORDS]
    bare = result
    for note in notes:
        bare = bare.replace(note, " ")
    return bare, "\n".join(notes)


def find_unshown(text: str, told: Told) -> Iterator[Finding]:
    """Yield a finding for a figure that nothing shows, or a name picked out of an answer."""
    if figures := sorted(set(_figures(text, told))):
        yield holds("told", f"nothing that ran shows its figure {', '.join(figures[:3])}")
    elif names := sorted(_picked(text, told)):
        yield holds("told", f"picks a name no call asked for: {', '.join(names[:3])}")
    elif (removed := _REMOVES.search(text)) and not _REMOVED.search(told.calls):
        yield holds("told", f"nothing that ran did what it advises: '{removed[0]}'")
    elif (changes := _CHANGES.search(text)) and _only_read(told.calls):
        yield holds("told", f"only queries ran, but it advises to change: '{changes[0][:40]}'")
    elif turned := next(_turned(text, told.calls), ""):
        yield holds("told", f"turns a comparison round that ran: '{turned[:40]}'")
    elif traced := sorted(_traced(text, told)):
        yield holds("told", f"known from a trace a user wrote: {', '.join(traced[:3])}")


def _only_read(calls: str) -> bool:
    return bool(_QUERY.search(calls)) and not _WRITES.search(calls)


def _turned(text: str, calls: str) -> Iterator[str]:
    """Yield comparisons of a text whose name ran with other signs only: `days < 30` for `>`."""
    ran: dict[str, set[str]] = {}
    for name, sign in _COMPARES.findall(calls):
        ran.setdefault(name.casefold(), set()).add(sign)
    for found in _COMPARES.finditer(text):
        signs = {sign[0] for sign in ran.get(found.group(1).casefold(), ())}
        if signs and found.group(2)[0] not in signs:
            yield found.group()


def _traced(text: str, told: Told) -> Iterator[str]:
    """Yield identifiers of a text that stand in a user's own trace and in nothing that ran."""
    written = f"{told.asked}\n{told.remarks}"
    if _TRACE.search(written):
        ran = set(_IDENTIFIER.findall(f"{told.calls}\n{told.results}"))
        known = set(_IDENTIFIER.findall(written)) - ran
        yield from known & set(_IDENTIFIER.findall(text))


def _figures(text: str, told: Told) -> Iterator[str]:
    """Yield figures that were told and not shown; one nowhere in an excerpt may be cut off it."""
    ran = _found(f"{told.calls}\n{told.results}")
    if not ran:
        return
    asked, remarked = _found(told.asked) - ran, _found(told.remarks) - ran
    for part in _CONDITION.split(_SCALE.sub(" ", text)):
        yield from (figure for figure in _big(part) if figure in asked | remarked)
    for condition in _CONDITION.findall(text):
        yield from (figure for figure in _big(condition) if figure in remarked - asked)


def _big(text: str) -> Iterator[str]:
    for figure in _FIGURE.findall(text):
        if not figure.isdigit() or int(figure) >= _SMALLEST:
            yield figure


def _found(text: str) -> set[str]:
    return set(_ANY_FIGURE.findall(text))


def _picked(text: str, told: Told) -> Iterator[str]:
    """Yield names behind a first word that stand in results or remarks, not in what was asked."""
    known = _beginnings(f"{told.asked}\n{told.calls}")
    there = _beginnings(f"{told.results}\n{told.remarks}")
    for name in _PICKED.findall(text):
        if name[:_STEM].casefold() in there - known:
            yield name


def _beginnings(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM].casefold() for word in re.findall(r"[^\W_]{2,}", text))


def bare_and_notes(results: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return results without their sentences, and the sentences."""
    parted = [parted_notes(result) for result in results]
    return [bare for bare, _ in parted], [note for _, note in parted if note]
