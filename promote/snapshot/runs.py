"""What the commands on snapshots do once their flags are read."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.promote.ledger.chain import Ledger
from lessons_loop.promote.quiet import busy
from lessons_loop.promote.records import Action, Actor
from lessons_loop.promote.render import make_console, plain, print_lines
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.snapshot.files import (
    RESTORE,
    find_snapshot,
    list_snapshots,
    name_of,
    old_folders,
)
from lessons_loop.promote.snapshot.kept import Occasion, create_snapshot, read_snapshot
from lessons_loop.promote.snapshot.restore import Wanted, compare, restore
from lessons_loop.promote.snapshot.restore_render import as_json as restored_json
from lessons_loop.promote.snapshot.restore_render import difference_lines, manifest_lines
from lessons_loop.promote.snapshot.tar import Manifest, read_manifest
from lessons_loop.promote.state import clean_domain, existing_store, locate

COUNTED = ("curated", "archive", "candidates", "events")


class Place(NamedTuple):
    """Where a command works."""

    store: str
    state_dir: Path | None
    domain: str
    embedding: str = ""

    @property
    def state(self) -> Path:
        """The state directory."""
        return locate(self.store, self.state_dir).state

    @property
    def name(self) -> str:
        """The domain; raise StoreError when it is none."""
        return clean_domain(self.domain)

    def settings(self, *, dry_run: bool, embedding: bool = False) -> GateSettings:
        """Return where the gate works; undoing goes on while it is paused."""
        from lessons_loop.promote.embedding.embedders import parse_embedding

        embedder = parse_embedding(self.embedding, os.environ) if embedding else None
        return GateSettings(
            self.store, self.name, self.state_dir, embedder, dry_run, despite_pause=True
        )


def create_one(place: Place, reason: str, as_json: bool) -> None:
    """Take a snapshot of a domain there is; raise StoreError."""
    existing_store(place.store)
    entries = Ledger(place.state).entries()
    if place.name not in {entry.domain for entry in entries}:
        raise StoreError(f"there is no domain {place.name} in this store: nothing to keep")
    with busy("opening the store …"), open_gate(place.settings(dry_run=False)) as session:
        session.occasion = Occasion(reason or "by hand")
        path = create_snapshot(session)
    manifest = read_manifest(path)
    content = {"snapshot": name_of(path), "path": str(path), **manifest.counts()}
    _tell(manifest_lines(name_of(path), manifest), content, as_json)


def print_list(place: Place, as_json: bool) -> None:
    """Print the snapshots of a domain; the store itself is not asked."""
    existing_store(place.store)
    paths = list_snapshots(place.state, place.name)
    done = _done_by_run(place.state, place.name)
    rows = [_row(path, done) for path in paths]
    notes = [f"no snapshots of {place.name}"] if not rows else []
    if old := old_folders(place.state):
        notes.append(
            f"{len(old)} folder(s) of an earlier release in {old[0].parent} are left alone: "
            "delete them when they are no longer wanted"
        )
    if as_json:
        _print_json({"domain": place.name, "snapshots": rows, "notes": notes})
        return
    console = make_console()
    if rows:
        console.print(_table(rows, console.width))
    print_lines(console, notes)


def show_one(place: Place, when: str, as_json: bool) -> None:
    """Print a snapshot and what restoring it would change; raise StoreError."""
    wanted = _wanted(place, when, exact=False)
    with busy("opening the store …"), open_gate(place.settings(dry_run=True)) as session:
        compared = compare(session, wanted)
    name, manifest = name_of(wanted.path), wanted.snapshot.manifest
    content = {
        "manifest": manifest.model_dump(mode="json"),
        "differs": restored_json(name, manifest, compared, written=False),
    }
    told = "now: as the snapshot says" if compared.difference.empty else "restoring it:"
    lines = [] if compared.difference.empty else difference_lines(compared, would=True)[1:-1]
    _tell([*manifest_lines(name, manifest), told, *lines], content, as_json)


def restore_one(
    place: Place,
    when: str,
    actor: Actor,
    reason: str,
    *,
    exact: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Restore a snapshot, or say what that would change; raise StoreError, EmbedError."""
    wanted = _wanted(place, when, exact=exact)
    lacking = len(wanted.snapshot.vectors) < len(wanted.snapshot.curated)
    settings = place.settings(dry_run=dry_run, embedding=lacking)
    with busy("restoring …"), open_gate(settings) as session:
        compared = restore(session, wanted, actor, reason)
        own, run = session.snapshot, session.run
    name, manifest = name_of(wanted.path), wanted.snapshot.manifest
    written = not (dry_run or compared.difference.empty)
    content = restored_json(name, manifest, compared, written=written) | {
        "replaced": own.partition(".")[0]
    }
    lines = [f"{place.name}: snapshot {name}, taken {manifest.at}"]
    if since := _done_since(place, manifest, run):
        lines.append(f"undoes: {since}")
    lines += difference_lines(compared, would=dry_run)
    if written:
        lines.append(f"undo it with: lessons restore {own.partition('.')[0]} --exact")
    _tell(lines, content, as_json)


