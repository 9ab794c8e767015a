"""What a check of the gate found wrong with a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What a finding leads to."""

    REJECT = "reject"
    HOLD = "hold"
    """A person has to look; no unattended run and no model may pass it."""


@dataclass(frozen=True)
class Finding:
    """One broken rule."""

    rule: str
    """Short name, such as `hidden` or `non-imperative`."""
    severity: Severity
    sentence: str
    """Why, for people; never repeats a secret."""


def rejects(rule: str, sentence: str) -> Finding:
    """Return a finding that rejects."""
    return Finding(rule, Severity.REJECT, sentence)


def holds(rule: str, sentence: str) -> Finding:
    """Return a finding that needs a person."""
    return Finding(rule, Severity.HOLD, sentence)
