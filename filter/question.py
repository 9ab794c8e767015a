"""The question to recall for: the user's last real one, with what carries its topic.

A short follow-up is looked at together with the turns before it; a long paste is
cut into its telling parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lessons_loop.filter.cues import accepts
from lessons_loop.filter.lexical import terms
from lessons_loop.filter.pastes import VIEW_LIMIT, windows
from lessons_loop.filter.text import scrub, shorten
from lessons_loop.filter.transcript import text_of

QUESTION_LIMIT = 60_000
"""Characters looked at: half from the start, half from the end."""
PARTS_MOST = 6
"""Texts embedded for one question."""
FOLLOW_UP_WORDS = 20
THANKS_WORDS = 6
LOOKED_BACK = 20
"""User turns among which the question is looked for: a chat may have thousands."""
EARLIER_TURNS = 4
EARLIER_WEIGHT = 0.5
"""What a word of an earlier turn of the user counts beside one of the last turn."""
SELF_CONTAINED_TERMS = 3
ELLIPTIC_TERMS = 5
REFERRING_TERMS = 9
"""Terms from which words that point back, or refer to something said (`about it`), are not
enough: the last turn may be about anything."""
_WORDS = re.compile(r"\w+", re.UNICODE)
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_SWITCHES = re.compile(
    r"\b(?:something else|on another note|by the way|btw|(?:change|switch)\w* (?:of |the )*topics?"
    r"|(?:an?other|different|new|unrelated) (?:topic|question|subject|thing|matter)"
    r"|other (?:topic|subject)"
    r"|(?:etwas|was) ander(?:e|em)s|ander(?:e|es) (?:frage|thema)|übrigens|nebenbei|themenwechsel"
    r"|autre (?:question|sujet|chose)|au fait|rien à voir|otr[oa] (?:cosa|pregunta|tema)|por cierto"
    r"|cambiando de tema|outr[oa] (?:coisa|pergunta|assunto)|a propósito"
    r"|un'altra (?:cosa|domanda)|altra domanda|cambiando argomento|tra l'altro)\b"
    r"|кстати|другой вопрос|другая тема|另外|换个(?:话题|问题)|顺便"
    r"|ところで|話は変わ|別の(?:質問|話)",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:and|but|so|then|now|only|same|also|too|again|instead|those|these|this|that|it|its|they"
    r"|them|ones?|he|she|him|her|here|there|still|yet|no|nope|yes|ok|okay|hm+|oh|without|both"
    r"|neither|other|another|more|less|next|previous|above|wrong"
    r"|und|aber|dann|jetzt|nun|nur|auch|noch|nochmal|das|dies\w*|gleiche\w*|selbe\w*|davon|dafür"
    r"|damit|dort|hier|doch|nein|ja|stattdessen|sie|er|falsch"
    r"|et|mais|alors|maintenant|seulement|aussi|encore|ça|cela|ce|cette|ces|même|non|oui|ici"
    r"|y|pero|entonces|ahora|solo|sólo|también|eso|es[ae]|est[aeo]|mism[oa]|aquí|sí"
    r"|e|ma|allora|adesso|ora|anche|ancora|quest[oaie]|stess[oaie]|qui|sì"
    r"|mas|então|agora|só|também|isso|ess[ae]|mesm[oa]|aqui|não|sim)\b"
    r"|\b(?:а|и|но|тогда|теперь|только|тоже|это|этот|эта|эти|тот|там|нет|да)\b"
    r"|那|呢|也|还|同样|只|这|它|不|じゃあ|では|それ|その|これ|この|だけ|同じ|も",
    re.IGNORECASE,
)

_REFERS = re.compile(
    r"\b(?:about|of|with|from|for|in|to|by|on) (?:it|them|that|those|these|this|both)\b"
    r"|\b(?:davon|daraus|darüber|dazu|dafür|damit|daran|darin)\b",
    re.IGNORECASE,
)


class Question(NamedTuple):
    """What the user asked, and the turns before it (oldest first)."""

    text: str
    earlier: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    """Those of the earlier turns that are the user's."""


class FollowUp(NamedTuple):
    """A short question that may lean on the turns before it."""

    turns: tuple[tuple[str, float], ...]
    """The words to look for, with the weight of each turn."""
    certain: bool
    """It says little and points back; otherwise its vector must show that it goes on."""


