"""Time to first token in a real Open WebUI, with and without the plugin, paired in one run."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lessons_loop.deploy.bench.figures import Figure, milliseconds
from lessons_loop.deploy.local.installation import Options, Running, local_run
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.webui.plugin_file import PLUGIN_ID
from lessons_loop.filter.errors import LessonsError

ASKED = "How many operating hours did machine SN-{number:06d} run in the last 12 months?"
WARM_UP = 4


def first_token_figures(pairs: int) -> list[Figure]:
    """Start Open WebUI with the seeds and MiniLM; return with, without and the added time."""
    stages = Stages()
    with tempfile.TemporaryDirectory() as folder:
        options = Options(Path(folder), domains="sql", always_practice=True)
        with local_run(options, stages) as running, stages.stage(f"{pairs} pairs of chats"):
            timed = list(pairs_of_seconds(running, pairs))
    off, on = [a for a, _ in timed], [b for _, b in timed]
    added = [b - a for a, b in timed]
    return [
        milliseconds("first token without the plugin", off),
        milliseconds("first token with the plugin, lessons recalled", on),
        milliseconds("  added by the plugin, paired", added, "median <= 30"),
    ]


def pairs_of_seconds(running: Running, pairs: int) -> Iterator[tuple[float, float]]:
    """Yield seconds without and with the plugin; which comes first alternates."""
    model = running.admin.model_ids()[0]
    for number in range(WARM_UP + pairs):
        spent = {}
        for active in (False, True) if number % 2 else (True, False):
            switch(running, active)
            spent[active] = first_token(running, model, ASKED.format(number=4711 + number))
        if number >= WARM_UP:
            yield spent[False], spent[True]


def switch(running: Running, active: bool) -> None:
    """Make the plugin active or not."""
    found = running.admin.function(PLUGIN_ID)
    if found is None:
        raise LessonsError(f"{PLUGIN_ID} is not installed any more")
    if bool(found["is_active"]) != active:
        running.admin.ask("POST", f"/api/v1/functions/id/{PLUGIN_ID}/toggle")


def first_token(running: Running, model: str, text: str) -> float:
    """Ask one streaming question; return seconds until the first content arrives."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "stream": True,
    }
    started = time.perf_counter()
    with running.admin.send("POST", "/api/chat/completions", body, stream=True) as answer:
        for line in answer.iter_lines():
            if has_content(line):
                return time.perf_counter() - started
    raise LessonsError("the chat ended without a first token")


def has_content(line: bytes) -> bool:
    """Say whether a line of the stream carries answer text."""
    if not line.startswith(b"data: {"):
        return False
    choices = json.loads(line[6:]).get("choices") or [{}]
    return bool((choices[0].get("delta") or {}).get("content"))
