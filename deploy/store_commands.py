"""Commands on a whole store: init, publish, repair."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.options import AsJson, Domains, Embedding, StateDir, Store
from lessons_loop.promote.quiet import busy

if TYPE_CHECKING:
    from lessons_loop.filter.embed import Embedder
    from lessons_loop.seeds.commands import Loaded


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command()(init)
    app.command()(publish)
    app.command()(repair)


def init(
    store: Store = "",
    state_dir: StateDir = None,
    domain: Domains = "sql,openwebui",
    embedding: Embedding = "",
    seeds: Annotated[bool, typer.Option("--seeds", help="Load the shipped seeds too.")] = False,
    unattended: Annotated[
        bool, typer.Option("--unattended", help="For init containers: 0 while paused.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a store; running it again changes nothing.

    Example: lessons init --store ./lessons --domain sql
    """
    from lessons_loop.promote.embedding.embedders import parse_embedding
    from lessons_loop.promote.store.initialise import initialise

    if unattended and (told := pause_of(store, state_dir)):
        return tell([told], {"paused": told}, as_json)
    embedder = parse_embedding(embedding, os.environ)
    with busy("making the store …"):
        report = initialise(store, split(domain), embedder, state_dir)
    lines = [
        f"{name}: {'created' if name in report.created else 'was there'}" for name in split(domain)
    ]
    lines += [report.advice] if report.advice else []
    content: dict[str, Any] = report._asdict()
    if seeds and (loaded := load_seeds(store, state_dir, split(domain), embedder)):
        from lessons_loop.seeds.commands import as_report, as_table

        lines.append(as_table(loaded, dry_run=False))
        content |= json.loads(as_report(loaded, dry_run=False))
    tell(lines, content, as_json)


def pause_of(store: str, state_dir: Path | None) -> str:
    """Return what is to be said of a pause; empty without one."""
    from lessons_loop.promote.runs.pause import read_pause
    from lessons_loop.promote.state import locate

    found = read_pause(locate(store, state_dir).state, os.environ)
    return found.told if found else ""


def tell(lines: list[str], content: Mapping[str, Any], as_json: bool) -> None:
    """Print lines for a person, or the content for a machine."""
    typer.echo(json.dumps(content, indent=2) if as_json else "\n".join(lines))


def load_seeds(
    store: str, state_dir: Path | None, domains: list[str], embedder: Embedder | None
) -> list[Loaded]:
    """Load the shipped seeds of each domain that has some."""
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.seeds.commands import load_all, read_all
    from lessons_loop.seeds.load import shipped_domains

    shipped = shipped_domains()
    names = [name for name in domains if name in shipped]
    if not names:
        return []
    settings = [GateSettings(store, name, state_dir, embedder) for name in names]
    return list(load_all(read_all(",".join(names), None), settings, force=False))


def split(names: str) -> list[str]:
    """Return the names of a comma list, each once."""
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def given(names: str) -> list[str]:
    """Return the names of a comma list; raise LessonsError where there is none."""
    if found := split(names):
        return found
    raise LessonsError("no domain given: pass --domain or set LESSONS_DOMAIN")


def publish(
    store: Store = "",
    state_dir: StateDir = None,
    domain: Domains = "sql",
    as_json: AsJson = False,
) -> None:
    """Write the published file anew from curated.

    Chats read that file; every promotion writes it. Needed where status or doctor say so.

    Example: lessons publish --store ./lessons --domain sql
    """
    from lessons_loop.promote.session import GateSettings, open_gate
    from lessons_loop.promote.state import existing_store

    existing_store(store)
    counts = {}
    for name in given(domain):
        settings = GateSettings(store, name, state_dir, admits_older=True)
        with busy(f"publishing {name} …"), open_gate(settings) as session:
            session.publish(force=True)
            counts[name] = len(session.curated)
    tell([f"{name}: {count} lessons published" for name, count in counts.items()], counts, as_json)


def repair(store: Store = "", state_dir: StateDir = None, as_json: AsJson = False) -> None:
    """Make a store usable after a crash; deletes nothing. A server is only looked at.

    Example: lessons repair --store ./lessons
    """
    from lessons_loop.promote.store.rebuild import repair_store

    with busy("checking staging, curated and ledger …"):
        reports = repair_store(store, state_dir)
    found = {
        report.what: {
            "outcome": report.outcome,
            "rows": report.rows,
            "aside": str(report.aside or ""),
            "note": report.note,
        }
        for report in reports
    }
    tell([report.line for report in reports], found, as_json)
    if any(report.outcome == "damaged" for report in reports):
        raise typer.Exit(1)
