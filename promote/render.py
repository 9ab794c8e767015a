"""Print cases, lists and reports for people; what is hidden or secret is made plain or masked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from lessons_loop.filter.models import Candidate
from lessons_loop.promote.cases import Case
from lessons_loop.promote.counting import many
from lessons_loop.promote.decay.render import decay_lines
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.proof.prove_render import harmful_lines, proof_lines
from lessons_loop.promote.records import Decision, Neighbour
from lessons_loop.promote.runs.report import Outcome, RunReport
from lessons_loop.promote.showing import WIDTH as WIDTH
from lessons_loop.promote.showing import make_console as make_console
from lessons_loop.promote.showing import plain as plain
from lessons_loop.promote.similar.similarity import UNRELATED

_FOLDING = Console(width=WIDTH)
_LABEL = re.compile(r"\S[^:]{0,8}:\s+|\s+(?:\| )?|[a-z ]{13} (?=[0-9a-f]{12} )")
"""What stands before the text of a line; folded lines go on below the text."""
DRY_RUN = "DRY RUN: nothing is written"
PREVIEW = (
    "preview: no mode was given, nothing is written; use --review human|llm, --auto or --unattended"
)
NOT_COMPARED = "nearest:   not compared: set LESSONS_EMBEDDING"
_WOULD = {
    Decision.PROMOTE: "would promote",
    Decision.HOLD: "would hold",
    Decision.REJECT: "would reject",
    Decision.DUPLICATE: "would fold",
    Decision.SKIP: "would leave",
    Decision.DEMOTE: "would demote",
    Decision.REVIVE: "would revive",
}
_DID = {
    Decision.PROMOTE: "promoted",
    Decision.HOLD: "held",
    Decision.REJECT: "rejected",
    Decision.DUPLICATE: "duplicate",
    Decision.SKIP: "left",
    Decision.DEMOTE: "demoted",
    Decision.REVIVE: "revived",
}


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines folded to the console's width, the rest of each below its text."""
    for line in lines:
        for part in folded(line, console.width):
            console.print(part, soft_wrap=True)


