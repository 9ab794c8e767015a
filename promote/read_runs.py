"""Print what waits, and one lesson's life; the embedding model is loaded where needed."""

from __future__ import annotations

from lessons_loop.promote import render
from lessons_loop.promote.cases import Casebook
from lessons_loop.promote.ledger.past import keys_of
from lessons_loop.promote.life import (
    Life,
    Where,
    find_curated_or_gone,
    find_waiting_life,
    life_as_dict,
)
from lessons_loop.promote.listing import (
    HEADING,
    Waiting,
    Wish,
    chosen,
    waiting_lines,
    waiting_of,
    waiting_row,
)
from lessons_loop.promote.lookup import check_prefix, list_waiting
from lessons_loop.promote.render_life import life_lines
from lessons_loop.promote.runs.command_runs import (
    GateFlags,
    opened_gate,
    print_json,
    progress_bar,
    reading_gate,
)
from lessons_loop.promote.state import locate


def list_all(flags: GateFlags, wish: Wish) -> None:
    """Print what waits for a decision."""
    with opened_gate(flags, reading=True, embedding=False) as session:
        some = bool(session.candidates() or session.held())
        unreadable, others = session.unreadable, session.other_domains()
    everything = _waiting(flags) if some else []  # loading a model takes seconds
    rows = chosen(everything, wish)
    if flags.as_json:
        _print_rows(rows, len(everything), unreadable)
        return
    there = f"; this store has: {', '.join(others)}" if others else ""
    lines = [] if everything else [f"no candidates in {flags.domain}{there}"]
    for status, title in (("candidate", "candidates"), ("held", "held")):
        if mine := [row for row in rows if row.status == status]:
            lines += [f"{title}: {len(mine)}", HEADING]
            lines += [line for row in mine for line in waiting_lines(row)]
    if len(rows) < len(everything):
        lines.append(f"{len(rows)} of {len(everything)} shown")
    if unreadable:
        lines.append(f"{unreadable} unreadable row(s) in staging")
    render.print_lines(render.make_console(), lines)


def show_one(flags: GateFlags, prefix: str) -> None:
    """Print one lesson's life, wherever it is; raise InvalidLesson."""
    check_prefix(prefix)
    life = _life(flags, prefix)
    if flags.as_json:
        print_json(life_as_dict(life))
        return
    render.print_lines(render.make_console(), life_lines(life))


def _life(flags: GateFlags, prefix: str) -> Life:
    place = locate(flags.store, flags.state_dir)
    where = Where(place.state, place.published(flags.domain))
    with opened_gate(flags, reading=True, embedding=False) as session:
        if found := find_curated_or_gone(Casebook(session, flags.rules()), prefix, where):
            return found
    with reading_gate(flags) as session:
        return find_waiting_life(list_waiting(session, flags.rules()), prefix)


def _waiting(flags: GateFlags) -> list[Waiting]:
    with reading_gate(flags) as session, progress_bar() as progress:
        listing, now = list_waiting(session, flags.rules(), progress), session.now()
        past = listing.book.precedents.past
        return [
            waiting_of(case, past.chain(keys_of(case.group), case.group.candidates), now)
            for case in listing.cases(progress)
        ]


def _print_rows(rows: list[Waiting], total: int, unreadable: int) -> None:
    plain = [waiting_row(row) for row in rows]
    print_json(
        {
            "candidates": [row for row in plain if row["status"] == "candidate"],
            "held": [row for row in plain if row["status"] == "held"],
            "waiting": total,
            "unreadable": unreadable,
        }
    )
