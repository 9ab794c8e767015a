"""Fifty open chats through every fault, for twenty seconds: no chat fails because of the plugin."""

from __future__ import annotations

import asyncio
import re

import pytest

from lessons_loop.deploy.bench.load import Plan, run_load
from lessons_loop.deploy.bench.load_figures import GROWTH_MOST_MB, Row
from lessons_loop.deploy.bench.load_rows import rows_of
from lessons_loop.deploy.progress import Stages
from support.workers import Workers

pytestmark = pytest.mark.timeout(1500)  # four processes load Open WebUI first
SECONDS = 20.0


@pytest.fixture(scope="module")
def rows(three_workers: Workers) -> list[Row]:
    """The table of one short run."""
    three_workers.restore()
    plan = Plan(seconds=SECONDS)
    found = asyncio.run(run_load(three_workers.stack, Stages(quiet=True), plan))
    return rows_of(found, three_workers.stack)


def named(rows: list[Row], *words: str) -> list[Row]:
    """Return the rows whose figure names all these words."""
    found = [row for row in rows if all(word in row.figure for word in words)]
    assert found, words
    return found


def test_no_chat_fails_because_of_the_plugin(rows: list[Row]) -> None:
    failed = named(rows, "failed chats")
    assert len(failed) == 5 and all(row.holds for row in failed), failed


def test_lessons_are_recalled_with_the_plugin_only(rows: list[Row]) -> None:
    (recalled,) = named(rows, "questions given lessons")
    assert recalled.holds, recalled


def test_recall_and_staging_come_back_by_themselves(rows: list[Row]) -> None:
    """Without a way back `run_load` gives up; how long it takes is told by `make bench-load`."""
    back = named(rows, "is back")
    assert len(back) >= 5 and all(row.reached for row in back), back


def test_memory_of_workers_stays_flat(rows: list[Row]) -> None:
    """What the plugin kept, every worker would keep; one alone may just have had a burst.

    What is wanted of each is told by `make bench-load`; that connecting leaves nothing behind, by
    counting, in test_server.py.
    """
    for row in named(rows, "worker grew, with it"):
        grown = [float(one) for one in re.findall(r"[-+][\d.]+", row.reached)]
        assert len(grown) >= 2 and min(grown) <= GROWTH_MOST_MB, row


def test_nothing_learned_is_lost(rows: list[Row]) -> None:
    for row in named(rows, "lost"):
        assert row.holds, row
