"""`lessons reembed`: move a store to another embedding model."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.options import AsJson, Domains, DryRun, Embedding, StateDir, Store

if TYPE_CHECKING:
    from lessons_loop.promote.embedding.rebuild_vectors import Report
    from lessons_loop.promote.session import GateSettings

EVERY_SECONDS = 15.0
"""Between two lines of progress where stderr is no terminal."""


def register(app: typer.Typer) -> None:
    """Add the command to an app, and its old name."""
    app.command("reembed")(reembed)
    app.command("re-embed", hidden=True)(reembed)


def reembed(
    store: Store = "",
    state_dir: StateDir = None,
    domain: Domains = "sql",
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Embed every lesson with another model.

    Ids, texts and counters stay; chats go on with the old vectors until the new ones are
    checked. A run that was ended goes on where it stopped.

    Example: lessons reembed --store ./lessons --embedding openai:bge-m3@http://127.0.0.1:8000/v1
    """
    from lessons_loop.promote.embedding.embedders import parse_embedding
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.promote.state import existing_store

    existing_store(store)
    embedder = parse_embedding(embedding, os.environ)
    names = [name for name in dict.fromkeys(one.strip() for one in domain.split(",")) if name]
    if not names:
        raise LessonsError("no domain given: pass --domain or set LESSONS_DOMAIN")
    found: dict[str, Any] = {}
    for name in names:
        settings = GateSettings(store, name, state_dir, embedder, dry_run)
        found[name] = _preview(settings) if dry_run else _reembed(settings)
    line = _preview_line if dry_run else _line
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run} | found, indent=2))
        return
    from lessons_loop.promote.render import make_console, print_lines

    print_lines(make_console(), [line(name, content) for name, content in found.items()])


def _reembed(settings: GateSettings) -> dict[str, Any]:
    from lessons_loop.promote.store.rebuild import re_embed_domain

    began = time.monotonic()
    with showing(settings.domain) as report:
        count = re_embed_domain(settings, report=report)
    return {"lessons": count, "seconds": round(time.monotonic() - began, 1)}


def _preview(settings: GateSettings) -> dict[str, Any]:
    from lessons_loop.promote.quiet import busy
    from lessons_loop.promote.session import open_gate
    from lessons_loop.promote.store.rebuild import estimate

    with busy("reading the store …"), open_gate(settings, re_embedding=True) as session:
        return estimate(session)._asdict()


def _line(name: str, found: dict[str, Any]) -> str:
    return f"{name}: {found['lessons']} lessons embedded again"


def _preview_line(name: str, found: dict[str, Any]) -> str:
    done = f", {found['done']} texts done before" if found["done"] else ""
    return (
        f"DRY RUN: {name}: would embed {found['lessons']} lessons and "
        f"{found['archived']} archived ones{done}: {duration(found['seconds'])}"
    )


def duration(seconds: float) -> str:
    """Return a time for people."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 120 else f"about {round(minutes / 60)} h"


@contextmanager
def showing(domain: str) -> Iterator[Report]:
    """Show how far it is and what time is left: a bar on a terminal, else a line at times."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain(domain, time.monotonic)
        return
    with Progress(console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(f"{domain}: {what}", total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


def _plain(domain: str, clock: Callable[[], float]) -> Report:
    began: dict[str, tuple[float, int]] = {}
    told = [clock()]

    def report(what: str, done: int, total: int) -> None:
        now = clock()
        start, before = began.setdefault(what, (now, done))
        if now - told[0] < EVERY_SECONDS or done <= before:
            return
        told[0] = now
        left = duration((now - start) / (done - before) * (total - done))
        print(f"lessons: {domain}: {what} {done} of {total}, {left} left", file=sys.stderr)

    return report
