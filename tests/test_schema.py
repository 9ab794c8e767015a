"""Which fields belong to which schema; a step back and forward again loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lessons_loop.deploy.webui.plugin_file import front_matter, plugin_source
from lessons_loop.filter.errors import StoreNewer
from lessons_loop.filter.models import Candidate, Curated, Evidence, Lesson
from lessons_loop.filter.schema import SCHEMA, reader_of, refuse_newer, refuse_unreadable, schema_of
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.errors import NoSuchSchema
from lessons_loop.promote.ledger.chain import LedgerEntry
from lessons_loop.promote.records import Action, Actor, Archived
from lessons_loop.promote.store.curated import Header
from lessons_loop.promote.store.schema import STEPS, Kept, way
from support.gate import archived, candidate, curated, lesson

FIELDS: list[tuple[type[BaseModel], str, str]] = [
    (Lesson, "domain text kind trigger tags status source", ""),
    (Evidence, "kind quote excerpt tools", ""),
    (Candidate, "lesson evidence message_ref chat_ref user_ref model prompt at", "seal"),
    (
        Curated,
        "lesson hits successes failures occurrences distinct_users last_used since supersedes "
        "seed_id ledger_ref verdict_ref rev",
        "proof",
    ),
    (Archived, "lesson reason at ledger_ref candidate sightings curated", ""),
    (
        Header,
        "schema_version domain state_id state_dir embedding head_n head_hash rev generation floor "
        "lexical_floor mean calibrated_rev",
        "",
    ),
    (LedgerEntry, "n at run action domain key actor reason payload prev hash", ""),
    (Actor, "kind name model prompt", ""),
    (
        Use,
        "id message_ref user_ref chat_ref at keys model finish tools rating rated_at "
        "rating_reason rated_keys",
        "",
    ),
]
"""What the gate stores: fields of schema 1, fields schema 2 brought."""


@pytest.mark.parametrize(
    ("model", "first", "second"), FIELDS, ids=lambda v: getattr(v, "__name__", "")
)
def test_every_stored_field_has_its_schema(model: type[BaseModel], first: str, second: str) -> None:
    # A new field here: raise SCHEMA, add a step to store/schema.py, say what a plugin needs.
    assert set(model.model_fields) == {*first.split(), *second.split()}


def test_what_a_later_schema_brought_is_left_out_where_empty() -> None:
    row, seen = curated(lesson()), candidate()
    assert "proof" not in row.to_record().metadata and "seal" not in seen.to_record().metadata
    whole = archived(lesson(), candidate=seen, sightings=(seen,), curated=row).to_record()
    assert '"seal"' not in str(whole) and '"proof"' not in str(whole)
    assert Curated.from_record(row.to_record()) == row
    assert Candidate.from_record(seen.to_record()) == seen


texts = st.text("abc{}\"'", max_size=12)


@given(st.lists(st.tuples(texts, texts), max_size=4), st.booleans())
def test_back_and_forward_again_loses_nothing(marks: list[tuple[str, str]], held: bool) -> None:
    rows: list[Any] = []
    for n, (proof, seal) in enumerate(marks):
        seen = candidate(f"Read table_{n} first.", message=f"m{n}").model_copy(
            update={"seal": seal}
        )
        row = curated(seen.lesson, proof=proof)
        rows.append(row)
        rows.append(archived(seen.lesson, candidate=seen if held else None, curated=row))
    kept, step = Kept(), STEPS[2]

    def moved(row: Any, forward: bool) -> Any:
        change = step.curated if isinstance(row, Curated) else step.archived
        return change(row, kept, forward=forward)

    back = [moved(row, False) for row in rows]
    assert all('"seal"' not in one.model_dump_json() for one in back)
    assert all('"proof"' not in one.model_dump_json() for one in back)
    assert [moved(row, True) for row in back] == rows


def test_proof_measured_since_is_not_replaced() -> None:
    row, kept, step = curated(lesson(), proof="older"), Kept(), STEPS[2]
    fresh = step.curated(row, kept, forward=False).model_copy(update={"proof": "newer"})
    assert kept.proofs and step.curated(fresh, kept, forward=True).proof == "newer"


def test_each_time_in_use_keeps_its_own_proof() -> None:
    before = curated(lesson(), proof="helps")
    now = before.model_copy(update={"since": "2026-11-29T08:00:00Z", "proof": "harmful"})
    gone = archived(lesson(), curated=before)
    bare = archived(
        lesson(), curated=before.model_copy(update={"since": "2026-10-01T08:00:00Z", "proof": ""})
    )
    kept, step = Kept(), STEPS[2]
    back = [step.curated(now, kept, forward=False)]
    rows = [step.archived(row, kept, forward=False) for row in (gone, bare)]
    assert [step.curated(row, kept, forward=True) for row in back] == [now]
    assert [step.archived(row, kept, forward=True) for row in rows] == [gone, bare]


def test_each_sighting_keeps_its_own_seal() -> None:
    seen = candidate().model_copy(update={"seal": "ab"})
    again = candidate(at="2026-11-29T08:00:00Z").model_copy(update={"seal": "cd"})
    row = archived(lesson(), candidate=seen, sightings=(again,))
    kept, step = Kept(), STEPS[2]
    back = step.archived(row, kept, forward=False)
    assert seen.id == again.id and step.archived(back, kept, forward=True) == row


@pytest.mark.parametrize(
    ("have", "wanted", "ends"), [(1, 2, [2]), (2, 1, [1]), (2, 2, []), (1, 1, [])]
)
def test_way_leads_step_by_step(have: int, wanted: int, ends: list[int]) -> None:
    assert [number for _, number in way(have, wanted)] == ends


@pytest.mark.parametrize("wanted", [0, -1, SCHEMA + 1])
def test_no_way_to_a_schema_nobody_knows(wanted: int) -> None:
    with pytest.raises(NoSuchSchema, match=f"this release knows 1 to {SCHEMA}"):
        way(1, wanted)


@pytest.mark.parametrize(
    ("found", "schema", "reader"),
    [
        (None, 1, 1),
        ({}, 1, 1),
        ({"schema_version": 2}, 2, 2),
        ({"schema": 2}, 2, 2),
        ({"schema_version": 7, "min_reader": 2}, 7, 2),
        ({"schema_version": "9", "min_reader": None}, 1, 1),
        ({"schema": True}, 1, 1),
    ],
)
def test_schema_is_read_from_any_metadata(found: Any, schema: int, reader: int) -> None:
    assert (schema_of(found), reader_of(found)) == (schema, reader)


def test_gate_refuses_what_recall_may_read() -> None:
    found = {"schema_version": SCHEMA + 1, "min_reader": SCHEMA}
    refuse_unreadable(found, "x")
    with pytest.raises(StoreNewer, match=f"schema {SCHEMA + 1}, this release knows {SCHEMA}: upg"):
        refuse_newer(found, "x")
    with pytest.raises(StoreNewer, match="install the plugin of the release that wrote it"):
        refuse_unreadable({"schema_version": SCHEMA + 1}, "x")


def test_ledger_line_of_a_later_release_is_part_of_the_chain() -> None:
    line = LedgerEntry(
        n=1, at="t", run="r", action=Action.INIT, domain="sql", key="k",
        actor=Actor(kind="rule"), reason="", payload="p", prev="0",
    )  # fmt: skip
    strange = line.model_copy(update={"action": Action("re-weigh")}).sealed()
    found = LedgerEntry.model_validate_json(strange.line())
    assert found == strange and found.hash == found.computed_hash()
    assert found.action not in set(Action) and found.line() == strange.line()
    with pytest.raises(ValueError, match="action"):
        LedgerEntry.model_validate_json(strange.line().replace(b"re-weigh", b"Not One"))


@pytest.mark.parametrize("name", ["lessons_filter", "lessons_rating"])
def test_plugins_say_which_schema_they_know(name: str) -> None:
    assert front_matter(plugin_source(name))["schema"] == str(SCHEMA)
    source = Path(__file__).parent.parent / "filter" / f"{name}.py"
    assert front_matter(source.read_text("utf-8"))["schema"] == str(SCHEMA)
