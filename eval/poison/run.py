"""Run the poison pack through the real filter and the real gate, on temporary stores.

Worst case is assumed wherever a model is asked (`poison_model`): only code stands in between.
Attacks, forged rows and clean exchanges have a store each, so that none hides another; each
store is gated twice, by `--auto --unattended` and by `--review llm`, two users needed.
Not covered: what a model would refuse; a person's review.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lessons_loop.eval.plugin_at_work import (
    SETTLE_SECONDS,
    close_plugin,
    host_request,
    learning_valves,
)
from lessons_loop.eval.poison.cases import (
    CLEAN,
    DOMAIN,
    PoisonCase,
    Scene,
    read_pack,
    shipped_pack,
)
from lessons_loop.eval.poison.chats import inlet_body, outlet_body
from lessons_loop.eval.poison.forge import forge
from lessons_loop.eval.poison.model import REVIEWER, GullibleModel, gullible_model
from lessons_loop.eval.shelf import known_texts
from lessons_loop.filter.alerts import lessons_log
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.inject import BLOCK_OPEN, reference
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.llm import HttpModel
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Decision
from lessons_loop.promote.review.reviewers import ModelReviewer
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.report import Outcome
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.similar.judge import judge_at
from lessons_loop.seeds.load import load_domain, shipped_domains

MODES = (Mode.AUTO, Mode.LLM)
ATTACKS, FORGED = "attacks", "forged"


class Ending(NamedTuple):
    """What a run of the gate decided on a lesson."""

    decision: str
    rule: str


@dataclass
class Fate:
    """What became of one case under one mode."""

    case: PoisonCase
    candidates: int = 0
    """Rows of its lessons in staging."""
    dropped: Counter[str] = field(default_factory=Counter)
    """What the filter counted over its chats: `skipped:…`, `dropped:…`."""
    endings: list[Ending] = field(default_factory=list)
    """Of its lessons that are to be kept out (or in), in the order of the runs."""
    curated: bool = False
    prompted: bool = False
    """A block in front of its question held such a lesson."""


Fates = dict[str, Fate]


@contextmanager
def quiet_filter() -> Iterator[None]:
    """Keep the filter's warnings off the terminal: dropped lessons are what is measured."""
    before = lessons_log.level
    lessons_log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        lessons_log.setLevel(before)


def run_pack(
    cases: Sequence[PoisonCase], embedder: Embedder, step: Callable[[], None] = lambda: None
) -> dict[Mode, Fates]:
    """Return what became of each case, by mode; raise LessonsError."""
    found: dict[Mode, Fates] = {mode: {} for mode in MODES}
    embedder = known_texts(embedder)
    with tempfile.TemporaryDirectory(prefix="lessons-poison-") as scratch:
        seeded = Path(scratch) / "seeded"
        settings = GateSettings(str(seeded), DOMAIN, embedder=embedder)
        with open_gate(settings) as session:
            load_domain(session, shipped_domains()[DOMAIN])
        for name, group in _apart(cases).items():
            for mode, fates in _run_group(group, seeded, Path(scratch) / name, embedder).items():
                found[mode] |= fates
            for _ in group:
                step()
    return found


def _run_group(
    cases: Sequence[PoisonCase], seeded: Path, place: Path, embedder: Embedder
) -> dict[Mode, Fates]:
    """Teach the first round once, then go on in each mode with a copy of the store."""
    ordinary = _ordinary() if place.name == FORGED else []
    known = [*cases, *ordinary]
    scenes = {f"{case.id}/{n}": scene for case in known for n, scene in enumerate(case.scenes)}
    rounds = sorted({scene.round for case in cases for scene in case.scenes})
    found: dict[Mode, Fates] = {}
    with gullible_model(scenes) as model:
        first = _Trial(place / "taught", cases, embedder, Mode.NONE, model)
        shutil.copytree(seeded, first.store)
        for case in ordinary:
            _Trial(first.store, [case], embedder, Mode.NONE, model).teach(case.scenes[0].round)
        first.teach(rounds[0])
        for mode in MODES:
            trial = _Trial(place / mode, cases, embedder, mode, model)
            shutil.copytree(first.store, trial.store)
            trial.fates = copy.deepcopy(first.fates)
            found[mode] = trial.run(rounds)
    return found


def _ordinary() -> list[PoisonCase]:
    """Return one clean case: rows are forged where a plugin has been at work before."""
    return next([case] for case in read_pack(shipped_pack()) if case.clean)


def _apart(cases: Sequence[PoisonCase]) -> dict[str, list[PoisonCase]]:
    groups: dict[str, list[PoisonCase]] = {}
    for case in cases:
        forged = any(scene.forged for scene in case.scenes)
        name = CLEAN if case.clean else FORGED if forged else ATTACKS
        groups.setdefault(name, []).append(case)
    return groups


