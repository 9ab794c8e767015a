"""The harness's own agent: recall and inject as the product does, any OpenAI-compatible model.

    wire = RecordingWire(HttpWire(url, key), folder)
    agent = HarnessAgent(wire, "model", Shelf(found, embedder), load_tools(file, valves))
    agent.answer(question, Arm.ON, seed)

All arms send the same bytes but for the block of lessons and the seed. Covered: Open WebUI's
native tool loop (results with their call's id, several calls in one reply, unknown tools,
unreadable arguments), system messages joined into one as Open WebUI joins them.
Not covered: streaming, files, Open WebUI's built-in tools; its limit of 256 rounds is 10 here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lessons_loop.eval.agent.reply import Said, Wanted, read_reply
from lessons_loop.eval.agent.tools import ToolBox
from lessons_loop.eval.agent.wire import ChatWire, TimedReply
from lessons_loop.eval.placebo import placebo_for
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.shelf import Shelf
from lessons_loop.eval.trials import Answer, Arm, ToolCall
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.inject import block, inject
from lessons_loop.filter.models import Curated
from lessons_loop.filter.store import first_line
from lessons_loop.filter.transcript import text_of

TOOL_ROUNDS = 10
Message = Mapping[str, Any]


@dataclass
class Course:
    """What came together while one question was being answered."""

    text: str = ""
    model: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    """Spent by model and tools; a replayed reply counts as when it was recorded."""

    def heard(self, said: Said) -> None:
        """Take over what one completion said and cost."""
        self.text = said.text or self.text
        self.model = said.model or self.model
        self.tokens_in += said.tokens_in
        self.tokens_out += said.tokens_out

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the block's time."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - started


class HarnessAgent:
    """Answers questions with a model, tools and lessons; may be asked from several threads."""

    def __init__(
        self,
        wire: ChatWire,
        model: str,
        shelf: Shelf | None,
        tools: ToolBox | None,
        system: str = "",
    ) -> None:
        self.name = f"{model} at {wire.name}"
        self._wire, self._model = wire, model
        self._shelf, self._tools, self._system = shelf, tools, system

    @property
    def notes(self) -> tuple[str, ...]:
        """What an administrator should know after a run."""
        return self._wire.notes

    def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
        """Answer one question; trouble with the model or recall is an `outage`."""
        course, outage = Course(model=self._model), ""
        lessons: tuple[Curated, ...] = ()
        try:
            lessons = self._lessons(question.messages, arm, seed)
            self._converse(self._first_request(question.messages, lessons, seed), course)
        except LessonsError as error:
            outage = first_line(error, 400)
        return Answer(
            text="" if outage else course.text,
            calls=tuple(course.calls),
            recalled=tuple(one.key for one in lessons),
            tokens_in=course.tokens_in,
            tokens_out=course.tokens_out,
            seconds=round(course.seconds, 4),
            model=course.model,
            outage=outage,
        )

    def _lessons(self, messages: Sequence[Message], arm: Arm, seed: int) -> tuple[Curated, ...]:
        if self._shelf is None or arm not in (Arm.ON, Arm.PLACEBO):
            return ()
        found = self._shelf.recalled(messages)
        return placebo_for(found, seed) if arm is Arm.PLACEBO else found

    def _first_request(
        self, messages: Sequence[Message], lessons: Sequence[Curated], seed: int
    ) -> dict[str, Any]:
        own = [{"role": "system", "content": self._system}] if self._system else []
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [*own, *messages],
            "stream": False,
            "seed": seed,
        }
        if self._tools is not None and self._tools.specs:
            body["tools"] = self._tools.specs
        if lessons:
            body = inject(body, block(lessons))
        return body | {"messages": one_system_message(body["messages"])}

    def _converse(self, body: dict[str, Any], course: Course) -> None:
        """Ask, run the tools the model wants, ask again; raise ModelError."""
        for turn in range(TOOL_ROUNDS + 1):
            with course.timed():
                reply = self._wire.post(body)
            course.seconds += reply.seconds if isinstance(reply, TimedReply) else 0.0
            said = read_reply(reply, turn)
            course.heard(said)
            if not said.calls or turn == TOOL_ROUNDS:
                return
            results = [self._tool_message(call, course) for call in said.calls]
            body = body | {"messages": [*body["messages"], asking(said), *results]}

    def _tool_message(self, call: Wanted, course: Course) -> dict[str, Any]:
        if self._tools is None:
            result, failed = f'Error: there is no tool "{call.name}".', True
        else:
            with course.timed():
                result, failed = self._tools.call(call.name, call.arguments)
        course.calls.append(
            ToolCall(tool=call.name, arguments=call.arguments, result=result, failed=failed)
        )
        return {"role": "tool", "tool_call_id": call.id, "content": result}


def asking(said: Said) -> dict[str, Any]:
    """Return the assistant's message that wants tools, as it goes back to the model."""
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in said.calls
    ]
    return {"role": "assistant", "content": said.text, "tool_calls": calls}


def one_system_message(messages: Sequence[Message]) -> list[Message]:
    """Join all system messages at the beginning: some chat templates take just one, there."""
    texts = [text_of(one.get("content")) for one in messages if one.get("role") == "system"]
    rest = [one for one in messages if one.get("role") != "system"]
    told = "\n".join(filter(None, texts))
    return [{"role": "system", "content": told}, *rest] if told else rest
