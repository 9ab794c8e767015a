"""`lessons eval recall`: the figures, what they mean, and files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lessons_loop.deploy.cli import app
from lessons_loop.eval.judgements.everyday_chats import everyday_chats_injected
from lessons_loop.eval.judgements.packaged import evaluation_embedder
from lessons_loop.eval.judgements.recall_command import table
from lessons_loop.eval.judgements.retrieval import (
    Outcome,
    ask_all,
    bench_of,
    everyday_injected,
    figures,
    read_lessons,
    read_questions,
)
from lessons_loop.eval.rows import BadFile
from support.gate import HashEmbedder
from support.judging import EmbeddingServer

FIXTURES = Path(__file__).parent / "fixtures" / "recall"
LESSON = {"id": "a", "text": "Use LIMIT.", "kind": "perf-guard", "trigger": "big tables"}
QUESTION = {"id": "q", "messages": [{"role": "user", "content": "big tables?"}], "relevant": ["a"]}
KEYS = {
    "recall_at_1",
    "recall_at_5",
    "mrr",
    "answerable_served",
    "unanswerable_injected",
    "injected_precision",
    "by_style",
    "everyday_injected",
    "everyday_chats_injected",
    "floor",
}


def outcome(relevant="a", order="abc", injected="", style="plain"):
    return Outcome(style, frozenset(relevant), tuple(order), tuple(injected))


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_shares_are_counted_over_their_own_questions():
    found = figures(
        [
            outcome(order="abc", injected="ab"),
            outcome(order="bca", injected="b"),
            outcome(relevant="ab", order="bac", injected="ba", style="pair"),
            outcome(relevant="", injected="c", style="neg-chat"),
            outcome(relevant="", style="neg-chat"),
        ]
    )
    assert (found["questions"], found["answerable"]) == (5, 3)
    assert found["recall_at_1"] == 0.6667 and found["recall_at_5"] == 1.0
    assert found["mrr"] == pytest.approx((1 + 1 / 3 + 1) / 3, abs=1e-4)
    assert found["answerable_served"] == 0.6667
    assert found["unanswerable_injected"] == {"neg-chat": 0.5}
    assert found["injected_precision"] == 0.5
    assert found["by_style"]["pair"] == {
        "n": 1,
        "recall_at_1": 1.0,
        "recall_at_5": 1.0,
        "mrr": 1.0,
        "served": 1.0,
    }


def test_nothing_to_share_is_null():
    found = figures([outcome(relevant="", style="neg-chat")])
    assert found["recall_at_1"] is None and found["by_style"] == {}
    assert found["injected_precision"] is None


def test_two_of_two_are_needed_for_a_full_recall_at_5():
    assert figures([outcome(relevant="ad", order="abcefd")])["recall_at_5"] == 0.5


@pytest.mark.parametrize(
    ("lessons", "questions", "message"),
    [
        ([{"id": "a"}], [QUESTION], "line 1: a lesson needs the field text"),
        ([LESSON | {"kind": "x"}], [QUESTION], "line 1"),
        ([LESSON, LESSON], [QUESTION], "holds the id a twice"),
        ([LESSON, LESSON | {"id": "b"}], [QUESTION], "holds the same lesson under two ids"),
        ([LESSON], [QUESTION | {"relevant": ["z"]}], "q wants lesson z, which is not given"),
        ([LESSON], [QUESTION | {"messages": []}], "line 1"),
        ([LESSON], [[1]], "line 1"),
        ([], [QUESTION], "holds no record"),
    ],
)
def test_unusable_file_is_one_line(tmp_path, lessons, questions, message):
    files = write(tmp_path / "l.jsonl", *lessons), write(tmp_path / "q.jsonl", *questions)
    with pytest.raises(BadFile, match=message) as caught:
        read_questions(files[1], read_lessons(files[0]))
    assert "\n" not in str(caught.value)


def test_any_shape_of_messages_is_asked(tmp_path):  # T-01
    shapes = [
        [{"role": "user", "content": None}],
        [{"role": "assistant", "content": "x"}],
        [{"content": 3}],
        [{"role": "user", "content": [{"type": "text", "text": "big tables"}]}],
    ]
    rows = [QUESTION | {"id": str(at), "messages": shape} for at, shape in enumerate(shapes)]
    lessons = read_lessons(write(tmp_path / "l.jsonl", LESSON))
    questions = read_questions(write(tmp_path / "q.jsonl", *rows), lessons)
    embedder = HashEmbedder(64)
    outcomes = ask_all(bench_of(lessons, embedder), questions, embedder)
    assert [bool(one.injected) for one in outcomes] == [False, False, False, True]


def test_command_prints_every_key(tmp_path):
    lessons = write(tmp_path / "l.jsonl", LESSON)
    questions = write(tmp_path / "q.jsonl", QUESTION)
    command = ["eval", "recall", "--lessons", str(lessons), "--questions", str(questions)]
    with EmbeddingServer() as server:
        command += ["--embedding", server.setting]
        found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
        shown = CliRunner().invoke(app, command).stdout
    assert set(found) >= KEYS and found["recall_at_1"] == 1.0
    assert "recall@1" in shown and max(map(len, shown.splitlines())) <= 80


def test_table_fits_long_style_names():
    found = figures([outcome(style="s" * 60), outcome(relevant="", style="neg-" + "x" * 60)])
    quiet = {"everyday_injected": None, "everyday_chats_injected": None}
    lines = table({**found, **quiet, "lessons": 3, "floor": 0.2}).splitlines()
    assert max(map(len, lines)) <= 80


def test_own_holdout_stays_at_its_level():
    """Other topics than the sets recall was tuned on, with the real MiniLM."""
    embedder = evaluation_embedder("")
    lessons = read_lessons(FIXTURES / "lessons.jsonl")
    bench = bench_of(lessons, embedder)
    questions = read_questions(FIXTURES / "questions.jsonl", lessons)
    found = figures(ask_all(bench, questions, embedder))
    assert found["recall_at_1"] >= 0.82 and found["recall_at_5"] >= 0.95
    assert found["answerable_served"] >= 0.9
    assert everyday_injected(bench, embedder) <= 0.05
    assert everyday_chats_injected(bench, embedder) <= 0.05
    assert found["by_style"]["multi"]["recall_at_1"] >= 0.8
    assert found["by_style"]["multi"]["served"] >= 0.88
