from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lessons_loop.deploy.status.whole import first_few
from support.commands import told
from support.commands_here import command_here
from support.processes import soon

COMMANDS = [
    *("up", "demo", "init", "status", "verify", "publish", "reembed", "repair"),
    *("seed", "promote", "reject", "candidates", "show"),
]
LESSONS = [sys.executable, "-m", "lessons_loop.deploy.cli"]
HEAVY = {"chromadb", "torch", "sentence_transformers", "scipy", "statsmodels", "open_webui"}


def lessons(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return command_here(*arguments, env=surroundings(**environ))


def in_a_child(*arguments: str, python: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *python, *LESSONS[1:], *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=surroundings(), timeout=200, check=False
    )


def surroundings(**environ: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LESSONS_")}
    return env | {"COLUMNS": "100"} | environ


@pytest.fixture
def store(tmp_path: Path) -> str:
    folder = str(tmp_path / "lessons")
    assert lessons("init", "--store", folder, "--domain", "sql").returncode == 0
    return folder


def test_help_loads_nothing_heavy_and_names_every_command() -> None:
    done = in_a_child("--help", python=["-X", "importtime"])
    loaded = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "typer" in loaded and loaded & HEAVY == set()
    assert done.returncode == 0
    assert [name for name in COMMANDS if f"  {name} " not in done.stdout] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    done = lessons(command, "--help")
    assert done.returncode == 0
    assert f"lessons {command}" in done.stdout.split("Example")[-1]


def test_version_is_printed() -> None:
    done = in_a_child("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "lessons")


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["up", "--port", "abc"], ["up", "--port", "-1"], ["init", "--stoer", "x"]],
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    done = lessons(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["status", "verify", "publish", "repair", "reembed"])
def test_missing_store_is_one_line(command: str, tmp_path: Path) -> None:
    done = lessons(command, "--store", str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "run `lessons init --store" in done.stderr
    assert not (tmp_path / "nowhere").exists()


STORE_COMMANDS = [name for name in COMMANDS if name not in ("up", "demo")]


@pytest.mark.parametrize("command", STORE_COMMANDS)
def test_no_store_is_usage_on_one_line(command: str) -> None:
    named = {"reject": ["abcdef", "--reason", "x"], "show": ["abcdef"]}
    for store in ({}, {"LESSONS_STORE": " "}):
        done = lessons(command, *named.get(command, []), **store)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "lessons: no store given: pass --store or set LESSONS_STORE\n"


def test_init_twice_changes_nothing(store: str) -> None:
    published = Path(store) / "published" / "sql.lessons"
    before = published.read_bytes(), published.stat().st_mtime_ns
    done = lessons("init", "--store", store, "--domain", "sql")
    assert (done.returncode, done.stdout) == (0, "sql: was there\n")
    assert (published.read_bytes(), published.stat().st_mtime_ns) == before


def test_status_is_read_back_from_the_store(store: str) -> None:
    done = lessons("status", "--json", LESSONS_STORE=store)
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["domains"][0]["curated"] == found["domains"][0]["candidates"] == 0
    assert found["ledger_verified"] is True
    assert found["decay"] == "live: 0 uses, 0 judged"


def test_status_tells_what_cannot_be_read(store: str) -> None:
    (Path(store) / "published" / "sql.lessons").write_bytes(b"torn")
    ledger = Path(store) / "state" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace("init", "itni", 1))
    done = lessons("status", "--store", store)
    assert done.returncode == 1
    shown = "".join(done.stdout.split())  # long lines are folded
    assert "sql.lessonshasnoreadableheader" in shown
    assert "line1:wasedited,itshashdoesnotmatch" in shown


def test_status_names_the_domains_there_are(store: str) -> None:
    done = lessons("status", "--store", store, "--domain", "sqll")
    assert done.returncode == 1
    assert "sqll: nothing is published (this store has sql)" in done.stdout
    last = [
        re.findall(r"^(?:last run|ledger) .*", shown, re.MULTILINE)
        for shown in (done.stdout, lessons("status", "--store", store).stdout)
    ]
    assert last[0][1:] == last[1][1:] and len(last[1]) == 2  # nothing of the copy that was read
    assert last[0][0].split() == ["last", "run", "none"]  # a run is its domain's own


def test_no_embedding_is_no_fault_before_the_first_lesson(store: str) -> None:
    assert "embedding none before the first lesson" in lessons("status", "--store", store).stdout


def test_verify_names_an_edited_line(store: str) -> None:
    ledger = Path(store) / "state" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"reason": "', '"reason": "x'))
    done = lessons("verify", "--store", store)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "line 1" in done.stderr
    assert "from a backup" in done.stderr


def test_broken_ledger_is_told_in_a_few_words() -> None:
    few = first_few([f"line {number}: was edited" for number in range(1, 51)])
    assert len(few) == 4
    assert few[3] == "47 more, listed by `lessons verify --json`"
    assert first_few(["line 1: was edited"]) == ["line 1: was edited"]


def test_publish_replaces_a_damaged_file(store: str) -> None:
    published = Path(store) / "published" / "sql.lessons"
    published.write_bytes(b"torn")
    assert lessons("publish", "--store", store).returncode == 0
    assert lessons("status", "--store", store).returncode == 0


def test_init_cleans_a_domain_of_white_space(tmp_path: Path) -> None:  # T-41
    done = lessons("init", "--store", str(tmp_path), LESSONS_DOMAIN=" sql \n")
    assert (done.returncode, done.stdout) == (0, "sql: created\n")


def test_store_works_without_a_home_folder(tmp_path: Path) -> None:  # T-43
    env = {"PATH": os.environ["PATH"], "LESSONS_STORE": str(tmp_path / "lessons")}
    for command in ("init", "status"):
        done = subprocess.run(
            [*LESSONS, command], capture_output=True, text=True, env=env, cwd="/", check=False
        )
        assert (done.returncode, told(done.stderr)) == (0, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["lessons"]


def test_impossible_domain_is_refused(tmp_path: Path) -> None:
    done = lessons("init", "--store", str(tmp_path), "--domain", "../etc")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "../etc" in done.stderr


def has_open(pid: int, file: str) -> bool:
    try:
        return file in [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:  # one was closed meanwhile
        return False


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_ended_command_exits_without_traceback(
    store: str, number: signal.Signals, code: int
) -> None:
    lock = (
        "import fcntl, sys, time; lock = open(sys.argv[1], 'a'); fcntl.flock(lock, fcntl.LOCK_EX);"
        "print('held', flush=True); time.sleep(600)"
    )
    file = f"{store}/staging.lock"
    with subprocess.Popen([sys.executable, "-c", lock, file], stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline()
        command = [*LESSONS, "repair", "--store", store]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert soon(lambda: has_open(waiting.pid, file))
            waiting.send_signal(number)
            _, errors = waiting.communicate(timeout=120)
        holder.kill()
    assert waiting.returncode == code
    assert "Traceback" not in errors


def test_closed_pipe_is_quiet(store: str) -> None:
    command = f"{' '.join(LESSONS)} status --json --store {store} | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=200, check=False
    )
    assert told(done.stderr) == ""


def test_taken_port_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = in_a_child("up", "--data-dir", str(tmp_path), "--port", port)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"port {port}" in done.stderr
    assert "--port 0" in done.stderr


@pytest.mark.parametrize("words", [["init"], ["status"], ["verify"], ["publish"], ["repair"]])
def test_json_is_all_there_is_on_stdout(store: str, words: list[str]) -> None:
    done = lessons(*words, "--json", "--store", store)
    assert done.returncode == 0 and done.stderr == ""
    assert isinstance(json.loads(done.stdout), dict)


def test_repair_tells_of_staging_and_curated(store: str) -> None:
    Path(store, "gate.open").touch()
    Path(store, "staging.open").touch()
    done = lessons("repair", "--store", store)
    assert done.stdout.splitlines() == [
        "staging is sound",
        "curated is sound",
        "ledger is sound",
        "use register is sound",
    ]
    assert not Path(store, "gate.open").exists() and not Path(store, "staging.open").exists()


def test_lost_salt_is_a_problem(store: str) -> None:
    Path(store, "salt").unlink()
    done = lessons("status", "--store", store)
    assert done.returncode == 1 and "people counted before count again" in done.stdout


def test_salt_of_the_environment_is_no_lost_one(store: str) -> None:
    Path(store, "salt").unlink()
    done = lessons("status", "--store", store, LESSONS_SALT="fake-salt-of-the-house")
    assert done.returncode == 0 and "problem" not in done.stdout
