"""`lessons eval neardup`: compare labelled pairs as the gate does, with or without a judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lessons_loop.promote.options import AsJson, Embedding, LlmKey, LlmModel, LlmUrl

Pairs = Annotated[
    Path,
    typer.Option(
        "--pairs", help="JSON Lines: id, a (curated), b (new), label, relation.", show_default=False
    ),
]
Threshold = Annotated[
    float, typer.Option(min=0.5, max=1.0, help="Cosine from which a repetition is a duplicate.")
]
_SHARES = (
    ("contradictions_dropped", "contradiction"),
    ("contradictions_let_through", "contradiction"),
    ("distinct_dropped", "distinct"),
    ("distinct_held", "distinct"),
    ("duplicates_dropped", "duplicate"),
    ("duplicates_caught", "duplicate"),
)


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("neardup", short_help="What the gate makes of near-duplicates.")(neardup)


def neardup(
    pairs: Pairs,
    llm_url: LlmUrl = "",
    llm_model: LlmModel = "",
    llm_api_key: LlmKey = "",
    embedding: Embedding = "",
    dup_threshold: Threshold = 0.90,
    as_json: AsJson = False,
) -> None:
    """Compare pairs of a curated and a new lesson as the gate does, and score it.

    A label is duplicate, distinct or contradiction; relation is a word of yours, figures are
    told apart by it. Without --llm-url rules alone decide; with it a model judges the pairs
    they call related.

    Example: lessons eval neardup --pairs pairs.jsonl
    """
    if bool(llm_url.strip()) != bool(llm_model.strip()):
        raise typer.BadParameter("a judge needs both --llm-url and --llm-model")
    from lessons_loop.eval.judgements.neardup import PairGate, parse_pair, score_pairs
    from lessons_loop.eval.judgements.packaged import evaluation_embedder
    from lessons_loop.eval.rows import read_rows
    from lessons_loop.eval.showing import print_figures, progress_bar
    from lessons_loop.filter.errors import ModelError
    from lessons_loop.promote.similar.judge import judge_at

    rows = read_rows(pairs, parse_pair)
    judge = judge_at(llm_url, llm_model, llm_api_key)
    gate = PairGate(rows, evaluation_embedder(embedding), judge)
    done = []
    with progress_bar("comparing", len(rows)) as step:
        for pair in rows:
            done.append(gate.compare(pair, dup_threshold))
            step()
    print_figures(score_pairs(done, judge), as_json, neardup_lines)
    if judge is not None and judge.ended:
        raise ModelError(judge.ended)


def neardup_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures as people read them."""
    from lessons_loop.eval.showing import percent

    yield f"pairs                        {figures['n_pairs']}"
    for name, label in _SHARES:
        yield f"{name:<28} {percent(figures[name]):>7} of {figures['n'][label]}"
    yield ""
    yield f"{'label':<14} {'made by':<14} {'n':>4} {'dropped':>8} {'held':>5} {'let through':>12}"
    for row in figures["by_relation"]:
        counts = f"{row['n']:>4} {row['dropped']:>8} {row['held']:>5} {row['let_through']:>12}"
        yield f"{row['label']:<14} {row['relation'][:14]:<14} {counts}"
    if figures["judged"]:
        counted = (f"{word} {count}" for word, count in sorted(figures["judged"].items()))
        yield f"judged: {', '.join(counted)}"
    for found in figures["mistakes"]:
        made = f"{found['id']}: {found['label']} ({found['relation']})"
        yield f"{made} {found['ending']} as {found['decided']}"[:80]
