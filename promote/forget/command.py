"""`lessons forget` and `lessons purge`: what leaves a store for good."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lessons_loop.promote.options import AsJson, Domains, DryRun, StateDir, Store

if TYPE_CHECKING:
    from lessons_loop.promote.forget.forget import ForgetReport
    from lessons_loop.promote.forget.purge import PurgeReport

Yes = Annotated[bool, typer.Option("--yes", help="Do it; without, nothing is written.")]
User = Annotated[str, typer.Option(help="Id of the user in Open WebUI.")]
Chat = Annotated[str, typer.Option(help="Id of the chat in Open WebUI.")]
OlderThan = Annotated[
    str, typer.Option(help="Age, such as 30d, 12w or 1y.", metavar="AGE", show_default=False)
]
DRY = "DRY RUN: nothing is written"
AGAIN = "run it again with --yes to do it"


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command()(purge)
    app.command()(forget)


def forget(
    store: Store = "",
    user: User = "",
    chat: Chat = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove every trace of a user or a chat, in all domains.

    Candidates, events, quotes, payloads, snapshots. A lesson that rested on nothing else
    waits for a person. It stays removed: restore, seed and import obey. Without --yes it
    only says what it would do.

    Example: lessons forget --store ./lessons --chat 7f3c2a10-0000-4000-8000-000000000000
    """
    if bool(user.strip()) == bool(chat.strip()):
        raise typer.BadParameter("give --user or --chat, one of them")
    from lessons_loop.promote.forget.forget import forget as carry_out
    from lessons_loop.promote.quiet import busy
    from lessons_loop.promote.session import GateSettings

    dry = dry_run or not yes
    settings = GateSettings(store, "sql", state_dir, dry_run=dry)
    what, identity = ("user", user) if user.strip() else ("chat", chat)
    with busy("looking for traces …"):
        report = carry_out(settings, what, identity)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
        return
    _tell(_forget_lines(report), dry)


def _tell(lines: list[str], dry: bool) -> None:
    from lessons_loop.promote.render import make_console, print_lines

    print_lines(make_console(), [DRY, *lines, AGAIN] if dry else lines)


def _forget_lines(report: ForgetReport) -> list[str]:
    if report.nothing:
        return [
            f"no trace of this {report.what}",
            "if there should be one: the id must be Open WebUI's, and the salt the plugin's",
            report.remains,
        ]
    rows = (
        ("candidates", report.candidates),
        ("events and uses", report.events + report.uses),
        ("archived rows without quotes and references", report.archived_cleaned),
        ("archived proposals nobody else showed", report.archived_removed),
        ("lessons to held, they rested on nothing else", len(report.held)),
        ("lessons that stay, their counters lowered", report.corrected),
        ("payload files", report.payloads),
        ("snapshots written anew", report.snapshots),
        ("recorded evaluations", report.evaluations),
        ("spool files, drafts and copies of unreadable rows", report.files),
        ("leftovers of crashes", report.wreckage),
    )
    lines = [f"{number:>7}  {name}" for name, number in rows if number]
    verb = "would forget" if report.dry_run else "forgot"
    lines = [f"{verb} a {report.what}:", *lines]
    lines += [f"held now: {key[:12]}  decide with `lessons promote`" for key in report.held[:20]]
    return [*lines, report.remains]


def purge(
    store: Store = "",
    older_than: OlderThan = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    domain: Domains = "sql",
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove old archived lessons.

    Those that wait for a person and those a person rejected stay. Without --yes it only
    says what it would do.

    Example: lessons purge --store ./lessons --older-than 30d
    """
    from lessons_loop.promote.forget.purge import parse_age, purge_domain
    from lessons_loop.promote.quiet import busy
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.promote.state import existing_store

    age = parse_age(older_than)
    existing_store(store)
    dry = dry_run or not yes
    names = [name for name in dict.fromkeys(one.strip() for one in domain.split(",")) if name]
    if not names:
        raise typer.BadParameter("no domain given: pass --domain or set LESSONS_DOMAIN")
    found: dict[str, PurgeReport] = {}
    for name in names:
        settings = GateSettings(store, name, state_dir, dry_run=dry, despite_pause=True)
        with busy(f"purging {name} …"):
            found[name] = purge_domain(settings, age)
    if as_json:
        content: dict[str, Any] = {name: report._asdict() for name, report in found.items()}
        typer.echo(json.dumps({"dry_run": dry, "domains": content}, indent=2))
        return
    verb = "would remove" if dry else "removed"
    _tell([line for name, one in found.items() for line in one.lines(name, verb)], dry)
