"""Lessons that a measurement of their own showed to do harm: they are held, not kept in use.

Leave-one-out (`lessons eval lesson`) writes its proof on the curated row; the next writing run
holds a lesson whose proof says harmful, seeds and taught ones too: that was measured, while
decay infers it from thumbs. The curated row stays in the archive, so that `lessons revive`
brings it back as it was; then the same proof counts no more, a newer one does.
Covered: a new sighting, a seed file or an import does not let such a lesson in again.
Not covered: the same advice in words that do not repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.clock import iso
from lessons_loop.promote.proof.lesson_proof import LessonProof
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession

HARMFUL = "proof-harmful"
RULE = Actor(kind="rule", name=HARMFUL)


class Harm(NamedTuple):
    """A curated lesson that was measured to do harm."""

    row: Curated
    proof: LessonProof

    @property
    def told(self) -> str:
        """Return the numbers as a sentence."""
        return f"measured to do harm: {self.proof.told()}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"key": self.row.key, "proof": self.proof.model_dump(mode="json")}


def harm_of(row: Curated) -> Harm | None:
    """Return the harm a lesson's proof shows, None without one or one from before it came in."""
    proof = LessonProof.against(row)
    return Harm(row, proof) if proof else None


def measured_harm(row: Archived | None) -> Harm | None:
    """Return the harm for which an archived lesson was held, None for any other row."""
    if row is None or row.curated is None or row.status is not Status.HELD:
        return None
    return harm_of(row.curated)


def hold_harmful(session: GateSession, *, write: bool) -> tuple[Harm, ...]:
    """Hold what was measured to do harm, where `write`; return it; raise StoreError."""
    found = tuple(harm for row in session.curated.values() if (harm := harm_of(row)))
    for harm in found if write else ():
        session.apply(hold_change(harm, iso(session.now())))
    return found


def hold_change(harm: Harm, at: str) -> Change:
    """Return the change that takes the lesson out of use until a person decides."""
    row = harm.row
    reason = f"{HARMFUL}: {harm.told}"
    held = row.lesson.model_copy(update={"status": Status.HELD})
    return Change(
        action=Action.HOLD,
        key=row.key,
        reason=reason,
        actor=RULE,
        payload={
            "curated": row.model_dump(mode="json"),
            "proof": harm.proof.model_dump(mode="json"),
        },
        remove=(row.key,),
        archive=(Archived(lesson=held, reason=reason, at=at, curated=row),),
    )


def harm_among(held: Iterable[Archived]) -> Harm | None:
    """Return the first measured harm among held lessons."""
    return next((harm for row in held if (harm := measured_harm(row))), None)
