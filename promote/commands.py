"""`lessons promote`: the gate's run over all candidates, or a person's word on some.

Without a mode a run is a preview: the verdicts are shown and nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote import commands_read
from lessons_loop.promote.decay.options import (
    DemoteStale,
    JudgeByTools,
    KeepUses,
    MaxChance,
    MinHits,
    MinSuccessRate,
)
from lessons_loop.promote.decide import commands_decide
from lessons_loop.promote.gate_options import (
    AllowHost,
    Domain,
    Force,
    Reason,
    Reviewer,
    Supersede,
    given_reason,
    given_reviewer,
)
from lessons_loop.promote.options import (
    AsJson,
    DryRun,
    Embedding,
    LlmKey,
    LlmModel,
    LlmUrl,
    StateDir,
    Store,
)

Threshold = Annotated[
    float, typer.Option(min=0.5, max=1.0, help="Cosine from which a repetition is a duplicate.")
]


class ReviewBy(StrEnum):
    """Who reviews."""

    HUMAN = "human"
    LLM = "llm"


PromoteIds = Annotated[
    list[str] | None, typer.Argument(help="Promote these; without ids: judge all candidates.")
]
ReviewFlag = Annotated[ReviewBy | None, typer.Option(help="Who reviews.")]
Auto = Annotated[
    bool, typer.Option("--auto", help="Promote what no rule stands against, unreviewed.")
]
MinUsers = Annotated[
    int, typer.Option(min=1, help="How many users' chats must have shown a lesson.")
]
Unattended = Annotated[
    bool, typer.Option("--unattended", help="For timers: never asks, 0 when nothing to do.")
]

NotifyUrl = Annotated[
    str,
    typer.Option(
        envvar="LESSONS_NOTIFY_URL",
        show_default=False,
        help="Post the run's line here: https; counts and ids only.",
    ),
]


def named_questions(context: typer.Context, given: str) -> str:
    """Return the name given; raise a usage error for an empty one: no proof was not meant."""
    source = context.get_parameter_source("proof")
    if source is not None and source.name == "COMMANDLINE" and not given.strip():
        raise typer.BadParameter("--proof names no questions: sql, or a folder")
    return given.strip()


Proof = Annotated[
    str,
    typer.Option(
        "--proof",
        callback=named_questions,
        show_default=False,
        help="Questions the batch must not break, else it is held: sql, or a folder; the agent"
        " is named by LESSONS_EVAL_*.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the gate's commands to an app."""
    commands_read.register(app)
    app.command("promote")(promote)
    commands_decide.register(app)


def promote(
    store: Store = "",
    ids: PromoteIds = None,
    reason: Reason = "",
    reviewer: Reviewer = "",
    supersede: Supersede = "",
    force: Force = False,
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    dup_threshold: Threshold = 0.90,
    review: ReviewFlag = None,
    llm_url: LlmUrl = "",
    llm_model: LlmModel = "",
    llm_api_key: LlmKey = "",
    auto: Auto = False,
    min_users: MinUsers = 2,
    unattended: Unattended = False,
    allow_host: AllowHost = None,
    demote_stale: DemoteStale = False,
    min_hits: MinHits = 3,
    min_success_rate: MinSuccessRate = 0.5,
    max_chance: MaxChance = 0.05,
    judge_by_tools: JudgeByTools = False,
    keep_uses: KeepUses = 0,
    notify_url: NotifyUrl = "",
    proof: Proof = "",
    as_json: AsJson = False,
) -> None:
    """Judge all candidates, or promote the ones you name.

    Without --review, --auto or --unattended it is a preview: nothing is written.
    --unattended alone lets the rules reject, hold and count repeats, and promotes nothing.
    A lesson that contradicts a curated one needs --supersede ID or --force.
    Exit code 3: a run with --review or --auto left lessons that wait for a person; with
    --unattended that is 0. Unattended runs are previews until `lessons confirm`.

    Example: lessons promote --review human
    """
    mode = _mode_name(review, auto, unattended)
    _check_usage(mode, ids or [], reason, supersede, force=force, stale=demote_stale)
    name = given_reviewer(reviewer)
    _require_model(mode, llm_url, llm_model)
    _require_terminal(mode)
    from lessons_loop.promote.decay.rules import DecayRules
    from lessons_loop.promote.runs.command_runs import GateFlags, run_over_all

    place = (store, domain, state_dir, embedding, dry_run)
    flags = GateFlags(*place, dup_threshold, min_users, allow_host, as_json, unattended, name)
    rules = DecayRules(min_hits, min_success_rate, judge_by_tools, max_chance)
    decay = rules if demote_stale else None
    flags = replace(flags, decay=decay, by_tools=judge_by_tools, keep_uses=keep_uses)
    flags = replace(flags, notify_url=notify_url, proof=proof)
    if ids:
        from lessons_loop.promote.decide.decide_runs import decide_named

        decide_named(flags, ids, ("promote", given_reason(reason), name), supersede, force)
    else:
        run_over_all(flags, mode, (llm_url, llm_model, llm_api_key))


def _mode_name(review: ReviewBy | None, auto: bool, unattended: bool) -> str:
    if review and auto:
        raise typer.BadParameter("--auto and --review exclude each other")
    if unattended and review is ReviewBy.HUMAN:
        raise typer.BadParameter("--unattended never asks: use --review llm or --auto")
    if review:
        return review.value
    return "auto" if auto else "rules" if unattended else "none"


def _require_terminal(mode: str) -> None:
    """Raise LessonsError without one: said at once, before anything heavy is imported."""
    if mode == "human" and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LessonsError(
            "human review needs a terminal: use --review llm, --auto, or `lessons candidates`"
        )


def _check_usage(
    mode: str, ids: Sequence[str], reason: str, supersede: str, *, force: bool, stale: bool
) -> None:
    if not ids and (reason or supersede):
        raise typer.BadParameter("--reason and --supersede go with ids")
    if ids and mode != "none":
        raise typer.BadParameter("with ids you decide: leave out --review, --auto, --unattended")
    if ids:
        given_reason(reason)
    if force and not ids:
        raise typer.BadParameter("--force goes with ids")
    if ids and stale:
        raise typer.BadParameter("--demote-stale looks at all lessons: leave out the ids")


def _require_model(mode: str, url: str, model: str) -> None:
    if mode == "llm" and not (url.strip() and model.strip()):
        raise typer.BadParameter("--review llm needs --llm-url and --llm-model")
