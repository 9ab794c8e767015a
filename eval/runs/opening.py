"""What a run says before its first request, in lines of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from lessons_loop.eval.runs.record import Evaluation
from lessons_loop.eval.runs.runner import RunPlan
from lessons_loop.eval.runs.sets import asks_reference
from lessons_loop.promote.counting import many
from lessons_loop.promote.masking import mask_through

WIDTH = 80
STOOD_IN = "a script stood in for the model: this proves the machinery, not the benefit"


def opening(wish: Evaluation, settings: Mapping[str, Any], begun: int) -> list[str]:
    """Return what is said before the first request."""
    plan, asked = wish.plan, settings["questions"]
    lines = [
        f"{many(asked['count'], 'question')} ({asked['controls']} of them controls) in "
        f"{many(asked['topics'], 'topic')}, arms {', '.join(settings['arms'])}, "
        f"{_times(plan.runs)}: {many(plan.total, 'answer')}",
        _about_lessons(settings["lessons"], asked["count"], wish),
        f"agent: {_about_agent(settings)}",
        f"judge: {_about_judge(settings['judge'], plan)}",
        f"smallest lift this set can show: {_points(settings['smallest_lift'])}",
        _about_requests(wish, begun),
    ]
    if wish.lessons is not None and wish.source.recalls and wish.embedder is None:
        lines.append("recall goes by words alone: no --embedding is given, as chats have one")
    lines += [] if wish.reference else _unanswerable(plan)
    return [*lines, STOOD_IN] if settings["stand_in"] else lines


def _about_requests(wish: Evaluation, begun: int) -> str:
    if wish.command.get("replay"):
        return f"answered from the record, no model is asked; kept in {wish.folder.path}"
    about = (wish.plan.total - begun) * (2 if wish.source.uses_tools else 1)
    if begun:
        before = f"{many(begun, 'answer')} kept already"
        return f"{before}, about {about} requests to go; in {wish.folder.path}"
    return f"about {about} requests; kept in {wish.folder.path}"


def _times(runs: int) -> str:
    return "once each" if runs == 1 else f"{runs} runs"


def _points(lift: float) -> str:
    return "none, it is too small" if lift >= 1 else f"{lift * 100:.0f} points"


def _about_lessons(found: Mapping[str, Any] | None, questions: int, wish: Evaluation) -> str:
    if found is None:
        return "lessons: none" if wish.source.recalls else "lessons: the agent's own"
    told = f"lessons: {found['count']} in {found['domain']} (set {found['digest'][:12]}), "
    if wish.command.get("replay"):
        return told + "recalled as the record says"
    if not wish.source.recalls:
        return told + "recalled by the agent itself"
    return told + f"{found['recalled_by']} of {questions} questions recall some"


def _about_judge(name: str, plan: RunPlan) -> str:
    needing = sum(bool(one.rubric) or not one.checks for one in plan.questions.questions)
    if name or not needing:
        return name or "none, checks decide all"
    return f"none: {many(needing, 'question')} with a rubric will be unjudged"


def _unanswerable(plan: RunPlan) -> list[str]:
    asking = sum(map(asks_reference, plan.questions.questions))
    said = f"no --reference-db: {many(asking, 'question')} with sql_result will be unjudged"
    return [said] if asking else []


def _about_agent(settings: Mapping[str, Any]) -> str:
    agent = settings["agent"]
    parts = [settings["model"], f"at {agent['url']}" if agent.get("url") else ""]
    parts += [f"through {agent['name']}" if agent.get("name") else ""]
    parts += [f"with the tools of {agent['tools']}" if agent.get("tools") else ""]
    return " ".join(part for part in parts if part)


def say(lines: Sequence[str], *, err: bool = False) -> None:
    """Print lines; a terminal must not be steered by what is shown. Paths stay whole."""
    for line in lines:
        shown = "".join(char if char.isprintable() else "?" for char in line)
        typer.echo("\n".join(_folded(mask_through(shown))), err=err)


def _folded(line: str) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent="    ",
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
