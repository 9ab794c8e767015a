"""`lessons audit`: what a store consists of and which lessons do nothing."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.promote.options import AllDomains, AsJson, Embedding, StateDir, Store
from lessons_loop.promote.quiet import working

if TYPE_CHECKING:
    from collections.abc import Callable

    from lessons_loop.filter.embed import Embedder, Vectors


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(audit)


def audit(
    store: Store = "",
    state_dir: StateDir = None,
    domain: AllDomains = "",
    embedding: Embedding = "",
    top_k: Annotated[int, typer.Option(min=1, help="The plugin's valve top_k.")] = 5,
    token_budget: Annotated[int, typer.Option(min=1, help="Its valve token_budget.")] = 512,
    as_json: AsJson = False,
) -> None:
    """Count lessons by origin; find near copies and unused ones.

    Also those nothing reaches: a lesson is reached when its own trigger, asked as a
    question, brings it. It writes nothing.

    Example: lessons audit --store ./lessons --domain sql
    """
    from lessons_loop.deploy.audit.reach import Limits
    from lessons_loop.deploy.audit.render import render_audit
    from lessons_loop.deploy.audit.survey import audit_domain
    from lessons_loop.deploy.domains import domains_in
    from lessons_loop.promote.embedding.embedders import parse_embedding
    from lessons_loop.promote.session import GateSettings, open_gate
    from lessons_loop.promote.showing import make_console
    from lessons_loop.promote.state import locate

    place = locate(store, state_dir)
    embedder = parse_embedding(embedding, os.environ)
    found = []
    with working("reading the store …") as tell:
        for name in domains_in(store, state_dir, domain):
            with open_gate(GateSettings(store, name, state_dir, embedder, dry_run=True)) as session:
                found.append(
                    audit_domain(
                        session,
                        place,
                        Limits(top_k, token_budget),
                        asked_by(embedder),
                        lambda what, done, total: tell(f"{what}: {done} of {total}"),
                    )
                )
    if as_json:
        typer.echo(json.dumps({one.domain: one.as_json() for one in found}, indent=2))
        return
    width = make_console().width
    typer.echo("\n\n".join(render_audit(one, width) for one in found))


def asked_by(embedder: Embedder | None) -> Callable[[list[str]], Vectors] | None:
    """Return what embeds questions as a chat does, None without an embedder."""
    from lessons_loop.filter.embed import Purpose

    if embedder is None:
        return None
    return lambda texts: embedder.embed(texts, Purpose.QUERY)
