"""The main of a driver in a child of its own that has everything imported, and its exit code.

    assert exit_code(judging_driver.main, str(root), "ledger") == 9

A fresh interpreter takes three seconds to import Chroma; this one is forked from a server that
has it, one per test process. The child has the environment of the test.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.context import ForkServerContext

SECONDS = 250.0
PRELOAD = ["chromadb.api.rust", "lessons_loop.deploy.cli", "support.gate_driver"]


def exit_code(main: Callable[..., object], *words: str) -> int:
    """Call `main(*words)`, a function at module level, and return how the child ended."""
    code = ended(main, *words, seconds=SECONDS)
    assert code is not None, f"{main.__module__} did not end within {SECONDS:.0f} s"
    return code


def ended(main: Callable[..., object], *words: str, seconds: float) -> int | None:
    """Return how the child ended, None where it was ended after so many seconds."""
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    child = context.Process(target=_called, args=(main, words, dict(os.environ)))
    child.start()
    child.join(seconds)
    code = child.exitcode
    child.kill()
    child.join()
    return code


def _called(main: Callable[..., object], words: tuple[str, ...], environ: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    main(*words)
