"""For e2e tests: a tool whose use proves something, and a model that distills it."""

from __future__ import annotations

import json
import re
from typing import Any

from support.provider import Json, last_question

TOOL_ID = "widget_tools"
TOOL = '''"""
title: Widget tools
"""

from __future__ import annotations


class Tools:
    async def count_widgets(self, table: str) -> str:
        """
        Count widgets.
        :param table: where to count
        """
        if table != "widget_ledger":
            raise ValueError(f"scan on {table} refused")
        return '{"columns": ["widgets"], "rows": [[1204]], "table": "widget_ledger"}'

    async def fetch_url(self, url: str) -> str:
        """
        Fetch a page (Open WebUI treats this name as a source of citations).
        :param url: address
        """
        return f"text of the page {url}"
'''
ADVICE = "Count widgets with count_widgets on table widget_ledger, not on shelf_notes."
COUNT = "Please count the widgets. TOOL:count_widgets"


def distil_widgets(body: Json) -> str:
    """Answer a distill request as a model would that read the transcript."""
    transcript = last_question(body)
    numbers = [int(n) for n in re.findall(r"^\[(\d+)\] (?:CALL|RESULT)", transcript, re.MULTILINE)]
    lesson: dict[str, Any] = {
        "text": "Count widgets with count_widgets on table widget_ledger.",
        "kind": "resolution-pattern",
        "trigger": "counting widgets",
        "tags": ["widgets"],
        "lines": numbers,
        "quote": '"table": "widget_ledger"',
    }
    return json.dumps({"lessons": [lesson]})
