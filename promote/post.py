"""Post JSON to an embedding endpoint: bounded in time and size, no key in any text."""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import requests
from urllib3.exceptions import HTTPError

from lessons_loop.filter.address import public_url
from lessons_loop.filter.errors import EmbedError
from lessons_loop.filter.text import scrub

BODY_LIMIT = 100_000_000
"""Bytes: 64 vectors of 4,096 numbers as JSON are about 6 MB."""
RETRIES = 2
RETRY_AFTER_LIMIT = 10.0
_BUSY = frozenset({429, 502, 503, 504})


class _Answer(NamedTuple):
    status: int
    retry_after: str
    body: bytes


class JsonEndpoint:
    """One address; `seconds` bounds each post, repeats included."""

    def __init__(self, url: str, key: str, seconds: float) -> None:
        self._url, self._key, self._seconds = url, key, seconds

    def post(self, payload: dict[str, object]) -> object:
        """Return the JSON answered; raise EmbedError with one line.

        In a thread of its own: no timeout of a socket ends headers that dribble.
        """
        answers: queue.SimpleQueue[object] = queue.SimpleQueue()

        def run() -> None:
            try:
                answers.put(self._in_time(payload))
            except EmbedError as error:
                answers.put(error)
            except (requests.RequestException, HTTPError, ValueError, OSError) as error:
                answers.put(EmbedError(f"{self._where()} cannot be asked: {_cause(error)}"))

        threading.Thread(target=run, name="lessons-embed", daemon=True).start()
        try:
            answer = answers.get(timeout=self._seconds + 1.0)
        except queue.Empty:
            raise self._slow() from None
        if isinstance(answer, EmbedError):
            raise answer
        return answer

    def _in_time(self, payload: dict[str, object]) -> object:
        deadline = time.monotonic() + self._seconds
        for attempt in range(RETRIES + 1):
            answer = self._once(payload, deadline)
            wait = _wait(answer, attempt)
            if wait is None or time.monotonic() + wait >= deadline:
                break
            time.sleep(wait)
        if answer.status != 200:
            detail = self._hidden(_error_text(answer.body))
            raise EmbedError(f"{self._where()} answered HTTP {answer.status}: {detail}")
        try:
            return json.loads(answer.body)
        except ValueError:
            raise EmbedError(f"{self._where()} answered something that is no JSON") from None

    def _once(self, payload: dict[str, object], deadline: float) -> _Answer:
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._slow()
        try:
            with requests.post(
                self._url,
                data=json.dumps(payload).encode(),
                auth=self._sign,
                timeout=(min(10.0, left), left),
                stream=True,
                allow_redirects=False,
            ) as response:
                body = self._body(response, deadline)
                return _Answer(response.status_code, response.headers.get("Retry-After", ""), body)
        except requests.Timeout:
            raise self._slow() from None

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the key; being there at all, it keeps requests from reading `.netrc`."""
        request.headers["Content-Type"] = "application/json"
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        elif (parts := urlsplit(self._url)).username:
            name, secret = unquote(parts.username), unquote(parts.password or "")
            requests.auth.HTTPBasicAuth(name, secret)(request)
        return request

    def _body(self, response: requests.Response, deadline: float) -> bytes:
        pieces, size = [], 0
        while piece := response.raw.read1(65536, decode_content=True):
            pieces.append(piece)
            size += len(piece)
            if size > BODY_LIMIT:
                raise EmbedError(f"{self._where()} sent more than {BODY_LIMIT} bytes")
            if time.monotonic() > deadline:
                raise self._slow()
        return b"".join(pieces)

    def _where(self) -> str:
        return f"the embedding endpoint {public_url(self._url)}"

    def _slow(self) -> EmbedError:
        return EmbedError(f"{self._where()} did not answer within {self._seconds:g} s")

    def _hidden(self, text: str) -> str:
        return (text.replace(self._key, "[key]") if self._key else text)[:200]


def _wait(answer: _Answer, attempt: int) -> float | None:
    """Return the seconds to wait before asking again; None when it is no use."""
    if answer.status not in _BUSY or attempt >= RETRIES:
        return None
    try:
        wait = float(answer.retry_after or 2**attempt)
    except ValueError:
        return None
    return wait if 0 <= wait <= RETRY_AFTER_LIMIT else None


def _error_text(body: bytes) -> str:
    try:
        found = json.loads(body)
        error = found.get("error", found.get("detail", ""))
        text = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        text = ""
    return " ".join(scrub(str(text or "no reason given")).split())


def _cause(error: Exception) -> str:
    """Name a transport error without its text: that repeats addresses and headers."""
    inner: BaseException = error
    while (below := inner.__cause__ or inner.__context__) is not None:
        inner = below
    return getattr(inner, "strerror", None) or type(error).__name__
