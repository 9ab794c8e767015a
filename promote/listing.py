"""What waits for a decision, sorted and filtered: pure, from cases to rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from lessons_loop.promote.cases import Case
from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.ledger.past import Chain
from lessons_loop.promote.records import Archived
from lessons_loop.promote.render import plain
from lessons_loop.promote.similar.similarity import UNRELATED


class Wish(NamedTuple):
    """How the list shall be sorted, and what of it shown."""

    sort: str = "age"
    reverse: bool = False
    status: str = ""
    kind: str = ""
    rule: str = ""
    producer: str = ""
    text: str = ""
    min_users: int = 0
    limit: int = 0
    """0: all."""


class Waiting(NamedTuple):
    """One lesson that waits, with what is known of it."""

    case: Case
    chain: Chain
    since: str
    """When it was first shown, ISO 8601."""
    age_days: int

    @property
    def status(self) -> str:
        """Where it waits."""
        return "candidate" if self.case.group.staged else "held"

    @property
    def rule(self) -> str:
        """The rule that stands against it, as it was held by or as it would be now."""
        if self.status == "held" and self.case.group.held:
            return _rule_of(self.case.group.held[-1])
        return self.case.verdict.rule

    @property
    def producers(self) -> tuple[str, ...]:
        """Models and prompt versions that proposed it, and the lesson's source."""
        seen = self.case.group.candidates
        names = [name for one in seen for name in (one.model, one.prompt)]
        return tuple(
            dict.fromkeys(name for name in (*names, self.case.group.lesson.source) if name)
        )

    @property
    def nearness(self) -> float:
        """Similarity to the nearest curated lesson, 0 without one."""
        near = self.case.verdict.neighbour
        return near.similarity if near else 0.0


def waiting_of(case: Case, chain: Chain, now: datetime) -> Waiting:
    """Return a case with its age."""
    moments = [seen.at for seen in case.group.candidates] or [row.at for row in case.group.held]
    since = min(moments, default="")
    began = parse_iso(since) if since else None
    days = max(0, (now - began).days) if began else 0
    return Waiting(case, chain, since, days)


def chosen(rows: Sequence[Waiting], wish: Wish) -> list[Waiting]:
    """Return the rows wished for, in the order wished for."""
    found = [row for row in rows if _fits(row, wish)]
    found.sort(key=lambda row: row.case.group.key)  # equal ones keep one order
    orders = {
        "age": lambda row: row.since,
        "sightings": lambda row: -row.case.group.sightings,
        "users": lambda row: -row.case.group.users,
        "nearest": lambda row: -row.nearness,
    }
    found.sort(key=orders[wish.sort], reverse=wish.reverse)
    return found[: wish.limit] if wish.limit else found


def waiting_row(row: Waiting) -> dict[str, Any]:
    """Return one waiting lesson as plain values."""
    group, near, verdict = row.case.group, row.case.verdict.neighbour, row.case.verdict
    related = near.relation if near and near.relation != UNRELATED else "-"
    return {
        "id": group.key[:12],
        "key": group.key,
        "status": row.status,
        "kind": group.lesson.kind.value,
        "text": plain(group.lesson.text),
        "trigger": plain(group.lesson.trigger),
        "tags": [plain(tag) for tag in group.lesson.tags],
        "source": plain(group.lesson.source),
        "producers": [plain(name) for name in row.producers],
        "sightings": group.sightings,
        "users": group.users,
        "since": row.since,
        "age_days": row.age_days,
        "relation": related if verdict.rule != "no-embedder" else "?",
        "nearest": _nearest(row),
        "verdict": verdict.decision.value,
        "rule": row.rule,
        "reason": plain(_why(row)),
        "earlier": row.chain._asdict() | {"last_reason": plain(row.chain.last_reason)},
        "decisions": [dict(decision) for decision in row.case.history],
    }


def waiting_lines(row: Waiting) -> list[str]:
    """Return one waiting lesson for people: figures, text, neighbour, reason, history."""
    group, near = row.case.group, row.case.verdict.neighbour
    kind, age = group.lesson.kind.value, f"{row.age_days}d"
    lines = [
        f"{group.key[:12]}  {kind:18}  {group.sightings:>4}  {group.users:>5}  {age:>5}",
        f"{'':14}{plain(group.lesson.text)}",
    ]
    if near is not None:
        key, score = near.curated.key[:12], f"{near.similarity:.2f}"
        lines.append(f"{'':14}nearest {key}: {near.relation}, {score}")
    elif row.case.verdict.rule == "no-embedder":
        lines.append(f"{'':14}nearest: not compared")
    lines.append(f"{'':14}{row.rule}: {plain(_why(row))}")
    told = row.chain.told()
    if told and told not in _why(row):
        lines.append(f"{'':14}{plain(told)}")
    return lines


HEADING = f"{'id':12}  {'kind':18}  seen  users    age"


def _fits(row: Waiting, wish: Wish) -> bool:
    lesson = row.case.group.lesson
    words = f"{lesson.text} {lesson.trigger} {' '.join(lesson.tags)}".casefold()
    producers = " ".join(row.producers).casefold()
    return (
        wish.status in ("", row.status)
        and wish.kind in ("", lesson.kind.value)
        and wish.rule in ("", row.rule)
        and wish.producer.casefold() in producers
        and all(word in words for word in wish.text.casefold().split())
        and row.case.group.users >= wish.min_users
    )


def _nearest(row: Waiting) -> dict[str, Any] | None:
    near = row.case.verdict.neighbour
    if near is None:
        return None
    return {
        "id": near.curated.key[:12],
        "key": near.curated.key,
        "relation": near.relation,
        "similarity": near.similarity,
    }


def _why(row: Waiting) -> str:
    if row.status == "held" and row.case.group.held:
        held = row.case.group.held[-1]
        return held.reason.removeprefix(f"{_rule_of(held)}: ")
    return row.case.verdict.reason


def _rule_of(row: Archived) -> str:
    rule, colon, _ = row.reason.partition(": ")
    return rule if colon and " " not in rule else "person"
