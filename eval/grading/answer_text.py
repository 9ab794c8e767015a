"""An answer's text as checks read it: without thinking, and in one spelling.

Case, white space and typographic variants (quotes, dashes, full-width and combined letters,
invisible characters, marks of bold and code) do not count; whole words do.
"""

from __future__ import annotations

import functools
import re
import unicodedata

ANSWER_LIMIT = 200_000
"""Characters of an answer that are read."""
_THINKING = re.compile(
    r"<(details|think|thinking|reason|reasoning|thought)\b[^>]{0,500}>.*?(?:</\1\s{0,9}>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_SPELLINGS = str.maketrans(
    {c: "'" for c in "‘’‚‛′`´ʹʼ"}
    | {c: '"' for c in "“”„‟″«»"}
    | {c: "-" for c in "‐‑‒–—―−﹣－"}
    | {"…": "...", "×": "x", "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": ""}
    | {"\ufeff": "", "\u00ad": "", "*": ""}
)
_SPACE = re.compile(r"\s+")
_EMPHASIS = re.compile(r"(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts that put no space between words."""


def shown_text(answer: str) -> str:
    """Return what a reader of the answer sees: without blocks of thinking and of tool calls."""
    return _THINKING.sub(" ", answer[:ANSWER_LIMIT])


def one_spelling(text: str) -> str:
    """Return the form in which spellings of one text are equal; lines are kept."""
    return _EMPHASIS.sub("", unicodedata.normalize("NFKC", text.translate(_SPELLINGS)))


def comparable(text: str) -> str:
    """Return a text on one line, in one spelling and case."""
    return _SPACE.sub(" ", one_spelling(text).replace("'", "").casefold()).strip()


def has_phrase(text: str, phrase: str) -> bool:
    """Say whether a phrase stands in a text that is `comparable`, as whole words.

    "correct" is not in "incorrect", "47" neither in "147" nor in "4.7" or "47.5".
    """
    return _phrase(comparable(phrase)).search(text) is not None


@functools.lru_cache(maxsize=1000)
def _phrase(phrase: str) -> re.Pattern[str]:
    if not phrase:
        return re.compile(r"(?!)")
    before, after = _edge(phrase[0], "<"), _edge(phrase[-1], "")
    return re.compile(f"{before}{re.escape(phrase)}{after}")


def _edge(letter: str, direction: str) -> str:
    """Return the condition beside a phrase that ends with this letter."""
    if letter.isdigit():
        figure = r"(?<!\d[.,])" if direction else r"(?![.,]\d)"
        return rf"(?{direction}!\w){figure}"
    word = letter.isalnum() or letter == "_"
    return rf"(?{direction}!\w)" if word and not _UNSPACED.match(letter) else ""
