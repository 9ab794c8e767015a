"""Read the grade out of a judge's reply: one last line, or nothing.

Covered: a grade is never found inside another word or a denied one (T-37), two different
grades are none, a reply that was cut off is none. A reply of nothing but the grade counts.
"""

from __future__ import annotations

import json
import re
from typing import Any

from lessons_loop.eval.trials import Grade
from lessons_loop.filter.llm import ChatReply
from lessons_loop.filter.parse import strip_thinking
from lessons_loop.filter.text import shorten
from lessons_loop.promote.masking import mask_through

REASON_LIMIT = 300
SHORT_REPLY = 80
"""Characters of a reply without a GRADE line whose last word may still be the grade."""
_WORDS = {
    "pass": Grade.PASS,
    "passed": Grade.PASS,
    "correct": Grade.PASS,
    "fail": Grade.FAIL,
    "failed": Grade.FAIL,
    "incorrect": Grade.FAIL,
    "unjudged": Grade.UNJUDGED,
}
_FENCE = re.compile(r"^```[a-z]*\s*|\s*```$", re.IGNORECASE)
_LINE = re.compile(r"^[*_`#>\s]*(?i:GRADE)[*_`]*\s*[:：][*_`\s]*([A-Za-z]+)[*_`\s]*[.]?[*_`]*$")
_ANY = re.compile(r"\bGRADE\b[*_`]*\s*[:：][*_`\s]*([A-Za-z]+)", re.IGNORECASE)
_LAST_WORD = re.compile(r"(?:^|[\s\-–—:(*_`\"'])([A-Za-z]+)[\s.!*_`)\"']*$")
_CLAUSE = re.compile(r"(?:^|[-–—:.!?;])[\s*_`(\"']*$")
_STATED = re.compile(
    r"(?:^|[-–—:.!?;,])[\s*_`(\"']*(?:so |therefore |thus )?(?:(?:the|this|my) )?"
    r"(?:answer|reply|response|grade|verdict|it|this)(?: is| was|:)? (?:a )?[*_`(\"']*$",
    re.IGNORECASE,
)
"""What may stand before a grade without a GRADE line: nothing of its clause, or its subject."""
_OTHER = re.compile(r"\b(?:pass|passed|correct)\b(?!\s*\?)", re.IGNORECASE)


def read_grade(reply: ChatReply) -> tuple[Grade, str]:
    """Return the grade and the reasons; UNJUDGED where there is no grade beyond doubt."""
    if reply.finish_reason == "length":
        return Grade.UNJUDGED, "the judge's reply was cut off"
    text = strip_thinking(reply.text).strip()
    if reply.text.strip() and not text:
        return Grade.UNJUDGED, "the judge's reply was cut off while thinking"
    if found := _from_json(text):
        return found
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if named := {word.casefold() for word in _ANY.findall(text)}:
        return _from_line(lines, named)
    return _from_word(lines)


def _from_line(lines: list[str], named: set[str]) -> tuple[Grade, str]:
    last = _LINE.match(lines[-1])
    if last is None:
        return Grade.UNJUDGED, "the judge's reply does not end with its grade"
    if len(named) > 1:
        return Grade.UNJUDGED, "the judge names two grades"
    grade = _WORDS.get(last.group(1).casefold())
    if grade is None:
        return Grade.UNJUDGED, "the judge's grade is none of PASS, FAIL, UNJUDGED"
    return grade, _reason(" ".join(lines[:-1]))


def _from_word(lines: list[str]) -> tuple[Grade, str]:
    """Read a reply without a GRADE line: one word, or a short one that ends by stating failure.

    "It does not fail" and "the rubric asks that it fail" end with the word and state nothing.
    """
    text = " ".join(lines)
    found = _LAST_WORD.search(text) if len(text) <= SHORT_REPLY else None
    grade = _WORDS.get(found.group(1).casefold()) if found else None
    alone = found is not None and not re.search(r"\w", text[: found.start(1)])
    before = text[: found.start(1)] if found else ""
    stated = bool(_CLAUSE.search(before) or _STATED.search(before)) and not _OTHER.search(before)
    if grade is None or not (alone or (grade is Grade.FAIL and stated)):
        return Grade.UNJUDGED, "the judge's reply has no GRADE line at its end"
    return grade, _reason("" if alone else text)


def _from_json(text: str) -> tuple[Grade, str] | None:
    bare = _FENCE.sub("", text).strip()
    if not bare.startswith("{"):
        return None
    try:
        found = json.loads(bare, object_pairs_hook=_unrepeated)
    except (ValueError, RecursionError):
        return None
    words = [found[name] for name in ("grade", "verdict") if name in found]
    grade = _WORDS.get(str(words[0]).strip().casefold()) if len(words) == 1 else None
    if grade is None:
        return Grade.UNJUDGED, "the judge's grade is none of PASS, FAIL, UNJUDGED"
    reasons = [found[name] for name in ("reasoning", "reason", "reasons") if name in found]
    return grade, _reason(" ".join(map(str, reasons)))


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return one object, names in small letters; raise ValueError where one stands twice."""
    names = [name.casefold() for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a field stands twice")
    return {name.casefold(): value for name, value in pairs}


def _reason(text: str) -> str:
    return shorten(mask_through(" ".join(text.split())), REASON_LIMIT) or "no reason given"