class Asked(NamedTuple):
    """What a question is scored by."""

    texts: tuple[str, ...]
    """What is embedded. A follow-up's: itself, with the user's turns, with all turns."""
    follow_up: FollowUp | None = None


def read_question(messages: Sequence[Any], metadata: Mapping[str, Any] | None) -> Question:
    """Return the user's last real question; its text is empty when there is none.

    `user_message` of the metadata wins where present: on Continue the last
    message is the assistant's, on a guided regenerate it is an instruction.
    """
    turns = [
        m for m in messages if isinstance(m, Mapping) and m.get("role") in ("user", "assistant")
    ]
    users = [i for i, turn in enumerate(turns) if turn.get("role") == "user"][-LOOKED_BACK:]
    asked = (metadata or {}).get("user_message")
    text = said(asked) if isinstance(asked, Mapping) else ""
    if not text:
        text = said(turns[users[-1]]) if users else ""
    end = next((i for i in reversed(users) if said(turns[i]) == text), users[-1] if users else 0)
    before = range(max(0, end - EARLIER_TURNS), end)
    spoken = [(i in users, turn) for i in before if (turn := said(turns[i]))]
    left = [at for at, (own, turn) in enumerate(spoken) if own and _SWITCHES.search(turn)]
    kept = spoken[left[-1] :] if left else spoken
    return Question(text, tuple(turn for _, turn in kept), tuple(turn for own, turn in kept if own))


def since(question: Question, first: str) -> Question:
    """Leave out the turns before the user's `first`, which began another subject."""
    if first not in question.users:
        return question
    users, earlier = question.users, question.earlier
    return question._replace(
        earlier=earlier[earlier.index(first) :], users=users[users.index(first) :]
    )


def said(message: Mapping[str, Any]) -> str:
    """Return what a message says, cleaned and clipped."""
    return scrub(clip(text_of(message.get("content")))).strip()


def clip(text: str) -> str:
    """Keep both ends of a text too long to look at."""
    half = QUESTION_LIMIT // 2
    return text if len(text) <= QUESTION_LIMIT else f"{text[:half]}\n{text[-half:]}"


def views(question: Question, most: int = PARTS_MOST) -> Asked:
    """Return the texts to score, at most `most`; none for an empty question."""
    text = question.text
    if not text:
        return Asked(())
    if len(text) > VIEW_LIMIT:
        return Asked(windows(text, most))
    if follows_up(question):
        return follow_up(question)
    return Asked((text,))


def follows_up(question: Question) -> bool:
    """Say whether a question may lean on what was said before."""
    if not question.earlier or _SWITCHES.search(question.text) or only_thanks(question):
        return False
    return word_count(question.text) <= FOLLOW_UP_WORDS


def word_count(text: str) -> int:
    """Count words; two characters are one in scripts written without spaces."""
    wide = len(_WIDE.findall(text))
    return len(_WORDS.findall(_WIDE.sub(" ", text))) + wide // 2


def only_thanks(question: Question) -> bool:
    """Say whether the user only thanks or confirms; a `yes` to a question asks for more."""
    if not question.earlier:
        return False
    answered = question.earlier[-1].rstrip()[-1:] not in ("?", "？")
    short = word_count(question.text) <= THANKS_WORDS
    asks = re.search(r"[?？]", question.text)
    return short and answered and not asks and accepts(question.text)


def follow_up(question: Question) -> Asked:
    """Join a short follow-up with the turns that carry its topic."""
    text = question.text
    joined = (joined_turns(question.users, text), joined_turns(question.earlier, text))
    turns = ((text, 1.0), *((turn[:VIEW_LIMIT], EARLIER_WEIGHT) for turn in question.users))
    said_more = len(terms(text))
    points_back = said_more < ELLIPTIC_TERMS and _POINTS_BACK.search(text)
    refers = said_more < REFERRING_TERMS and _REFERS.search(text)
    certain = bool(points_back or refers) or said_more < SELF_CONTAINED_TERMS
    return Asked((text, *joined), FollowUp(turns, certain))


def joined_turns(turns: Sequence[str], text: str) -> str:
    """Return the turns, shortened to fit one view, and the follow-up behind them."""
    share = (VIEW_LIMIT - len(text)) // max(1, len(turns))
    return "\n".join([*(shorten(turn, max(80, share)) for turn in turns), text])[-VIEW_LIMIT:]
