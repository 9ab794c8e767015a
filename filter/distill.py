"""Distill a finished exchange: cheap checks, one question to a model, hard checks on its reply.

The model only proposes. Whether an exchange is worth asking about, what proved a lesson and
whether it may be staged is decided here, by code, from the roles of the lines.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lessons_loop.filter.advice import (
    form_fault,
    good_tags,
    recalled_again,
    safety_fault,
    source_fault,
)
from lessons_loop.filter.errors import InvalidLesson, ModelError, UnreadableReply
from lessons_loop.filter.evidence import Refusal, prove
from lessons_loop.filter.llm import ChatReply
from lessons_loop.filter.models import Candidate, Lesson
from lessons_loop.filter.parse import Proposal, parse_reply
from lessons_loop.filter.prompt import PROMPT_VERSION, distill_instructions, distill_question
from lessons_loop.filter.proof import Proofs
from lessons_loop.filter.reading import Reading, numbered_transcript, read_turns
from lessons_loop.filter.text import normalise, repeats, shorten
from lessons_loop.filter.transcript import Turn

UNFINISHED = frozenset({"length", "tool_calls", "function_call", "content_filter", "error"})
"""Finish reasons of an answer that did not come to its end."""


@dataclass(frozen=True)
class Origin:
    """Where an exchange comes from; references are hashes, never names."""

    domain: str
    message_ref: str
    chat_ref: str
    user_ref: str
    at: str
    """ISO 8601, UTC."""
    model: str
    """The distilling model's name."""


