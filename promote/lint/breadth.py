"""Lint how wide a lesson is: what it is about must be named, where it tells what to do too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.models import Lesson
from lessons_loop.promote.lint.findings import Finding, holds, rejects
from lessons_loop.promote.lint.imperative import command_phrases
from lessons_loop.promote.lint.language import guess_language
from lessons_loop.promote.lint.specifics import (
    names_a_system,
    names_in_lesson,
    touches_system,
    trade_words,
)

_I = re.IGNORECASE
_GENERIC_TRIGGER = re.compile(
    r"^\W*(?:(?:any|all|every|each|general|whatever|anything|everything|always|various|other"
    r"|unknown|arbitrary)\b"
    r"(?: (?:kinds? of|types? of|sorts? of|possible|user|new|given))*"
    r"(?: (?:questions?|quer(?:y|ies)|tasks?|requests?|chats?|messages?|problems?|errors?"
    r"|situations?|cases?|topics?"
    r"|answers?|conversations?|inputs?|prompts?|things?|users?|models?|time|data|tools?"
    r"|failures?))?"
    r"|(?:questions?|quer(?:y|ies)|tasks?|requests?|chats?|problems?|errors?|everything|data"
    r"|general|misc\w*|sql|api"
    r"|tools?|debugging|programming|coding|answering(?: questions)?))"
    r"(?: (?:about|on|in|of|for|with|from|by) (?:anything|everything|any \w+|all \w+|the users?"
    r"|general|an? \w+))?\W*$",
    _I,
)
_UNIVERSAL = re.compile(
    r"\b(?:any|all|every|always|never|everything|anything|whatever|whenever|generally"
    r"|in general|no matter|each time"
    r"|in all cases|everywhere|every time|at all times|something|somehow|some other"
    r"|another (?:one|tool|way|method|approach|model))\b",
    _I,
)
_SWEEPING = re.compile(r"always|never|some\w*.*|another .*", _I)
"""Words a person has to look at; the others in `_UNIVERSAL` reject."""


_EVERYWHERE = re.compile(
    r"\b(?:every|all|each|any) (?:\w+ )?(?:apis?|databases?|environments?|servers?|systems"
    r"|languages?"
    r"|tools?|projects?|reports?|compan\w+|programs?|applications?|services|sites|machines|things?"
    r"|situations?|cases|circumstances|problems?|purposes?)\b(?! (?:in|of|for|on|with|that"
    r"|whose)\b)"
    r"|\bwhatever (?:it|they|the \w+) (?:is|are|does|do)\b|\bfor (?:anything|everything)\b"
    r"|\bno matter what\b",
    _I,
)


def find_breadth(lesson: Lesson) -> Iterator[Finding]:
    """Yield a finding for advice about everything."""
    if _GENERIC_TRIGGER.match(lesson.trigger):
        yield rejects("over-broad", "its trigger fits any question")
    text, trigger = lesson.text, lesson.trigger
    if found := _universal(text, trigger):
        rule = holds if _SWEEPING.fullmatch(found.group()) else rejects
        yield rule("over-broad", f"speaks of everything and names nothing: '{found.group()}'")
    elif not names_a_system(text, trigger, guess_language(text)):
        yield holds("over-broad", "names no system, identifier or value it is about")
    elif found := _EVERYWHERE.search(text):
        yield holds("over-broad", f"speaks of everything: '{found.group()}'")
    elif part := next(_aimless(text), None):
        yield holds("over-broad", f"tells what to do, but to no system: '{part[:60]}'")


def _universal(text: str, trigger: str) -> re.Match[str] | None:
    """Return a word for everything in a lesson without names; beside terms only where it orders."""
    if names_in_lesson(text, trigger):
        return None
    if len(trade_words(text, trigger)) < _ENOUGH_WORDS:
        return _UNIVERSAL.search(text)
    parts = (part for part in _PART.split(text) if any(command_phrases(part)))
    return next(filter(None, map(_UNIVERSAL.search, parts)), None)


_ENOUGH_WORDS = 2
"""Words of the trade that tell advice about a system from advice about everything."""
_PART = re.compile(r"(?<=[.;!?])\s+")


_LEADS_IN = re.compile(r"\W*(?:with|without|in|on|for|by|at|from|to|as)\b[^,]*$", _I)
"""`With true the prices hold it.`: its verb is mostly no order."""


def _aimless(text: str) -> Iterator[str]:
    """Yield the parts that tell what to do and name nothing of a system: 1 % of good lessons do."""
    if not touches_system(text):
        yield text
    if guess_language(text) == "en":
        for part in _PART.split(text):
            if any(command_phrases(part)) and not (touches_system(part) or _LEADS_IN.match(part)):
                yield part


_COST = re.compile(
    r"slow|fast|quick|time|limit|memor|\bram\b|gpu|\bcpu|cost|expens|cheap|scan|huge|large|big"
    r"|many|number of|full|index|rows"
    r"|rate|quota|disk|space|storage|cache|latenc|token|paralle|batch|bound|page|heavy|load"
    r"|size|throttl|out of|exhaust|oom"
    r"|partition|shuffl|hang|lock|block|count|perform|second|minute|hour|runs? out|files?"
    r"|traffic|budget|retr|wait|pool",
    _I,
)


def find_kind(lesson: Lesson) -> Iterator[Finding]:
    """Yield a finding where the kind cannot be right: a perf-guard that names no cost."""
    spoken = f"{lesson.text} {lesson.trigger}"
    english = guess_language(spoken) == "en"
    if lesson.kind is Kind.PERF_GUARD and english and not _COST.search(spoken):
        yield holds("kind", "is labelled perf-guard but names no cost")
