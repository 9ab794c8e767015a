"""Question files: every mistake named, another set has another digest."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.grading.check_forms import KINDS, BadCheck, read_check
from lessons_loop.eval.question_set import (
    questions_folder,
    read_question_set,
    shipped_sets,
)
from lessons_loop.eval.rows import BadFile

GOOD: dict[str, Any] = {"id": "a", "topic": "t", "question": "how?", "checks": [{"contains": "x"}]}


def written(folder: Path, entries: Any, name: str = "one.yaml") -> Path:
    """Write a question file, return its folder."""
    folder.mkdir(exist_ok=True)
    text = entries if isinstance(entries, str) else yaml.safe_dump(json.loads(json.dumps(entries)))
    (folder / name).write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "No Good"}, "entry 1: id is 'No Good': use small letters"),
        ({"id": None}, "id is missing"),
        ({"topic": "x" * 65}, "topic is"),
        ({"question": None}, "exactly one of question and messages"),
        ({"messages": [{"role": "user", "content": "x"}]}, "exactly one of question and messages"),
        ({"question": 12}, "question must be text"),
        ({"question": None, "messages": [{"role": "user"}]}, "messages must be a list of role"),
        (
            {"question": None, "messages": [{"role": "assistant", "content": "x"}]},
            "the last of messages must be the user's",
        ),
        ({"covers": "x"}, "covers must be a list"),
        ({"control": "yes"}, "control must be true or false"),
        ({"rubric": 5}, "rubric must be one paragraph"),
        ({"checks": []}, "neither checks nor a rubric"),
        ({"checks": {"contains": "x"}}, "checks must be a list"),
        ({"checks": ["x"]}, "check 1 must be a mapping"),
        ({"check": []}, "unknown check: allowed are id, topic"),
        ({"checks": [{"contain": "x"}]}, "check 1: unknown contain: give exactly one of contains"),
        ({"checks": [{"contains": "x", "regex": "y"}]}, "contains and regex: give exactly one"),
        ({"checks": [{"contains": 12}]}, "got 12: put numbers, dates and yes or no in quotes"),
        ({"checks": [{"contains": []}]}, "must be a text or a list of 1 to 50"),
        ({"checks": [{"contains": " "}]}, "must not be empty"),
        ({"checks": [{"regex": "(a+)+"}]}, "write it flat"),
        ({"checks": [{"number": "many"}]}, "must be a number"),
        ({"checks": [{"number": True}]}, "must be a number"),
        ({"checks": [{"number": 1, "within": "some"}]}, "within: must be a distance"),
        ({"checks": [{"number": 1, "within": -1}]}, "within: must be a distance"),
        ({"checks": [{"number": 1, "withn": 1}]}, "unknown withn; only within may stand"),
        ({"checks": [{"contains": "x", "within": 1}]}, "unknown within; takes no option"),
        ({"checks": [{"max_tool_calls": -1}]}, "must be a whole number from 0"),
        ({"checks": [{"max_tool_calls": 1, "failed": "no"}]}, "failed: must be true or false"),
        ({"checks": [{"sql_result": "x", "ordered": 1}]}, "ordered: must be true or false"),
        ({"checks": [{}]}, "an empty check"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    entry = {name: value for name, value in (GOOD | change).items() if value is not None}
    with pytest.raises(BadFile) as caught:
        read_question_set(written(tmp_path / "set", [entry]))
    assert "one.yaml: " in str(caught.value) and told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_mistakes_are_listed_at_once(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", [GOOD | {"id": "b", "foo": 1}, GOOD | {"topic": "T T"}])
    written(folder, [GOOD | {"checks": "x"}], "two.yaml")
    with pytest.raises(BadFile, match=r"4 mistakes: .*foo.*topic.*checks.*one\.yaml too"):
        read_question_set(folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- id: a\n  id: b\n", "line 2 is no YAML: id stands twice"),
        ("- &x {id: a}\n- *x\n", "line 2 is no YAML: aliases are not read"),
        ("- id: [a\n", "is no YAML"),
        ("- !!python/object:os.system {}\n", "is no YAML"),
        ("id: a\n", "must be a list of questions"),
        ("", "must be a list of questions"),
        ("[" * 5000, "is no YAML"),
    ],
)
def test_files_that_are_no_questions(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadFile, match=r"one\.yaml") as caught:
        read_question_set(written(tmp_path / "set", text))
    assert told in str(caught.value) and "\n" not in str(caught.value)


@given(st.dictionaries(st.sampled_from([*KINDS, "within", "ordered", "x"]), st.none() | st.text()))
def test_any_check_is_read_or_refused(given_check: dict[str, Any]) -> None:
    try:
        assert read_check(given_check).kind in KINDS
    except BadCheck as error:
        assert str(error)


def test_plain_scalars_stay_what_they_look_like(tmp_path: Path) -> None:
    text = "- id: a\n  topic: t\n  question: 12:30\n  checks:\n  - contains: 2026-01-31\n"
    found = read_question_set(written(tmp_path / "set", text)).questions[0]
    assert found.messages[0]["content"] == "12:30"
    assert found.checks == ({"contains": "2026-01-31"},)


@pytest.mark.parametrize("written_so", ["004711", "0815", "-007", "00.5", "1_000", "0x1F"])
def test_code_with_leading_zero_stays_text(tmp_path: Path, written_so: str) -> None:
    text = f"- id: a\n  topic: t\n  question: x\n  checks: [{{contains: {written_so}}}]\n"
    found = read_question_set(written(tmp_path / "set", text)).questions[0]
    assert found.checks == ({"contains": written_so},)


def test_digest_is_about_what_is_asked(tmp_path: Path) -> None:
    entries = [GOOD | {"id": f"q{n}", "checks": [{"number": n, "within": "1%"}]} for n in range(9)]
    one = read_question_set(written(tmp_path / "set", entries))
    mixed = random.Random(7).sample(entries, 9)
    folder = written(tmp_path / "other", yaml.dump(mixed[:4], default_flow_style=True), "z.yaml")
    two = read_question_set(written(folder, yaml.dump(mixed[4:], width=20), "a.yaml"))
    assert one.digest == two.digest and one.questions == two.questions
    assert (one.domain, two.domain) == ("set", "other")
    entries[3]["checks"] = [{"number": 3, "within": "2%"}]
    assert read_question_set(written(tmp_path / "set", entries)).digest != one.digest


def test_shipped_sets_are_named_and_read() -> None:
    assert "sql" in shipped_sets() and "everyday" not in shipped_sets()
    assert len(read_question_set(questions_folder("sql")).questions) >= 10


def test_folder_that_is_not_there_names_the_shipped(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"shipped sets: .*sql"):
        questions_folder(str(tmp_path / "none"))
    with pytest.raises(BadFile, match="holds no question file"):
        read_question_set(questions_folder(str(tmp_path)))
