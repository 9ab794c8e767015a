"""Which test files may run side by side, and which share a server and stay together.

pytest -n 2 --dist loadfile -m e2e

By file as pytest-xdist does it, but for these. (Its own `loadgroup` does not work with pytest 9.2:
it writes the group into an id that is no longer read.)
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

OWN_SERVERS = ("test_running", "test_demo_model", "test_eval_demo")
"""They start Open WebUIs of their own, with commands; the rest of e2e shares one."""
THREE_WORKERS = ("test_load", "test_workers", "test_workers_unfinished")
"""They share the Open WebUI that takes longest to start."""


def group_of(file: str) -> str:
    """Return the group of a test file by its path; a file of its own where none is named."""
    path = PurePath(file)
    if path.parent.name == "e2e":
        return "own servers" if path.stem in OWN_SERVERS else "one server"
    return "three workers" if path.stem in THREE_WORKERS else file


def scheduler(config: Any, log: Any) -> Any:
    """Return what hands whole groups to pytest-xdist's workers, in the order of collection."""
    from xdist.scheduler import LoadFileScheduling

    class Groups(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(str(nodeid).partition("::")[0])

    config.option.loadscopereorder = False
    return Groups(config, log)
