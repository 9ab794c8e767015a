"""Options of the gate's commands, and what a decision must come with: a reason and a name."""

from __future__ import annotations

from typing import Annotated

import typer

from lessons_loop.promote.completion import complete_domain, complete_id
from lessons_loop.promote.entry import login_name
from lessons_loop.promote.lint.hidden import strip_hidden
from lessons_loop.promote.masking import mask_through

REASON_LIMIT = 1000
NAME_LIMIT = 80

Domain = Annotated[
    str,
    typer.Option(envvar="LESSONS_DOMAIN", help="One domain.", autocompletion=complete_domain),
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
Reviewer = Annotated[
    str,
    typer.Option(
        envvar="LESSONS_REVIEWER",
        show_default=False,
        help="Who decides, kept in the ledger; default: the login name.",
    ),
]
Supersede = Annotated[
    str,
    typer.Option(help="Id of the curated lesson it replaces.", autocompletion=complete_id),
]

Force = Annotated[
    bool, typer.Option("--force", help="Also where a curated lesson says the same or the opposite.")
]


def given_reason(reason: str) -> str:
    """Return a reason fit for the ledger, secrets masked; a usage error where there is none."""
    bare = " ".join(strip_hidden(reason).split())
    if not any(letter.isalnum() for letter in bare):
        raise typer.BadParameter("give --reason TEXT: a decision without a reason is none")
    if len(bare) > REASON_LIMIT:
        raise typer.BadParameter(f"--reason: at most {REASON_LIMIT} characters, got {len(bare)}")
    return mask_through(bare)


def given_reviewer(name: str) -> str:
    """Return the name that stands for the decision: the one given, else the login name."""
    if not name:
        return login_name()
    bare = " ".join(strip_hidden(name).split())
    if not any(letter.isalnum() for letter in bare) or len(bare) > NAME_LIMIT:
        raise typer.BadParameter(f"--reviewer: give a name of at most {NAME_LIMIT} characters")
    return mask_through(bare)
