"""Ask an OpenAI-compatible model: bounded, one error type, no key in any text.

Covered: optional parameters a server refuses (left out, asked once more, remembered for
the process), errors inside HTTP 200, reasoning without an answer; see `endpoint` for the rest.
Not covered: streaming, anything but chat completions.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lessons_loop.filter.address import completions_url, public_url
from lessons_loop.filter.endpoint import HttpAnswer, JsonEndpoint, error_text, parsed_body
from lessons_loop.filter.errors import ModelError, UnreadableReply
from lessons_loop.filter.text import scrub, shorten

REPLY_LIMIT = 2_000_000
"""Bytes of a reply body; beyond it the reply is unreadable."""
_OPTIONAL_PARAMETERS = ("response_format", "temperature", "max_tokens")
_PARAMETER_REFUSAL = re.compile(
    r"unsupported|not support|unrecogni|unknown|unexpected|invalid|must contain|only the default",
    re.I,
)
_refused_lock = threading.Lock()
_refused_parameters: dict[tuple[str, str], frozenset[str]] = {}


class ChatReply(NamedTuple):
    """What a model said, and why it stopped."""

    text: str
    finish_reason: str


class HttpModel:
    """One model behind an OpenAI-compatible URL, with or without `/v1`."""

    def __init__(
        self,
        url: str,
        model: str,
        key: str = "",
        seconds: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = completions_url(url)
        self.model = model
        self.seconds = seconds
        name = f"model {shorten(model, 80)} at {public_url(self.endpoint)}"
        self._web = JsonEndpoint(
            self.endpoint,
            key.strip(),
            name,
            ModelError,
            seconds=seconds,
            limit=REPLY_LIMIT,
            flooded=UnreadableReply,
            sleep=sleep,
        )

    def __repr__(self) -> str:
        """Name the model; the key and credentials in the address stay out."""
        return f"HttpModel({public_url(self.endpoint)!r}, {self.model!r})"

    def ask(self, messages: list[dict[str, str]], max_tokens: int = 1500) -> ChatReply:
        """Return the model's reply; raise ModelError or UnreadableReply with one line."""

        def work(deadline: float) -> ChatReply:
            answer = self._web.patiently(
                lambda: self._once(messages, max_tokens, deadline), deadline
            )
            return self._read(answer)

        return self._web.in_time(work)

    def _once(self, messages: list[dict[str, str]], max_tokens: int, deadline: float) -> HttpAnswer:
        """Post; where an optional parameter is refused, leave it out and post again."""
        answer = self._web.post(self._payload(messages, max_tokens), deadline)
        for _ in _OPTIONAL_PARAMETERS:
            refused = _refused_parameter(answer)
            if refused is None or refused in self._left_out():
                break
            self._leave_out(refused)
            answer = self._web.post(self._payload(messages, max_tokens), deadline)
        return answer

    def _payload(self, messages: list[dict[str, str]], max_tokens: int) -> dict[str, object]:
        payload: dict[str, object] = {"model": self.model, "messages": messages, "stream": False}
        left_out = self._left_out()
        if "temperature" not in left_out:
            payload["temperature"] = 0.1
        if "max_tokens" not in left_out:
            payload["max_tokens"] = max_tokens
        elif "max_completion_tokens" not in left_out:
            payload["max_completion_tokens"] = max_tokens
        return payload

    def _left_out(self) -> frozenset[str]:
        with _refused_lock:
            return _refused_parameters.get((self.endpoint, self.model), frozenset())

    def _leave_out(self, name: str) -> None:
        key = (self.endpoint, self.model)
        with _refused_lock:
            _refused_parameters[key] = _refused_parameters.get(key, frozenset()) | {name}

    def _read(self, answer: HttpAnswer) -> ChatReply:
        body = self._web.accepted(answer)
        try:
            return reply_from_completion(body)
        except ModelError as error:
            raise type(error)(f"{self._web.name}: {self._web.hide(str(error))}") from None


def reply_from_completion(body: object) -> ChatReply:
    """Read a completion dict, over HTTP or in process; raise ModelError or UnreadableReply."""
    if not isinstance(body, Mapping):
        raise UnreadableReply("the reply is no JSON object")
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, Sequence) and len(choices) > 0 else None
    if not isinstance(first, Mapping):
        if detail := error_text(body):
            raise ModelError(f"error in the reply: {detail}")
        raise UnreadableReply("the reply has no choices")
    finish = first.get("finish_reason")
    reason = scrub(finish) if isinstance(finish, str) else ""
    message = first.get("message")
    text = _message_text(message.get("content")) if isinstance(message, Mapping) else ""
    if not text.strip():
        hint = "allow more tokens or switch thinking off"
        raise UnreadableReply(f"empty reply, finish_reason {reason or 'none'}: {hint}")
    return ChatReply(text, reason)


def _message_text(content: object) -> str:
    if isinstance(content, str):
        return scrub(content)
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return scrub("".join(text for text in texts if isinstance(text, str)))


def _refused_parameter(answer: HttpAnswer) -> str | None:
    """Return the optional parameter a 400 or 422 complains about."""
    if answer.status not in (400, 422):
        return None
    body = parsed_body(answer.body)
    error = body.get("error") if isinstance(body, Mapping) else None
    named = error.get("param") if isinstance(error, Mapping) else None
    text = error_text(body)
    if not (named or _PARAMETER_REFUSAL.search(text)):
        return None
    first = re.search(
        r"max_tokens|max_completion_tokens|temperature|response_format", f"{named} {text}"
    )
    return first.group() if first else None
