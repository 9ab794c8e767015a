"""Load chromadb without the `.env` of the folder a command happens to run in.

chromadb reads that file while it is imported and again for every client: another
program's setting could stop it, or send it elsewhere.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import chdir, suppress
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from lessons_loop.filter.errors import StoreError

DATABASE = "chroma.sqlite3"
"""What an embedded Chroma keeps a folder's texts in."""
M_ARENA_MAX = -8
"""Of glibc's malloc.h."""


def load_chroma() -> None:
    """Import chromadb; raise StoreError naming the environment's settings it refuses.

    Only the main thread may step out of the current folder for a moment; elsewhere the
    file is left to be read.
    """
    if "chromadb" in sys.modules:
        return
    spec = find_spec("chromadb")
    if spec is None or spec.origin is None:
        raise StoreError("chromadb is not installed: pip install chromadb")
    _share_arenas()
    away = threading.current_thread() is threading.main_thread()
    folder = Path(spec.origin).parents[1] if away else Path.cwd()
    try:
        with chdir(folder):
            from chromadb.config import Settings
    except ValidationError as error:
        names = ", ".join(str(detail["loc"][0]).upper() for detail in error.errors())
        raise StoreError(f"chromadb refuses {names} of the environment: unset it") from None
    if away:
        Settings.model_config["env_file"] = None


def _share_arenas() -> None:
    """Let Chroma's threads share two pools of memory: own ones cost 40 MB (measured)."""
    with suppress(OSError, AttributeError):  # glibc alone has it
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
