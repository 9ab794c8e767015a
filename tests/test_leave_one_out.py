from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.eval.proving.leave_one_out import Measured, measure
from lessons_loop.eval.runs.runner import RunStopped
from lessons_loop.filter.models import Curated
from lessons_loop.promote.proof.lesson_proof import LessonProof
from support.llm_server import LlmServer, http_error
from support.proving import (
    EMBEDDER,
    asking,
    bad,
    curated,
    following,
    good,
    lesson,
    lesson_set,
    question_files,
)

UNASKED = curated(lesson("Rotate certificates by hand.", trigger="ingress", tags=()))


def measured(
    tmp_path: Path, server: LlmServer, lessons: list[Curated], *wanted: Curated, runs: int = 3
) -> dict[str, Measured]:
    folder = question_files(tmp_path / "questions")
    keys = {one.key for one in wanted or lessons}
    found = measure(asking(server, folder, runs=runs), lesson_set(*lessons), EMBEDDER, keys)
    return {one.row.key: one for one in found}


def test_lesson_that_helps_is_told_from_one_that_does_nothing(tmp_path: Path) -> None:
    pumps, trucks = good("pumps"), good("trucks")
    with following(unknown=["pumps"]) as server:
        found = measured(tmp_path, server, [pumps, trucks])
    helps, nothing = found[pumps.key], found[trucks.key]
    assert helps.proof and nothing.proof
    assert (helps.proof.verdict, helps.proof.with_rate, helps.proof.without_rate) == ("helps", 1, 0)
    assert helps.proof.fixed >= 6 and nothing.proof.fixed == nothing.proof.broken == 0
    assert helps.proof.model == "some-model" and len(helps.proof.question_set) == 12


def test_harmful_lesson_names_what_it_breaks(tmp_path: Path) -> None:
    harm = bad("motors")
    with following() as server:
        found = measured(tmp_path, server, [harm, good("pumps")], harm)
    assert list(found) == [harm.key]
    one = found[harm.key]
    assert one.proof and one.proof.verdict == "harmful" and "motors-north" in one.broken


def test_lesson_no_question_recalls_is_unmeasured(tmp_path: Path) -> None:
    with following() as server:
        found = measured(tmp_path, server, [UNASKED, good("pumps")], UNASKED)
        assert server.requests == []
    assert found[UNASKED.key].proof is None
    assert found[UNASKED.key].told() == "unmeasured: no question recalls it"


def test_too_few_questions_say_what_they_could_show(tmp_path: Path) -> None:
    with following(0.5) as server:
        (one,) = measured(tmp_path, server, [good("pumps")]).values()
    assert one.proof and one.proof.verdict == "underpowered" and one.visible is not None
    assert "only a lift of" in one.told() or "too few to show" in one.told()


def test_answers_with_all_lessons_serve_every_lesson(tmp_path: Path) -> None:
    lessons = [good("pumps"), good("trucks")]
    with following() as server:
        found = measured(tmp_path, server, lessons, runs=1)
        asked = sum(one.asked for one in found.values())
        once = {str(one.body["messages"]) for one in server.requests}
        assert len(server.requests) == len(once) < 2 * asked + 1


def test_controls_measure_no_lesson(tmp_path: Path) -> None:
    about_sums = curated(lesson("Sums are always 12.", trigger="what is 1 plus 1", tags=()))
    with following() as server:
        measured(tmp_path, server, [about_sums])
        asked = [one.body["messages"][-1]["content"] for one in server.requests]
    assert not any("plus" in text for text in asked)


def test_outage_measures_nothing(tmp_path: Path) -> None:
    with LlmServer([http_error(400)]) as server, pytest.raises(RunStopped):
        measured(tmp_path, server, [good("pumps")])


@pytest.mark.parametrize(
    "name", ["m" * 9000, "a\x00b\nc", "\ud800", "sk-test-FAKE0123456789abcdefFAKE"]
)
def test_name_of_a_model_never_spoils_the_row(tmp_path: Path, name: str) -> None:
    with following(unknown=["pumps"], name=name) as server:
        (one,) = measured(tmp_path, server, [good("pumps")], runs=1).values()
    assert one.proof and "FAKE" not in one.proof.model
    row = one.row.model_copy(update={"proof": one.proof.model_dump_json()})
    assert Curated.from_record(row.to_record()) == row and LessonProof.of(row) == one.proof
