"""How often everyday chats of several turns get a lesson, turn by turn as the filter holds them.

Covered: follow-ups, a block that stays, a subject that was left. Not covered: the
embedding engine's time limit and the reranker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lessons_loop.eval.judgements.retrieval import Bench, chosen
from lessons_loop.eval.rows import share
from lessons_loop.filter.embed import Embedder, Purpose
from lessons_loop.filter.question import only_thanks, read_question, since, views
from lessons_loop.filter.recall import judge
from lessons_loop.promote.embedding.everyday import EverydayChat, everyday_chats

STEP = 7
"""The chats begin with lessons this far apart in the file: neighbours are often look-alikes."""


class Turn(NamedTuple):
    """One question of a chat and the answer it got."""

    ask: str
    reply: str
    everyday: bool


def everyday_chats_injected(bench: Bench, embedder: Embedder, name: str = "test") -> float | None:
    """Return the share of the everyday turns that get a lesson; raise EmbedError."""
    found = [
        injected
        for number, chat in enumerate(everyday_chats(name))
        for turn, injected in held(bench, embedder, turns_of(bench, chat, number * STEP))
        if turn.everyday
    ]
    return share(sum(found), len(found))


def turns_of(bench: Bench, chat: EverydayChat, place: int) -> list[Turn]:
    """Return the chat's turns, behind a lesson's own question where it begins with work."""
    everyday = [Turn(turn.ask, turn.reply, everyday=True) for turn in chat.turns]
    if not chat.after_work:
        return everyday
    lesson = bench.recall.lesson(place % len(bench.recall.keys)).lesson
    return [Turn(lesson.trigger, lesson.text, everyday=False), *everyday]


def held(bench: Bench, embedder: Embedder, turns: Sequence[Turn]) -> Iterator[tuple[Turn, bool]]:
    """Yield each turn and whether it got a lesson."""
    shown: tuple[str, ...] = ()
    first, messages = "", []
    for turn in turns:
        messages.append({"role": "user", "content": turn.ask})
        question = since(read_question(messages, None), first)
        if not only_thanks(question):
            asked = views(question)
            vectors = embedder.embed(asked.texts, Purpose.QUERY)
            judged = judge(bench.recall, asked.texts, vectors, asked.follow_up)
            first = first if judged.goes_on else question.text
            stays = shown if judged.goes_on else ()
            shown = tuple(lesson.key for lesson in chosen(bench, judged.scores, stays))
        yield turn, bool(shown)
        messages.append({"role": "assistant", "content": turn.reply})
