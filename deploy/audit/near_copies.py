"""Clusters of lessons that are nearly the same, at several levels of nearness at once.

A cluster holds whatever is connected by pairs at or above the level. Rows are compared in
blocks, so that 10,000 lessons need 40 MB and seconds, not a matrix of 400 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lessons_loop.filter.embed import Vectors

LEVELS = (0.80, 0.85, 0.90, 0.95, 0.99, 0.999)
BLOCK = 1_000
SAME = 1e-4
"""Rounding of float32: equal texts come to 0.99999."""


class Cluster(NamedTuple):
    """Rows near each other."""

    level: float
    rows: tuple[int, ...]
    nearest: float
    """Cosine of its nearest pair."""


def clusters(vectors: Vectors, levels: Sequence[float] = LEVELS) -> list[Cluster]:
    """Return the clusters of every level, highest level first, largest first within one.

    `vectors` are unit rows, shape (n, dimension).
    """
    count = len(vectors)
    labels = np.tile(np.arange(count, dtype=np.int32), (len(levels), 1))
    best = np.full(count, -1.0, np.float32)
    least = min(levels) - SAME
    for start in range(0, count, BLOCK):
        near = vectors[start : start + BLOCK] @ vectors[start:].T
        near[np.tril_indices(len(near), 0, near.shape[1])] = -1.0  # each pair once
        rows = np.flatnonzero((near >= least).any(axis=1))
        for row in rows:
            _join(labels, best, start + int(row), near[row], start, levels)
    return [
        cluster
        for level, label in sorted(zip(levels, labels, strict=True), key=lambda pair: -pair[0])
        for cluster in _grouped(level, label, best)
    ]


def _join(
    labels: npt.NDArray[np.int32],
    best: npt.NDArray[np.float32],
    row: int,
    near: npt.NDArray[np.float32],
    start: int,
    levels: Sequence[float],
) -> None:
    """Join a row with the later ones that are near it, level by level."""
    at = np.flatnonzero(near >= min(levels) - SAME)
    cosines, others = near[at], at + start
    best[row] = max(best[row], cosines.max())
    best[others] = np.maximum(best[others], cosines)
    for label, level in zip(labels, levels, strict=True):
        joined = others[cosines >= level - SAME]
        if not len(joined):
            continue
        names = np.unique(np.append(label[joined], label[row]))
        if len(names) > 1:
            label[np.isin(label, names)] = names[0]


def _grouped(
    level: float, label: npt.NDArray[np.int32], best: npt.NDArray[np.float32]
) -> list[Cluster]:
    names, sizes = np.unique(label, return_counts=True)
    found = []
    for name in names[sizes > 1]:
        rows = np.flatnonzero(label == name)
        nearest = min(1.0, float(best[rows].max()))
        found.append(Cluster(level, tuple(int(row) for row in rows), round(nearest, 4)))
    return sorted(found, key=lambda one: (-len(one.rows), one.rows))
