"""Tools for what must not depend on how fast the machine is."""

from __future__ import annotations

import asyncio
from typing import Any, Self

PATIENT_MS = 20_000
"""For chats that are not about the time limit: within it a busy machine still recalls."""


class Ticks:
    """Counts how often the event loop came round in a block: `async with Ticks(0.05) as ticks`.

    Waiting is seen by the count, and a machine that stops for a while adds nothing to it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.count = seconds, 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._task.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.seconds)
            self.count += 1
