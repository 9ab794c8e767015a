"""Tell how the tool calls behind an answer ended: well, badly, or nothing can be said.

`ok`: tools ran and the last result is no error and not empty, in an answer that came to
its end. `failed`: the last result is an error by its shape (`failure.py`). Errors before
it were overcome. Retrieved documents are no tool results.
Not covered: a wrong result that looks like a right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lessons_loop.filter.failure import looks_empty
from lessons_loop.filter.inject import role_of
from lessons_loop.filter.transcript import DOCUMENT, read_transcript

ToolsEnd = Literal["", "ok", "failed"]


def how_tools_ended(messages: Sequence[object], *, whole: bool) -> ToolsEnd:
    """Return how the last tool of the newest answer ended; `whole`: it has a finish reason."""
    turns = read_transcript(newest_answer(messages))
    results = [turn for turn in turns if turn.role == "result" and turn.tool != DOCUMENT]
    if not results:
        return ""
    if results[-1].failed:
        return "failed"
    return "ok" if whole and not looks_empty(results[-1].text) else ""


def newest_answer(messages: Sequence[object]) -> Sequence[object]:
    """Return what stands behind the last message of the user."""
    for place in range(len(messages) - 1, -1, -1):
        if role_of(messages[place]) == "user":
            return messages[place + 1 :]
    return messages
