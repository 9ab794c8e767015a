"""Kill a command at random moments, run it again until it ends, and compare with a calm run.

    same = outcome_after_kills(make_store, partial(lessons, ("restore", WHEN)), kills=10, seed=1)
    assert same.differences == []

`make_store(folder)` fills an embedded store once; every trial works on a copy of it.
`command(folder)` is the work: a function that can be pickled (at module level, or a `partial`
of `lessons`). It runs in a process of its own, forked from a server that has everything
imported, so that the moments fall into the work and not into Python's start.
Covered: kill -9 at any moment, also of the runs that mend. Not covered: a power cut, which
may also lose what no fsync has confirmed.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.published import read_published
from lessons_loop.filter.store import StorePaths, collection_names
from lessons_loop.promote.records import Archived
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.store.rows import find_collection, read_rows

MOST_KILLS = 8
"""Kills of one trial."""
TIME_LIMIT = 600.0
SECOND_KILL = 0.3
"""Share of the mending runs that are killed too."""
PRELOAD = ["chromadb", "lessons_loop.deploy.cli", "lessons_loop.promote.runs.command_runs"]

MakeStore = Callable[[Path], object]
Command = Callable[[Path], object]


@dataclass
class KillReport:
    """What the kills brought about."""

    kills: int = 0
    trials: int = 0
    seconds: float = 0.0
    """How long the quickest undisturbed run took."""
    differences: list[str] = field(default_factory=list)
    """One line per trial that ended otherwise than the calm run; empty is good."""


def lessons(words: Sequence[str], root: Path) -> None:
    """Run a `lessons` command on the folder, `--store` added; use `partial(lessons, words)`."""
    from lessons_loop.deploy.cli import run

    if code := run([*words, "--store", str(root)]):
        raise SystemExit(code)


def outcome_after_kills(
    make_store: MakeStore,
    command: Command,
    kills: int,
    seed: int,
    domain: str = "sql",
    folder: Path | None = None,
) -> KillReport:
    """Kill `command` `kills` times in all and report what differs from an undisturbed run.

    Raises LessonsError where the command fails by itself, or is stuck after a kill.
    """
    with tempfile.TemporaryDirectory(prefix="lessons-kills-", dir=folder) as scratch:
        fresh, calm = Path(scratch) / "fresh", Path(scratch) / "calm"
        make_store(fresh)
        shutil.copytree(fresh, calm)
        report = KillReport(seconds=_run_whole(command, calm))
        wanted = end_state(calm, domain)
        chance = random.Random(seed)
        while report.kills < kills and report.trials < 3 * kills:
            trial = Path(scratch) / "trial"
            shutil.copytree(fresh, trial)
            report.trials += 1
            began = time.monotonic()
            killed = _until_done(command, trial, report.seconds, chance)
            report.kills += killed
            if not killed:  # a calm run slow by chance would put most moments behind the end
                report.seconds = min(report.seconds, time.monotonic() - began)
            if found := differences(wanted, end_state(trial, domain)):
                report.differences.append(f"trial {report.trials}, {killed} kill(s): {found}")
            shutil.rmtree(trial)
    return report


def _until_done(command: Command, root: Path, seconds: float, chance: random.Random) -> int:
    """Run a command, killed at random moments, until it ends; return how often it was."""
    killed = 0
    while run_for(command, root, chance.uniform(0, seconds)):
        killed += 1
        if killed == MOST_KILLS or chance.random() > SECOND_KILL:
            if run_for(command, root, TIME_LIMIT):
                raise LessonsError(f"the command does not end within {TIME_LIMIT:.0f} s")
            break
    return killed


def _run_whole(command: Command, root: Path) -> float:
    run_for(str, root, TIME_LIMIT)  # starts the server outside the measured time
    began = time.monotonic()
    if run_for(command, root, TIME_LIMIT):
        raise LessonsError(f"the command does not end within {TIME_LIMIT:.0f} s")
    return time.monotonic() - began


def run_for(command: Command, root: Path, seconds: float) -> bool:
    """Run `command(root)` in a child; return whether it was still at work, and killed.

    Raises LessonsError with the child's last lines where it ended with an error.
    """
    told = root.with_name(f"{root.name}.out")
    child: ForkServerProcess = _context().Process(target=_muted, args=(command, root, told))
    child.start()
    child.join(seconds)
    killed = child.exitcode is None
    child.kill()
    child.join()
    if not killed and child.exitcode:
        lines = told.read_text("utf-8", "replace").splitlines()[-5:] if told.exists() else []
        raise LessonsError(f"the command ended with {child.exitcode}: {' / '.join(lines)[:600]}")
    return killed


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def _muted(command: Command, root: Path, told: Path) -> None:
    handle = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(handle, stream)
    command(root)
    sys.stdout.flush()


# --- what counts as the same


def end_state(root: Path, domain: str = "sql") -> dict[str, Any]:
    """Return ids, texts, states, counters and decisions of a store, without times.

    Opens the gate, which finishes an interrupted change; `problems` must be empty.
    """
    with open_gate(GateSettings(str(root), domain)) as session:
        return {
            "curated": {key: _plain(row, "since") for key, row in session.curated.items()},
            "archive": {id_: _archived(row) for id_, row in session.archive.items()},
            "vectors": _vectors(session),
            "uses": {use.id: use.model_dump() for use in session.uses.rows()},
            **_staged(session, domain),
            "decisions": [(e.n, e.action.value, e.key) for e in session.ledger.entries()],
            "problems": session.ledger.verify(),
            "published": _published(root, session),
        }


def differences(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    """Return what differs, named by its part and first ids; empty when nothing does."""
    lines = []
    for name, value in wanted.items():
        other = found[name]
        if value == other:
            continue
        if isinstance(value, dict):
            ids = [id_ for id_ in {**value, **other} if value.get(id_) != other.get(id_)]
            lines.append(f"{name}: {len(ids)} differ, such as {ids[0][:24]}")
        else:
            lines.append(f"{name}: {str(other)[:120]} instead of {str(value)[:120]}")
    return "; ".join(lines)


def _plain(row: Any, *left_out: str) -> dict[str, Any]:
    found: dict[str, Any] = row.model_dump(exclude=set(left_out))
    return found


def _archived(row: Archived) -> dict[str, Any]:
    return {
        "lesson": row.lesson.model_dump(),
        "ledger_ref": row.ledger_ref,
        "sightings": [seen.id for seen in row.all_sightings],
        "curated": _plain(row.curated, "since") if row.curated else None,
    }


def _vectors(session: GateSession) -> dict[str, list[float]]:
    keys, rows = session.nearest_vectors()
    return {key: np.round(row, 4).tolist() for key, row in zip(keys, rows, strict=True)}


def _staged(session: GateSession, domain: str) -> dict[str, list[str]]:
    names, found = collection_names(domain), {}
    with session.store.staging() as client:
        for kind in ("candidates", "events"):
            rows = find_collection(client, names[kind]) if client is not None else None
            ids = [id_ for page in read_rows(rows) for id_ in page.ids] if rows else []
            found[kind] = sorted(ids)
    return found


def _published(root: Path, session: GateSession) -> str:
    """Return "current" once recall reads what curated holds."""
    found = read_published(StorePaths(root).published(session.domain))
    return "current" if found and found.header.rev == session.holdings.header.rev else "behind"
