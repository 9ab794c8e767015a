"""Turn a rule list (Markdown or plain text) into rules, each with the context it stands in.

One rule per bullet, table row or instructing sentence. A nested bullet is joined with
the words above it, headings become context, a code block stays with its rule, a
numbered procedure is one rule. Lists under `Never:` are turned into prohibitions.
Covered: CommonMark with tables, bullets of plain text (`•`, `–`), check boxes.
Not covered: whether something is a good rule: that is the draft's lint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from lessons_loop.seeds.inline import Inline, inline_text
from lessons_loop.seeds.markup import plain_markup
from lessons_loop.seeds.phrases import (
    allows,
    forbid,
    forbids,
    grouped,
    instructs,
    is_generic,
    is_procedure,
    is_title,
    join,
    lower_first,
    sentences,
    unmarked,
)
from lessons_loop.seeds.rows import table_rows
from lessons_loop.seeds.source import BadSource

RULES_LIMIT = 2_000
"""More are no list somebody wrote by hand, and make a draft nobody reads."""
_LISTS = ("bullet_list", "ordered_list")
_CODE = ("fence", "code_block")


class Rule(NamedTuple):
    """One rule as written, and what stood above it."""

    line: int
    text: str
    context: tuple[str, ...] = ()
    """Headings, then parents; the most specific one last."""
    code: str = ""
    """A block that belongs to it, as written."""
    language: str = ""
    """What the block is written in, where it says so."""
    trigger: str = ""
    """When it applies, where a table says so."""
    unread: str = ""
    """Why it cannot be a rule at all."""


class Code(NamedTuple):
    """A code block."""

    text: str
    language: str = ""


class Scope(NamedTuple):
    """What holds for the bullets of one list."""

    parents: tuple[str, ...] = ()
    """Words above, to be joined with the rule, outermost first."""
    context: tuple[str, ...] = ()
    """Words above that only say when."""
    forbidden: str | None = None
    """The words that turn the rules below them round, such as `Never`; None: as the section."""


def read_rules(text: str, markdown: bool) -> list[Rule]:
    """Return the rules of a text in order; raise BadSource when there are too many.

    Indented code exists in Markdown only; in plain text an indented line is text.
    """
    parser = MarkdownIt("commonmark").enable("table").disable("html_block")
    if not markdown:
        parser.disable("code")
    walk = Outline()
    plain, passed_over = plain_markup(text)
    walk.rules += [
        Rule(line, "", unread=f"is {name}, which is not read") for line, name in passed_over
    ]
    walk.blocks(SyntaxTreeNode(parser.parse(plain)).children, Scope())
    return sorted(walk.rules, key=lambda rule: rule.line)


class Outline:
    """One walk over a document: the headings it is under, the rules it has met."""

    def __init__(self) -> None:
        self.headings: list[tuple[int, str]] = []
        self.rules: list[Rule] = []

    def blocks(self, nodes: Sequence[SyntaxTreeNode], scope: Scope) -> None:
        """Read blocks in order; an intro ending in a colon belongs to what follows it."""
        intro = ""
        for place, node in enumerate(nodes):
            after = nodes[place + 1].type if place + 1 < len(nodes) else ""
            inner = self.under(intro, scope) if intro else scope
            intro_was, intro = intro, ""
            if node.type == "heading":
                self.heading(node)
            elif node.type == "paragraph":
                intro = self.paragraph(node, after, inner)
            elif node.type in _LISTS:
                self.listing(node, inner, intro_was)
            elif node.type == "table":
                self.table(node, inner)
            elif node.type in _CODE:
                self.code_block(node, nodes[place - 1].type if place else "")
            elif node.type == "blockquote":
                self.blocks(node.children, inner)

    def under(self, opener: str, scope: Scope) -> Scope:
        """Return the scope below an intro or a parent."""
        if forbids(opener):
            return scope._replace(forbidden=opener)
        if allows(opener):
            return scope._replace(forbidden="")
        return scope if is_generic(opener) else scope._replace(parents=(*scope.parents, opener))

    def heading(self, node: SyntaxTreeNode) -> None:
        """Step into a section."""
        self.enter(int(node.tag[1:]), inline_text(node.children[0]).text if node.children else "")

    def enter(self, level: int, title: str) -> None:
        """Step into a section of a level, leaving those it ends."""
        self.headings = [found for found in self.headings if found[0] < level]
        self.headings.append((level, title))

    @property
    def forbidden(self) -> str:
        """The section's title where it forbids as such."""
        return next((title for _, title in self.headings if forbids(title)), "")

    def paragraph(self, node: SyntaxTreeNode, after: str, scope: Scope) -> str:
        """Emit a paragraph's rules; return the part that introduces the block after it."""
        text = inline_text(node.children[0]).text
        if after and is_title(text):
            self.enter(7, text)  # below every heading that is marked as one
            return ""
        parts = sentences(text)
        refuse_many(len(self.rules) + len(parts))
        intro = ""
        if parts and parts[-1].text.endswith((":", "：")) and after in (*_LISTS, "table"):
            intro = parts.pop().text.rstrip(":： ")
        for group in grouped(parts):
            self.emit(group.text, line_of(node) + group.offset, scope)
        return intro

    def listing(self, node: SyntaxTreeNode, scope: Scope, intro: str) -> None:
        """Emit a list: bullet by bullet, or as one procedure."""
        opener = intro or (self.headings[-1][1] if self.headings else "")
        if node.type == "ordered_list" and is_procedure(opener):
            self.procedure(node, opener, scope if not intro else scope._replace(parents=()))
            return
        for item in node.children:
            self.item(item, scope)

    def procedure(self, node: SyntaxTreeNode, opener: str, scope: Scope) -> None:
        """Emit numbered steps as one rule."""
        steps = [_step(item) for item in node.children]
        lead = re.sub(r"(?i)^how to\b", "To", opener.strip().rstrip(":. "))
        if not re.match(r"(?i)(to|um|for|für|bei)\b", lead):
            lead = f"For {lower_first(lead)}"
        self.emit(f"{lead}: {'; '.join(step for step in steps if step)}", line_of(node), scope)

    def item(self, item: SyntaxTreeNode, scope: Scope) -> None:
        """Emit one bullet and the bullets below it."""
        own = [inline_text(n.children[0]) for n in item.children if n.type == "paragraph"]
        blocks = [n for n in item.children if n.type in _CODE]
        code = Code("".join(n.content for n in blocks), blocks[0].info if blocks else "")
        rest = [n for n in item.children if n.type not in ("paragraph", *_CODE)]
        found = Inline(own[0].label if own else "", " ".join(one.text for one in own))
        text, negative = unmarked(found.text)
        line = line_of(item)
        if found.label:
            scope = self.under(found.label, scope)
        if negative:
            scope = scope._replace(forbidden=scope.forbidden or "❌")
        if not any(node.type in _LISTS for node in rest):
            if text:
                self.emit(text, line, scope, code)
        elif text and not text.endswith((":", "：")) and instructs(text):
            self.emit(with_details(text, rest), line, scope, code)
            self.below(rest, scope._replace(context=(*scope.context, text)), details=False)
            return
        elif text:
            scope = self.under(text.rstrip(":： "), scope)
        self.below(rest, scope)

    def below(self, nodes: Sequence[SyntaxTreeNode], scope: Scope, details: bool = True) -> None:
        """Emit what stands below a bullet, on wish without the bullets that only explain it."""
        for node in nodes:
            if details or node.type not in _LISTS:
                self.blocks([node], scope)
                continue
            for item in node.children:
                if not _is_detail(item):
                    self.item(item, scope)

    def table(self, node: SyntaxTreeNode, scope: Scope) -> None:
        """Emit a table row by row."""
        for row in table_rows(node):
            self.emit(row.text, line_of(row.node), scope, Code(row.code), row.trigger)

    def code_block(self, node: SyntaxTreeNode, before: str) -> None:
        """Give a code block to the rule right before it."""
        if self.rules and before in ("paragraph", *_LISTS) and not self.rules[-1].unread:
            last = self.rules[-1]
            language = last.language or node.info
            self.rules[-1] = last._replace(code=f"{last.code}{node.content}", language=language)
        else:
            self.rules.append(Rule(line_of(node), "", unread="is code without a rule before it"))

    def emit(
        self, text: str, line: int, scope: Scope, code: Code | None = None, trigger: str = ""
    ) -> None:
        """Add one rule, joined with the words above it."""
        said = " ".join(text.split())
        opener = self.forbidden if scope.forbidden is None else scope.forbidden
        said = forbid(said, opener) if opener else said
        for parent in reversed(scope.parents):
            said = join(parent, said)
        headings = [title for _, title in self.headings if title]
        above = (*headings, *scope.parents, *scope.context)
        context = tuple(w for w in above if not is_generic(w) and not forbids(w))
        refuse_many(len(self.rules) + 1)
        text_of_code, language = code or Code("")
        self.rules.append(Rule(line, said, context, text_of_code, language, trigger))


