"""Shell completion of domains and ids, from the published files alone: quick, and opens nothing.

Only names and ids are offered, never a lesson's text: zsh's completion script is evaluated by
the shell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import typer

KEYS_SHOWN = 200
ID_LENGTH = 12


def complete_domain(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the store's domains; of a comma list its last name is completed."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    names = [file.stem for file in _published(ctx) if file.stem not in taken]
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def complete_id(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the ids of curated lessons."""
    from lessons_loop.filter.errors import LessonsError
    from lessons_loop.filter.published import read_published

    domain = str(ctx.params.get("domain") or "")
    keys: list[str] = []
    for file in _published(ctx):
        with suppress(LessonsError):
            if domain in ("", file.stem) and (found := read_published(file)):
                keys += found.keys
    fitting = [key[:ID_LENGTH] for key in keys if key.startswith(incomplete)]
    return sorted(fitting)[:KEYS_SHOWN]


def _published(ctx: typer.Context) -> Iterator[Path]:
    """Yield the published files of the store the command line or the environment names."""
    from lessons_loop.filter.server import is_server

    store = str(ctx.params.get("store") or os.environ.get("LESSONS_STORE") or "").strip()
    if not store or is_server(store):
        return
    with suppress(OSError, RuntimeError, ValueError):
        yield from sorted((Path(store).expanduser() / "published").glob("*.lessons"))
