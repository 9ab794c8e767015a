"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lessons_loop.promote.completion import complete_domain
from lessons_loop.promote.embedding.forms import FORMS


def require_store(given: str) -> str:
    """Return the store; end with one line and exit code 2 when none is given."""
    if not given.strip():
        typer.echo("lessons: no store given: pass --store or set LESSONS_STORE", err=True)
        raise typer.Exit(2)
    return given


def store_given(ctx: typer.Context, given: str) -> str:
    """Do as `require_store`, but not while a shell completes the line."""
    return given if ctx.resilient_parsing else require_store(given)


Store = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="LESSONS_STORE",
        show_default=False,
        callback=store_given,
        help="Folder of the lesson store, or a Chroma server's URL.",
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        envvar="LESSONS_STATE",
        help="Default: STORE/state; required where the store is a URL.",
    ),
]
Embedding = Annotated[
    str,
    typer.Option(
        "--embedding",
        envvar="LESSONS_EMBEDDING",
        show_default=False,
        help=f"{FORMS}.",
    ),
]
LlmUrl = Annotated[
    str,
    typer.Option(
        envvar="LESSONS_LLM_URL",
        show_default=False,
        help="OpenAI-compatible URL of a language model.",
    ),
]
LlmModel = Annotated[
    str, typer.Option(envvar="LESSONS_LLM_MODEL", show_default=False, help="Its name there.")
]
LlmKey = Annotated[
    str,
    typer.Option(
        envvar="LESSONS_LLM_API_KEY", show_default=False, help="Its key; better in the env."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing; say what would be done.")]
Domains = Annotated[
    str,
    typer.Option(
        "--domain",
        envvar="LESSONS_DOMAIN",
        help="Domain, or a comma list.",
        autocompletion=complete_domain,
    ),
]
AllDomains = Annotated[
    str,
    typer.Option(
        "--domain",
        envvar="LESSONS_DOMAIN",
        help="Domain, or a comma list; default: all.",
        autocompletion=complete_domain,
    ),
]
