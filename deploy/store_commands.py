"""Commands on a whole store: init, status, verify, publish, re-embed, repair."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.filter.errors import LessonsError

if TYPE_CHECKING:
    from lessons_loop.filter.embed import Embedder

StoreOption = Annotated[
    str, typer.Option("--store", envvar="LESSONS_STORE", help="Folder of the lesson store.")
]
StateOption = Annotated[
    Path | None,
    typer.Option("--state-dir", envvar="LESSONS_STATE", help="Default: <store>/state."),
]
DomainsOption = Annotated[
    str, typer.Option("--domain", envvar="LESSONS_DOMAIN", help="Domain, or a comma list.")
]
EmbeddingOption = Annotated[
    str,
    typer.Option(
        "--embedding",
        envvar="LESSONS_EMBEDDING",
        help="openai:MODEL@URL or sentence-transformers:NAME_OR_FOLDER.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command()(init)
    app.command()(status)
    app.command()(verify)
    app.command()(publish)
    app.command("re-embed")(re_embed)
    app.command()(repair)


def init(
    store: StoreOption = "",
    state_dir: StateOption = None,
    domain: DomainsOption = "sql,openwebui",
    embedding: EmbeddingOption = "",
    seeds: Annotated[bool, typer.Option("--seeds", help="Load the shipped seeds too.")] = False,
) -> None:
    """Create a store; running it again changes nothing.

    Example: lessons init --store ./lessons --domain sql
    """
    from lessons_loop.promote.embedders import parse_embedding
    from lessons_loop.promote.initialise import initialise

    embedder = parse_embedding(embedding, os.environ)
    report = initialise(store, split(domain), embedder, state_dir)
    for name in split(domain):
        typer.echo(f"{name}: {'created' if name in report.created else 'was there'}")
    if seeds:
        load_seeds(store, state_dir, split(domain), embedder)


def load_seeds(
    store: str, state_dir: Path | None, domains: list[str], embedder: Embedder | None
) -> None:
    """Load the shipped seeds of each domain that has some."""
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.seeds.commands import as_table, load_all, read_all
    from lessons_loop.seeds.load import shipped_domains

    shipped = shipped_domains()
    names = [name for name in domains if name in shipped]
    if names:
        found = read_all(",".join(names), None)
        settings = [GateSettings(store, name, state_dir, embedder) for name in names]
        typer.echo(as_table(list(load_all(found, settings, force=False)), dry_run=False))


def split(names: str) -> list[str]:
    """Return the names of a comma list, each once."""
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def status(
    store: StoreOption = "",
    state_dir: StateOption = None,
    domain: DomainsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say what a store holds and whether its ledger verifies.

    Example: lessons status --store ./lessons
    """
    from lessons_loop.deploy.status import read_status, render_status

    found = read_status(store, state_dir, split(domain))
    typer.echo(json.dumps(found.as_json(), indent=2) if as_json else render_status(found))
    if found.problems:
        raise typer.Exit(1)


def verify(
    store: StoreOption = "", state_dir: StateOption = None, domain: DomainsOption = "sql"
) -> None:
    """Check the ledger: chain, payloads, no cut-off tail.

    Example: lessons verify --store ./lessons
    """
    from lessons_loop.promote.session import GateSettings, open_gate
    from lessons_loop.promote.state import existing_store

    existing_store(store)
    with open_gate(GateSettings(store, split(domain)[0], state_dir, dry_run=True)) as session:
        problems = session.ledger.verify()
        count = len(session.ledger.entries())
    if problems:
        raise LessonsError(f"the ledger does not verify: {'; '.join(problems)}")
    typer.echo(f"the ledger verifies: {count} lines, every payload present")


def publish(
    store: StoreOption = "", state_dir: StateOption = None, domain: DomainsOption = "sql"
) -> None:
    """Write the published file anew from curated.

    Example: lessons publish --store ./lessons --domain sql
    """
    from lessons_loop.promote.session import GateSettings, open_gate
    from lessons_loop.promote.state import existing_store

    existing_store(store)
    for name in split(domain):
        with open_gate(GateSettings(store, name, state_dir)) as session:
            session.publish(force=True)
            typer.echo(f"{name}: {len(session.curated)} lessons published")


def re_embed(
    store: StoreOption = "",
    state_dir: StateOption = None,
    domain: DomainsOption = "sql",
    embedding: EmbeddingOption = "",
) -> None:
    """Embed every lesson with another model.

    Ids, texts and counters stay.

    Example: lessons re-embed --store ./lessons --embedding openai:bge-m3@http://127.0.0.1:8000/v1
    """
    from lessons_loop.promote.embedders import parse_embedding
    from lessons_loop.promote.rebuild import re_embed_domain
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.promote.state import existing_store

    existing_store(store)
    embedder = parse_embedding(embedding, os.environ)
    for name in split(domain):
        count = re_embed_domain(GateSettings(store, name, state_dir, embedder))
        typer.echo(f"{name}: {count} lessons embedded again")


def repair(store: StoreOption = "") -> None:
    """Make staging and curated usable after a crash; deletes nothing.

    Example: lessons repair --store ./lessons
    """
    from lessons_loop.promote.repair import repair_gate, repair_staging
    from lessons_loop.promote.state import existing_store

    paths = existing_store(store)
    typer.echo(repair_staging(paths).line)
    typer.echo(repair_gate(paths).line)
