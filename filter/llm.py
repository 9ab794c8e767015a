"""Ask an OpenAI-compatible model: bounded in time and size, one error type, no key in any text.

Covered: optional parameters a server refuses (left out, asked once more, remembered for
the process), 429 and 5xx with a small `Retry-After`, bodies that dribble, redirects,
errors inside HTTP 200, reasoning without an answer.
Not covered: streaming, anything but chat completions.
"""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import requests
from urllib3.exceptions import HTTPError

from lessons_loop.filter.address import completions_url, public_url
from lessons_loop.filter.errors import ModelError, UnreadableReply
from lessons_loop.filter.text import scrub, shorten

REPLY_LIMIT = 2_000_000
"""Bytes of a reply body; beyond it the reply is unreadable."""
ASK_RETRIES = 2
"""Repeats after 429, 502, 503 or 504; together with the time limit it bounds every call."""
RETRY_AFTER_LIMIT = 10.0
"""Seconds a server may ask to wait; what is longer is given up at once."""
_BUSY_STATUS = frozenset({429, 502, 503, 504})
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


class _HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


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
        self._key = key.strip()
        self._sleep = sleep

    def __repr__(self) -> str:
        """Name the model; the key and credentials in the address stay out."""
        return f"HttpModel({public_url(self.endpoint)!r}, {self.model!r})"

    def ask(self, messages: list[dict[str, str]], max_tokens: int = 1500) -> ChatReply:
        """Return the model's reply; raise ModelError or UnreadableReply with one line.

        Asked in a thread of its own: no timeout of a socket ends headers that dribble.
        """
        answers: queue.SimpleQueue[ChatReply | ModelError] = queue.SimpleQueue()

        def run() -> None:
            try:
                answers.put(self._ask_in_time(messages, max_tokens))
            except ModelError as error:
                answers.put(error)
            except Exception as error:
                answers.put(ModelError(f"{self._where()} failed: {type(error).__name__}"))

        threading.Thread(target=run, name="lessons-ask", daemon=True).start()
        try:
            answer = answers.get(timeout=self.seconds + 1.0)
        except queue.Empty:
            answer = ModelError(self._slow())
        if isinstance(answer, ModelError):
            raise answer
        return answer

    def _ask_in_time(self, messages: list[dict[str, str]], max_tokens: int) -> ChatReply:
        deadline = time.monotonic() + self.seconds
        for attempt in range(ASK_RETRIES + 1):
            response = self._ask_once(messages, max_tokens, deadline)
            wait = _retry_wait(response, attempt)
            if wait is None or time.monotonic() + wait >= deadline:
                return self._read(response)
            self._sleep(wait)
        raise ModelError(f"{self._where()} did not answer")

    def _ask_once(
        self, messages: list[dict[str, str]], max_tokens: int, deadline: float
    ) -> _HttpAnswer:
        """Post; where an optional parameter is refused, leave it out and post again."""
        response = self._post(self._payload(messages, max_tokens), deadline)
        for _ in _OPTIONAL_PARAMETERS:
            refused = _refused_parameter(response)
            if refused is None or refused in self._left_out():
                break
            self._leave_out(refused)
            response = self._post(self._payload(messages, max_tokens), deadline)
        return response

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

    def _post(self, payload: dict[str, object], deadline: float) -> _HttpAnswer:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise ModelError(self._slow())
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            body = json.dumps(payload, ensure_ascii=True).encode()
            with requests.post(
                self.endpoint,
                data=body,
                headers=headers,
                auth=self._sign,
                timeout=(min(10.0, remaining), remaining),
                stream=True,
                allow_redirects=False,
            ) as response:
                content = self._body(response, deadline)
                return _HttpAnswer(response.status_code, response.headers, content)
        except requests.Timeout:
            raise ModelError(self._slow()) from None
        except (requests.RequestException, HTTPError, ValueError, OSError) as error:
            cause = _transport_cause(error)
            raise ModelError(f"{self._where()} cannot be reached: {cause}") from None

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the key; being there at all, it keeps requests from reading `.netrc`."""
        parts = urlsplit(self.endpoint)
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        elif parts.username:
            name, secret = unquote(parts.username), unquote(parts.password or "")
            requests.auth.HTTPBasicAuth(name, secret)(request)
        return request

    def _body(self, response: requests.Response, deadline: float) -> bytes:
        """Read the body piece by piece: a read timeout alone never ends a dribble."""
        pieces, size = [], 0
        while piece := response.raw.read1(65536, decode_content=True):
            pieces.append(piece)
            size += len(piece)
            if size > REPLY_LIMIT:
                raise UnreadableReply(f"{self._where()} sent more than {REPLY_LIMIT} bytes")
            if time.monotonic() > deadline:
                raise ModelError(self._slow())
        return b"".join(pieces)

    def _read(self, response: _HttpAnswer) -> ChatReply:
        if 300 <= response.status < 400:
            raise ModelError(f"{self._where()} redirects elsewhere: configure the final address")
        body = _parsed_body(response.body)
        if response.status >= 400:
            detail = self._hide(_error_text(body) or "no reason given")
            raise ModelError(f"{self._where()} answered HTTP {response.status}: {detail}")
        try:
            return reply_from_completion(body)
        except ModelError as error:
            raise type(error)(f"{self._where()}: {self._hide(str(error))}") from None

    def _hide(self, text: str) -> str:
        hidden = text.replace(self._key, "[key]") if self._key else text
        return shorten(" ".join(hidden.split()), 200)

    def _where(self) -> str:
        return f"model {shorten(self.model, 80)} at {public_url(self.endpoint)}"

    def _slow(self) -> str:
        return f"{self._where()} did not answer within {self.seconds:g} s"


def reply_from_completion(body: object) -> ChatReply:
    """Read a completion dict, over HTTP or in process; raise ModelError or UnreadableReply."""
    if not isinstance(body, Mapping):
        raise UnreadableReply("the reply is no JSON object")
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, Sequence) and len(choices) > 0 else None
    if not isinstance(first, Mapping):
        if detail := _error_text(body):
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


def _error_text(body: object) -> str:
    error = body.get("error", body.get("detail")) if isinstance(body, Mapping) else None
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or "unnamed error"
    return shorten(scrub(" ".join(str(error).split())), 200) if error else ""


def _parsed_body(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _refused_parameter(response: _HttpAnswer) -> str | None:
    """Return the optional parameter a 400 or 422 complains about."""
    if response.status not in (400, 422):
        return None
    body = _parsed_body(response.body)
    error = body.get("error") if isinstance(body, Mapping) else None
    named = error.get("param") if isinstance(error, Mapping) else None
    text = _error_text(body)
    if not (named or _PARAMETER_REFUSAL.search(text)):
        return None
    first = re.search(
        r"max_tokens|max_completion_tokens|temperature|response_format", f"{named} {text}"
    )
    return first.group() if first else None


def _retry_wait(response: _HttpAnswer, attempt: int) -> float | None:
    """Return the seconds to wait before asking again; None when it is no use."""
    if response.status not in _BUSY_STATUS or attempt >= ASK_RETRIES:
        return None
    asked = response.headers.get("Retry-After", "")
    try:
        wait = float(asked) if asked else float(2**attempt)
    except ValueError:  # an HTTP date: too far off to be worth parsing
        return None
    return wait if 0 <= wait <= RETRY_AFTER_LIMIT else None


def _transport_cause(error: Exception) -> str:
    """Name a transport error without its text: that repeats addresses and headers."""
    inner: BaseException = error
    while (below := inner.__cause__ or inner.__context__) is not None:
        inner = below
    reason = getattr(inner, "strerror", None)
    return reason if isinstance(reason, str) and reason else type(error).__name__
