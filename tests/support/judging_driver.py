"""A whole run in a process of its own that dies at a named step of its batch.

python judging_driver.py STORE STEP
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lessons_loop.promote.gate import Mode
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import open_gate
from support.gate import HashEmbedder, settings


def main(store: str, step: str) -> None:
    met: list[str] = []

    def checkpoint(name: str) -> None:
        met.append(name)
        if name == step and met.count(name) == 2:  # the domain's creation is the first change
            os._exit(9)

    with open_gate(settings(Path(store), HashEmbedder(256)), checkpoint=checkpoint) as session:
        run_gate(session, RunOptions(Mode.AUTO))


if __name__ == "__main__":
    main(*sys.argv[1:])
