"""Unit rows by key that grow without being copied each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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

    def put(self, rows: Mapping[str, Vectors]) -> None:
        """Set rows; new keys come last."""
        if not self._places.keys().isdisjoint(rows):
            self._rows = self._rows.copy()  # somebody may hold the matrix
        for key, row in rows.items():
            place = self._places.get(key)
            if place is None:
                place = len(self._places)
                self._make_room(place, len(row))
                self._places[key], self._keys = place, None
            self._rows[place] = row

    def remove(self, keys: Iterable[str]) -> None:
        """Drop rows, the others keep their order; no row is no error."""
        gone = [place for key in set(keys) if (place := self._places.get(key)) is not None]
        if not gone:
            return
        names, rows = self.matrix()
        dropped = set(gone)
        self._rows = np.delete(rows, gone, axis=0)
        kept = (name for place, name in enumerate(names) if place not in dropped)
        self._places = {name: place for place, name in enumerate(kept)}
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
