"""Prompt-prefix stability: how much of a request the next one of the chat repeats.

A provider's prompt cache reuses the longest common start of two requests. Each chat
goes through the real filter (inlet and request hook), with the shipped seeds and
MiniLM, and is put together as Open WebUI 0.12.4 sends it: system messages merged in
front. Beside it stands how often the block holds the best lesson for the turn: a
block that never changed would keep every prefix and serve nobody. Covered: bytes of
the messages. Not covered: tool definitions, which stand in front of them and never
change, and what a provider's cache makes of the bytes.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict

from lessons_loop.deploy.bench.figures import Figure, single, spread
from lessons_loop.eval.judgements.packaged import evaluation_embedder
from lessons_loop.filter.embed import Embedder, Purpose, Vectors, fingerprint
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.models import Curated
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.store.publish import Edition, publish
from lessons_loop.seeds.load import read_seeds, shipped_domains

DOMAIN = "sql"
LESSON = re.compile(r"^- \[(\w+)\] Trigger: ", re.MULTILINE)
"""A lesson's line in the block."""
Message = dict[str, Any]
Messages = list[Message]
PROMPT = (
    "You are the assistant of the service department. Answer briefly and in the language of "
    "the question. Use the tool run_sql for figures and never guess one. Say which tables a "
    "figure comes from. Amounts are in euros, times in UTC. Ask back when a question can be "
    "read in two ways. Never show personal names of technicians. "
) * 3


class BenchChat(BaseModel):
    """One chat of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: str
    """`stays` with its subject, or `wanders`."""
    tools: bool
    turns: tuple[str, ...]


class Sent(NamedTuple):
    """What the provider was sent for one chat, request by request."""

    chat: BenchChat
    requests: list[bytes]
    best_shown: Sequence[bool] = ()
    """Of each turn that any lesson fits: whether the block holds the best one."""


class PrefixBench:
    """The filter on a store with the shipped lessons."""

    def __init__(self, root: Path, embedder: Embedder) -> None:
        self.embedder = embedder
        publish_seeds(root, embedder)
        self.plugin, self.nearest = Filter(), Filter()
        settings = {"store": str(root), "domains": DOMAIN, "recall_timeout_ms": 20_000}
        self.plugin.valves = Filter.Valves.model_validate(settings)
        self.nearest.valves = Filter.Valves.model_validate(settings | {"top_k": 1})
        state = SimpleNamespace(EMBEDDING_FUNCTION=self._embed, MODELS={})
        self.request = SimpleNamespace(app=SimpleNamespace(state=state))

    async def _embed(self, query: list[str], prefix: object = None) -> Vectors:
        return self.embedder.embed(query, Purpose.QUERY)

    async def hold(self, chat: BenchChat, name: str, *, lessons: bool) -> Sent:
        """Hold the chat; without `lessons` the filter is left out."""
        history: Messages = [{"role": "system", "content": PROMPT}]
        requests: list[bytes] = []
        best_shown: list[bool] = []
        for number, question in enumerate(chat.turns):
            history.append({"role": "user", "content": question})
            metadata: dict[str, Any] = {"chat_id": name, "user_message": history[-1]}
            body: dict[str, Any] = {"model": "m", "messages": list(history)}
            if lessons:
                best = await self._best(body, metadata)
                body = await self.plugin.inlet(
                    body=body, __metadata__=metadata, __request__=self.request
                )
                best_shown += [best <= named_in(body)] if best else []
            for reply in replies(question, number, tools=chat.tools):
                if lessons:
                    body = await self.plugin.request(body=body, __metadata__=metadata)
                body["messages"] = merged(body["messages"])
                requests.append(serialised(body["messages"]))
                body["messages"] += reply
                history += reply
        return Sent(chat, requests, best_shown)

    async def _best(self, body: dict[str, Any], metadata: Mapping[str, Any]) -> set[str]:
        """Return the one lesson that fits best, asked as if the chat had been shown none."""
        unknown = {"user_message": metadata["user_message"]}
        asked = await self.nearest.inlet(
            body=dict(body), __metadata__=unknown, __request__=self.request
        )
        return named_in(asked)


def named_in(body: Mapping[str, Any]) -> set[str]:
    """Return the references of the lessons in a request."""
    system = [str(m["content"]) for m in body["messages"] if m["role"] == "system"]
    return set(LESSON.findall("\n".join(system)))


def publish_seeds(root: Path, embedder: Embedder) -> None:
    """Publish the shipped lessons as the gate does."""
    seeds = read_seeds(shipped_domains()[DOMAIN], DOMAIN).seeds
    lessons = [Curated(lesson=seed.lesson, since="2026-11-01T00:00:00Z") for seed in seeds]
    vectors = embedder.embed([one.lesson.embedded_text for one in lessons], Purpose.DOCUMENT)
    edition = Edition(DOMAIN, 1, lessons, vectors, fingerprint(embedder))
    publish(StorePaths(root).published(DOMAIN), edition, embedder)


def replies(question: str, number: int, *, tools: bool) -> Iterator[Messages]:
    """Yield what is appended after each request of a turn: a tool round first, then the answer."""
    if tools:
        arguments = json.dumps({"sql": f"select * from answer_{number} -- {question}"})
        function = {"name": "run_sql", "arguments": arguments}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        rows = json.dumps({"rows": [[f"row {i}", number * 100 + i] for i in range(20)]})
        yield [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": rows},
        ]
    answer = f"Regarding your question ({question}): " + "the figures are in the table below. " * 12
    yield [{"role": "assistant", "content": answer}]


def merged(messages: Sequence[Message]) -> Messages:
    """Merge all system messages in front, as Open WebUI does before it asks the provider."""
    system = [str(m["content"]) for m in messages if m["role"] == "system"]
    rest = [m for m in messages if m["role"] != "system"]
    return [{"role": "system", "content": "\n".join(system)}, *rest] if system else rest


def serialised(messages: Sequence[Message]) -> bytes:
    """Return the messages' bytes, one after another: no bracket ends the list."""
    return "\n".join(json.dumps(message, ensure_ascii=False) for message in messages).encode()


