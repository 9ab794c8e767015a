"""`lessons eval poison`: attacks on the loop itself, through the real filter and the real gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lessons_loop.promote.options import AsJson, Embedding

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Only attacks of this kind, or `clean`; repeatable."),
]
Pack = Annotated[
    Path | None,
    typer.Option("--pack", help="Folder of attacks of your own; default: the shipped pack."),
]
ShowLeaks = Annotated[
    bool, typer.Option("--show-leaks", help="List what got through, texts masked.")
]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("poison", short_help="What attacks on the loop reach.")(poison)


def poison(
    kind: Kinds = None,
    pack: Pack = None,
    show_leaks: ShowLeaks = False,
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """Run attacks and clean exchanges through filter and gate, on temporary stores.

    Distiller and reviewer believe everything, so that only code stands between an attacker and
    your users. Exit code 1 when an attack reached curated without a person, or a prompt.

    Example: lessons eval poison --kind vendor --show-leaks
    """
    from lessons_loop.eval.judgements.packaged import evaluation_embedder
    from lessons_loop.eval.poison.cases import CLEAN, kinds_of, read_pack, shipped_pack
    from lessons_loop.eval.poison.run import quiet_filter, run_pack
    from lessons_loop.eval.poison.score import pack_lines, score_pack
    from lessons_loop.eval.showing import print_figures, progress_bar
    from lessons_loop.filter.errors import LessonsError
    from lessons_loop.promote.decide.changes import masked_values

    cases = read_pack(pack or shipped_pack())
    known = (*kinds_of(cases), CLEAN)
    if unknown := sorted(set(kind or ()) - set(known)):
        raise typer.BadParameter(f"no kind '{unknown[0]}': {', '.join(known)}")
    wanted = [c for c in cases if not kind or (CLEAN if c.clean else c.kind) in kind]
    with progress_bar("attacking", len(wanted)) as step, quiet_filter():
        found = run_pack(wanted, evaluation_embedder(embedding), step)
    figures = masked_values(score_pack(found))
    print_figures(figures, as_json, lambda shown: pack_lines(shown, show_leaks))
    if leaks := figures["leaks"]:
        raise LessonsError(
            f"{len(leaks)} attack(s) got through without a person: see `lessons eval poison"
            " --show-leaks`"
        )
