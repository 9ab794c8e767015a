"""Unit rows by key that grow without being copied each time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lessons_loop.filter.embed import Vectors

FIRST_ROOM = 64


class VectorTable:
    """Keys and rows in order of arrival; what `matrix` returned never changes afterwards."""

    def __init__(self, rows: Mapping[str, Vectors], dimension: int) -> None:
        self._places = {key: place for place, key in enumerate(rows)}
        self._rows = _stacked(rows, dimension)
        self._keys: tuple[str, ...] | None = None

    def __contains__(self, key: object) -> bool:
        """Say whether there is a row under the key."""
        return key in self._places

    def get(self, key: str) -> Vectors | None:
        """Return one row."""
        place = self._places.get(key)
        return None if place is None else self._rows[place]

    def matrix(self) -> tuple[tuple[str, ...], Vectors]:
        """Return keys and rows, shape (count, dimension)."""
        if self._keys is None:
            self._keys = tuple(self._places)
        return self._keys, self._rows[: len(self._places)]

    def put(self, key: str, row: Vectors) -> None:
        """Set a row; a new key comes last."""
        place = self._places.get(key)
        if place is None:
            place = len(self._places)
            self._make_room(place, len(row))
            self._places[key], self._keys = place, None
        else:
            self._rows = self._rows.copy()  # somebody may hold the matrix
        self._rows[place] = row

    def remove(self, key: str) -> None:
        """Drop a row, the others keep their order; no row is no error."""
        place = self._places.get(key)
        if place is None:
            return
        keys, rows = self.matrix()
        self._rows = np.delete(rows, place, axis=0)
        self._places = {name: at for at, name in enumerate(k for k in keys if k != key)}
        self._keys = None

    def _make_room(self, place: int, dimension: int) -> None:
        if place < len(self._rows) and self._rows.shape[1] == dimension:
            return
        fresh = np.empty((max(FIRST_ROOM, 2 * place), dimension), dtype=np.float32)
        if place:
            fresh[:place] = self._rows[:place]
        self._rows = fresh


def _stacked(rows: Mapping[str, Vectors], dimension: int) -> Vectors:
    if not rows:
        return np.empty((0, dimension), dtype=np.float32)
    return np.stack(list(rows.values())).astype(np.float32, copy=False)
