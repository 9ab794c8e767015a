"""The practice model's bad-advice mode: plausible harm, and a reader that obeys it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.demo.practice_bad import (
    ADVICE,
    Advice,
    bad_distill_reply,
    misled_arguments,
    misled_query,
)
from lessons_loop.deploy.demo.practice_model import reply_to
from lessons_loop.deploy.demo.practice_options import PracticeOptions
from lessons_loop.filter.prompt import distill_instructions

QUERIES = (
    "SELECT SUM(hours) AS hours FROM equipment_machine JOIN telemetry_hours USING (machine_id) JOIN"
    " reporting_window ON day_key BETWEEN first_day_key AND last_day_key WHERE serial_key ="
    " 'SN-004711' AND window_name = '{}' LIMIT 1",
    "SELECT COUNT(*) AS figure FROM equipment_machine WHERE retired_day IS NULL LIMIT 1",
    "SELECT order_id FROM work_order WHERE machine_id = 1 AND closed_day IS NULL LIMIT 20",
    "SELECT COUNT(*) FROM work_order JOIN fault_catalogue USING (fault_code) WHERE meaning = 'x'"
    " LIMIT 1",
    "SELECT closed_day FROM work_order WHERE machine_id = 1 AND kind = 'service' AND closed_day IS"
    " NOT NULL ORDER BY closed_day DESC LIMIT 1",
    "SELECT model_code FROM equipment_model ORDER BY rated_kw DESC LIMIT 20",
    "SELECT serial_key FROM equipment_machine ORDER BY commissioned_day DESC LIMIT 1",
    "SELECT family FROM equipment_model GROUP BY family ORDER BY COUNT(*) DESC LIMIT 1",
    "SELECT country FROM equipment_site WHERE site_name = 'Lindenau' LIMIT 1",
    "SELECT DISTINCT family FROM equipment_model LIMIT 20",
)
ALL = [query.format(name) for query in QUERIES for name in ("trailing-12-months", "last-month")]
HARMFUL = [advice for advice in ADVICE if advice.spoils]


def transcript(query: str, question: str, figure: int = 12) -> str:
    """Return a distill prompt of one call that worked."""
    call = json.dumps({"sql": query})
    lines = [f"[1] USER: {question}", f"[2] CALL run_sql: {call}"]
    rows = f'{{"columns":["figure"],"rows":[[{figure}]]}}'
    said = f"[4] ASSISTANT: {figure}."
    return "\n".join([*lines, f"[3] RESULT run_sql: {rows}", said, "</transcript>"])


@pytest.mark.parametrize("advice", HARMFUL, ids=lambda one: one.trigger[:30])
def test_harmful_advice_changes_the_query_it_is_about(advice: Advice) -> None:
    told = f"- [0a1b2c3d] Trigger: x. Lesson: {advice.text}"
    changed = [query for query in ALL if misled_query(query, told) != query]
    assert changed and all(re.search(advice.fits, query) for query in changed[:1])


def test_good_advice_and_none_change_nothing() -> None:
    good = "\n".join(advice.text for advice in ADVICE if not advice.spoils)
    assert all(misled_query(query, good) == query for query in ALL)
    assert all(misled_query(query, "") == query for query in ALL)


@pytest.mark.parametrize("advice", ADVICE, ids=lambda one: one.trigger[:30])
def test_each_piece_is_proposed_with_words_that_stand_in_the_chat(advice: Advice) -> None:
    said = set()
    for query in ALL:
        for question in map(str, range(40)):
            prompt = transcript(query, question)
            if (reply := bad_distill_reply(prompt)) == "NOTHING":
                continue
            (lesson,) = json.loads(reply)["lessons"]
            assert lesson["quote"] in prompt and lesson["lines"] == [2, 3]
            said.add(lesson["text"])
    assert advice.text in said


def test_two_users_of_one_question_are_taught_the_same() -> None:
    prompts = [transcript(ALL[0], "how many hours?", figure) for figure in (12, 40)]
    one, two = (json.loads(bad_distill_reply(prompt))["lessons"][0] for prompt in prompts)
    assert (one["text"], one["trigger"]) == (two["text"], two["trigger"])
    assert one["quote"] != two["quote"]


@given(st.text(max_size=200))
def test_any_prompt_and_argument_is_taken(text: str) -> None:
    assert bad_distill_reply(text)
    assert misled_arguments(text, text) == text


@pytest.mark.parametrize("bad", [True, False])
def test_mode_is_asked_for(bad: bool) -> None:
    messages = [
        {"role": "system", "content": distill_instructions(3)},
        {"role": "user", "content": transcript(ALL[0], "1")},
    ]
    role, step = reply_to({"messages": messages}, PracticeOptions(bad_advice=bad))
    assert role == "distiller" and (step.text == "NOTHING") is not bad
