"""Read the entries of a question file: every mistake is named with entry, field and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from lessons_loop.eval.grading.check_forms import BadCheck, read_check

ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
FIELDS = ("id", "topic", "question", "messages", "covers", "control", "checks", "rubric")
_ROLES = ("system", "user", "assistant")
# A leading zero is a serial or a code, as text: YAML 1.1 would read it as octal.
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$")


class Entry(NamedTuple):
    """One question as far as it could be read, with what is wrong about it."""

    name: str
    """Its id, or its place in the file."""
    fields: dict[str, Any]
    mistakes: tuple[str, ...]


class _Loader(yaml.SafeLoader):
    """Plain YAML 1.2: 12:30, 2026-01-31 and 0815 stay text; no field twice, no aliases."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases are not read", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                problem = f"{key.value} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("(?:true|false)$", re.I), None)
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("(?:~|null|)$", re.I), None)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, None)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, None)


def load_yaml(text: str) -> Any:
    """Return what a file says; raise yaml.YAMLError, RecursionError."""
    return yaml.load(text, Loader=_Loader)


def read_entries(found: Any) -> Iterator[Entry]:
    """Yield a file's questions with their mistakes."""
    if not isinstance(found, list) or not found:
        yield Entry("", {}, ("must be a list of questions, each beginning with `- id:`",))
        return
    for place, entry in enumerate(found, 1):
        yield read_entry(entry, place)


def read_entry(entry: Any, place: int) -> Entry:
    """Return one question and what is wrong about it."""
    if not isinstance(entry, Mapping):
        return Entry(f"entry {place}", {}, ("must be a mapping with id, topic, question, checks",))
    mistakes: list[str] = []
    if unknown := [str(key) for key in entry if key not in FIELDS]:
        mistakes.append(f"unknown {', '.join(unknown)}: allowed are {', '.join(FIELDS)}")
    fields = {
        "id": _word(entry, "id", mistakes),
        "topic": _word(entry, "topic", mistakes),
        "messages": _messages(entry, mistakes),
        "covers": _covers(entry, mistakes),
        "control": _control(entry, mistakes),
        "checks": tuple(_checks(entry, mistakes)),
        "rubric": _rubric(entry, mistakes),
    }
    if not fields["checks"] and not fields["rubric"] and not entry.get("checks"):
        mistakes.append("has neither checks nor a rubric: nothing could decide")
    return Entry(str(fields["id"] or f"entry {place}"), fields, tuple(mistakes))


def _word(entry: Mapping[str, Any], name: str, mistakes: list[str]) -> str:
    value = entry.get(name)
    written = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(written, str) and ID.fullmatch(written):
        return written
    problem = "is missing" if value is None else f"is {value!r}"[:60]
    mistakes.append(f"{name} {problem}: use small letters, digits and hyphens, at most 64")
    return ""


def _messages(entry: Mapping[str, Any], mistakes: list[str]) -> tuple[dict[str, Any], ...]:
    question, messages = entry.get("question"), entry.get("messages")
    if (question is None) == (messages is None):
        mistakes.append("give exactly one of question and messages")
        return ()
    if messages is None:
        if isinstance(question, str) and question.strip():
            return ({"role": "user", "content": question.strip()},)
        mistakes.append("question must be text: put it in quotes")
        return ()
    if isinstance(messages, list) and messages and all(map(_is_message, messages)):
        if messages[-1]["role"] == "user":
            return tuple(dict(message) for message in messages)
        mistakes.append("the last of messages must be the user's")
        return ()
    mistakes.append(f"messages must be a list of role ({', '.join(_ROLES)}) and content (text)")
    return ()


def _is_message(found: Any) -> bool:
    if not isinstance(found, Mapping) or set(found) != {"role", "content"}:
        return False
    content = found["content"]
    return found["role"] in _ROLES and isinstance(content, str) and bool(content.strip())


def _covers(entry: Mapping[str, Any], mistakes: list[str]) -> tuple[str, ...]:
    value = entry.get("covers") or []
    if isinstance(value, list) and all(isinstance(one, str) and one.strip() for one in value):
        return tuple(value)
    mistakes.append("covers must be a list of seed ids, [] for none")
    return ()


def _control(entry: Mapping[str, Any], mistakes: list[str]) -> bool:
    value = entry.get("control", False)
    if not isinstance(value, bool):
        mistakes.append(f"control must be true or false, got {value!r}"[:80])
    return value is True


def _rubric(entry: Mapping[str, Any], mistakes: list[str]) -> str:
    value = entry.get("rubric")
    if value is None or isinstance(value, str):
        return " ".join((value or "").split())
    mistakes.append("rubric must be one paragraph of text")
    return ""


def _checks(entry: Mapping[str, Any], mistakes: list[str]) -> Iterator[dict[str, Any]]:
    value = entry.get("checks") or []
    if not isinstance(value, list):
        mistakes.append("checks must be a list, each beginning with `- `")
        return
    for place, check in enumerate(value, 1):
        if not isinstance(check, Mapping):
            mistakes.append(f"check {place} must be a mapping such as `contains: text`")
            continue
        try:
            read_check(check)
        except BadCheck as error:
            mistakes.append(f"check {place}: {error}")
            continue
        yield dict(check)
