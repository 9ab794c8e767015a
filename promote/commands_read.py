"""Commands that only look: candidates, show."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lessons_loop.filter.kinds import Kind
from lessons_loop.promote.gate_options import Domain, Id
from lessons_loop.promote.options import AsJson, Embedding, StateDir, Store


class SortBy(StrEnum):
    """What the list is ordered by."""

    AGE = "age"
    SIGHTINGS = "sightings"
    USERS = "users"
    NEAREST = "nearest"


class Waiting(StrEnum):
    """In which state a lesson waits."""

    CANDIDATE = "candidate"
    HELD = "held"


Sort = Annotated[
    SortBy,
    typer.Option(help="Oldest, most seen, shown by most users, or nearest to a curated one first."),
]
Reverse = Annotated[bool, typer.Option("--reverse", help="The other way round.")]
ByStatus = Annotated[Waiting | None, typer.Option(help="Only these.", show_default=False)]
ByKind = Annotated[Kind | None, typer.Option(help="Only this kind.", show_default=False)]
ByRule = Annotated[str, typer.Option(help="Only what this rule stands against.")]
ByProducer = Annotated[str, typer.Option(help="Only what this model or prompt version proposed.")]
ByText = Annotated[str, typer.Option(help="Only with all these words in text, trigger or tags.")]
ByUsers = Annotated[int, typer.Option(min=0, help="Only what so many users' chats showed.")]
Limit = Annotated[int, typer.Option(min=0, help="Show at most so many; 0: all.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command("candidates")(candidates)
    app.command("show")(show)


def candidates(
    store: Store = "",
    sort: Sort = SortBy.AGE,
    reverse: Reverse = False,
    status: ByStatus = None,
    kind: ByKind = None,
    rule: ByRule = "",
    producer: ByProducer = "",
    text: ByText = "",
    min_users: ByUsers = 0,
    limit: Limit = 0,
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """List the candidates and held lessons that wait for a decision.

    Each with how often and by how many users it was shown, its age, the nearest curated lesson,
    what the rules say and what was decided on it before.

    Example: lessons candidates --sort users --rule min-users
    """
    from lessons_loop.promote.listing import Wish
    from lessons_loop.promote.read_runs import list_all
    from lessons_loop.promote.runs.command_runs import GateFlags

    flags = GateFlags(store, domain, state_dir, embedding, as_json=as_json)
    wish = Wish(
        sort.value,
        reverse,
        status.value if status else "",
        kind.value if kind else "",
        rule.strip(),
        producer.strip(),
        text,
        min_users,
        limit,
    )
    list_all(flags, wish)


def show(
    id_: Id,
    store: Store = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """Tell one lesson's whole life, wherever it stands now.

    How it was proposed, every decision with who and why, what it replaced and what replaced
    it, how it fared in use, and whether recall reads it.

    Example: lessons show 3f2a9c
    """
    from lessons_loop.promote.read_runs import show_one
    from lessons_loop.promote.runs.command_runs import GateFlags

    show_one(GateFlags(store, domain, state_dir, embedding, as_json=as_json), id_)
