"""From nothing to a decided lesson in the next chat: the deployment page, walked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from lessons_loop.promote.embedding.embedders import parse_embedding
from support.containers import SALT, Cluster
from support.nginx import unhurried
from support.outlet import LESSON
from support.walking import OTHER, Chats, Walk

pytestmark = pytest.mark.timeout(900)  # thirty commands, each in a container of its own
OWN = {"LESSONS_DOMAIN": "ops", "LESSONS_LLM_URL": "", "LESSONS_LLM_MODEL": ""}
"""What the operator of this walk puts into configmap-settings.yaml."""


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """Walk the page once; the tests read what came of it."""
    folder = tmp_path_factory.mktemp("walk")
    embedder = parse_embedding("minilm:", os.environ)
    assert embedder
    with Cluster(folder, "small", settings=OWN) as cluster, pytest.MonkeyPatch.context() as patch:
        for files in cluster.config.values():
            files |= {name: unhurried(text) for name, text in files.items()}
        patch.chdir(folder)  # outside Open WebUI the plugin spools into ./lessons
        patch.setenv("LESSONS_SALT", SALT)
        chroma = cluster.serve("StatefulSet", "lessons-chroma")
        cluster.serve("Deployment", "lessons-proxy")
        walk = Walk(cluster, Chats(cluster.reach(8080), embedder), chroma)
        walk.go()
        yield walk


def test_each_command_of_the_page_ends_well(walk: Walk) -> None:
    assert len(walk.steps) > 25
    assert [step for step in walk.steps if step.code] == []


def test_first_run_makes_the_store_and_writes_nothing(walk: Walk) -> None:
    made, looked = walk.all("lessons-gate first")
    assert "ops: created" in made.out
    assert looked.out.count("preview: unattended runs write nothing") == 2
    assert "no candidates" in looked.out


def test_seeds_brought_to_the_desk_reach_chats(walk: Walk) -> None:
    assert "part_number in spare_catalogue" in walk.recalled["seed"]
    assert str(LESSON["text"]) not in walk.recalled["seed"]


def test_chats_candidates_wait_at_the_desk(walk: Walk) -> None:
    waiting = " ".join(walk.all("desk candidates")[0].out.split())
    assert str(LESSON["text"]) in waiting and OTHER["text"] in waiting
    assert "no rule stands against it" in waiting and "2 needed" in waiting


def test_what_the_desk_promotes_reaches_chats(walk: Walk) -> None:
    assert str(LESSON["text"]) in walk.recalled["promote"]
    assert OTHER["text"] not in walk.recalled["promote"]


def test_decisions_bear_the_operators_name(walk: Walk) -> None:
    assert "anna" in walk.all("desk history")[0].out


def test_state_is_packed_whole(walk: Walk) -> None:
    (packed,) = walk.all("> state.tar")
    assert {"state/ledger.jsonl", "state/state.json"} <= set(packed.out.split())


def test_export_brings_lessons_into_a_new_store(walk: Walk) -> None:
    assert [json.loads(line) for line in walk.all("desk export")[0].out.splitlines()]
    assert str(LESSON["text"]) in walk.recalled["import"]


def test_what_is_taken_out_reaches_no_chat(walk: Walk) -> None:
    assert str(LESSON["text"]) not in walk.recalled["demote"]
