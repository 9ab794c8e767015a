"""`lessons eval recall`: whether recall finds the right lesson, and keeps quiet otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lessons_loop.promote.options import AsJson, Embedding
from lessons_loop.promote.quiet import busy

LessonsFile = Annotated[
    Path,
    typer.Option(
        "--lessons", show_default=False, help="JSON Lines: id, text, kind, trigger, tags."
    ),
]
QuestionsFile = Annotated[
    Path,
    typer.Option(
        "--questions",
        show_default=False,
        help="JSON Lines: id, messages, relevant (lesson ids), style.",
    ),
]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("recall", short_help="Whether the right lessons are recalled.")(recall)


def recall(
    lessons: LessonsFile,
    questions: QuestionsFile,
    embedding: Embedding = "",
    as_json: AsJson = False,
) -> None:
    """Measure recall on lessons and questions of your own, with the plugin's own code.

    recall_at_k: found / min(k, relevant lessons), over questions that a lesson answers.
    served: a right lesson passes the calibrated floor, five lessons and 512 tokens.

    Example: lessons eval recall --lessons lessons.jsonl --questions questions.jsonl
    """
    with busy("recalling"):
        found = measured(lessons, questions, embedding)
    typer.echo(json.dumps(found, indent=2) if as_json else table(found))


def measured(lessons: Path, questions: Path, embedding: str) -> dict[str, Any]:
    """Return every figure; raise BadFile, EmbedError."""
    from lessons_loop.eval.judgements.everyday_chats import everyday_chats_injected
    from lessons_loop.eval.judgements.packaged import evaluation_embedder
    from lessons_loop.eval.judgements.retrieval import (
        ask_all,
        bench_of,
        everyday_injected,
        figures,
        read_lessons,
        read_questions,
    )

    shelf = read_lessons(lessons)
    asked = read_questions(questions, shelf)
    embedder = evaluation_embedder(embedding)
    bench = bench_of(shelf, embedder)
    return {
        "lessons": len(shelf),
        **figures(ask_all(bench, asked, embedder)),
        "everyday_injected": everyday_injected(bench, embedder),
        "everyday_chats_injected": everyday_chats_injected(bench, embedder),
        "floor": bench.recall.floor,
        "embedding": embedder.name,
    }


def table(found: Mapping[str, Any]) -> str:
    """Return the figures as lines of at most 80 columns."""
    rows = [row(name, one["n"], one) for name, one in found["by_style"].items()]
    total = row("all", found["answerable"], {**found, "served": found["answerable_served"]})
    quiet = [
        f"{name[:20]:<20}  {shown(share)}" for name, share in found["unanswerable_injected"].items()
    ]
    return "\n".join(
        [
            f"{found['lessons']} lessons, {found['questions']} questions, "
            f"{found['answerable']} of them answerable; floor {found['floor']}",
            "",
            f"{'style':<20}  {'n':>4}  {'recall@1':>8}  {'recall@5':>8}  {'MRR':>6}  {'served':>6}",
            *rows,
            total,
            "",
            "share that gets a lesson although none answers",
            *quiet,
            f"{'everyday messages':<20}  {shown(found['everyday_injected'])}",
            f"{'everyday chats':<20}  {shown(found['everyday_chats_injected'])} of their turns",
            "",
            f"right among all injected lessons: {shown(found['injected_precision'])}",
        ]
    )


def row(name: str, count: int, one: Mapping[str, Any]) -> str:
    """Return one line of the table."""
    first, five = shown(one["recall_at_1"]), shown(one["recall_at_5"])
    return (
        f"{name[:20]:<20}  {count:>4}  {first:>8}  {five:>8}  "
        f"{shown(one['mrr']):>6}  {shown(one['served']):>6}"
    )


def shown(share: float | None) -> str:
    """Return a share with two places, a dash where there is none."""
    return "-" if share is None else f"{share:.2f}"
