"""The forms of a check in a question file: which keys there are, what each takes.

A check is a mapping with exactly one key of KINDS and the options that kind has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from lessons_loop.eval.grading.bounded_regex import refusal_of

LIST_LIMIT = 50
TEXT_LIMIT = 4000
"""Characters of one text in a check."""
CALLS_LIMIT = 1000
_DECIMAL = re.compile(r"[-+]?\d+(?:\.\d+)?")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
TOOL_NAME = "a tool's name"


class BadCheck(ValueError):
    """A check is not in one of the forms; the text says what is allowed."""


class Tolerance(NamedTuple):
    """How far from the number an answer may be."""

    amount: Decimal
    relative: bool = False
    """A share of the number: 0.01 is one percent."""

    def around(self, value: Decimal) -> Decimal:
        """Return the distance allowed from a value."""
        return abs(value) * self.amount if self.relative else self.amount


class Check(NamedTuple):
    """One check, read."""

    kind: str
    texts: tuple[str, ...] = ()
    """Texts, pattern, query or tool, as the kind has it."""
    number: Decimal = Decimal(0)
    within: Tolerance | None = None
    limit: int = 0
    flag: bool = False
    """`ordered` of sql_result, `failed` of max_tool_calls."""
    tool: str = ""
    """Whose result sql_result compares; empty: run_sql."""


def read_check(given: Mapping[str, Any]) -> Check:
    """Return one check as written in a file; raise BadCheck."""
    named = [key for key in given if key in KINDS]
    if len(named) != 1:
        found = " and ".join(named) if named else _unknown(given)
        raise BadCheck(f"{found}: give exactly one of {', '.join(KINDS)}")
    kind = named[0]
    reader, options = KINDS[kind]
    if extra := [str(key) for key in given if key != kind and key not in options]:
        allowed = f"only {', '.join(options)} may stand beside it" if options else "takes no option"
        raise BadCheck(f"{kind}: unknown {', '.join(extra)}; {allowed}")
    return reader(kind, given)


def _unknown(given: Mapping[str, Any]) -> str:
    return f"unknown {', '.join(map(str, given))}" if given else "an empty check"


def _texts(kind: str, given: Mapping[str, Any]) -> Check:
    value = given[kind]
    listed = value if isinstance(value, list) else [value]
    if not 0 < len(listed) <= LIST_LIMIT:
        raise BadCheck(f"{kind}: must be a text or a list of 1 to {LIST_LIMIT} texts")
    return Check(kind, tuple(_text(kind, one) for one in listed))


def _text(kind: str, value: Any, what: str = "text") -> str:
    if not isinstance(value, str):
        raise BadCheck(
            f"{kind}: must be {what}, got {_named(value)}: put numbers, dates and yes or no in"
            " quotes"
        )
    if not value.strip():
        raise BadCheck(f"{kind}: must not be empty")
    if len(value) > TEXT_LIMIT:
        raise BadCheck(f"{kind}: at most {TEXT_LIMIT} characters, got {len(value)}")
    return value


def _named(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)[:40]


def _regex(kind: str, given: Mapping[str, Any]) -> Check:
    pattern = _text(kind, given[kind], "a pattern")
    if refusal := refusal_of(pattern):
        raise BadCheck(f"{kind}: {refusal}")
    return Check(kind, (pattern,))


def _number(kind: str, given: Mapping[str, Any]) -> Check:
    return Check(kind, number=_decimal(kind, given[kind]), within=_within(given))


def _decimal(kind: str, value: Any) -> Decimal:
    written = str(value).strip() if isinstance(value, int | float | str) else ""
    try:
        found = Decimal(written) if not isinstance(value, bool) else Decimal("NaN")
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or abs(found) > Decimal("1e30"):
        raise BadCheck(f"{kind}: must be a number such as 12 or 1234.5, got {_named(value)}")
    return found


def _within(given: Mapping[str, Any]) -> Tolerance | None:
    if (value := given.get("within")) is None:
        return None
    written = str(value).strip()
    if share := _PERCENT.fullmatch(written):
        return Tolerance(Decimal(share.group(1)) / 100, relative=True)
    is_number = isinstance(value, int | float | str) and not isinstance(value, bool)
    if is_number and _DECIMAL.fullmatch(written) and Decimal(written) >= 0:
        return Tolerance(Decimal(written))
    raise BadCheck(f"within: must be a distance such as 0.05, or such as 1%, got {_named(value)}")


def _query(kind: str, given: Mapping[str, Any]) -> Check:
    query = _text(kind, given[kind], "a query")
    tool = _text("tool", given["tool"], TOOL_NAME) if "tool" in given else ""
    ordered = _yes_or_no("ordered", given)
    return Check(kind, (query,), within=_within(given), flag=ordered, tool=tool)


def _tool(kind: str, given: Mapping[str, Any]) -> Check:
    return Check(kind, (_text(kind, given[kind], TOOL_NAME),))


def _calls(kind: str, given: Mapping[str, Any]) -> Check:
    value = given[kind]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= CALLS_LIMIT:
        raise BadCheck(f"{kind}: must be a whole number from 0, got {_named(value)}")
    failed = kind == "max_failed_calls" or _yes_or_no("failed", given)
    return Check(kind, limit=value, flag=failed)


def _yes_or_no(name: str, given: Mapping[str, Any]) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise BadCheck(f"{name}: must be true or false, got {_named(value)}")
    return value


Reader = Callable[[str, Mapping[str, Any]], Check]
KINDS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "contains": (_texts, ()),
    "not_contains": (_texts, ()),
    "any_of": (_texts, ()),
    "regex": (_regex, ()),
    "number": (_number, ("within",)),
    "sql_result": (_query, ("ordered", "within", "tool")),
    "tool_called": (_tool, ()),
    "tool_not_called": (_tool, ()),
    "max_tool_calls": (_calls, ("failed",)),
    "max_failed_calls": (_calls, ()),
}
"""How each kind is read, and the options that may stand beside it."""
