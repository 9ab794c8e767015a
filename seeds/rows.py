"""Rules in tables: which column says what to do, when, why, and with which command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markdown_it.tree import SyntaxTreeNode

from lessons_loop.seeds.inline import inline_text
from lessons_loop.seeds.phrases import finished, forbid, join, unmarked

_ROLES = (
    ("never", r"don['’]?ts?\b|do not|never|avoid|bad|forbidden|not\b|nicht|verboten|niemals"),
    (
        "rule",
        r"rules?\b|action|advice|fix|remedy|solution|what to do|do\b|do this|instead|use\b"
        r"|recommend|response|resolution|steps?\b|guideline|how|regel|maßnahme|lösung|abhilfe"
        r"|vorgehen|was tun|stattdessen|anweisung",
    ),
    ("command", r"command|query|sql|befehl|kommando|abfrage"),
    (
        "when",
        r"when|if\b|case|situation|symptom|error|problem|trigger|alert|condition|issue|question"
        r"|topic|wenn|fall|fehler|meldung|anlass|alarm|thema",
    ),
    ("why", r"why|reason|notes?\b|comment|because|rationale|grund|warum|hinweis|bemerkung"),
)
_FORMS = tuple((role, re.compile(rf"\W*(?:{form})", re.IGNORECASE)) for role, form in _ROLES)


class TableRule(NamedTuple):
    """One row as a rule."""

    node: SyntaxTreeNode
    text: str
    trigger: str
    code: str


def table_rows(table: SyntaxTreeNode) -> Iterator[TableRule]:
    """Yield each row that says something."""
    rows = [row for part in table.children for row in part.children]
    roles = column_roles([cell_text(cell) for cell in rows[0].children])
    for row in rows[1:]:
        cells: dict[str, str] = {}
        for role, cell in zip(roles, row.children, strict=False):
            if text := cell_text(cell):
                cells[role] = f"{cells[role]}; {text}" if role in cells else text
        if cells:
            yield _as_rule(row, cells)


def column_roles(titles: Sequence[str]) -> list[str]:
    """Return each column's role by its title; without a telling one the last is the rule."""
    roles = [
        next((role for role, form in _FORMS if form.match(title)), "when" if not at else "why")
        for at, title in enumerate(titles)
    ]
    if not {"rule", "never", "command"} & set(roles):
        roles[-1] = "rule"
    return roles


def cell_text(cell: SyntaxTreeNode) -> str:
    """Return a cell on one line, without a check mark."""
    text = " ".join(inline_text(cell.children[0]).text.split()) if cell.children else ""
    return unmarked(text)[0]


def _as_rule(row: SyntaxTreeNode, cells: dict[str, str]) -> TableRule:
    when, command = cells.get("when", ""), cells.get("command", "")
    said = [cells["rule"]] if "rule" in cells else []
    if "never" in cells:
        said.append(forbid(cells["never"]))
    if command and not said:
        said.append(f"Run {_as_code(command)}")
        command = ""
    if "why" in cells:
        said.append(cells["why"])
    text = " ".join(finished(part) for part in said)
    return TableRule(row, join(when, text) if when else text, when, command.strip("`"))


def _as_code(command: str) -> str:
    return command if command.startswith("`") else f"`{command}`"
