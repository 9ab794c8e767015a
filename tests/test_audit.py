"""What `lessons audit` counts and finds, and that it names nobody."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.deploy.audit.command import asked_by
from lessons_loop.deploy.audit.near_copies import LEVELS, clusters
from lessons_loop.deploy.audit.reach import Limits
from lessons_loop.deploy.audit.survey import age_of, audit_domain
from lessons_loop.filter.embed import unit_rows
from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.session import open_gate
from support.commands import run_here, told
from support.gate import (
    HashEmbedder,
    candidate,
    flags,
    gate,
    located,
    promotion,
    retirement,
    stage,
)
from support.gate import settings as store_settings
from support.templates import copied

USUAL = Limits(5, 512)
FIRST = "Look serials up in equipment_machine."
OTHER = "Bound every query on telemetry_hours by day_key."


def fill(root: Path) -> None:
    with gate(root) as session:
        for text, trigger in ((FIRST, "one machine"), (OTHER, "hours of a month")):
            session.apply(promotion(session, candidate(text, trigger=trigger)))
    stage(
        root, [candidate("Ask for the plant.", user=f"person-{n}", message=f"m{n}") for n in "ab"]
    )


@pytest.fixture
def filled(root: Path) -> Path:
    copied(fill, root)
    return root


def audited(root: Path, limits: Limits = USUAL) -> dict:
    embed = HashEmbedder()
    with open_gate(store_settings(root, embed, dry_run=True)) as session:
        return audit_domain(session, located(root), limits, asked_by(embed)).as_json()


def test_counts_every_place(filled: Path) -> None:
    found = audited(filled)
    assert found["places"] == {"curated": 2, "candidate": 1}
    assert found["counts"]["source"] == {"distill": {"curated": 2, "candidate": 1}}
    assert found["counts"]["producer"]["practice-model (distill-1)"] == {"candidate": 1}
    assert found["users"]["distinct"] == 2 and found["users"]["sightings"] == [1, 1]
    assert len(found["never_recalled"]) == 2


@pytest.mark.parametrize("damage", [b"", b"{bad\xff"])
def test_producer_outlives_decay_but_not_its_payload(root: Path, damage: bytes) -> None:
    with gate(root) as session:
        change = promotion(session, seen := candidate(FIRST))
        told = {"candidates": [seen.model_dump(mode="json")]}
        session.apply(replace(change, payload=dict(told)))
        session.apply(retirement(session, change.key))
    for file in (root / "state" / "payloads").rglob("*") if damage else ():
        if file.is_file():
            file.chmod(0o600)
            file.write_bytes(damage)
    name = "distill" if damage else "practice-model (distill-1)"
    assert audited(root)["counts"]["producer"] == {name: {"stale": 1}}


def test_no_reference_of_a_user_is_shown(filled: Path) -> None:
    for more in ([], ["--json"]):
        done = run_here("audit", *flags(filled), *more)
        assert done.code == 0 and "person-" not in done.out


def test_every_sound_lesson_is_reached(filled: Path) -> None:
    assert audited(filled)["unreached"] == []


def test_too_small_a_budget_hides(filled: Path) -> None:
    found = audited(filled, Limits(5, 1))["unreached"]
    assert [row["cause"] for row in found] == ["too long", "too long"]


def test_floor_hides(filled: Path) -> None:
    found = audited(filled, Limits(5, 512, floor=5.0))["unreached"]
    assert [row["cause"] for row in found] == ["floor", "floor"]


def test_look_alike_hides(root: Path) -> None:
    shared = "Look serials up in equipment_machine " + "and bound hours by day key " * 8
    texts = [shared + last for last in ("first", "again")]
    with gate(root) as session:
        for text in texts:
            session.apply(promotion(session, candidate(text, trigger="serials equipment_machine")))
    found = audited(root)
    assert [row["cause"] for row in found["unreached"]] == ["look-alike"]
    assert set(found["unreached"][0]["behind"]) < set(found["texts"])


def test_audit_leaves_every_byte(filled: Path) -> None:
    before = {file: file.read_bytes() for file in filled.rglob("*") if file.is_file()}
    assert run_here("audit", *flags(filled)).code == 0
    assert {file: file.read_bytes() for file in filled.rglob("*") if file.is_file()} == before


def test_audit_of_an_empty_store(root: Path) -> None:
    with gate(root):
        pass
    done = run_here("audit", *flags(root))
    assert (done.code, told(done.err)) == (0, "") and "no lessons" in done.out
    assert json.loads(run_here("audit", *flags(root), "--json").out)["sql"]["unreached"] == []


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=30))
def test_clusters_are_what_pairs_connect(points: list[tuple[int, int]]) -> None:
    rows = unit_rows([[x + 0.5, y + 0.25, 1.0] for x, y in points], len(points))
    found = clusters(rows)
    for level in LEVELS:
        assert {c.rows for c in found if c.level == level} == connected(rows, level)


def connected(rows: np.ndarray, level: float) -> set[tuple[int, ...]]:
    near = rows @ rows.T >= level - 1e-4
    left, found = set(range(len(rows))), set()
    while left:
        group, edge = set(), {left.pop()}
        while edge:
            group |= edge
            edge = {int(b) for a in edge for b in np.flatnonzero(near[a])} - group
        left -= group
        if len(group) > 1:
            found.add(tuple(sorted(group)))
    return found


def test_ages_have_bounds() -> None:
    now = parse_iso("2026-11-30T00:00:00Z")
    assert now is not None
    known = {"2026-11-29T00:00:00Z": "7 days", "2026-09-20T00:00:00Z": "90 days", "x": "unknown"}
    assert {at: age_of(at, now) for at in known} == known
    assert age_of("2020-01-01", now) == "older"
