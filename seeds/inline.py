"""Plain text of a Markdown paragraph: emphasis goes, code keeps its back quotes."""

from __future__ import annotations

import re
from typing import NamedTuple

from markdown_it.tree import SyntaxTreeNode

_HTML = re.compile(
    r"</?(?:a|b|br|code|div|em|font|hr|i|img|kbd|li|ol|p|small|span|strong|su[bp]|table|tbody|td|th"
    r"|thead|tr|u|ul)\b[^>]*>",
    re.IGNORECASE,
)
"""Layout; anything else in angle brackets is a placeholder such as `<name>`."""
_LABEL = re.compile(r"^([^:：.!?]{2,40})[:：](?=\s)")


class Inline(NamedTuple):
    """What a paragraph says."""

    label: str
    """A bold start such as `**Serials:**`, which names the subject."""
    text: str


def inline_text(node: SyntaxTreeNode) -> Inline:
    """Return a paragraph's text; a bold label is part of it and told apart as well."""
    text = "".join(_plain(child) for child in node.children)
    first = node.children[0] if node.children else None
    found = _LABEL.match(text) if first is not None and first.type == "strong" else None
    if found and first is not None and len(_plain(first).rstrip(":： ")) == len(found.group(1)):
        return Inline(found.group(1), text[found.end() :].strip())
    return Inline("", text.strip())


def _plain(node: SyntaxTreeNode) -> str:
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    if node.type == "code_inline":
        return f"`{node.content}`"
    if node.type == "html_inline":
        return _HTML.sub(" ", node.content)
    if node.children:
        return "".join(_plain(child) for child in node.children)
    return node.content
