"""Steps from one schema to the next, and back: pure. What a step back drops, it hands over.

A step changes curated and archived lessons one by one; staging keeps the rows it has, for the
gate reads every older one, and those of a later plugin wait unread until it is upgraded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from lessons_loop.filter.models import Candidate, Curated
from lessons_loop.filter.schema import FIRST_SCHEMA, SCHEMA
from lessons_loop.promote.errors import NoSuchSchema
from lessons_loop.promote.records import Action, Archived


class Kept(BaseModel):
    """What a step back took out of the rows: the step forward puts it in again."""

    model_config = ConfigDict(extra="ignore")

    proofs: dict[str, str] = Field(default_factory=dict)
    """By lesson key and `since`: a revived lesson also stands in the archive as it was before."""
    seals: dict[str, str] = Field(default_factory=dict)
    """By candidate id and time."""


class Step(NamedTuple):
    """One schema to the next."""

    to: int
    brings: str
    """What the later schema has, for people."""
    forward: Callable[[Curated, Kept], Curated]
    back: Callable[[Curated, Kept], Curated]
    sighting_forward: Callable[[Candidate, Kept], Candidate]
    sighting_back: Callable[[Candidate, Kept], Candidate]
    actions: frozenset[Action] = frozenset()
    """Ledger lines that stop an earlier gate: it cannot read them."""

    def curated(self, row: Curated, kept: Kept, *, forward: bool) -> Curated:
        """Return a row as the other side of the step has it; going back fills `kept`."""
        return self.forward(row, kept) if forward else self.back(row, kept)

    def archived(self, row: Archived, kept: Kept, *, forward: bool) -> Archived:
        """Return an archived row so, with all it came with."""
        lesson = self.forward if forward else self.back
        sighting = self.sighting_forward if forward else self.sighting_back
        return row.model_copy(
            update={
                "candidate": sighting(row.candidate, kept) if row.candidate else None,
                "sightings": tuple(sighting(seen, kept) for seen in row.sightings),
                "curated": lesson(row.curated, kept) if row.curated else None,
            }
        )


def with_proof(row: Curated, kept: Kept) -> Curated:
    """Return a lesson with the proof it had, unless it was measured since."""
    found = row.proof or kept.proofs.get(_tenure(row), "")
    return row.model_copy(update={"proof": found})


def without_proof(row: Curated, kept: Kept) -> Curated:
    """Return a lesson without its proof."""
    if row.proof:
        kept.proofs[_tenure(row)] = row.proof
    return row.model_copy(update={"proof": ""})


def with_seal(seen: Candidate, kept: Kept) -> Candidate:
    """Return a sighting with the seal it had."""
    return seen.model_copy(update={"seal": seen.seal or kept.seals.get(_moment(seen), "")})


def without_seal(seen: Candidate, kept: Kept) -> Candidate:
    """Return a sighting without its seal."""
    if seen.seal:
        kept.seals[_moment(seen)] = seen.seal
    return seen.model_copy(update={"seal": ""})


def _tenure(row: Curated) -> str:
    return f"{row.key} {row.since}"


def _moment(seen: Candidate) -> str:
    return f"{seen.id} {seen.at}"


STEPS = {
    2: Step(
        2,
        "proofs on lessons, seals on candidates",
        with_proof,
        without_proof,
        with_seal,
        without_seal,
        frozenset({Action.PROVE}),
    )
}
"""By the schema a step leads to."""


def way(have: int, wanted: int, steps: Mapping[int, Step] = STEPS) -> list[tuple[Step, int]]:
    """Return the steps in order, each with the schema it ends at; raise NoSuchSchema."""
    if not FIRST_SCHEMA <= wanted <= SCHEMA:
        raise NoSuchSchema(
            f"there is no schema {wanted}: this release knows {FIRST_SCHEMA} to {SCHEMA}"
        )
    if have <= wanted:
        return [(steps[number], number) for number in range(have + 1, wanted + 1)]
    return [(steps[number], number - 1) for number in range(have, wanted, -1)]
