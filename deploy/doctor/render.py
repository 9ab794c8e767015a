"""Findings as aligned lines of at most `width` columns, or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from lessons_loop.deploy.doctor.findings import Finding, Level, counted
from lessons_loop.promote.showing import plain

LEVEL_WIDTH = len(Level.NOT_CHECKED)
CHECK_WIDTH = 14
INDENT = " " * (LEVEL_WIDTH + CHECK_WIDTH + 4)
REMEDY_INDENT = " " * (LEVEL_WIDTH + 2)
COUNTED = (Level.WARNING, Level.PROBLEM)
COMMANDS = ("lessons ", "chmod ", "export ", "pip ")


def render_findings(findings: Sequence[Finding], width: int = 80) -> str:
    """Return every finding with its remedy, and a closing line with the counts."""
    lines = [line for finding in findings for line in finding_lines(finding, width)]
    counts = {level: count for level, count in counted(findings).items() if count}
    closing = ", ".join(
        f"{count} {level.value}{'s' if count > 1 and level in COUNTED else ''}"
        for level, count in counts.items()
    )
    return "\n".join([*lines, "", closing])


def finding_lines(finding: Finding, width: int) -> list[str]:
    """Return one finding: level, check and text side by side, the remedy below."""
    head = f"{finding.level.value:<{LEVEL_WIDTH}}  {finding.check}"
    lines = beside(head, finding.text, width, len(INDENT))
    if finding.remedy:
        lines += remedy_lines(" ".join(plain(finding.remedy).split()), width)
    return lines


def beside(head: str, text: str, width: int, column: int) -> list[str]:
    """Return a text beside its head, from `column` on; below it where the head is too long."""
    shown, indent = " ".join(plain(text).split()), " " * column
    if len(head) + 2 <= column:
        return wrapped(shown, width, head.ljust(column), indent)
    return [head, *wrapped(shown, width, indent, indent)]


def remedy_lines(remedy: str, width: int) -> list[str]:
    """Return the remedy; a command broken over lines can still be copied into a shell."""
    head, indent = f"{REMEDY_INDENT}→ ", REMEDY_INDENT + "  "
    if not remedy.startswith(COMMANDS):
        return wrapped(remedy, width, head, indent)
    room = width - len(indent) - 2
    if max(map(len, remedy.split(" "))) <= room:
        parts = wrapped(remedy, width - 2, head, indent)
        return [f"{part} \\" for part in parts[:-1]] + parts[-1:]
    line = head + remedy
    parts = [line[start : start + width - 1] for start in range(0, len(line), width - 1)]
    return [f"{part}\\" for part in parts[:-1]] + parts[-1:]


def wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    """Return `text` in lines of at most `width`, broken at spaces where that is possible."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def as_content(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings for machines."""
    counts = {level.value.replace(" ", "_"): n for level, n in counted(findings).items()}
    rows = [
        {name: plain(str(value)) for name, value in finding._asdict().items()}
        for finding in findings
    ]
    return {"healthy": not counts["problem"], "counts": counts, "findings": rows}
