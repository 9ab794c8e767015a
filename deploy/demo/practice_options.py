"""How the practice model is set: how often it errs, and the error itself.

An error rate makes the script measurable: without one the same request always ends
the same, and no interval has a width. Whether an answer is wrong is drawn from the
request alone, so that the model keeps no state and a recorded request is answered
again in the same way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

DAYS = range(1900_00_00, 2100_00_00)
"""Integers that are read as days, YYYYMMDD."""


class PracticeOptions(NamedTuple):
    """Set once, when the server starts."""

    error_rate: float = 0.0
    """Share of chat answers that are wrong, 0 to 1."""
    seed: int = 0
    bad_advice: bool = False
    """As distiller, advise what does harm."""


def errs(options: PracticeOptions, request_seed: object, question: str, first: bool) -> bool:
    """Draw whether an answer is wrong; `first`: no tool result stands behind the question."""
    told = json.dumps([options.seed, request_seed, question, first], default=str)
    drawn = int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "big") / 2**64
    return drawn < options.error_rate


def wrong_result(result: str) -> str:
    """Return a query result as a model that misreads it tells it: a row short, other values."""
    try:
        table = json.loads(result)
    except ValueError:
        return result
    if not isinstance(table, Mapping) or not isinstance(table.get("rows"), list):
        return result
    kept = table["rows"][1:] or table["rows"]
    rows = [[wrong_value(value) for value in row] for row in kept]
    return json.dumps({**table, "rows": rows}, ensure_ascii=False)


def wrong_value(value: Any) -> Any:
    """Return another value of the same sort; NULL stays."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value - 1_00_00 if value in DAYS else value + 3 + value // 4
    if isinstance(value, float):
        return round(value * 1.31 + 0.7, 2)
    moved = "".join(chr(ord(c) + 1) if c in "012345678" else c for c in value)
    return moved if moved != value else "something else"
