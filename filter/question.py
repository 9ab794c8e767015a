"""The question to recall for: the user's last real one, with what carries its topic.

A short follow-up is joined with the turns before it; a long paste is cut into
windows, so that one decisive line among thousands still counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lessons_loop.filter.cues import accepts
from lessons_loop.filter.text import scrub, shorten
from lessons_loop.filter.transcript import text_of

QUESTION_LIMIT = 60_000
"""Characters looked at: half from the start, half from the end."""
VIEW_LIMIT = 700
"""Characters embedded at once: MiniLM reads 256 word pieces and ignores the rest."""
FOLLOW_UP_WORDS = 16
THANKS_WORDS = 4
LOOKED_BACK = 20
"""User turns among which the question is looked for: a chat may have thousands."""
WINDOW_LINES = 6
ERROR_WORDS = re.compile(
    r"error|exception|traceback|fail|fatal|denied|refused|timed? ?out|panic|killed|oom|warn"
    r"|critical|unauthori[sz]ed|forbidden|not found|cannot|can't|unable|invalid|missing|abort"
    r"|exit(ed)? (code|status)?|fehler|erreur|errore|ошибк|错误|失败|エラー|\b[45]\d\d\b",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"[0-9a-f]{8,}|\d+", re.IGNORECASE)
_WORDS = re.compile(r"\w+", re.UNICODE)


class Question(NamedTuple):
    """What the user asked, and the turns before it (oldest first)."""

    text: str
    earlier: tuple[str, ...] = ()


def read_question(messages: Sequence[Any], metadata: Mapping[str, Any] | None) -> Question:
    """Return the user's last real question; its text is empty when there is none.

    `user_message` of the metadata wins where present: on Continue the last
    message is the assistant's, on a guided regenerate it is an instruction.
    """
    turns = [
        m for m in messages if isinstance(m, Mapping) and m.get("role") in ("user", "assistant")
    ]
    users = [i for i, turn in enumerate(turns) if turn.get("role") == "user"][-LOOKED_BACK:]
    asked = (metadata or {}).get("user_message")
    text = said(asked) if isinstance(asked, Mapping) else ""
    if not text:
        text = said(turns[users[-1]]) if users else ""
    end = next((i for i in reversed(users) if said(turns[i]) == text), users[-1] if users else 0)
    earlier = (said(turn) for turn in turns[max(0, end - 4) : end])
    return Question(text, tuple(turn for turn in earlier if turn))


def said(message: Mapping[str, Any]) -> str:
    """Return what a message says, cleaned and clipped."""
    return scrub(clip(text_of(message.get("content")))).strip()


def clip(text: str) -> str:
    """Keep both ends of a text too long to look at."""
    half = QUESTION_LIMIT // 2
    return text if len(text) <= QUESTION_LIMIT else f"{text[:half]}\n{text[-half:]}"


def views(question: Question, most: int = 6) -> tuple[str, ...]:
    """Return the texts to score, at most `most`; the best of them counts for each lesson."""
    text = question.text
    if not text:
        return ()
    if len(text) > VIEW_LIMIT:
        return windows(text, most)
    if not question.earlier or len(_WORDS.findall(text)) > FOLLOW_UP_WORDS or only_thanks(question):
        return (text,)
    return (text, follow_up(question))


def only_thanks(question: Question) -> bool:
    """Say whether the user only thanks or confirms; a `yes` to a question asks for more."""
    answered = question.earlier[-1].rstrip()[-1:] not in ("?", "？")
    short = len(_WORDS.findall(question.text)) <= THANKS_WORDS
    return short and answered and "?" not in question.text and accepts(question.text)


def follow_up(question: Question) -> str:
    """Join a short follow-up with the turns that carry its topic."""
    share = (VIEW_LIMIT - len(question.text)) // max(1, len(question.earlier))
    context = [shorten(turn, max(80, share)) for turn in question.earlier]
    return "\n".join([*context, question.text])


def windows(text: str, most: int) -> tuple[str, ...]:
    """Cut a long paste: head, tail, then the windows around its most telling lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 4:
        lines = [text[i : i + 200] for i in range(0, len(text), 200)]
    spans = [window_at(lines, 0), window_at(lines, len(lines) - WINDOW_LINES)]
    for centre in telling_lines(lines):
        if len(spans) >= most:
            break
        if not any(start <= centre < stop for start, stop in spans):
            spans.append(window_at(lines, centre - 1))
    return tuple(dict.fromkeys(shorten("\n".join(lines[a:b]), VIEW_LIMIT) for a, b in spans))


def window_at(lines: Sequence[str], start: int) -> tuple[int, int]:
    """Return a span of lines that fits one view."""
    first = stop = max(0, min(start, len(lines) - 1))
    size = 0
    while (
        stop < len(lines) and stop - first < WINDOW_LINES and size + len(lines[stop]) < VIEW_LIMIT
    ):
        size += len(lines[stop])
        stop += 1
    return first, max(stop, first + 1)


def telling_lines(lines: Sequence[str]) -> list[int]:
    """Return line numbers, most telling first: rare shapes, then lines that look like errors."""
    shapes = [_NUMBERS.sub("#", line.lower()) for line in lines]
    counts = Counter(shapes)
    words = Counter(word for shape in counts for word in set(_WORDS.findall(shape)))

    def rank(number: int) -> tuple[float, float, int]:
        rare = [w for w in set(_WORDS.findall(shapes[number])) if words[w] == 1]
        error = bool(ERROR_WORDS.search(lines[number]))
        return (-(2.0 * error + (counts[shapes[number]] == 1)), -float(len(rare)), number)

    return sorted(range(len(lines)), key=rank)
