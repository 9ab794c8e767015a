"""A third domain needs files only: no line of code knows its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.models import Candidate, Evidence, EvidenceKind
from lessons_loop.filter.recall import score, select
from lessons_loop.filter.recall_index import build_index
from lessons_loop.promote.embedding.minilm import MiniLM
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Decision
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from lessons_loop.seeds.import_command import read_drafts, write_drafts
from lessons_loop.seeds.load import load_domain, read_seeds
from support.gate import candidate, gate, shown, stage

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures" / "seeds"


@pytest.fixture(scope="module")
def embedder() -> MiniLM:
    return MiniLM()


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    """Return a folder of seeds, directives and an imported list."""
    folder = tmp_path / "weather"
    shutil.copytree(FIXTURES / "weather", folder)
    drafts = read_drafts(FIXTURES / "lists" / "weather-desk.md", "weather", folder)
    write_drafts(drafts, "weather-desk.md", force=False)
    return folder


def recalled(root: Path, embedder: MiniLM, question: str) -> list[str]:
    index = build_index([shown(root, "weather")])
    scores = score(index, [question], embedder.embed([question], Purpose.QUERY))
    chosen = select(index, scores, floor=index.floor, top_k=5, token_budget=512)
    best = index.lesson(int(np.argmax(scores))).seed_id
    return [best, *(row.seed_id for row in chosen)] if chosen else []


def seen(text: str, trigger: str, quote: str, users: int = 2) -> list[Candidate]:
    proof = Evidence(
        kind=EvidenceKind.TOOL_SUCCESS,
        quote=quote,
        excerpt=f"[2] call run_sql: {quote}\n[3] result run_sql: {quote}, 12 rows",
        tools=("run_sql",),
    )
    fields = {"domain": "weather", "trigger": trigger, "tags": (), "evidence": proof}
    return [
        candidate(text, message=f"{text}-{n}", user=f"u{n}", chat=f"{text}-{n}", **fields)
        for n in range(users)
    ]


def test_files_of_all_forms_are_one_domain(weather: Path) -> None:
    found = read_seeds(weather)
    assert {seed.file.partition("/")[2] for seed in found.seeds} == {
        "readings.yaml",
        "house-rules.guide.yaml",
        "weather-desk.yaml",
    }
    assert len(found.seeds) == 6


@pytest.mark.parametrize(
    ("question", "seed"),
    [
        ("How much did it rain at the airport yesterday?", "rain-in-mm"),
        ("Rainfall per day for the last week?", "local-days"),
        ("How deep was the snow this morning?", "snow-depth-read-snow-reading"),
        ("What was the average wind direction?", "average-wind-directions-plain"),
    ],
)
def test_loaded_files_are_recalled(
    root: Path, embedder: MiniLM, weather: Path, question: str, seed: str
) -> None:
    with gate(root, embedder, domain="weather") as session:
        assert load_domain(session, weather).added == 6
    assert seed in recalled(root, embedder, question)
    assert recalled(root, embedder, "Write a poem about love") == []


def test_gate_judges_by_the_loaded_files(root: Path, embedder: MiniLM, weather: Path) -> None:
    again = seen(
        "Read rainfall from rain_reading.amount.",
        "how much it rained at a station",
        "select amount from rain_reading",
    )
    against = seen(
        "Take gusts from wind_reading.mean_ms, never from wind_reading.gust_ms.",
        "strongest wind at a station",
        "select mean_ms from wind_reading",
    )
    new = seen(
        "Read air pressure from air_reading.hpa, reduced to sea level.",
        "air pressure at a station",
        "select hpa from air_reading",
    )
    with gate(root, embedder, domain="weather") as session:
        load_domain(session, weather)
    stage(root, [*again, *against, *new])
    with gate(root, embedder, domain="weather") as session:
        report = run_gate(session, RunOptions(Mode.AUTO, Rules()))
    assert decisions(report) == {
        again[0].lesson.text: Decision.DUPLICATE,
        against[0].lesson.text: Decision.HOLD,
        new[0].lesson.text: Decision.PROMOTE,
    }


def decisions(report: RunReport) -> dict[str, Decision]:
    return {one.case.group.lesson.text: one.verdict.decision for one in report.outcomes}


LIST_DOMAINS = """
from lessons_loop.seeds import load
found = {name: load.read_seeds(folder) for name, folder in load.shipped_domains().items()}
print(load.__file__)
for name, seeds in found.items():
    print(name, len(seeds.seeds), *sorted({seed.file for seed in seeds.seeds}))
"""


def test_wheel_ships_every_domain(tmp_path: Path) -> None:
    tree, wheels, site = (tmp_path / name for name in ("tree", "wheels", "site"))
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "tests")
    shutil.copytree(ROOT, tree, ignore=ignored)
    shutil.copytree(FIXTURES / "weather", tree / "seeds" / "weather")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "-w", wheels, tree], check=True, capture_output=True, timeout=200)
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    said = subprocess.run(
        [sys.executable, "-c", LIST_DOMAINS],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    ).stdout.splitlines()
    assert said[0].startswith(str(site))
    assert [line.split()[0] for line in said[1:]] == ["openwebui", "sql", "weather"]
    assert "openwebui/updates.guide.yaml" in said[1]
    assert said[3] == "weather 3 weather/house-rules.guide.yaml weather/readings.yaml"
