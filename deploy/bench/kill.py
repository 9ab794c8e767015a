"""Kill -9 at many random moments of run, fold, restore and reembed: what differs afterwards.

    python -m lessons_loop.deploy.bench.kill [--kills 100] [--only KIND]

Each trial is a copy of one small store; the command is killed, run again until it ends, and
ids, texts, states, counters and the ledger are compared with an undisturbed run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from lessons_loop.deploy.bench.figures import Figure, single
from lessons_loop.deploy.bench.gate import put_curated, stage_all
from lessons_loop.deploy.bench.killing import KillReport, outcome_after_kills
from lessons_loop.deploy.bench.lessons import DOMAIN, Maker, WordEmbedder
from lessons_loop.filter.embed import Purpose, Vectors
from lessons_loop.filter.events import Usage
from lessons_loop.filter.store import StorePaths, append_records, collection_names, staging_session
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.records import Actor
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.snapshot.kept import list_snapshots, read_snapshot
from lessons_loop.promote.snapshot.restore import Wanted, restore
from lessons_loop.promote.store.rebuild import re_embed

KILLS = 100
CURATED, CANDIDATES, EVENTS = 40, 60, 120
SEED = 7


class OtherEmbedder(WordEmbedder):
    """Another model: the first half of each vector."""

    name = "bench-half"

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows of half the length."""
        rows = super().embed(texts, purpose)
        half: Vectors = rows[:, : rows.shape[1] // 2]
        return half / (half**2).sum(axis=1, keepdims=True) ** 0.5  # type: ignore[no-any-return]


def make_store(root: Path) -> None:
    """Make a store on which every kind of run has something to do."""
    maker = Maker(SEED)
    words = [maker.words() for _ in range(CURATED)]
    seen = list(maker.candidates(2 * CANDIDATES, words))
    with open_gate(_settings(root)) as session:
        put_curated(session, words)
        keys = tuple(session.curated)
    stage_all(root, seen[:CANDIDATES])
    run(root)
    stage_all(root, seen[CANDIDATES:])
    used = [
        Usage(keys=(keys[n % CURATED],), message_ref=f"m{n}", at="2026-11-02T08:00:00Z")
        for n in range(EVENTS)
    ]
    with staging_session(StorePaths(root)) as client:
        name = collection_names(DOMAIN)["events"]
        append_records(client, name, [one.to_record() for one in used])


def run(root: Path) -> None:
    """Run `--auto`."""
    with open_gate(_settings(root)) as session:
        run_gate(session, RunOptions(Mode.AUTO))


def fold(root: Path) -> None:
    """Fold the events."""
    with open_gate(_settings(root)) as session:
        fold_events(session)


def back(root: Path) -> None:
    """Restore the oldest snapshot."""
    with open_gate(_settings(root)) as session:
        taken = list_snapshots(session.state, DOMAIN)
        wanted = Wanted(taken[1], read_snapshot(taken[1]), taken)
        restore(session, wanted, Actor(kind="human", name="bench"))


def embed_again(root: Path) -> None:
    """Embed all lessons by another model, once."""
    settings = GateSettings(str(root), DOMAIN, embedder=OtherEmbedder())
    with open_gate(settings, re_embedding=True) as session:
        if session.holdings.header.generation == 0:
            re_embed(session)


KINDS = {"run": run, "fold": fold, "restore": back, "reembed": embed_again}


def _settings(root: Path) -> GateSettings:
    return GateSettings(str(root), DOMAIN, embedder=WordEmbedder())


def kills_of(kind: str, kills: int = KILLS) -> KillReport:
    """Kill one kind of run so many times."""
    return outcome_after_kills(make_store, KINDS[kind], kills, SEED, DOMAIN)


def kill_figures(kills: int = KILLS) -> list[Figure]:
    """Return how many trials of each kind ended otherwise than an undisturbed run."""
    figures = []
    for kind in KINDS:
        found = kills_of(kind, kills)
        other = float(len(found.differences))
        name = f"{kind}: ends that differ after {found.kills} kills"
        figures.append(single(name, other, "none", "", found.trials))
    return figures


def main() -> None:
    """Kill, and tell what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="how many per kind")
    parser.add_argument("--only", choices=[*KINDS], help="one kind")
    args = parser.parse_args()
    for kind in [args.only] if args.only else KINDS:
        began = time.monotonic()
        found = kills_of(kind, args.kills)
        spent = time.monotonic() - began
        told = "; ".join(found.differences) or "none differs"
        print(f"{kind}: {found.kills} kills in {found.trials} trials, {told} ({spent:.0f} s)")


if __name__ == "__main__":
    main()