def folded(line: str, width: int) -> list[str]:
    """Return one line as lines of at most `width` cells, broken at spaces where possible.

    What follows a label stays below the text: quoted text never reaches the labels' column.
    """
    label = found[0] if (found := _LABEL.match(line)) else ""
    indent = min(len(label), width // 2)
    pieces = Text(line[indent:]).wrap(_FOLDING, width - indent, overflow="fold")
    texts = [piece.plain.rstrip() for piece in pieces] or [""]
    first = f"{line[:indent]}{texts[0]}".rstrip()
    return [first, *(" " * indent + text for text in texts[1:])]


def marked(text: str, words: Iterable[str]) -> str:
    """Return `text` with the differing words between « and »."""
    shown = plain(text)
    wanted = {word.removeprefix("not ") for word in words}
    if not wanted:
        return shown
    pattern = "|".join(re.escape(word) for word in sorted(wanted, key=len, reverse=True))
    return re.sub(rf"(?<![\w«])({pattern})(?![\w»])", r"«\1»", shown)


def case_lines(case: Case) -> list[str]:
    """Return everything a person needs to decide on a case."""
    group, near = case.group, case.verdict.neighbour
    new_words = _words(near, "+")
    lines = [
        f"── {group.key[:12]} " + "─" * 40,
        f"lesson:    {marked(group.lesson.text, new_words)}",
        f"kind:      {group.lesson.kind.value}",
        f"trigger:   {plain(group.lesson.trigger)}",
        f"tags:      {plain(', '.join(group.lesson.tags)) or '-'}",
        f"sightings: {group.sightings} ({group.users} user(s) in chats of their own)",
    ]
    for seen in group.candidates[:3]:
        lines += evidence_lines(seen)
    lines += neighbour_lines(near) if case.verdict.rule != "no-embedder" else [NOT_COMPARED]
    lines += [f"finding:   {found.rule}: {plain(found.sentence)}" for found in case.findings]
    lines += [decision_line(decision) for decision in case.history]
    lines.append(f"rules say: {case.verdict.decision.value} ({plain(case.verdict.reason)})")
    return lines


def evidence_lines(seen: Candidate) -> list[str]:
    """Return a sighting's proof, quote first."""
    return [
        f"evidence:  {seen.evidence.kind.value}, {seen.at}",
        f"quote:     {plain(seen.evidence.quote)}",
        *(f"           | {plain(line)}" for line in seen.evidence.excerpt.splitlines()),
    ]


def neighbour_lines(near: Neighbour | None) -> list[str]:
    """Return the nearest curated lesson with the words only it has marked."""
    if near is None:
        return ["nearest:   no curated lesson"]
    key, score = near.curated.key[:12], f"{near.similarity:.2f}"
    return [
        f"nearest:   {key} {near.relation}, similarity {score}",
        f"           {marked(near.curated.lesson.text, _words(near, '-'))}",
    ]


def decision_line(decision: dict[str, Any]) -> str:
    """Return one earlier decision; a rule that decided stands in its reason already."""
    actor = str(decision["actor"])
    reason = str(decision["reason"]).removeprefix(f"{actor}: ").removeprefix("person: ")
    model = f" ({plain(str(decision['model']))})" if decision.get("model") else ""
    run = f", run {plain(str(decision['run']))}" if decision.get("run") else ""
    return (
        f"decided:   {decision['at']} {decision['action']} by {plain(actor)}{model}: "
        f"{plain(reason)} (ledger line {decision['n']}{run})"
    )


def outcome_lines(outcome: Outcome, *, would: bool) -> list[str]:
    """Return what became of one lesson, and why."""
    verdict = outcome.verdict
    word = (_WOULD if would else _DID)[verdict.decision]
    if outcome.not_reviewed:
        word = "not reviewed"
    text = plain(outcome.lesson.text)
    why = f"{verdict.rule}: {plain(verdict.reason)}"
    return [f"{word:13} {outcome.lesson.key[:12]}  {text}", f"{'':14}{why}"]


def report_lines(report: RunReport) -> list[str]:
    """Return the closing lines of a run."""
    would = report.dry_run or report.mode is Mode.NONE
    counted = ", ".join(_counted(report)) or "nothing to do"
    lines = harmful_lines(report.harmful, would=would)
    lines += decay_lines(report.decay, would=would) if report.decay else []
    lines += [
        *proof_lines(report.proof),
        f"{report.domain}, run {report.run}: {_looked_at(report)}",
        f"if carried out: {counted}" if would and _counted(report) else counted,
    ]
    if report.mode is Mode.NONE:
        lines.append(PREVIEW)
    if report.dry_run:
        lines.append(DRY_RUN)
    return lines


def _looked_at(report: RunReport) -> str:
    """Return what the run had before it; a lesson may have several candidates."""
    held = sum(not outcome.case.group.staged for outcome in report.outcomes)
    parts = ((report.candidates, "candidate"), (held, "held lesson"))
    return " and ".join(many(count, what) for count, what in parts if count) or "no candidates"


def _counted(report: RunReport) -> list[str]:
    """Return what came of it in words, without what did not happen."""
    said = {
        "skipped": "left undecided {}",
        "harmful": "held as harmful {}",
        "not_reviewed": "not reviewed {}",
        "folded": f"{many(report.folded, 'event')} of use and rating counted",
        "unreadable": f"{many(report.unreadable, 'unreadable row')} in staging",
        "set_aside": "{} of them copied aside and deleted",
    }
    counts = report.counts().items()
    return [said.get(name, f"{name} {{}}").format(count) for name, count in counts if count]


def _words(near: Neighbour | None, sign: str) -> list[str]:
    if near is None or near.relation == UNRELATED:
        return []
    return [word.removeprefix(sign) for word in near.differences if word.startswith(sign)]