@dataclass(frozen=True)
class Outcome:
    """What a distillation gave: candidates, what was counted, one line when it went wrong."""

    candidates: tuple[Candidate, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """Keys: nothing, unreadable, cut-off, endpoint-failed, emitted, dropped:<rule>."""
    warning: str = ""


def skip_reason(
    turns: Sequence[Turn], *, finish_reason: str | None, min_reply_chars: int
) -> str | None:
    """Return why no model need be asked about this exchange, None when one should.

    Short replies pass when something was put right or the user confirmed it (T-23).
    """
    if not finish_reason:
        return "broken-answer"
    if finish_reason in UNFINISHED:
        return "unfinished"
    roles = {turn.role for turn in turns if turn.text.strip()}
    if not {"user", "assistant"} <= roles:
        return "no-answer"
    proofs = Proofs(tuple(turns))
    window = range(_window_start(proofs), len(turns))
    proven = [place for place in window if place in proofs.results]
    corrected = bool(proofs.corrections) and bool(proofs.confirmations)
    if not proven and not (corrected and any(p in window for p in proofs.confirmations)):
        return _no_evidence(proofs)
    put_right = any(p in proofs.fixes for p in proven) or proofs.corrections
    strong = put_right or proofs.acceptances or _ends_unopposed(turns)
    if not strong and _reply_width(turns, window) < min_reply_chars:
        return "short"
    return None


def build_messages(
    turns: Sequence[Turn], *, max_lessons: int, injected: Sequence[str]
) -> list[dict[str, str]]:
    """Return the two messages for the model: instructions, and the masked transcript."""
    transcript = numbered_transcript(read_turns(turns, injected))
    return [
        {"role": "system", "content": distill_instructions(max_lessons)},
        {"role": "user", "content": distill_question(transcript, max_lessons)},
    ]


def read_reply(
    reply: ChatReply,
    turns: Sequence[Turn],
    origin: Origin,
    *,
    max_lessons: int,
    injected: Sequence[str],
) -> Outcome:
    """Return the candidates a reply holds; raises nothing, an unreadable one is counted."""
    try:
        content = parse_reply(reply.text)
    except UnreadableReply as error:
        key = "cut-off" if reply.finish_reason == "length" else "unreadable"
        return Outcome(counts={key: 1}, warning=_reply_warning(str(error), reply))
    counts: Counter[str] = Counter()
    if content.misshapen:
        counts["dropped:shape"] += content.misshapen
    cut_off = content.cut_off or reply.finish_reason == "length"
    if cut_off:
        counts["cut-off"] += 1
    reading = read_turns(turns, injected)
    found: dict[str, Candidate] = {}
    for proposal in content.proposals:
        judged = _judge(proposal, reading, origin, injected)
        if isinstance(judged, Refusal):
            counts[f"dropped:{judged.rule}"] += 1
        elif judged.lesson.key in found:
            counts["dropped:repeated"] += 1
        elif len(found) >= max_lessons:
            counts["dropped:over-limit"] += 1
        else:
            found[judged.lesson.key] = judged
    if found:
        counts["emitted"] += len(found)
    if not content.proposals and not content.misshapen and not cut_off:
        counts["nothing"] += 1
    warning = _reply_warning("the reply was cut off", reply) if cut_off else ""
    return Outcome(tuple(found.values()), dict(counts), warning)


async def distill(
    turns: Sequence[Turn],
    origin: Origin,
    ask: Callable[[list[dict[str, str]]], Awaitable[ChatReply]],
    *,
    max_lessons: int,
    injected: Sequence[str],
) -> Outcome:
    """Ask once and read the reply; an endpoint's failure is counted, never raised or retried.

    Masking and checking 200,000 characters takes 0.4 s (measured): in a thread, off the loop.
    """
    messages = await asyncio.to_thread(
        build_messages, turns, max_lessons=max_lessons, injected=injected
    )
    try:
        reply = await ask(messages)
    except UnreadableReply as error:
        cut = "finish_reason length" in str(error)
        return Outcome(counts={"cut-off" if cut else "unreadable": 1}, warning=str(error))
    except ModelError as error:
        return Outcome(counts={"endpoint-failed": 1}, warning=_unechoed(str(error), messages))
    return await asyncio.to_thread(
        read_reply, reply, turns, origin, max_lessons=max_lessons, injected=injected
    )


def _unechoed(warning: str, messages: Sequence[Mapping[str, str]]) -> str:
    """Return the warning, without its text where an endpoint repeats the transcript in it."""
    if repeats(warning, messages[-1]["content"]):
        return "the distill model failed; its message repeats a chat and is left out"
    return warning


def _judge(
    proposal: Proposal, reading: Reading, origin: Origin, injected: Sequence[str]
) -> Candidate | Refusal:
    if rule := form_fault(proposal) or safety_fault(proposal.text, proposal.trigger):
        return Refusal(rule)
    if recalled_again(proposal.text, injected):
        return Refusal("recalled")
    evidence = prove(proposal, reading)
    if isinstance(evidence, Refusal):
        return evidence
    if rule := source_fault(proposal, reading, evidence.kind):
        return Refusal(rule)
    try:
        lesson = Lesson.build(
            domain=origin.domain,
            text=proposal.text,
            kind=proposal.kind,
            trigger=proposal.trigger,
            tags=good_tags(proposal.tags, reading),
        )
        return Candidate.build(
            lesson=lesson,
            evidence=evidence,
            message_ref=origin.message_ref,
            chat_ref=origin.chat_ref,
            user_ref=origin.user_ref,
            model=shorten(origin.model, 200),
            prompt=PROMPT_VERSION,
            at=origin.at,
        )
    except InvalidLesson:
        return Refusal("shape")


def _window_start(proofs: Proofs) -> int:
    """Return where the last exchange starts; remarks on the one before it belong to that."""
    turns = proofs.turns
    users = [place for place, turn in enumerate(turns) if turn.role == "user"]
    remarks = proofs.corrections | proofs.acceptances
    for place in reversed(users):
        answered = any(turn.role != "user" for turn in turns[place + 1 :])
        if answered and place not in remarks:
            return place
    return 0


def _ends_unopposed(turns: Sequence[Turn]) -> bool:
    """Say whether the user has the last word and asks nothing more with it."""
    return turns[-1].role == "user" and not turns[-1].text.rstrip().endswith(("?", "？"))


def _no_evidence(proofs: Proofs) -> str:
    if proofs.corrections:
        return "rejected"
    if proofs.retried:
        return "transient"
    return "no-evidence"


def _reply_width(turns: Sequence[Turn], window: Sequence[int]) -> int:
    """Return the size of answer and calls, East Asian characters counted as three (T-27)."""
    said = [turns[place].text for place in window if turns[place].role in ("assistant", "call")]
    return sum(3 if ord(char) >= 0x2E80 else 1 for text in said for char in normalise(text))


def _reply_warning(reason: str, reply: ChatReply) -> str:
    return f"distill model: {reason} (finish_reason {reply.finish_reason or 'none'})"