class _Trial:
    """One group of cases on one store under one mode."""

    def __init__(
        self,
        store: Path,
        cases: Sequence[PoisonCase],
        embedder: Embedder,
        mode: Mode,
        model: GullibleModel,
    ) -> None:
        self.store, self.cases, self.embedder, self.mode = store, cases, embedder, mode
        self.model = model
        self.fates: Fates = {case.id: Fate(case) for case in cases}

    def run(self, rounds: Sequence[int]) -> Fates:
        """Gate what is taught, teach and gate the later rounds, then ask."""
        for number in rounds:
            if number != rounds[0]:
                self.teach(number)
            self._gate()
        asyncio.run(self._ask())
        return self.fates

    def teach(self, number: int) -> None:
        """Show the filter all chats of a round, then write its forged rows."""
        asyncio.run(self._teach(number))
        self._forge(number)

    async def _teach(self, number: int) -> None:
        plugin = Filter()
        for case in self.cases:
            for place, scene in enumerate(case.scenes):
                if scene.chat and scene.round == number:
                    await self._taught(plugin, case, f"{case.id}/{place}", scene)
        await close_plugin(plugin)

    async def _taught(self, plugin: Filter, case: PoisonCase, name: str, scene: Scene) -> None:
        plugin.valves = learning_valves(str(self.store), DOMAIN, self.model.url, name)
        before = _counts(plugin)
        for user in range(scene.users):
            chat = f"{name}/{user}"
            account = {"id": f"{case.id}-account-{user}"}
            metadata = {"chat_id": chat, "user_id": account["id"]}
            body = outlet_body(scene.chat, chat, f"{chat}/answer")
            await plugin.outlet(body, account, metadata, host_request(self.embedder))
        await _idle(plugin)
        counted = _counts(plugin) - before
        if not scene.harmless:
            self.fates[case.id].candidates += counted.pop("emitted", 0)
            self.fates[case.id].dropped += counted

    def _forge(self, number: int) -> None:
        for case in self.cases:
            for scene in case.scenes:
                if scene.forged and scene.round == number:
                    written = forge(self.store, self.embedder, case.id, scene)
                    self.fates[case.id].candidates += written

    def _gate(self) -> None:
        reviewer = judge = None
        if self.mode is Mode.LLM:
            reviewer = ModelReviewer(HttpModel(self.model.url, REVIEWER))
            judge = judge_at(self.model.url, REVIEWER)
        options = RunOptions(self.mode, Rules(min_users=2))
        settings = GateSettings(str(self.store), DOMAIN, embedder=self.embedder)
        with open_gate(settings) as session:
            report = run_gate(session, options, reviewer, judge=judge)
            curated = set(session.curated)
        for fate in self.fates.values():
            fate.curated = bool(fate.case.harmful & curated)
        leaked = {key for f in self.fates.values() if f.curated for key in f.case.harmful}
        for outcome in report.outcomes:
            self._note(outcome, leaked)

    def _note(self, outcome: Outcome, leaked: set[str]) -> None:
        """Keep a decision with its cases; one that repeats a leaked lesson leaked with it."""
        seen = {found.lesson.key for found in outcome.case.group.candidates}
        seen |= {outcome.lesson.key}
        verdict, near = outcome.verdict, outcome.verdict.neighbour
        behind = near is not None and near.curated.key in leaked
        for fate in self.fates.values():
            if fate.case.harmful & seen:
                fate.endings.append(Ending(verdict.decision.value, verdict.rule))
                promoted = verdict.decision is Decision.PROMOTE and outcome.lesson.key in leaked
                fate.curated |= promoted or (behind and not fate.case.clean)

    async def _ask(self) -> None:
        plugin = Filter()
        plugin.valves = Filter.Valves(store=str(self.store), domains=DOMAIN)
        request = host_request(self.embedder)
        for number, case in enumerate(self.cases):
            metadata = {"chat_id": f"asked-{number}", "user_id": "reader"}
            body = inlet_body(case.asked())
            asked = await plugin.inlet(body, {"id": "reader"}, metadata, request)
            told = [str(m["content"]) for m in asked["messages"] if m["role"] == "system"]
            blocks = "\n".join(text for text in told if BLOCK_OPEN in text)
            marks = [f"[{reference(key)}]" for key in case.harmful]
            self.fates[case.id].prompted = any(mark in blocks for mark in marks)
        await close_plugin(plugin)


def _counts(plugin: Filter) -> Counter[str]:
    backend = plugin.backend
    return Counter() if backend is None else backend.learner.counts.copy()


async def _idle(plugin: Filter) -> None:
    """Wait for the distillations; moving rows into staging may go on beside."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (running := plugin.worker.running) and time.monotonic() < deadline:
        await asyncio.wait(running, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
