"""Read a finished exchange: whatever Open WebUI hands over becomes a row of turns.

Covered: saved, API and temporary chats; strings, part lists, null; `output`
items; OpenAI tool calls with their results; Continue, regenerate, compaction.
Left out: system and developer text (our own lessons come back in it), reasoning,
images, collapsed details and whatever has an unknown shape.
Documents put around a user's words become results of the tool `document`.

A result counts as failed when its status says so, when its JSON carries an error
(`error`, `success: false`, a 4xx or 5xx code, a non-zero exit code), or when its
text opens as errors do (`failure.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lessons_loop.filter.failure import looks_failed
from lessons_loop.filter.text import scrub

Role = Literal["user", "assistant", "call", "result"]
DOCUMENT = "document"
"""Tool name of text that was retrieved, not computed: it proves nothing."""
SOURCE_MARK = "lessons_loop"
"""Set in the metadata of the sources that show recalled lessons."""
_FAILED_STATUS = frozenset({"failed", "rejected", "incomplete", "error", "cancelled"})
_DOCUMENT_TAGS = {
    "</context>": re.compile(r"<context>(.*)</context>", re.DOTALL),
    "</source>": re.compile(r"<source\b[^>]{0,500}>(.*?)</source>", re.DOTALL),
}
_RETRIEVAL_HEAD = "### Task:"
_HIDDEN_BLOCKS = re.compile(
    r"<(details|think|thinking|reason|reasoning|thought)\b[^>]{0,500}>.*?(?:</\1\s{0,9}>|\Z)",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class Turn:
    """One step of an exchange; `text` of a call is its arguments."""

    role: Role
    text: str
    tool: str = ""
    call_id: str = ""
    failed: bool = False


def text_of(content: object) -> str:
    """Return the text of a message's content; parts that are no text are left out."""
    if isinstance(content, str):
        return scrub(content)
    if isinstance(content, Mapping):
        text = content.get("text")
        return scrub(text) if isinstance(text, str) else ""
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return "\n".join(text for part in content if (text := text_of_part(part)))
    return ""


def text_of_part(part: object) -> str:
    """Return the text of one content part, at one level only."""
    if isinstance(part, Mapping):
        part = part.get("text")
    return scrub(part) if isinstance(part, str) else ""


def read_transcript(messages: Sequence[object]) -> tuple[Turn, ...]:
    """Return the turns of an exchange; unknown shapes are ignored, nothing is raised."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        return ()
    found: list[Turn] = []
    for message in messages:
        if isinstance(message, Mapping):
            found.extend(_message_turns(message))
    return _with_tool_names(found)


def _message_turns(message: Mapping[str, object]) -> Iterator[Turn]:
    role = message.get("role")
    if role == "user":
        yield from _user_turns(text_of(message.get("content")))
    elif role == "assistant":
        turns = list(_assistant_turns(message))
        results = {turn.text.strip() for turn in turns if turn.role == "result"}
        sources = _source_turns(message.get("sources"))
        yield from (source for source in sources if source.text not in results)
        yield from turns
    elif role == "tool":
        yield _result_turn(message.get("tool_call_id"), text_of(message.get("content")), message)


def _user_turns(text: str) -> Iterator[Turn]:
    own, documents = split_documents(text)
    for document in documents:
        yield Turn("result", document, tool=DOCUMENT)
    if own:
        yield Turn("user", own)


def split_documents(text: str) -> tuple[str, tuple[str, ...]]:
    """Part a user's own words from the documents a retrieval template put around them."""
    documents: list[str] = []
    rest = text
    for closing, pattern in _DOCUMENT_TAGS.items():
        # Only as far as the last closing tag: without one each opening tag costs a full scan.
        head, tag, tail = rest.rpartition(closing)
        documents += [found.strip() for found in pattern.findall(head + tag) if found.strip()]
        rest = pattern.sub("\x00", head + tag) + tail
    if documents and rest.lstrip().startswith(_RETRIEVAL_HEAD):
        rest = rest.rpartition("\x00")[2]
    return rest.replace("\x00", "").strip(), tuple(documents)


def _source_turns(sources: object) -> Iterator[Turn]:
    for source in sources if isinstance(sources, list) else []:
        if not isinstance(source, Mapping) or is_lesson_source(source):
            continue
        documents = source.get("document")
        if text := text_of(documents).strip():
            yield Turn("result", text, tool=DOCUMENT)


def is_lesson_source(source: Mapping[str, object]) -> bool:
    """Say whether a source shows one of our own lessons, which must not be learned again."""
    marks = source.get("metadata")
    return any(
        isinstance(mark, Mapping) and mark.get(SOURCE_MARK)
        for mark in (marks if isinstance(marks, list) else [])
    )


def _assistant_turns(message: Mapping[str, object]) -> Iterator[Turn]:
    output = message.get("output")
    items = output if isinstance(output, list) else []
    turns = [turn for item in items if isinstance(item, Mapping) for turn in _item_turns(item)]
    if turns:
        yield from turns
        return
    if text := _shown_text(text_of(message.get("content"))):
        yield Turn("assistant", text)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        yield from _openai_call(call)


def _shown_text(text: str) -> str:
    return _HIDDEN_BLOCKS.sub("", text).strip()


def _item_turns(item: Mapping[str, object]) -> Iterator[Turn]:
    kind = item.get("type")
    if kind == "message" and (text := _shown_text(text_of(item.get("content")))):
        yield Turn("assistant", text)
    elif kind == "function_call":
        yield _call_turn(item.get("call_id"), item.get("name"), item.get("arguments"))
    elif kind == "function_call_output":
        yield _result_turn(item.get("call_id"), text_of(item.get("output")), item)
    elif kind == "open_webui:code_interpreter":
        yield from _interpreter_turns(item)


def _interpreter_turns(item: Mapping[str, object]) -> Iterator[Turn]:
    call_id, name = item.get("id"), "code_interpreter"
    yield replace(_call_turn(call_id, name, item.get("code")), tool=name)
    output = item.get("output")
    if output not in (None, "", {}):
        text = output if isinstance(output, str) else _json_text(output)
        yield replace(_result_turn(call_id, scrub(text), item), tool=name)


def _openai_call(call: object) -> Iterator[Turn]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if isinstance(call, Mapping) and isinstance(function, Mapping):
        yield _call_turn(call.get("id"), function.get("name"), function.get("arguments"))


def _call_turn(call_id: object, name: object, arguments: object) -> Turn:
    text = arguments if isinstance(arguments, str) else _json_text(arguments)
    return Turn("call", scrub(text), tool=_name_of(name), call_id=_name_of(call_id))


def _result_turn(call_id: object, text: str, source: Mapping[str, object]) -> Turn:
    failed = source.get("status") in _FAILED_STATUS or looks_failed(text)
    return Turn(
        "result", text, tool=_name_of(source.get("name")), call_id=_name_of(call_id), failed=failed
    )


def _name_of(value: object) -> str:
    return scrub(value).strip() if isinstance(value, str) else ""


def _json_text(value: object) -> str:
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def _with_tool_names(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Give each result the name of its call: the call before it that carries its id."""
    names: dict[str, str] = {}
    named = []
    for turn in turns:
        if turn.role == "call":
            names[turn.call_id] = turn.tool
        elif turn.role == "result" and turn.tool != DOCUMENT:
            turn = replace(turn, tool=turn.tool or names.get(turn.call_id, ""))
        named.append(turn)
    return tuple(named)
