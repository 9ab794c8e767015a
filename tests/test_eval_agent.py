"""The harness's own agent: arms that differ in nothing but lessons, the tool loop, outages."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lessons_loop.eval.agent.http import (
    TOOL_ROUNDS,
    HarnessAgent,
    one_system_message,
)
from lessons_loop.eval.agent.tools import load_tools
from lessons_loop.eval.agent.wire import HttpWire, RecordingWire, ReplayWire
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.shelf import Shelf
from lessons_loop.eval.trials import Arm
from lessons_loop.filter.embed import Purpose, fingerprint
from lessons_loop.filter.errors import EmbedError
from lessons_loop.filter.inject import BLOCK_CLOSE, BLOCK_OPEN, block
from lessons_loop.promote.proof.proving import LessonSet
from support.gate import HashEmbedder, curated, lesson
from support.llm_server import LlmServer, completion, hangs, http_error, says, send, sends

EMBEDDER = HashEmbedder(256)
ROWS = (
    curated(lesson("Look serials up in equipment_machine.", trigger="hours of a machine")),
    curated(lesson("Bound telemetry hours by day.", trigger="telemetry hours of a machine")),
)
TOOLS = '''
class Tools:
    async def add(self, a: int, b: int) -> str:
        """Add.
        :param a: one
        :param b: other"""
        return str(a + b)

    def broken(self) -> str:
        """Break."""
        raise ValueError("no such table: x")
'''


class Down:
    """An embedder that answers only while the shelf is made."""

    name, prefixes, up = "down", ("", ""), True

    def embed(self, texts, purpose):
        if not self.up:
            raise EmbedError("the embedding engine is down")
        return EMBEDDER.embed(texts, purpose)


@pytest.fixture
def tools(tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    return load_tools(tmp_path / "tools.py")


def shelf(embedder=EMBEDDER, rows=ROWS):
    vectors = EMBEDDER.embed([row.lesson.embedded_text for row in rows], Purpose.DOCUMENT)
    return Shelf(LessonSet("sql", rows, vectors, fingerprint(EMBEDDER)), embedder)


def asked(*texts, **fields):
    roles = ("user", "assistant")
    turns = tuple({"role": roles[at % 2], "content": text} for at, text in enumerate(texts))
    return EvalQuestion(id="q", topic="t", messages=turns, **fields)


QUESTION = asked("look up serials of a machine and bound its telemetry hours by day?")


def calls(*wanted, text=None, **more):
    """Answer with tool calls, each (id, name, arguments)."""
    listed = [
        {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}
        for ident, name, arguments in wanted
    ]
    return sends(completion(text, "tool_calls", tool_calls=listed) | more)


def answered(server, question=QUESTION, arm=Arm.OFF, seed=5, **fields):
    given = {"shelf": None, "tools": None, "system": ""} | fields
    agent = HarnessAgent(HttpWire(server.url, "sk-fake", seconds=20), "m", **given)
    return agent.answer(question, arm, seed)


def requests_of(arms, question=QUESTION, **fields):
    """Return what each arm sends for one question, as bytes sent."""
    with LlmServer([says("fine")]) as server:
        found = {arm: answered(server, question, arm, **fields) for arm in arms}
    return found, dict(zip(arms, [one.body for one in server.requests], strict=True))


def test_arms_send_the_same_but_for_the_block(tools):
    found, sent = requests_of(
        list(Arm), shelf=shelf(), tools=tools, system="You know the machines."
    )
    plain = json.dumps(sent[Arm.OFF])
    assert json.dumps(sent[Arm.OFF_AGAIN]) == plain and "lessons" not in plain
    for arm in (Arm.ON, Arm.PLACEBO):
        message = sent[arm]["messages"][0]
        start, _, rest = message["content"].partition(f"\n{BLOCK_OPEN}")
        assert rest.endswith(BLOCK_CLOSE) and len(found[arm].recalled) == 2
        message["content"] = start
        assert json.dumps(sent[arm]) == plain
    assert sent[Arm.OFF]["seed"] == 5 and sent[Arm.OFF]["stream"] is False


def test_block_is_the_products_own():
    found, sent = requests_of([Arm.ON], shelf=shelf())
    assert sent[Arm.ON]["messages"] == [
        {"role": "system", "content": block(shelf().recalled(QUESTION.messages))},
        *QUESTION.messages,
    ]
    assert found[Arm.ON].recalled == tuple(one.key for one in shelf().recalled(QUESTION.messages))


def test_placebo_says_nothing_of_the_subject():
    found, sent = requests_of([Arm.ON, Arm.PLACEBO], shelf=shelf())
    on, placebo = (sent[arm]["messages"][0]["content"] for arm in (Arm.ON, Arm.PLACEBO))
    assert "telemetry" in on and "telemetry" not in placebo and "serials" not in placebo
    assert abs(len(on) - len(placebo)) <= 0.1 * len(on)
    assert not set(found[Arm.ON].recalled) & set(found[Arm.PLACEBO].recalled)


def test_nothing_recalled_is_the_off_request():
    _, sent = requests_of([Arm.OFF, Arm.ON], asked("good morning!"), shelf=shelf())
    assert sent[Arm.OFF] == sent[Arm.ON]


def test_turns_are_sent_as_given(tools):
    turns = asked("telemetry hours of a machine?", "It ran 12 hours.", "and by day?")
    _, sent = requests_of([Arm.OFF], turns, tools=tools)
    assert sent[Arm.OFF]["messages"] == list(turns.messages)
    assert sent[Arm.OFF]["tools"] == tools.specs


def test_tools_answer_with_their_ids_until_a_text_comes(tools):
    first = calls(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "broken", "{}"), text=None)
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 3}, "model": "m-2026"}
    with LlmServer([first, sends(completion("It is 3.") | usage)]) as server:
        found = answered(server, tools=tools)
    assert (found.text, found.model, found.tokens_in, found.tokens_out) == (
        "It is 3.",
        "m-2026",
        10,
        3,
    )
    assert [(c.tool, c.result, c.failed) for c in found.calls] == [
        ("add", "3", False),
        ("broken", '{\n  "error": "no such table: x"\n}', True),
    ]
    back = server.requests[1].body["messages"][1:]
    assert [one["role"] for one in back] == ["assistant", "tool", "tool"]
    assert [one["id"] for one in back[0]["tool_calls"]] == ["c1", "c2"]
    assert [one["tool_call_id"] for one in back[1:]] == ["c1", "c2"]
    assert not found.outage and found.seconds > 0


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("subtract", "{}", "no tool"),
        ("add", '{"a": 1', "no readable JSON"),
        ("add", "7", "one JSON object"),
    ],
)
def test_a_wrong_call_is_told_the_model(tools, name, arguments, part):
    with LlmServer([calls(("c1", name, arguments)), says("sorry")]) as server:
        found = answered(server, tools=tools)
    assert found.text == "sorry" and found.calls[0].failed and part in found.calls[0].result
    assert server.requests[1].body["messages"][-1]["content"] == found.calls[0].result


def test_a_call_without_tools_is_no_outage():
    with LlmServer([calls(("c1", "add", "{}")), says("sorry")]) as server:
        found = answered(server)
    assert found.text == "sorry" and "tools" not in server.requests[0].body


def test_rounds_end_and_the_last_text_stands(tools):
    endless = calls(("c", "add", '{"a": 1, "b": 1}'), text="one moment")
    with LlmServer([endless]) as server:
        found = answered(server, tools=tools)
    assert (found.text, found.outage, len(found.calls)) == ("one moment", "", TOOL_ROUNDS)
    assert len(server.requests) == TOOL_ROUNDS + 1


def test_tokens_of_all_requests_are_summed(tools):
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 1}}
    first = calls(("c", "add", '{"a": 1, "b": 1}'), **usage)
    odd = {"usage": {"prompt_tokens": "12", "completion_tokens": -4}}
    with LlmServer([first, first, sends(completion("2") | odd)]) as server:
        found = answered(server, tools=tools)
    assert (found.tokens_in, found.tokens_out) == (20, 2)


@pytest.mark.parametrize(
    "step",
    [
        http_error(500),
        http_error(400, "context length exceeded"),
        sends(b"nonsense"),
        sends({"error": {"message": "overloaded"}}),
        sends({"choices": []}),
        sends({"choices": [{"message": None}]}),
        says(None, "length", reasoning_content="long thoughts"),
        says("<think>long thoughts", "length"),
        says("", None),
        hangs(0.0),
    ],
)
def test_trouble_with_the_model_is_an_outage(step, tools):  # T-16
    begun = calls(("c", "add", '{"a": 1, "b": 1}'))
    with LlmServer([begun, step]) as server:
        found = answered(server, arm=Arm.ON, tools=tools, shelf=shelf())
    assert found.outage and "\n" not in found.outage and found.text == ""
    assert len(found.calls) == 1 and len(found.recalled) == 2


def test_recall_that_fails_is_an_outage():
    embedder = Down()
    made = shelf(embedder)
    embedder.up = False
    with LlmServer([says("fine")]) as server:
        assert "engine is down" in answered(server, arm=Arm.ON, shelf=made).outage
        assert answered(server, arm=Arm.OFF, shelf=made).text == "fine"
    assert len(server.requests) == 1


def test_saying_nothing_is_an_answer_too():
    with LlmServer([says("", "stop")]) as server:
        found = answered(server)
    assert (found.text, found.outage) == ("", "")


def test_thinking_is_no_part_of_the_answer():
    with LlmServer([says("<think>47 or 48?</think>\nIt is 48.")]) as server:
        assert answered(server).text == "It is 48."


def test_a_run_is_replayed_without_a_model(tmp_path, tools):
    def tells(handler, received):
        turn = len(received.body["messages"])
        wanted = {"id": f"c{turn}", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}
        more = {"tool_calls": [wanted]} if received.body["messages"][-1]["role"] == "user" else {}
        text = None if more else f"3, seed {received.body['seed']}"
        send(handler, json.dumps(completion(text, "stop", **more)).encode())

    jobs = [(arm, seed) for arm in Arm for seed in range(6)]
    with LlmServer([tells]) as server:
        wire = RecordingWire(HttpWire(server.url), tmp_path)
        live = all_answers(HarnessAgent(wire, "m", shelf(), tools), jobs)
    again = all_answers(HarnessAgent(ReplayWire(tmp_path), "m", shelf(), tools), jobs)
    without_time = [one.model_copy(update={"seconds": 0.0}) for one in live]
    assert [one.model_copy(update={"seconds": 0.0}) for one in again] == without_time
    assert all(one.seconds > 0 and one.text.startswith("3, seed") for one in again)
    other = HarnessAgent(ReplayWire(tmp_path), "m", shelf(rows=ROWS[:1]), tools)
    assert "not recorded" in other.answer(QUESTION, Arm.ON, 1).outage


def all_answers(agent, jobs):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda job: agent.answer(QUESTION, *job), jobs))


def test_system_messages_become_one_at_the_front():
    given = [
        {"role": "system", "content": "A"},
        {"role": "user", "content": "q"},
        {"role": "system", "content": [{"type": "text", "text": "B"}]},
    ]
    assert one_system_message(given) == [{"role": "system", "content": "A\nB"}, given[1]]
    assert one_system_message(given[1:2]) == given[1:2]


def test_empty_shelf_is_the_off_arm():
    empty = Shelf(LessonSet("sql", (), np.zeros((0, 0), np.float32)), EMBEDDER)
    _, sent = requests_of([Arm.OFF, Arm.ON, Arm.PLACEBO], shelf=empty)
    assert sent[Arm.OFF] == sent[Arm.ON] == sent[Arm.PLACEBO]
