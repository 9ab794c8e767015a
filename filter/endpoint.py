"""Post JSON to one address: bounded in time and size, one error type, no key in any text.

Covered: 429 and 5xx with a small `Retry-After`, bodies and headers that dribble, floods,
redirects (not followed: the key would go along), `.netrc` (not read).
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import requests
from urllib3.exceptions import HTTPError

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.text import scrub, shorten

Answered = TypeVar("Answered")
Failure = TypeVar("Failure", bound=LessonsError)
POST_RETRIES = 2
"""Repeats after 429, 502, 503 or 504; together with the time limit it bounds every call."""
RETRY_AFTER_LIMIT = 10.0
"""Seconds a server may ask to wait; what is longer is given up at once."""
CONNECT_SECONDS = 10.0
_BUSY_STATUS = frozenset({429, 502, 503, 504})


class HttpAnswer(NamedTuple):
    """What a server sent back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class JsonEndpoint(Generic[Failure]):
    """One address; `seconds` bounds each call of `in_time`, repeats included."""

    def __init__(
        self,
        url: str,
        key: str,
        name: str,
        error: type[Failure],
        *,
        seconds: float,
        limit: int,
        flooded: type[Failure] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url, self.name, self.error = url, name, error
        self.flooded = flooded or error
        self.seconds, self.limit = seconds, limit
        self._key, self._sleep = key, sleep

    def in_time(self, work: Callable[[float], Answered]) -> Answered:
        """Call `work(deadline)` in a thread of its own; raise the endpoint's error.

        No timeout of a socket ends headers that dribble: a slow thread is left behind.
        """
        answers: queue.SimpleQueue[tuple[Answered | None, Failure | None]] = queue.SimpleQueue()
        deadline = time.monotonic() + self.seconds

        def run() -> None:
            try:
                answers.put((work(deadline), None))
            except self.error as error:
                answers.put((None, error))
            except Exception as error:
                answers.put((None, self.error(f"{self.name} failed: {type(error).__name__}")))

        threading.Thread(target=run, name="lessons-post", daemon=True).start()
        try:
            answer, error = answers.get(timeout=self.seconds + 1.0)
        except queue.Empty:
            raise self.slow() from None
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]  # it is None only beside an error

    def patiently(self, ask: Callable[[], HttpAnswer], deadline: float) -> HttpAnswer:
        """Ask again while the server is busy and time is left; return the last answer."""
        for attempt in range(POST_RETRIES):
            answer = ask()
            wait = retry_wait(answer, attempt)
            if wait is None or time.monotonic() + wait >= deadline:
                return answer
            self._sleep(wait)
        return ask()

    def post(self, payload: Mapping[str, object], deadline: float) -> HttpAnswer:
        """Post once; raise the endpoint's error when no answer came in time."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise self.slow()
        try:
            with requests.post(
                self.url,
                data=json.dumps(payload, ensure_ascii=True).encode(),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                auth=self._sign,
                timeout=(min(CONNECT_SECONDS, left), left),
                stream=True,
                allow_redirects=False,
            ) as response:
                content = self._body(response, deadline)
                return HttpAnswer(response.status_code, response.headers, content)
        except requests.Timeout:
            raise self.slow() from None
        except (requests.RequestException, HTTPError, ValueError, OSError) as error:
            raise self.error(f"{self.name} cannot be reached: {_cause(error)}") from None

    def accepted(self, answer: HttpAnswer) -> object:
        """Return the JSON of a good answer, None where it is none; raise on any refusal."""
        if 300 <= answer.status < 400:
            raise self.error(f"{self.name} redirects elsewhere: configure the final address")
        body = parsed_body(answer.body)
        if answer.status >= 400:
            detail = self.hide(error_text(body) or "no reason given")
            raise self.error(f"{self.name} answered HTTP {answer.status}: {detail}")
        return body

    def hide(self, text: str) -> str:
        """Return the text on one line, shortened, without the key."""
        hidden = text.replace(self._key, "[key]") if self._key else text
        return shorten(" ".join(hidden.split()), 200)

    def slow(self) -> Failure:
        """Return the error that says the time limit was reached."""
        return self.error(f"{self.name} did not answer within {self.seconds:g} s")

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the key; being there at all, it keeps requests from reading `.netrc`."""
        parts = urlsplit(self.url)
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
            if size > self.limit:
                raise self.flooded(f"{self.name} sent more than {self.limit} bytes")
            if time.monotonic() > deadline:
                raise self.slow()
        return b"".join(pieces)


def retry_wait(answer: HttpAnswer, attempt: int) -> float | None:
    """Return the seconds to wait before asking again; None when it is no use."""
    if answer.status not in _BUSY_STATUS:
        return None
    asked = answer.headers.get("Retry-After", "")
    try:
        wait = float(asked) if asked else float(2**attempt)
    except ValueError:  # an HTTP date: too far off to be worth parsing
        return None
    return wait if 0 <= wait <= RETRY_AFTER_LIMIT else None


def parsed_body(body: bytes) -> object:
    """Return a body's JSON, None where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def error_text(body: object) -> str:
    """Return the reason an error body gives, empty when it gives none."""
    error = body.get("error", body.get("detail")) if isinstance(body, Mapping) else None
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or "unnamed error"
    return shorten(scrub(" ".join(str(error).split())), 200) if error else ""


def _cause(error: Exception) -> str:
    """Name a transport error without its text: that repeats addresses and headers."""
    inner: BaseException = error
    while (below := inner.__cause__ or inner.__context__) is not None:
        inner = below
    reason = getattr(inner, "strerror", None)
    return reason if isinstance(reason, str) and reason else type(error).__name__
