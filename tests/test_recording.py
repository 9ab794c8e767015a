"""Run lines, pause and preview as the command `promote` makes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lessons_loop.deploy.processes import free_port
from lessons_loop.promote.ledger.chain import Ledger
from lessons_loop.promote.runs.preview import read_confirmation
from lessons_loop.promote.runs.register import RunLine, last_waiting, read_runs
from support.commands import Done, run_here
from support.gate import candidate, flags, gate, located, on_folder, promotion, stage
from support.judging import SOUND
from support.webhook import Webhook

OLD = "2026-10-01T08:00:00Z"


@pytest.fixture
def waiting(root: Path, embedding: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one lesson two users showed, and one that breaks a rule."""
    monkeypatch.setenv("LESSONS_EMBEDDING", embedding)
    assert run_here("init", *flags(root), "--domain", "sql").code == 0
    seen = [candidate(SOUND, message=c, user=c, chat=c, at=OLD) for c in ("1", "2")]
    stage(root, [*seen, candidate("The pool is 40.", message="3")])
    return root


def promote(root: Path, *words: str) -> Done:
    return run_here("promote", *words, *flags(root))


def runs(root: Path) -> list[RunLine]:
    return list(read_runs(root / "state"))


def ledger(root: Path) -> int:
    return len(Ledger(root / "state").entries())


def test_first_unattended_runs_are_previews(waiting: Path) -> None:
    before = ledger(waiting)
    for _ in range(2):
        done = promote(waiting, "--unattended", "--auto")
        assert done.code == 0 and "would promote" in done.out and "`lessons confirm`" in done.out
    assert ledger(waiting) == before
    assert {line.store for line in runs(waiting)} == {located(waiting).title}
    assert [(line.preview, line.outcomes.promoted, line.waiting) for line in runs(waiting)] == [
        (True, 1, 2)
    ] * 2


def test_confirm_lets_the_next_run_write(waiting: Path) -> None:
    promote(waiting, "--unattended", "--auto")
    confirmed = run_here("confirm", *flags(waiting))
    assert candidate(SOUND).lesson.key[:12] in confirmed.out
    first = read_confirmation(waiting / "state")
    assert "confirmed already" in run_here("confirm", *flags(waiting)).out
    assert read_confirmation(waiting / "state") == first
    assert "promoted 1" in promote(waiting, "--unattended", "--auto").out
    line = runs(waiting)[-1]
    assert not line.preview and line.promoted == (candidate(SOUND).lesson.key,)
    assert line.snapshot and line.curated == 1 and line.reasons["promote"] and line.run


def test_attended_runs_need_no_confirmation(waiting: Path) -> None:
    assert "promoted 1" in promote(waiting, "--auto").out
    assert runs(waiting)[0].actor == "auto" and not runs(waiting)[0].preview


@pytest.mark.parametrize("words", [["--dry-run", "--auto"], [], ["--dry-run", "--unattended"]])
def test_runs_that_write_nothing_leave_no_line(waiting: Path, words: list[str]) -> None:
    assert promote(waiting, *words).code == 0
    assert runs(waiting) == []


def test_paused_run_exits_zero_and_leaves_a_line(waiting: Path) -> None:
    before = ledger(waiting)
    run_here("pause", "--reason", "store moves", *flags(waiting))
    done = promote(waiting, "--unattended", "--auto")
    assert done.code == 0 and done.out.count("\n") == 1 and "store moves" in done.out
    line = runs(waiting)[0]
    assert (line.paused, line.preview) == ("store moves", False) and ledger(waiting) == before
    run_here("resume", *flags(waiting))
    assert "promoted 1" in promote(waiting, "--auto").out


def test_pause_variable_leaves_a_line(waiting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_PAUSE", "1")
    done = promote(waiting, "--unattended", "--json")
    assert done.code == 0 and "LESSONS_PAUSE" in json.loads(done.out)["paused"]
    assert runs(waiting)[0].paused == "LESSONS_PAUSE"


def test_paused_run_needs_no_server(tmp_path: Path) -> None:
    place = ["--store", f"http://127.0.0.1:{free_port()}", "--state-dir", str(tmp_path)]
    run_here("pause", *place)
    assert run_here("promote", "--unattended", *place).code == 0
    assert read_runs(tmp_path)[0].paused == "no reason given"


def test_failed_run_leaves_its_error(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = run_here("promote", "--auto", "--store", url, "--state-dir", str(tmp_path))
    line = read_runs(tmp_path)[0]
    assert done.code == 1 and line.error and line.waiting is None


def test_failed_run_is_counted_by_its_ledger_lines(root: Path) -> None:
    from lessons_loop.promote.runs.recording import Recorder, recorded

    found = candidate()
    with gate(root):
        pass
    recorder = Recorder(root / "state", "store", "sql", "auto", "auto")
    with pytest.raises(KeyboardInterrupt), recorded(recorder, print), gate(root) as session:
        recorder.opened(session)
        session.apply(promotion(session, found))
        raise KeyboardInterrupt
    line = runs(root)[0]
    assert (line.error, line.promoted) == ("interrupted", (found.lesson.key,))


def test_waiting_is_counted_with_the_oldest(waiting: Path) -> None:
    stage(waiting, [candidate("Bound telemetry_hours by day_key.", message="m9", at=OLD)])
    assert promote(waiting, "--auto").code == 3
    assert last_waiting(waiting / "state", "sql") == (1, OLD)


def test_run_is_posted_and_a_failure_is_a_warning(waiting: Path) -> None:
    with Webhook() as hook:
        assert promote(waiting, "--unattended", "--notify-url", hook.url).code == 0
    assert hook.posts[0]["preview"] is True and SOUND not in json.dumps(hook.posts)
    done = promote(waiting, "--auto", "--notify-url", "http://hooks.invalid/obviously-fake")
    assert done.code == 0 and "the run was not posted" in done.err
    assert "obviously-fake" not in done.err


@on_folder
def test_register_that_cannot_be_written_fails_no_run(waiting: Path) -> None:
    (waiting / "state" / "runs.jsonl").mkdir()
    done = promote(waiting, "--auto")
    assert done.code == 0 and "not in the run register" in done.err
    assert "promoted 1" in done.out


@on_folder
@pytest.mark.parametrize("text", ["", "{}", "[]", "\x00"])
def test_unreadable_confirmation_confirms_nothing(waiting: Path, text: str) -> None:
    (waiting / "state" / "confirmed.json").write_text(text)
    assert "would promote" in promote(waiting, "--unattended", "--auto").out
