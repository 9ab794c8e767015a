from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lessons_loop.filter.events import Usage
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.lint.hidden import find_hidden
from support.commands_here import command_here
from support.gate import WHEN, candidate, on_folder, stage, stage_usage
from support.gate_words import SCRIPT, filled, one_line
from support.judging import (
    OTHER,
    SOUND,
    environment,
    run_command,
    sightings,
)
from support.llm_server import LlmServer, says

PROMOTES = says("The excerpt shows the rows the advised query returned.\nVERDICT: PROMOTE")
KEY = "fake-reviewer-key-000"


@pytest.fixture
def env(root: Path, embedding: str) -> dict[str, str]:
    return filled(root, embedding)


def test_script_by_path_and_command_judge_alike(env: dict[str, str]) -> None:
    by_path = run_command("--json", env=env, script=SCRIPT)
    by_name = command_here("promote", "--json", env=env)
    assert by_path.returncode == by_name.returncode == 0
    first, second = json.loads(by_path.stdout), json.loads(by_name.stdout)
    assert first["verdicts"] == second["verdicts"]
    assert first["counts"]["skipped"] == 1 and first["counts"]["rejected"] == 1


def test_no_mode_says_it_is_a_preview(env: dict[str, str]) -> None:
    done = command_here("promote", env=env)
    assert done.returncode == 0 and "preview: no mode was given" in done.stdout
    assert "would reject" in done.stdout and "if carried out: rejected 1" in done.stdout


def test_dry_run_says_so_first_and_last(env: dict[str, str]) -> None:  # T-32
    done = command_here("promote", "--auto", "--dry-run", env=env)
    lines = done.stdout.strip().splitlines()
    assert lines[0].startswith("DRY RUN") and lines[-1].startswith("DRY RUN")
    assert "would promote" in done.stdout
    listed = json.loads(command_here("candidates", "--json", env=env).stdout)
    assert len(listed["candidates"]) == 2


def test_loop_of_commands_over_one_lesson(env: dict[str, str]) -> None:
    listed = json.loads(command_here("candidates", "--json", env=env).stdout)
    ids = {row["text"]: row["id"] for row in listed["candidates"]}
    done = command_here("promote", ids[SOUND], "--reason", "seen to work", env=env)
    assert done.returncode == 0 and done.stdout.startswith("promoted")
    done = command_here("reject", ids["The pool is 40."], "--reason", "no rule", env=env)
    assert done.returncode == 0 and done.stdout.startswith("rejected")
    shown = json.loads(command_here("show", ids[SOUND][:6], "--json", env=env).stdout)
    assert shown["status"] == "curated" and shown["decisions"][-1]["reason"] == "seen to work"
    done = command_here("reject", ids[SOUND], "--reason", "true no more", env=env)
    assert done.returncode == 0 and "withdrawn: true no more" in done.stdout  # T-12
    assert command_here("status", env=env).stdout.count("sql          0 curated (0 published)") == 1
    assert command_here("candidates", env=env).stdout.strip() == "no candidates in sql"


def test_show_names_evidence_and_verdict(env: dict[str, str]) -> None:
    key = candidate(SOUND).lesson.key
    done = command_here("show", key, env=env)
    for part in ("quote:     3 rows", "| [3] result run_sql", "rules say: promote", "sightings: 2"):
        assert part in done.stdout


@on_folder
def test_show_says_a_deciding_rule_once(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    command_here("confirm", env=env)
    command_here("promote", "--unattended", env=env)
    done = command_here("show", candidate(OTHER).lesson.key, env=env)
    assert "hold by min-users: shown by" in done.stdout and "min-users: min-" not in done.stdout


def test_show_tells_what_superseded_a_lesson(env: dict[str, str], root: Path) -> None:  # T-12
    old, new = (candidate(f"Set pool_size to {n} for orders_db.") for n in (10, 20))
    stage(root, [old, new])
    command_here("promote", old.lesson.key, "--reason", "good", env=env)
    words = ("--supersede", old.lesson.key, "--reason", "measured again")
    assert command_here("promote", new.lesson.key, *words, env=env).returncode == 0
    decided = rf"supersede by .*: superseded by {new.lesson.key[:12]}:\s+measured again"
    assert re.search(decided, command_here("show", old.lesson.key, env=env).stdout)
    stage(root, sightings(old.lesson.text, 2))
    shown = command_here("show", old.lesson.key, env=env).stdout
    assert "status:    candidate" in shown and re.search(decided, shown)
    assert "seen before: was retired (superseded)" in " ".join(shown.split())


@on_folder
def test_status_asks_to_publish_what_is_not(env: dict[str, str], root: Path) -> None:
    command_here("init", "--domain", "sql", env=env)
    published = StorePaths(root).published("sql")
    before = published.read_bytes()
    command_here("promote", candidate(SOUND).lesson.key, "--reason", "good", env=env)
    published.write_bytes(before)  # as after an edition that could not be written
    done = command_here("status", env=env)
    assert done.returncode == 1
    assert "1 curated, but 0 published: run `lessons publish --domain sql`" in done.stdout
    assert command_here("publish", env=env).returncode == 0
    assert command_here("status", env=env).returncode == 0


@on_folder
def test_table_fits_eighty_columns(env: dict[str, str], root: Path) -> None:
    stage(root, [candidate("Read orders_table " * 20, message="long")])
    done = command_here("candidates", env=env | {"COLUMNS": "200"})
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"^id +kind +seen +users +age$", done.stdout, re.MULTILINE)


