"""A gate in a process of its own that dies at a named step; run by the crash tests.

    python gate_driver.py STORE ACTION STEP|-

ACTION: promote (every staged candidate), together (the same in one batch), run (`--auto`),
retire (every curated lesson), seed, re-embed, fold. The process leaves with code 9 at STEP,
without any clean-up, as after kill -9; with STEP=BYTES no file may grow beyond so many bytes
from there on.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Actor
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import GateSession, open_gate
from lessons_loop.promote.store.rebuild import re_embed
from support.gate import HashEmbedder, lesson, promotion, retirement, settings

CRASH = 9


def dying_at(step: str) -> Callable[[str], None]:
    step, _, size = step.partition("=")

    def checkpoint(name: str) -> None:
        if name == step and size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
        elif name == step:
            os._exit(CRASH)

    return checkpoint


def promote(session: GateSession) -> None:
    for found in session.candidates():
        if found.lesson.key not in session.curated:
            session.apply(promotion(session, found))


def together(session: GateSession) -> None:
    with session.batch():
        promote(session)


def judge(session: GateSession) -> None:
    run_gate(session, RunOptions(Mode.AUTO, Rules(min_users=1)))


def retire(session: GateSession) -> None:
    for key in list(session.curated):
        session.apply(retirement(session, key))


def seed(session: GateSession) -> None:
    take_in(
        session, [(lesson("Bound every telemetry read."), "s1")], Actor(kind="seed", name="sql")
    )


def fold(session: GateSession) -> None:
    fold_events(session)


def embed_again(session: GateSession) -> None:
    if session.holdings.header.generation == 0:
        re_embed(session)


ACTIONS = {
    "promote": promote,
    "together": together,
    "run": judge,
    "retire": retire,
    "seed": seed,
    "fold": fold,
    "re-embed": embed_again,
}


def main() -> None:
    store, action, step = sys.argv[1:4]
    again = action == "re-embed"
    chosen = settings(Path(store), HashEmbedder(32) if again else HashEmbedder())
    with open_gate(chosen, checkpoint=dying_at(step), re_embedding=again) as session:
        ACTIONS[action](session)


if __name__ == "__main__":
    main()