def repeated(requests: Sequence[bytes]) -> tuple[int, int]:
    """Return how many bytes the next requests repeat from the start, and of how many."""
    kept = sum(common_start(one, later) for one, later in pairwise(requests))
    return kept, sum(map(len, requests[:-1]))


def common_start(one: bytes, other: bytes) -> int:
    """Return how many bytes two requests have in common from the start."""
    length = min(len(one), len(other))
    left, right = (np.frombuffer(text[:length], np.uint8) for text in (one, other))
    different = np.flatnonzero(left != right)
    return int(different[0]) if different.size else length


def share(chats: Sequence[Sent]) -> float:
    """Return the share of all requests' bytes, in percent, that the next request repeats."""
    counted = [repeated(sent.requests) for sent in chats]
    return 100 * sum(kept for kept, _ in counted) / max(1, sum(total for _, total in counted))


def bench_chats() -> list[BenchChat]:
    """Return the shipped chats."""
    text = (files("lessons_loop.deploy.bench") / "chats.yaml").read_text("utf-8")
    return [BenchChat.model_validate(row) for row in yaml.safe_load(text)]


async def hold_all(bench: PrefixBench, chats: Sequence[BenchChat]) -> tuple[list[Sent], list[Sent]]:
    """Hold every chat without and with lessons."""
    without = [await bench.hold(chat, chat.name, lessons=False) for chat in chats]
    given = [await bench.hold(chat, chat.name, lessons=True) for chat in chats]
    return without, given


def prefix_figures(
    chats: Sequence[BenchChat] | None = None, embedder: Embedder | None = None
) -> list[Figure]:
    """Return the shares without and with lessons, per kind of chat and together."""
    with tempfile.TemporaryDirectory() as folder:
        bench = PrefixBench(Path(folder), embedder or evaluation_embedder(""))
        without, given = asyncio.run(hold_all(bench, chats or bench_chats()))
    figures = []
    for kind in sorted({sent.chat.kind for sent in given}):
        figures += compared(f"subject {kind}", without, given, kind)
    return figures + compared("all chats", without, given, "")


def compared(name: str, without: Sequence[Sent], given: Sequence[Sent], kind: str) -> list[Figure]:
    """Return lowest, median and highest chat, and the share of all bytes beside that without."""
    pairs = [(a, b) for a, b in zip(without, given, strict=True) if kind in a.chat.kind]
    plain, ours = [a for a, _ in pairs], [b for _, b in pairs]
    low = 100 * share(ours) / share(plain)
    return [
        spread(f"prefix kept, {name}: per chat", [share([sent]) for sent in ours], unit="%"),
        spread("  without lessons", [share([sent]) for sent in plain], unit="%"),
        single("  all bytes, of that without", low, ">= 95", "%", len(pairs)),
        *coverage(ours),
    ]


def coverage(given: Sequence[Sent]) -> list[Figure]:
    """Return on how many of the turns with a fitting lesson the block held the best one."""
    held = [shown for sent in given for shown in sent.best_shown]
    if not held:
        return []
    low = 100 * sum(held) / len(held)
    return [single("  turns with the best lesson shown", low, unit="%", runs=len(held))]
