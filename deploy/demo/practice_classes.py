"""The practice model's classes of questions that are told by a table: cues, queries, wording.

A class asks its naive query (what a weak model would ask: silently wrong, or refused)
until the text it needs stands in a system message, as a recalled lesson puts it there,
or until it has looked at the tables after a refusal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any, NamedTuple

import yaml

from lessons_loop.deploy.demo.data import SITES
from lessons_loop.deploy.demo.practice_options import DAYS

TABLES = ("practice_small.yaml", "practice_classes.yaml")
LOOK_BACK = 3
"""User messages that are read for the machine a question leans on."""
SERIAL = re.compile(r"\bs/?n[\s_:#-]*([0-9o]{1,6})\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\d.,-])(\d{4,6})(?![\d.,-]*\d)")
_LEANING = re.compile(r"\bits?\b|\bthat (?:one|machine)\b", re.IGNORECASE)
_WORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "site": tuple((name, re.escape(name)) for name, _ in SITES),
    "fault": (
        ("engine overheating", "overheat|überhitz"),
        ("worn brake pads", "brake|brems"),
        ("blown fuse", "fuse|sicherung"),
        ("hydraulic leak", "leak|leck"),
    ),
    "family": (
        ("excavator", "excavator|bagger"),
        ("loader", "loader|lader"),
        ("crane", r"cranes?\b|kräne?\b"),
        ("pump", "pump"),
    ),
    "kind": (
        ("service", "service"),
        ("repair", "repair|reparatur"),
        ("inspection", "inspe[ck]tion"),
    ),
    "window": (
        ("last-month", r"last (?:full )?month|letzten monat"),
        ("year-to-date", r"this year|year to date|year so far|diesem jahr"),
        ("trailing-12-months", ""),
    ),
}


class Window(NamedTuple):
    """What a window means, and how a model that counts back from today gets it wrong."""

    days: int
    first: str
    last: str


_WINDOWS = {
    "last-month": Window(31, "20261101", "20261130"),
    "year-to-date": Window(304, "'2026-01-01'", "'2026-12-31'"),
    "trailing-12-months": Window(365, "20251130", "20261129"),
}


class PracticeClass(NamedTuple):
    """One class of questions, as its table says it."""

    cues: tuple[str, ...]
    say: str
    needs: tuple[str, ...] = ()
    naive: str = ""
    good: str = ""
    each: str = ""
    wrong: str = ""

    @property
    def slots(self) -> set[str]:
        """Names that its queries take from the question."""
        texts = (self.naive, self.good)
        return {name for text in texts for _, name, _, _ in Formatter().parse(text) if name}


class Fitting(NamedTuple):
    """The class of a question, and what the question names."""

    kind: PracticeClass
    slots: Mapping[str, str]


@cache
def classes() -> tuple[PracticeClass, ...]:
    """Return all classes, in the order in which they are tried."""
    folder = files("lessons_loop.deploy.demo")
    told = (yaml.safe_load(folder.joinpath(name).read_text("utf-8")) for name in TABLES)
    return tuple(_class_of(entry) for entries in told for entry in entries)


def _class_of(entry: Mapping[str, Any]) -> PracticeClass:
    lists = {name: tuple(entry.get(name, ())) for name in ("cues", "needs")}
    return PracticeClass(**{**entry, **lists})


def find_class(spoken: Sequence[str]) -> Fitting | None:
    """Return the class of the last thing a user said; a machine named before counts."""
    if not spoken:
        return None
    named = slots_of(spoken[: -LOOK_BACK - 1 : -1])
    return next(
        (
            Fitting(kind, named)
            for kind in classes()
            if all(re.search(cue, spoken[-1], re.IGNORECASE) for cue in kind.cues)
            and kind.slots <= named.keys()
        ),
        None,
    )


def slots_of(recent: Sequence[str]) -> dict[str, str]:
    """Return what a question names; the latest text is first, "it" is a machine named before."""
    window = _WINDOWS[_word("window", recent[0])]
    found = {name: _word(name, recent[0]) for name in _WORDS}
    texts = recent if _LEANING.search(recent[0]) else recent[:1]
    digits = next(filter(None, map(serial_digits, texts)), "")
    if digits:
        found |= {"serial": f"SN-{digits:0>6}", "digits": digits.lstrip("0")}
    said = {name: value.replace("'", "''") for name, value in found.items() if value}
    return said | {"days": f"{window.days}.0", "first": window.first, "last": window.last}


def serial_digits(text: str) -> str:
    """Return the digits of the serial a text names, letters O read as zeros."""
    serial = SERIAL.search(text) or NUMBER.search(text)
    return serial.group(1).upper().replace("O", "0") if serial else ""


def _word(name: str, text: str) -> str:
    found = (word for word, cue in _WORDS[name] if re.search(cue, text, re.IGNORECASE))
    return next(found, "")


def class_query(found: Fitting, told: str, looked: bool) -> str:
    """Return the query to ask; `told`: the system messages, `looked`: the tables were listed."""
    kind = found.kind
    advised = bool(kind.good) and all(re.search(need, told) for need in kind.needs)
    template = kind.good if kind.good and (advised or looked) else kind.naive
    return " ".join(template.format(**found.slots).split())


def class_answer(found: Fitting, result: str) -> str:
    """Return the answer in words, with the figures of a query result."""
    rows = list(_said_rows(result))
    if not rows or all(value is None for value in rows[0].values()):
        return "The data server has no matching rows: none."
    listed = ", ".join(found.kind.each.format(**row) for row in rows) if found.kind.each else ""
    named = {name: value.replace("''", "'") for name, value in found.slots.items()}
    return found.kind.say.format(**{**named, **rows[0], "n": len(rows), "list": listed})


def _said_rows(result: str) -> Iterator[dict[str, Any]]:
    try:
        table = json.loads(result)
        for row in table["rows"]:
            yield dict(zip(table["columns"], map(_said, row), strict=True))
    except (ValueError, KeyError, TypeError):
        return


def _said(value: Any) -> Any:
    if isinstance(value, int) and value in DAYS:
        return f"{value // 10_000}-{value // 100 % 100:02}-{value % 100:02}"
    return round(value, 2) if isinstance(value, float) else value
