"""`lessons seed`: load the shipped lessons, or a folder of your own, through the gate."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.options import AsJson, DryRun, Embedding, StateDir, require_store
from lessons_loop.promote.quiet import busy
from lessons_loop.seeds.import_command import import_rules

if TYPE_CHECKING:
    from lessons_loop.promote.exchange.intake import IntakeReport
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.seeds.load import SeedSet
    from lessons_loop.seeds.parse import Problem

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="LESSONS_STORE",
        show_default=False,
        help="Folder of the lesson store, or a Chroma server's URL.",
    ),
]
"""As of every command, but asked for only where seeds are loaded, not where they are drafted."""
DomainOption = Annotated[
    str, typer.Option(help="Comma list; default: every domain shipped, or the folder's name.")
]
FolderOption = Annotated[
    Path | None, typer.Option(help="Folder of seed files; default: the shipped ones.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Also load retired lessons and undo changes by hand.")
]
HEADINGS = ("domain", "added", "changed", "unchanged", "skipped", "total")
DRY = "DRY RUN: nothing is written"


class Loaded(NamedTuple):
    """One domain's seeds and what became of them."""

    seeds: SeedSet
    report: IntakeReport


def register(app: typer.Typer) -> None:
    """Add the command `seed` and what stands below it to an app."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(invoke_without_command=True)(seed)
    group.command("import", short_help="Draft seed lessons from a rule list.")(import_rules)
    app.add_typer(group, name="seed")


def seed(
    context: typer.Context,
    store: StoreOption = "",
    domain: DomainOption = "",
    folder: FolderOption = None,
    force: ForceOption = False,
    dry_run: DryRun = False,
    state_dir: StateDir = None,
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """Load seed lessons; running it again changes nothing.

    A changed seed supersedes the lesson loaded under its id. What somebody retired or
    changed since is skipped, unless --force is given.

    Example: lessons seed --store ./lessons --domain sql
    """
    if context.invoked_subcommand is not None:
        return
    require_store(store)
    from lessons_loop.promote.embedding.embedders import parse_embedding
    from lessons_loop.promote.session import GateSettings

    try:
        found = read_all(domain, folder)
        embedder = parse_embedding(embedding, os.environ)
        settings = [GateSettings(store, s.domain, state_dir, embedder, dry_run) for s in found]
        loaded = list(load_all(found, settings, force))
    except LessonsError as error:
        for line in str(error).splitlines():  # seed files: one line per mistake
            typer.echo(f"lessons: {line}", err=True)
        raise typer.Exit(1) from None
    typer.echo(as_report(loaded, dry_run) if as_json else as_table(loaded, dry_run))


def read_all(domain: str, folder: Path | None) -> list[SeedSet]:
    """Return the seeds of all domains asked for; raise SeedProblems before any is loaded."""
    from lessons_loop.seeds.load import SeedProblems, read_seeds

    found: list[SeedSet] = []
    problems: list[Problem] = []
    for name, place in _places(domain, folder):
        try:
            found.append(read_seeds(place, name))
        except SeedProblems as error:
            problems += error.problems
    if problems:
        raise SeedProblems(problems)
    return found


def _places(domain: str, folder: Path | None) -> list[tuple[str, Path]]:
    from lessons_loop.promote.state import clean_domain
    from lessons_loop.seeds.load import shipped_domains

    names = [clean_domain(name) for name in domain.split(",") if name.strip()]
    if folder is not None:
        if len(names) > 1:
            raise LessonsError("--folder holds one domain: give one --domain, or none")
        return [(names[0] if names else clean_domain(folder.resolve().name), folder)]
    shipped = shipped_domains()
    if unknown := [name for name in names if name not in shipped]:
        known = ", ".join(shipped)
        raise LessonsError(
            f"no seeds for domain {unknown[0]}: shipped are {known}; or use --folder"
        )
    return [(name, shipped[name]) for name in dict.fromkeys(names or shipped)]


def load_all(
    found: Sequence[SeedSet], settings: Sequence[GateSettings], force: bool
) -> Iterator[Loaded]:
    """Load each domain in a gate session of its own, showing that it is at work."""
    from lessons_loop.promote.session import open_gate
    from lessons_loop.promote.store.initialise import initialise
    from lessons_loop.seeds.load import load_seeds

    for seeds, chosen in zip(found, settings, strict=True):
        count = len(seeds.seeds)
        with busy(f"loading {count} lesson{'' if count == 1 else 's'} into {seeds.domain}"):
            if not chosen.dry_run:
                initialise(chosen.store, [seeds.domain], chosen.embedder, chosen.state)
            with open_gate(chosen) as session:
                yield Loaded(seeds, load_seeds(session, seeds, force))


def as_table(loaded: Sequence[Loaded], dry_run: bool) -> str:
    """Return counts per domain as an aligned table, notes above it."""
    rows = [HEADINGS, *(tuple(map(str, _counts(one).values())) for one in loaded)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADINGS))]
    lines = [f"note: {name}: 0 lessons" for one in loaded for name in one.seeds.empty]
    lines += [line for one in loaded for line in _told(one, dry_run)]
    lines += [_aligned(row, widths) for row in rows]
    return "\n".join([DRY, *lines, DRY] if dry_run else lines)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join(cells)


def _told(one: Loaded, dry_run: bool) -> Iterator[str]:
    """Yield what needs saying: in a dry run every step, else what was skipped or forced."""
    verbs = {"added": "would add", "changed": "would change", "skipped": "would skip"}
    for note in one.report.notes:
        verb = verbs.get(note.outcome.value) if dry_run else note.outcome.value
        if verb and (
            dry_run or note.outcome.value == "skipped" or note.reason.startswith("forced")
        ):
            reason = f": {note.reason}" if note.reason else ""
            yield f"{verb} {one.seeds.domain}/{note.seed_id}{reason}"


def _counts(one: Loaded) -> dict[str, str | int]:
    report = one.report
    return {
        "domain": one.seeds.domain,
        "added": report.added,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "skipped": report.skipped,
        "total": len(one.seeds.seeds),
    }


def as_report(loaded: Sequence[Loaded], dry_run: bool) -> str:
    """Return the same as JSON."""
    rows = [
        _counts(one)
        | {"empty_files": list(one.seeds.empty)}
        | {"lessons": [note._asdict() for note in one.report.notes]}
        for one in loaded
    ]
    return json.dumps({"dry_run": dry_run, "domains": rows}, ensure_ascii=False, indent=2)
