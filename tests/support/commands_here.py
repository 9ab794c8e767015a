"""Commands in this process with an environment of their own: a child takes seconds to start.

    done = command_here("candidates", "--json", env=environment(root))

Tests of what only a process has (signals, pipes, terminals, imports) start one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from support.commands import run_here
from support.evaluating import eval_environment


def command_here(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `lessons` here as `judging.run_command` runs it in a child."""
    with environment_of(env):
        done = run_here(*words)
    return subprocess.CompletedProcess(words, done.code, done.out, done.err)


def eval_here(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `lessons eval` here as `evaluating.run_eval` runs it in a child."""
    return command_here("eval", *words, env=eval_environment(**more))


@contextmanager
def environment_of(env: Mapping[str, str]) -> Iterator[None]:
    """Let these variables be all there are."""
    earlier = dict(os.environ)
    _become(env)
    try:
        yield
    finally:
        _become(earlier)


def _become(env: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)
