from __future__ import annotations

import json
import os
import plistlib
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.deploy.schedule.files import Place, find_place
from lessons_loop.deploy.schedule.timer import (
    PASSED_ON,
    Job,
    environment_file,
    launch_agent,
    parse_when,
    service_unit,
    timer_unit,
)
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.commands import promote
from support.commands import Done, run_here

COMMAND = (sys.executable, "-m", "lessons_loop.deploy.cli", "promote", "--unattended")
FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in *show*) echo ActiveState=active; echo "NextElapseUSecRealtime=Sun 03:00";; esac
exit ${CODE:-0}
"""
KEY = "obviously-fake-key"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a systemctl of this test's own: the real user's units stay as they are."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("systemctl", "launchctl"):
        (tools / name).write_text(FAKE)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LESSONS_STORE", str(tmp_path / "lessons"))
    return tmp_path


def calls(host: Path) -> list[str]:
    note = host / "calls"
    return note.read_text().splitlines() if note.exists() else []


def schedule(*words: str) -> Done:
    return run_here("schedule", *words)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("at", "tz", "calendar"),
    [
        ("Sun 03:00", "", "Sun *-*-* 03:00:00"),
        ("03:05", "Europe/Berlin", "*-*-* 03:05:00 Europe/Berlin"),
        (" monday 7:30 ", "UTC", "Mon *-*-* 07:30:00 UTC"),
    ],
)
def test_times_become_calendars(at: str, tz: str, calendar: str) -> None:
    when = parse_when(at, tz)
    assert when.calendar == calendar
    done = subprocess.run(
        ["systemd-analyze", "calendar", calendar], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("at", ["", "24:00", "3", "Someday 03:00", "03:60", "Sun", "03:00\nX=1"])
def test_other_times_are_refused(at: str) -> None:
    with pytest.raises(LessonsError, match="is no time"):
        parse_when(at, "")


@pytest.mark.parametrize("tz", ["Mars/Olympus", "../etc/passwd", "/etc/localtime", "x\x00", "a b"])
def test_other_zones_are_refused(tz: str) -> None:
    with pytest.raises(LessonsError, match="is no time zone"):
        parse_when("03:00", tz)


def job(*options: str, **environment: str) -> Job:
    return Job(parse_when("Sun 03:00", ""), ((*COMMAND, *options),), Path("/s"), environment)


@pytest.mark.parametrize("odd", ["plain", "a b", 'quo"te', "per%cent", "dol$lar", "back\\slash"])
def test_systemd_takes_the_units(tmp_path: Path, odd: str) -> None:
    private = tmp_path / "gate.env"
    private.write_text(environment_file({"LESSONS_STORE": odd}))
    (tmp_path / "lessons-gate.service").write_text(service_unit(job("--reason", odd), private))
    (tmp_path / "lessons-gate.timer").write_text(timer_unit(job()))
    units = [str(path) for path in tmp_path.glob("lessons-gate.*")]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )
    assert [line for line in done.stderr.splitlines() if "lessons-gate" in line] == []


@settings(max_examples=40, deadline=None)
@given(
    value=st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
)
def test_any_setting_reaches_the_run(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    private = tmp_path_factory.mktemp("env") / "gate.env"
    private.write_text(environment_file({"LESSONS_SALT": value}))
    script = f"set -a; . {private}; set +a; printenv LESSONS_SALT"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == value + "\n"


def test_setting_with_a_line_break_is_refused() -> None:
    with pytest.raises(LessonsError, match="control character"):
        environment_file({"LESSONS_SALT": "a\nLD_PRELOAD=x"})


def test_launch_agent_reads_back(tmp_path: Path) -> None:
    agent = plistlib.loads(launch_agent(job("--auto"), tmp_path / "gate env"))
    assert agent["StartCalendarInterval"] == {"Hour": 3, "Minute": 0, "Weekday": 0}
    assert agent["ProgramArguments"][2].endswith("promote --unattended --auto")


def test_places_of_the_systems(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert find_place(False, home, "linux").units == tmp_path / ".config/systemd/user"
    assert find_place(True, home, "linux").units == Path("/etc/systemd/system")
    mac = find_place(False, home, "darwin")
    assert mac.launchd and mac.units == tmp_path / "Library/LaunchAgents"
    with pytest.raises(LessonsError, match="no timer for win32"):
        find_place(False, home, "win32")


# --- the commands


def test_install_writes_starts_and_shows(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_LLM_API_KEY", KEY)
    done = schedule("install", "--tz", "Europe/Berlin", "--yes", "--", "--auto", "--min-users", "3")
    assert done.code == 0, done.err
    files = tree(host / "config")
    service = next(text.decode() for name, text in files.items() if name.endswith(".service"))
    assert "promote --unattended --domain sql --auto --min-users 3\n" in service
    assert sys.executable in service and KEY not in service and KEY not in done.out
    assert "OnCalendar=Sun *-*-* 03:00:00 Europe/Berlin" in done.out
    assert "LESSONS_LLM_API_KEY=…" in done.out
    private = host / "config/lessons/gate.env"
    assert KEY in private.read_text() and stat.S_IMODE(private.stat().st_mode) == 0o600
    assert calls(host) == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now lessons-gate.timer",
    ]


def test_every_setting_of_a_run_reaches_the_timer() -> None:
    app = typer.Typer()
    app.command()(promote)
    names = {str(one.envvar) for one in typer.main.get_command(app).params if one.envvar}
    written = {"LESSONS_STORE", "LESSONS_STATE", "LESSONS_DOMAIN"}  # unit and file name them
    assert len(names) > 8 and names - written - {"LESSONS_REVIEWER"} <= {*PASSED_ON}


def test_install_twice_changes_nothing(host: Path) -> None:
    assert schedule("install", "--yes").code == 0
    before = tree(host / "config")
    done = schedule("install", "--yes", "--json")
    assert json.loads(done.out)["changed"] == [] and tree(host / "config") == before


def test_nothing_is_written_unasked(host: Path) -> None:
    done = schedule("install")
    assert done.code == 1 and "pass --yes" in done.err and "OnCalendar" in done.out
    assert not (host / "config").exists() and calls(host) == []


def test_remove_leaves_nothing_behind(host: Path) -> None:
    schedule("install", "--yes")
    assert schedule("remove", "--yes").code == 0
    assert tree(host / "config") == {} and not (host / "config/lessons").exists()
    assert "systemctl --user disable --now lessons-gate.timer" in calls(host)
    assert schedule("remove").out == "there is no timer\n"


def test_status_tells_what_is_there(host: Path) -> None:
    assert "there is no timer" in schedule("status").out
    schedule("install", "--yes")
    assert "timer: active, next run: Sun 03:00" in schedule("status").out
    (host / "config/lessons/gate.env").unlink()
    found = json.loads(schedule("status", "--json").out)
    assert not found["installed"] and found["missing"][0].endswith("gate.env")


def test_timer_that_does_not_start_is_told(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "1")
    done = schedule("install", "--yes")
    assert done.code == 1 and "not started: `systemctl --user daemon-reload`" in done.err


def test_domains_run_one_after_the_other(host: Path) -> None:
    schedule("install", "--yes", "--domain", "sql,openwebui")
    text = (host / "config/systemd/user/lessons-gate.service").read_text()
    assert text.index("--domain sql") < text.index("--domain openwebui")


@pytest.mark.parametrize(
    "options",
    [
        ["--nonsense"],
        ["--review", "human"],
        ["--review", "llm"],  # no model is set
        ["--review", "llm", "--llm-url", "http://127.0.0.1:9/v1"],
        ["abcdef"],
        ["--llm-api-key", KEY],
        [f"--notify-url=https://hooks.invalid/{KEY}"],
        ["--min-users", "0"],
    ],
)
def test_options_promote_does_not_take_are_usage(host: Path, options: list[str]) -> None:
    done = schedule("install", "--yes", "--", *options)
    assert done.code == 2 and KEY not in done.err and not (host / "config").exists()


def test_timer_that_promotes_nothing_is_told(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "promotes nothing" in schedule("install", "--yes").out
    assert "promotes nothing" not in schedule("install", "--yes", "--", "--auto").out
    for name in ("LESSONS_LLM_URL", "LESSONS_LLM_MODEL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    done = schedule("install", "--yes", "--", "--review", "llm")
    assert done.code == 0 and "promotes nothing" not in done.out


def test_written_command_runs_the_gate(host: Path) -> None:
    """The service's own line, with its own private file, as systemd would start it."""
    schedule("install", "--yes", "--", "--auto")
    place = find_place(False, os.environ, "linux")
    text = place.files[0].read_text()
    line = next(row for row in text.splitlines() if row.startswith("ExecStart="))
    script = f"set -a; . {place.environment}; exec {line.removeprefix('ExecStart=')}"
    bare = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, env=bare, cwd="/", check=False
    )
    assert done.returncode == 0 and "preview" in done.stdout, done.stderr
    assert (host / "lessons/state/runs.jsonl").exists()


def test_launchd_place_writes_an_agent(tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path / "gate.env", launchd=True)
    names = [path.name for path in place.contents(job())]
    assert names == ["local.lessons.gate.plist", "gate.env"]
    assert shutil.which("true") and place.starting[0][:2] == ["launchctl", "bootstrap"]


def test_timer_that_proves_gets_its_agent(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("install", "--yes", "--", "--auto", "--proof", "sql")
    assert "set LESSONS_EVAL_URL" in " ".join(schedule(*words).err.split())
    monkeypatch.setenv("LESSONS_EVAL_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LESSONS_EVAL_MODEL", "some-model")
    monkeypatch.setenv("LESSONS_EVAL_TOOL_VALVES", '{"database": "/x"}')
    assert schedule(*words).code == 0
    private = (host / "config/lessons/gate.env").read_text()
    assert 'LESSONS_EVAL_TOOL_VALVES="{\\"database\\": \\"/x\\"}"' in private
    assert schedule(*words[:-1], "./questions").code == 2
