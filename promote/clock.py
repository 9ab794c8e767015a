"""Time as the gate writes it: UTC, ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """Return a moment as records carry it: seconds, `Z` at the end."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(moment: datetime) -> str:
    """Return a moment for file names; sorts by time."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")


def parse_iso(text: str) -> datetime | None:
    """Return the moment a record names, None when it names none; no zone means UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return zoned.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
