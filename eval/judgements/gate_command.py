"""`lessons eval gate`: judge labelled candidates by the gate's rules, and a model's review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lessons_loop.promote.options import AsJson, Embedding, LlmKey, LlmModel, LlmUrl

if TYPE_CHECKING:
    from lessons_loop.eval.judgements.gating import Judged, Judging, LabelledCandidate
    from lessons_loop.eval.showing import Step
    from lessons_loop.filter.embed import Embedder

REVIEW_TRIES = 3
"""Times in a row a review may fail before it is an outage."""
Candidates = Annotated[
    Path,
    typer.Option(
        "--candidates",
        help="JSON Lines: id, candidate (text, kind, trigger, tags), evidence, curated (texts of"
        " its neighbours), label (promote or reject), reason.",
        show_default=False,
    ),
]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("gate", short_help="What the gate lets through of labelled candidates.")(gate)


def gate(
    candidates: Candidates,
    llm_url: LlmUrl = "",
    llm_model: LlmModel = "",
    llm_api_key: LlmKey = "",
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """Judge labelled candidates among their curated neighbours, and score the gate.

    Without --llm-url the rules alone decide; with it a model judges related lessons and reviews
    what is let through.

    Example: lessons eval gate --candidates candidates.jsonl
    """
    if bool(llm_url.strip()) != bool(llm_model.strip()):
        raise typer.BadParameter("a review needs both --llm-url and --llm-model")
    from lessons_loop.eval.judgements.gating import parse_candidate, score_gate
    from lessons_loop.eval.judgements.packaged import evaluation_embedder
    from lessons_loop.eval.rows import read_rows
    from lessons_loop.eval.showing import print_figures, progress_bar

    rows = read_rows(candidates, parse_candidate)
    judging = make_judging(evaluation_embedder(embedding), (llm_url, llm_model, llm_api_key))
    with progress_bar("judging", len(rows)) as step:
        done = judge_all(rows, judging, step)
    print_figures(score_gate(done), as_json, gate_lines)


def make_judging(embedder: Embedder, llm: tuple[str, str, str]) -> Judging:
    """Return what judges: rules alone, or with the model at URL, named, with its key."""
    from lessons_loop.eval.judgements.gating import Judging

    if not llm[0].strip():
        return Judging(embedder)
    from lessons_loop.filter.llm import HttpModel
    from lessons_loop.promote.review.reviewers import ModelReviewer
    from lessons_loop.promote.similar.judge import PairJudge

    model = HttpModel(*llm)
    return Judging(embedder, ModelReviewer(model), PairJudge(model))


def judge_all(
    candidates: Sequence[LabelledCandidate], judging: Judging, step: Step
) -> list[Judged]:
    """Judge all; raise ModelError when a model fails again and again: no verdict then."""
    from lessons_loop.filter.errors import ModelError

    done: list[Judged] = []
    for candidate in candidates:
        for left in reversed(range(REVIEW_TRIES)):
            try:
                done.append(judging.judged(candidate))
                break
            except ModelError:
                if not left:
                    raise
        if judging.judge is not None and judging.judge.ended:
            raise ModelError(judging.judge.ended)
        step()
    return done


def gate_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures as people read them."""
    from lessons_loop.eval.showing import percent

    yield f"candidates                    {figures['n_candidates']}"
    for name, whole in (
        ("good_passed", "n_good"),
        ("good_without_neighbour_passed", "n_good_without_neighbour"),
        ("bad_let_through", "n_bad"),
    ):
        yield f"{name:<29} {percent(figures[name])} of {figures[whole]}"
    yield ""
    yield f"{'reason':<22} {'n':>4} {'stopped':>8} {'held':>6} {'let through':>12} {'unread':>7}"
    for reason, row in figures["by_reason"].items():
        counts = f"{row['n']:>4} {row['stopped']:>8} {row['held']:>6} {row['let_through']:>12}"
        yield f"{reason[:22]:<22} {counts} {row['not_reviewed']:>7}"
    for mistake in figures["mistakes"]:
        yield f"{mistake['id']}: {mistake['reason']}, {mistake['ending']} by {mistake['rule']}"[:80]
