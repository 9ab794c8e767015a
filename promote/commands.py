"""The gate's commands: promote, reject, candidates, show.

Without ids `promote` runs over all candidates. Without a mode it is a preview:
the verdicts are shown and nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.completion import complete_domain, complete_id
from lessons_loop.promote.options import AsJson, DryRun, Embedding, LlmKey, StateDir, Store

if TYPE_CHECKING:
    from lessons_loop.promote.command_runs import GateFlags

Domain = Annotated[
    str,
    typer.Option(envvar="LESSONS_DOMAIN", help="One domain.", autocompletion=complete_domain),
]
Threshold = Annotated[
    float, typer.Option(min=0.5, max=1.0, help="Cosine from which a repetition is a duplicate.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="Host a lesson may name; repeatable, or comma list in LESSONS_ALLOW_HOSTS."),
]
Ids = Annotated[
    list[str],
    typer.Argument(help="Ids, or their first six characters or more.", autocompletion=complete_id),
]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id, or its first six characters.", autocompletion=complete_id
    ),
]
Reason = Annotated[str, typer.Option(help="Why; required with ids, kept in the ledger.")]


class ReviewBy(StrEnum):
    """Who reviews."""

    HUMAN = "human"
    LLM = "llm"


PromoteIds = Annotated[
    list[str] | None, typer.Argument(help="Promote these; without ids: judge all candidates.")
]
Supersede = Annotated[
    str,
    typer.Option(help="Id of the curated lesson it replaces.", autocompletion=complete_id),
]
ReviewFlag = Annotated[ReviewBy | None, typer.Option(help="Who reviews.")]
LlmUrl = Annotated[
    str,
    typer.Option(
        envvar="LESSONS_LLM_URL",
        help="OpenAI-compatible URL: reviews, and compares related lessons.",
    ),
]
LlmModel = Annotated[str, typer.Option(envvar="LESSONS_LLM_MODEL", help="Model that reviews.")]
Auto = Annotated[
    bool, typer.Option("--auto", help="Promote what no rule stands against, unreviewed.")
]
MinUsers = Annotated[
    int, typer.Option(min=1, help="How many users' chats must have shown a lesson.")
]
Unattended = Annotated[
    bool, typer.Option("--unattended", help="For timers: never asks, 0 when nothing to do.")
]


def register(app: typer.Typer) -> None:
    """Add the gate's commands to an app."""
    app.command("promote")(promote)
    app.command("reject")(reject)
    app.command("candidates")(candidates)
    app.command("show")(show)


def promote(
    store: Store = "",
    ids: PromoteIds = None,
    reason: Reason = "",
    supersede: Supersede = "",
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
    as_json: AsJson = False,
) -> None:
    """Judge all candidates, or promote the ones you name.

    Without --review, --auto or --unattended it is a preview: nothing is written.
    --unattended alone lets the rules reject, hold and count repeats, and promotes nothing.

    Example: lessons promote --review human
    """
    mode = _mode_name(review, auto, unattended)
    _check_usage(mode, ids or [], reason, supersede)
    _require_model(mode, llm_url, llm_model)
    _require_terminal(mode)
    from lessons_loop.promote.command_runs import GateFlags, decide_named, run_over_all

    place = (store, domain, state_dir, embedding, dry_run)
    flags = GateFlags(*place, dup_threshold, min_users, allow_host, as_json)
    if ids:
        decide_named(flags, ids, "promote", reason, supersede)
    else:
        run_over_all(flags, mode, (llm_url, llm_model, llm_api_key))


def reject(
    ids: Ids,
    store: Store = "",
    reason: Reason = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Reject candidates or held lessons, or withdraw a curated one.

    A withdrawn lesson is recalled no more; the same advice, learned again, waits for a person.

    Example: lessons reject 3f2a9c --reason "true for one customer only"
    """
    from lessons_loop.promote.command_runs import decide_named

    _require_reason(reason)
    decide_named(
        _flags(store, domain, state_dir, embedding, dry_run, as_json), ids, "reject", reason
    )


def candidates(
    store: Store = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """List the candidates and held lessons that wait.

    Example: lessons candidates --domain sql
    """
    from lessons_loop.promote.command_runs import list_all

    list_all(_flags(store, domain, state_dir, embedding, False, as_json))


def show(
    id_: Id,
    store: Store = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """Show one lesson with its evidence and every decision.

    It tells the nearest curated lesson, too, and what the rules say.

    Example: lessons show 3f2a9c
    """
    from lessons_loop.promote.command_runs import show_one

    show_one(_flags(store, domain, state_dir, embedding, False, as_json), id_)


def _flags(
    store: str, domain: str, state_dir: Path | None, embedding: str, dry_run: bool, as_json: bool
) -> GateFlags:
    from lessons_loop.promote.command_runs import GateFlags

    return GateFlags(store, domain, state_dir, embedding, dry_run, as_json=as_json)


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


def _check_usage(mode: str, ids: Sequence[str], reason: str, supersede: str) -> None:
    if not ids and (reason or supersede):
        raise typer.BadParameter("--reason and --supersede go with ids")
    if ids and mode != "none":
        raise typer.BadParameter("with ids you decide: leave out --review, --auto, --unattended")
    if ids:
        _require_reason(reason)


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise typer.BadParameter("give --reason TEXT: a decision without a reason is none")


def _require_model(mode: str, url: str, model: str) -> None:
    if mode == "llm" and not (url.strip() and model.strip()):
        raise typer.BadParameter("--review llm needs --llm-url and --llm-model")
