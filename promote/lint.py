"""Check the wording of a lesson: text, trigger and tags.

Covered: hidden and look-alike characters, secrets and personal data, orders to the
model or the reviewer, outside addresses, unsafe operations, mood, references to
something outside the lesson, breadth, one-off values, a kind that cannot be right.
Not covered: whether the advice is true; that is what evidence and review are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lessons_loop.filter.models import Lesson
from lessons_loop.filter.redact import find_sensitive, mask
from lessons_loop.promote.findings import Finding, Severity, rejects
from lessons_loop.promote.hidden import find_hidden, find_lookalikes, strip_hidden
from lessons_loop.promote.lint_safety import find_injection, find_outside, find_unsafe
from lessons_loop.promote.lint_wording import (
    find_breadth,
    find_dangling,
    find_kind,
    find_mood,
    find_one_off,
    find_personal,
)

UNPROMOTABLE = frozenset({"hidden", "look-alike", "secret", "personal-value"})
"""Rules nobody may overrule: the text has to be edited first."""
_MASKED = re.compile(r"\[(?:secret|personal): [^\]]{2,30}\]")

_CODE = re.compile(
    r"\b(PIN|passcode|(?:access|door|alarm|security|unlock|entry|gate|safe|locker) code)\b\W+"
    r"(?:is |= ?)?\d{3,}",
    re.IGNORECASE,
)


def lint(lesson: Lesson, allow_hosts: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Return what is wrong with a lesson's wording, rejecting findings first."""
    hosts = tuple(allow_hosts)
    findings = [*_lint_text(lesson), *find_breadth(lesson), *find_kind(lesson)]
    for where, field in _fields(lesson):
        for finding in (*_lint_field(field), *find_outside(field, hosts)):
            named = finding if where == "text" else _in_field(finding, where)
            findings.append(named)
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda finding: finding.severity is not Severity.REJECT))


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that even a person may not pass."""
    return tuple(finding for finding in findings if finding.rule in UNPROMOTABLE)


def _fields(lesson: Lesson) -> Iterator[tuple[str, str]]:
    yield "text", lesson.text
    yield "trigger", lesson.trigger
    if lesson.tags:
        yield "tags", " | ".join(lesson.tags)


def _lint_text(lesson: Lesson) -> Iterator[Finding]:
    text = mask(lesson.text)
    for check in (find_mood, find_dangling, find_one_off):
        yield from check(text)


def _lint_field(text: str) -> Iterator[Finding]:
    if hidden := find_hidden(text):
        named = ", ".join(dict.fromkeys(f"{found.code} {found.name}" for found in hidden[:4]))
        yield rejects("hidden", f"has {len(hidden)} hidden character(s): {named}")
    if lookalikes := find_lookalikes(text):
        yield rejects("look-alike", f"mixes alphabets in '{lookalikes[0]}'")
    for sensitive in find_sensitive(strip_hidden(text)):
        rule = "personal-value" if sensitive.personal else "secret"
        yield rejects(rule, f"contains what looks like {_with_article(sensitive.kind)}")
    if found := _CODE.search(text):
        yield rejects("secret", f"contains what looks like {_with_article(found.group(1))}")
    if masked := _MASKED.search(text):
        yield rejects("secret", f"depends on something that was masked: {masked.group()}")
    masked_text = mask(text)  # a sentence quotes what it found: never a secret
    for check in (find_injection, find_unsafe, find_personal):
        yield from check(masked_text)


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1].casefold() in 'aeiou' else 'a'} {kind}"


def _in_field(finding: Finding, where: str) -> Finding:
    return Finding(finding.rule, finding.severity, f"{where}: {finding.sentence}")
