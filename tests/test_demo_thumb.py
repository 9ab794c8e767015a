from __future__ import annotations

from pathlib import Path

from lessons_loop.deploy.local.demo_thumb import noted, wait_until_moved
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
from support.ratings import Thumbs


def test_thumb_counts_as_moved_once_staging_has_it(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path)
    waited: list[float] = []
    assert not noted(paths) and not wait_until_moved(paths, waited.append)
    Thumbs(tmp_path).rate("f", 1)
    assert noted(paths)

    def drained(seconds: float) -> None:
        waited.append(seconds)
        Spool(paths).drain()

    waited.clear()
    assert wait_until_moved(paths, drained) and len(waited) == 1


def test_half_made_register_has_noted_nothing(tmp_path: Path) -> None:
    StorePaths(tmp_path).ratings.touch()
    assert not noted(StorePaths(tmp_path))
