"""`lessons doctor`: one command that looks at every part of the loop."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.deploy.webui.install_command import Url
from lessons_loop.promote.completion import complete_domain
from lessons_loop.promote.options import AsJson, Embedding, LlmKey, LlmModel, LlmUrl, StateDir

if TYPE_CHECKING:
    from lessons_loop.deploy.doctor.look import Settings

StorePlace = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="LESSONS_STORE",
        show_default=False,
        help="Folder of the lesson store, or URL of its server.",
    ),
]
Domains = Annotated[
    str,
    typer.Option(
        "--domain",
        envvar="LESSONS_DOMAIN",
        show_default=False,
        help="Domain, or a comma list; default: all there are.",
        autocompletion=complete_domain,
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="LESSONS_OPENWEBUI_TOKEN",
        show_default=False,
        help="An admin's API key or session token; without one the plugin is not checked.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(doctor)


def doctor(
    store: StorePlace = "",
    state_dir: StateDir = None,
    domain: Domains = "",
    embedding: Embedding = "",
    url: Url = "",
    token: Token = "",
    llm_url: LlmUrl = "",
    llm_model: LlmModel = "",
    llm_api_key: LlmKey = "",
    as_json: AsJson = False,
) -> None:
    """Check store, models, Open WebUI and plugin.

    Each problem comes with its remedy. It changes nothing, and comes to an end even
    when everything is down. Exit code 0 without problems, else 1. What is not given
    is not checked, and said so.

    Example: lessons doctor --store ./lessons --url http://127.0.0.1:8080
    """
    from lessons_loop.deploy.doctor.look import Settings, diagnose, split_domains
    from lessons_loop.deploy.doctor.render import as_content, render_findings
    from lessons_loop.promote.render import make_console

    settings: Settings = Settings(
        store=store,
        state=state_dir,
        domains=split_domains(domain),
        embedding=embedding,
        url=url,
        token=token,
        llm_url=llm_url,
        llm_model=llm_model,
        llm_key=llm_api_key,
        environ=dict(os.environ),
    )
    from lessons_loop.promote.quiet import working

    with working("checking …") as at_work:
        findings = diagnose(settings, lambda names: at_work(f"checking {', '.join(names)} …"))
    content = as_content(findings)
    shown = json.dumps(content, indent=2)
    typer.echo(shown if as_json else render_findings(findings, make_console().width))
    if not content["healthy"]:
        raise typer.Exit(1)
