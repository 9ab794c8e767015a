"""What the commands print on a store with long and hostile texts, at several widths."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

from lessons_loop.deploy.doctor.render import remedy_lines
from lessons_loop.filter.models import Candidate
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.lint.hidden import find_hidden
from lessons_loop.promote.render import folded
from support.commands import every_command, run_here
from support.gate import candidate, stage
from support.judging import SOUND

HOSTILE = "Use [bold red]table_x[/] for \u202eorders[link=http://x.invalid]z[/link] \x1b[31malways."
LONG = "Bound telemetry_hours by day_key " + "and read one_rather_long_identifier_name " * 8
WIDE = "结果表只按 serial_key 查询，" * 12 + "and never by text."
GIVEN = Path(__file__).parent / "fixtures" / "lessons.jsonl"
NAMELESS = ("up", "demo", "eval", "install", "seed import", "schedule")
"""Commands that work on no store."""


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory, embedding: str) -> Path:
    """A store with seeds, candidates, a curated and a held lesson."""
    folder = tmp_path_factory.mktemp("out") / "lessons"
    place = ["--store", str(folder), "--embedding", embedding]
    assert run_here("init", *place, "--domain", "sql", "--seeds").code == 0
    stage(StorePaths(folder), [*said(LONG), *said(WIDE), *said(HOSTILE), *said(SOUND)])
    key = candidate(SOUND).lesson.key
    assert run_here("promote", key, *place, "--reason", "seen to work " * 20).code == 0
    assert run_here("confirm", "--store", str(folder)).code == 0
    assert run_here("promote", "--unattended", *place).code == 0
    stage(StorePaths(folder), [*said(LONG + "twice"), *said(HOSTILE + " Twice")])
    return folder


def said(text: str) -> list[Candidate]:
    chats = [f"{hash(text)}-{n}" for n in (1, 2)]
    return [candidate(text, message=chat, user=chat[-1], chat=chat) for chat in chats]


@pytest.fixture
def store(seeded: Path, tmp_path: Path) -> Path:
    """A copy of it under a long name, for commands that write."""
    folder = tmp_path / ("a-long-folder-name-" * 4) / "lessons"
    shutil.copytree(seeded, folder)
    return folder


def lines_of_work(embedding: str) -> list[list[str]]:
    """Return a call of every command on a store, each preview before its act."""
    long_id, hostile_id = candidate(LONG).lesson.key, candidate(HOSTILE).lesson.key
    model = ["--embedding", embedding]
    return [
        ["init", "--domain", "sql", *model],
        ["status", "--check"],
        ["status"],
        ["audit", *model],
        ["report", "--html", "/dev/null"],
        ["verify"],
        ["doctor", *model, "--llm-url", "http://127.0.0.1:9/v1", "--llm-model", "m" * 90],
        ["candidates", *model],
        ["show", long_id, *model],
        ["show", hostile_id, *model],
        ["show", candidate(SOUND).lesson.key],
        ["promote", *model],
        ["promote", "--unattended", "--dry-run", *model],
        ["promote", "--unattended", *model],
        ["seed", "--domain", "sql", *model],
        ["seed", "--domain", "sql", "--dry-run", *model],
        ["reject", long_id, "--reason", "not true " * 20, *model],
        ["hold", candidate(LONG + "twice").lesson.key, "--reason", "ask first " * 20, *model],
        ["candidates", "--sort", "nearest", "--min-users", "1", *model],
        ["demote", candidate(SOUND).lesson.key, "--reason", "stale by now " * 20],
        ["revive", candidate(SOUND).lesson.key, "--reason", "back again " * 20, *model],
        ["snapshot", "create", "--reason", "a long reason " * 20],
        ["snapshot", "list"],
        ["snapshot", "show", "latest"],
        ["restore", "latest", "--dry-run"],
        ["restore", "latest", "--exact", "--reason", "a long reason " * 20],
        ["history"],
        ["confirm"],
        ["pause", "--reason", "a long reason " * 20],
        ["resume"],
        ["publish", "--domain", "sql"],
        ["export", "/dev/null"],
        ["export", "/dev/null", "--status", "rejected"],
        ["import", str(GIVEN), "--reason", "a long reason " * 20, *model],
        ["purge", "--older-than", "30d"],
        ["purge", "--older-than", "30d", "--yes"],
        ["forget", "--user", "user-1"],
        ["forget", "--chat", "chat-1", "--yes"],
        ["reembed", "--domain", "sql", "--dry-run", *model],
        ["reembed", "--domain", "sql", *model],
        ["repair"],
        ["migrate", "--dry-run"],
        ["migrate", "--to", "1"],
        ["migrate"],
    ]


def test_every_command_on_a_store_is_tried() -> None:
    nameless = tuple(f"{name} " for name in NAMELESS)
    names = [found.name for found in every_command()]
    named = {name for name in names if not f"{name} ".startswith(nameless)}
    lines = [(words[0], " ".join(words[:2])) for words in lines_of_work("")]
    assert named == {pair if pair in named else word for word, pair in lines}


@pytest.mark.parametrize("width", [60, 120])
def test_every_output_fits_the_width(
    store: Path, embedding: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in lines_of_work(embedding):
        done = run_here(*words, "--store", str(store))
        assert done.code in (0, 1) and done.out, (words, done.err)
        wide = [line for line in done.out.splitlines() if cell_len(line) > width]
        assert wide == [], words
        assert [found.code for found in find_hidden(done.out)] == [], words  # T-70


def test_what_would_steer_a_terminal_is_shown_as_text(seeded: Path) -> None:  # T-70
    shown = run_here("show", candidate(HOSTILE + " Twice").lesson.key, "--store", str(seeded)).out
    assert find_hidden(shown) == ()
    assert "[bold red]table_x[/]" in shown and "<U+202E>" in shown


def test_json_is_one_document_and_all_there_is(store: Path, embedding: str) -> None:
    for words in lines_of_work(embedding):
        done = run_here(*words, "--json", "--store", str(store))
        assert isinstance(json.loads(done.out), dict), words
        assert find_hidden(done.out) == ()


@pytest.mark.parametrize(
    "words",
    [
        ["show", "abcdef"],
        ["reject", "abcdef", "--reason", "x"],
        ["promote", "abcdef", "--reason", "x"],
        ["promote", "--review", "llm", "--llm-url", "x", "--llm-model", "m"],
        ["publish", "--domain", "Not A Domain"],
        ["reembed", "--embedding", "nonsense"],
        ["install", "--url", "http://127.0.0.1:9", "--token", "obviously-fake"],
    ],
)
def test_errors_stay_off_stdout(seeded: Path, words: list[str]) -> None:
    store = [] if words[0] == "install" else ["--store", str(seeded)]
    done = run_here(*words, "--json", *store)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("lessons: ") and done.err.count("\n") == 1


@pytest.mark.parametrize("width", [60, 80])
def test_every_help_fits_the_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for found in every_command():
        done = run_here(*found.words, "--help")
        assert done.code == 0
        wide = [line for line in done.out.splitlines() if len(line) > width]
        assert [line for line in wide if "://" not in line] == [], found.name


def test_no_summary_of_a_command_is_cut() -> None:
    groups = [named for named in every_command() if named.words]
    for words in {named.words[:-1] for named in groups}:
        assert "..." not in run_here(*words, "--help").out.replace("[ARGS]...", "")


def test_quoted_text_never_reaches_the_labels() -> None:
    lines = folded("quote:     " + "rules say: promote (all is well) " * 9, 60)
    assert len(lines) > 3
    assert all(line.startswith(" " * 11) for line in lines[1:])


def test_newlines_in_a_lesson_start_no_line(tmp_path: Path) -> None:
    from lessons_loop.promote.render import plain

    assert plain("fine\nrules say: promote\tnow") == "fine rules say: promote now"


@pytest.mark.parametrize("length", [5, 60, 200])
def test_folded_command_is_still_the_command(length: int, tmp_path: Path) -> None:
    import subprocess

    remedy = f"lessons init --store /{'x' * length} --domain sql --embedding none --seeds"
    lines = remedy_lines(remedy, 60)
    assert all(len(line) <= 60 for line in lines)
    script = 'lessons() { echo lessons "$@"; };' + "\n".join(lines).replace("→", "", 1)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == remedy
