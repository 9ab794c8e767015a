"""What a lesson can be about; apart from the models, so that it loads at once."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a lesson is about; the one definition every producer and check reads."""

    SCHEMA_MAP = "schema-map"
    PERF_GUARD = "perf-guard"
    RESOLUTION_PATTERN = "resolution-pattern"
    FAIL_FIX = "fail-fix"


KIND_MEANINGS: dict[Kind, str] = {
    Kind.SCHEMA_MAP: "where data lives, what a column, field, unit or parameter means",
    Kind.PERF_GUARD: "protects from cost, slowness or running out of something",
    Kind.RESOLUTION_PATTERN: "a way of doing it that works for a class of questions",
    Kind.FAIL_FIX: "a failure and what cures it",
}
