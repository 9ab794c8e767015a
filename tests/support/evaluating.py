"""Test tools for the eval commands: files of cases, the command as a process, a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons_loop.eval.judgements.distilling import Distilled, LabelledExchange, distill_exchange
from lessons_loop.filter.llm import ChatReply

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def load_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a fixture, such as `distill/holdout.jsonl`."""
    return [json.loads(line) for line in (FIXTURES / name).read_text("utf-8").splitlines()]


def eval_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without settings of ours, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LESSONS_")}
    return kept | {"NO_COLOR": "1"} | more


def run_eval(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `lessons eval ...` without a terminal and without settings of ours."""
    return subprocess.run(
        [sys.executable, "-m", "lessons_loop.deploy.cli", "eval", *arguments],
        env=eval_environment(**more),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def answers(text: str) -> Callable[[list[dict[str, str]]], Any]:
    """Return a model that always says this."""

    async def ask(messages: list[dict[str, str]]) -> ChatReply:
        return ChatReply(text, "stop")

    return ask


async def replay_all(
    exchanges: Sequence[LabelledExchange], replies: Mapping[str, str]
) -> list[Distilled]:
    """Distill every exchange with its recorded reply."""
    return [await distill_exchange(one, answers(replies[one.id]), "model") for one in exchanges]
