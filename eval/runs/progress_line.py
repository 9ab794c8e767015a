"""One line of progress for a long run: alive on a terminal, ten lines elsewhere.

It tells how many answers passed over all arms together, never per arm: whoever grades by
hand must not learn how an arm does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from lessons_loop.eval.trials import Grade, Trial

STEPS = 10
"""Lines where nobody watches: one for each tenth of the run."""
REDRAW_SECONDS = 0.1


class ProgressLine:
    """Shows a run's progress on a stream; called after each trial."""

    def __init__(
        self, stream: TextIO, begun_with: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._clock = stream, clock
        self._alive = stream.isatty()
        self._begun_with, self._start = begun_with, clock()
        self._passed = self._failed = 0
        self._drawn = float("-inf")
        self._width = 0
        self._told = -1

    def __call__(self, done: int, total: int, trial: Trial) -> None:
        """Count a trial and show where the run is, where it is time to."""
        self._passed += trial.grade is Grade.PASS
        self._failed += trial.grade is Grade.FAIL
        now = self._clock()
        if self._alive:
            if now - self._drawn >= REDRAW_SECONDS or done == total:
                self._drawn = now
                self._draw(self._line(done, total, now))
            return
        step = done * STEPS // total
        if self._told < 0:
            self._told = (done - 1) * STEPS // total
        if step > self._told:
            self._told = step
            print(f"lessons: {self._line(done, total, now)}", file=self._stream, flush=True)

    def _line(self, done: int, total: int, now: float) -> str:
        here = done - self._begun_with
        left = (now - self._start) / here * (total - done) if here > 0 else 0.0
        judged = self._passed + self._failed
        rate = f", {self._passed / judged * 100:.0f} % pass" if judged else ""
        outage = here - judged
        lost = f", {outage} unjudged" if outage else ""
        return f"asked {done} of {total}{rate}{lost}, {spoken(left)} left"

    def _draw(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def end(self) -> None:
        """Take the line away, so that what follows starts on a clean one."""
        if self._alive and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def spoken(seconds: float) -> str:
    """Return a span as people read it: 48 s, 3 min, 2 h 05 min."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
