from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.errors import Paused
from lessons_loop.promote.runs.pause import (
    Pause,
    flag_of,
    lift_pause,
    read_pause,
    refuse_paused,
    set_pause,
)
from support.commands import run_here
from support.gate import candidate, flags, gate, on_folder, promotion, stage

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 2, 12, tzinfo=UTC)

FOUND = candidate()


def test_flag_says_who_when_and_why(tmp_path: Path) -> None:
    set_pause(tmp_path / "state", "alex", "store moves", NOON)
    found = flag_of(tmp_path / "state")
    assert found is not None
    assert found[1:] == ("alex", "2026-11-01T12:00:00Z", "store moves")
    assert "by alex since 2026-11-01T12:00:00Z (store moves): `lessons resume`" in found.told


def test_second_pause_keeps_the_first_note(tmp_path: Path) -> None:
    first = set_pause(tmp_path, "alex", "store moves", NOON)
    assert set_pause(tmp_path, "kim", "", LATER) == first == flag_of(tmp_path)
    assert set_pause(tmp_path, "kim", "an incident", LATER).by == "kim"


def test_resume_twice_is_no_error(tmp_path: Path) -> None:
    set_pause(tmp_path, "alex", "", NOON)
    assert lift_pause(tmp_path) is not None
    assert lift_pause(tmp_path) is None and flag_of(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None)
@given(content=st.one_of(st.binary(max_size=80), st.sampled_from([b"{}", b"[]", b'{"by": 3}'])))
def test_any_flag_file_pauses_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    state = tmp_path_factory.mktemp("flag")
    (state / "paused").write_bytes(content)
    with pytest.raises(Paused) as told:
        refuse_paused(state, {})
    assert str(told.value).isprintable()


@pytest.mark.parametrize("kind", ["folder", "link", "huge"])
def test_what_cannot_be_read_pauses(tmp_path: Path, kind: str) -> None:
    flag = tmp_path / "paused"
    if kind == "folder":
        flag.mkdir()
    elif kind == "link":
        flag.symlink_to(tmp_path / "nowhere")
    else:
        flag.write_bytes(b"[" * 2_000_000)
    assert read_pause(tmp_path, {}) is not None


@pytest.mark.parametrize("value", ["1", "yes", " On ", "until Monday"])
def test_variable_pauses(tmp_path: Path, value: str) -> None:
    found = read_pause(tmp_path, {"LESSONS_PAUSE": value})
    assert found == Pause("LESSONS_PAUSE") and found.why == "LESSONS_PAUSE"


@pytest.mark.parametrize("value", ["", "0", "false", "NO", "off"])
def test_variable_says_no(tmp_path: Path, value: str) -> None:
    assert read_pause(tmp_path, {"LESSONS_PAUSE": value}) is None


def test_secret_in_a_reason_is_masked(tmp_path: Path) -> None:
    set_pause(tmp_path, "alex", "key sk-obviouslyfake1234567890abcdef\nleaked", NOON)
    assert "obviouslyfake" not in (tmp_path / "paused").read_text()


def test_file_in_place_of_the_state_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        set_pause(tmp_path / "state", "alex", "", NOON)


# --- the commands


def test_pause_needs_no_store_folder(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert run_here("pause", "--state-dir", state, "--reason", "x").code == 0
    again = run_here("pause", "--state-dir", state)
    assert again.code == 0 and "paused already" in " ".join(again.out.split())
    assert run_here("resume", "--state-dir", state).out == "the gate goes on with its next run\n"
    assert run_here("resume", "--state-dir", state).out == "the gate was not paused\n"


def test_pause_needs_no_server(tmp_path: Path) -> None:
    store = f"http://127.0.0.1:{free_port()}"
    place = ["--store", store, "--state-dir", str(tmp_path / "state")]
    assert run_here("pause", *place).code == 0
    assert json.loads(run_here("resume", *place, "--json").out)["changed"] is True


def test_pause_of_a_misspelt_store_is_refused(tmp_path: Path) -> None:
    done = run_here("pause", "--store", str(tmp_path / "typo"))
    assert done.code == 1 and "check --store" in done.err
    assert not (tmp_path / "typo").exists()


def test_pause_without_a_place_is_usage() -> None:
    assert run_here("pause").code == 2


def test_resume_tells_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_PAUSE", "1")
    set_pause(tmp_path, "alex", "", NOON)
    done = run_here("resume", "--state-dir", str(tmp_path))
    assert done.code == 1 and "unset" in done.out and not os.listdir(tmp_path)


# --- what a pause means


def test_reading_goes_on_while_paused(root: Path) -> None:
    with gate(root):
        pass
    set_pause(root / "state", "alex", "", NOON)
    with gate(root, dry_run=True) as session:
        assert dict(session.curated) == {}
    with pytest.raises(Paused), gate(root):
        pass
    with gate(root, despite_pause=True):
        pass


@on_folder
@pytest.mark.parametrize("words", [["candidates"], ["verify"], ["status"], ["promote"]])
def test_reading_commands_work_while_paused(root: Path, words: list[str]) -> None:
    assert run_here("init", *flags(root), "--domain", "sql").code == 0
    set_pause(root / "state", "alex", "", NOON)
    done = run_here(*words, *flags(root))
    assert "paused" not in done.err


@on_folder
@pytest.mark.parametrize(
    "words",
    [["reject", FOUND.lesson.key], ["hold", FOUND.lesson.key], ["restore", "latest"]],
    ids=lambda words: words[0],
)
def test_undoing_goes_on_while_paused(root: Path, words: list[str]) -> None:
    stage(root, [FOUND])
    with gate(root) as session:
        session.apply(promotion(session, candidate("Bound telemetry_hours.", message="m2")))
    set_pause(root / "state", "alex", "", NOON)
    done = run_here(*words, "--reason", "an incident", *flags(root))
    assert done.code == 0, done.err


@on_folder
@pytest.mark.parametrize(
    "words", [["seed"], ["publish"], ["init"], ["promote", "abcdef", "--reason", "x"]]
)
def test_nothing_new_comes_in_while_paused(root: Path, words: list[str]) -> None:
    assert run_here("init", *flags(root), "--domain", "sql").code == 0
    set_pause(root / "state", "alex", "", NOON)
    done = run_here(*words, *flags(root))
    assert done.code == 1 and "`lessons resume`" in done.err
