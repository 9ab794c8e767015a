"""Search a pattern of a question file in an answer, with an end: in a child that is killed.

Python's `re` cannot be interrupted: a pattern that backtracks for ever would hold its thread
and the interpreter. So a child of this process searches; past its time it is killed.
Patterns whose repeats stand inside repeats are refused when the file is read.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import Any

PATTERN_LIMIT = 500
SEARCH_SECONDS = 2.0
FEW_TURNS = 20
"""A repeat of at most so many turns may stand inside another: numbers with groups do."""
FLAGS = re.IGNORECASE | re.MULTILINE
_CHILD = """
import json, re, signal, sys
for line in sys.stdin:
    pattern, text, seconds = json.loads(line)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    found = re.search(pattern, text, re.IGNORECASE | re.MULTILINE) is not None
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps(found), flush=True)
"""
"""Ends itself as well: where its parent was killed in a search, nobody is left to end it."""


class SearchTooLong(Exception):
    """A search did not end in time; the child was killed."""


def refusal_of(pattern: str) -> str:
    """Return why a pattern is not taken, empty where it is."""
    if len(pattern) > PATTERN_LIMIT:
        return f"a pattern has at most {PATTERN_LIMIT} characters, this one {len(pattern)}"
    try:
        re.compile(pattern, FLAGS)
        parsed = re._parser.parse(pattern, FLAGS)  # type: ignore[attr-defined]
    except (re.error, OverflowError, RecursionError) as error:
        return f"no pattern: {error}"
    if _repeats_inside(parsed, within=False):
        return "a repeat inside a repeat, such as (a+)+, may run for ever: write it flat"
    return ""


def _repeats_inside(parsed: Any, within: bool) -> bool:
    """Say whether an open repeat holds another open one."""
    return any(_repeats(str(code), argument, within) for code, argument in parsed)


def _repeats(code: str, argument: Any, within: bool) -> bool:
    if code in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, inner = argument
        is_open = int(most) != int(least) and int(most) > FEW_TURNS
        return (within and is_open) or _repeats_inside(inner, within or is_open)
    return any(_repeats_inside(inner, within) for inner in _parts(argument))


def _parts(argument: Any) -> Iterable[Any]:
    """Yield the patterns inside an operation's argument, at whatever place it has them."""
    if isinstance(argument, re._parser.SubPattern):  # type: ignore[attr-defined]
        yield argument
    elif isinstance(argument, tuple | list):
        for one in argument:
            yield from _parts(one)


class _Searcher:
    """One child for this process, started at the first search; one search at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None

    def found(self, pattern: str, text: str, seconds: float) -> bool:
        with self._lock:
            child = self._running()
            timer = threading.Timer(seconds, child.kill)
            timer.start()
            try:
                line = self._asked(child, json.dumps([pattern, text, seconds + 1]))
            finally:
                timer.cancel()
            if not line:
                self._end()
                raise SearchTooLong(f"the pattern was not done after {seconds:g} s")
            return bool(json.loads(line))

    def _asked(self, child: subprocess.Popen[str], request: str) -> str:
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(f"{request}\n")
            child.stdin.flush()
            return child.stdout.readline()
        except OSError:
            return ""

    def _running(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self._end()
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CHILD], stdin=pipe, stdout=pipe, text=True
            )
            atexit.register(self._end)
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        child.wait()


_SEARCHER = _Searcher()


def found_in(pattern: str, text: str, seconds: float = SEARCH_SECONDS) -> bool:
    """Say whether a pattern stands anywhere in a text, case ignored; raise SearchTooLong."""
    return _SEARCHER.found(pattern, text, seconds)
