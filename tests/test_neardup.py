from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.eval.judgements.neardup import PairGate, parse_pair, score_pairs
from lessons_loop.eval.judgements.packaged import evaluation_embedder
from lessons_loop.eval.rows import read_rows
from lessons_loop.filter.embed import Embedder
from lessons_loop.promote.similar.judge import judge_at
from support.commands import told
from support.gate import HashEmbedder
from support.judge_replies import FIXTURES, answers, recorded, rows_of
from support.judging import EmbeddingServer, environment, run_command
from support.llm_server import LlmServer, http_error

HELD_OUT = FIXTURES / "neardup" / "held_out.jsonl"
TUNED = FIXTURES / "neardup" / "tuned.jsonl"
KEYS = [
    "contradictions_dropped",
    "distinct_dropped",
    "distinct_held",
    "duplicates_dropped",
    "duplicates_caught",
]
BASE = "Read pump alarms from scada_event with class = 3."


def row(b: str, label: str, a: str = BASE) -> dict[str, Any]:
    return {"id": label, "a": a, "b": b, "label": label, "relation": "made"}


def scored(*rows: dict[str, Any]) -> dict[str, Any]:
    pairs = [parse_pair(one) for one in rows]
    gate = PairGate(pairs, HashEmbedder(256), None)
    return score_pairs([gate.compare(pair, 0.90) for pair in pairs], None)


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    return evaluation_embedder("")


def measured(minilm: Embedder, pairs: Path, server: LlmServer | None = None) -> dict[str, Any]:
    """Return the figures with the model people have by default."""
    rows = read_rows(pairs, parse_pair)
    judge = judge_at(server.url, "by-hand") if server else None
    gate = PairGate(rows, minilm, judge)
    return score_pairs([gate.compare(row, 0.90) for row in rows], judge)


def test_endings_become_shares_of_their_class() -> None:
    found = scored(
        row(BASE, "duplicate"),
        row("Water the plants.", "duplicate"),
        row(BASE.replace("3", "4"), "contradiction"),
        row("Water the plants.", "distinct"),
        row(f"{BASE} Add a LIMIT of 500 to it.", "distinct"),
    )
    assert [found[key] for key in KEYS] == [0.0, 0.0, 0.0, 0.5, 0.5]
    assert found["n"] == {"duplicate": 2, "distinct": 2, "contradiction": 1}
    assert [one["label"] for one in found["mistakes"]] == ["duplicate"]


def test_wrong_drops_are_counted_as_such() -> None:
    found = scored(row(BASE, "contradiction"), row(BASE, "distinct"))
    assert (found["contradictions_dropped"], found["distinct_dropped"]) == (1.0, 1.0)
    assert found["duplicates_caught"] is None


@pytest.mark.parametrize("pairs", [TUNED, HELD_OUT], ids=["tuned", "held-out"])
def test_rates_hold_without_a_model(minilm: Embedder, pairs: Path) -> None:
    found = measured(minilm, pairs)
    assert found["contradictions_dropped"] == found["distinct_dropped"] == 0
    assert found["duplicates_caught"] >= 0.85 and found["distinct_held"] <= 0.5
    assert found["contradictions_let_through"] <= 0.1


@pytest.mark.parametrize("quality", ["good", "weak"])
def test_rates_hold_with_a_judge(minilm: Embedder, quality: str) -> None:
    replies = FIXTURES / "judge" / f"{quality}.jsonl"
    with LlmServer([recorded(replies, HELD_OUT)]) as server:
        found = measured(minilm, HELD_OUT, server)
    assert found["contradictions_dropped"] == found["distinct_dropped"] == 0
    assert found["contradictions_let_through"] == 0 and found["distinct_held"] <= 0.2
    assert found["duplicates_caught"] >= (1 if quality == "good" else 0.85)
    assert sum(found["judged"].values()) == 23


@pytest.mark.parametrize("word", ["SAME", "NARROWER"])
def test_careless_model_drops_nothing_wrongly(minilm: Embedder, word: str) -> None:
    with LlmServer([answers(lambda pair: f"They look alike to me.\nVERDICT: {word}")]) as server:
        found = measured(minilm, HELD_OUT, server)
    assert found["contradictions_dropped"] == found["distinct_dropped"] == 0


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with EmbeddingServer() as embeddings:
        store = tmp_path_factory.mktemp("none")
        yield environment(store, LESSONS_EMBEDDING=embeddings.setting)


def test_json_has_the_agreed_keys(environ: dict[str, str]) -> None:
    done = run_command("eval", "neardup", "--pairs", str(TUNED), "--json", env=environ)
    assert (done.returncode, told(done.stderr).splitlines()) == (0, [])
    assert set(KEYS) <= set(json.loads(done.stdout))


def test_table_fits_terminal_and_names_mistakes(environ: dict[str, str]) -> None:
    done = run_command("eval", "neardup", "--pairs", str(HELD_OUT), env=environ)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "duplicates_caught" in done.stdout and "nginx-timeout-3" in done.stdout


def test_dead_judge_ends_with_one_line(environ: dict[str, str]) -> None:
    with LlmServer([http_error(400, "no such model")]) as server:
        flags = ("--pairs", str(HELD_OUT), "--llm-url", server.url, "--llm-model", "gone")
        done = run_command("eval", "neardup", *flags, env=environ)
        assert len(server.requests) == 3
    assert done.returncode == 1 and len(told(done.stderr).splitlines()) == 1
    assert "judging ended after 3 failures" in done.stderr


def test_model_without_url_is_a_usage_error(tmp_path: Path) -> None:
    arguments = ("eval", "neardup", "--pairs", str(HELD_OUT), "--llm-model", "m")
    assert run_command(*arguments, env=environment(tmp_path)).returncode == 2


@pytest.mark.parametrize("line", ['{"id": 1}', "[]", '{"id": 1, "a": "x", "b": "y", "label": "z"}'])
def test_bad_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "pairs.jsonl"
    shutil.copy(HELD_OUT, file)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")
    done = run_command("eval", "neardup", "--pairs", str(file), env=environment(tmp_path))
    number = len(rows_of(HELD_OUT)) + 1
    assert done.returncode == 1 and f"line {number}" in done.stderr
    assert len(told(done.stderr).splitlines()) == 1


def test_fixture_holds_every_relation() -> None:
    rows = rows_of(HELD_OUT)
    assert len(rows) >= 60 and len({one["id"] for one in rows}) == len(rows)
    assert {one["relation"] for one in rows} == {
        "paraphrase",
        "subset",
        "one-word",
        "superset",
        "same-topic",
        "negation",
        "number",
        "name",
        "advice-change",
    }
