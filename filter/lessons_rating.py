"""
title: Lessons Loop Ratings
author: lessons-loop
version: 0.1.0
schema: 2
required_open_webui_version: 0.12.0
license: MIT
description: Notes thumbs on answers, so that the gate can tell which curated lessons help.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from lessons_loop.filter.alerts import Alerts, lessons_log
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.events import Rating
from lessons_loop.filter.place import store_folder
from lessons_loop.filter.rating import Thumb, mapping_of, read_thumb
from lessons_loop.filter.rating_host import FilterFacts, OpenWebUIHost, RatingHost
from lessons_loop.filter.rating_register import RatingRegister, rating_stamp
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths, ensure_salt, first_line
from lessons_loop.filter.text import digest, user_reference
from lessons_loop.filter.valves import LenientModel, LessonsValves
from lessons_loop.filter.worker import in_daemon_thread

RATING_SECONDS = 30.0
"""Longest time one thumb may take; other event functions wait for it."""
GIVEN = ("feedback.created", "feedback.updated")


class Event:
    """Hears of feedback and spools what changed; everything else is the filter's settings."""

    class Valves(LenientModel):
        """Settings of the administrator; store and domains are the filter's."""

        enabled: bool = Field(
            default=True, description="Note thumbs on answers, for telling which lessons help."
        )

    def __init__(self) -> None:
        self.valves = self.Valves()
        self.alerts = Alerts()
        self.host: RatingHost = OpenWebUIHost()
        self.turns = asyncio.Lock()
        """One feedback at a time: each reads its row and is noted before the next reads."""

    async def event(self, event: Mapping[str, Any]) -> None:
        """Note a thumb that was given, changed or removed; never raises."""
        try:
            name, subject = str(event.get("event")), mapping_of(event.get("subject"))
            if not (self.valves.enabled and name.startswith("feedback.")):
                return
            async with asyncio.timeout(RATING_SECONDS), self.turns:
                facts = await self.host.filter_facts()
                if facts is not None:
                    await self._take(facts, name, subject)
            self.alerts.clear("noting thumbs")
        except Exception as error:
            # the text of an unforeseen error may repeat a comment
            known = isinstance(error, LessonsError)
            reason = first_line(error) if known else type(error).__name__
            self.alerts.warn("noting thumbs", f"a thumb was not noted: {reason}")
            lessons_log.debug("noting a thumb failed", exc_info=True)

    async def _take(self, facts: FilterFacts, name: str, subject: Mapping[str, Any]) -> None:
        whom = str(subject.get("id") or "")
        if name in GIVEN:
            thumb = read_thumb(await self.host.feedback(whom) or {})
            if thumb is None or unwanted(thumb, facts.valves):
                return
            if await self.host.contributes(facts.name, thumb.user):
                await in_daemon_thread(lambda: Notes(facts.valves).note(whom, thumb))
        elif name == "feedback.deleted":
            await in_daemon_thread(lambda: Notes(facts.valves).take_back(whom))
        elif name == "feedback.deleted_all":
            user = whom if subject.get("type") == "user" else ""
            if user or whom == "all":
                await in_daemon_thread(lambda: Notes(facts.valves).take_back_all(user))


class Notes:
    """Writes ratings for one store and its domains; blocking, raises StoreError."""

    def __init__(self, valves: LessonsValves) -> None:
        paths = StorePaths(store_folder(valves.store))
        self.salt = ensure_salt(paths)
        self.spool, self.domains = Spool(paths), valves.domain_names()
        self.register = RatingRegister(paths.ratings, self._append)
        self.at = rating_stamp(datetime.datetime.now(datetime.UTC))

    def note(self, feedback: str, thumb: Thumb) -> None:
        """Append what a feedback says, if that is new."""
        rating = Rating(
            keys=thumb.references,
            message_ref=digest("message", thumb.message),
            user_ref=user_reference(self.salt, thumb.user),
            chat_ref=user_reference(self.salt, thumb.chat),
            at=self.at,
            outcome=thumb.outcome,
            reason=thumb.reason,
        )
        self.register.note(feedback_ref(feedback), rating)

    def take_back(self, feedback: str) -> None:
        """Append that a deleted feedback counts no more."""
        self.register.take_back(feedback_ref(feedback), self.at)

    def take_back_all(self, user: str) -> None:
        """Append so for all feedback of a user, of everybody where none is named."""
        self.register.take_back_all(user_reference(self.salt, user), self.at)

    def _append(self, rating: Rating) -> None:
        """Spool a rating for each domain: in which of them a use waits, only the gate knows."""
        for domain in self.domains:
            self.spool.append_rating(domain, rating)


def feedback_ref(feedback: str) -> str:
    """Return what a feedback is called in the register."""
    return digest("feedback", feedback)


def unwanted(thumb: Thumb, valves: LessonsValves) -> bool:
    """Say whether a thumb is on an answer the filter notes nothing of: see `learner.private`."""
    return ":" in thumb.chat or not (thumb.chat or valves.distill_api_chats)
