"""Check a candidate's evidence again, from the excerpt alone: code decides, not a model.

Covered: a quote that is not in the excerpt, too short, or only in the assistant's
words or a document; an excerpt without a tool result or words of the user; advice
whose names stand in tool output only, or whose words or figures were told and not shown.
Not covered: whether the excerpt is true. A forged candidate can bring a forged
excerpt: that is what corroboration and review are for. Names that stand nowhere in
the excerpt are let pass, because it may be cut; the filter saw the whole transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from lessons_loop.filter.models import QUOTE_MIN, Candidate, Evidence, EvidenceKind
from lessons_loop.filter.terms import names_in, piece_index
from lessons_loop.promote.evidence.shown import (
    asked_and_remarked,
    find_acting,
    find_told,
    find_twins,
)
from lessons_loop.promote.evidence.shown_values import Told, bare_and_notes, find_unshown
from lessons_loop.promote.lint.findings import Finding, holds, rejects
from lessons_loop.promote.lint.safety import find_reviewer_orders

_HEAD = re.compile(r"^\[(\d+)\] (user|assistant|call|result|failed|document)\b([^:\n]*):", re.I)
_SPACE = re.compile(r"\s+")


class CitedLine(NamedTuple):
    """One turn of the excerpt."""

    role: str
    """user, assistant, call, result, failed or document."""
    text: str


def cited_lines(excerpt: str) -> tuple[CitedLine, ...]:
    """Split an excerpt at its numbered heads; text before the first head belongs to nobody."""
    found: list[CitedLine] = []
    for line in excerpt.splitlines():
        if head := _HEAD.match(line):
            found.append(CitedLine(head.group(2).lower(), line[head.end() :].strip()))
        elif found:
            found[-1] = CitedLine(found[-1].role, f"{found[-1].text}\n{line}")
    return tuple(found)


@lru_cache(maxsize=1_024)
def check_evidence(candidate: Candidate) -> tuple[Finding, ...]:
    """Return what is wrong with the evidence, in the order of the rules."""
    evidence, lines = candidate.evidence, cited_lines(candidate.evidence.excerpt)
    return (
        *_check_quote(evidence, lines),
        *_check_lines(evidence, lines),
        *_check_advice(candidate, lines),
        *_check_orders(evidence),
        *find_acting(candidate),
        *_check_told(candidate, lines),
        *find_twins(candidate.lesson.text, evidence.excerpt),
    )


def _check_quote(evidence: Evidence, lines: Iterable[CitedLine]) -> Iterator[Finding]:
    quote = _flat(evidence.quote)
    if len(quote) < QUOTE_MIN:
        yield rejects("quote-short", f"its quote has less than {QUOTE_MIN} characters")
    elif quote not in _flat(evidence.excerpt):
        yield rejects("quote-not-found", "quote not found in source: the excerpt does not hold it")
    else:
        roles = {line.role for line in lines if quote in _flat(line.text)}
        if roles and roles <= {"assistant", "document"}:
            yield rejects("quote-source", "its quote is the assistant's or a document's, no proof")


def _check_lines(evidence: Evidence, lines: Iterable[CitedLine]) -> Iterator[Finding]:
    roles = {line.role for line in lines}
    if not roles & {"result", "user"}:
        yield rejects("no-proof", "cites neither a tool result nor words of the user")
    elif evidence.kind is EvidenceKind.TOOL_SUCCESS and "result" not in roles:
        yield holds("no-result", "says a tool succeeded but shows only the user's words")


def _check_advice(candidate: Candidate, lines: Iterable[CitedLine]) -> Iterator[Finding]:
    own = _pieces(line for line in lines if line.role in ("call", "user"))
    told = _pieces(line for line in lines if line.role in ("result", "document"))
    known = own | _pieces(line for line in lines if line.role in ("assistant", "failed"))
    for name in names_in(candidate.lesson.text):
        pieces = set(name.pieces)
        if not name.firm or pieces <= known or not pieces <= told | known:
            continue
        sentence = f"'{name.written}' stands in tool output only"
        yield rejects("tool-only", sentence) if own else holds("tool-only", sentence)


def _check_told(candidate: Candidate, lines: Sequence[CitedLine]) -> Iterator[Finding]:
    said = [line.text for line in lines if line.role == "user"]
    read = [line.text for line in lines if line.role == "document"]
    calls = [line.text for line in lines if line.role in ("call", "failed")]
    results, notes = bare_and_notes(line.text for line in lines if line.role == "result")
    asked, remarked = asked_and_remarked(said)
    remarks = "\n".join([remarked, *read, *notes])
    yield from find_told(candidate, asked, remarks, [*calls, *results])
    told = Told(asked, remarks, "\n".join(calls), "\n".join(results))
    yield from find_unshown(candidate.lesson.text, told)


def _check_orders(evidence: Evidence) -> Iterator[Finding]:
    for order in find_reviewer_orders(evidence.excerpt):
        yield holds("injection", f"its evidence speaks to the reviewer or model: '{order}'")


def _pieces(lines: Iterable[CitedLine]) -> frozenset[str]:
    return frozenset().union(*(piece_index(line.text) for line in lines))


def _flat(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
