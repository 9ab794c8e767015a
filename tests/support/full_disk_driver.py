"""Run the gate on a disk that is full, then again with room; prints what came of it as JSON.

    python full_disk_driver.py STORE MOUNT LEFT COMMAND...

MOUNT is a small file system of its own (a tmpfs in a mount namespace); the store is copied
there and the rest is filled but for LEFT bytes. COMMAND gets `--store` added.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lessons_loop.deploy.bench.killing import end_state

LESSONS = [sys.executable, "-m", "lessons_loop.deploy.cli"]


def fill(mount: Path, left: int) -> Path:
    """Write a file until so many bytes are left."""
    space = os.statvfs(mount)
    ballast = mount / "ballast"
    ballast.write_bytes(b"x" * max(0, space.f_bavail * space.f_frsize - left))
    return ballast


def run(store: Path, words: list[str]) -> dict[str, object]:
    """Run a command on the store."""
    command = [*LESSONS, *words, "--store", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return {"code": done.returncode, "err": done.stderr.strip().splitlines()}


def main() -> None:
    """Fill, run, free, run again."""
    source, mount, left, *words = sys.argv[1:]
    store = Path(mount) / "store"
    shutil.copytree(source, store)
    ballast = fill(Path(mount), int(left))
    full = run(store, words)
    ballast.unlink()
    again = run(store, words)
    print(json.dumps({"full": full, "again": again, "state": end_state(store)}))


if __name__ == "__main__":
    main()
