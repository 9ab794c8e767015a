"""Write the tables of `deploy/SCALE.md` from the kept figures, `deploy/scale.json`.

    make bench ARGS='--only scale --json deploy/scale.json'     measure (≤ 10 minutes)
    python -m lessons_loop.deploy.bench.scale_page [--check]          write the tables, or compare

What was not measured at a size is read off the line through the measured sizes and marked ≈.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.deploy.bench.figures import Figure
from lessons_loop.deploy.bench.scale_fit import Series, series_of
from lessons_loop.deploy.bench.scale_needs import CHATS, LESSONS, PODS, SETUPS, Measured, needs
from lessons_loop.filter.server_shelf import LOAD_SECONDS

HERE = Path(__file__).parent.parent
READ_CORES = 2
"""What the deployment lets Chroma use."""
PAGE, KEPT = HERE / "SCALE.md", HERE / "scale.json"
_BLOCK = re.compile(r"(<!-- (?P<name>[a-z-]+): from scale\.json -->\n).*?(<!-- end -->)", re.DOTALL)


class Column(NamedTuple):
    """A column of the table by lessons."""

    title: str
    series: str
    unit: str


COLUMNS = (
    Column("a worker, memory", "worker memory, server, lessons", "MB"),
    Column(
        "at most while it reads a change",
        "worker peak while a change is read, server, lessons",
        "MB",
    ),
    Column("first load", "load, server, lessons", "s"),
    Column("recall, a question", "recall, server, lessons", "ms"),
    Column("Chroma, CPU for it", "Chroma's CPU while a worker reads, lessons", "s"),
    Column("Chroma, memory", "Chroma memory, lessons", "MB"),
    Column("Chroma, disk", "Chroma disk, lessons", "MB"),
    Column("gate, memory", "gate memory, lessons", "MB"),
    Column("gate, 1,000 candidates", "gate judges 1,000 candidates, lessons", "s"),
    Column("a snapshot", "snapshot file, lessons", "MB"),
)


def read_kept(path: Path = KEPT) -> tuple[dict[str, Any], list[Figure]]:
    """Return the machine and the figures of a kept file."""
    kept = json.loads(path.read_text("utf-8"))
    return kept["host"], [Figure(**figure) for figure in kept["figures"]]


def written(page: str, host: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """Return the page with each table made anew; raise KeyError for a block nobody makes."""
    tables: dict[str, Callable[[], str]] = {
        "machine": lambda: machine_line(host, figures),
        "lessons": lambda: lessons_table(figures),
        "chats": lambda: chats_table(figures),
        "slopes": lambda: slopes_table(figures),
        "setups": lambda: setups_table(figures),
    }
    return _BLOCK.sub(lambda found: f"{found[1]}{tables[found['name']]()}\n{found[3]}", page)


def machine_line(host: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """Return what it was measured on."""
    series = series_of(figures)
    sizes = " and ".join(f"{size:,}" for size in series["load, server, lessons"].points)
    events = " and ".join(f"{size:,}" for size in series["fold, events"].points)
    return (
        f"Measured on {host['cores']} cores ({host['cpu'] or 'unknown processor'}), "
        f"{host['gigabytes']} GB, load {host['load'][0]} at the end, Python {host['python']}: "
        f"{sizes} lessons, {events} events."
    )


def lessons_table(figures: Sequence[Figure]) -> str:
    """Return what so many lessons cost."""
    series = series_of(figures)
    heads = ["", *(f"{size:,} lessons" for size in LESSONS), "1,000 more"]
    rows: list[list[str]] = []
    for column in COLUMNS:
        one = series[column.series]
        cells = [cell(one, size, column.unit) for size in LESSONS]
        rows.append([column.title, *cells, rounded(1_000 * one.line().slope, column.unit)])
    reading = series["Chroma's CPU while a worker reads, lessons"]
    most = [bounded(READ_CORES * LOAD_SECONDS / reading.at(size)) for size in LESSONS]
    rows.append(["workers that can read a change at once", *most, ""])
    return table(heads, rows)


def chats_table(figures: Sequence[Figure]) -> str:
    """Return what so many chats an hour cost, where each is given lessons."""
    measured = Measured(figures)
    heads = ["", *(f"{chats:,} chats an hour" for chats in CHATS)]
    lines: list[tuple[str, Callable[[int], str]]] = [
        ("CPU of the hooks, all workers together", lambda n: f"{plain(measured.cores(n))} cores"),
        ("rows a second into staging", lambda n: f"{n / 3600:.1f} of {measured.rate:,.0f}"),
        ("staged in a week", lambda n: f"{n * 168:,} rows"),
        ("their disk in Chroma", lambda n: rounded(measured.staging(n * 168), "MB")),
        ("one fold a week", lambda n: folding(measured, n * 168)),
        ("one a day", lambda n: folding(measured, n * 24)),
        ("one an hour", lambda n: folding(measured, n)),
        ("use register, a month", lambda n: rounded(measured.register(n * 720), "MB")),
        ("left in Chroma's index, a month", lambda n: rounded(measured.index(n * 720), "MB")),
        (
            f"spools of {PODS} pods full, Chroma away",
            lambda n: f"{plain(measured.hours_to_full(n))} h",
        ),
    ]
    return table(heads, [[title, *(of(chats) for chats in CHATS)] for title, of in lines])


def folding(measured: Measured, events: float) -> str:
    """Return time and memory of one fold, in words."""
    memory = rounded(measured.fold_memory(events), "MB")
    return f"{rounded(measured.fold_seconds(events), 's')}, {memory}"


def slopes_table(figures: Sequence[Figure]) -> str:
    """Return what one more event costs."""
    names = (
        ("a fold takes", "fold, events", 1e3, "ms"),
        ("a fold's memory", "fold memory, events", 1024, "KB"),
        ("staged, on disk", "staging disk, events", 1024, "KB"),
        ("in the register, on disk", "register, events", 1024, "KB"),
        ("in a snapshot of the register, memory", "memory of that snapshot, events", 1024, "KB"),
        ("in its file", "its file, events", 1024, "KB"),
        ("left in Chroma's index for good", "index left after the fold, events", 2**20, "bytes"),
    )
    series = series_of(figures)
    rows = [
        [title, f"{plain(max(0.0, series[name].line().slope * scale))} {unit}"]
        for title, name, scale, unit in names
    ]
    return table(["one more event", ""], rows)


def setups_table(figures: Sequence[Figure]) -> str:
    """Return which settings go with which size."""
    measured = Measured(figures)
    heads = ["", *(setup.title for setup in SETUPS)]
    columns = [needs(measured, setup) for setup in SETUPS]
    return table(heads, [[name, *(found[name] for found in columns)] for name in columns[0]])


def cell(series: Series, size: int, unit: str) -> str:
    """Return a measured value, or what the line says."""
    mark = "" if size in series.points else "≈ "
    return mark + rounded(series.at(size), unit)


def rounded(value: float, unit: str) -> str:
    """Return two telling digits, in the unit that reads best."""
    if unit == "MB" and value >= 1_000:
        value, unit = value / 1024, "GB"
    if unit == "s" and value >= 120:
        value, unit = value / 60, "min"
    return f"{plain(value)} {unit}"


def plain(value: float) -> str:
    """Return two telling digits without an exponent."""
    digits = float(f"{value:.2g}")
    return f"{digits:,.0f}" if abs(digits) >= 10 else f"{digits:.4g}"


def bounded(count: float, most: int = 1_000) -> str:
    """Return a count nobody needs to know exactly beyond `most`."""
    return f"more than {most:,}" if count > most else plain(count)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Write the page, or with `--check` say whether it is as the figures say."""
    now = PAGE.read_text("utf-8")
    fresh = written(now, *read_kept())
    if "--check" in sys.argv:
        if now != fresh:
            print("deploy/SCALE.md is stale: python -m lessons_loop.deploy.bench.scale_page")
        return int(now != fresh)
    PAGE.write_text(fresh, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
