"""Several decisions, one write: their plans merged into one that ends the same. Pure.

Only plans that put, remove, archive or delete from staging are merged; the rare rest, such
as a restore, is written on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.ledger.journal import Plan
from lessons_loop.promote.store.rows import Row

BATCH_PLANS = 250
BATCH_BYTES = 8 * 2**20
"""Of payloads: a journal is about as large again, and is held in memory."""


@dataclass
class Pending:
    """Decisions that are taken but not yet stored."""

    plans: list[Plan] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    """Payload files to write, by sha256."""
    size: int = 0

    def add(self, plan: Plan, content: bytes) -> None:
        """Take one decision in."""
        self.plans.append(plan)
        self.contents[plan.entry.payload] = content
        self.size += len(content)

    @property
    def full(self) -> bool:
        """Whether it is time to store them."""
        return len(self.plans) >= BATCH_PLANS or self.size >= BATCH_BYTES


def is_mergeable(plan: Plan) -> bool:
    """Say whether a plan may be stored together with others."""
    return not (plan.swap or plan.unarchive or plan.stage or plan.stage_events or plan.drop_uses)


def merged(plans: Sequence[Plan]) -> Plan:
    """Return one plan with the effects of all, the last word on each row; needs one plan."""
    if len(plans) == 1:
        return plans[0]
    put: dict[str, Row] = {}
    removed: dict[str, None] = {}
    archive: dict[str, Row] = {}
    uses: dict[str, Use] = {}
    for plan in plans:
        for row in plan.put:
            removed.pop(row.id, None)
            put[row.id] = _with_vector(row, put.get(row.id))
        for key in plan.remove:
            put.pop(key, None)
            removed[key] = None
        archive |= {row.id: row for row in plan.archive}
        uses |= {use.id: use for use in plan.uses}
    return Plan(
        entries=tuple(entry for plan in plans for entry in plan.entries),
        header=plans[-1].header,
        put=tuple(put.values()),
        remove=tuple(removed),
        archive=tuple(archive.values()),
        staged=tuple(dict.fromkeys(id_ for plan in plans for id_ in plan.staged)),
        events=tuple(dict.fromkeys(id_ for plan in plans for id_ in plan.events)),
        uses=tuple(uses.values()),
    )


def _with_vector(row: Row, earlier: Row | None) -> Row:
    """Return the row with the vector an earlier decision of the batch gave it."""
    if row.vector is None and earlier is not None:
        return row.model_copy(update={"vector": earlier.vector})
    return row
