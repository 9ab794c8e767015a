"""The commands `schedule install|remove|status`: a timer for hosts without Kubernetes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.options import AsJson, Embedding, StateDir, Store

if TYPE_CHECKING:
    from lessons_loop.deploy.schedule.files import Place
    from lessons_loop.deploy.schedule.timer import Job

SECRETS = {"--llm-api-key": "LESSONS_LLM_API_KEY", "--notify-url": "LESSONS_NOTIFY_URL"}
"""Options a unit, which anybody may read, must not hold, and where they belong."""
schedule = typer.Typer(
    name="schedule",
    help="A timer that runs the gate, for hosts without Kubernetes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
System = Annotated[
    bool, typer.Option("--system", help="The host's timer, not the user's; needs root.")
]
GateOptions = Annotated[
    list[str] | None,
    typer.Argument(help="Options of `lessons promote`, after --, such as --review llm."),
]
Domains = Annotated[str, typer.Option(envvar="LESSONS_DOMAIN", help="Domain, or a comma list.")]
At = Annotated[str, typer.Option(help="`Sun 03:00`, or `03:00` for every day.")]
Zone = Annotated[str, typer.Option(help="Time zone of --at; default: the host's.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the group to an app."""
    app.add_typer(schedule)


@schedule.command()
def install(
    options: GateOptions = None,
    store: Store = "",
    state_dir: StateDir = None,
    domain: Domains = "sql",
    embedding: Embedding = "",
    at: At = "Sun 03:00",
    tz: Zone = "",
    system: System = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write and start a timer that runs `lessons promote --unattended`.

    Everything is printed before it is written. Store and LESSONS_* settings of this shell
    (keys, salt, URLs) go into a private file beside the units. Again with other options
    it replaces what was there. Its first runs are previews until `lessons confirm`.

    Example: lessons schedule install --at "Sun 03:00" --tz Europe/Berlin -- --auto
    """
    from lessons_loop.deploy.schedule.files import find_place
    from lessons_loop.deploy.schedule.timer import Job, gate_command, parse_when
    from lessons_loop.deploy.store_commands import given
    from lessons_loop.promote.state import clean_domain, locate

    when, place = parse_when(at, tz), find_place(system, os.environ)
    if place.launchd and when.zone:
        raise LessonsError("--tz: launchd knows the host's time zone only")
    state = locate(store, state_dir).state
    names = [clean_domain(name) for name in given(domain)]
    words = list(options or ())
    note = check_options(words, os.environ)
    program = (sys.executable, "-m", "lessons_loop.deploy.cli")
    commands = tuple(gate_command(program, ["--domain", name, *words]) for name in names)
    job = Job(when, commands, state, settings_of(store, state, embedding, os.environ))
    if note and not as_json:
        typer.echo(note)
    _install(place, job, yes=yes, as_json=as_json)


def _install(place: Place, job: Job, *, yes: bool, as_json: bool) -> None:
    from lessons_loop.deploy.schedule.files import run_all, write_files

    contents = place.contents(job)
    if not as_json:
        for line in shown_lines(place, contents):
            typer.echo(line)
    if not (yes or _agrees("write this and start the timer?")):
        raise LessonsError("nothing was written: pass --yes")
    changed = write_files(contents)
    failure = run_all(place.starting)
    told = f"the gate runs {job.when.told}" if not failure else "written, but not started"
    content = {
        "when": job.when.told,
        "files": [str(path) for path in contents],
        "changed": [str(path) for path in changed],
        "started": not failure,
    }
    typer.echo(json.dumps(content, indent=2) if as_json else told)
    if not (as_json or place.system or place.launchd):
        typer.echo("for runs while you are logged out: loginctl enable-linger")
    if failure:
        raise LessonsError(f"the timer was written, but not started: {failure}")


@schedule.command()
def remove(system: System = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Stop the timer and delete its files; nothing is left behind.

    Example: lessons schedule remove --yes
    """
    from lessons_loop.deploy.schedule.files import find_place, remove_files, run_all, run_one

    place = find_place(system, os.environ)
    there = [path for path in place.files if path.exists()]
    if there and not as_json:
        typer.echo("\n".join(f"to delete: {path}" for path in there))
    if there and not (yes or _agrees("delete these?")):
        raise LessonsError("nothing was deleted: pass --yes")
    failure = run_all(place.stopping) if there else ""
    gone = remove_files(place)
    if gone and not place.launchd:
        run_one(place.starting[0])
    content = {"removed": [str(path) for path in gone], "stopped": bool(gone) and not failure}
    told = "the timer is removed" if gone else "there is no timer"
    typer.echo(json.dumps(content, indent=2) if as_json else told)
    if failure:
        raise LessonsError(f"the files are gone, but the timer was not stopped: {failure}")


@schedule.command()
def status(system: System = False, as_json: AsJson = False) -> None:
    """Say whether a timer is there and when it runs next.

    Example: lessons schedule status
    """
    from lessons_loop.deploy.schedule.files import find_place, run_one

    place = find_place(system, os.environ)
    there = [path for path in place.files if path.exists()]
    done = run_one(place.looking) if there else None
    fields = dict(
        line.split("=", 1) for line in (done.stdout if done else "").splitlines() if "=" in line
    )
    state = fields.get("ActiveState", "").strip() or "unknown"
    found: dict[str, Any] = {
        "installed": len(there) == len(place.files),
        "files": [str(path) for path in there],
        "missing": [str(path) for path in place.files if path not in there] if there else [],
        "active": state,
        "next": fields.get("NextElapseUSecRealtime", "").strip(),
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    lines = [f"timer: {state}, next run: {found['next'] or 'unknown'}"] if there else []
    lines += [f"file: {path}" for path in found["files"]]
    lines += [f"missing: {path}: lessons schedule install" for path in found["missing"]]
    typer.echo("\n".join(lines) or "there is no timer: lessons schedule install")


def settings_of(
    store: str, state: Path, embedding: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables the timer's runs get; a store folder as an absolute path."""
    from lessons_loop.deploy.schedule.timer import PASSED_ON
    from lessons_loop.filter.server import is_server
    from lessons_loop.promote.state import store_paths

    found = {name: environ[name] for name in PASSED_ON if environ.get(name, "").strip()}
    place = store.strip() if is_server(store) else str(store_paths(store).root)
    found |= {"LESSONS_STORE": place, "LESSONS_STATE": str(state)}
    return found | ({"LESSONS_EMBEDDING": embedding} if embedding.strip() else {})


def check_options(options: list[str], environ: Mapping[str, str]) -> str:
    """Return what the operator should know of the options, else "".

    Raises a usage error unless `lessons promote --unattended` takes them.
    """
    from lessons_loop.promote.commands import promote

    for name in (word.split("=")[0] for word in options):
        if name in SECRETS:
            raise typer.BadParameter(f"{name} does not belong into a unit: set {SECRETS[name]}")
    app = typer.Typer(add_completion=False)
    app.command()(promote)
    command = typer.main.get_command(app)
    given = command.make_context("lessons promote", ["--store", ".", "--unattended", *options])
    if given.params.get("ids"):
        raise typer.BadParameter("a timer decides on no ids: give options of `lessons promote`")
    review = given.params.get("review")
    if str(review).endswith("human"):
        raise typer.BadParameter("--unattended never asks: use --review llm or --auto")
    for name in ("llm_url", "llm_model") if review else ():
        variable = f"LESSONS_{name.upper()}"
        if not (given.params.get(name) or environ.get(variable, "").strip()):
            raise typer.BadParameter(f"--review llm needs a model: set {variable}")
    check_proof(str(given.params.get("proof") or ""), environ)
    if review or given.params.get("auto"):
        return ""
    return "note: without --auto or --review llm after -- the timer promotes nothing"


def check_proof(questions: str, environ: Mapping[str, str]) -> None:
    """Raise a usage error where a timer's run could not prove its batch."""
    from lessons_loop.eval.question_set import shipped_sets

    if not questions:
        return
    for variable in ("LESSONS_EVAL_URL", "LESSONS_EVAL_MODEL"):
        if not environ.get(variable, "").strip():
            raise typer.BadParameter(f"--proof needs an agent: set {variable}")
    if questions not in shipped_sets() and not Path(questions).is_absolute():
        raise typer.BadParameter("--proof: a timer needs the folder's absolute path")


def shown_lines(place: Place, contents: Mapping[Path, bytes]) -> list[str]:
    """Return what will be written; of the private file the names alone."""
    lines = []
    for path, content in contents.items():
        text = content.decode()
        if path == place.environment:
            kept = [line for line in text.splitlines() if line and not line.startswith("#")]
            text = "\n".join(f"{line.partition('=')[0]}=…" for line in kept)
        lines += [f"--- {path}", *text.rstrip().splitlines()]
    return lines


def _agrees(question: str) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return typer.confirm(question, default=False)
