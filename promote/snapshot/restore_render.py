"""A snapshot beside what is there now, as lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from lessons_loop.filter.models import Curated
from lessons_loop.promote.render import DRY_RUN, plain
from lessons_loop.promote.snapshot.restore import Comparison
from lessons_loop.promote.snapshot.restore_diff import Difference
from lessons_loop.promote.snapshot.restore_diff import plain as without_rev
from lessons_loop.promote.snapshot.tar import Manifest

SHOWN = 12
"""Rows of each sort a person is shown; `--json` has all."""
Found = TypeVar("Found")


def manifest_lines(name: str, manifest: Manifest) -> list[str]:
    """Return what a snapshot holds."""
    counts = ", ".join(f"{count} {part}" for part, count in manifest.counts().items())
    model = manifest.fingerprint
    embedded = f"{model.name} ({model.dimension} dimensions)" if model else "-"
    return [
        f"snapshot:  {name}",
        f"taken:     {manifest.at} by run {plain(manifest.run)}",
        *([f"why:       {plain(manifest.purpose)}"] if manifest.purpose else []),
        f"holds:     {counts}",
        f"embedded:  {plain(embedded)}",
        f"ledger:    line {manifest.ledger.n} {manifest.ledger.hash[:12]}",
        *(["rewritten: rows were forgotten since"] if manifest.rewritten else []),
    ]


def difference_lines(compared: Comparison, *, would: bool) -> list[str]:
    """Return what a restore changes, row by row; `would`: nothing was written."""
    found, now = compared.difference, compared.present
    if found.empty:
        return ["nothing to change: everything is as the snapshot says", *compared.notes]
    back = [row for row in found.put if row.key not in now.curated]
    changed = [row for row in found.put if row.key in now.curated]
    archived = [row for row in found.archive if row.id not in now.archive]
    rewritten = [row for row in found.archive if row.id in now.archive]
    lines = [
        *_part("curated", "+", back, lambda row: f"{row.key[:12]}  {plain(row.lesson.text)}"),
        *_part(
            "curated", "-", found.remove,
            lambda key: f"{key[:12]}  {plain(now.curated[key].lesson.text)}",
        ),
        *_part("curated", "~", changed, lambda row: _changes(now.curated[row.key], row)),
        *_part(
            "archive", "+", archived,
            lambda r: f"{r.lesson.key[:12]}  {r.status.value}: {plain(r.lesson.text)}",
        ),
        *_part(
            "archive", "-", found.unarchive,
            lambda id_: f"{id_[:12]}  {now.archive[id_].status.value}: "
            f"{plain(now.archive[id_].lesson.text)}",
        ),
        *_part("archive", "~", rewritten, lambda r: f"{r.lesson.key[:12]}  {r.status.value}"),
        *_part(
            "candidates", "+", found.stage,
            lambda row: f"{row.lesson.key[:12]}  {plain(row.lesson.text)}",
        ),
        *_part(
            "candidates", "-", found.unstage,
            lambda id_: f"{id_[:12]}  {plain(now.candidates[id_].lesson.text)}",
        ),
        *_counted("events", len(found.stage_events), len(found.unstage_events)),
        *_counted("uses", len(found.uses), len(found.drop_uses)),
        *(f"note:      {note}" for note in compared.notes),
        _summary(found, would),
    ]  # fmt: skip
    return [DRY_RUN, *lines, DRY_RUN] if would else lines


def _part(
    part: str, sign: str, rows: Sequence[Found], told: Callable[[Found], str]
) -> Iterable[str]:
    if not rows:
        return
    yield f"{part}: {_said(len(rows), sign)}"
    yield from (f"  {sign} {told(row)}" for row in rows[:SHOWN])
    if len(rows) > SHOWN:
        yield f"  {sign} … and {len(rows) - SHOWN} more: --json shows all"


def _said(count: int, sign: str) -> str:
    one, many = {"+": ("comes", "come"), "-": ("leaves", "leave"), "~": ("changes", "change")}[sign]
    return f"{count} {one if count == 1 else many}" + (" back" if sign == "+" else "")


def _counted(part: str, more: int, fewer: int) -> list[str]:
    counts = ((more, "+"), (fewer, "-"))
    return [f"{part}: {_said(count, sign)}" for count, sign in counts if count]


def _changes(now: Curated, then: Curated) -> str:
    changed = changed_fields(now, then)
    said = ", ".join(
        f"{name} {plain(str(old)) or '-'} → {plain(str(new)) or '-'}" for name, old, new in changed
    )
    return f"{then.key[:12]}  {said or 'its vector'}"


def changed_fields(now: Curated, then: Curated) -> list[tuple[str, Any, Any]]:
    """Return name, present and earlier value of each field of a curated row that differs."""
    old, new = _flat(now), _flat(then)
    return [(name, old[name], new[name]) for name in old if old[name] != new[name]]


def _flat(row: Curated) -> dict[str, Any]:
    found = without_rev(row).model_dump(mode="json")
    return {**found.pop("lesson"), **found}


def _summary(found: Difference, would: bool) -> str:
    rows = f"{len(found.put) + len(found.remove)} curated lesson(s)"
    return f"would change {rows}" if would else f"changed {rows}, read back and compared"


def as_json(
    name: str, manifest: Manifest, compared: Comparison, *, written: bool
) -> dict[str, Any]:
    """Return everything for a machine."""
    found, now = compared.difference, compared.present
    back = [row.key for row in found.put if row.key not in now.curated]
    changed = {
        row.key: {n: [old, new] for n, old, new in changed_fields(now.curated[row.key], row)}
        for row in found.put
        if row.key in now.curated
    }
    return {
        "snapshot": name,
        "domain": manifest.domain,
        "at": manifest.at,
        "written": written,
        "nothing_to_change": found.empty,
        "curated": {"back": back, "leave": list(found.remove), "change": changed},
        "archive": {"back": [row.id for row in found.archive], "leave": list(found.unarchive)},
        "candidates": {"back": [row.id for row in found.stage], "leave": list(found.unstage)},
        "events": {
            "back": [row.id for row in found.stage_events], "leave": list(found.unstage_events)
        },
        "uses": {"back": [row.id for row in found.uses], "leave": list(found.drop_uses)},
        "notes": list(compared.notes),
    }  # fmt: skip
