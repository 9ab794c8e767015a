"""`lessons demo`: the whole loop through a real Open WebUI, every step observed, told as a story.

Covered: that a lesson learned in one chat reaches the model in the next one, through the
gate, with the evidence for each step. Not covered: whether lessons help a language model: a
script stands in for the model, or a real one is seen in two chats, which proves nothing either.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from lessons_loop.deploy.doctor.models import ask_model
from lessons_loop.deploy.local.demo_thumb import thumb_up, wait_until_moved
from lessons_loop.deploy.local.home import Home
from lessons_loop.deploy.local.installation import TOOL_ID, Options, Running, local_run
from lessons_loop.deploy.local.recorder import Endpoint, recording
from lessons_loop.deploy.local.sources import Models
from lessons_loop.deploy.local.story import Story
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.webui.browser import TURN_SECONDS, Turn, open_browser
from lessons_loop.deploy.webui.exchange import Exchange, read_exchange
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.inject import lesson_line
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import read_published
from lessons_loop.filter.reader import REFRESH_SECONDS

DOMAIN = "sql"
FIRST = "How many operating hours did machine SN-004711 run over the trailing 12 months?"
SECOND = "How many operating hours did machine SN-000815 run over the trailing 12 months?"
PATIENT = {"recall_timeout_ms": 15_000}
"""On a busy machine the embedding model may need seconds; the demo is no speed test."""
SLOW_SECONDS = 300.0
"""For a real model, maybe on a CPU."""
CANDIDATE_SECONDS = 60.0
COMMAND_SECONDS = 120.0
Json = dict[str, Any]


class NotObserved(LessonsError):
    """A step of the loop did not happen."""


@dataclass
class Observations:
    """The steps seen so far, in order."""

    seen: list[str] = field(default_factory=list)
    model: str = ""
    """The real model, where one stood in: it may answer otherwise than the loop needs."""

    def require(self, holds: object, step: str) -> None:
        """Record a step; raise NotObserved when it did not happen."""
        if not holds:
            real = f" (with {self.model}; try again, or without --model-url)" if self.model else ""
            raise NotObserved(f"step not observed: {step}{real}")
        self.seen.append(step)


def run_demo(*, as_json: bool, endpoint: Endpoint | None = None) -> None:
    """Run the loop in a folder of its own and tell it; raise LessonsError for a missing step.

    With an endpoint its model stands where the practice model stood.
    """
    stages = Stages()
    model = endpoint.label if endpoint else ""
    story = Story(quiet=as_json, model=model)
    seen = Observations(model=model)
    with tempfile.TemporaryDirectory(prefix="lessons-demo-") as folder, ExitStack() as stack:
        options = stack.enter_context(chosen_model(Path(folder), endpoint, stages))
        story.opening()
        with local_run(options, stages) as running:
            figures = drive(running, stages, story, seen)
    if as_json:
        stood_in = {"model": model or "practice-model (a script, not an LLM)"}
        content = stood_in | figures | {"observed": seen.seen}
        print(json.dumps(content, indent=2, ensure_ascii=False))


@contextmanager
def chosen_model(folder: Path, endpoint: Endpoint | None, stages: Stages) -> Iterator[Options]:
    """Yield what to run: the practice model, or an endpoint that answers; raise ModelError."""
    plain = Options(folder, domains=DOMAIN, seeds=False, always_practice=True, valves=PATIENT)
    if endpoint is None:
        yield plain
        return
    with stages.stage("asking the model for a word", "the model answers"):
        ask_model(endpoint.url, endpoint.model, endpoint.key, SLOW_SECONDS)
    with recording(endpoint, Home(folder.resolve()).requests_log) as recorder:
        models = Models(endpoint.label, recorder.url, "none")
        slow = {"distill_timeout_s": int(SLOW_SECONDS)}
        yield replace(plain, models=models, valves={**PATIENT, **slow})


def drive(running: Running, stages: Stages, story: Story, seen: Observations) -> Json:
    """Go round the loop once; return the closing figures."""
    seen.require(curated(running) == (), "the store was empty at the start")
    story.chapter("1. A question, without lessons")
    first = ask(running, FIRST, stages)
    story.exchange(first)
    check_first(first, seen)
    story.chapter("2. What the exchange proved becomes a candidate")
    candidate = wait_for_candidate(running, stages, seen)
    story.candidate(candidate, gate(running, "show", candidate["id"]))
    story.chapter("3. The gate judges it")
    with stages.stage("judging", "the gate has judged"):
        report = json.loads(gate(running, *review(running), "--json"))
    story.verdicts(report, review(running))
    lesson = check_promoted(running, candidate, seen)
    story.chapter("4. The same class of question, another machine, a new chat")
    with stages.stage("waiting for recall to read it", "recall has read what the gate published"):
        time.sleep(REFRESH_SECONDS + 2)
    second = ask(running, SECOND, stages)
    story.exchange(second)
    check_second(first, second, lesson, seen)
    rate(running, stages, story, seen)
    story.chapter("6. The ledger")
    story.plain("$ lessons verify", 2)
    story.plain(gate(running, "verify", embed=False), 4)
    seen.require(True, "the ledger verifies")
    story.closing(first, second, lesson.lesson.text)
    return {"first": figures(first, lesson), "second": figures(second, lesson)}


def rate(running: Running, stages: Stages, story: Story, seen: Observations) -> None:
    """Give the second answer a thumb and let the gate count it."""
    story.chapter("5. The user liked the answer: thumb up, and the lesson's record has it")
    with stages.stage("waiting for the thumb to be noted", "the thumb was noted"):
        thumb_up(running.admin)
        moved = wait_until_moved(running.home.store)
    seen.require(moved, "the thumb reached staging")
    gate(running, "confirm", embed=False)
    with stages.stage("counting", "the gate has counted"):
        gate(running, "promote", "--unattended")
    (lesson,) = curated(running)
    story.line(
        "record", f"{lesson.hits} use, {lesson.successes} went well, {lesson.failures} badly"
    )
    seen.require((lesson.hits, lesson.successes) == (1, 1), "the lesson's record has the thumb")


def ask(running: Running, question: str, stages: Stages) -> Exchange:
    """Ask in a new chat as the web page does; return what can be seen of it."""
    model = running.admin.model_ids()[0]

    async def in_page() -> Turn:
        async with open_browser(running.admin) as browser:
            turn = await browser.ask(model, question, tool_ids=[TOOL_ID], wait=False)
            if not turn.refused:
                await browser.until(turn, lambda turn: turn.ended, seconds=patience(running))
                await asyncio.sleep(2)  # sources are emitted behind the answer
                await browser.until(turn, lambda turn: turn.ended)
            return turn

    with stages.stage("chatting", "the chat has ended"):
        turn = asyncio.run(in_page())
    if turn.refused:
        raise NotObserved(f"step not observed: Open WebUI took the question ({turn.refused})")
    message = running.admin.stored_message(turn.chat_id, turn.message_id)
    return read_exchange(question, turn, message, running.home.requests_log)


def patience(running: Running) -> float:
    """Return the seconds a chat, a distillation, a review may take."""
    return TURN_SECONDS if running.models.practice else SLOW_SECONDS


def check_first(first: Exchange, seen: Observations) -> None:
    """Require a refused query and a changed one that worked."""
    refused = [call.arguments for call in first.calls if call.refused]
    worked = [call.arguments for call in first.calls if not call.refused]
    seen.require(refused, "first chat: a query was refused")
    seen.require(set(worked) - set(refused), "first chat: a changed query worked")
    seen.require(first.answer, "first chat: the question was answered")
    seen.require(first.system, "first chat: the provider was asked")


def wait_for_candidate(running: Running, stages: Stages, seen: Observations) -> Json:
    """Wait until the finished chat has left a candidate in staging; return it."""
    deadline = time.monotonic() + max(CANDIDATE_SECONDS, patience(running))
    found: list[Json] = []
    with stages.stage("waiting for the candidate", "the finished chat was distilled"):
        while not found and time.monotonic() < deadline:
            found = listed(running)
            time.sleep(0 if found else 1)
    seen.require(found, "a candidate with evidence reached staging")
    return found[0]


def listed(running: Running) -> list[Json]:
    """Return the candidates in staging, as `lessons candidates --json` lists them."""
    content = json.loads(gate(running, "candidates", "--json", embed=False))
    return list(content["candidates"] if isinstance(content, dict) else content)


def review(running: Running) -> list[str]:
    """Return the gate's command: reviewed by the practice model, one user is enough here."""
    model = ["--llm-url", running.models.url, "--llm-model", running.admin.model_ids()[0]]
    return ["promote", "--review", "llm", *model, "--min-users", "1"]


