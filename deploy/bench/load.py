"""`make bench-load`: fifty open chats on three workers, with and without the plugin, and faults.

    python -m lessons_loop.deploy.bench.load [--seconds 180] [--users 50] [--think 8]
                                             [--without] [--json FILE]

Open WebUI with three workers, Chroma behind the policy proxy, a model that streams at a fixed
pace and embeds in 10 ms, all on this machine. Each question is asked twice by the same person, on
a model with the plugin and on one without, in random order: what differs is the plugin's.
Covered: recall, usage events, distilling under load; Chroma, nginx and a worker killed, the
plugin replaced. Not covered: sockets (they need Redis with several workers), a database of Open
WebUI's on a server, several machines.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from lessons_loop.deploy.bench.load_faults import Fault, Troubles
from lessons_loop.deploy.bench.load_figures import CPU_MOST, Row
from lessons_loop.deploy.bench.load_rows import Measured, Stretch, memory_rows, rows_of
from lessons_loop.deploy.bench.load_stack import LoadStack, load_stack
from lessons_loop.deploy.bench.load_users import Crowd
from lessons_loop.deploy.bench.load_watch import MemoryWatch, processors
from lessons_loop.deploy.progress import Stages
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.quiet import quiet_libraries

WIDTH = 80
CALM = 0.50
"""Share of CPU the think time is lengthened for."""


class Plan(NamedTuple):
    """How much load for how long."""

    seconds: float = 180.0
    """Of the compared stretch; the others follow from it."""
    users: int = 50
    think: float = 8.0
    """Mean seconds between an answer and the next question."""
    seed: int = 3
    plugin: bool = True
    """False: nobody but the probes chats with it, so that Open WebUI's own growth is seen."""

    @property
    def warm_up(self) -> float:
        """Seconds before anything is measured: every worker loads the plugin."""
        return max(5.0, self.seconds / 4)

    @property
    def alone(self) -> float:
        """Seconds on the model without the plugin only."""
        return max(5.0, self.seconds / 3)

    @property
    def away(self) -> float:
        """Seconds Chroma is away."""
        return min(30.0, max(5.0, self.seconds / 4))


async def run_load(stack: LoadStack, stages: Stages, plan: Plan) -> Measured:
    """Run all stretches and faults with one crowd; raise StartError where no way back is found."""
    crowd = Crowd(
        stack.settings.url,
        stack.admin.token,
        stack.words,
        users=plan.users,
        think=plan.think,
        seed=plan.seed,
    )
    watch = MemoryWatch(stack.worker_pids)
    await crowd.arrive()
    watch.start()
    try:
        troubles = Troubles(stack, crowd)
        await _warmed_up(troubles, stages, plan)
        compared, alone = await _stretches(crowd, stages, plan)
        faults = await _faults(troubles, watch, stages, plan)
    finally:
        watch.stop()
        await crowd.leave()
    return Measured(crowd.asked, watch, compared, alone, faults, crowd.think)


async def _warmed_up(troubles: Troubles, stages: Stages, plan: Plan) -> None:
    """Let people chat until every worker has recalled; short of CPU they think longer."""
    crowd = troubles.crowd
    crowd.plugin_too = plan.plugin
    warm = await _stretch(crowd, stages, "warming up", plan.warm_up)
    if warm.busy > CALM:
        crowd.think *= warm.busy / CALM
        stages.note(f"CPU {warm.busy:.0%}: people think {crowd.think:.1f} s instead")
    await troubles.recalled_by_all(None)


async def _stretches(crowd: Crowd, stages: Stages, plan: Plan) -> tuple[Stretch, Stretch]:
    """Hold chats without the plugin, then with and without it."""
    crowd.plugin_too = False
    alone = await _stretch(crowd, stages, "chats without the plugin", plan.alone)
    crowd.plugin_too = plan.plugin
    joined = "with and without it" if plan.plugin else "still without it"
    await _stretch(crowd, stages, f"first chats {joined}", plan.warm_up / 2)
    compared = await _stretch(crowd, stages, f"chats {joined}", plan.seconds)
    if compared.busy > CPU_MOST:
        stages.note(f"CPU {compared.busy:.0%}: the latency does not count, use a longer --think")
    return compared, alone


async def _stretch(crowd: Crowd, stages: Stages, name: str, seconds: float) -> Stretch:
    """Let people chat for some seconds."""
    began, before, known = time.monotonic(), processors(), len(crowd.asked)
    with stages.changing(name) as tell:
        while (left := began + seconds - time.monotonic()) > 0:
            tell(f"{len(crowd.asked) - known} answers, {left:.0f} s left")
            await asyncio.sleep(min(1.0, left))
    busy, asked = processors().since(before), crowd.asked[known:]
    failed = sum(bool(one.failed) for one in asked)
    stages.note(f"{name}: {len(asked)} answers, {failed} failed, CPU {busy:.0%}")
    return Stretch(began, time.monotonic(), busy)


async def _faults(
    troubles: Troubles, watch: MemoryWatch, stages: Stages, plan: Plan
) -> list[Fault]:
    """Make each trouble once, the worker's last: a new one takes its time."""
    found = []
    each = (
        troubles.chroma_killed(plan.away),
        troubles.proxy_restarted(min(5.0, plan.away)),
        troubles.plugin_replaced(),
        troubles.worker_killed(),
    )
    for trouble in each:
        fault = await trouble
        found.append(fault)
        await asyncio.sleep(plan.away / 2)
        grown = watch.growth(fault.began, time.monotonic()).values()
        told = ", ".join(f"{value:+.1f}" for value in grown)
        seconds = fault.ended - fault.began
        stages.note(f"{fault.name}: over after {seconds:.0f} s; workers grew {told} MB")
    return found


def as_table(rows: Sequence[Row]) -> Table:
    """Return the figures as a table that fits 80 columns."""
    table = Table(box=None, pad_edge=False)
    for name in ("figure", "reached", "wanted", ""):
        table.add_column(name, overflow="fold")
    for row in rows:
        sign = {True: "yes", False: "NO", None: ""}[row.holds]
        table.add_row(row.figure, row.reached, row.wanted, sign)
    return table


def arguments() -> argparse.Namespace:
    """Read the command line."""
    plan = Plan()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="compared stretch")
    parser.add_argument("--users", type=int, default=plan.users, help="people with open chats")
    parser.add_argument("--think", type=float, default=plan.think, help="mean seconds they think")
    parser.add_argument(
        "--without", action="store_true", help="nobody uses the plugin: memory alone is told"
    )
    parser.add_argument("--json", metavar="FILE", help="write the table there as JSON")
    return parser.parse_args()


def measured_rows(plan: Plan) -> list[Row]:
    """Start everything, run the load, return the table's rows; raise LessonsError."""
    stages = Stages()
    stages.note(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start")
    with tempfile.TemporaryDirectory() as folder, load_stack(Path(folder), stages) as stack:
        found = asyncio.run(run_load(stack, stages, plan))
        return rows_of(found, stack) if plan.plugin else memory_rows(found, "still without it")


def main() -> int:
    """Measure, print, and write JSON where asked."""
    args = arguments()
    quiet_libraries()
    try:
        rows = measured_rows(Plan(args.seconds, args.users, args.think, plugin=not args.without))
    except LessonsError as error:
        print(f"bench-load: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench-load: stopped, everything it started is ended", file=sys.stderr)
        return 130
    Console(width=WIDTH, highlight=False).print(as_table(rows))
    if args.json:
        Path(args.json).write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
    return 1 if any(row.holds is False for row in rows) else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        raise SystemExit(main())
