"""`lessons seed import`: a hand-written rule list becomes a draft of seeds and question stubs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.options import AsJson
from lessons_loop.promote.quiet import busy

if TYPE_CHECKING:
    from lessons_loop.seeds.draft import Drafted

SourceFile = Annotated[Path, typer.Argument(help="Rules in Markdown or plain text, UTF-8.")]
Domain = Annotated[str, typer.Option(help="Domain of the lessons; default: the file's name.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder of the draft; default: ./DOMAIN.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace a draft that is already there.")]


class Drafts(NamedTuple):
    """Where the draft is written, and what it is made of."""

    domain: str
    seeds: Path
    questions: Path
    drafted: tuple[Drafted, ...]


def import_rules(
    file: SourceFile,
    domain: Domain = "",
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draft seed lessons from a rule list: a system prompt, a runbook, bullets.

    Writes OUT/NAME.yaml and OUT/NAME.questions.yaml and loads nothing: a person reads
    the draft first. Secrets are neither copied nor shown.

    Example: lessons seed import house-rules.md --domain sql
    """
    from lessons_loop.seeds.import_table import as_lines, as_report

    try:
        with busy(f"reading {file.name}"):
            drafts = read_drafts(file, domain, out)
        write_drafts(drafts, file.name, force)
    except LessonsError as error:
        typer.echo(f"lessons: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(as_report(drafts), ensure_ascii=False, indent=2))
        return
    for line in as_lines(drafts):
        typer.echo(line)


def read_drafts(file: Path, domain: str, out: Path | None) -> Drafts:
    """Return the draft of a file; raise BadSource, StoreError for a bad domain."""
    from lessons_loop.promote.state import clean_domain
    from lessons_loop.seeds.draft import draft_rules
    from lessons_loop.seeds.guess import ascii_word
    from lessons_loop.seeds.outline import read_rules
    from lessons_loop.seeds.source import BadSource, read_source

    text = read_source(file)
    name = ascii_word(file.stem)[:40].strip("-") or "rules"
    chosen = clean_domain(domain or name)
    rules = read_rules(text, file.suffix.casefold() in (".md", ".markdown", ".mdx"))
    if not rules:
        raise BadSource(f"{file} holds no rule: write one per bullet or sentence")
    folder = out or Path(chosen)
    drafted = tuple(draft_rules(rules, chosen))
    return Drafts(chosen, folder / f"{name}.yaml", folder / f"{name}.questions.yaml", drafted)


def write_drafts(drafts: Drafts, source: str, force: bool) -> None:
    """Write both files; raise BadSource where one is there already, unless forced."""
    from lessons_loop.promote.files import file_errors, write_atomic
    from lessons_loop.seeds.draft_file import question_stubs, seed_draft
    from lessons_loop.seeds.source import BadSource

    for path in (drafts.seeds, drafts.questions):
        if not force and (path.exists() or path.is_symlink()):
            raise BadSource(f"{path} is there already: use --force to replace it, or --out")
    with file_errors(drafts.seeds.parent):
        drafts.seeds.parent.mkdir(parents=True, exist_ok=True)
    contents = (seed_draft(drafts.drafted, source), question_stubs(drafts.drafted, source))
    for path, content in zip((drafts.seeds, drafts.questions), contents, strict=True):
        write_atomic(path, content.encode(), 0o644)


def next_step(drafts: Drafts) -> str:
    """Return the command that loads the draft once it was read."""
    named = drafts.seeds.resolve().parent.name == drafts.domain
    parts: Sequence[str] = ("lessons", "seed", "--folder", str(drafts.seeds.parent))
    more = () if named else ("--domain", drafts.domain)
    return shlex.join([*parts, *more])
