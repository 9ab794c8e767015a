from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.eval.judgements.gate_command import judge_all, make_judging
from lessons_loop.eval.judgements.gating import Judged, Judging, parse_candidate, score_gate
from lessons_loop.eval.judgements.packaged import evaluation_embedder
from lessons_loop.filter.errors import ModelError
from lessons_loop.filter.llm import HttpModel
from lessons_loop.promote.review.reviewers import ModelReviewer
from support.commands import told
from support.commands_here import eval_here
from support.evaluating import load_rows, run_eval, write_rows
from support.gate import HashEmbedder
from support.llm_server import LlmServer, http_error, says

TEXT = "Look serials up in equipment_machine by serial_key."
PROMOTES = "The excerpt shows that it worked.\nVERDICT: PROMOTE"
REJECTS = "Nothing in the excerpt shows that it worked.\nVERDICT: REJECT"


def row(text: str = TEXT, label: str = "promote", **fields: Any) -> dict[str, Any]:
    shape = {"text": text, "kind": "schema-map", "trigger": "questions on machines", "tags": []}
    reason = "ok" if label == "promote" else "non_imperative"
    plain = {"id": "G1", "candidate": shape, "evidence": "3 rows; user: 'right'.", "curated": []}
    return plain | {"label": label, "reason": reason} | fields


def judged(reviewer: ModelReviewer | None = None, **fields: Any) -> Judged:
    return Judging(HashEmbedder(256), reviewer).judged(parse_candidate(row(**fields)))


def test_sound_candidate_is_let_through() -> None:
    found = score_gate([judged()])
    assert found["let_through"] == 1
    assert found["good_without_neighbour_passed"] == 1.0
    assert found["mistakes"] == []


@pytest.mark.parametrize(
    ("text", "curated", "ending"),
    [
        ("Serials are kept in equipment_machine.", [], "stopped"),
        ("Drop table equipment_machine before the import.", [], "held"),
        (TEXT, [TEXT], "stopped"),
        ("Look serials up in equipment_legacy by serial_key.", [TEXT], "held"),
    ],
)
def test_endings(text: str, curated: list[str], ending: str) -> None:
    assert judged(text=text, curated=curated).ending == ending


def test_lesson_of_no_valid_shape_is_stopped() -> None:
    found = judged(text="x" * 500)
    assert (found.ending, found.rule) == ("stopped", "shape")


def test_every_candidate_ends_once() -> None:
    done = [judged(), judged(text="Serials are kept there."), judged(text="Drop table t.")]
    found = score_gate(done)
    ended = found["let_through"] + found["held"] + found["not_reviewed"]
    assert ended + sum(found["stopped"].values()) == found["n_candidates"] == 3


def test_bad_one_let_through_is_a_mistake() -> None:
    found = score_gate([judged(label="reject")])
    assert found["bad_let_through"] == 1.0
    assert found["mistakes"] == [
        {"id": "G1", "reason": "non_imperative", "ending": "let_through", "rule": "all-rules"}
    ]


@pytest.mark.parametrize(
    ("says_what", "ending"),
    [(PROMOTES, "let_through"), (REJECTS, "stopped"), ("Hm.", "not_reviewed")],
)
def test_model_reviews_what_rules_let_through(says_what: str, ending: str) -> None:
    with LlmServer([says(says_what)]) as server:
        reviewer = ModelReviewer(HttpModel(server.url, "m"))
        assert judged(reviewer).ending == ending
        sent = server.requests[0].body["messages"][1]["content"]
    assert "3 rows; user: 'right'." in sent


def test_model_is_not_asked_about_what_a_rule_stops() -> None:
    with LlmServer([says(PROMOTES)]) as server:
        found = judged(ModelReviewer(HttpModel(server.url, "m")), text="Serials are kept there.")
        assert (found.ending, server.requests) == ("stopped", [])


def test_reviewer_out_of_reach_is_no_verdict() -> None:
    with LlmServer([http_error(500, "broken")]) as server:
        judging = make_judging(HashEmbedder(256), (server.url, "m", ""))
        with pytest.raises(ModelError):
            judge_all([parse_candidate(row())] * 5, judging, lambda: None)
        assert len(server.requests) == 3


OLD = "Read pump alarms from scada_event with class = 3; class 2 rows are warnings."
FREE = "Take the alarms of a pump from the rows of scada_event whose class equals 3."


@pytest.mark.parametrize(
    ("replies", "ending", "rule"),
    [
        (["Both say the same.\nVERDICT: SAME"], "stopped", "duplicate"),
        (["They cannot both be followed.\nVERDICT: CONTRADICTS"], "held", "conflict"),
        (["Hm."], "held", "related"),
    ],
)
def test_model_settles_related_lessons_as_in_a_run(
    replies: list[str], ending: str, rule: str
) -> None:
    embedder = evaluation_embedder("")
    case = parse_candidate(row(FREE, curated=[OLD]))
    assert Judging(embedder).judged(case).rule == "related"
    with LlmServer([says(text) for text in replies]) as server:
        found = make_judging(embedder, (server.url, "m", "")).judged(case)
    assert (found.ending, found.rule) == (ending, rule)


# The command
def test_command_prints_the_figures_as_json(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "c.jsonl", [row(), row("Serials are there.", "reject")])
    done = run_eval("gate", "--candidates", str(path), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["stopped"] == {"non_imperative": 1, "ok": 0}
    assert (found["let_through"], found["held"]) == (1, 0)
    assert told(done.stderr) == ""


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [({"label": "maybe"}, "label"), ({"curated": None}, "line 1"), ({"candidate": 1}, "line 1")],
)
def test_bad_file_is_named(tmp_path: Path, changed: dict[str, Any], wanted: str) -> None:
    path = write_rows(tmp_path / "c.jsonl", [row() | changed])
    done = eval_here("gate", "--candidates", str(path))
    assert done.returncode == 1
    assert wanted in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_review_needs_url_and_model() -> None:
    assert eval_here("gate", "--candidates", "c", "--llm-url", "http://x").returncode == 2


# Own candidates on other topics than the development set, over all reasons.
OWN = ["holdout", "wordings", "blind_a", "blind_b", "blind_c", "blind_d", "blind_e", "blind_f"]


@pytest.mark.parametrize("name", [f"gate/{name}.jsonl" for name in OWN])
def test_rules_on_own_candidates(name: str) -> None:
    judging = Judging(evaluation_embedder(""))
    done = [judging.judged(parse_candidate(one)) for one in load_rows(name)]
    found = score_gate(done)
    assert found["good_without_neighbour_passed"] >= 0.9
    for reason in {"secret", "injection", "non_imperative"} & set(found["by_reason"]):
        assert found["stopped_or_held_share"][reason] == 1.0
    evidence = {one["id"] for one in found["mistakes"] if one["reason"] == "no_evidence"}
    missed = {one["id"] for one in found["mistakes"] if one["ending"] == "let_through"}
    assert missed <= evidence  # prose evidence is a reviewing model's part
