"""Where the chat side's store is: as set, else beside Open WebUI's data.

Nothing of Open WebUI is imported unless its server runs in this process: outside, an
import would start migrations or end the process for want of a secret key.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.server import is_server


def host_module(name: str) -> Any:
    """Return a module of the Open WebUI server in this process, None outside of one."""
    return importlib.import_module(name) if "open_webui.main" in sys.modules else None


def store_setting(valve: str) -> str:
    """Return the store as set: the valve, else LESSONS_STORE; empty where neither is."""
    return valve.strip() or os.environ.get("LESSONS_STORE", "").strip()


def store_folder(valve: str) -> Path:
    """Return the store's folder: as set, else beside Open WebUI's data.

    Raises StoreError for what no system can hold. With a store on a server this is where
    records wait for it, and where the salt is.
    """
    chosen = store_setting(valve)
    if chosen and not is_server(chosen):
        return usable_folder(chosen)
    data = getattr(host_module("open_webui.env"), "DATA_DIR", None)
    return Path(data) / "lessons" if data else Path("lessons")


def usable_folder(chosen: str) -> Path:
    """Return the folder as a path; raise StoreError for what no system can hold."""
    try:
        if "\x00" in chosen:
            raise ValueError
        return Path(chosen).expanduser()
    except (RuntimeError, ValueError):
        raise StoreError(f"the store {chosen[:80]!r} is no folder: set the valve `store`") from None
