"""What a worker or a gate needs, measured in a process of its own so that memory is its own.

    python -m lessons_loop.deploy.bench.scale_child worker|gate|fold STORE STATE

A worker says `{"ready": …}` once it is loaded, waits for a line, and reads what changed.
Not covered: Open WebUI itself (about 800 MB a worker), and a real embedding model.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lessons_loop.deploy.bench.gate import TimedEmbedder
from lessons_loop.deploy.bench.lessons import DOMAIN, Maker, WordEmbedder
from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.question import Question, views
from lessons_loop.filter.reader import CuratedReader
from lessons_loop.filter.recall import judge, select
from lessons_loop.filter.recall_index import RecallIndex
from lessons_loop.filter.server import is_server, parse_server
from lessons_loop.filter.server_shelf import CuratedServer
from lessons_loop.filter.shelves import PublishedFolder, ShelfSource
from lessons_loop.filter.store import StorePaths, import_chromadb
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import GateSettings, open_gate

LOOKS = 20
QUESTIONS = 60
TOP_K, TOKENS = 5, 512


def resident() -> float:
    """Return this process' memory now, in MB."""
    gc.collect()
    return resident_of("self")


def resident_of(process: int | str) -> float:
    """Return a process' memory now, in MB."""
    return _told_by(process, "VmRSS")


def cpu_of(process: int) -> float:
    """Return the seconds of CPU a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def peak() -> float:
    """Return the most memory this process ever had, in MB."""
    return _told_by("self", "VmHWM")  # `ru_maxrss` begins with what the parent had at the fork


def _told_by(process: int | str, field: str) -> float:
    status = Path(f"/proc/{process}/status").read_text("ascii")
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


def worker(store: str) -> None:
    """Load, look again, recall, and read a change."""
    import_chromadb()  # Open WebUI has it loaded anyway
    reader = CuratedReader(source_of(store), (DOMAIN,), Alerts())
    before = resident()
    found: dict[str, object] = {"load": seconds_of(reader.refresh), "memory": resident() - before}
    found["looks"] = [seconds_of(reader.refresh) for _ in range(LOOKS)]
    assert reader.loaded is not None
    found["recall"] = recall_seconds(reader.loaded.recall)
    tell({"ready": len(reader.loaded.recall.keys)})
    sys.stdin.readline()
    found["changed"] = seconds_of(reader.refresh)
    tell(found | {"peak": peak() - before})
    reader.close()


def source_of(store: str) -> ShelfSource:
    """Return where recall reads a store."""
    if is_server(store):
        return CuratedServer(parse_server(store))
    return PublishedFolder(StorePaths(Path(store)))


def recall_seconds(index: RecallIndex, count: int = QUESTIONS) -> list[float]:
    """Return seconds per question that is near some lesson: scores and choice, no embedding."""
    maker, embedder, seconds = Maker(7), WordEmbedder(), []
    for _ in range(min(count, len(index.keys))):
        asked = views(Question(f"What about {maker.words().lesson().trigger}?"))
        vectors = embedder.embed(asked.texts, Purpose.QUERY)
        began = time.perf_counter()
        scores, _ = judge(index, asked.texts, vectors, asked.follow_up)
        select(index, scores, floor=index.floor, top_k=TOP_K, token_budget=TOKENS, shown=())
        seconds.append(time.perf_counter() - began)
    return seconds


def gate(store: str, state: Path) -> None:
    """Judge everything that is staged, as `promote --auto` does."""
    embedder = TimedEmbedder()
    began = time.perf_counter()
    with open_gate(GateSettings(store, DOMAIN, state=state, embedder=embedder)) as session:
        opened = time.perf_counter()
        session.prepare()
        prepared = time.perf_counter()
        report = run_gate(session, RunOptions(Mode.AUTO))
        judged = time.perf_counter()
    ended = time.perf_counter()
    tell(
        {
            "opening": opened - began + ended - judged,
            "snapshot": prepared - opened,
            "judging": judged - prepared - embedder.seconds,
            "candidates": report.candidates,
            "peak": peak(),
        }
    )


def fold(store: str, state: Path) -> None:
    """Fold the events that are staged; say what a snapshot costs before and after it."""
    with open_gate(GateSettings(store, DOMAIN, state=state, embedder=WordEmbedder())) as session:
        before = seconds_of(session.prepare)
        began = time.perf_counter()
        found = fold_events(session)
        folding = time.perf_counter() - began
    tell({"snapshot": before, "folding": folding, "events": found.events, "peak": peak()})


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long the work took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def tell(found: object) -> None:
    """Print one line of JSON at once."""
    print(json.dumps(found, default=float), flush=True)


def main() -> None:
    """Measure what the command line names."""
    what, store, state = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if what == "worker":
        worker(store)
    elif what == "gate":
        gate(store, state)
    else:
        fold(store, state)


if __name__ == "__main__":
    main()
