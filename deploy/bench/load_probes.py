"""Two small plugins that tell which of several workers is at work."""

from __future__ import annotations

TELL_ID, KNOCK_ID = "load_tell", "load_knock"
TELL = '''"""
title: Tells the model which worker asks
"""

import os


class Filter:
    async def inlet(self, body: dict) -> dict:
        body["worker"] = os.getpid()
        return body
'''
KNOCK = '''"""
title: Tells which worker answers
"""

import os
import time


class Action:
    async def action(self, body: dict) -> dict:
        time.sleep(body.get("hold", 0.0))  # busy: the next connection goes to another worker
        return {"worker": os.getpid()}
'''
