"""How requests reach a chat model: over HTTP, recorded on the way, or from a recording.

A recording is `exchanges.jsonl`: one JSON object a line with the request's key (sha256 of
its canonical JSON), the request, and the reply or the error. Its folder is private; the
address and the key of the endpoint are never in it. Requests are masked as stored lessons are,
after their key is taken; replies stay word for word: a replay needs them.

Covered: hangs, dribbles, floods, redirects, `.netrc`, 429 and 5xx (see `endpoint`), optional
parameters a server refuses, several threads and programs appending, a torn last line.
Not covered: endpoints that can only stream.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from lessons_loop.filter.address import completions_url, public_url
from lessons_loop.filter.endpoint import HttpAnswer, JsonEndpoint, error_text, parsed_body
from lessons_loop.filter.errors import LessonsError, ModelError, UnreadableReply
from lessons_loop.filter.llm import REPLY_LIMIT
from lessons_loop.filter.store import first_line
from lessons_loop.promote.decide.changes import masked_values
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.masking import mask_through

EXCHANGES = "exchanges.jsonl"
OPTIONAL_PARAMETERS = ("seed", "temperature")
_REFUSING = (400, 422)
Body = Mapping[str, Any]
Reply = dict[str, Any]


class NoRecording(LessonsError):
    """A folder holds no recording that could be replayed."""


class ChatWire(Protocol):
    """Takes one chat completion request; called from several threads at once."""

    name: str
    """Where requests go, for people; holds no secret."""

    def post(self, body: Body) -> Reply:
        """Return the endpoint's JSON; raise ModelError with one line."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What an administrator should know, each once."""


class TimedReply(dict[str, Any]):
    """A reply that knows how long it took when it was recorded."""

    seconds: float = 0.0


