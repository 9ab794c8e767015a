"""A migration in a process of its own that dies at a named step, as after kill -9.

python migrating_driver.py STORE TO STEP|-
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lessons_loop.promote.store.migrate import Wish, migrate_store

if __name__ == "__main__":
    store, to, step = sys.argv[1:]

    def checkpoint(name: str) -> None:
        if name == step:
            os._exit(9)

    migrate_store(Wish(store, None, int(to)), checkpoint=checkpoint)