def _wanted(place: Place, when: str, *, exact: bool) -> Wanted:
    existing_store(place.store)
    path = find_snapshot(place.state, place.name, when)
    with busy("reading the snapshot …"):
        found = read_snapshot(path)
    return Wanted(path, found, list_snapshots(place.state, place.name), exact)


def _done_since(place: Place, manifest: Manifest, run: str) -> str:
    """Return what was written after a snapshot, in words; `run` is the restore's own."""
    done = Counter(
        entry.action.value
        for entry in Ledger(place.state).entries()
        if entry.n > manifest.header.head_n and entry.domain == place.name and entry.run != run
    )
    return ", ".join(f"{count} {action}" for action, count in done.most_common())


# --- the list


def _done_by_run(state: Path, domain: str) -> dict[str, str]:
    """Return what each run wrote after its snapshot, in words."""
    counted: dict[str, Counter[str]] = {}
    for entry in Ledger(state).entries():
        if entry.domain == domain and entry.action is not Action.INIT:
            counted.setdefault(entry.run, Counter())[entry.action.value] += 1
    return {
        run: ", ".join(f"{count} {action}" for action, count in found.most_common())
        for run, found in counted.items()
    }


def _row(path: Path, done: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"snapshot": name_of(path), "bytes": path.stat().st_size}
    try:
        manifest = read_manifest(path)
    except LessonsError as error:
        return row | {"problem": str(error)}
    return row | {
        "at": manifest.at,
        "run": plain(manifest.run),
        "counts": manifest.counts(),
        "then": done.get(manifest.run, ""),
        "why": _why(manifest),
        "rewritten": manifest.rewritten,
    }


def _why(manifest: Manifest) -> str:
    if manifest.purpose == RESTORE:
        return "before a restore"
    return plain(manifest.purpose) or "before a run"


def _table(rows: Sequence[dict[str, Any]], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", width=width)
    table.add_column("snapshot", no_wrap=True, width=22, min_width=22, overflow="crop")
    shown = 5 if width >= 76 else 1
    for name in ("cur.", "arch.", "cand.", "events", "KiB")[:shown]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why; what was done then", ratio=1, overflow="fold")
    for row in rows:
        counts = row.get("counts", {})
        why = row.get("problem") or row["why"] + (f"; {row['then']}" if row["then"] else "")
        cells = [*(str(counts.get(name, "?")) for name in COUNTED), str(row["bytes"] // 1024)]
        table.add_row(row["snapshot"], *cells[:shown], Text(why))
    return table


def _tell(lines: Sequence[str], content: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _print_json(content)
    else:
        print_lines(make_console(), lines)


def _print_json(content: dict[str, Any]) -> None:
    from lessons_loop.promote.decide.changes import masked_values

    typer.echo(json.dumps(masked_values(content), indent=2))
