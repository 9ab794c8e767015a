"""Batches of a bounded weight: what is written at once stays small, whatever one thing weighs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Thing = TypeVar("Thing")


def by_weight(
    things: Iterable[Thing], weigh: Callable[[Thing], int], heaviest: int, most: int = sys.maxsize
) -> Iterator[list[Thing]]:
    """Yield things in order, up to `most` and `heaviest` at a time; one alone may be heavier."""
    batch: list[Thing] = []
    weight = 0
    for thing in things:
        own = weigh(thing)
        if batch and (len(batch) >= most or weight + own > heaviest):
            yield batch
            batch, weight = [], 0
        batch.append(thing)
        weight += own
    if batch:
        yield batch
