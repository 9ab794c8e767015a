"""Open WebUI itself as the agent: each question in a temporary chat of an evaluation account.

Asked as the web page asks, because only then Open WebUI carries out tool calls itself; on a
page of its own per question, so that nothing of one is left for the next. Covered: arms off, on
and off again are two accounts that differ in the user valve `use_lessons`; nothing is stored, no
event and no candidate is left. Not covered: the page's other switches (web search, code
interpreter, memory), which stay off; tools called by prompt (legacy function calling).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lessons_loop.deploy.evaluation.openwebui_accounts import open_accounts, signed_in_admin
from lessons_loop.deploy.evaluation.openwebui_checks import Chosen, choose, require_plugin
from lessons_loop.deploy.evaluation.openwebui_read import kept, read_answer
from lessons_loop.deploy.evaluation.openwebui_record import Record
from lessons_loop.deploy.webui.browser import Browser, Turn, open_browser
from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.deploy.webui.install import connect, open_webui_version
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Answer, Arm
from lessons_loop.filter.address import public_url

ANSWER_SECONDS = 300.0
"""Longest time one answer may take: a large model on a CPU thinks for minutes."""
NO_PLACEBO = (
    "an Open WebUI knows no placebo: its plugin reads one store for everybody; leave the arm out,"
    " or use the harness agent (--agent-url), which asks with a copied store"
)


@dataclass(frozen=True)
class Target:
    """The Open WebUI to ask, and who may prepare it."""

    url: str
    model: str = ""
    """Empty: the only one the accounts see."""
    tools: tuple[str, ...] | None = None
    """Ids of tools; None: the model's own, as the web page switches them on."""
    system: str = ""
    """A system prompt of the chat, in front of the lessons."""
    admin_email: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    """An admin's; else the admin signs in with address and password."""
    seconds: float = ANSWER_SECONDS


class OpenWebUIAgent:
    """Asks as accounts; each call opens and closes a page of its own, from whatever thread."""

    def __init__(
        self,
        accounts: Mapping[Arm, OpenWebUI],
        chosen: Chosen,
        record: Record | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.accounts = dict(accounts)
        self.accounts.setdefault(Arm.OFF_AGAIN, accounts[Arm.OFF])
        self.chosen, self.record, self.seconds = chosen, record, seconds
        self.name = f"{chosen.model} in Open WebUI at {public_url(accounts[Arm.OFF].url)}"

    def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
        """Ask one question in a new temporary chat; trouble on the way is an `outage`."""
        began = time.monotonic()
        told: list[dict[str, Any]] = []
        try:
            turn, spent = asyncio.run(self._asked(question, self.accounts[arm], seed))
        except OpenWebUIError as error:
            spent = round(time.monotonic() - began, 3)
            answer = Answer(outage=str(error), seconds=spent, model=self.chosen.model)
        else:
            told = kept(turn.events, turn.message_id)
            answer = read_answer(told, spent, self.chosen.model)
        if self.record is not None:
            self.record.add(question, arm, seed, told, answer)
        return answer

    async def _asked(
        self, question: EvalQuestion, account: OpenWebUI, seed: int
    ) -> tuple[Turn, float]:
        """Return the ended turn and its seconds; raise OpenWebUIError."""
        client = OpenWebUI(account.url, token=account.token, seconds=account.seconds)
        async with open_browser(client) as page:
            began = time.monotonic()
            mark = page.received
            turn = await page.say(
                self.chosen.model,
                str(question.messages[-1]["content"]),
                None,
                wait=False,
                temporary=True,
                extra=self._body(question, seed),
            )
            if turn.refused:
                raise OpenWebUIError(f"Open WebUI refused the question: {turn.refused}")
            await self._ended(page, turn, mark)
            return turn, time.monotonic() - began

    async def _ended(self, page: Browser, turn: Turn, mark: int) -> None:
        try:
            await page.until(turn, lambda turn: turn.ended, mark, self.seconds)
        except OpenWebUIError:
            with suppress(OpenWebUIError):  # else the model goes on for nobody
                await asyncio.to_thread(page.client.stop_chat, turn.chat_id)
            raise

    def _body(self, question: EvalQuestion, seed: int) -> dict[str, Any]:
        """Return what stands in the request beside what the page always sends."""
        system = [{"role": "system", "content": self.chosen.system}] if self.chosen.system else []
        return {
            "messages": [*system, *question.messages],
            "tool_ids": list(self.chosen.tools),
            "params": {"seed": seed},
            "background_tasks": {},
            "stream_options": {"include_usage": True},
        }


@contextmanager
def openwebui_agent(
    target: Target, state: Path, folder: Path | None, arms: Sequence[Arm]
) -> Iterator[OpenWebUIAgent]:
    """Yield the agent of an Open WebUI that is ready for it; raise OpenWebUIError with one line.

    `state` keeps the accounts' password, `folder` gets what is asked and answered.
    """
    if Arm.PLACEBO in arms:
        raise OpenWebUIError(NO_PLACEBO)
    client = _reached(target)
    admin = signed_in_admin(client, target.admin_email, target.password)
    plugin = require_plugin(admin)
    accounts = open_accounts(admin, state, plugin)
    chosen = choose(admin, accounts[Arm.ON], plugin, target.model, target.tools, target.system)
    record = Record(folder, chosen) if folder is not None else None
    yield OpenWebUIAgent(accounts, chosen, record, target.seconds)


def _reached(target: Target) -> OpenWebUI:
    """Return the client of an Open WebUI that answers; raise OpenWebUIError naming our option."""
    try:
        client = connect(target.url, target.token)
        open_webui_version(client)
    except OpenWebUIError as error:
        raise type(error)(str(error).replace("--url", "--openwebui")) from None
    return client
