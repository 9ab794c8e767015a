"""Make a rule list plain Markdown: bullets of text files, tags of system prompts, comments."""

from __future__ import annotations

import re
from typing import NamedTuple

from lessons_loop.seeds.phrases import forbids

_BULLETS = re.compile(r"^([ \t]*)[•‣◦·●▪–—][ \t]+", re.MULTILINE)
_NOT_READ = {
    "front matter": re.compile(r"\A---\n.*?\n(?:---|\.\.\.)[ \t]*(?=\n|\Z)", re.DOTALL),
    "a comment": re.compile(r"<!--.*?-->", re.DOTALL),
}
_TAG_LINE = re.compile(
    r"^[ \t]*<(?P<closing>/?)(?P<name>[A-Za-z][\w:-]*)(?:[ \t][^<>\n]*)?/?>[ \t]*$", re.MULTILINE
)
"""By CommonMark's rules a tag swallows the list it encloses; system prompts are full of them."""
_END_OF_LIST = "***"


class Markup(NamedTuple):
    """A text ready for a Markdown parser; its lines are those of the file."""

    text: str
    passed_over: tuple[tuple[int, str], ...]
    """Line and name of what is not read."""


def plain_markup(text: str) -> Markup:
    """Return the text without comments and tags, and where something was passed over."""
    passed_over: list[tuple[int, str]] = []
    for name, form in _NOT_READ.items():
        for found in form.finditer(text):
            passed_over.append((text.count("\n", 0, found.start()) + 1, name))
        text = form.sub(lambda found: "\n" * found.group().count("\n"), text)
    return Markup(_BULLETS.sub(r"\1- ", _TAG_LINE.sub(_as_words, text)), tuple(passed_over))


def _as_words(found: re.Match[str]) -> str:
    """Return what a tag on a line of its own stands for: an opener, or the end of a list."""
    if found.group("closing"):
        return _END_OF_LIST
    name = found.group("name").replace("_", " ").replace("-", " ")
    return f"{name}:" if forbids(name) else ""
