"""A tool file of every shape Open WebUI takes, and what its tools may answer."""

SHAPES = '''"""
title: Shapes
requirements: nothing-at-all
"""

import asyncio
import os
import time
from typing import Any, Literal, Optional, Union

from pydantic import BaseModel, Field


class Place(BaseModel):
    """Where."""

    title: str = Field(description="Its name")
    floor: Optional[int] = None


class Tools:
    class Valves(BaseModel):
        city: str = "Bergen"
        limit: int = Field(default=3, ge=1)

    class UserValves(BaseModel):
        loud: bool = False

    def __init__(self):
        self.valves = self.Valves()
        self.citation = True
        self.at_work = 0

    async def weather(
        self, city: str, days: int = 1, __user__: dict = {}, __event_emitter__=None
    ) -> str:
        """
        Say the weather.

        Only for towns.
        :param city: the town
            or its code
        :param days: how many days
        :return: text
        """
        await __event_emitter__({"type": "status"})
        return f"{city} {days!r} {self.valves.city} {__user__['valves'].loud}"

    def place(self, where: Place, also: list[Place] = [], note: Optional[str] = None) -> dict:
        """Look at a place.
        :param note: anything"""
        return {"title": where["title"], "ä": [1, 2]}

    def kinds(
        self, unit: Literal["h", "km"], value: Union[int, str, None] = None, *, flag: bool = True
    ):
        return [unit, value, flag]

    def bare(self, anything, title="x"):
        return None

    def number(self) -> float:
        """:return: a number"""
        return 12.5

    def breaks(self, how: str) -> str:
        """Break."""
        if how == "exit":
            raise SystemExit("gone")
        raise ValueError("no such column: " + how)

    async def hangs(self) -> str:
        """Hang."""
        await asyncio.sleep(600)

    def blocks(self, seconds: float) -> str:
        """Block."""
        time.sleep(seconds)
        return "late"

    def alone(self) -> str:
        """Say whether another sync call is at work."""
        self.at_work += 1
        time.sleep(0.02)
        seen, self.at_work = self.at_work, self.at_work - 1
        return str(seen)

    def says(self) -> str:
        """Print."""
        print("a line for people")
        return "printed"

    def _private(self):
        return "secret"
'''
BARE = SHAPES.replace("requirements: nothing-at-all\n", "")  # Open WebUI would install it
