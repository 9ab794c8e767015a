"""`make bench`: every figure with its spread, as a table or as JSON.

    python -m lessons_loop.deploy.bench [--quick] [--large] [--json FILE|-] [--only PART]

Machines differ and are noisy: read ratios and spreads; the same small piece of work is
timed first and last and tells how noisy this one was. Covered: hooks, prompt prefix,
published file, event loop, first token, scale. Not covered: several workers at once (`bench-load`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from lessons_loop.deploy.bench.chat import first_token_figures
from lessons_loop.deploy.bench.collapse import collapse_bench
from lessons_loop.deploy.bench.eval import ERROR_RATES, eval_figures
from lessons_loop.deploy.bench.eval_practice import POOL, practice_figures
from lessons_loop.deploy.bench.figures import Figure, milliseconds
from lessons_loop.deploy.bench.fold import decay_figures, fold_figures
from lessons_loop.deploy.bench.gate import gate_figures
from lessons_loop.deploy.bench.kill import kill_figures
from lessons_loop.deploy.bench.local import load_figures, outlet_figures, stall_figures
from lessons_loop.deploy.bench.prefix import prefix_figures
from lessons_loop.deploy.bench.proxy import proxy_figures
from lessons_loop.deploy.bench.recall import recall_figures
from lessons_loop.deploy.bench.scale import CANDIDATES, EVENTS, scale_figures
from lessons_loop.deploy.bench.snapshot import snapshot_figures
from lessons_loop.deploy.bench.status import status_figures
from lessons_loop.deploy.progress import Stages
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.quiet import quiet_libraries

SIZES = (100, 1_000, 10_000)
LARGE = 100_000
WIDTH = 80
PARTS = (
    *("recall", "prefix", "local", "gate", "kill", "fold"),
    *("decay", "status", "chat", "snapshot", "eval", "scale", "proxy"),
)


class Part(NamedTuple):
    """Something to measure."""

    part: str
    title: str
    measure: Callable[[], list[Figure]]


def parts(*, quick: bool, large: bool, only: str) -> list[Part]:
    """Return what is to be measured, in order."""
    sizes = (*SIZES, LARGE) if large else SIZES
    every = [
        Part(
            "recall", "recall, numpy, Chroma", lambda: recall_figures(sizes, 60 if quick else 300)
        ),
        Part("prefix", "prompt prefix over chats of ten turns", prefix_figures),
        Part("local", "outlet", lambda: outlet_figures(40 if quick else 200)),
        Part("local", "published file", load_figures),
        Part("local", "stalls of the event loop", stall_figures),
        Part(
            "gate", "promote --auto over many candidates", lambda: gate_figures(10 if quick else 1)
        ),
        Part("kill", "kill -9 at random moments", lambda: kill_figures(3 if quick else 100)),
        Part("fold", "folding of events", lambda: fold_figures(10_000 if quick else 100_000)),
        Part("decay", "decay on simulated thumbs", lambda: decay_figures(5 if quick else 20)),
        Part("status", "lessons status", lambda: status_figures(runs=5 if quick else 10)),
        Part(
            "chat", "first token, real Open WebUI", lambda: first_token_figures(8 if quick else 30)
        ),
    ]
    every.append(
        Part("snapshot", "snapshot and restore", lambda: snapshot_figures(runs=1 if quick else 3))
    )
    every.append(
        Part("eval", "statistics of evaluation", lambda: eval_figures(20 if quick else 100))
    )
    rates, pool = ((0.2,), 8) if quick else (ERROR_RATES, POOL)
    every.append(
        Part("eval", "whole evaluations", lambda: practice_figures(rates, 3 if quick else 5, pool))
    )
    every.append(Part("eval", "collapse test", lambda: collapse_bench(2 if quick else 5)))
    every.append(Part("proxy", "policy proxy", lambda: proxy_figures(40 if quick else 300)))
    every.append(Part("scale", "many lessons, many chats", lambda: scale_bench(quick, large)))
    return [part for part in every if only in ("", part.part)]


def scale_bench(quick: bool, large: bool) -> list[Figure]:
    """Return the scale figures at the sizes asked for."""
    if quick:
        return scale_figures((100, 1_000), (500, 2_000), 100, 20)
    sizes, most = SIZES[1:], (EVENTS[-1] * 3,) if large else ()
    return scale_figures((*sizes, LARGE) if large else sizes, (*EVENTS, *most), CANDIDATES)


def noise(when: str, runs: int = 300) -> Figure:
    """Time the same small piece of work: what its spread is, the machine makes."""
    one = np.random.default_rng(7).normal(size=(200, 200))
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        np.einsum("ij,jk->ik", one, one[:, :8])
        seconds.append(time.perf_counter() - started)
    return milliseconds(f"the same small work, {when}", seconds)


def as_table(figures: Sequence[Figure]) -> Table:
    """Return the figures as a table that fits 80 columns."""
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    for name in ("min", "median", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("wanted", overflow="fold")
    for figure in figures:
        numbers = [number(value) for value in (figure.low, figure.median, figure.high)]
        table.add_row(figure.name, *numbers, figure.unit, str(figure.runs), figure.limit)
    return table


def number(value: float) -> str:
    """Return three telling digits."""
    return f"{value:,.2f}" if value < 10 else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def as_json(figures: Sequence[Figure]) -> str:
    """Return the figures and what they were measured on."""
    host = {
        "python": platform.python_version(),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": [round(value, 2) for value in os.getloadavg()],
    }
    return json.dumps({"host": host, "figures": [figure._asdict() for figure in figures]}, indent=1)


def processor(about: Path = Path("/proc/cpuinfo")) -> str:
    """Return what the system calls its processor; empty where it does not say."""
    lines = about.read_text("utf-8").splitlines() if about.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")


def measured(chosen: Sequence[Part]) -> list[Figure]:
    """Measure one part after another, telling on stderr which."""
    stages = Stages()
    stages.note(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start")
    figures = [noise("first")]
    for part in chosen:
        with stages.stage(f"measuring {part.title}", part.title):
            figures += part.measure()
    return [*figures, noise("last")]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    parser.add_argument("--large", action="store_true", help="100,000 lessons too (minutes more)")
    parser.add_argument("--json", metavar="FILE", help="write JSON there; - prints it alone")
    parser.add_argument("--only", choices=PARTS, default="", help="measure one part")
    return parser.parse_args()


def main() -> int:
    """Measure, print, and write JSON where asked."""
    args = arguments()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    quiet_libraries()
    try:
        figures = measured(parts(quick=args.quick, large=args.large, only=args.only))
    except LessonsError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if args.json == "-":
        print(as_json(figures))
        return 0
    Console(width=WIDTH, highlight=False).print(as_table(figures))
    if args.json:
        Path(args.json).write_text(as_json(figures) + "\n", "utf-8")
    return 0
