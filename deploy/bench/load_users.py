"""Many people with open chats: they think, ask, read a streamed answer and ask on.

Each question is asked twice, by the same person in two chats of his: one on the model that has
the plugin, one on the model that has not, in random order. Covered: chats of several turns,
questions that lessons fit and questions that none fits, turns whose tool result proves something.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import aiohttp

from lessons_loop.deploy.bench.lessons import Words
from lessons_loop.deploy.bench.load_provider import PROVEN
from lessons_loop.deploy.bench.load_stack import WITH, WITHOUT

TURNS = 4
CHAT_SECONDS = 120.0
"""After which a chat has failed."""
_TOLD = re.compile(r"lessons=(\S*) worker=(\d+)")
CHATTER = ("Write me a poem about rain.", "Good morning!", "Translate 'window' into Danish.")
Json = dict[str, Any]


class Asked(NamedTuple):
    """One question and how it went."""

    user: int
    pair: int
    """The same for both chats of a person that were asked this question."""
    plugin: bool
    began: float
    """Monotonic seconds."""
    first: float = 0.0
    """Seconds to the first content."""
    whole: float = 0.0
    """Seconds to the end of the answer."""
    lasted: float = 0.0
    """Seconds until it was over, whole or failed."""
    failed: str = ""
    """Why there is no whole answer; `connection` where it was cut off from outside."""
    lessons: tuple[str, ...] = ()
    """References of the lessons the model was given."""
    worker: int = 0


class Crowd:
    """People at work; `asked` grows until `leave` is called."""

    def __init__(
        self, url: str, token: str, topics: Sequence[Words], *, users: int, think: float, seed: int
    ) -> None:
        self.url, self.topics, self.users, self.think = url, list(topics), users, think
        self.random = random.Random(seed)
        self.asked: list[Asked] = []
        self.plugin_too = True
        """Whether chats on the model with the plugin are held."""
        self._headers = {"Authorization": f"Bearer {token}"}
        self._http: aiohttp.ClientSession | None = None
        self._people: list[asyncio.Task[None]] = []

    async def arrive(self) -> None:
        """Let everybody begin; must be called on the loop they live on."""
        # a connection per question: else each person stays with one worker
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        self._http = aiohttp.ClientSession(connector=connector, headers=self._headers)
        make = asyncio.get_running_loop().create_task
        self._people = [make(self._person(number)) for number in range(self.users)]

    async def leave(self) -> None:
        """Let everybody go."""
        for person in self._people:
            person.cancel()
        await asyncio.gather(*self._people, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    async def _person(self, user: int) -> None:
        chance = random.Random(self.random.random())
        await asyncio.sleep(chance.uniform(0, self.think))
        pair = 0
        while True:
            chats: dict[bool, list[Json]] = {True: [], False: []}
            for turn in range(TURNS):
                asking = self._question(chance, proves=turn == TURNS - 1 and chance.random() < 0.3)
                for plugin in chance.sample([True, False], 2):
                    if plugin and not self.plugin_too:
                        continue
                    await asyncio.sleep(min(4 * self.think, chance.expovariate(1 / self.think)))
                    chats[plugin] += asking
                    answer = await self.ask(user, pair, plugin, chats[plugin])
                    chats[plugin].append({"role": "assistant", "content": answer})
                pair += 1

    def _question(self, chance: random.Random, *, proves: bool) -> list[Json]:
        """Return what a person says; with a tool's call and result where it proves something."""
        if proves:
            return counted_crates()
        if chance.random() < 0.25:
            return [{"role": "user", "content": chance.choice(CHATTER)}]
        lesson = chance.choice(self.topics).lesson()
        return [{"role": "user", "content": f"What about {lesson.trigger}?"}]

    async def ask(self, user: int, pair: int, plugin: bool, messages: list[Json]) -> str:
        """Ask once, note how it went; return the answer, empty where it failed."""
        asked = Asked(user, pair, plugin, time.monotonic())
        reading = Reading(asked.began)
        failed = ""
        try:
            async with asyncio.timeout(CHAT_SECONDS):
                await self._read(plugin, messages, reading)
        except TimeoutError:
            failed = "time limit"
        except (aiohttp.ClientError, OSError):
            failed = "connection"
        self.asked.append(reading.outcome(asked, failed))
        return reading.text

    async def _read(self, plugin: bool, messages: list[Json], reading: Reading) -> None:
        assert self._http is not None
        model = WITH if plugin else WITHOUT
        body = {"model": model, "messages": messages, "stream": True}
        async with self._http.post(f"{self.url}/api/chat/completions", json=body) as answer:
            if answer.status != 200:
                reading.error = f"HTTP {answer.status}"
                return
            async for line in answer.content:
                reading.take(line)


class Reading:
    """A streamed answer as far as it was read."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.text, self.error = "", ""
        self.first = self.whole = 0.0

    def take(self, line: bytes) -> None:
        """Read one line."""
        if not line.startswith(b"data: "):
            return
        if line.startswith(b"data: [DONE]"):
            self.whole = time.monotonic() - self.began
            return
        event = json.loads(line[6:])
        if event.get("error"):
            self.error = "error event"
        choices = event.get("choices") or [{}]
        content = (choices[0].get("delta") or {}).get("content")
        if content and not self.text:
            self.first = time.monotonic() - self.began
        self.text += content or ""

    def outcome(self, asked: Asked, failed: str) -> Asked:
        """Return how it went."""
        asked = asked._replace(lasted=time.monotonic() - self.began)
        told = _TOLD.search(self.text)
        if told is None:
            return asked._replace(failed=failed or self.error or "empty answer")
        return asked._replace(
            first=self.first,
            whole=self.whole,
            failed=failed or self.error or ("" if self.whole else "cut off"),
            lessons=tuple(filter(None, told[1].split(","))),
            worker=int(told[2]),
        )


def counted_crates() -> list[Json]:
    """Return a question, a tool's call and its result, as a client with its own tools sends it.

    Of API chats Open WebUI shows plugins no calls, so what is advised stands in the question.
    """
    function = {"name": "run_sql", "arguments": json.dumps({"table": PROVEN})}
    call = {"id": "call_1", "type": "function", "function": function}
    result = {"columns": ["crates"], "rows": [[1204]], "table": PROVEN}
    return [
        {"role": "user", "content": f"Please count the crates in table {PROVEN}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(result)},
    ]
