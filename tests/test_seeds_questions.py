from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.seeds.load import SeedProblems
from lessons_loop.seeds.questions import SeedQuestion, read_seed_questions


def questions(tmp_path: Path, content: str) -> tuple[SeedQuestion, ...]:
    path = tmp_path / "rain.questions.yaml"
    path.write_text(content, "utf-8")
    return read_seed_questions(path, {"rain"})


def test_reads_what_answers_a_question(tmp_path: Path) -> None:
    text = (
        "- {id: q1, question: 'how wet?', relevant: [rain], style: noword, suggested: x}\n"
        "- {id: q2, question: 'who?', relevant: []}\n"
    )
    assert questions(tmp_path, text) == (
        SeedQuestion("q1", "how wet?", ("rain",), "noword"),
        SeedQuestion("q2", "who?", (), "plain"),
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- {id: q1, question: '', relevant: [rain]}\n", "question q1: question: is empty: still"),
        ("- {id: q1, relevant: [rain]}\n", "question: is empty"),
        ("- {id: q1, question: x}\n", "relevant: is missing"),
        ("- {id: q1, question: x, relevant: [hail]}\n", "relevant: names hail, which is no seed"),
        ("- {question: x, relevant: [rain]}\n", "id: is missing"),
        ("- {id: q1, question: x, relevant: []}\n" * 2, ":2: question q1: id: was used before"),
        ("- {id: q1, question: x, relevant: [], a: b}\n", "a: is no field of a question"),
        ("x: y\n", "must be a list of questions"),
    ],
)
def test_mistakes_name_the_question(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(SeedProblems) as raised:
        questions(tmp_path, content)
    assert said in str(raised.value)
