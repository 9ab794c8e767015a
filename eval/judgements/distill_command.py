"""`lessons eval distill`: ask a model about labelled exchanges and score what it distills."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lessons_loop.promote.options import AsJson, LlmKey, LlmModel, LlmUrl

if TYPE_CHECKING:
    from lessons_loop.eval.judgements.distilling import Distilled, LabelledExchange
    from lessons_loop.eval.showing import Step
    from lessons_loop.filter.llm import HttpModel

CONCURRENT = 4
"""Exchanges asked about at a time."""
FAILURES_IN_A_ROW = 3
"""Exchanges without an answer, none answered between, after which it is an outage."""
Exchanges = Annotated[
    Path,
    typer.Option(
        "--exchanges",
        help="JSON Lines: id, category, messages, label (should_emit, key_facts, forbidden).",
        show_default=False,
    ),
]
Seconds = Annotated[float, typer.Option(min=1, max=600, help="Seconds one answer may take.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("distill", short_help="What a model distills from labelled exchanges.")(distill)


def distill(
    exchanges: Exchanges,
    llm_url: LlmUrl = "",
    llm_model: LlmModel = "",
    llm_api_key: LlmKey = "",
    llm_timeout: Seconds = 60.0,
    as_json: AsJson = False,
) -> None:
    """Distill labelled exchanges as the filter does, and score the lessons.

    The label says how many lessons an exchange is worth (should_emit), which facts they must
    hold (a|b: either) and which strings none may hold. Default valves. Exit code 1 when
    exchanges stayed unanswered: an outage is no verdict.

    Example: lessons eval distill --exchanges exchanges.jsonl --llm-url URL --llm-model NAME
    """
    if not (llm_url.strip() and llm_model.strip()):
        raise typer.BadParameter("eval distill needs --llm-url and --llm-model")
    from lessons_loop.eval.judgements.distilling import parse_exchange, score_distilling
    from lessons_loop.eval.rows import read_rows
    from lessons_loop.eval.showing import print_figures, progress_bar
    from lessons_loop.filter.errors import ModelError
    from lessons_loop.filter.llm import HttpModel

    rows = read_rows(exchanges, parse_exchange)
    model = HttpModel(llm_url, llm_model, llm_api_key, llm_timeout)
    with progress_bar("distilling", len(rows)) as step:
        done = asyncio.run(distill_all(rows, model, step))
    figures = score_distilling(done)
    print_figures(figures, as_json, distilling_lines)
    if failed := [one for one in done if one.failure]:
        raise ModelError(
            f"{len(failed)} of {len(done)} exchanges were not answered, the figures are without"
            f" them: {failed[0].failure}"
        )


async def distill_all(
    exchanges: Sequence[LabelledExchange], model: HttpModel, step: Step, pause: float = 1.0
) -> list[Distilled]:
    """Distill all, a few at a time; raise ModelError on an outage.

    `pause` is the seconds between two tries of one exchange.
    """
    from lessons_loop.eval.judgements.distilling import distill_exchange
    from lessons_loop.filter.errors import ModelError

    places = asyncio.Semaphore(CONCURRENT)
    failures = 0

    async def ask(messages: list[dict[str, str]]) -> Any:
        return await asyncio.to_thread(model.ask, messages)

    async def one(exchange: LabelledExchange) -> Distilled:
        nonlocal failures
        async with places:
            found = await distill_exchange(exchange, ask, model.model, pause)
        if found.skipped is None:
            failures = failures + 1 if found.failure else 0
        if failures >= FAILURES_IN_A_ROW:
            raise ModelError(f"ended after {failures} exchanges without an answer: {found.failure}")
        step()
        return found

    return list(await asyncio.gather(*map(one, exchanges)))


def distilling_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures as people read them."""
    from lessons_loop.eval.showing import percent

    asked = figures["n_exchanges"] - figures["n_skipped"]
    yield f"exchanges          {figures['n_exchanges']}, asked about {asked}"
    yield f"  skipped before   {_counts(figures['skipped'])}"
    if figures["n_not_answered"]:
        yield f"  not answered     {figures['n_not_answered']}"
    for name, part, whole in (
        ("false_emits", "n_false_emits", "n_without_lesson"),
        ("missed_emits", "n_missed_emits", "n_with_lesson"),
    ):
        yield f"{name:<18} {percent(figures[name])} ({figures[part]} of {figures[whole]})"
    yield f"facts_covered      {percent(figures['facts_covered'])} of {figures['n_facts']}"
    yield f"forbidden_leaks    {figures['forbidden_leaks']}"
    yield f"unreadable         {figures['unreadable']}, cut off {figures['cut_off']}"
    yield f"lessons            {figures['n_emitted']}, replies with none {figures['n_nothing']}"
    yield f"  dropped          {_counts(figures['dropped'])}"
    yield ""
    yield f"{'category':<18} {'n':>4} {'worth':>6} {'emitted':>8} {'facts':>9}"
    for name, row in figures["by_category"].items():
        facts = f"{row['facts_covered']}/{row['facts']}"
        counted = f"{row['n']:>4} {row['with_lesson']:>6} {row['emitted']:>8}"
        yield f"{name[:18]:<18} {counted} {facts:>9}"
    for mistake in figures["mistakes"]:
        what = "; ".join(f"{key}: {value}" for key, value in mistake.items() if key != "id")
        yield f"{mistake['id']}: {what}"


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items()) or "none"
