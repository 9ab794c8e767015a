"""Open WebUI as the agent of an evaluation: two accounts, nothing left behind, outages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from lessons_loop.deploy.evaluation.openwebui import OpenWebUIAgent, Target, openwebui_agent
from lessons_loop.deploy.evaluation.openwebui_accounts import ACCOUNTS, PASSWORD_FILE
from lessons_loop.deploy.evaluation.openwebui_checks import Chosen
from lessons_loop.deploy.evaluation.openwebui_record import Record, ReplayedAgent
from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.deploy.webui.server import ADMIN_EMAIL
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Arm
from lessons_loop.filter.inject import BLOCK_OPEN
from support.openwebui import MODEL, PASSWORD, PLUGIN, Server
from support.provider import system_text
from support.teaching import TOOL_ID

ARMS = (Arm.OFF, Arm.ON, Arm.OFF_AGAIN)
CARRIED = {Arm.OFF: False, Arm.ON: True, Arm.OFF_AGAIN: False}


def question(name: str, *texts: str) -> EvalQuestion:
    """Return a question; with several texts the earlier ones are turns of a chat."""
    roles = ("user", "assistant")
    turns = tuple({"role": roles[n % 2], "content": text} for n, text in enumerate(texts))
    return EvalQuestion(id=name, topic="gadgets", messages=turns)


GADGETS = question("gadgets", "How do I count the gadgets in the warehouse, please?")
WIDGETS = question("widgets", f"TOOL:count_widgets Count the gadgets in the warehouse {TOOL_ID}")
LATER = question(
    "later", "How do I count gadgets?", "In which warehouse?", "Count gadgets in the second one."
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep the accounts' password: Open WebUI takes 15 sign-ins in three minutes."""
    return tmp_path_factory.mktemp("state")


@contextmanager
def asking(
    server: Server, state: Path, folder: Path | None = None, **known: object
) -> Iterator[OpenWebUIAgent]:
    target = Target(
        server.settings.url,
        **({"model": MODEL, "tools": (TOOL_ID,)} | known),  # type: ignore[arg-type]
        admin_email=ADMIN_EMAIL,
        password=PASSWORD,
    )
    with openwebui_agent(target, state, folder, ARMS) as agent:
        yield agent


@pytest.fixture(scope="module")
def accounts(server: Server, state: Path) -> dict[Arm, OpenWebUI]:
    """Return the signed-in accounts of all tests here; tests use `agent`."""
    if server.child is None:
        server.start()
    with asking(server, state) as found:
        return found.accounts


@pytest.fixture
def agent(openwebui: Server, accounts: dict[Arm, OpenWebUI]) -> OpenWebUIAgent:
    return OpenWebUIAgent(accounts, Chosen(MODEL, (TOOL_ID,)))


@pytest.mark.parametrize("arm", ARMS)
def test_only_the_on_arm_gets_the_block(openwebui: Server, agent: OpenWebUIAgent, arm: Arm) -> None:
    answer = agent.answer(GADGETS, arm, 12345)
    (body,) = openwebui.provider.received("gadgets in the warehouse, please")
    assert (BLOCK_OPEN in system_text(body)) is CARRIED[arm]
    assert bool(answer.recalled) is CARRIED[arm]
    assert "Echo" in answer.text and not answer.outage
    assert body["seed"] == 12345 and body["stream_options"] == {"include_usage": True}


def test_tools_are_carried_out_and_keep_the_seed(openwebui: Server, agent: OpenWebUIAgent) -> None:
    answer = agent.answer(WIDGETS, Arm.ON, 99)
    (call,) = answer.calls
    assert call.tool == "count_widgets" and call.result and json.loads(call.arguments)
    assert answer.text.startswith("Done")
    bodies = openwebui.provider.received("TOOL:count_widgets")
    assert [body["seed"] for body in bodies] == [99, 99]
    assert all(BLOCK_OPEN in system_text(body) for body in bodies)


