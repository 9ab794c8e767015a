"""`lessons eval history`: what earlier evaluations of a domain found, the newest last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from lessons_loop.promote.options import AllDomains, AsJson, StateDir
from lessons_loop.promote.runs.pause_commands import PlaceStore, place_of

if TYPE_CHECKING:
    from rich.table import Table

    from lessons_loop.eval.runs.history import HistoryLine, HistoryLines

BLOCKS = "▁▂▃▄▅▆▇█"
MODEL = 10
"""Characters of a model's name that are shown."""


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("history", short_help="Earlier evaluations, the newest last.")(history)


def history(
    store: PlaceStore = "",
    state_dir: StateDir = None,
    domain: AllDomains = "",
    as_json: AsJson = False,
) -> None:
    """List earlier evaluations: pass rates off and on, lift, verdict.

    Baselines before seeding, one after each batch, proofs of batches, runs by hand.

    Example: lessons eval history --store ./lessons --domain sql
    """
    from lessons_loop.eval.runs.history import domains_with_history, read_history

    state = place_of(store, state_dir)
    given = [name.strip() for name in domain.split(",") if name.strip()]
    names = given or domains_with_history(state)
    found = {name: read_history(state, name) for name in names}
    if as_json:
        typer.echo(json.dumps(as_values(found), indent=2))
        return
    if not any(found.values()):
        typer.echo("nothing was evaluated yet: run `lessons eval run`")
    for name, lines in found.items():
        _show(name, lines)


def as_values(found: dict[str, HistoryLines]) -> dict[str, object]:
    """Return the lines as JSON values, masked."""
    from lessons_loop.promote.masking import mask_through

    return {
        "domains": {
            name: {
                "runs": [line.model_dump() | {"model": mask_through(line.model)} for line in lines],
                "unreadable": lines.unreadable,
            }
            for name, lines in found.items()
        }
    }


def _show(name: str, lines: HistoryLines) -> None:
    from lessons_loop.promote.showing import make_console, plain

    console = make_console()
    if lines:
        console.print(plain(f"{name}  {trend(lines)}".rstrip()))
        console.print(history_table(lines, console.width))
    if any(line.stand_in for line in lines):
        console.print("* a script stood in for the model")
    if lines.unreadable:
        console.print(plain(f"{name}: {lines.unreadable} lines cannot be read and are left out"))


def history_table(lines: HistoryLines, width: int) -> Table:
    """Return the lines as a table of at most `width` columns."""
    from rich.table import Table

    from lessons_loop.promote.showing import plain

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), width=width)
    for name in ("at", "kind", "model"):
        table.add_column(name, overflow="fold")
    for name in ("lessons", "off", "on", "lift [95 %]"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("verdict", overflow="fold")
    for line in lines:
        table.add_row(*map(plain, cells(line)))
    return table


def cells(line: HistoryLine) -> list[str]:
    """Return a line as cells."""
    model = line.model if len(line.model) <= MODEL else line.model[: MODEL - 1] + "…"
    rates = [rate_of(line, arm) for arm in ("off", "on")]
    told = ["-" if rate is None else f"{rate * 100:.0f} %" for rate in rates]
    at = line.at[5:16].replace("T", " ")
    start = [at, line.kind, model + "*" * line.stand_in, str(line.lessons)]
    return [*start, *told, lift_told(line), line.verdict or "-"]


def lift_told(line: HistoryLine) -> str:
    """Return lift and interval in points."""
    if line.lift is None or line.low is None or line.high is None:
        return "-"
    low, high = line.low * 100, line.high * 100
    return f"{line.lift * 100:+.0f} [{low:+.0f},{high:+.0f}]"


def rate_of(line: HistoryLine, arm: str) -> float | None:
    """Return an arm's pass rate."""
    figures = line.arms.get(arm)
    return figures.rate if figures else None


def trend(lines: HistoryLines) -> str:
    """Return pass rates over time, one block a run, 0 to 100 %: on, or off where on was not run."""
    rates = [rate_of(line, "on" if "on" in line.arms else "off") for line in lines]
    known = [rate for rate in rates if rate is not None]
    return "".join(BLOCKS[round(rate * (len(BLOCKS) - 1))] for rate in known)
