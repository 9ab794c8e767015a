"""`lessons eval demo` as a person runs it: a real Open WebUI, four arms, a verdict, a page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.trials import Arm, Trial
from lessons_loop.filter.inject import BLOCK_OPEN
from support.evaluating_runs import question_folder

LESSONS = [sys.executable, "-m", "lessons_loop.deploy.cli"]
OWN_MODELS = ("OPENAI_API_BASE_URL", "OPENAI_API_KEY")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, RunFolder, Path]:
    """Run it once, on four questions; return what it printed and where the run is."""
    place = tmp_path_factory.mktemp("demo")
    questions = question_folder(place)
    words = ["eval", "demo", "--questions", str(questions), "--out", str(place / "run")]
    words += ["--runs", "2", "--workers", "2", "--error-rate", "0", "--no-open"]
    env = {name: value for name, value in os.environ.items() if name not in OWN_MODELS}
    env |= {"COLUMNS": "80", "TMPDIR": str(place)}
    finished = subprocess.run(
        [*LESSONS, *words], env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, RunFolder(place / "run"), place


def of_arm(folder: RunFolder, arm: Arm) -> list[Trial]:
    return [trial for trial in folder.trials() if trial.arm is arm and not trial.control]


def test_verdict_and_page_are_told(done: tuple[str, RunFolder, Path]) -> None:
    said, folder, _ = done
    assert f"page: {folder.report_html}" in said and folder.report_html.is_file()
    assert "off-again" in said and "placebo" in said
    assert "A script stood in for the model" in said


def test_each_arm_got_what_it_should(done: tuple[str, RunFolder, Path]) -> None:
    _, folder, _ = done
    _, keys = folder.kept_lessons()
    expected = {name: tuple(key[:8] for key in found) for name, found in keys.items()}
    assert sum(map(bool, expected.values())) >= 2
    for trial in of_arm(folder, Arm.ON):  # what the harness recalls, the plugin recalls
        assert trial.answer.recalled == expected.get(trial.question, ())
    assert not any(
        trial.answer.recalled for arm in (Arm.OFF, Arm.OFF_AGAIN) for trial in of_arm(folder, arm)
    )
    placebo = {name for trial in of_arm(folder, Arm.PLACEBO) for name in trial.answer.recalled}
    assert placebo and not placebo & {name for found in expected.values() for name in found}
    assert not [trial for trial in folder.trials() if trial.answer.outage]


def test_exchanges_are_recorded_with_their_block(done: tuple[str, RunFolder, Path]) -> None:
    _, folder, _ = done
    lines = (folder.path / "openwebui.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert len(found) == 4 * 4 * 2
    carried = {line["arm"] for line in found if BLOCK_OPEN in json.dumps(line["told"])}
    assert carried == {"on", "placebo"}


def test_all_but_the_run_is_gone(done: tuple[str, RunFolder, Path]) -> None:
    _, _, place = done
    assert not list(place.glob("lessons-eval-*"))


def test_record_replays_to_the_same_grades(done: tuple[str, RunFolder, Path]) -> None:
    _, folder, place = done
    words = ["eval", "run", "--replay", str(folder.path), "--out", str(place / "again"), "--json"]
    finished = subprocess.run(
        [*LESSONS, *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stderr
    again = RunFolder(place / "again").trials()
    known = {(one.question, one.arm, one.run): one.grade for one in folder.trials()}
    assert {(one.question, one.arm, one.run): one.grade for one in again} == known
