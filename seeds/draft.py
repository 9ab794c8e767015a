"""Turn rules into draft lessons: what is kept, what a person has to check, what is left out.

Covered: everything the gate's lint finds; secrets, personal values, hidden characters and
orders to a model, whose words are never repeated; length; repetitions inside the file.
Not covered: whether the advice is true, contradictions, what other seed files say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from lessons_loop.filter.models import TEXT_LIMIT, Lesson
from lessons_loop.filter.redact import find_sensitive
from lessons_loop.filter.text import normalise
from lessons_loop.promote.lint.check import lint
from lessons_loop.promote.lint.findings import Finding, Severity
from lessons_loop.promote.lint.hidden import find_hidden, find_lookalikes
from lessons_loop.seeds.guess import guess_kind, guess_tags, guess_trigger, slug, unique_id
from lessons_loop.seeds.outline import Rule
from lessons_loop.seeds.phrases import (
    Sentence,
    describes_role,
    finished,
    grouped,
    is_negative,
    sentences,
)

LOOKED_AT = 4_000
"""Characters of one rule that are looked at; a longer one is no rule."""
NOTE_LIMIT = 2_000
UNSPEAKABLE = frozenset(
    {"hidden", "look-alike", "secret", "personal-value", "injection", "disclosure"}
)
"""Findings whose text is repeated nowhere."""
TO_CHECK = frozenset({"non-imperative", "not-standalone", "over-broad", "one-off", "kind"})
"""Findings that a person may pass: kept with a comment where they do not reject."""
_SQL = re.compile(r"^\s*(?:select|with|insert|update|create|explain)\b", re.IGNORECASE)
_SHELLS = ("sh", "bash", "shell", "zsh", "console")
_PROMPT = re.compile(r"^\s*[$>] ")
_UNFINISHED = re.compile(
    r"(?:[\\|{(]|&&|\|\||\b(?:do|then|else|in))$|<<|^\s*(?:done|fi|esac|[)}])\b"
)
_POINTING = re.compile(
    r"\b(?:this|the following)"
    r"(?= (?:query|command|statement|script|snippet|call|code)s?\b[^.:;]{0,60}:\s)"
)
_PUNCTUATION = re.compile(r"[^\w\s%<>=/.-]|[.\-](?=\s|$)")


class Outcome(StrEnum):
    """What became of a rule."""

    KEPT = "kept"
    JOINED = "joined"
    """It says what an earlier one says."""
    LEFT_OUT = "left out"


class Drafted(NamedTuple):
    """One rule and what became of it."""

    rule: Rule
    outcome: Outcome
    id: str = ""
    """Its id in the draft; of a joined one, the id of the rule it repeats."""
    lesson: Lesson | None = None
    note: str = ""
    """Code that does not fit into the text."""
    checks: tuple[str, ...] = ()
    """What a person has to look at."""
    reasons: tuple[str, ...] = ()
    """Why it was left out."""
    speakable: bool = True
    """Whether its words may be shown and copied."""


def draft_rules(rules: Iterable[Rule], domain: str) -> list[Drafted]:
    """Judge every rule; the order stays."""
    done: list[Drafted] = []
    ids: set[str] = set()
    known: dict[str, str] = {}
    for rule in (part for whole in rules for part in split(whole, domain)):
        drafted = draft_one(rule, domain)
        if drafted.outcome is Outcome.KEPT:
            words = same_words(rule.text)
            if words in known:
                drafted = Drafted(rule, Outcome.JOINED, known[words])
            else:
                known[words] = unique_id(slug(rule.text), rule.line, ids)
                ids.add(known[words])
                drafted = drafted._replace(id=known[words])
        done.append(drafted)
    return done


def same_words(text: str) -> str:
    """Return the form in which two spellings of a rule are equal."""
    return " ".join(_PUNCTUATION.sub(" ", normalise(text)).split())


def split(rule: Rule, domain: str) -> Iterator[Rule]:
    """Yield a rule that is too long in parts, if each of them can stand alone."""
    if TEXT_LIMIT < len(rule.text) <= LOOKED_AT:
        parts = list(fitting(grouped(sentences(rule.text))))
        cut = [rule._replace(text=part, code="") for part in parts]
        if len(cut) > 1 and all(draft_one(one, domain).outcome is Outcome.KEPT for one in cut):
            yield from (*cut[:-1], cut[-1]._replace(code=rule.code))
            return
    yield rule


def fitting(groups: Sequence[Sentence]) -> Iterator[str]:
    """Yield groups of sentences, joined as far as a lesson has room."""
    text = ""
    for group in groups:
        if text and len(text) + 1 + len(group.text) > TEXT_LIMIT:
            yield text
            text = ""
        text = f"{text} {group.text}".strip()
    if text:
        yield text


def draft_one(rule: Rule, domain: str) -> Drafted:
    """Judge one rule; its id is not decided yet."""
    if rule.unread:
        return Drafted(rule, Outcome.LEFT_OUT, reasons=(rule.unread,), speakable=False)
    if not re.search(r"\w", rule.text):
        return Drafted(rule, Outcome.LEFT_OUT, reasons=("has no words",), speakable=False)
    if len(rule.text) > LOOKED_AT or len(rule.code) > LOOKED_AT:
        reason = f"has more than {LOOKED_AT} characters: split it"
        return Drafted(rule, Outcome.LEFT_OUT, reasons=(reason,), speakable=False)
    if unspeakable := list(dict.fromkeys(find_unspeakable(rule))):
        return Drafted(rule, Outcome.LEFT_OUT, reasons=tuple(unspeakable), speakable=False)
    if describes_role(rule.text):
        return Drafted(rule, Outcome.LEFT_OUT, reasons=("describes the assistant",))
    text, note = with_code(self_contained(finished(rule.text)), rule.code, rule.language)
    if len(text) > TEXT_LIMIT:
        reason = f"has {len(text)} characters, {TEXT_LIMIT} fit: shorten or split it"
        return Drafted(rule, Outcome.LEFT_OUT, reasons=(reason,))
    return _linted(rule, as_lesson(rule, text, domain), note)


def _linted(rule: Rule, lesson: Lesson, note: str) -> Drafted:
    findings = lint(lesson)
    if bad := [found for found in findings if _stops(found, lesson.text)]:
        speakable = not any(found.rule in UNSPEAKABLE for found in bad)
        reasons = dict.fromkeys(said(found, speakable) for found in bad)
        return Drafted(rule, Outcome.LEFT_OUT, reasons=tuple(reasons), speakable=speakable)
    checks = dict.fromkeys(said(found, speakable=True) for found in findings)
    if note:
        checks["its code stands in note, which is not recalled: put what matters into text"] = None
    return Drafted(rule, Outcome.KEPT, lesson=lesson, note=note, checks=tuple(checks))


def _stops(found: Finding, text: str) -> bool:
    passable = found.rule in TO_CHECK or (found.rule == "unsafe" and is_negative(text))
    return found.severity is Severity.REJECT or not passable


def said(found: Finding, speakable: bool) -> str:
    """Return a finding's sentence, without the words it quotes where those must not be shown.

    The trigger is made from the text: what is said of both is said once.
    """
    sentence = found.sentence.removeprefix("trigger: ").removeprefix("tags: ")
    return sentence if speakable else re.sub(r":? '[^\n]*'$", "", sentence)


def find_unspeakable(rule: Rule) -> Iterator[str]:
    """Yield why a rule's words may not be repeated."""
    for text in (rule.text, rule.code, rule.trigger, *rule.context):
        for sensitive in find_sensitive(text):
            yield f"contains what looks like {sensitive.kind}"
        for hidden in find_hidden(text):
            yield f"contains hidden character {hidden.code} {hidden.name}"
        if find_lookalikes(text):
            yield "contains look-alike letters of another alphabet"


