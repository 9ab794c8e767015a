"""Three workers of one Open WebUI: what a killed one was about to learn another learns."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.processes import soon
from support.unfinished import with_answer
from support.workers import TAKEN_UP_SECONDS, Workers, new_message

pytestmark = pytest.mark.timeout(1500)  # four processes load Open WebUI first


@pytest.fixture
def workers(three_workers: Workers) -> Iterator[Workers]:
    """Three workers with the shipped plugin and its usual valves, the plugin at work in each."""
    three_workers.restore()
    three_workers.all_told(three_workers.newest()[1])
    yield three_workers
    three_workers.pace(0.0)


def test_killed_workers_answer_is_learned_from_once(workers: Workers) -> None:
    message, begun = new_message(), workers.distills()
    chat = with_answer(workers, message)
    workers.pace(120.0)
    victim, client = next(iter(workers.each().items()))
    workers.finish(client, chat, message)
    assert soon(lambda: workers.distills() > begun)
    ((noted, owner, takes, tries),) = workers.under_way()
    assert (noted, takes, tries) == (message, 0, 1) and owner
    workers.kill(victim)
    workers.pace(0.0)
    assert soon(lambda: workers.staged(message), TAKEN_UP_SECONDS) == 1
    assert soon(lambda: not workers.under_way())
    time.sleep(2)
    assert workers.distills() == begun + 2 and workers.staged(message) == 1
