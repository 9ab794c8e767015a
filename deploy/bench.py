"""`make bench`: every figure with its spread, as a table or as JSON.

    python -m lessons_loop.deploy.bench [--quick] [--json FILE] [--only local|chat]

Machines differ and are noisy: read ratios and spreads. Covered: hooks, published
file, event loop, first token. Not covered: a store on a server, several workers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lessons_loop.deploy.bench_chat import first_token_figures
from lessons_loop.deploy.bench_local import (
    Figure,
    inlet_figures,
    load_figures,
    outlet_figures,
    stall_figures,
)
from lessons_loop.filter.errors import LessonsError

SIZES = (100, 1_000, 10_000, 100_000)


def parts(quick: bool, only: str) -> list[tuple[str, Callable[[], list[Figure]]]]:
    """Return what is to be measured, in order."""
    sizes = SIZES[:3] if quick else SIZES
    local: list[tuple[str, Callable[[], list[Figure]]]] = [
        ("inlet without embedding", lambda: inlet_figures(sizes, 100 if quick else 400)),
        ("outlet", outlet_figures),
        ("published file", load_figures),
        ("event loop", stall_figures),
    ]
    chat = [("first token, real Open WebUI", lambda: first_token_figures(10 if quick else 40))]
    return (local if only != "chat" else []) + (chat if only != "local" else [])


def as_table(figures: list[Figure]) -> Table:
    """Return the figures as a table that fits 80 columns."""
    table = Table(box=None, pad_edge=False)
    table.add_column("milliseconds, unless named", overflow="fold")
    for name in ("min", "median", "p99", "runs"):
        table.add_column(name, justify="right")
    table.add_column("wanted")
    for figure in figures:
        numbers = [f"{value:,.2f}" for value in (figure.low, figure.median, figure.p99)]
        table.add_row(figure.name, *numbers, str(figure.runs), figure.limit)
    return table


def main() -> int:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs, up to 10,000 lessons")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--only", choices=["local", "chat"], default="", help="measure one half")
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    console, progress = Console(width=80), Console(stderr=True)
    figures: list[Figure] = []
    try:
        for name, measure in parts(args.quick, args.only):
            progress.print(f"measuring: {name} ...", highlight=False)
            figures += measure()
    except LessonsError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    console.print(as_table(figures))
    if args.json:
        rows = [figure._asdict() for figure in figures]
        host = {"python": platform.python_version(), "cores": os.cpu_count()}
        args.json.write_text(json.dumps({"host": host, "figures": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
