"""`lessons eval demo`: the placebo's store, who gets a page opened; `lessons up --baseline`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lessons_loop.deploy.demo.data import build_database
from lessons_loop.deploy.evaluation.baseline import (
    Measuring,
    NoBaseline,
    eval_environment,
    only_model,
)
from lessons_loop.deploy.evaluation.baseline_run import measure
from lessons_loop.deploy.evaluation.demo import arms_of, may_open
from lessons_loop.deploy.evaluation.demo_placebo import write_placebo
from lessons_loop.deploy.local.home import Home
from lessons_loop.deploy.local.installation import Running
from lessons_loop.deploy.local.sources import LEXICAL, Models, practice_models
from lessons_loop.deploy.local.up import settings_file
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.webui.client import OpenWebUI
from lessons_loop.deploy.webui.server import ServerSettings
from lessons_loop.eval.runs.history import read_history
from lessons_loop.eval.trials import Arm
from lessons_loop.filter.embed import Purpose, fingerprint
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.lexical import terms
from lessons_loop.filter.published import read_published
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.proof.proving import LessonSet
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.store.initialise import initialise
from lessons_loop.seeds.load import load_seeds, read_seeds, shipped_domains
from support.demo import practice_server
from support.gate import HashEmbedder
from support.judging import EmbeddingServer
from support.provider import Provider
from support.shelf import shelf


def test_placebo_store_has_as_many_lessons_on_the_same_vectors(tmp_path: Path) -> None:
    embedder, lessons = HashEmbedder(), shelf()
    vectors = embedder.embed([one.lesson.embedded_text for one in lessons], Purpose.DOCUMENT)
    found = LessonSet("sql", lessons, vectors, fingerprint(embedder), 3)
    paths = StorePaths(tmp_path)
    write_placebo(paths, found, embedder, 7)
    written = read_published(paths.published("sql"))
    assert written is not None and len(written.keys) == len(lessons)
    assert (written.vectors == vectors).all() and written.header.rev == 3
    assert not set(written.keys) & {one.key for one in lessons}
    told = b"\n".join(written.lines).decode()
    assert not set(terms("equipment_machine telemetry_hours ingress")) & set(terms(told))


@pytest.mark.parametrize(
    ("terminal", "environ", "platform", "opens"),
    [
        (True, {"DISPLAY": ":0"}, "linux", True),
        (True, {"WAYLAND_DISPLAY": "w"}, "linux", True),
        (True, {}, "darwin", True),
        (True, {}, "linux", False),
        (False, {"DISPLAY": ":0"}, "linux", False),
        (True, {"DISPLAY": ":0", "CI": "1"}, "linux", False),
    ],
)
def test_page_opens_for_a_person_at_a_screen(
    terminal: bool, environ: dict[str, str], platform: str, opens: bool
) -> None:
    assert may_open(terminal, environ, platform) is opens


def test_placebo_alone_needs_a_third_account() -> None:
    assert arms_of((Arm.ON, Arm.OFF_AGAIN)) == (Arm.OFF, Arm.ON)
    assert arms_of((Arm.OFF, Arm.PLACEBO)) == (Arm.OFF, Arm.ON, Arm.PLACEBO)


def running(root: Path, models: Models, model: str) -> Running:
    settings = ServerSettings(root, 9, "s", "obviously-fake", root / "lessons", {}, {})
    return Running(Home(root), settings, OpenWebUI(settings.url), models, LEXICAL, [], model)


def test_settings_file_names_the_agent(tmp_path: Path) -> None:
    text = settings_file(running(tmp_path, practice_models(9), "practice-model")).read_text()
    assert "export LESSONS_EVAL_URL=http://127.0.0.1:9/v1\n" in text
    assert "export LESSONS_EVAL_MODEL=practice-model\n" in text
    assert "demo.sqlite3" in text and "sql_tool.py" in text


def test_settings_file_names_a_key_and_never_holds_it(tmp_path: Path) -> None:
    models = Models("own", "http://h/v1", "sk-obviously-fake")
    text = settings_file(running(tmp_path, models, "")).read_text()
    assert "sk-obviously-fake" not in text
    assert 'LESSONS_EVAL_API_KEY="$OPENAI_API_KEY"' in text
    assert "# several models are offered: export LESSONS_EVAL_MODEL=NAME" in text


def test_ollama_is_asked_below_v1(tmp_path: Path) -> None:
    models = Models("local Ollama", "http://127.0.0.1:11434", ollama=True)
    found = eval_environment(models, Home(tmp_path), "m")
    assert found["LESSONS_EVAL_URL"] == "http://127.0.0.1:11434/v1"


def test_model_is_chosen_only_where_there_is_one() -> None:
    with practice_server() as url:
        assert only_model(Models("own", url)) == "practice-model"
    with Provider() as provider, pytest.raises(NoBaseline, match="LESSONS_EVAL_MODEL"):
        only_model(Models("own", provider.url))
    with pytest.raises(NoBaseline, match="offers 0 models"):
        only_model(Models("own", "http://127.0.0.1:9/v1"))


def test_baseline_before_and_after_the_seeds(tmp_path: Path) -> None:
    home = Home(tmp_path)
    build_database(home.database)
    store, state = str(home.store.root), home.store.state
    with practice_server() as url, EmbeddingServer() as server:
        agent = eval_environment(Models("p", url, practice=True), home, "practice-model")
        environ = agent | {"LESSONS_STORE": store, "LESSONS_EMBEDDING": server.setting}
        embedder = parse_embedding(server.setting, {})
        initialise(store, ["sql"], embedder)
        assert measure("baseline", 1, state, environ).startswith("measured (baseline): off ")
        with open_gate(GateSettings(store, "sql", None, embedder)) as session:
            load_seeds(session, read_seeds(shipped_domains()["sql"], "sql"))
        assert measure("after", 1, state, environ).endswith("helps; `lessons eval history`")
        assert "was taken before the first seeds" in measure("baseline", 1, state, environ)
        lines = read_history(state, "sql")
    assert [(line.kind, line.stand_in, line.lessons > 0) for line in lines] == [
        ("baseline", True, False),
        ("after", True, True),
    ]
    assert set(lines[0].arms) == {"off"} and set(lines[1].arms) == {"off", "on"}


def test_store_with_lessons_gets_no_baseline(tmp_path: Path) -> None:
    home = Home(tmp_path)
    build_database(home.database)
    store = str(home.store.root)
    with practice_server() as url, EmbeddingServer() as server:
        embedder = parse_embedding(server.setting, {})
        initialise(store, ["sql"], embedder)
        with open_gate(GateSettings(store, "sql", None, embedder)) as session:
            load_seeds(session, read_seeds(shipped_domains()["sql"], "sql"))
        environ = eval_environment(Models("p", url), home, "practice-model")
        environ |= {"LESSONS_STORE": store, "LESSONS_EMBEDDING": server.setting}
        with pytest.raises(LessonsError, match=r"holds \d+ lessons already"):
            measure("baseline", 1, home.store.state, environ)
    assert read_history(home.store.state, "sql") == []


@pytest.mark.parametrize("domains", ["openwebui", "sql"])
def test_trouble_with_the_baseline_is_one_warning(
    tmp_path: Path, domains: str, capsys: pytest.CaptureFixture[str]
) -> None:
    models = Models("own", "http://127.0.0.1:9/v1")
    wanted = Measuring(Home(tmp_path), models, LEXICAL, {}, Stages())
    assert not wanted.tried("baseline", domains)
    (line,) = capsys.readouterr().err.splitlines()
    assert "warning: nothing was measured (baseline): " in line


def test_broken_child_is_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path)
    with practice_server() as url:
        wanted = Measuring(home, Models("p", url, practice=True), LEXICAL, {}, Stages())
        assert not wanted.tried("baseline", "sql")
    (line,) = capsys.readouterr().err.splitlines()
    assert "--tools: no such file" in line or "no such file" in line or "no lesson store" in line


def test_lessons_env_is_what_a_shell_reads(tmp_path: Path) -> None:
    text = settings_file(running(tmp_path, practice_models(9), "m")).read_text()
    valves = next(line for line in text.splitlines() if "TOOL_VALVES" in line)
    given = valves.partition("=")[2].strip("'")
    assert json.loads(given) == {"database": str(tmp_path / "demo.sqlite3")}
