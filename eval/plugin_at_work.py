"""The filter as an evaluation runs it: given a host's request, waited for, ended properly."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from lessons_loop.filter.embed import Embedder, Purpose
from lessons_loop.filter.lessons_filter import Filter, tick

SETTLE_SECONDS = 120.0
_NO_CAP = 10**6


def learning_valves(store: str, domain: str, url: str, model: str) -> Filter.Valves:
    """Return the settings of a filter that learns from every chat, with this model to distill."""
    return Filter.Valves(
        store=store,
        domains=domain,
        distill_enabled=True,
        distill_url=url,
        distill_model=model,
        distill_daily_cap=_NO_CAP,
        distill_user_daily_cap=_NO_CAP,
    )


def host_request(embedder: Embedder) -> Any:
    """Return what the filter uses of a request: the host's embedding function."""

    async def function(texts: list[str], prefix: str | None = None) -> list[list[float]]:
        rows = await asyncio.to_thread(embedder.embed, texts, Purpose.QUERY)
        return [[float(value) for value in row] for row in rows]

    return SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(EMBEDDING_FUNCTION=function)))


async def close_plugin(plugin: Filter) -> None:
    """End the plugin as a stopping server does, everything it knows in staging."""
    if plugin.backend is not None:
        await plugin.worker.settle(SETTLE_SECONDS)
        await tick(plugin)
        await plugin.backend.close()
    if plugin.timer is not None:
        plugin.timer.cancel()
        with suppress(asyncio.CancelledError):
            await plugin.timer
