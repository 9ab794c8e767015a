"""Gate runs on staged candidates, by rules or with a reviewer, and what they came to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lessons_loop.filter.llm import HttpModel
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.review.reviewers import ModelReviewer
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from support.gate import (
    HashEmbedder,
    gate,
    shown,
    stage,
)
from support.llm_server import LlmServer, says

SECRET = "sk-test-FAKE0123456789abcdefFAKE"
PROMOTES = says("The excerpt shows the rows the advised query returned.\nVERDICT: PROMOTE")
REJECTS = says("The excerpt shows nothing of the kind advised here.\nVERDICT: REJECT")
EMBEDDER = HashEmbedder(256)


def fill(root: Path, *seen: Any) -> None:
    stage(root, [found for found in seen])


def run(root: Path, mode: Mode, reviewer: Any = None, **rules: Any) -> RunReport:
    with gate(root, EMBEDDER) as session:
        return run_gate(session, RunOptions(mode, Rules(**rules)), reviewer)


def counts(report: RunReport) -> dict[str, int]:
    return {name: count for name, count in report.counts().items() if count}


def llm(server: LlmServer) -> ModelReviewer:
    return ModelReviewer(HttpModel(server.url, "reviewer", seconds=20, sleep=lambda _: None))


def published_keys(root: Path) -> list[str]:
    found = shown(root)
    assert found is not None
    return [row.key for row in found.lessons]
