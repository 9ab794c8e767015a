"""Embedded stores made once in a test process and copied from then on: a copy takes no gate."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from support.gate import server_url

_MADE: dict[Callable[[Path], object], Path] = {}


def copied(make: Callable[[Path], object], root: Path) -> None:
    """Leave at `root` what `make(root)` would; on a server it is made each time.

    `make` is a function at module level; its store must not depend on where it stands.
    """
    if server_url(root):
        make(root)
        return
    if make not in _MADE:
        folder = tempfile.TemporaryDirectory(prefix="lessons-template-")
        atexit.register(folder.cleanup)
        made = Path(folder.name) / "store"
        make(made)
        _MADE[make] = made
    shutil.copytree(_MADE[make], root, dirs_exist_ok=True)