def refuse_many(count: int) -> None:
    """Raise BadSource when a list is too long."""
    if count > RULES_LIMIT:
        raise BadSource(f"the list has more than {RULES_LIMIT:,} rules or sentences: split it")


def line_of(node: SyntaxTreeNode) -> int:
    """Return a block's first line, 1 is the first."""
    return node.map[0] + 1 if node.map else 0


def with_details(text: str, rest: Sequence[SyntaxTreeNode]) -> str:
    """Return a rule with the bullets below it that only explain."""
    details = [
        inline_text(item.children[0].children[0]).text
        for node in rest
        if node.type in _LISTS
        for item in node.children
        if _is_detail(item)
    ]
    if not details:
        return text
    tail = "; ".join(" ".join(detail.split()).rstrip(".;, ") for detail in details)
    return f"{text.rstrip('.:; ')} ({tail})."


def _is_detail(item: SyntaxTreeNode) -> bool:
    plain = len(item.children) == 1 and item.children[0].type == "paragraph"
    return plain and not instructs(inline_text(item.children[0].children[0]).text)


def _step(item: SyntaxTreeNode) -> str:
    """Return one step, its code as it is; nested bullets in brackets."""
    said: list[str] = []
    for node in item.children:
        if node.type == "paragraph":
            text = unmarked(" ".join(inline_text(node.children[0]).text.split()))[0]
            said.append(text.rstrip(".;,: "))
        elif node.type in _CODE:
            said.append(f"`{' '.join(node.content.split())}`")
        elif node.type in _LISTS:
            said.append(f"({'; '.join(_step(inner) for inner in node.children)})")
    return lower_first(" ".join(said))
