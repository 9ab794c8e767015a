"""Let the reranking model that Open WebUI is configured with order the best lessons, in time.

Covered: order, and a cut of what the model finds unrelated. Any trouble keeps the plain
order, with one warning. Not covered: how good the configured model is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.errors import RerankError
from lessons_loop.filter.host import host_rerank
from lessons_loop.filter.lexical import Scores
from lessons_loop.filter.question import Asked
from lessons_loop.filter.recall import best_places
from lessons_loop.filter.recall_index import RecallIndex

RERANK_MOST = 20
"""Lessons given to the model at most."""
RERANK_SHARE = 0.8
"""Share of what is left of recall's time that the model may take."""
RERANK_PAUSE_SECONDS = 30.0
RERANK_LEAST = 0.01
"""Probability below which a lesson is cut; models put unrelated texts near 0.001."""


class Reranker:
    """Asks the model for each question; leaves it alone for a while after it failed."""

    def __init__(self, alerts: Alerts) -> None:
        self.alerts = alerts
        self.paused_until = 0.0

    async def reorder(
        self,
        recall: RecallIndex,
        scores: Scores,
        floor: float,
        asked: Asked,
        app: Any,
        until: float,
    ) -> Scores:
        """Return the scores in the model's order; as they are on any trouble."""
        places = best_places(scores, floor, RERANK_MOST)
        if not places or time.monotonic() < self.paused_until:
            return scores
        texts = [recall.lesson(place).lesson.embedded_text for place in places]
        try:
            async with asyncio.timeout(max(0.05, RERANK_SHARE * (until - time.monotonic()))):
                found = await host_rerank(app, rerank_query(asked), texts)
        except TimeoutError:
            self._pause("the reranking model did not answer in time")
        except RerankError as error:
            self._pause(str(error))
        else:
            self.alerts.clear("reranking")
            return reordered(scores, places, found)
        return scores

    def _pause(self, reason: str) -> None:
        self.paused_until = time.monotonic() + RERANK_PAUSE_SECONDS
        self.alerts.warn("reranking", f"{reason}; lessons keep the plain order meanwhile")


def rerank_query(asked: Asked) -> str:
    """Return what the model reads: a follow-up with the user's turns, a paste's ends and errors."""
    return asked.texts[min(1, len(asked.texts) - 1)]


def reordered(scores: Scores, places: Sequence[int], found: Sequence[float]) -> Scores:
    """Hand the places' own scores out anew, the best to the model's favourite.

    So floor and stickiness keep their scale; what the model finds unrelated gets 0.
    """
    chances = probabilities(found)
    order = sorted(range(len(places)), key=lambda at: (-chances[at], at))
    changed = scores.copy()
    for rank, at in enumerate(order):
        kept = chances[at] >= RERANK_LEAST
        changed[places[at]] = scores[places[rank]] if kept else 0.0
    return changed


def probabilities(found: Sequence[float]) -> list[float]:
    """Return scores between 0 and 1: models give either those or logits."""
    values = np.asarray(found, np.float64)
    if ((values < 0) | (values > 1)).any():
        values = 1 / (1 + np.exp(-np.clip(values, -60, 60)))
    return [float(value) for value in values]