def gate(running: Running, *arguments: str, embed: bool = True) -> str:
    """Run a `lessons` command on this store; return what it printed, raise NotObserved.

    Without `embed` it is spared loading the model (seconds).
    """
    command = [sys.executable, "-m", "lessons_loop.deploy.cli", *arguments]
    env = running.environment | {
        "LESSONS_DOMAIN": DOMAIN,
        "COLUMNS": str(columns()),
        "NO_COLOR": "1",
    }
    env |= {"LESSONS_LLM_API_KEY": running.models.key} | (
        {} if embed else {"LESSONS_EMBEDDING": ""}
    )
    seconds = max(COMMAND_SECONDS, patience(running))
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotObserved(f"lessons {arguments[0]} did not end in {seconds:.0f} s") from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise NotObserved(f"lessons {arguments[0]} failed: {' '.join(reason)}")
    return done.stdout


def columns() -> int:
    """Return the columns a command's output may have: it is shown indented by four."""
    return max(40, Console().width - 4)


def curated(running: Running) -> tuple[Curated, ...]:
    """Return the curated lessons as recall reads them."""
    found = read_published(running.home.store.published(DOMAIN))
    return found.lessons if found else ()


def check_promoted(running: Running, candidate: Json, seen: Observations) -> Curated:
    """Require that the candidate moved from staging to curated."""
    left = [entry["id"] for entry in listed(running)]
    seen.require(candidate["id"] not in left, "the candidate is gone from staging")
    found = [entry for entry in curated(running) if entry.lesson.text == candidate["text"]]
    seen.require(found, "curated has the lesson")
    return found[0]


def check_second(first: Exchange, second: Exchange, lesson: Curated, seen: Observations) -> None:
    """Require that the lesson reached the provider, in the second chat only, and helped."""
    line = lesson_line(lesson)
    seen.require(
        not any(line in text for text in first.system), "first chat: no lesson in the prompt"
    )
    seen.require(
        second.system and all(line in text for text in second.system),
        "second chat: the provider received the lesson",
    )
    seen.require(second.status and second.sources, "second chat: the user saw which lesson")
    seen.require(second.calls and not second.refused, "second chat: no query was refused")
    seen.require(len(second.calls) < len(first.calls), "second chat: fewer tool calls")


def figures(exchange: Exchange, lesson: Curated) -> Json:
    """Return what the closing table shows of one chat."""
    return {
        "tool_calls": len(exchange.calls),
        "refused": exchange.refused,
        "lesson_in_prompt": any(lesson_line(lesson) in text for text in exchange.system),
    }