class HttpWire:
    """An OpenAI-compatible endpoint, with or without `/v1`; `seconds` bounds each request."""

    def __init__(
        self,
        url: str,
        key: str = "",
        seconds: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the address; raise ModelError for one that is none."""
        address = completions_url(url)
        self.name = public_url(address)
        self._web = JsonEndpoint(
            address,
            key.strip(),
            f"the agent's model at {self.name}",
            ModelError,
            seconds=seconds,
            limit=REPLY_LIMIT,
            flooded=UnreadableReply,
            sleep=sleep,
        )
        self._left_out: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """Name the place; key and credentials stay out."""
        return f"HttpWire({self.name!r})"

    @property
    def notes(self) -> tuple[str, ...]:
        """The optional parameters the endpoint refused."""
        return tuple(
            f"{self.name} refuses the parameter `{name}`: asked without it"
            for name in self._left_out
        )

    def post(self, body: Body) -> Reply:
        """Return the endpoint's JSON; raise ModelError, UnreadableReply."""

        def work(deadline: float) -> Reply:
            answer = self._web.patiently(lambda: self._once(body, deadline), deadline)
            return self._read(answer)

        return self._web.in_time(work)

    def _once(self, body: Body, deadline: float) -> HttpAnswer:
        """Post; where an optional parameter is refused, post again without it."""
        sent = {name: value for name, value in body.items() if name not in self._left_out}
        answer = self._web.post(sent, deadline)
        gone: list[str] = []
        while refused := refused_parameter(answer, sent):
            sent = {name: value for name, value in sent.items() if name != refused}
            gone.append(refused)
            answer = self._web.post(sent, deadline)
        if gone and answer.status < 400:
            with self._lock:
                self._left_out = tuple(dict.fromkeys((*self._left_out, *gone)))
        return answer

    def _read(self, answer: HttpAnswer) -> Reply:
        body = self._web.accepted(answer)
        if isinstance(body, dict):
            return body
        if answer.body.lstrip().startswith(b"data:"):
            raise UnreadableReply(f"{self._web.name} only streams: use one that answers at once")
        raise UnreadableReply(f"{self._web.name} answered something that is no JSON object")


def refused_parameter(answer: HttpAnswer, sent: Body) -> str | None:
    """Return the optional parameter of a request that a 400 or 422 names."""
    if answer.status not in _REFUSING:
        return None
    body = parsed_body(answer.body)
    error = body.get("error") if isinstance(body, Mapping) else None
    named = error.get("param") if isinstance(error, Mapping) else ""
    text = f"{named} {error_text(body)}"
    return next(
        (p for p in OPTIONAL_PARAMETERS if p in sent and re.search(rf"\b{p}\b", text)), None
    )


def request_key(body: Body) -> str:
    """Return the sha256 (hex) of a request, whatever the order of its fields."""
    told = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()


class RecordingWire:
    """Another wire, every exchange of it appended to `<folder>/exchanges.jsonl`."""

    def __init__(self, wire: ChatWire, folder: Path) -> None:
        """Open the record; raise StoreError."""
        self._wire, self.name = wire, wire.name
        self.file = folder / EXCHANGES
        self._lock = threading.Lock()
        with file_errors(self.file):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._append(b"\n" if _torn(self.file) else b"")

    @property
    def notes(self) -> tuple[str, ...]:
        """The other wire's."""
        return self._wire.notes

    def post(self, body: Body) -> Reply:
        """Ask the other wire, note what came; raise ModelError, StoreError."""
        started = time.monotonic()
        try:
            reply = self._wire.post(body)
        except ModelError as error:
            self._note(body, {"error": mask_through(first_line(error, 400))}, started)
            raise
        self._note(body, {"reply": reply}, started)
        return reply

    def _note(self, body: Body, came: Mapping[str, Any], started: float) -> None:
        row = {
            "key": request_key(body),
            "seconds": round(time.monotonic() - started, 4),
            **came,
            "request": masked_values(body),
        }
        with file_errors(self.file):
            self._append(json.dumps(row, ensure_ascii=True).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        """Write in one call to the file's end: lines of other writers stay whole."""
        with self._lock:
            place = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                while line:
                    line = line[os.write(place, line) :]
            finally:
                os.close(place)


def _torn(file: Path) -> bool:
    """Say whether a file ends within a line."""
    if not file.exists() or not file.stat().st_size:
        return False
    with file.open("rb") as found:
        found.seek(-1, os.SEEK_END)
        return found.read() != b"\n"


class ReplayWire:
    """A recording that answers in place of a model: the same request, the same reply.

    A request that was asked several times gets its replies in the order of recording; what
    failed then and succeeded later counts as answered.
    """

    def __init__(self, folder: Path) -> None:
        """Read the recording; raise NoRecording."""
        file = folder / EXCHANGES if folder.is_dir() else folder
        self.name = f"recording {file.parent.name}"
        self._lock = threading.Lock()
        self._replies, self._errors = read_exchanges(file)
        self._asked: dict[str, int] = {}
        if not self._replies and not self._errors:
            raise NoRecording(f"{file} holds no recorded exchange")

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def post(self, body: Body) -> Reply:
        """Return the recorded reply; raise ModelError where there is none."""
        key = request_key(body)
        with self._lock:
            turn = self._asked.get(key, 0)
            self._asked[key] = turn + 1
        replies = self._replies.get(key, [])
        if turn < len(replies):
            return replies[turn]
        if not replies and key in self._errors:
            raise ModelError(self._errors[key])
        more = "" if not replies else f" more than {len(replies)} times"
        raise ModelError(f"not recorded{more}: request {key[:12]}; {self.name} was made otherwise")


def read_exchanges(file: Path) -> tuple[dict[str, list[TimedReply]], dict[str, str]]:
    """Return replies and last errors by request key; lines that are none are left out."""
    replies: dict[str, list[TimedReply]] = {}
    errors: dict[str, str] = {}
    try:
        with file.open("rb") as lines:
            for line in lines:
                _read_line(line, replies, errors)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise NoRecording(f"{file} cannot be read: {why}") from None
    return replies, errors


def _read_line(line: bytes, replies: dict[str, list[TimedReply]], errors: dict[str, str]) -> None:
    row = parsed_body(line)
    if not isinstance(row, dict) or not isinstance(key := row.get("key"), str):
        return
    if isinstance(row.get("reply"), dict):
        reply = TimedReply(row["reply"])
        seconds = row.get("seconds")
        reply.seconds = float(seconds) if isinstance(seconds, int | float) else 0.0
        replies.setdefault(key, []).append(reply)
    elif isinstance(row.get("error"), str):
        errors[key] = row["error"]
