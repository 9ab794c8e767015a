"""The folder of a run: what it refuses, what it keeps."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.eval.runs.folder import OtherRun, RunFolder
from lessons_loop.eval.trials import Answer, Arm, Trial

SETTINGS = {
    "questions": {"digest": "a" * 64, "folder": "one"},
    "arms": ["off", "on"],
    "runs": 3,
    "seed": 7,
    "agent": {"model": "m-1", "url": "http://127.0.0.1:1/v1"},
    "lessons": {"digest": "b" * 64, "rev": 3},
    "judge": "",
}


def begun(path: Path) -> RunFolder:
    folder = RunFolder(path)
    with folder.held():
        assert folder.begin(SETTINGS)
    return folder


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("questions", {"digest": "c" * 64}, "questions.digest a+, not c+"),
        ("agent", {"model": "m-2"}, "agent.model m-1, not m-2"),
        ("lessons", {"digest": "c" * 64}, "lessons.digest"),
        ("lessons", None, "lessons "),
        ("arms", ["off"], "arms"),
        ("runs", 5, "runs 3, not 5"),
        ("seed", 8, "seed 7, not 8"),
        ("judge", "manual", "judge none, not manual"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, part: str, value: object, told: str) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(OtherRun, match=f"was begun with {told}"):
        folder.begin({**SETTINGS, part: value})


def test_moved_places_are_the_same_run(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    agent = {"model": "m-1", "url": "http://127.0.0.1:2/v1"}
    questions = {"digest": "a" * 64, "folder": "two"}
    lessons = {"digest": "b" * 64, "rev": 4}  # a thumb makes a new rev, not another set
    moved = {"agent": agent, "questions": questions, "lessons": lessons, "begun": "later"}
    assert folder.begin({**SETTINGS, **moved}) is False
    assert folder.settings() == SETTINGS


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OtherRun, match="holds files and no run"):
        RunFolder(tmp_path).begin(SETTINGS)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("content", [None, "", "[1]", "\x00"])
def test_folder_without_settings_is_no_run(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(OtherRun, match=r"no run\.json|cannot be read"):
        RunFolder(tmp_path).settings()


def test_files_are_the_owners(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.append(trial())
    folder.keep_lessons([], {"q": []})
    files = (folder.settings_file, folder.trials_file, folder.lessons_file)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def trial(text: str = "42", run: int = 1) -> Trial:
    return Trial(question="q", topic="t", arm=Arm.OFF, run=run, answer=Answer(text=text))


def test_last_word_on_a_trial_counts(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    for text in ("one", "two"):
        folder.append(trial(text))
    assert [one.answer.text for one in folder.trials()] == ["two"]


@settings(max_examples=40, deadline=None)
@given(
    cut=st.integers(0, 2_000), text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
)
def test_any_cut_loses_whole_trials_only(
    tmp_path_factory: pytest.TempPathFactory, cut: int, text: str
) -> None:
    folder = begun(tmp_path_factory.mktemp("runs") / "run")
    for run in (1, 2, 3):
        folder.append(trial(text, run))
    content = folder.trials_file.read_bytes()
    folder.trials_file.write_bytes(content[: min(cut, len(content))])
    found = folder.trials()
    assert [one.run for one in found] == list(range(1, len(found) + 1))
    folder.drop_torn_line()
    folder.append(trial("after", 9))
    assert [one.run for one in folder.trials()] == [*(one.run for one in found), 9]
