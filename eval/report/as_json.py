"""A run's report as JSON values: figures, ids and names; no text of a question or an answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lessons_loop.eval.report.comparison import QuestionRow, Report
from lessons_loop.eval.report.saying import sentence
from lessons_loop.eval.stats.pairs import Effect
from lessons_loop.eval.stats.topics import topic_rows
from lessons_loop.promote.masking import mask_through


def as_json(report: Report) -> dict[str, Any]:
    """Return the whole report."""
    primary = report.primary
    return {
        "run": report.name,
        "finished": report.finished,
        "trials": len(report.trials),
        "expected": report.facts.expected,
        "unjudged": report.unjudged,
        "outages": report.outages,
        "settings": {name: _masked(value) for name, value in asdict(report.facts).items()},
        "smallest_visible_lift": report.smallest_lift,
        "verdict": primary.verdict if primary else None,
        "parts": [part._asdict() for part in report.parts()],
        "said": [sentence(one) for one in report.comparisons],
        "arms": {arm.value: one.model_dump() for arm, one in report.arms.items()},
        "comparisons": [one.model_dump(mode="json") for one in report.comparisons],
        "controls": {
            "arms": {arm.value: one.model_dump() for arm, one in report.controls.items()},
            "comparisons": [one.model_dump(mode="json") for one in report.control_comparisons],
        },
        "flips": {
            effect.value: [_question(row) for row in report.flips(effect)]
            for effect in (Effect.BROKEN, Effect.FIXED)
        },
        "topics": [asdict(row) for row in topic_rows(report.pairs)],
        "questions": [_question(row) for row in report.rows],
    }


def _question(row: QuestionRow) -> dict[str, Any]:
    return {
        "id": _masked(row.id),
        "topic": _masked(row.topic),
        "control": row.control,
        "arms": {arm.value: tally._asdict() for arm, tally in row.arms.items()},
        "effect": row.effect.value if row.effect else None,
        "every_run": bool(row.pair and row.pair.consistent),
    }


def _masked(value: Any) -> Any:
    return mask_through(value) if isinstance(value, str) else value
