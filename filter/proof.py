"""Find in a transcript what proves anything: good results, changed calls, confirmations.

A result proves something when it is real (a tool's, not a document's), not failed, empty
or a mere echo, not the second try of the same call, and not taken back by the user later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lessons_loop.filter.cues import accepts, confirms, corrects, gives_up, orders_loop
from lessons_loop.filter.failure import (
    looks_arithmetic,
    looks_echoed,
    looks_empty,
    looks_transient,
)
from lessons_loop.filter.transcript import DOCUMENT, Turn

DOCUMENT_TOOLS = frozenset(
    {
        DOCUMENT,
        "fetch_url",
        "search_web",
        "web_search",
        "view_file",
        "view_knowledge_file",
        "query_knowledge_files",
        "query_knowledge_bases",
        "search_knowledge_files",
        "search_knowledge_bases",
        "grep_knowledge_files",
        "list_knowledge_bases",
        "query_chat_files",
        "search_chats",
        "view_chat",
        "search_notes",
        "view_note",
        "search_memories",
        "view_skill",
        "get_current_timestamp",
        "calculate_timestamp",
        "ask_user",
    }
)
"""Open WebUI's own tools that hand over text, not an outcome: what they return proves nothing."""
_ARGUMENT_SPACE = re.compile(r"(?:[ ;]|\\[nt])+")
_WAITING = re.compile(r"\bsleep\s+[\d.]+[smh]?\s*(?:;|&&|\|\|)?|--retry(?:-\w+)*[= ]\d+")
_RETRY_KEYS = frozenset({"attempt", "retry", "retries", "request_id", "nonce", "timestamp", "_"})


@dataclass(frozen=True)
class Proofs:
    """The positions in `turns` that can carry a lesson."""

    turns: tuple[Turn, ...]

    @cached_property
    def calls(self) -> dict[int, int]:
        """Position of each result's call, by the result's position."""
        return _paired_calls(self.turns)

    @cached_property
    def ordering(self) -> frozenset[int]:
        """User turns that tell the loop what to keep: they prove nothing, and ground nothing."""
        return frozenset(
            p for p, turn in enumerate(self.turns) if turn.role == "user" and orders_loop(turn.text)
        )

    @cached_property
    def corrections(self) -> frozenset[int]:
        """User turns, after some answer, that reject or correct it."""
        found = self._remarks(corrects)
        return frozenset([*found, *self._unsettled(found)])

    @cached_property
    def confirmations(self) -> frozenset[int]:
        """User turns, after some answer, that say it worked, up to the last correction."""
        return frozenset(p for p in self._remarks(confirms) if p > self.last_correction)

    @cached_property
    def acceptances(self) -> frozenset[int]:
        """User turns that confirm or thank, after the last correction."""
        return frozenset(p for p in self._remarks(accepts) if p > self.last_correction)

    @cached_property
    def accepted(self) -> tuple[int, ...]:
        """The assistant's turns that the user accepted later."""
        last = max(self.acceptances, default=-1)
        return tuple(p for p, turn in enumerate(self.turns[: last + 1]) if turn.role == "assistant")

    @cached_property
    def last_correction(self) -> int:
        """Position of the last correction, -1 without one."""
        return max(self.corrections, default=-1)

    @cached_property
    def retried(self) -> frozenset[int]:
        """Results of a call that failed before and was only repeated."""
        return frozenset(p for p in self.calls if self._is_retry(p))

    @cached_property
    def results(self) -> frozenset[int]:
        """Results that prove something."""
        return frozenset(
            p for p in range(self.last_correction + 1, len(self.turns)) if self.is_sane(p)
        )

    @cached_property
    def fixes(self) -> frozenset[int]:
        """Proving results of a changed call whose tool had failed before."""
        return frozenset(p for p in self.results if self._failed_before(p))

    def is_sane(self, position: int) -> bool:
        """Say whether the result there is a tool's, and a good one."""
        turn = self.turns[position]
        if turn.role != "result" or turn.failed or turn.tool in DOCUMENT_TOOLS:
            return False
        call = self.turns[self.calls[position]].text if position in self.calls else ""
        hollow = looks_empty(turn.text) or looks_echoed(turn.text, call)
        if looks_arithmetic(call) or (hollow and not self._cures(position)):
            return False
        return position not in self.retried

    def _cures(self, position: int) -> bool:
        """Say whether a changed call no longer fails and the user says that it worked."""
        confirmed = any(later > position for later in self.confirmations)
        return confirmed and bool(self._failed_before(position))

    @cached_property
    def _identities(self) -> dict[int, str]:
        """What makes each call the same as another, by its position."""
        return {call: call_identity(self.turns[call]) for call in self.calls.values()}

    def _remarks(self, test: Callable[[str], bool]) -> list[int]:
        answered, found = False, []
        for position, turn in enumerate(self.turns):
            remark = turn.role == "user" and answered and position not in self.ordering
            if remark and test(turn.text):
                found.append(position)
            answered = answered or turn.role != "user"
        return found

    def _unsettled(self, found: list[int]) -> list[int]:
        """Return the user's last word after a correction if it neither agrees nor asks.

        Whoever had to correct once says so when it is right; other words give it up.
        """
        last = max((p for p, turn in enumerate(self.turns) if turn.role == "user"), default=-1)
        answered = any(min(found) < p < last for p in self.calls) if found else False
        later = any(p > last for p in self.calls.values())
        given_up = answered and not later and gives_up(self.turns[last].text)
        return [last] if given_up else []

    def _failed_before(self, position: int) -> list[int]:
        """Return earlier failed results of the same tool, of a different call."""
        if position not in self.calls:
            return []
        own = self._identities[self.calls[position]]
        return [
            earlier
            for earlier, call in self.calls.items()
            if earlier < position
            and self.turns[earlier].failed
            and self.turns[call].tool == self.turns[position].tool
            and self._identities[call] != own
        ]

    def _is_retry(self, position: int) -> bool:
        """Say whether the same call failed before and nothing in between can have cured it."""
        call = self.calls[position]
        own = self._identities[call]
        for earlier, before in self.calls.items():
            if earlier >= position or before == call or self._identities[before] != own:
                continue
            if self.turns[earlier].failed:
                cured = any(earlier < between < call for between in self.calls.values())
                if looks_transient(self.turns[earlier].text) or not cured:
                    return True
        return False


def call_identity(call: Turn) -> str:
    """Return what makes two calls the same: tool, arguments; not spacing, waiting or counters."""
    try:
        arguments = json.loads(call.text)
    except (ValueError, RecursionError):
        arguments = call.text
    if isinstance(arguments, dict):
        arguments = {key: value for key, value in arguments.items() if key not in _RETRY_KEYS}
    plain = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    spaced = _ARGUMENT_SPACE.sub(" ", _WAITING.sub(" ", plain))
    return f"{call.tool}\n{spaced}".replace(' "', '"').replace('" ', '"')


def _paired_calls(turns: Sequence[Turn]) -> dict[int, int]:
    """Pair results with calls by id; one without a usable id goes with the oldest open call."""
    waiting: list[int] = []
    pairs = {}
    for position, turn in enumerate(turns):
        if turn.role == "call":
            waiting.append(position)
        elif turn.role == "result" and turn.tool != DOCUMENT and waiting:
            named = [p for p in waiting if turn.call_id and turns[p].call_id == turn.call_id]
            pairs[position] = (named or waiting)[0]
            waiting.remove(pairs[position])
    return pairs
