"""An audit as lines of at most `width` columns, each finding with what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lessons_loop.deploy.audit.reach import COSTLY, CROWDED, FLOOR, RIVAL
from lessons_loop.deploy.audit.survey import PLACES, Audit
from lessons_loop.deploy.doctor.render import remedy_lines, wrapped
from lessons_loop.deploy.status.render import cut
from lessons_loop.promote.counting import many
from lessons_loop.promote.showing import plain

SHOWN = 10
ROWS = 8
LABELS = {"age": "age up to"}
NEXT = {
    FLOOR: "its trigger and text say too little of the same: propose a clearer wording",
    RIVAL: "a look-alike with the same trigger is shown instead: reject one of them",
    CROWDED: "others fit its own trigger better: narrow their triggers, or reject it",
    COSTLY: "it is longer than token_budget alone: shorten it, or raise the valve",
}


def render_audit(found: Audit, width: int) -> str:
    """Return one domain's audit."""
    return "\n".join(cut(line, width) for line in _lines(found, width))


def _lines(found: Audit, width: int) -> Iterator[str]:
    places = [f"{found.places[name]} {name}" for name in PLACES if found.places.get(name)]
    yield f"{found.domain}: {', '.join(places) or 'no lessons'}"
    for what in ("kind", "source", "producer", "age"):
        yield from count_lines(what, found.counts.get(what, {}), found.places, width)
    yield from people_lines(found.users)
    yield from copy_lines(found, width)
    yield from unused_lines(found, width)
    yield from reach_lines(found, width)
    for note in found.notes:
        yield from wrapped(plain(note), width, "note: ", "      ")


def count_lines(
    what: str, rows: Mapping[str, Mapping[str, int]], places: Mapping[str, int], width: int
) -> Iterator[str]:
    """Yield a table: a value a line, a place a column; places nothing is in have none."""
    used = [name for name in PLACES if places.get(name)]
    if not rows:
        return
    column = max(20, min(36, width - 10 * len(used)))
    yield ""
    yield f"{LABELS.get(what, what):{column}}" + "".join(f" {name[:9]:>9}" for name in used)
    order = sorted(rows.items(), key=lambda row: (-sum(row[1].values()), row[0]))
    for value, counts in order[:ROWS]:
        numbers = "".join(f" {counts.get(name, 0) or '-':>9}" for name in used)
        yield f"{cut(plain(value), column):{column}}{numbers}"
    if len(order) > ROWS:
        yield f"{len(order) - ROWS} more: --json"


def people_lines(users: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many people are behind the lessons; who they are is not kept in clear."""
    yield ""
    waiting = ", ".join(str(count) for count in users["sightings"])
    busiest = f"; sightings of each, most first: {waiting}" if waiting else ""
    yield f"users: {many(users['distinct'], 'person').replace('persons', 'people')}{busiest}"
    by_number = ", ".join(f"{count} by {number}" for number, count in users["lessons"].items())
    if by_number:
        yield f"curated by number of people who showed them: {by_number}"


def copy_lines(found: Audit, width: int) -> Iterator[str]:
    """Yield how many clusters there are at each level, and the nearest ones."""
    if not found.clusters:
        return
    yield ""
    levels = ", ".join(f"{count} at {level}" for level, count in found.clusters.items())
    if not any(found.clusters.values()):
        levels = f"none at {min(found.clusters)} or nearer"
    yield from wrapped(f"near copies (clusters by cosine): {levels}", width, "", "  ")
    told: set[tuple[str, ...]] = set()
    for row in found.copies:  # highest level first: a cluster is told where it is tightest
        keys = tuple(row["keys"])
        if keys in told or len(told) >= SHOWN:
            continue
        told.add(keys)
        more = ", the first 3 are" if len(keys) > 3 else ""
        yield f"  {row['nearest']:.3f}  {len(keys)} lessons at {row['level']:g}{more}"
        yield from named(keys[:3], found)
    if told:
        yield from remedy_lines("lessons show ID, then lessons reject ID --reason …", width)


def unused_lines(found: Audit, width: int) -> Iterator[str]:
    """Yield the curated lessons no chat was given."""
    keys = found.never_recalled
    if not keys:
        return
    yield ""
    yield f"never recalled: {many(len(keys), 'lesson')}{_some(keys)}"
    yield from named(keys[:SHOWN], found)
    yield from remedy_lines("lessons demote ID --reason … if it is of no use", width)


def reach_lines(found: Audit, width: int) -> Iterator[str]:
    """Yield what its own trigger does not bring, by cause."""
    yield ""
    yield f"nothing reaches: {many(len(found.unreached), 'lesson')}"
    for cause, remedy in NEXT.items():
        rows = [row for row in found.unreached if row["cause"] == cause]
        if not rows:
            continue
        yield f"  {cause}: {len(rows)}{_some(rows)}"
        for row in rows[:SHOWN]:
            yield from named([row["key"]], found, f"{row['score']:.2f} of {row['floor']:.2f} ")
            if row["behind"]:
                yield f"      behind {', '.join(key[:12] for key in row['behind'][:4])}"
        yield from remedy_lines(remedy, width)


def named(keys: Sequence[str], found: Audit, label: str = "") -> Iterator[str]:
    """Yield lessons by the start of their id."""
    for key in keys:
        yield f"    {key[:12]}  {label}{plain(found.texts.get(key, ''))}"


def _some(rows: Sequence[object]) -> str:
    return f" (the first {SHOWN}; all: --json)" if len(rows) > SHOWN else ""
