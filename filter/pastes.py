"""The telling parts of a long paste, so that one decisive line among thousands counts.

Lines of the same shape (numbers, ids and paths aside) are folded into their first;
what is left is cut into the person's own words, the lines that look like errors and
the rarest ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

VIEW_LIMIT = 700
"""Characters embedded at once: MiniLM reads 256 word pieces and ignores the rest."""
_PASTE_RARE = 6
_PASTE_LINE_LIMIT = 300
ERROR_WORDS = re.compile(
    r"error|exception|traceback|fail|fatal|denied|refused|timed? ?out|panic|killed|oom|warn"
    r"|critical|unauthori[sz]ed|forbidden|not found|cannot|can't|unable|invalid|missing|abort"
    r"|exit(ed)? (code|status)?|fehler|erreur|errore|ошибк|错误|失败|エラー|\b[45]\d\d\b",
    re.IGNORECASE,
)
_PASTE_NUMBERS = re.compile(r"[0-9a-f]{8,}|\d+", re.IGNORECASE)
_PASTE_NAMES = re.compile(r"[\w./:-]*#[\w#./:-]*")
_PASTE_FRAMES = re.compile(r"^(?:at [\w$.<>]+ ?\(|File \".*\", line|\.\.\. \d+ more|#\d+ )")
_PASTE_WORDS = re.compile(r"\w+", re.UNICODE)
_PASTE_RULES = re.compile(r"^\W*$")


class Paste(NamedTuple):
    """Lines of a paste, folded, in their order."""

    lines: tuple[str, ...]
    ranked: tuple[int, ...]
    """Line numbers, most telling first."""
    errors: tuple[int, ...]
    """Those that look like errors, most telling first."""


def windows(text: str, most: int) -> tuple[str, ...]:
    """Return at most `most` parts of a paste, each short enough to be embedded."""
    given = [line.strip() for line in text.splitlines() if not _PASTE_RULES.match(line)]
    if len(given) < 4:
        given = [text[start : start + 200] for start in range(0, len(text), 200)]
    paste = folded(given)
    last = len(paste.lines) - 1
    wanted: list[Iterable[int]] = [
        paste.errors or paste.ranked[:_PASTE_RARE],
        dict.fromkeys([last, 0, *paste.ranked]),
        range(last + 1),
        range(last, -1, -1),
        *([number] for number in paste.ranked[:most]),
    ]
    parts = (packed(paste.lines, numbers) for numbers in wanted)
    return tuple(dict.fromkeys(filter(None, parts)))[:most]


def folded(lines: Sequence[str]) -> Paste:
    """Fold lines of the same shape into their first and rank what is left."""
    firsts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for line in lines:
        counts[one := shape(line)] += 1
        firsts.setdefault(one, line)
    bags = [set(_PASTE_WORDS.findall(one)) for one in firsts]
    words = Counter(word for bag in bags for word in bag)
    error = [bool(ERROR_WORDS.search(line)) for line in firsts.values()]
    once = [counts[one] == 1 for one in firsts]
    rare = [sum(words[word] == 1 for word in bag) for bag in bags]
    ranked = sorted(range(len(bags)), key=lambda at: (-(2 * error[at] + once[at]), -rare[at], at))
    return Paste(tuple(firsts.values()), tuple(ranked), tuple(at for at in ranked if error[at]))


def shape(line: str) -> str:
    """Return what lines written by the same statement have in common."""
    if _PASTE_FRAMES.match(line):
        return "frame"
    return _PASTE_NAMES.sub("#", _PASTE_NUMBERS.sub("#", line.lower()))


def packed(lines: Sequence[str], wanted: Iterable[int]) -> str:
    """Return as many of the wanted lines as fit one view, in the paste's order."""
    chosen, size = [], 0
    for number in wanted:
        length = min(len(lines[number]), _PASTE_LINE_LIMIT) + 1
        if size + length <= VIEW_LIMIT:
            chosen.append(number)
            size += length
    return "\n".join(lines[number][:_PASTE_LINE_LIMIT] for number in sorted(chosen))
