from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lessons_loop.seeds.commands import register
from support.provider import Provider
from support.seeds import WEATHER, tree_hash, write_seeds


@pytest.fixture(scope="module")
def embedding() -> Iterator[str]:
    with Provider() as provider:
        yield f"openai:fake-embed@{provider.url}"


class Shell:
    """Runs `lessons seed` on one store."""

    def __init__(self, root: Path, embedding: str) -> None:
        self.root = root
        self.environ = {"LESSONS_STORE": str(root / "store"), "LESSONS_EMBEDDING": embedding}

    def seed(self, *arguments: str, **environ: str) -> Result:
        app = typer.Typer()
        app.callback()(lambda: None)
        register(app)
        return CliRunner().invoke(app, ["seed", *arguments], env=self.environ | environ)

    def counts(self, *arguments: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.seed(*arguments, "--json").stdout)["domains"]
        return rows


@pytest.fixture
def shell(tmp_path: Path, embedding: str) -> Shell:
    return Shell(tmp_path, embedding)


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    return write_seeds(tmp_path / "seeds" / "weather", WEATHER)


def test_all_shipped_domains_by_default(shell: Shell) -> None:
    rows = shell.counts()
    assert [row["domain"] for row in rows] == ["openwebui", "sql"]
    assert all(row["added"] == row["total"] > 7 for row in rows)
    assert [row["unchanged"] for row in shell.counts()] == [row["total"] for row in rows]


def test_table_is_aligned_and_adds_up(shell: Shell, weather: Path) -> None:
    lines = shell.seed("--folder", str(weather)).stdout.splitlines()
    assert lines[0].split() == ["domain", "added", "changed", "unchanged", "skipped", "total"]
    assert lines[1].split() == ["weather", "2", "0", "0", "0", "2"]
    assert len(lines[0]) == len(lines[1])


def test_one_domain_of_the_shipped(shell: Shell) -> None:
    assert [row["domain"] for row in shell.counts("--domain", " sql ")] == ["sql"]


def test_domain_may_differ_from_the_folder(shell: Shell, weather: Path) -> None:
    rows = shell.counts("--folder", str(weather), "--domain", "climate")
    assert (rows[0]["domain"], rows[0]["added"]) == ("climate", 2)


def test_dry_run_says_so_twice(shell: Shell, weather: Path) -> None:
    shell.seed("--folder", str(weather))
    write_seeds(weather, {"gust-column": "Take gusts from wind.gust_kn.", "hail": "Read hail."})
    before = tree_hash(shell.root)
    lines = shell.seed("--folder", str(weather), "--dry-run").stdout.splitlines()
    assert lines[0] == lines[-1] == "DRY RUN: nothing is written"
    assert [line.split(":")[0] for line in lines[1:3]] == [
        "would change weather/gust-column",
        "would add weather/hail",
    ]
    assert tree_hash(shell.root) == before


def test_dry_run_makes_no_store(shell: Shell, weather: Path) -> None:
    assert shell.seed("--folder", str(weather), "--dry-run").exit_code == 0
    assert not (shell.root / "store").exists()


def test_empty_folder_is_fine(shell: Shell, tmp_path: Path) -> None:
    write_seeds(tmp_path / "seeds" / "none", {})
    result = shell.seed("--folder", str(tmp_path / "seeds" / "none"))
    assert result.exit_code == 0
    assert "note: none/all.yaml: 0 lessons" in result.stdout


# T-35
def test_mistakes_are_lines_and_nothing_is_loaded(shell: Shell, weather: Path) -> None:
    (weather / "b.yaml").write_text("- id: rain-in-mm\n  text: a: b\n- id: 7\n")
    (weather / "c.yaml").write_text("- id: c1\n  text: 7\n")
    result = shell.seed("--folder", str(weather))
    assert result.exit_code == 1
    assert "lessons: weather/b.yaml:2: lesson rain-in-mm: text:" in result.stderr
    assert "lessons: weather/c.yaml:2: lesson c1: text: must be text" in result.stderr
    assert not (shell.root / "store").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--domain", "nope"], "no seeds for domain nope: shipped are"),
        (["--domain", "No Pe"], "domain 'No Pe' is not allowed"),  # T-41
        (["--folder", "/nowhere/at-all"], "is no folder of seed files"),
        (["--folder", ".", "--domain", "a,b"], "--folder holds one domain"),
        (["--embedding", "nonsense"], "LESSONS_EMBEDDING must be"),
        (["--store", "https://store.example"], "pass --state-dir"),
    ],
)
def test_mistakes_of_use_are_one_line(shell: Shell, arguments: list[str], said: str) -> None:
    result = shell.seed(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_no_embedder_is_said_and_writes_nothing(shell: Shell, weather: Path) -> None:
    result = shell.seed("--folder", str(weather), LESSONS_EMBEDDING="")
    assert result.exit_code == 1
    assert "LESSONS_EMBEDDING" in result.stderr
    assert [row["added"] for row in shell.counts("--folder", str(weather))] == [2]


def test_dead_embedder_is_one_line(shell: Shell, weather: Path) -> None:
    dead = "openai:m@http://127.0.0.1:9/v1"
    result = shell.seed("--folder", str(weather), "--embedding", dead)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "Traceback" not in result.output


def test_force_brings_back_and_says_so(shell: Shell, weather: Path) -> None:
    shell.seed("--folder", str(weather))
    write_seeds(weather, WEATHER | {"rain-in-mm": "Read rainfall in inches."})
    shell.seed("--folder", str(weather))
    write_seeds(weather, {"rain-again": WEATHER["rain-in-mm"]})
    skipped = shell.seed("--folder", str(weather)).stdout
    assert "skipped weather/rain-again: retired" in skipped
    assert "forced; retired" in shell.seed("--folder", str(weather), "--force").stdout


def test_missing_store_is_a_usage_error(shell: Shell) -> None:
    result = shell.seed(LESSONS_STORE="")
    assert result.exit_code == 2
    assert "--store" in result.stderr
