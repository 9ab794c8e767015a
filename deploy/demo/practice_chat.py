"""The practice model as a chat partner: question to query, query result to answer.

A script, not a language model: it knows six classes of questions on the demo
data, and those of the tables in `practice_classes`. Without advice it starts with
the naive query (a text match on what people typed); it uses the governed columns
only where their names stand in the system message (a recalled lesson) or in a
describe_tables result of the same chat. It keeps no state between requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lessons_loop.deploy.demo.practice_classes import (
    Fitting,
    class_answer,
    class_query,
    find_class,
    serial_digits,
)
from lessons_loop.deploy.demo.practice_options import wrong_result
from lessons_loop.deploy.demo.practice_queries import SIGNATURE, Question, answer, query

CALL_LIMIT = 5
"""Tool calls per question at most; then it says that it failed."""
SELF = (
    "I am the practice model: a script that stands in for a language model, so I can only answer "
    "questions on the demo machines, with the run_sql tool switched on. Try: operating hours of "
    "SN-004711 over the trailing 12 months; open work orders of SN-004711; when was SN-004711 "
    "last serviced; which model is SN-004711; machines at Hafenbecken; how many hydraulic leaks."
)
_IDENTIFIER = re.compile(r"[a-z]+(?:_[a-z]+)+")
_SITE = re.compile(
    r"\b(?:at|in|on|am|auf|of)\s+(?:the\s+)?(?:site\s+)?([A-ZÄÖÜ][\w' ]*?)\s*(?:[?.,!]|$)"
)
_FAULTS = ("hydraulic leak", "blown fuse", "engine overheating", "worn brake pads")
TOPICS: tuple[tuple[str, str], ...] = (
    ("hours", r"operating hours|running hours|run hours|hours run|betriebsstunden|hours"),
    ("service", r"last (?:\w+ )?servic|serviced|letzte wartung|gewartet"),
    ("fault", "|".join(_FAULTS) + "|overheat|brake"),
    ("orders", r"work orders?|open orders?|orders|aufträge"),
    ("site", r"machines|maschinen"),
    ("machine", r"model|site|where|machine|maschine|located"),
)


class Step(NamedTuple):
    """What the model says next: a tool call, or a text."""

    text: str = ""
    tool: str = ""
    arguments: str = ""


class Past(NamedTuple):
    """One tool call since the last question, with its result."""

    tool: str
    result: str


def next_step(messages: Sequence[Any], tools: Sequence[str], wrong: bool = False) -> Step:
    """Return the next step of a chat, from nothing but the request; `wrong` misreads results."""
    run_sql, describe = _offered(tools, "run_sql"), _offered(tools, "describe_tables")
    asked = find_class(_spoken(messages)) or find_question(messages)
    if isinstance(asked, Fitting) and not asked.kind.naive:
        return Step(f"{asked.kind.wrong if wrong else asked.kind.say} {SIGNATURE}")
    if asked is None or not run_sql:
        return Step(SELF)
    past = past_calls(messages)
    if not past or (past[-1].tool == describe and not _failed(past[-1].result)):
        return Step(tool=run_sql, arguments=json.dumps({"sql": _query(asked, messages, past)}))
    if not _failed(past[-1].result):
        result = past[-1].result
        return Step(_answer(asked, wrong_result(result) if wrong else result))
    described = any(call.tool == describe for call in past)
    if describe and not described and len(past) < CALL_LIMIT:
        return Step(tool=describe, arguments="{}")
    return Step(f"I could not find that out: the data server said {past[-1].result} {SIGNATURE}")


def _query(asked: Fitting | Question, messages: Sequence[Any], past: Sequence[Past]) -> str:
    if isinstance(asked, Question):
        return query(asked, known_names(messages))
    told = "\n".join(_system(messages))
    return class_query(asked, told, looked=bool(past))


def _answer(asked: Fitting | Question, result: str) -> str:
    if isinstance(asked, Question):
        return answer(asked, result)
    return f"{class_answer(asked, result)} {SIGNATURE}"


def _spoken(messages: Sequence[Any]) -> list[str]:
    return [text_of(m.get("content")) for m in _dicts(messages) if m.get("role") == "user"]


def _system(messages: Sequence[Any]) -> list[str]:
    return [text_of(m.get("content")) for m in _dicts(messages) if m.get("role") == "system"]


def find_question(messages: Sequence[Any]) -> Question | None:
    """Return the last question; "and SN-000815?" or "is it in use?" lean on the one before."""
    recent = _spoken(messages)[:-4:-1]
    if not recent or not (_topic(recent[0]) or _subject("", recent[0])):
        return None
    topic = next(filter(None, map(_topic, recent)), "")
    own = _subject(topic, recent[0])
    subject = own or next(filter(None, (_subject("", text) for text in recent)), "")
    named = own if topic in ("site", "fault") else subject
    return Question(topic, named) if topic and named else None


def _topic(text: str) -> str:
    found = (name for name, cues in TOPICS if re.search(cues, text, re.IGNORECASE))
    return next(found, "")


def _subject(topic: str, text: str) -> str:
    if topic == "fault":
        cue = {"overheat": _FAULTS[2], "brake": _FAULTS[3], "fuse": _FAULTS[1], "leak": _FAULTS[0]}
        return next((fault for word, fault in cue.items() if word in text.lower()), "")
    if topic == "site":
        site = _SITE.search(text)
        return site.group(1) if site else ""
    digits = serial_digits(text)
    return f"SN-{digits:0>6}" if digits else ""


def known_names(messages: Sequence[Any]) -> set[str]:
    """Return the identifiers told by system messages and describe_tables results."""
    results = [text_of(m.get("content")) for m in _dicts(messages) if m.get("role") == "tool"]
    texts = _system(messages) + [text for text in results if text.startswith('{"tables"')]
    return {name for text in texts for name in _IDENTIFIER.findall(text)}


def past_calls(messages: Sequence[Any]) -> list[Past]:
    """Return the tool calls since the user's last message."""
    names: dict[str, str] = {}
    past: list[Past] = []
    for message in _dicts(messages):
        if message.get("role") == "user":
            past.clear()
        names |= _call_names(message.get("tool_calls"))
        if message.get("role") == "tool":
            name = names.get(str(message.get("tool_call_id")), "")
            past.append(Past(name, text_of(message.get("content"))))
    return past


def _call_names(calls: object) -> dict[str, str]:
    listed = calls if isinstance(calls, list) else []
    pairs = ((call, call.get("function")) for call in _dicts(listed))
    return {
        str(call.get("id")): str(function.get("name"))
        for call, function in pairs
        if isinstance(function, Mapping)
    }


def _failed(result: str) -> bool:
    """Say whether a tool result is an error: Open WebUI hands one over as {"error": ...}."""
    try:
        table = json.loads(result)
    except ValueError:
        return result.lower().startswith(("error", "traceback"))
    return isinstance(table, dict) and "error" in table


def _offered(tools: Sequence[str], name: str) -> str:
    return next((tool for tool in tools if tool.endswith(name)), "")


def _dicts(messages: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [message for message in messages if isinstance(message, Mapping)]


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, text parts, or nothing."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
