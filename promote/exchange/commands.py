"""`lessons export` and `lessons import`: lessons from one store to another."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.promote.completion import complete_domain
from lessons_loop.promote.counting import many
from lessons_loop.promote.options import AsJson, DryRun, Embedding, StateDir, Store

if TYPE_CHECKING:
    from lessons_loop.filter.models import Status
    from lessons_loop.promote.exchange.lessons import ImportReport

Domain = Annotated[
    str,
    typer.Option(envvar="LESSONS_DOMAIN", help="One domain.", autocompletion=complete_domain),
]
ExportFile = Annotated[
    Path | None, typer.Argument(help="File to write; without, standard output.", metavar="FILE")
]
ImportFile = Annotated[Path, typer.Argument(help="File of `lessons export`.", metavar="FILE")]
StatusOption = Annotated[
    str,
    typer.Option(help="Comma list of curated, held, rejected, stale, superseded; or all."),
]
Reason = Annotated[str, typer.Option(help="Why; required, kept in the ledger.")]
Force = Annotated[bool, typer.Option("--force", help="Also take in what would be skipped or held.")]
DRY = "DRY RUN: nothing is written"


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command("export")(export_lessons)
    app.command("import")(import_lessons)


def export_lessons(
    file: ExportFile = None,
    store: Store = "",
    domain: Domain = "sql",
    status: StatusOption = "curated",
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Write lessons as JSON Lines.

    Nothing of any chat or user is in it: text, kind, trigger, tags, source, counters.

    Example: lessons export lessons.jsonl --store ./lessons --domain sql
    """
    from lessons_loop.promote.exchange.file import as_lines, exported
    from lessons_loop.promote.exchange.lessons import chosen
    from lessons_loop.promote.quiet import busy
    from lessons_loop.promote.session import GateSettings, open_gate
    from lessons_loop.promote.state import existing_store

    existing_store(store)
    wanted = _statuses(status)
    settings = GateSettings(store, domain, state_dir, dry_run=True)
    with busy("reading the store …"), open_gate(settings) as session:
        rows = chosen(session, wanted)
    if file is not None:
        _write(file.expanduser(), as_lines(rows).encode())
        told = {"file": str(file), "lessons": len(rows)}
        typer.echo(
            json.dumps(told) if as_json else f"{many(len(rows), 'lesson')} written to {file}"
        )
    elif as_json:
        typer.echo(json.dumps({"lessons": [exported(row) for row in rows]}, indent=2))
    else:
        typer.echo(as_lines(rows), nl=False)


def _write(file: Path, content: bytes) -> None:
    from lessons_loop.promote.files import file_errors, write_atomic

    with file_errors(file):
        if file.exists() and not file.is_file():  # a pipe or a device; a folder refuses
            file.write_bytes(content)
            return
    write_atomic(file, content)


def _statuses(text: str) -> list[Status]:
    from lessons_loop.promote.exchange.file import IMPORTED

    names = [name.strip() for name in text.split(",") if name.strip()]
    known = {status.value: status for status in IMPORTED}
    if names == ["all"]:
        return list(known.values())
    if bad := [name for name in names or [text] if name not in known]:
        raise typer.BadParameter(f"status {bad[0][:40]!r}: {', '.join(known)}, or all")
    return [known[name] for name in names]


def import_lessons(
    file: ImportFile,
    store: Store = "",
    reason: Reason = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    force: Force = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take lessons in that another store gave out.

    A file with one mistake is refused whole. What contradicts a curated lesson or breaks a
    rule is held for a person; what is here, was retired or forgotten here is skipped.

    Example: lessons import lessons.jsonl --store ./lessons --reason "from the other plant"
    """
    if not reason.strip():
        raise typer.BadParameter("give --reason TEXT: a decision without a reason is none")
    from lessons_loop.promote.embedding.embedders import parse_embedding
    from lessons_loop.promote.entry import login_name
    from lessons_loop.promote.exchange.file import BadFile, read_lessons
    from lessons_loop.promote.exchange.lessons import take_over
    from lessons_loop.promote.quiet import busy
    from lessons_loop.promote.records import Actor
    from lessons_loop.promote.session import GateSettings, open_gate
    from lessons_loop.promote.state import clean_domain, existing_store

    existing_store(store)
    try:
        offered = read_lessons(file.expanduser(), clean_domain(domain))
    except BadFile as error:
        for line in str(error).splitlines():  # one line per mistake
            typer.echo(f"lessons: {line}", err=True)
        raise typer.Exit(1) from None
    embedder = parse_embedding(embedding, os.environ)
    settings = GateSettings(store, domain, state_dir, embedder, dry_run)
    actor = Actor(kind="human", name=login_name())
    with busy(f"taking {len(offered)} lessons in …"), open_gate(settings) as session:
        report = take_over(session, offered, actor, " ".join(reason.split()), force)
    _tell(report, file, dry_run, as_json)


def _tell(report: ImportReport, file: Path, dry_run: bool, as_json: bool) -> None:
    notes = [
        {"line": step.offered.line, "id": step.offered.lesson.key, "outcome": step.outcome}
        | ({"reason": step.reason} if step.reason else {})
        for step in report.steps
    ]
    total = len(notes)
    if as_json:
        content = {"dry_run": dry_run, **report.counts, "total": total, "lessons": notes}
        typer.echo(json.dumps(content, indent=2))
        return
    lines = [
        f"{file}:{note['line']}: {note['outcome']}: {note['reason']}"
        for note in notes
        if "reason" in note and note["outcome"] != "unchanged"
    ]
    counted = ", ".join(f"{number} {name}" for name, number in report.counts.items() if number)
    lines.append(f"{many(total, 'lesson')}: {counted or 'none'}")
    from lessons_loop.promote.render import make_console, print_lines

    print_lines(make_console(), [DRY, *lines, DRY] if dry_run else lines)
