"""What a later release wrote: refused in one line that says what to do, and left as it is."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreNewer
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Record
from lessons_loop.filter.schema import SCHEMA
from lessons_loop.filter.store import STAGING_VECTOR
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.exchange.file import as_lines, read_lessons
from lessons_loop.promote.store.migrate import Wish, migrate_store
from support.commands import Named, every_command, run_here
from support.gate import (
    candidate,
    curated,
    flags,
    gate,
    lesson,
    located,
    on_folder,
    promotion,
    raw_client,
    server_url,
    stage,
    stage_events,
)
from support.older import collection_of, contents, files, set_metadata
from support.templates import copied

NEWER = SCHEMA + 1
GIVEN = Path(__file__).parent / "fixtures" / "lessons.jsonl"
GIVEN_OPTIONS = ("--reason", "--older-than", "--user")
"""What some commands ask for before they look at a store."""
REFUSED = f"has schema {NEWER}, this release knows {SCHEMA}: upgrade lessons-loop here"
STORELESS = ("up", "demo", "eval", "install", "seed import", "schedule", "doctor")


def make_filled(root: Path) -> None:
    with gate(root):
        pass
    stage(root, [candidate(), candidate("Bound telemetry_hours by day_key.", message="m2")])
    with gate(root) as session:
        session.apply(promotion(session, session.candidates()[0]))
        session.uses.create()


@pytest.fixture
def filled(root: Path) -> Path:
    copied(make_filled, root)
    return root


def newer_state(root: Path) -> None:
    path = located(root).state / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": NEWER}))


def newer_uses(root: Path) -> None:
    with closing(sqlite3.connect(located(root).state / "uses" / "sql.sqlite")) as file, file:
        file.execute(f"pragma user_version = {NEWER}")


def newer(database: str, name: str, field: str = "schema") -> Callable[[Path], None]:
    def change(root: Path) -> None:
        place = database if server_url(root) or database == "staging" else "gate"
        set_metadata(root, place, name, **{field: NEWER})

    return change


PLACES = {
    "curated": newer("curated", "sql-lessons", "schema_version"),
    "archive": newer("gate", "sql-lessons-archive"),
    "candidates": newer("staging", "sql-lessons-candidates"),
    "state": newer_state,
    "uses": newer_uses,
}


@pytest.mark.parametrize("place", PLACES)
def test_newer_part_is_refused_and_left_alone(filled: Path, place: str) -> None:
    PLACES[place](filled)
    before = contents_but_summary(filled)
    with pytest.raises(StoreNewer, match=REFUSED), gate(filled) as session:
        session.candidates()
        list(session.uses.rows())
        session.apply(promotion(session, candidate(message="m9")))
    done = run_here("promote", *flags(filled))
    assert done.code == 1 and REFUSED in done.err, done
    assert contents_but_summary(filled) == before


def contents_but_summary(root: Path) -> dict[str, object]:
    """Return what is stored; the summary is no part of it, but a note of the last session."""
    found = contents(root)
    found["files"] = {n: c for n, c in found["files"].items() if "summary" not in n}
    return found


def needed(found: Named) -> list[str]:
    """Return values for what the command cannot do without."""
    words: list[str] = []
    for one in found.command.params:
        if one.required and one.opts[0].startswith("-"):
            words += [one.opts[0], "1d"]
        elif one.required:
            words += [str(GIVEN) if found.name == "import" else "abcdef"]
    return words


NAMELESS = tuple(f"{name} " for name in STORELESS)
COMMANDS = [one for one in every_command() if not f"{one.name} ".startswith(NAMELESS)]


@on_folder
def test_every_command_refuses_newer_state(filled: Path, tmp_path: Path) -> None:
    newer_state(filled)
    before, beside = contents(filled), files(filled)
    for found in COMMANDS:
        options = {name for one in found.command.params for name in one.opts}
        if found.name == "promote":
            options -= {"--reason"}  # goes with ids
        more = [word for name in GIVEN_OPTIONS if name in options for word in (name, "30d")]
        done = run_here(*found.words, *needed(found), *more, *flags(filled))
        told = [line for line in done.err.splitlines() if "candidate" not in line]
        assert done.code == 1 and len(told) == 1 and REFUSED in told[0], (found.name, done)
        assert files(filled) == beside, found.name
    assert contents(filled) == before


@on_folder
def test_doctor_says_what_helps(filled: Path) -> None:
    newer_state(filled)
    done = run_here("doctor", "--json", *flags(filled))
    (finding,) = [one for one in json.loads(done.out)["findings"] if one["level"] == "problem"]
    assert finding["check"] == "store" and REFUSED in finding["text"] and not finding["remedy"]


@on_folder
def test_doctor_tells_newer_curated(filled: Path) -> None:
    PLACES["curated"](filled)
    done = run_here("doctor", "--json", *flags(filled))
    told = [one["text"] for one in json.loads(done.out)["findings"] if one["level"] == "problem"]
    assert done.code == 1 and any(REFUSED in text for text in told)


def test_migrate_of_an_older_release_refuses_too(filled: Path) -> None:
    PLACES["curated"](filled)
    before = contents(filled)
    place = flags(filled)
    wish = Wish(place[1], located(filled).state if server_url(filled) else None)
    with pytest.raises(StoreNewer, match=REFUSED):
        migrate_store(wish)
    assert contents(filled) == before


def test_rows_of_a_later_plugin_wait_in_staging(filled: Path) -> None:
    row = candidate("Join on plant_code, not on names.", message="m77").to_record()
    strange = Record(row.id, row.document, {**row.metadata, "mood": "sure"})
    with raw_client(filled, "staging") as client:
        collection_of(client, "sql-lessons-candidates").add(
            ids=[strange.id],
            documents=[strange.document],
            metadatas=[strange.metadata],
            embeddings=[STAGING_VECTOR],
        )
    done = run_here("promote", *flags(filled))
    assert done.code == 0, done.err
    with gate(filled) as session:
        assert strange.id not in {seen.id for seen in session.candidates()}
        assert session.unreadable == 1


@pytest.mark.parametrize(("at", "left"), [(0, 1), (-31, 0), (2, 0)])
def test_events_of_a_later_plugin_wait_in_staging(root: Path, at: int, left: int) -> None:
    with gate(root) as session:
        session.apply(promotion(session, candidate()))
        (key,) = session.curated
    moment = iso(utc_now() + timedelta(days=at))
    plain, later = (Usage(keys=(key,), message_ref=n, at=moment) for n in "ab")
    stage_events(root, [plain])
    with raw_client(root, "staging") as client:
        collection_of(client, "sql-lessons-events").add(
            ids=[later.id],
            documents=[later.kind],
            metadatas=[{**later.to_record().metadata, "mood": "sure"}],
            embeddings=[STAGING_VECTOR],
        )
    for _ in range(2):
        with gate(root) as session:
            fold_events(session)
            assert session.curated[key].hits == 1
    with raw_client(root, "staging") as client:
        assert collection_of(client, "sql-lessons-events").get()["ids"] == [later.id][:left]


@on_folder
def test_export_of_a_later_release_is_told(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "lessons.jsonl"
    file.write_text(as_lines([curated(lesson())]))
    assert len(read_lessons(file, "sql")) == 1
    line = json.loads(file.read_text()) | {"schema": NEWER, "mood": "sure"}
    file.write_text(json.dumps(line))
    with pytest.raises(StoreNewer, match=REFUSED):
        read_lessons(file, "sql")


@on_folder
def test_copy_of_a_store_keeps_its_schema(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "copy")
    status = json.loads(run_here("status", "--json", "--store", str(tmp_path / "copy")).out)
    assert status["schema"] == {"store": SCHEMA, "release": SCHEMA}