@on_folder
def test_no_output_holds_escape_codes_or_secrets(env: dict[str, str], root: Path) -> None:
    bad = "Use \x1b[2J sk-te\u200bst-FAKE0123456789abcdefFAKE\u202e for orders_api."
    stage(root, [candidate(bad, message="bad")])
    key = candidate(bad).lesson.key
    shown = (("candidates",), ("show", key), ("promote",))
    for command in (*shown, *((*words, "--json") for words in shown)):
        out = command_here(*command, env=env).stdout
        assert "\x1b" not in out and "FAKE0123" not in out and not find_hidden(out)
    assert "U+202E RIGHT-TO-LEFT" in command_here("show", key, env=env).stdout  # T-50


def test_unattended_llm_review_promotes(env: dict[str, str]) -> None:
    with LlmServer([PROMOTES]) as server:
        model = ("--llm-url", server.url, "--llm-model", "reviewer")
        env = env | {"LESSONS_LLM_API_KEY": KEY}
        command_here("confirm", env=env)
        done = command_here("promote", "--unattended", "--review", "llm", *model, env=env)
    assert done.returncode == 0 and "promoted 1" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_unattended_with_nothing_to_do_is_fine(tmp_path: Path, embedding: str) -> None:
    env = environment(tmp_path, LESSONS_EMBEDDING=embedding)
    assert command_here("promote", "--unattended", env=env).returncode == 0  # a preview
    command_here("confirm", "--state-dir", str(tmp_path / "state"), env=env)
    done = command_here("promote", "--unattended", "--state-dir", str(tmp_path / "state"), env=env)
    first, second = done.stdout.splitlines()
    assert done.returncode == 0 and second == "nothing to do"
    assert first.startswith("sql, run ") and first.endswith(": no candidates")


def test_summary_tells_only_what_happened(env: dict[str, str], root: Path) -> None:
    usage = Usage(keys=("k",), message_ref="m", user_ref="u", at=WHEN)
    stage_usage(root, "sql", [usage])
    command_here("confirm", env=env)
    done = command_here("promote", "--unattended", env=env)
    first, second = done.stdout.splitlines()[-2:]
    assert first.endswith(": 3 candidates")
    assert second == "rejected 1, left undecided 1, 1 event of use and rating counted"


def test_failing_reviewer_ends_with_one_line(tmp_path: Path, embedding: str) -> None:
    texts = ["Read alpha_table first.", "Cut omega_rows late.", "Sort gamma_list twice."]
    stage(tmp_path, [seen for text in texts for seen in sightings(text, 2)])
    env = environment(tmp_path, LESSONS_EMBEDDING=embedding)
    with LlmServer([says("I am unsure")]) as server:
        model = ("--llm-url", server.url, "--llm-model", "m", "--dup-threshold", "0.99")
        done = command_here("promote", "--review", "llm", *model, env=env)
    assert done.returncode == 1 and one_line(done.stderr) and "review ended" in done.stderr
    assert "not reviewed 3" in done.stdout and "promoted" not in done.stdout


def test_promoting_a_curated_lesson_says_so(env: dict[str, str]) -> None:
    key = candidate(SOUND).lesson.key
    assert command_here("promote", key, "--reason", "seen", env=env).returncode == 0
    again = command_here("promote", key[:8], "--reason", "seen", env=env)
    assert again.returncode == 1 and "is curated already" in again.stderr
