"""`lessons eval lesson`: what single lessons do, measured and stored on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.eval.runs.options import (
    AgentKey,
    AgentModel,
    AgentSeconds,
    AgentUrl,
    JudgeKey,
    JudgeModel,
    JudgeUrl,
    Margin,
    MaxUnjudged,
    QuestionsFolder,
    ReferenceDb,
    Runs,
    Seed,
    SystemText,
    ToolsFile,
    ToolValves,
    Workers,
)
from lessons_loop.promote.gate_options import Domain
from lessons_loop.promote.options import AsJson, DryRun, Embedding, StateDir, Store

if TYPE_CHECKING:
    from lessons_loop.eval.proving.asking import Asking
    from lessons_loop.eval.proving.leave_one_out import Measured
    from lessons_loop.promote.session import GateSettings

Lessons = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", help="Curated lessons, by their ids.")
]
All = Annotated[bool, typer.Option("--all", help="Measure every curated lesson.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("lesson", short_help="What single lessons do, leave-one-out.")(lesson)


def lesson(
    ids: Lessons = None,
    every: All = False,
    questions: QuestionsFolder = "sql",
    runs: Runs = 5,
    workers: Workers = 4,
    seed: Seed = 7,
    margin: Margin = 0.05,
    max_unjudged: MaxUnjudged = 0.2,
    agent_url: AgentUrl = "",
    agent_model: AgentModel = "",
    agent_key: AgentKey = "",
    agent_seconds: AgentSeconds = 120.0,
    tools: ToolsFile = None,
    tool_valves: ToolValves = "",
    reference_db: ReferenceDb = None,
    system: SystemText = "",
    judge_url: JudgeUrl = "",
    judge_model: JudgeModel = "",
    judge_key: JudgeKey = "",
    store: Store = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Measure lessons on the questions that recall them: with all, and with all but it.

    What comes out is stored on the lesson: `lessons show`, `lessons status`. One that does
    harm is held by the next run of the gate. --dry-run measures and stores nothing.

    Example: lessons eval lesson --all --questions sql --runs 5
    """
    if bool(ids) == every:
        raise typer.BadParameter("name lessons by id, or give --all")
    from lessons_loop.eval.runs.setup import JudgeSettings, agent_settings

    agent = agent_settings(
        agent_url,
        agent_model,
        agent_key,
        tools=tools,
        tool_valves=tool_valves,
        reference=reference_db,
        system=system,
        seconds=agent_seconds,
    ).require()
    judge = JudgeSettings(judge_url.strip(), judge_model.strip(), judge_key.strip())
    place = _place(store, domain, state_dir, embedding, dry_run)
    from lessons_loop.eval.proving.prover import asking_of

    how = {"runs": runs, "seed": seed, "workers": workers, "max_unjudged": max_unjudged}
    asking = asking_of(agent, judge, questions, **how)
    found = _measured(place, ids or (), asking, margin)
    _show(found, as_json, dry_run)


def _place(
    store: str, domain: str, state: Path | None, embedding: str, dry_run: bool
) -> GateSettings:
    import os

    from lessons_loop.promote.embedding.embedders import parse_embedding
    from lessons_loop.promote.quiet import busy
    from lessons_loop.promote.runs.pause import refuse_paused
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.promote.state import existing_store, locate

    existing_store(store)
    if not dry_run:  # first: an hour of asking is not to end at a paused gate
        refuse_paused(locate(store, state).state, os.environ)
    with busy("loading the embedding model …"):
        embedder = parse_embedding(embedding, os.environ)
    return GateSettings(store, domain, state, embedder, dry_run)


def _measured(
    place: GateSettings, ids: Sequence[str], asking: Asking, margin: float
) -> list[Measured]:
    """Measure and store; raise LessonsError. What was measured before an outage is stored."""
    from lessons_loop.eval.proving.leave_one_out import measure
    from lessons_loop.eval.shelf import copied_set

    lessons = copied_set(place.store, place.domain, place.state, place.embedder)
    keys = [row.key for row in lessons.lessons]
    wanted = [_only(keys, given) for given in ids] or keys
    found: list[Measured] = []
    try:
        for one in measure(asking, lessons, place.embedder, set(wanted), margin):
            found.append(one)
    finally:
        if not place.dry_run:
            _store(place, found)
    return found


def _only(keys: Sequence[str], given: str) -> str:
    from lessons_loop.promote.lookup import check_prefix, only

    check_prefix(given)
    return only([key for key in keys if key.startswith(given)], given, "curated lesson")


def _store(place: GateSettings, found: Sequence[Measured]) -> None:
    from lessons_loop.promote.proof.prove_lesson import store_proofs
    from lessons_loop.promote.session import open_gate

    proofs = [(one.row, one.proof, one.as_dict()) for one in found if one.proof]
    if proofs:
        with open_gate(place) as session:
            store_proofs(session, proofs)


def _show(found: Sequence[Measured], as_json: bool, dry_run: bool) -> None:
    from lessons_loop.eval.proving.leave_one_out import counted
    from lessons_loop.filter.text import shorten
    from lessons_loop.promote.decide.changes import masked_values
    from lessons_loop.promote.render import DRY_RUN, print_lines
    from lessons_loop.promote.showing import make_console, plain

    counts = counted(found)
    if as_json:
        content = {"dry_run": dry_run, "counts": dict(counts)}
        content["lessons"] = [one.as_dict() for one in found]
        typer.echo(json.dumps(masked_values(content), indent=2))
        return
    lines = [DRY_RUN] if dry_run else []
    for one in found:
        lines.append(f"{one.row.key[:12]}  {shorten(plain(one.row.lesson.text), 64)}")
        lines.append(f"{'':14}{plain(one.told())}")
        if one.broken:
            lines.append(f"{'':14}broken: {', '.join(one.broken)}")
    told = ", ".join(f"{word} {count}" for word, count in counts.items())
    print_lines(make_console(), [*lines, told or "no curated lesson"])
