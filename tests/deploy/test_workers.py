"""Three workers of one Open WebUI: what is set once reaches all, what must happen once does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lessons_loop.deploy.webui.plugin_file import plugin_source
from support.processes import soon
from support.workers import Workers, new_message

pytestmark = pytest.mark.timeout(1500)  # four processes load Open WebUI first


@pytest.fixture
def workers(three_workers: Workers) -> Iterator[Workers]:
    """Three workers with the shipped plugin and its usual valves."""
    three_workers.restore()
    yield three_workers
    three_workers.pace(0.0)


def test_each_worker_recalls_and_says_which_it_is(workers: Workers) -> None:
    assert sorted(workers.each()) == sorted(workers.stack.worker_pids())
    workers.all_told(workers.newest()[1])


def test_valves_set_once_reach_all_workers(workers: Workers) -> None:
    workers.all_told(workers.newest()[1])
    workers.set_valves(recall_enabled=False)
    workers.all_told("")
    workers.set_valves()
    workers.all_told(workers.newest()[1])


def test_new_plugin_reaches_workers_that_never_saw_it(workers: Workers) -> None:
    _, name = workers.newest()
    changed = plugin_source().replace("    return key[:8]", "    return key[:8][::-1]")
    assert changed != plugin_source()
    workers.install(changed)
    workers.all_told(name[::-1])


def test_curated_change_reaches_all_workers(workers: Workers) -> None:
    workers.all_told(workers.newest()[1])
    workers.stack.teach(1)
    workers.all_told(workers.newest()[1])


def test_answer_told_to_three_workers_is_distilled_once(workers: Workers) -> None:
    chat, message, before = workers.saved_chat(), new_message(), workers.distills()
    workers.pace(1.0)  # all three know of it before the first is through
    clients = list(workers.each().values())
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda client: workers.finish(client, chat, message), clients))
    assert soon(lambda: workers.staged(message)) == 1
    for client in workers.each().values():  # retried later, too
        workers.finish(client, chat, message)
    time.sleep(2)
    assert workers.distills() == before + 1 and workers.staged(message) == 1


def test_daily_cap_holds_over_all_workers(workers: Workers) -> None:
    before = workers.distills()
    workers.set_valves(distill_daily_cap=workers.distilled_today() + 2)
    chat = workers.saved_chat()
    for _ in range(2):
        for client in workers.each().values():
            workers.finish(client, chat, new_message())
    assert soon(lambda: workers.distills() >= before + 2)
    time.sleep(2)
    assert workers.distills() == before + 2


def test_no_candidate_is_lost_with_a_worker_or_chroma(workers: Workers) -> None:
    chat, messages = workers.saved_chat(), {pid: new_message() for pid in workers.each()}
    workers.stack.running["chroma"].kill()
    for pid, client in workers.each().items():
        workers.finish(client, chat, messages[pid])
    assert soon(lambda: len(workers.waiting()) >= 3)
    workers.pace(30.0)
    victim, client = next(iter(workers.each().items()))
    begun, unfinished = workers.distills(), new_message()
    workers.finish(client, chat, unfinished)
    assert soon(lambda: workers.distills() > begun)
    workers.kill(victim)
    workers.stack.begin("chroma")
    workers.stack.wait_for("chroma")
    assert soon(lambda: not workers.waiting(), 120)
    assert [workers.staged(message) for message in messages.values()] == [1, 1, 1]
    assert workers.staged(unfinished) <= 1  # another worker may have taken it up meanwhile
