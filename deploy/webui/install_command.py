"""`lessons install`: the plugin into an existing Open WebUI, and what is true afterwards."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lessons_loop.promote.options import AsJson

if TYPE_CHECKING:
    from lessons_loop.deploy.webui.install import Installed
    from lessons_loop.deploy.webui.install_ratings import RatingsInstalled

HIDDEN = "(set)"
Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="LESSONS_OPENWEBUI_URL",
        show_default=False,
        help="Address of Open WebUI, as its page has it.",
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="LESSONS_OPENWEBUI_TOKEN",
        show_default=False,
        help="An admin's API key or session token; better in the env.",
    ),
]
Distill = Annotated[bool, typer.Option("--distill", help="Switch learning from finished chats on.")]
StoreValve = Annotated[
    str,
    typer.Option(
        "--store",
        show_default=False,
        help="Set the valve: folder on Open WebUI's machine, or URL of a Chroma server.",
    ),
]
DomainsValve = Annotated[
    str, typer.Option("--domain", show_default=False, help="Set the valve: comma list of domains.")
]
NoRating = Annotated[
    bool, typer.Option("--no-rating", help="Leave out the plugin that notes thumbs.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Set any valve; repeatable; no value: the default."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(install)


def install(
    url: Url = "",
    token: Token = "",
    distill: Distill = False,
    store: StoreValve = "",
    domain: DomainsValve = "",
    set_: Set = None,
    no_rating: NoRating = False,
    as_json: AsJson = False,
) -> None:
    """Install or update the plugins in a running Open WebUI.

    The filter is made active for all models, also where an admin had switched it off. Its
    valves stay as they are, but for those given here. A second plugin notes thumbs on
    answers. Running it again changes nothing.

    Example: lessons install --url http://127.0.0.1:8080 --distill
    """
    require(url, "--url", "LESSONS_OPENWEBUI_URL", "address of Open WebUI")
    require(token, "--token", "LESSONS_OPENWEBUI_TOKEN", "admin's token")
    from lessons_loop.deploy.webui.given_valves import read_valves
    from lessons_loop.deploy.webui.install import connect
    from lessons_loop.deploy.webui.install import install as put_in_place
    from lessons_loop.deploy.webui.install_ratings import install_ratings
    from lessons_loop.deploy.webui.plugin_file import RATING_ID, plugin_source
    from lessons_loop.promote.quiet import working

    try:
        valves = read_valves(set_ or [], store, domain, distill=distill)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    client = connect(url, token)
    with working("installing the plugin …") as at_work:
        done = put_in_place(client, plugin_source(), valves, at_work)
        rating = None if no_rating else install_ratings(client, plugin_source(RATING_ID))
    if as_json:
        typer.echo(json.dumps(as_content(done, rating), indent=2))
    else:
        typer.echo("\n".join(told(done, rating)))


def require(value: str, option: str, variable: str, what: str) -> None:
    """End with one line and exit code 2 when a setting is missing."""
    if not value.strip():
        typer.echo(f"lessons: no {what} given: pass {option} or set {variable}", err=True)
        raise typer.Exit(2)


def as_content(done: Installed, rating: RatingsInstalled | None) -> dict[str, Any]:
    """Return what is true, for machines; secrets are not in it.

    `rating` is null where the rating plugin was left out.
    """
    return {
        "url": done.url,
        "open_webui": done.open_webui,
        "function": done.function,
        "version": done.version,
        "source_digest": done.source_digest,
        "changed": done.changed or bool(rating and rating.changed),
        "outcome": done.outcome,
        "active": True,
        "global": True,
        "switched_on": done.switched_on,
        "valves_set": without_secrets(done.valves_set),
        "valves": without_secrets(done.valves),
        "learning": learns(done),
        "rating": dataclasses.asdict(rating) if rating else None,
    }


def told(done: Installed, rating: RatingsInstalled | None) -> list[str]:
    """Return what is true now and what to do next, in a few lines."""
    lines = [
        f"open webui  {done.open_webui} at {done.url}",
        f"plugin      {done.version} {done.outcome}, active for all models ({done.function})",
    ]
    if done.switched_on:
        lines.append("            it was switched off; this command switched it on")
    shown = [f"{name} = {value}" for name, value in without_secrets(done.valves_set).items()]
    lines.append(f"valves      {', '.join(shown) if shown else 'as they were'}")
    lines.append(
        "learning    on: finished chats leave candidates for `lessons promote`"
        if learns(done)
        else "learning    off: recall only; `lessons install --distill` switches it on"
    )
    lines.append(
        f"ratings     {rating.version} {rating.outcome}, thumbs are noted ({rating.function})"
        if rating
        else "ratings     left as they were (--no-rating)"
    )
    if rating and rating.switched_on:
        lines.append("            it was switched off; this command switched it on")
    lines.append(
        "next        `lessons doctor` with the same --url checks the whole loop"
        if done.changed or (rating and rating.changed)
        else "next        nothing changed; `lessons doctor` checks the whole loop"
    )
    return lines


def learns(done: Installed) -> bool:
    """Say whether finished chats are learned from."""
    return bool(done.valves.get("distill_enabled", False))


def without_secrets(valves: Mapping[str, object]) -> dict[str, object]:
    """Return valves as they may be shown; an unset one shows as its default."""
    from lessons_loop.deploy.webui.given_valves import secret_valves

    secrets: Sequence[str] = secret_valves()
    return {
        name: HIDDEN if name in secrets and value else "default" if value is None else value
        for name, value in valves.items()
    }