def with_code(text: str, code: str, language: str = "") -> tuple[str, str]:
    """Return the text with its code where it fits on one line, and the code where it does not."""
    if not code.strip():
        return text, ""
    one = on_one_line(code, language)
    whole = self_contained(f"{text.rstrip('.: ')}: `{one}`")
    if one and "`" not in one and len(whole) <= TEXT_LIMIT:
        return whole, ""
    return text, code.strip("\n")[:NOTE_LIMIT]


def self_contained(text: str) -> str:
    """Return `this query: …` as `the query: …`: what it points at stands in the lesson."""
    return _POINTING.sub("the", text)


def on_one_line(code: str, language: str) -> str:
    """Return code on one line where that changes nothing: one line, SQL, plain commands."""
    lines = [_PROMPT.sub("", line).strip() for line in code.splitlines() if line.strip()]
    if len(lines) == 1:
        return lines[0]
    if _SQL.match(lines[0]) and "--" not in code:
        return " ".join(lines)
    plain = not any(_UNFINISHED.search(line) or line.startswith("#") for line in lines)
    return "; ".join(lines) if language.casefold() in _SHELLS and plain else ""


def as_lesson(rule: Rule, text: str, domain: str) -> Lesson:
    """Return the lesson a rule makes, with what it does not say guessed."""
    trigger = guess_trigger(text, rule.context, rule.trigger)
    return Lesson.build(
        domain=domain,
        text=text,
        kind=guess_kind(text, trigger).kind,
        trigger=trigger,
        tags=guess_tags(text, rule.context),
        source=f"seed:{domain}",
    )
