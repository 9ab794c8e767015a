"""What `lessons doctor` says about a store folder and about what `lessons status` reads in it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lessons_loop.deploy.doctor.findings import Finding, Level
from lessons_loop.deploy.status.facts import HANGS
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.server import is_server, parse_server
from lessons_loop.filter.spool import SPOOL_LIMIT
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.counting import many
from lessons_loop.promote.store.lock import holder, is_held

STATUS_SECONDS = 60.0
STATUS = """
import faulthandler, sys
faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
from lessons_loop.deploy.cli import run
sys.exit(run(sys.argv[2:]))
"""
"""Ends itself too: a doctor that was killed leaves nothing behind that hangs in an index."""
RUN_DAYS = 8
"""The gate runs weekly: a day over is late."""
SPOOL_HOURS = 1
BACKUP = "restore the state directory from a backup"
_COMMAND = re.compile(r"`(lessons [^`]+)`")


@dataclass(frozen=True)
class FolderFacts:
    """What a look at the files tells, without opening the store."""

    too_open: tuple[str, ...] = ()
    """Paths that others may read."""
    unwritable: bool = False
    held: tuple[str, ...] = ()
    """Locks somebody holds, with the holder."""
    markers: tuple[str, ...] = ()
    """Crash markers of sessions that are over."""
    salt: bool = True
    oldest_spooled: float = 0.0
    """Hours the oldest spooled record waits."""


def look_at_folder(paths: StorePaths, state: Path, now: float | None = None) -> FolderFacts:
    """Look at locks, markers and permissions; raise StoreError, OSError."""
    import os

    locks = {"staging": paths.staging_lock, "gate": paths.gate_lock}
    markers = {"staging": paths.staging_marker, "gate": paths.root / "gate.open"}
    held = {name: holder(file) for name, file in locks.items() if is_held(file)}
    private = [paths.gate, paths.staging, paths.spool, state, paths.salt]
    waiting = list(paths.spool.glob("*.json")) if paths.spool.is_dir() else []
    since = min((file.stat().st_mtime for file in waiting), default=0.0)
    return FolderFacts(
        tuple(str(place) for place in private if place.exists() and place.stat().st_mode & 0o077),
        not os.access(paths.root, os.W_OK),
        tuple(f"{name}.lock is held by {who}" for name, who in held.items()),
        tuple(name for name, file in markers.items() if file.exists() and name not in held),
        paths.salt.is_file(),
        ((now or time.time()) - since) / 3600 if waiting else 0.0,
    )


def folder_findings(paths: StorePaths, facts: FolderFacts) -> list[Finding]:
    """Say what the files tell."""
    found = [
        Finding(
            "permissions",
            Level.WARNING,
            f"{place} can be read by others",
            f"chmod {'600' if place == str(paths.salt) else '700'} {shlex.quote(place)}",
        )
        for place in facts.too_open
    ]
    if facts.unwritable:
        found.append(Finding("permissions", Level.WARNING, f"{paths.root} cannot be written here"))
    if not found:
        found = [Finding("permissions", Level.OK, "private parts are the owner's alone")]
    locks = "; ".join(facts.held) or "free"
    found.append(Finding("locks", Level.WARNING if facts.held else Level.OK, locks))
    for name in facts.markers:
        text = f"a crash inside a session left {name}.open"
        remedy = f"lessons repair --store {shlex.quote(str(paths.root))}"
        found.append(Finding("crash marker", Level.PROBLEM, text, remedy))
    if not facts.markers:
        found.append(Finding("crash marker", Level.OK, "none"))
    return found


def read_status_child(
    store: str, state: Path | None, domains: Sequence[str], seconds: float = STATUS_SECONDS
) -> dict[str, Any]:
    """Return what `lessons status --json` says; raise LessonsError.

    In a child: a torn index kills the process that reads it, and Chroma may wait for ever.
    """
    if is_server(store):
        store = parse_server(store).url  # every user of the machine sees a child's words
    command = [sys.executable, "-P", "-c", STATUS, str(seconds + 1)]  # no code of this folder
    command += ["status", "--check", "--json"]
    command += ["--store", store, "--domain", ",".join(domains)]
    command += ["--state-dir", str(state)] if state else []
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LessonsError(f"reading the store took longer than {seconds:.0f} s") from None
    try:
        return dict(json.loads(done.stdout))
    except (ValueError, TypeError):
        last = done.stderr.strip().splitlines()[-1:]
        reason = last[0].removeprefix("lessons: ") if last else f"ended with {done.returncode}"
        raise LessonsError(reason) from None


def status_findings(status: Mapping[str, Any], now: datetime | None = None) -> list[Finding]:
    """Say what a store holds and what is wrong with it."""
    problems = [problem_finding(str(text), status) for text in status["problems"]]
    problems = [one for one in problems if one.check != "salt"]  # `salt_finding` says it
    bad = {finding.check for finding in problems}
    found = [domain_finding(domain) for domain in status["domains"] if domain["domain"] not in bad]
    if not status["domains"] and not problems:
        remedy = f"lessons init --store {shlex.quote(str(status['store']))}"
        found.append(Finding("lessons", Level.PROBLEM, "the store has no domain", remedy))
    if status["ledger_verified"] and "ledger" not in bad:
        lines = many(status["ledger_lines"], "line")
        found.append(Finding("ledger", Level.OK, f"verified, {lines}"))
    elif status["ledger_lines"] is None:
        found.append(Finding("ledger", Level.NOT_CHECKED, "could not be read"))
    found.append(run_finding(str(status["last_run"]), now or datetime.now(UTC)))
    return found + problems


def problem_finding(text: str, status: Mapping[str, Any]) -> Finding:
    """Return a problem of `lessons status` with the command it names as the remedy."""
    names = {str(domain["domain"]) for domain in status["domains"]} | {"ledger"}
    label, colon, rest = text.partition(": ")
    check, said = (label, rest) if colon and label in names else ("store", text)
    if " salt " in f" {said} ".replace("/", " "):
        check = "salt"
    command = _COMMAND.search(said)
    if command and said.endswith(f": run {command.group()}"):
        said = said.removesuffix(f": run {command.group()}")
    # a gate at work is no fault, though it keeps others from reading
    level = Level.WARNING if " is held by " in said else Level.PROBLEM
    remedy = BACKUP if check == "ledger" else ""
    return Finding(check, level, said, command[1] if command else remedy)


def domain_finding(domain: Mapping[str, Any]) -> Finding:
    """Say what one domain holds."""
    text = (
        f"{domain['curated']} curated, all published;"
        f" {many(domain['candidates'], 'candidate')}, {domain['held']} held"
    )
    if domain["unreadable"]:
        text += f", {domain['unreadable']} unreadable rows in staging"
        return Finding(str(domain["domain"]), Level.WARNING, text)
    return Finding(str(domain["domain"]), Level.OK, text)


def run_finding(last_run: str, now: datetime) -> Finding:
    """Say when the gate ran last."""
    remedy = "lessons promote --review human"
    at = last_run.split(" ")[0]
    try:
        age = now - datetime.fromisoformat(at)
    except ValueError:
        return Finding("last run", Level.WARNING, "none yet", remedy)
    told = f"{at}, {age.days} days ago" if age.days else f"{at}, today"
    late = age.days >= RUN_DAYS
    return Finding("last run", Level.WARNING if late else Level.OK, told, remedy if late else "")


def spool_finding(status: Mapping[str, Any], hours: float, store: str) -> Finding:
    """Say what waits for staging."""
    count, bad = int(status["spool"]), int(status["spool_bad"])
    remedy = f"lessons repair --store {shlex.quote(store)}"
    if count >= SPOOL_LIMIT:
        return Finding("spool", Level.PROBLEM, f"full: {count} records wait", remedy)
    if count and hours >= SPOOL_HOURS:
        why = HANGS if status.get("spool_held") else "is Open WebUI running?"
        text = f"{count} records wait, the oldest for {hours:.0f} h: {why}"
        return Finding("spool", Level.WARNING, text, remedy)
    if bad:
        text = f"{count} records wait; {bad} unreadable files are kept in spool/bad"
        return Finding("spool", Level.WARNING, text)
    return Finding("spool", Level.OK, f"{many(count, 'record')} waiting for staging")


def salt_finding(there: bool, path: Path, environ: Mapping[str, str]) -> Finding:
    """Say whether people can be counted without being named."""
    if environ.get("LESSONS_SALT", "").strip():
        return Finding("salt", Level.OK, "LESSONS_SALT is set")
    if there:
        return Finding("salt", Level.OK, "there")
    text = f"{path} is missing; with a new one people counted before count again"
    remedy = "restore it, or run `lessons init` with the same --store and --domain"
    return Finding("salt", Level.PROBLEM, text, remedy)
