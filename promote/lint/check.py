"""Check the wording of a lesson: text, trigger and tags.

Covered: hidden and look-alike characters, secrets and personal data, orders to the
model or the reviewer, outside addresses, unsafe operations, mood, references to
something outside the lesson, breadth, one-off values, a kind that cannot be right.
Not covered: whether the advice is true; that is what evidence and review are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from lessons_loop.filter.models import Lesson
from lessons_loop.filter.redact import find_sensitive, mask
from lessons_loop.promote.lint.acts import find_acts
from lessons_loop.promote.lint.aim import find_aim
from lessons_loop.promote.lint.breadth import find_breadth, find_kind
from lessons_loop.promote.lint.findings import Finding, Severity, holds, rejects
from lessons_loop.promote.lint.hidden import find_hidden, find_lookalikes, strip_hidden
from lessons_loop.promote.lint.language import guess_language
from lessons_loop.promote.lint.outside import find_outside
from lessons_loop.promote.lint.safety import find_injection, find_unsafe
from lessons_loop.promote.lint.values import find_values
from lessons_loop.promote.lint.wording import (
    find_dangling,
    find_mood,
    find_one_off,
    find_personal,
)

UNPROMOTABLE = frozenset({"hidden", "look-alike", "secret", "personal-value"})
"""Rules nobody may overrule: the text has to be edited first."""
_MASKED = re.compile(r"\[(?:secret|personal): [^\]]{2,30}\]")

_CODE = re.compile(
    r"\b(PIN|passcode|(?:access|door|alarm|security|unlock|entry|gate|safe|locker) code)\b\W+"
    r"(?:is |= ?)?\d{3,}"
    r"|\b((?:recovery|backup|activation|licen[cs]e|product|pairing|verification|wlan|wi-?fi|wpa\d?"
    r"|network|wireless|one-time|unlock|2fa|otp|sim|vpn|master|admin|guest|router|shared|encryption"
    r"|bitlocker|device|sign-?in|log-?in)[ -](?:code|key|pin|pass(?:phrase|word|code)?|secret)"
    r"|psk|pre-?shared[ _]key|wpa_passphrase|bind_?pw|pwd|keypass|storepass"
    r"|(?:wlan|wiederherstellungs|aktivierungs|lizenz|zugangs|freischalt|sicherheits|netzwerk)-?"
    r"(?:schlüssel|code|kennwort))s?\b\W+(?:(?:is|are|as|of|lautet|ist) )?"
    r"['\"]?(?=[^\s'\"]*\d)[^\s'\",;]{4,}",
    re.IGNORECASE,
)


_KEYPAD = re.compile(
    r"\b(?:doors?|rooms?|gates?|safes?|alarms?|lockers?|vaults?|keypads?|tür|raum|tor|tresor|porte|puerta)"
    r"\b[^.;]{0,60}\b(?:code|pin|kode|código) (?:is |= ?)?\d{3,8}\b|"
    r"\b(?:enter|type|dial|key in|press|tippe?|gib)\b \d{4,8}\b[^.;]{0,40}"
    r"\b(?:panel|door|gate|alarm|safe|keypad|lock|vault|tür|tor|tresor)\b",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"\b(?:sign|log)[ -]?(?:in|on)?\b[^.;]{0,30}?\b(?:with|as|using)\s+[\w.@-]+\s*[/:|]\s*"
    r"(?=\S*[A-Za-z])(?=\S*\d)\S{6,}",
    re.IGNORECASE,
)
_OPENS_WITH = re.compile(
    r"\b(?:unlock|decrypt|open|log[ -]?in|sign[ -]?in|entsperre?n?)\b[^.;]{0,30}\b(?:with"
    r"|mit) ['\"]?"
    r"(?=\S*\d)(?=\S*[A-Za-z])(?=\S*[-#!])[^\s'\",;]{6,}",
    re.IGNORECASE,
)
_BASIC = re.compile(
    r"\bbasic\b[^.;]{0,40}?(?<![\w/])(?=[\w+/]*[A-Z])(?=[\w+/]*[a-z])(?=[\w+/]*\d)[\w+/]{12,}={0,2}",
    re.I,
)
_TOKEN_LIKE = re.compile(
    r"(?<![\w./$-])(?![A-Z_]+=--)(?=[\w:+=-]*[A-Z])(?=[\w:+=-]*[a-z])(?=(?:[\w:+=-]*?\d){3})[\w:+=-]{24,}(?![\w./(])"
)
_PASSWORD_LIKE = re.compile(
    r"(?<![\w$%{/.#&@!^*-])(?=[^\s]*[a-z])(?=[^\s]*[A-Z])(?=[^\s]*\d)(?=[^\s]*[#!&^*@$+?~])"
    r"[\w#!&^*@$+?~-]{8,30}(?![\w#!&^*@$+?~()\[\]{}/=])"
)


def lint(lesson: Lesson, allow_hosts: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Return what is wrong with a lesson's wording, rejecting findings first."""
    return _linted(lesson, tuple(allow_hosts))


@lru_cache(maxsize=1_024)  # a run asks several times: 7 ms each
def _linted(lesson: Lesson, hosts: tuple[str, ...]) -> tuple[Finding, ...]:
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
    for check in (find_mood, find_dangling, find_one_off, find_acts, find_values):
        yield from check(text)
    yield from find_aim(text, guess_language(text))


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
        yield rejects(
            "secret", f"contains what looks like {_with_article(found.group(1) or found.group(2))}"
        )
    if any(form.search(text) for form in (_LOGIN, _BASIC, _KEYPAD)):
        yield rejects("secret", "contains what looks like a login with its password")
    elif any(form.search(text) for form in (_PASSWORD_LIKE, _OPENS_WITH, _TOKEN_LIKE)):
        yield holds("secret-like", "contains a word that may be a password")
    if masked := _MASKED.search(text):
        yield rejects("secret", f"depends on something that was masked: {masked.group()}")
    masked_text = mask(text)  # a sentence quotes what it found: never a secret
    for check in (find_injection, find_unsafe, find_personal):
        yield from check(masked_text)


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1].casefold() in 'aeiou' else 'a'} {kind}"


def _in_field(finding: Finding, where: str) -> Finding:
    return Finding(finding.rule, finding.severity, f"{where}: {finding.sentence}")