def test_earlier_turns_are_the_chats_history(openwebui: Server, agent: OpenWebUIAgent) -> None:
    agent.answer(LATER, Arm.OFF, 1)
    (body,) = openwebui.provider.received("second one")
    assert [dict(message) for message in body["messages"]] == list(LATER.messages)


def test_questions_at_once_do_not_mix(openwebui: Server, agent: OpenWebUIAgent) -> None:
    asked = [(question(f"q{n}", f"Gadgets in warehouse number {n}?"), n) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda one: agent.answer(one[0], ARMS[one[1] % 3], one[1]), asked))
    for (one, n), answer in zip(asked, answers, strict=True):
        assert one.messages[0]["content"] in answer.text
        assert bool(answer.recalled) is CARRIED[ARMS[n % 3]]


def test_nothing_stays_behind(openwebui: Server, agent: OpenWebUIAgent) -> None:
    openwebui.move_spooled()
    before = (len(openwebui.staged()), len(openwebui.usages()))
    for arm in ARMS:
        agent.answer(WIDGETS, arm, 5)
    for account in agent.accounts.values():
        assert account.ask("GET", "/api/v1/chats/") == []
    assert not openwebui.provider.tasks() and not openwebui.provider.distills
    openwebui.move_spooled()
    assert (len(openwebui.staged()), len(openwebui.usages())) == before


@pytest.mark.parametrize(("word", "told"), [("ERROR500", "500"), ("ERRSTREAM", "boom")])
def test_outage_is_no_answer_and_the_next_one_comes(
    openwebui: Server, agent: OpenWebUIAgent, word: str, told: str
) -> None:
    answer = agent.answer(question("down", f"{word} gadgets"), Arm.ON, 1)
    assert told in answer.outage and not answer.text
    assert agent.answer(GADGETS, Arm.ON, 1).text


def test_answer_that_takes_too_long_is_stopped(agent: OpenWebUIAgent) -> None:
    hurried = OpenWebUIAgent(agent.accounts, agent.chosen, seconds=1.5)
    answer = hurried.answer(question("slow", "SLOW gadgets"), Arm.OFF, 1)
    assert "did not end within 2 s" in answer.outage


def test_server_that_went_away_is_an_outage(openwebui: Server, agent: OpenWebUIAgent) -> None:
    openwebui.stop()
    assert "no socket connection" in agent.answer(GADGETS, Arm.ON, 1).outage
    openwebui.start()
    assert agent.answer(GADGETS, Arm.ON, 1).recalled


def test_recorded_run_answers_alike_without_a_server(
    openwebui: Server, agent: OpenWebUIAgent, tmp_path: Path
) -> None:
    recording = OpenWebUIAgent(agent.accounts, agent.chosen, Record(tmp_path, agent.chosen))
    asked = [(one, arm) for one in (GADGETS, WIDGETS, LATER) for arm in ARMS]
    answers = [recording.answer(one, arm, 3) for one, arm in asked]
    again = ReplayedAgent(tmp_path)
    assert [again.answer(one, arm, 3) for one, arm in asked] == answers


def test_accounts_are_made_once_and_a_lost_password_is_reset(
    openwebui: Server, state: Path, tmp_path: Path
) -> None:
    def ids() -> list[str]:
        users = openwebui.admin.ask("GET", "/api/v1/users/all")["users"]
        return sorted(
            one["id"] for one in users if one["email"] in dict(ACCOUNTS.values()).values()
        )

    with asking(openwebui, state):
        first = ids()
        assert len(first) == 2
    assert (state / PASSWORD_FILE).stat().st_mode & 0o077 == 0
    with asking(openwebui, tmp_path) as agent:  # another password than the accounts'
        assert agent.answer(GADGETS, Arm.ON, 1).recalled
    assert ids() == first


def test_plugin_switched_off_is_said_before_the_first_question(
    openwebui: Server, tmp_path: Path
) -> None:
    openwebui.admin.set_valves("functions", PLUGIN, {"recall_enabled": False})
    with pytest.raises(OpenWebUIError, match="recall_enabled"), asking(openwebui, tmp_path):
        pass
    assert not openwebui.provider.chats
