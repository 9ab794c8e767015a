"""The store and the demo database of a local run, made by children of their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lessons_loop.deploy.local.home import Home
from lessons_loop.deploy.local.sources import Embedding
from lessons_loop.deploy.processes import start, wait_for_exit
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.webui.server import ONE_THREAD

if TYPE_CHECKING:
    from lessons_loop.deploy.local.installation import Options

STORE_SECONDS = 240.0
TOOL_FILE = Path(__file__).resolve().parent.parent / "demo" / "sql_tool.py"
"""What asks the demo database, as an admin pastes it into Open WebUI."""


def gate_environment(
    environ: Mapping[str, str], home: Home, embedding: Embedding
) -> dict[str, str]:
    """Return the environment of a gate command on this installation."""
    own = {"LESSONS_STORE": str(home.store.root), "LESSONS_EMBEDDING": embedding.gate}
    offline = {"HF_HUB_OFFLINE": "1"} if embedding.offline else {}
    return {**ONE_THREAD, **environ, **own, **offline}


def prepare_store(
    options: Options,
    home: Home,
    embedding: Embedding,
    environ: Mapping[str, str],
    stages: Stages,
) -> None:
    """Initialise the store and load the seeds with `lessons init`; raise StartError.

    In a child, because the embedding model takes hundreds of megabytes this process
    would keep for as long as it runs.
    """
    command, seeds = init_command(options, embedding)
    done = f"store is initialised, {seeds}; embedding: {embedding.label}"
    with stages.stage("preparing the lesson store", done):
        env = gate_environment(environ, home, embedding)
        log = home.root / "store.log"
        log.unlink(missing_ok=True)
        child = start("lessons init", command, log, env, home.root, home.kept)
        wait_for_exit(child, STORE_SECONDS)


def init_command(options: Options, embedding: Embedding) -> tuple[list[str], str]:
    """Return the command that makes the store, and what it does about the seeds."""
    command = [sys.executable, "-m", "lessons_loop.deploy.cli", "init"]
    command += ["--domain", options.domains]
    if not options.seeds:
        return command, "without seeds"
    if not embedding.gate:  # the gate compares by embedding and lets nothing in without one
        return command, "without seeds (they need an embedding)"
    return [*command, "--seeds"], "seeds are loaded"


def prepare_database(home: Home, stages: Stages) -> None:
    """Build the demo database where there is none."""
    from lessons_loop.deploy.demo.data import build_database

    if home.database.exists():
        return
    with stages.stage("building the demo database", "demo database is built"):
        draft = home.database.with_suffix(".tmp")
        draft.unlink(missing_ok=True)
        build_database(draft)
        draft.rename(home.database)
