"""Show what an import made of each rule: a table of 80 columns, or JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len, set_cell_size

from lessons_loop.filter.redact import mask
from lessons_loop.filter.valves import LessonsValves
from lessons_loop.promote.lint.hidden import reveal
from lessons_loop.seeds.draft import Drafted, Outcome
from lessons_loop.seeds.import_command import Drafts, next_step

LINE_WIDTH, RULE_WIDTH, RESULT_WIDTH = 5, 28, 43
NOT_SHOWN = "(not shown)"
READ_DOMAINS = LessonsValves().domain_names()
"""What the plugin reads by default."""


def as_lines(drafts: Drafts) -> Iterator[str]:
    """Yield a line or more per rule, then the counts and the next step."""
    yield _row("line", "rule", "result")
    for one in drafts.drafted:
        yield from _rows(one)
    yield ""
    yield from textwrap.wrap(_counted(drafts.drafted), 80)
    yield f"draft: {drafts.seeds}"
    yield f"questions, yours to write: {drafts.questions}"
    yield f"next: read the draft, then {next_step(drafts)}"
    if drafts.domain not in READ_DOMAINS:
        yield f"then: name {drafts.domain} in the plugin's valve `domains`"


def _rows(one: Drafted) -> Iterator[str]:
    results = textwrap.wrap(result_of(one), RESULT_WIDTH, break_on_hyphens=False) or [""]
    yield _row(str(one.rule.line), shown(one), results[0])
    for more in results[1:]:
        yield _row("", "", more)


def _row(line: str, rule: str, result: str) -> str:
    return f"{line:>{LINE_WIDTH}}  {_cut(rule)}  {result}".rstrip()


def _cut(text: str) -> str:
    """Return a text in exactly the column's width; letters of East Asia take two cells."""
    if cell_len(text) <= RULE_WIDTH:
        return set_cell_size(text, RULE_WIDTH)
    return set_cell_size(text, RULE_WIDTH - 1) + "…"


def shown(one: Drafted) -> str:
    """Return a rule's words as far as they may be seen."""
    return reveal(mask(one.rule.text)) if one.speakable else NOT_SHOWN


def result_of(one: Drafted) -> str:
    """Return what became of a rule in a few words."""
    if one.outcome is Outcome.LEFT_OUT:
        return f"left out: {'; '.join(one.reasons)}"
    if one.outcome is Outcome.JOINED:
        return f"joined: says the same as {one.id}"
    return f"kept as {one.id}" + (f"; check: {'; '.join(one.checks)}" if one.checks else "")


def _counted(drafted: tuple[Drafted, ...]) -> str:
    counts = Counter(one.outcome for one in drafted)
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in Outcome]
    return f"{len(drafted)} rules: {', '.join(parts)}"


def as_report(drafts: Drafts) -> dict[str, Any]:
    """Return the same for machines."""
    counts = Counter(one.outcome for one in drafts.drafted)
    return {
        "domain": drafts.domain,
        "draft": str(drafts.seeds),
        "questions": str(drafts.questions),
        "next": next_step(drafts),
        "counts": {outcome.value: counts[outcome] for outcome in Outcome},
        "rules": [
            {
                "line": one.rule.line,
                "rule": shown(one),
                "outcome": one.outcome.value,
                "id": one.id,
                "checks": list(one.checks),
                "reasons": list(one.reasons),
            }
            for one in drafts.drafted
        ],
    }
