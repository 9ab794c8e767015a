"""
title: Lessons Loop Ratings
author: lessons-loop
version: 0.1.0
schema: 2
required_open_webui_version: 0.12.0
license: MIT
description: Notes thumbs on answers, so that the gate can tell which curated lessons help.
source_digest: 9e66dee065b2a0f9bf27787b072f0d0f71c04884aa018b0d79ef6c36d82af1cd
"""

from __future__ import annotations

import asyncio
import datetime
import fcntl
import functools
import hashlib
import hmac
import importlib
import ipaddress
import json
import logging
import math
import os
import re
import secrets
import sqlite3
import sys
import threading
import time
import unicodedata
import zlib
from bisect import bisect_left, insort
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    IO,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    Self,
    TYPE_CHECKING,
    TypeVar,
    cast,
)
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

if TYPE_CHECKING:
    import ssl

    from chromadb.api import ClientAPI
    from chromadb.config import Settings

# ------------------------------------------------------------------------------
# filter/errors.py: Errors raised by the lessons loop.


class LessonsError(Exception):
    """Base class: caught at the edges only; its text is one line a user can act on."""


class InvalidLesson(LessonsError):
    """A lesson, candidate or event breaks the rules of the data model."""


class EmbedError(LessonsError):
    """The embedding engine could not be asked, or answered nonsense."""


class RerankError(LessonsError):
    """The reranking model could not be asked, or answered nonsense."""


class ModelError(LessonsError):
    """The language model could not be asked."""


class UnreadableReply(ModelError):
    """The language model answered, but not in the agreed form."""


class StoreError(LessonsError):
    """The lesson store could not be read or written."""


class StoreUnreachable(StoreError):
    """The store's server gives no usable answer now; asking again later may help."""


class StoreMissing(StoreError):
    """The server answers, but has no such tenant, database or collection."""


class AnswerTooLarge(StoreError):
    """The store's server answers with more than is taken at once; asking for less may help."""


class StoreLocked(StoreError):
    """Somebody else holds the store; nothing was read or written."""


class StoreDamaged(StoreError):
    """The store's files cannot be trusted; nothing was written."""


class StoreNewer(StoreError):
    """The store was written by a later release; nothing of it was changed."""


class EmbeddingMismatch(StoreError):
    """Vectors of two different embedding models would have been compared."""


# ------------------------------------------------------------------------------
# filter/text.py: Clean and compare text: what Unicode allows and stores refuse.


_SPACE = re.compile(r"\s+")


def scrub(text: str) -> str:
    """Return `text` without NUL; surrogate pairs are joined, lone ones become U+FFFD."""
    joined = text.replace("\x00", "").encode("utf-16-le", "surrogatepass")
    return joined.decode("utf-16-le", "replace")


def normalise(text: str) -> str:
    """Return the form in which two spellings of the same sentence are equal."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _SPACE.sub(" ", folded).strip().rstrip(".!;, ")


def digest(*parts: str) -> str:
    """Return the sha256 (hex) of the parts, kept apart from one another."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def user_reference(salt: bytes, identity: str) -> str:
    """Return the HMAC that stands for a user or a chat, empty where nobody is named."""
    return hmac.new(salt, identity.encode(), hashlib.sha256).hexdigest() if identity else ""


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters, an ellipsis marking a cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)].rstrip() + "…"


def repeats(line: str, text: str, run: int = 12) -> bool:
    """Say whether a line repeats a stretch of `run` characters of a text, or a shorter text whole.

    For messages of others: what they echo is somebody's chat.
    """
    if 0 < len(text.strip()) < run:
        return text.strip() in line
    return any(line[at : at + run] in text for at in range(len(line) - run + 1))


# ------------------------------------------------------------------------------
# filter/alerts.py: One warning per trouble, not one per message.


lessons_log = logging.getLogger("lessons_loop")


class Alerts:
    """Remembers which troubles were reported; a cleared one may be reported again."""

    def __init__(self) -> None:
        self.active: dict[str, str] = {}

    def warn(self, trouble: str, message: str) -> None:
        """Log a warning unless the same trouble was already reported."""
        if trouble not in self.active:
            lessons_log.warning("%s", message)
        self.active[trouble] = message

    def clear(self, trouble: str) -> None:
        """Note that the trouble is over."""
        if self.active.pop(trouble, None) is not None:
            lessons_log.info("%s works again", trouble)


# ------------------------------------------------------------------------------
# filter/kinds.py: What a lesson can be about; apart from the models, so that it loads at once.


class Kind(StrEnum):
    """What a lesson is about; the one definition every producer and check reads."""

    SCHEMA_MAP = "schema-map"
    PERF_GUARD = "perf-guard"
    RESOLUTION_PATTERN = "resolution-pattern"
    FAIL_FIX = "fail-fix"


KIND_MEANINGS: dict[Kind, str] = {
    Kind.SCHEMA_MAP: "where data lives, what a column, field, unit or parameter means",
    Kind.PERF_GUARD: "protects from cost, slowness or running out of something",
    Kind.RESOLUTION_PATTERN: "a way of doing it that works for a class of questions",
    Kind.FAIL_FIX: "a failure and what cures it",
}


# ------------------------------------------------------------------------------
# filter/people.py: Find names of people where the words around them say that they are one.


_CAPITAL = r"[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ'’]{1,24}(?:-[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{1,24})?"
_FULL_PERSON = rf"(?P<value>{_CAPITAL}(?: {_CAPITAL}){{0,2}})"
_SIGN_OFFS = (
    r"(?:cheers|(?:kind |best |warm )?regards|best wishes|best|yours|sincerely|greetings"
    r"|(?:many )?thanks|thank you|thx|danke|cordialement|merci|saludos|gracias|atentamente|grazie"
    r"|saluti|abraços?|obrigad[oa]|(?:viele |liebe |beste |schöne )?gr(?:ü|ue)(?:ß|ss)e"
    r"|gru(?:ß|ss)|vg|lg|mfg|groeten)"
)
_SHORT_SIGN_OFFS = (
    r"(?:regards|(?:viele |liebe |beste |schöne )?gr(?:ü|ue)(?:ß|ss)e|gru(?:ß|ss)|vg|lg|mfg)"
)
_LINE_START = r"(?:^|(?<=[\n.!?,;])|(?<=[.!?,;] ))[ \t]{0,8}"
PERSON_FORMS = tuple(
    re.compile(form)
    for form in (
        r"(?<![\w.])(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof)\.?|Sra?\.|Herrn?|Frau|Mme|Mlle|Monsieur|Madame"
        r"|Señora?|Signora?|Dott(?:oressa)?\.?|Senhora?|Mevrouw|Meneer) "
        rf"(?:(?:Dr|Prof)\.? )?{_FULL_PERSON}",
        r"(?<!\w)(?i:my name(?: is|['’]s)|ich hei(?:ß|ss)e|mein name ist|je m['’]appelle|me llamo"
        r"|mi nombre es|mi chiamo|meu nome [ée]|chamo-me|ik heet|mijn naam is):?\s{1,3}"
        rf"{_FULL_PERSON}",
        r"(?<!\w)(?i:i am|i['’]m|ich bin|hier spricht|je suis|soy|sono|sou|ik ben)\s{1,3}"
        rf"(?P<value>{_CAPITAL} {_CAPITAL})"
        r"(?=\s{0,3}(?:[,.!;\n]|$|(?:from|and|of|aus|von|vom|und|de|du|et|y|di|van|en)\b))",
        r"(?:^|(?<=\n))[ \t]{0,8}(?i:hi|hello|hey|dear|hallo|liebe[rs]?|moin|bonjour|ch(?:er|ère)"
        rf"|hola|querid[oa]|ciao|car[ao]|olá|beste)\s{{1,3}}{_FULL_PERSON}(?=\s{{0,3}}[,!\n])",
        rf"{_LINE_START}(?i:{_SIGN_OFFS})(?:,[ ]|[,!]?\s{{0,3}}\n\s{{0,8}}){_FULL_PERSON}"
        r"(?=[ .!]{0,3}(?:\n|$))",
        rf"{_LINE_START}(?i:{_SHORT_SIGN_OFFS}) {_FULL_PERSON}(?=[ .!]{{0,3}}(?:\n|$))",
        rf"(?<!\w){_FULL_PERSON}(?=\s{{1,2}}<[^\s<>@]{{1,64}}@[^\s<>]{{1,100}}>)",
        r"(?<!\w)(?:[Cc]ustomer|[Cc]lient|[Pp]atient|[Ee]mployee|[Cc]olleague|[Pp]erson|[Mm]an"
        r"|[Ww]oman|[Bb]oss|[Mm]anager|[Uu]ser|Kund\w{1,3}|Mitarbeiter\w{0,3}|Kolleg\w{1,3}"
        r"|Nutzer\w{0,3}|Patient\w{0,3}|[Cc]lienta?|[Ee]mplead[oa]|[Cc]ollègue)\s"
        rf"(?:named|called|namens|nommée?|llamad[oa]) {_FULL_PERSON}",
    )
)
_NO_PERSON = re.compile(
    r"\b(?:all|everyone|everybody|team|world|there|assistant|bot|chat|claude|gemini|siri|alexa"
    r"|copilot|zusammen|leute|welt|support|admin|todos|mundo|tutti|monde|folks|guys|again|open|web"
    r"|red|hat|server|windows|linux|sir|madam|ladies|hello|hi)\b",
    re.IGNORECASE,
)


_NAME_HEADING = re.compile(
    r"(?:(?:\w{1,20}[_. ])?name|author|assignee|owner|reporter|employee|customer|contact|user|lead"
    r"|manager|mitarbeiter\w{0,3}|kund\w{1,3}|nachname|bearbeiter|nom|nombre|client\w?|empleado)",
    re.IGNORECASE,
)
_NAME_VALUE = re.compile(
    rf"(?i:\"(?:\w{{0,20}}name|author|assignee|owner|reporter|employee|customer|contact|user|lead)\")"
    rf"\s{{0,3}}:\s{{0,3}}\"(?P<value>{_CAPITAL}(?: {_CAPITAL}){{1,2}})\""
)
_NAME_CELL = re.compile(
    rf"(?:^|(?<=[|,;\t\n])) {{0,20}}(?P<value>{_CAPITAL}(?: {_CAPITAL}){{1,2}})"
    r" {0,20}(?=[|,;\t\n]|$)"
)


def listed_people(text: str) -> frozenset[str]:
    """Return the words of names that a result lists under a heading or key for names."""
    forms = [_NAME_VALUE]
    head = re.split(r"[|,;\t]", text.lstrip().partition("\n")[0][:400])
    if len(head) > 1 and any(_NAME_HEADING.fullmatch(cell.strip()) for cell in head):
        forms.append(_NAME_CELL)
    found = (match.group("value") for form in forms for match in form.finditer(text))
    return frozenset(word for name in found for word in re.split(r"[ -]", name) if len(word) >= 3)


def is_person(name: str) -> bool:
    """Say whether a name found by its surroundings is none of the usual other addressees."""
    return _NO_PERSON.search(name) is None


def name_words(text: str) -> frozenset[str]:
    """Return the single words of the names of people in a text."""
    return frozenset(
        word
        for form in PERSON_FORMS
        for match in form.finditer(text)
        if is_person(match.group("value"))
        for word in re.split(r"[ -]", match.group("value"))
        if len(word) >= 3
    )


# ------------------------------------------------------------------------------
# filter/staging_made.py: How a collection of staging is made: in one way, whoever finds it missing.


STAGING_NEIGHBOURS = 4
"""Nobody searches staging, and Chroma keeps a deleted row's place: 60 bytes each instead of 150."""


def staging_collection(client: Any, name: str, metadata: Mapping[str, Any] | None = None) -> Any:
    """Return a collection, made where it is missing; raises what Chroma raises."""
    return client.get_or_create_collection(
        name,
        configuration={"hnsw": {"space": "cosine", "max_neighbors": STAGING_NEIGHBOURS}},
        metadata=dict(metadata) if metadata else None,
        embedding_function=None,
    )


# ------------------------------------------------------------------------------
# filter/server_session.py: The HTTP side of a lesson store's client: every answer bounded in time and size.


POLICY_PROXY = b"the policy proxy refuses"
"""What `deploy/base/nginx.conf` says with each 403."""


class BoundedSession:
    """Stands where Chroma's client keeps its own: limits time and size, follows no redirect.

    Built on httpx's transport: its client would log each of our regular looks.
    """

    def __init__(self, token: str, seconds: float, answer_limit: int) -> None:
        import httpx

        self.seconds, self.answer_limit, self._token = seconds, answer_limit, token
        named = {"Authorization": f"Bearer {token}"} if token else {}
        fixed = {"Content-Type": "application/json", "User-Agent": "lessons-loop"}
        self.headers = httpx.Headers(fixed | named)  # its repr hides the token
        self._transport = httpx.HTTPTransport(
            verify=trusted_certificates(), limits=httpx.Limits(keepalive_expiry=40.0)
        )

    def request(self, method: str, url: str, *, params: Any = None, content: Any = None) -> Any:
        """Return the answer; raise StoreUnreachable, AnswerTooLarge, httpx's TransportError."""
        import httpx

        extensions = {"timeout": httpx.Timeout(self.seconds).as_dict()}
        asked = httpx.Request(
            method,
            url,
            params=params,
            content=content,
            headers=self.headers,
            extensions=extensions,
        )
        answer = self._transport.handle_request(asked)
        try:
            body = read_bounded(answer.iter_bytes(), self.seconds, self.answer_limit)
        finally:
            answer.close()
        if self._token and answer.is_error:  # a server may repeat what it was sent
            body = body.replace(self._token.encode(), b"(token)")
        refuse_failure(answer.status_code, body)
        return httpx.Response(answer.status_code, content=body, request=asked)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


def trusted_certificates() -> ssl.SSLContext:
    """Return what httpx trusts: read once, and again when the setting or its file changed.

    Reading takes 13 ms and 0.7 MB, which Chroma's circular references keep for long (measured).
    """
    changed = None
    where = tuple(os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    with suppress(OSError):
        changed = os.stat(where[0] or where[1]).st_mtime_ns
    return _certificates(where, changed)


@lru_cache(maxsize=1)
def _certificates(where: tuple[str, ...], changed: int | None) -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


def read_bounded(chunks: Iterator[bytes], seconds: float, limit: int) -> bytes:
    """Return the joined chunks; raise StoreUnreachable, AnswerTooLarge beyond a limit."""
    deadline = time.monotonic() + seconds
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise AnswerTooLarge(f"the server's answer has more than {limit // 2**20} MiB")
        if time.monotonic() > deadline:
            raise StoreUnreachable(f"the server's answer took more than {seconds:g} s")
    return bytes(body)


def refuse_failure(status: int, body: bytes) -> None:
    """Raise StoreUnreachable for a status that Chroma itself would not have explained."""
    if status == 403 and POLICY_PROXY in body:
        raise StoreUnreachable(
            "the policy proxy refuses this (HTTP 403): through its address curated is read and "
            "staging added to, nothing else; gate, desk and doctor need Chroma's own address"
        )
    if status in (401, 403):
        raise StoreUnreachable(
            f"the server refuses access (HTTP {status}): check `chroma_token` "
            "(LESSONS_CHROMA_TOKEN) and what it may do"
        )
    between = status in (408, 429, 502, 503, 504)  # proxies say these, some of them in JSON
    if between or (status >= 500 and not body.lstrip().startswith(b"{")):
        raise StoreUnreachable(f"the server answers HTTP {status}")
    if 300 <= status < 400:
        raise StoreUnreachable(f"the server answers with a redirect (HTTP {status}): set that one")


# ------------------------------------------------------------------------------
# filter/address.py: Addresses of OpenAI-compatible servers: completed for use, stripped for messages.


def completions_url(url: str) -> str:
    """Return the chat completions address for a base address; raise ModelError."""
    cleaned = url.strip()
    try:
        parts = urlsplit(cleaned)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        shown = shorten(public_url(cleaned), 80)
        raise ModelError(
            f"the model's address {shown!r} is no http(s) URL: set one like http://host/v1"
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path += "/chat/completions" if has_version(path) else "/v1/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def has_version(path: str) -> bool:
    """Say whether a base address already ends in what comes before `/chat/completions`."""
    return re.search(r"/(?:v\d+\w*|openai|api)$", path) is not None


def public_url(url: str) -> str:
    """Return an address without user, password, query and fragment."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    return re.sub(r"//[^/]*@", "//", bare)


# ------------------------------------------------------------------------------
# filter/worker.py: A bounded background queue on the event loop, with kept task references.


Result = TypeVar("Result")
Job = Callable[[], Awaitable[None]]
QUEUE_LIMIT = 100
PARALLEL_JOBS = 2
SEEN_LIMIT = 20_000


class Waiting(NamedTuple):
    """A queued job, and what to do where it is dropped."""

    job: Job
    dropped: Callable[[], None] | None


class Worker:
    """Runs at most `parallel` jobs at once; beyond `limit` waiting ones the oldest is dropped."""

    def __init__(self, limit: int = QUEUE_LIMIT, parallel: int = PARALLEL_JOBS) -> None:
        self.limit, self.parallel = limit, parallel
        self.waiting: deque[Waiting] = deque()
        self.running: set[asyncio.Task[None]] = set()
        self.beside: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()

    def submit(self, job: Job, dropped: Callable[[], None] | None = None) -> None:
        """Queue a job and return at once; must be called on the event loop.

        `dropped` is called where more than `limit` wait and this one has to go.
        """
        if len(self.waiting) >= self.limit:
            self._drop_oldest()
        self.waiting.append(Waiting(job, dropped))
        self._pump()

    def _drop_oldest(self) -> None:
        oldest = self.waiting.popleft()
        if not self.counts["overflow"]:
            lessons_log.warning(
                "more than %d answers wait to be learned from, the oldest have to stand back: "
                "distilling is too slow",
                self.limit,
            )
        self.counts["overflow"] += 1
        if oldest.dropped is not None:
            oldest.dropped()

    def room(self) -> int:
        """Return how many jobs may be queued before the queue is half full."""
        return max(0, self.limit // 2 - len(self.waiting))

    def spawn(self, job: Job) -> None:
        """Run a job now, beside the queue: it takes no place of a queued one."""
        self._start(job, self.beside)

    async def settle(self, seconds: float) -> int:
        """Wait for what is queued; return how many jobs were unfinished after `seconds`."""
        deadline = asyncio.get_running_loop().time() + seconds
        while tasks := self.running | self.beside:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return len(tasks) + len(self.waiting)
            await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return 0

    def _pump(self) -> None:
        self._forget_dead_loops()
        while self.waiting and len(self.running) < self.parallel:
            self._start(self.waiting.popleft().job, self.running)

    def _start(self, job: Job, tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(job))
        tasks.add(task)
        task.add_done_callback(self._finished)

    async def _guarded(self, job: Job) -> None:
        try:
            await job()
        except asyncio.CancelledError:
            self.counts["cancelled"] += 1
            raise
        except Exception as error:  # a background job may never disturb the server
            self.counts["failed"] += 1
            self._warn_once(type(error).__name__)
            lessons_log.debug("background work failed", exc_info=True)

    def _warn_once(self, reason: str) -> None:
        if not self.counts[f"failed:{reason}"]:
            lessons_log.warning("background work failed: %s", reason)
        self.counts[f"failed:{reason}"] += 1

    def _finished(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        self.beside.discard(task)
        if not (task.get_loop().is_closed() or task.cancelled()):  # cancelled: the server ends
            self._pump()

    def _forget_dead_loops(self) -> None:
        self.running = {t for t in self.running if not t.get_loop().is_closed()}
        self.beside = {t for t in self.beside if not t.get_loop().is_closed()}


class Seen:
    """Remembers ids, the newest `limit` of them: one attempt per id."""

    def __init__(self, limit: int = SEEN_LIMIT) -> None:
        self.limit = limit
        self.ids: OrderedDict[str, None] = OrderedDict()

    def first(self, identity: str) -> bool:
        """Say whether the id is new, and remember it."""
        new = identity not in self.ids
        self.ids[identity] = None
        self.ids.move_to_end(identity)
        if len(self.ids) > self.limit:
            self.ids.popitem(last=False)
        return new


class DailyCaps:
    """Counts uses per day, in all and per user."""

    def __init__(self) -> None:
        self.day = ""
        self.total = 0
        self.users: Counter[str] = Counter()

    def take(self, user: str, cap: int, user_cap: int, day: str | None = None) -> bool:
        """Count one use and return True, unless one of the caps is reached."""
        today = day or datetime.datetime.now(datetime.UTC).date().isoformat()
        if today != self.day:
            self.day, self.total, self.users = today, 0, Counter()
        if self.total >= cap or self.users[user] >= user_cap:
            return False
        self.total += 1
        self.users[user] += 1
        return True


class Pause:
    """How long something that keeps failing is left alone: doubling, up to a limit."""

    def __init__(self, first: float = 5.0, longest: float = 15.0) -> None:
        self.first, self.longest = first, longest
        self.length, self.until = 0.0, 0.0

    def over(self) -> bool:
        """Say whether it may be tried again."""
        return time.monotonic() >= self.until

    def lengthen(self) -> None:
        """Begin the next pause, twice as long as the one before."""
        self.length = min(self.longest, 2 * self.length or self.first)
        self.until = time.monotonic() + self.length

    def end(self) -> None:
        """Note that it worked: the next pause is a short one again."""
        self.length, self.until = 0.0, 0.0


async def in_daemon_thread(work: Callable[[], Result]) -> Result:
    """Run blocking work in a thread that never holds up the server's exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        outcome: tuple[Result | None, BaseException | None]
        try:
            outcome = (work(), None)
        except Exception as error:
            outcome = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="lessons-loop", daemon=True).start()
    return await future


# ------------------------------------------------------------------------------
# filter/models.py: What the loop stores: lessons, candidates with their evidence, events.


TEXT_LIMIT = 400
TRIGGER_LIMIT = 160
TAG_LIMIT = 8
TAG_LENGTH = 40
QUOTE_MIN = 12
QUOTE_LIMIT = 400
EXCERPT_LIMIT = 1200
_LONE = re.compile("[\ud800-\udfff]")

Scalar = str | int | float | bool
Metadata = dict[str, Scalar | list[str]]


class Status(StrEnum):
    """Where a lesson stands in its life."""

    CANDIDATE = "candidate"
    CURATED = "curated"
    HELD = "held"
    REJECTED = "rejected"
    STALE = "stale"
    SUPERSEDED = "superseded"


class EvidenceKind(StrEnum):
    """What in the exchange proved the lesson; derived by code from the cited lines."""

    TOOL_SUCCESS = "tool-success"
    CHANGED_CALL = "changed-call"
    CONFIRMED_CORRECTION = "confirmed-correction"


class Record(NamedTuple):
    """One Chroma row without its vector."""

    id: str
    document: str
    metadata: Metadata


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("contains a NUL character")
    if _LONE.search(text):
        raise ValueError("contains half of a surrogate pair")
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return _storable(text)


def _single_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("has more than one line")
    return _filled(text)


STORABLE = AfterValidator(_storable)
FILLED = AfterValidator(_filled)
LINE = AfterValidator(_single_line)
"""These stand behind a length bound, so that the bound's message counts characters."""
DomainName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Tag = Annotated[str, Field(max_length=TAG_LENGTH), LINE]
Reference = Annotated[str, Field(max_length=128), LINE]
Note = Annotated[str, Field(max_length=200), STORABLE]
Moment = Annotated[str, Field(max_length=32), LINE]
"""ISO 8601, UTC."""
Count = Annotated[int, Field(ge=0, lt=2**53)]


class FrozenModel(BaseModel):
    """Base: frozen, no unknown fields, errors as one line of ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """Validate `fields`; raise InvalidLesson with one line naming each bad field."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise InvalidLesson(explain_invalid(error)) from None


def explain_invalid(error: ValidationError) -> str:
    """Say in one line which fields are wrong and why; values are not repeated."""
    parts = []
    for item in error.errors(include_input=False, include_url=False):
        where = ".".join(str(step) for step in item["loc"]) or "record"
        parts.append(f"{where}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(parts)


class Lesson(FrozenModel):
    """One short instruction a reader without context can follow."""

    domain: DomainName
    text: Annotated[str, Field(max_length=TEXT_LIMIT), LINE]
    kind: Kind
    trigger: Annotated[str, Field(max_length=TRIGGER_LIMIT), LINE]
    """The class of question it applies to."""
    tags: Annotated[tuple[Tag, ...], Field(max_length=TAG_LIMIT)] = ()
    status: Status = Status.CANDIDATE
    source: Annotated[str, Field(max_length=80), LINE] = "distill"
    """Producer label, such as `seed:sql`, `distill`, `taught`."""

    @property
    def key(self) -> str:
        """Identity outside staging: sha256 of normalised domain, kind and text."""
        return digest(normalise(self.domain), self.kind.value, normalise(self.text))

    @property
    def embedded_text(self) -> str:
        """What is embedded for recall: the trigger, then the text."""
        return f"{self.trigger}\n{self.text}"

    @property
    def searched_text(self) -> str:
        """The words it is found by: trigger, text and tags."""
        return "\n".join([self.trigger, self.text, *self.tags])


class Evidence(FrozenModel):
    """Why a candidate deserves belief, checkable again by the gate."""

    kind: EvidenceKind
    quote: Annotated[str, Field(min_length=QUOTE_MIN, max_length=QUOTE_LIMIT), FILLED]
    """Verbatim from the excerpt."""
    excerpt: Annotated[str, Field(max_length=EXCERPT_LIMIT), FILLED]
    """The cited transcript lines, masked."""
    tools: Annotated[tuple[Tag, ...], Field(max_length=16)] = ()


class Candidate(FrozenModel):
    """A proposed lesson: never shown to a chat model."""

    lesson: Lesson
    evidence: Evidence
    message_ref: Reference
    """Hash of the answer's message id; with the key it makes the id."""
    chat_ref: Note = ""
    user_ref: Note = ""
    """HMAC of the user id under the installation's salt."""
    model: Note = ""
    prompt: Note = ""
    """Version of the distill prompt."""
    seal: Note = ""
    """HMAC under the installation's salt: see `seal_of`."""
    at: Moment
    """When it was staged, ISO 8601, UTC."""

    @model_serializer(mode="wrap")
    def _as_schema_1_where_it_can(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_empty(whole(self), "seal")

    @property
    def id(self) -> str:
        """Key plus hash of the message: seeing a lesson again is another row."""
        return f"{self.lesson.key}-{digest(self.message_ref)[:16]}"

    def to_record(self) -> Record:
        """Return the Chroma row."""
        lesson, evidence = self.lesson, self.evidence
        own = self.model_dump(mode="json", exclude={"lesson", "evidence"})
        proof = {"quote": evidence.quote, "excerpt": evidence.excerpt}
        metadata = lesson_metadata(lesson) | own | proof | {"evidence_kind": evidence.kind.value}
        return Record(self.id, lesson.text, with_lists(metadata, tools=evidence.tools))

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of ours."""
        meta = dict(record.metadata)
        evidence = {
            "kind": meta.pop("evidence_kind", None),
            "quote": meta.pop("quote", None),
            "excerpt": meta.pop("excerpt", None),
            "tools": tuple(meta.pop("tools", ())),  # type: ignore[arg-type]
        }
        lesson = take_lesson(record.document, meta)
        found = cls.build(lesson=lesson, evidence=evidence, **meta)
        if found.id != record.id:
            raise InvalidLesson("id: does not belong to this content")
        return found


class Curated(FrozenModel):
    """A lesson the gate accepted, with its counters; public to everybody who can chat."""

    lesson: Lesson
    hits: Count = 0
    successes: Count = 0
    failures: Count = 0
    occurrences: Count = 0
    distinct_users: Count = 0
    last_used: Note = ""
    since: Moment
    """When it was promoted, ISO 8601, UTC."""
    supersedes: Note = ""
    seed_id: Note = ""
    ledger_ref: Count = 0
    """Number of the ledger line that took the lesson in."""
    verdict_ref: Count = 0
    """Number of the ledger line that decided on it."""
    rev: Count = 0
    proof: Annotated[str, Field(max_length=2000), STORABLE] = ""
    """What an evaluation measured about it, as JSON; written by the gate alone."""

    @model_serializer(mode="wrap")
    def _as_schema_1_where_it_can(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_empty(whole(self), "proof")

    @property
    def key(self) -> str:
        """The lesson's key, the row's id."""
        return self.lesson.key

    def to_record(self) -> Record:
        """Return the Chroma row."""
        own = self.model_dump(mode="json", exclude={"lesson"})
        return Record(self.key, self.lesson.text, lesson_metadata(self.lesson) | own)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of ours."""
        meta = dict(record.metadata)
        found = cls.build(lesson=take_lesson(record.document, meta), **meta)
        if found.key != record.id:
            raise InvalidLesson("id: does not belong to this content")
        return found


def without_empty(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Leave a field out that a later schema brought, where it says nothing: see `schema.py`."""
    if fields.get(name) == "":
        del fields[name]
    return fields


CURATED_FIELDS = frozenset((*Lesson.model_fields, *Curated.model_fields)) - {"lesson", "text"}
"""Names of a curated row's metadata."""


def lesson_metadata(lesson: Lesson) -> Metadata:
    """Return a lesson's payload as Chroma metadata; its text is the document."""
    plain = lesson.model_dump(mode="json", exclude={"text", "tags"})
    return with_lists(plain, tags=lesson.tags)


def take_lesson(document: str, meta: dict[str, Any]) -> Lesson:
    """Build the lesson from a row, removing its fields from `meta`."""
    fields = {
        name: meta.pop(name)
        for name in ("domain", "kind", "trigger", "status", "source")
        if name in meta
    }
    return Lesson.build(text=document, tags=tuple(meta.pop("tags", ())), **fields)


def with_lists(metadata: Metadata, **lists: tuple[str, ...]) -> Metadata:
    """Add list values, leaving out empty ones: Chroma refuses `[]`."""
    return metadata | {name: list(values) for name, values in lists.items() if values}


# ------------------------------------------------------------------------------
# filter/sensitive.py: The patterns of what is sensitive, one rule per kind; `redact.py` says what they cover.


class MaskRule(NamedTuple):
    """What one kind looks like; `accept` decides on the named group `value`, or the whole."""

    kind: str
    pattern: re.Pattern[str]
    personal: bool = False
    accept: Callable[[str], bool] | None = None


_SECRET_VALUE = r"""[^\s"'`,;&|<>(){}\[\]\\]"""
_SECRET_WORD = (
    r"(?:pass(?:word|wd|phrase|code)|(?<=[a-z0-9][_.-])pass|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key"
    r"|access[_-]?key|auth[_-]?key|private[_-]?key|client[_-]?secret|credentials?"
    r"|kennwort|passwort|contrase(?:ñ|n)a|senha|cl[ée]\s(?:secr[èe]te|priv[ée]e)"
    r"|clave\s(?:secreta|de\sacceso)|口令|mot[_ ]de[_ ]passe|пароль|密码|パスワード)"
)
_KEY_WORD = (
    r"(?:api|access|auth|secret|private|encryption|signing|shared|master|account|storage)"
    r"[ _-]?key(?:[_-]?id)?"
)
_WORD_TAIL = r"(?:[_-][a-z0-9]{1,12}|\d{1,3})?"
_ASSIGNED = r"(?:\\?[\"'])?\s{0,3}(?:=>|:=|={1,2}|[:：])\s{0,3}(?:\\?[\"'])?"
_NO_SECRET = re.compile(
    r"""^(?:\$.*|%.*%|<.*|\{.*|\*+|x{3,}|\.{2,}|…|none|null|nil|true|false|yes|no|undefined|empty
        |your[_-].*|my[_-]?(?:password|secret|token)|changeme|example|placeholder|redacted|hidden
        |(?:string|str|int|bool|required|optional|is|was|and|or|for|the|in|not|expired|invalid
        |missing|wrong|limit|limits|count|usage|authentication|auth|name|type|id|field|header)
        |os\.environ.*|env\..*|process\.env.*|getenv.*|secrets\..*|vault:.*|file:.*|/.*)$""",
    re.VERBOSE | re.IGNORECASE,
)
MASKED = re.compile(r"\[(?:secret|personal): [a-z -]{2,30}\]")


def _is_real_value(value: str) -> bool:
    bare = value.strip("\"'`")
    return len(bare) >= 4 and not _NO_SECRET.match(bare) and not bare.startswith("[secret")


def _is_dense(value: str) -> bool:
    """Say whether a bare word beside `token` looks like a secret, not like a word."""
    bare = value.strip("\"'`")
    kinds = sum(
        any(test(char) for char in bare) for test in (str.isdigit, str.isupper, str.islower)
    )
    odd = any(not char.isalnum() for char in bare.strip(".!?:"))
    return _is_real_value(value) and (kinds >= 2 and (odd or any(map(str.isdigit, bare))))


def _is_strong(value: str) -> bool:
    """Say whether a word looks like a password even where much stands between it and the word."""
    bare = value.strip("\"'`,;.!?)")
    upper, lower = any(map(str.isupper, bare)), any(map(str.islower, bare))
    return _is_dense(value) and len(bare) >= 8 and upper and lower and any(map(str.isdigit, bare))


def _passes_luhn(value: str) -> bool:
    digits = [int(char) for char in value if char.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6):
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(value: str) -> bool:
    compact = "".join(value.split()).upper()
    if not 15 <= len(compact) <= 34:
        return False
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _is_personal_address(value: str) -> bool:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    harmless = address.is_loopback or address.is_unspecified or address.is_multicast
    mask = str(address).startswith("255.")
    return not (harmless or mask or any(address in net for net in _DOCUMENTATION_NETS))


_DOCUMENTATION_NETS = (
    ipaddress.ip_network("192.0.2.0/24"),
    ipaddress.ip_network("198.51.100.0/24"),
    ipaddress.ip_network("203.0.113.0/24"),
    ipaddress.ip_network("2001:db8::/32"),
)


def _is_email(value: str) -> bool:
    return not value.lower().startswith(("git@", "postgres@", "root@"))


_PROVIDER_KEYS = (
    r"sk-(?:ant-|proj-|svcacct-|or-)?[A-Za-z0-9_-]{12,250}|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,250}"
    r"|whsec_[A-Za-z0-9+/=]{16,100}|gh[pousr]_[A-Za-z0-9]{10,250}|github_pat_[A-Za-z0-9_]{20,250}"
    r"|xox[abeprs]-[A-Za-z0-9-]{8,250}|xapp-[A-Za-z0-9-]{10,250}|A(?:KIA|SIA)[A-Z0-9]{12,20}"
    r"|AIza[A-Za-z0-9_-]{20,60}|ya29\.[A-Za-z0-9_-]{20,250}|gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{10,250}"
    r"|hf_[A-Za-z0-9]{16,60}|gsk_[A-Za-z0-9]{20,100}|npm_[A-Za-z0-9]{20,60}|pypi-[A-Za-z0-9_-]{16,250}"
    r"|dop_v1_[a-f0-9]{32,80}|SG\.[A-Za-z0-9_-]{10,80}\.[A-Za-z0-9_-]{10,80}|dapi[a-f0-9]{30,40}"
    r"|shpat_[A-Fa-f0-9]{24,40}|sq0[a-z]{3}-[A-Za-z0-9_-]{20,60}|AC[a-f0-9]{32}|key-[a-f0-9]{32}"
    r"|ATATT[A-Za-z0-9_=-]{20,250}|lin_api_[A-Za-z0-9]{20,60}|nvapi-[A-Za-z0-9_-]{20,100}"
    r"|hvs\.[A-Za-z0-9_-]{20,120}|glsa_[A-Za-z0-9_]{20,60}|dckr_pat_[A-Za-z0-9_-]{10,60}"
)
MASK_RULES = (
    MaskRule(
        "private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{1,40}-----(?:[A-Za-z0-9+/=\s:,.\\]|-(?!----)){0,20000}"
            r"(?:-----END [A-Z0-9 ]{1,40}-----)?"
        ),
    ),
    MaskRule(
        "token",
        re.compile(
            r"\beyJ[A-Za-z0-9_-]{5,4000}\.[A-Za-z0-9_-]{3,8000}(?:\.[A-Za-z0-9_-]{0,2000})?"
        ),
    ),
    MaskRule("api key", re.compile(rf"(?<![A-Za-z0-9_])(?:{_PROVIDER_KEYS})")),
    MaskRule(
        "authorization",
        re.compile(
            r"(?i)(?<![A-Za-z])(?:bearer|basic|digest|negotiate)\s{1,3}(?P<value>[A-Za-z0-9._~+/=-]{8,4000})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "authorization",
        re.compile(
            r"(?i)(?<![A-Za-z])(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
            r"(?:(?:bearer|basic|token|digest)\s{1,3})?(?!(?:bearer|basic|token|digest)\b)(?P<value>[A-Za-z0-9._~+/=-]{6,4000})"
        ),
        accept=_is_real_value,
    ),
    MaskRule(
        "password",
        re.compile(r"(?<=://)[^\s/:@\"'<>]{0,80}:(?P<value>[^\s/@\"'<>]{1,200})@"),
        accept=lambda value: not _NO_SECRET.match(value) and not value.startswith("["),
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z])(?:[a-z0-9]{{1,30}}[_.-]){{0,4}}{_SECRET_WORD}{_WORD_TAIL}"
            rf"{_ASSIGNED}(?P<value>{_SECRET_VALUE}{{4,500}})"
        ),
        accept=_is_real_value,
    ),
    MaskRule(
        "token",
        re.compile(
            rf"(?i)(?:token|secret|credential|password|pass(?==)|{_KEY_WORD}){_WORD_TAIL}"
            rf"{_ASSIGNED}(?P<value>{_SECRET_VALUE}{{8,500}})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![\w-])--[a-z-]{{0,40}}(?:token|{_SECRET_WORD})[=\s]\s{{0,3}}[\"']?"
            rf"(?P<value>{_SECRET_VALUE}{{4,500}})"
        ),
        accept=_is_real_value,
    ),
    MaskRule(
        "password",
        re.compile(
            r"\b(?:docker login|mysql|mysqldump|mongo\w{0,4}|sshpass|redis-cli|curl)\b"
            r"[^\n|;&]{0,300}?\s"
            rf"(?:-p|-a|-u\s{{1,3}}[^\s:]{{1,60}}:)\s{{0,2}}[\"']?(?P<value>{_SECRET_VALUE}{{4,300}})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z])(?:token|pin|{_SECRET_WORD})\s{{1,3}}"
            r"(?:(?:is|was|ist|lautet|est|es|é)\s{1,3})?[\"'`]?(?P<value>[^\s\"'`]{6,300})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "password",
        re.compile(
            rf"(?i)(?<![A-Za-z]){_SECRET_WORD}\s(?:[^\s.:;]{{1,24}}\s){{0,5}}"
            r"(?:is|was|to|as|ist|lautet|est|es|é)\s{1,3}[\"'`]?(?P<value>[^\s\"'`]{8,300})"
        ),
        accept=_is_strong,
    ),
    MaskRule(
        "password",
        re.compile(
            r"(?i)\b(?:user(?:name)?|login|account)\s\S{1,60}\s(?:and|with|und|mit|et|y)\s"
            r"(?:pass|pw)\s(?P<value>[^\s\"'`]{8,200})"
        ),
        accept=_is_strong,
    ),
    MaskRule(
        "licence key",
        re.compile(
            r"\b(?=[A-Z0-9-]{0,47}\d)(?=[A-Z0-9-]{0,47}[A-Z])(?:[A-Z0-9]{4,6}-){3,7}[A-Z0-9]{4,6}\b"
        ),
    ),
    MaskRule(
        "cookie",
        re.compile(
            r"(?i)(?<![a-z])cookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<value>[^\s=]{1,80}=[^\n\"']{6,4000})"
        ),
    ),
    MaskRule(
        "token",
        re.compile(
            r"(?i)[?&;](?:x-amz-)?(?:sig|signature|token|code|key|auth|password|pwd|credential)="
            r"(?P<value>[^\s&\"'<>#;]{8,2000})"
        ),
        accept=_is_dense,
    ),
    MaskRule(
        "webhook",
        re.compile(
            r"(?i)(?<=://)(?:hooks\.slack\.com/(?:services|workflows)|(?:[a-z]+\.)?discord(?:app)?\.com/api/webhooks"
            r"|[a-z0-9-]{1,63}\.webhook\.office\.com/webhookb2)/(?P<value>[^\s\"'<>]{10,400})"
        ),
    ),
    *(MaskRule("name", form, True, is_person) for form in PERSON_FORMS),
    MaskRule(
        "email",
        re.compile(
            r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,5}\.[A-Za-z]{2,24}\b"
        ),
        True,
        _is_email,
    ),
    MaskRule(
        "iban",
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        True,
        _is_iban,
    ),
    MaskRule(
        "card number",
        re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"),
        True,
        _passes_luhn,
    ),
    MaskRule(
        "social security number",
        re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"),
        True,
    ),
    MaskRule(
        "phone",
        re.compile(r"(?<![\w+])\+\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6}(?!\w)"),
        True,
        lambda value: 8 <= sum(map(str.isdigit, value)) <= 15,
    ),
    MaskRule(
        "phone",
        re.compile(
            r"(?i)\b(?:phone|tel(?:efon)?|mobile?|handy|fax|call me (?:at|on)|t[ée]l[ée]phone"
            r"|tel[ée]fono|电话|電話)"
            r"[.:\s]{1,4}(?P<value>\(?\d{2,5}\)?(?:[ ./-]?\d{2,5}){1,5})(?!\w)"
        ),
        True,
        lambda value: 7 <= sum(map(str.isdigit, value)) <= 15,
    ),
    MaskRule(
        "phone",
        re.compile(
            r"(?<![\w(])\(\d{3}\) ?\d{3}-\d{4}(?!\w)|(?<![\w.-])01[567]\d[ /-]\d{6,9}(?![\w-])"
        ),
        True,
    ),
    MaskRule(
        "ip address",
        re.compile(r"(?<![\w.:/-])(?<!ersion )(?:\d{1,3}\.){3}\d{1,3}(?![\w/-]|\.\d)"),
        True,
        _is_personal_address,
    ),
    MaskRule(
        "ip address",
        re.compile(
            r"(?<![\w.:])(?=[0-9A-Fa-f:]{0,38}::?[0-9A-Fa-f])[0-9A-Fa-f]{1,4}(?::{1,2}[0-9A-Fa-f]{1,4}){3,7}(?![\w:/])"
        ),
        True,
        _is_personal_address,
    ),
)


# ------------------------------------------------------------------------------
# filter/events.py: What is appended about an answer that was given lessons: that it was, and what users thought.


RATING_REASONS = frozenset(
    (
        *("accurate_information", "followed_instructions_perfectly", "showcased_creativity"),
        *("positive_attitude", "attention_to_detail", "thorough_explanation"),
        *("dont_like_the_style", "too_verbose", "not_helpful", "not_factually_correct"),
        *("didnt_fully_follow_instructions", "refused_when_it_shouldnt_have", "being_lazy"),
        "other",
    )
)
"""The words Open WebUI's reason form sends; any other is a text of somebody's and is not kept."""
COUNTS_LIMIT = 200
USAGE_SHARE = "LESSONS_USAGE_SHARE"
"""Percent of the answers whose use and thumbs are noted; unset: all."""
EventKeys = Annotated[tuple[Annotated[str, Field(max_length=80), LINE], ...], Field(max_length=64)]
_COUNT_LINE = re.compile(r"^[a-z0-9][a-z0-9:_. -]{0,59}=[0-9]{1,15}\Z")
CountLine = Annotated[str, Field(pattern=_COUNT_LINE)]


class EventRecord(FrozenModel):
    """What all events hold; `kind` is the row's type and its document."""

    kind: ClassVar[str]
    lists: ClassVar[tuple[str, ...]] = ("keys",)

    message_ref: Reference
    """Hash of the answer's message id."""
    user_ref: Note = ""
    """HMAC of the user's id: who asked, of a rating who rated."""
    chat_ref: Note = ""
    at: Moment

    @property
    def id(self) -> str:
        """One per answer and user, so that a repeat changes nothing."""
        return digest(self.kind, self.message_ref, self.user_ref)

    def to_record(self) -> Record:
        """Return the Chroma row; the document only names the type."""
        own = self.model_dump(mode="json", exclude=set(self.lists)) | {"type": self.kind}
        return Record(
            self.id, self.kind, with_lists(own, **{n: getattr(self, n) for n in self.lists})
        )

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Read a row back; raise InvalidLesson when it is none of this type."""
        meta: dict[str, Any] = dict(record.metadata)
        if meta.pop("type", None) != cls.kind:
            raise InvalidLesson(f"type: is not {cls.kind!r}")
        for name in cls.lists:
            found = meta.get(name, ())
            meta[name] = tuple(found) if isinstance(found, list | tuple) else found
        return cls.build(**meta)


class Usage(EventRecord):
    """Which lessons a chat model was shown, and how the answer ended."""

    kind: ClassVar[str] = "used"

    keys: EventKeys
    model: Note = ""
    """Id of the chat model."""
    outcome: Note = ""
    """The answer's finish reason."""
    tools: Literal["", "ok", "failed"] = ""
    """How the answer's tool calls ended; empty where none ran."""


class Rating(EventRecord):
    """A user's thumb on an answer; each change of mind is a row, the newest `at` counts."""

    kind: ClassVar[str] = "rating"

    keys: EventKeys = ()
    """References, as the block shows them, that the comment named; never the comment itself."""
    outcome: Literal["up", "down", "none"]
    """`none`: the thumb was taken back."""
    reason: Annotated[str, Field(pattern=r"^[a-z_]{0,40}$")] = ""
    """Open WebUI's word for why, one of RATING_REASONS, else empty."""

    @property
    def id(self) -> str:
        """One per change of a rating."""
        return digest(self.kind, self.message_ref, self.user_ref, self.at, self.outcome)


class Tally(EventRecord):
    """What one process counted since its last tally; the gate adds it up and deletes the row."""

    kind: ClassVar[str] = "tally"
    lists: ClassVar[tuple[str, ...]] = ("counts",)

    counts: Annotated[tuple[CountLine, ...], Field(max_length=COUNTS_LIMIT)]
    """`name=number`, sorted."""

    def totals(self) -> dict[str, int]:
        """Return the numbers by name."""
        pairs = (line.rpartition("=") for line in self.counts)
        return {name: int(number) for name, _, number in pairs}


def tally_of(name: str, counts: Mapping[str, int], at: str) -> Tally:
    """Return a tally of a name no other has; counters with an unfit name are left out."""
    pairs = [f"{counter}={number}" for counter, number in sorted(counts.items()) if number > 0]
    lines = [line for line in pairs if _COUNT_LINE.match(line)]
    return Tally(message_ref=digest(name, at), at=at, counts=tuple(lines[:COUNTS_LIMIT]))


def is_counted(message_ref: str, share: str) -> bool:
    """Say whether an answer is one of the share, in percent: the same ones in every process."""
    return zlib.crc32(message_ref.encode()) % 10_000 < 100 * usage_share(share)


@functools.cache
def usage_share(given: str) -> float:
    """Return a share in percent; what is none counts all answers and is told once."""
    try:
        share = float(given.strip().removesuffix("%") or 100)
    except ValueError:
        share = -1.0
    if 0 <= share <= 100:
        return share
    lessons_log.warning("%s: %.40r is no percentage, all answers are counted", USAGE_SHARE, given)
    return 100.0


# ------------------------------------------------------------------------------
# filter/valves.py: Valves that never raise: whatever the settings page can store gives usable values.


valve_log = logging.getLogger("lessons_loop")
_PASSWORD: dict[str, JsonValue] = {"input": {"type": "password"}}
_warned_valves: set[tuple[str, str]] = set()


def usable(model: type[BaseModel], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored values a model accepts; the rest is left to its defaults."""
    kept: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        value, annotation = stored.get(name), cast(Any, field.annotation)
        if value is None or (value == "" and field.annotation is not str):
            continue
        try:
            kept[name] = in_range(name, adapter_of(annotation).validate_python(value))
        except (ValidationError, ValueError, OverflowError):
            warn_valve(name, value, field.default, secret=bool(field.json_schema_extra))
    return kept


@functools.cache
def adapter_of(annotation: Any) -> TypeAdapter[Any]:
    """Return the validator of a type; building one costs more than using it a hundred times."""
    return TypeAdapter(annotation)


def in_range(name: str, value: object) -> object:
    """Return the value; raise ValueError for a negative or absurd number."""
    if name != "priority" and isinstance(value, int | float) and not 0 <= value <= 10**9:
        raise ValueError
    return value


def warn_valve(name: str, value: object, default: object, *, secret: bool) -> None:
    """Log once per field and value that the default is used instead."""
    shown = "(hidden)" if secret else repr(value)[:40]
    if (name, shown) not in _warned_valves and len(_warned_valves) < 200:
        _warned_valves.add((name, shown))
        valve_log.warning("valve %s: %s is unusable, using %r", name, shown, default)


class LenientModel(BaseModel):
    """Base of both valve classes; unknown stored keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _lenient(cls, stored: Any) -> Any:
        return usable(cls, stored) if isinstance(stored, Mapping) else {}


class LessonsValves(LenientModel):
    """Settings of the administrator."""

    priority: int = Field(default=0, description="Lower numbers run first among filters.")
    domains: str = Field(
        default="sql,openwebui",
        description="Comma list of domains: recall reads all of them, new lessons go to the first.",
    )
    store: str = Field(
        default="",
        description="Lesson store, a folder or http(s)://host:port; "
        "empty: LESSONS_STORE, else DATA_DIR/lessons.",
    )
    chroma_token: str = Field(
        default="",
        description="Token for a lesson store on a server, stored unencrypted; "
        "empty: LESSONS_CHROMA_TOKEN.",
        repr=False,
        json_schema_extra=_PASSWORD,
    )
    recall_enabled: bool = Field(default=True, description="Add fitting lessons to questions.")
    top_k: int = Field(default=5, description="Most lessons per question; 0 switches recall off.")
    token_budget: int = Field(
        default=512, description="Most tokens of lessons per question; 0 switches recall off."
    )
    min_similarity: str = Field(
        default="",
        description="Relevance floor from 0 to 1, higher is stricter; empty: calibrated.",
    )
    rerank: bool = Field(
        default=False,
        description="Let the reranking model of this Open WebUI order and cut the fitting lessons.",
    )
    recall_timeout_ms: int = Field(
        default=1500,
        title="Recall Timeout (ms)",
        description="Milliseconds recall may take before the chat goes on without.",
    )
    show_lessons: bool = Field(
        default=True, description="Show users a status line and the lessons used as sources."
    )
    distill_enabled: bool = Field(
        default=False, description="Learn lesson candidates from finished chats."
    )
    distill_min_reply_chars: int = Field(
        default=200, description="Answers shorter than this many characters are not learned from."
    )
    distill_model: str = Field(
        default="", description="Model id for distilling; empty: the task model, else the chat's."
    )
    distill_url: str = Field(
        default="",
        title="Distill URL",
        description="OpenAI-compatible base URL for distilling; empty: a model of this Open WebUI.",
    )
    distill_api_key: str = Field(
        default="",
        title="Distill API Key",
        description="Key for distill_url, stored unencrypted; empty: LESSONS_LLM_API_KEY.",
        repr=False,
        json_schema_extra=_PASSWORD,
    )
    distill_timeout_s: int = Field(
        default=60,
        title="Distill Timeout (s)",
        description="Seconds one distillation may take before it is given up.",
    )
    distill_max_lessons: int = Field(
        default=3, description="Most candidates from one exchange; 0 switches distilling off."
    )
    distill_daily_cap: int = Field(
        default=500,
        description="Most distillations per day and machine; 0 switches distilling off.",
    )
    distill_user_daily_cap: int = Field(
        default=50, description="Most distillations per day and user; 0 switches distilling off."
    )
    distill_api_chats: bool = Field(
        default=False,
        title="Distill API Chats",
        description="Learn from plain API chats too, not only from saved chats.",
    )
    debug: bool = Field(default=False, description="Log each decision, never any chat text.")

    def domain_names(self) -> tuple[str, ...]:
        """Return the usable domain names in order, each once."""
        names = [name.strip().lower() for name in self.domains.split(",")]
        adapter = adapter_of(DomainName)
        good = []
        for name in dict.fromkeys(filter(None, names)):
            try:
                good.append(adapter.validate_python(name))
            except ValidationError:
                warn_valve("domains", name, "the others", secret=False)
        return tuple(good)

    def floor(self) -> float | None:
        """Return the floor the admin set, None for the calibrated one."""
        if not self.min_similarity.strip():
            return None
        try:
            value = float(self.min_similarity)
        except ValueError:
            value = -1.0
        if 0.0 <= value <= 1.0:
            return value
        warn_valve("min_similarity", self.min_similarity, "calibrated", secret=False)
        return None


class LessonsUserValves(LenientModel):
    """Settings each user makes for himself."""

    use_lessons: bool = Field(default=True, description="Use lessons in my chats.")
    contribute: bool = Field(default=True, description="Let lessons be learned from my chats.")
    show_lessons: bool = Field(default=True, description="Show me which lessons were used.")


# ------------------------------------------------------------------------------
# filter/redact.py: Find and mask secrets and personal data, before text leaves the process or is stored.


class Finding(NamedTuple):
    """One sensitive stretch: `kind` for people, offsets into the text."""

    kind: str
    start: int
    end: int
    personal: bool = False


def find_sensitive(text: str) -> tuple[Finding, ...]:
    """Return what must not leave, in order; masks are no findings, earlier rules come first."""
    taken = sorted(found.span() for found in MASKED.finditer(text))
    findings = []
    for rule in MASK_RULES:
        for found in _apply_rule(rule, text):
            if _is_free(taken, found.start, found.end):
                insort(taken, (found.start, found.end))
                findings.append(found)
    return tuple(sorted(findings, key=lambda found: found.start))


def mask(text: str) -> str:
    """Return `text` with every finding replaced by its kind; masking twice changes nothing."""
    return mask_found(text, find_sensitive(text))


def mask_found(text: str, findings: Sequence[Finding]) -> str:
    """Return `text` with these findings, in order, replaced by their kinds."""
    pieces, position = [], 0
    for found in findings:
        label = "personal" if found.personal else "secret"
        pieces += [text[position : found.start], f"[{label}: {found.kind}]"]
        position = found.end
    return "".join((*pieces, text[position:]))


def _apply_rule(rule: MaskRule, text: str) -> Iterator[Finding]:
    group = "value" if "value" in rule.pattern.groupindex else 0
    for match in rule.pattern.finditer(text):
        if rule.accept is None or rule.accept(match.group(group)):
            yield Finding(rule.kind, match.start(group), match.end(group), rule.personal)


def _is_free(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    """Say whether a stretch touches none of the sorted, disjoint `taken` ones."""
    place = bisect_left(taken, (start, end))
    before = place == 0 or taken[place - 1][1] <= start
    return before and (place == len(taken) or end <= taken[place][0])


# ------------------------------------------------------------------------------
# filter/rating.py: Read a feedback row of Open WebUI: whose thumb, on which answer, up or down, and why.


KEYS_LIMIT = 64
"""Most lessons of one question."""
COMMENT_LIMIT = 10_000
"""Characters of a comment that are looked at."""
_REFERENCE = re.compile(r"(?<![\w-])([0-9a-f]{8})(?:[0-9a-f]{56})?(?![\w-])", re.IGNORECASE)
_THUMBS: dict[str, Literal["up", "down"]] = {"1": "up", "-1": "down"}


class Thumb(NamedTuple):
    """What one feedback row says; the identities are Open WebUI's own."""

    user: str
    """Who rated."""
    chat: str
    message: str
    outcome: Literal["up", "down", "none"]
    reason: str
    references: tuple[str, ...]


def read_thumb(row: Mapping[str, Any]) -> Thumb | None:
    """Return what a feedback row says, None for one that rates no message."""
    detail, meta = mapping_of(row.get("data")), mapping_of(row.get("meta"))
    user, message = row.get("user_id"), meta.get("message_id")
    if row.get("type") != "rating" or not all(isinstance(x, str) and x for x in (user, message)):
        return None
    reason = detail.get("reason")
    return Thumb(
        user=str(user),
        chat=str(meta.get("chat_id") or ""),
        message=str(message),
        outcome=_THUMBS.get(str(detail.get("rating")), "none"),
        reason=reason if isinstance(reason, str) and reason in RATING_REASONS else "",
        references=named_references(detail.get("comment")),
    )


def named_references(comment: object) -> tuple[str, ...]:
    """Return the lesson references a comment names, as the block prints them, each once."""
    if not isinstance(comment, str):
        return ()
    found = (name.lower() for name in _REFERENCE.findall(comment[:COMMENT_LIMIT]))
    return tuple(dict.fromkeys(found))[:KEYS_LIMIT]


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return the value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


# ------------------------------------------------------------------------------
# filter/store.py: The chat side's store: read published lessons, append to staging; no other verb exists.


POLL_SECONDS = 0.05
PRIVATE = 0o700
"""Of folders with candidates: Chroma's index files carry leftovers of the process's memory."""
APPEND_BATCH = 50
STAGING_VECTOR = [1.0]


@dataclass(frozen=True)
class StorePaths:
    """Where everything lies inside one store folder."""

    root: Path

    @property
    def staging(self) -> Path:
        """Chroma folder of candidates and events."""
        return self.root / "staging"

    @property
    def staging_lock(self) -> Path:
        """Held during every session on `staging`."""
        return self.root / "staging.lock"

    @property
    def staging_marker(self) -> Path:
        """Exists only while a session is open; left behind by a crash inside one."""
        return self.root / "staging.open"

    @property
    def gate(self) -> Path:
        """Chroma folder of curated and archive; only the gate opens it."""
        return self.root / "gate"

    @property
    def gate_lock(self) -> Path:
        """Held by a gate for its whole run."""
        return self.root / "gate.lock"

    @property
    def spool(self) -> Path:
        """Records waiting for staging."""
        return self.root / "spool"

    @property
    def ratings(self) -> Path:
        """What the rating plugin has noted of each thumb."""
        return self.root / "ratings.sqlite"

    @property
    def salt(self) -> Path:
        """Key for user references, readable by the owner only."""
        return self.root / "salt"

    @property
    def state(self) -> Path:
        """Default state directory of the gate."""
        return self.root / "state"

    def published(self, domain: str) -> Path:
        """Return the published file of one domain."""
        return self.root / "published" / f"{domain}.lessons"


def collection_names(domain: str) -> dict[str, str]:
    """Return the four data sets' collection names of a domain."""
    base = f"{domain}-lessons"
    return {
        "curated": base,
        "candidates": f"{base}-candidates",
        "events": f"{base}-events",
        "archive": f"{base}-archive",
    }


def ensure_salt(paths: StorePaths) -> bytes:
    """Return the salt (`LESSONS_SALT`, else the file), made by whoever comes first."""
    if value := os.environ.get("LESSONS_SALT", "").strip():
        return value.encode()
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        if not paths.salt.exists():
            _make_salt(paths.salt)
    except FileExistsError:
        pass  # another process came first, or the folder's place is taken: the read tells
    except OSError as error:
        raise StoreError(f"{paths.salt} cannot be made: {error.strerror}") from None
    return _read_salt(paths.salt)


def _make_salt(path: Path) -> None:
    """Write a new salt whole or not at all: an empty one left by a full disk would stay."""
    draft = path.with_name(f".salt.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename it never replaces another process's salt
    finally:
        draft.unlink(missing_ok=True)


def _read_salt(path: Path) -> bytes:
    for _ in range(40):  # the other process may be between create and write
        try:
            value = path.read_bytes().strip()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from None
        if value:
            return value
        time.sleep(POLL_SECONDS)
    raise StoreDamaged(f"{path} is empty: restore it from a backup, or delete it to start anew")


@contextmanager
def file_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock on `path`; raise StoreLocked after `seconds` of polling."""
    deadline = time.monotonic() + seconds
    with opened_lock(path) as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreLocked(f"{path} is held by another process") from None
                time.sleep(POLL_SECONDS)
        yield


def opened_lock(path: Path) -> IO[str]:
    """Open a lock file, made where missing; raise StoreError where that is not allowed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None


@contextmanager
def staging_session(paths: StorePaths, seconds: float = 5.0) -> Iterator[ClientAPI]:
    """Open staging for one small batch under its lock, then close it.

    Raises StoreLocked when the lock or Chroma's own database stays taken, and
    StoreDamaged when an earlier session ended in a crash: opening such a folder
    again may kill the process, so only the gate's repair may.
    """
    with file_lock(paths.staging_lock, seconds):
        if paths.staging_marker.exists():
            raise StoreDamaged(
                f"{paths.staging} was open when a process died: run `lessons repair`"
            )
        refuse_locked_database(paths.staging / "chroma.sqlite3")
        with crash_marker(paths.staging_marker):
            client = open_embedded(paths.staging)
            try:
                yield client
            finally:
                client.close()  # type: ignore[attr-defined]  # drops the index and the files


@contextmanager
def crash_marker(path: Path) -> Iterator[None]:
    """Keep `path` in existence for the block; a Python error removes it, a crash does not."""
    try:
        path.write_text(json.dumps({"pid": os.getpid(), "since": time.time()}))
    except OSError as error:
        path.unlink(missing_ok=True)  # made but not filled on a full disk: no crash happened
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def refuse_locked_database(database: Path, seconds: float = 0.0) -> None:
    """Raise StoreLocked when somebody holds Chroma's database for longer than `seconds`.

    Chroma would wait for it with the interpreter lock held, freezing every chat
    (measured: 6 s for a 6 s lock). Safe only while this process has no client on
    the folder: closing a second handle drops POSIX locks of the first.
    """
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(database, seconds, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreLocked(f"{database} is locked by another program") from None
        raise StoreError(f"{database} cannot be written: {error}") from None
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"{database} is no database: {error}; run `lessons repair`") from None


def import_chromadb() -> None:
    """Load chromadb, which takes a second; raise StoreError when that cannot be done."""
    try:
        import chromadb  # noqa: F401
    except ImportError:
        raise StoreError("chromadb is not installed: the lesson store needs it") from None
    except ValueError as error:  # it reads `.env` of the current folder while being imported
        raise StoreError(f"chromadb cannot be loaded: {first_line(error)}") from None


def open_embedded(folder: Path) -> ClientAPI:
    """Return an embedded Chroma client; raise StoreError with one line."""
    import_chromadb()
    import chromadb
    from chromadb.config import Settings

    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        return chromadb.PersistentClient(
            path=str(folder), settings=Settings(anonymized_telemetry=False)
        )
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # chromadb's Rust core panics with a BaseException
        raise StoreError(f"{folder} cannot be opened: {first_line(error)}") from None


def first_line(error: BaseException, most: int = 200) -> str:
    """Return an error's first line, for a message of ours."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:most]


class CandidateAppender(Protocol):
    """May add candidates, and nothing else."""

    def append_candidates(self, candidates: Sequence[Candidate]) -> None:
        """Keep the candidates durably; raise StoreError when not even that works."""


class EventAppender(Protocol):
    """May add events, and nothing else."""

    def append_usage(self, domain: str, usage: Usage) -> None:
        """Keep the event durably; raise StoreError when not even that works."""


def append_records(client: Any, name: str, records: Sequence[Record]) -> None:
    """Add rows to a staging collection and read their ids back; raise StoreError."""
    ids = [record.id for record in records]
    try:
        collection = staging_collection(client, name)
        collection.add(
            ids=ids,
            documents=[record.document for record in records],
            metadatas=[dict(record.metadata) for record in records],
            embeddings=[STAGING_VECTOR] * len(ids),
        )
        found = set(collection.get(ids=ids, include=[])["ids"])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # chromadb's Rust core panics with a BaseException
        raise StoreError(f"{name} was not written: {first_line(error)}") from None
    if missing := set(ids) - found:
        raise StoreError(f"{name}: {len(missing)} of {len(ids)} rows were not stored")


# ------------------------------------------------------------------------------
# filter/register.py: Small SQLite registers beside the spool, shared by all workers of a machine.


REGISTER_BUSY_SECONDS = 5.0


@contextmanager
def writing_register(path: Path, tables: str, hint: str) -> Iterator[sqlite3.Connection]:
    """Hold a register alone, made where it is missing; a block that raises changes nothing.

    `hint` is added where the file is damaged. Raises StoreError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        opened = sqlite3.connect(path, timeout=REGISTER_BUSY_SECONDS, isolation_level=None)
        with closing(opened) as found:
            found.execute("begin immediate")
            for table in filter(None, map(str.strip, tables.split(";"))):
                found.execute(table)
            yield found
            found.execute("commit")
    except (sqlite3.Error, OSError) as error:
        damaged = type(error) is sqlite3.DatabaseError  # locked or full is a subclass
        raise StoreError(
            f"{path} cannot be used: {first_line(error)}{f'; {hint}' if damaged else ''}"
        ) from None


# ------------------------------------------------------------------------------
# filter/server.py: A lesson store on a Chroma server: its address, and a client whose every call ends.


DEFAULT_TENANT = "default_tenant"
SERVER_SECONDS = 5.0
ANSWER_LIMIT = 256 * 2**20
"""Bytes of one answer; a page of 2,000 rows with 3,072 numbers each has 75 MB."""
_WEB = re.compile(r"\s*https?:", re.IGNORECASE)
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{2,127}")
_HOST = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_.~-]+)*")
_PORTS = {"http": 80, "https": 443}
_GIVE = "give a folder or http(s)://host[:port][/prefix][?tenant=NAME]"


@dataclass(frozen=True)
class ServerAddress:
    """Where a store's server is; holds no secret."""

    host: str
    port: int
    ssl: bool = False
    prefix: str = ""
    tenant: str = DEFAULT_TENANT

    @property
    def base(self) -> str:
        """Return the address Chroma's own paths are appended to."""
        scheme = "https" if self.ssl else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[scheme] else f":{self.port}"
        return f"{scheme}://{host}{port}{self.prefix}"

    @property
    def url(self) -> str:
        """Return the store setting that means this address; safe to print."""
        query = "" if self.tenant == DEFAULT_TENANT else f"?{urlencode({'tenant': self.tenant})}"
        return f"{self.base}{query}"


def is_server(setting: str) -> bool:
    """Say whether a store setting means a server, a mistyped one too; any other is a folder."""
    return "://" in setting or _WEB.match(setting) is not None


def parse_server(setting: str) -> ServerAddress:
    """Return the address of a store setting; raise StoreError naming what is wrong."""
    cleaned = setting.strip()
    if "@" in cleaned:  # wherever it stands: a password may hold `/`, `?` and `#`
        raise StoreError(
            "the store's address has a user or password: give the token as `chroma_token` "
            f"(LESSONS_CHROMA_TOKEN), and {_GIVE.removeprefix('give ')}"
        )
    shown = f"the store {public_url(cleaned)[:80]!r}"
    try:
        parts = urlsplit(cleaned)
        host, port = parts.hostname or "", parts.port
        pairs = parse_qsl(parts.query, True, strict_parsing=True) if parts.query else []
    except ValueError:
        raise StoreError(f"{shown} is no usable address: {_GIVE}") from None
    prefix = unquote(parts.path).rstrip("/")
    good = parts.scheme in _PORTS and _HOST.fullmatch(host) and _PREFIX.fullmatch(prefix)
    if not good or port == 0 or ".." in prefix or not cleaned.isprintable():
        raise StoreError(f"{shown} is no usable address: {_GIVE}")
    tenant = dict(pairs).get("tenant", DEFAULT_TENANT)
    if [name for name, _ in pairs] not in ([], ["tenant"]) or parts.fragment:
        raise StoreError(f"{shown} has more behind it than ?tenant=NAME: {_GIVE}")
    if not _TENANT.fullmatch(tenant):
        raise StoreError(
            f"{shown} has no usable tenant (3 to 128 of A-Z, a-z, 0-9, . _ -): {_GIVE}"
        )
    return ServerAddress(
        host, port or _PORTS[parts.scheme], parts.scheme == "https", prefix, tenant
    )


def server_token(given: str = "") -> str:
    """Return the token for a store's server: the given one, else LESSONS_CHROMA_TOKEN."""
    token = given.strip() or os.environ.get("LESSONS_CHROMA_TOKEN", "").strip()
    if not all("!" <= character <= "~" for character in token):
        raise StoreError("the lesson store's token has characters no header can carry")
    return token


def open_server(
    address: ServerAddress,
    database: str,
    *,
    token: str = "",
    seconds: float = SERVER_SECONDS,
    answer_limit: int = ANSWER_LIMIT,
) -> ClientAPI:
    """Return a client of one database whose every call ends; close it after use.

    `seconds` limits each step of a call: connecting, sending, the first byte, the whole rest.
    Raises StoreUnreachable, StoreMissing, StoreError.
    """
    import_chromadb()
    session = BoundedSession(token, seconds, answer_limit)
    try:
        with server_errors(f"lesson store {address.url}"):
            check_heartbeat(session, address)
            return _client(address, database, session)
    except BaseException:
        session.close()
        raise


def check_heartbeat(session: BoundedSession, address: ServerAddress) -> None:
    """Raise StoreUnreachable unless a Chroma server answers."""
    import httpx

    what = f"lesson store {address.url}"
    try:
        answer = session.request("GET", f"{address.base}/api/v2/heartbeat")
    except httpx.TransportError as error:
        silent = isinstance(error, httpx.TimeoutException)
        how = f"does not answer within {session.seconds:g} s" if silent else "cannot be reached"
        raise StoreUnreachable(f"{what} {how}: {transport_reason(error)}") from None
    try:
        alive = "nanosecond heartbeat" in answer.json()
    except (ValueError, TypeError):
        alive = False
    if not alive:
        raise StoreUnreachable(f"{what} answers, but is no Chroma server")


def _client(address: ServerAddress, database: str, session: BoundedSession) -> ClientAPI:
    """Build Chroma's client on our session; its own has no limit, not even while it is built."""
    client: ClientAPI = _client_class()(address, database, session)
    return client


@cache  # a class made for each client would outlive it until Python looks for circles
def _client_class() -> Any:
    from chromadb.api.client import Client
    from chromadb.auth import UserIdentity

    class BoundedClient(Client):
        """Works through our session from its first request on."""

        def __init__(self, address: ServerAddress, database: str, session: BoundedSession) -> None:
            self._address, self._session = address, session
            super().__init__(address.tenant, database, plain_settings(address))

        def get_user_identity(self) -> UserIdentity:
            use_session(self._server, self._session)
            return UserIdentity(user_id="")

        def _validate_tenant_database(self, tenant: str, database: str) -> None:
            admin: Any = self._admin_client
            use_session(admin._server, self._session)  # it has a server of its own
            try:
                self._admin_client.get_tenant(name=tenant)
                self._admin_client.get_database(name=database, tenant=tenant)
            except Exception as error:
                forget_systems(systems_of(self, admin))
                tell_missing(error, f"database {database}", self._address)

        def close(self) -> None:
            self._session.close()
            systems = systems_of(self, self._admin_client)
            super().close()
            forget_systems(systems)

    return BoundedClient


def systems_of(*clients: Any) -> list[Any]:
    """Return what Chroma keeps for these clients; nothing for closed ones."""
    from chromadb.api.shared_system_client import SharedSystemClient

    known = SharedSystemClient._identifier_to_system
    return [known[one._identifier] for one in clients if one._identifier in known]


def forget_systems(systems: Iterable[Any]) -> None:
    """Drop what Chroma 1.5.9 keeps of a closed client for ever: 1 MB each time (measured).

    It registers the client's system once more, and another one, under names nobody knows.
    """
    from chromadb.api.shared_system_client import SharedSystemClient

    known, gone = SharedSystemClient._identifier_to_system, list(systems)
    for name, system in list(known.items()):
        if any(system is one for one in gone):
            known.pop(name, None)
            SharedSystemClient._identifier_to_refcount.pop(name, None)


def plain_settings(address: ServerAddress) -> Settings:
    """Return Chroma's settings for an address, without environment and `.env`."""
    return _plain_class()(
        chroma_api_impl="chromadb.api.fastapi.FastAPI",
        chroma_server_host=address.base,  # only a whole URL may carry a prefix
        chroma_server_http_port=address.port,
        chroma_server_ssl_enabled=address.ssl,
        chroma_server_ssl_verify=False,  # of sessions that are replaced unused; ours verifies
        anonymized_telemetry=False,
    )


@cache  # a class of pydantic's costs more than a connection
def _plain_class() -> type[Settings]:
    from chromadb.config import Settings

    class PlainSettings(Settings):
        """Reads what it is given."""

        @classmethod
        def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
            return (sources["init_settings"],)

    return PlainSettings


def use_session(server: Any, session: BoundedSession) -> None:
    """Put our session in the place of the one Chroma made."""
    server._session.close()
    server._session = session


def tell_missing(error: Exception, name: str, address: ServerAddress) -> NoReturn:
    """Raise StoreMissing for Chroma's own "not found", else the error itself."""
    from chromadb.errors import NotFoundError

    if not isinstance(error, NotFoundError):
        raise error
    raise StoreMissing(
        f"lesson store {address.url}: {name} is missing: run `lessons init --store {address.url}`"
    ) from None


@contextmanager
def server_errors(what: str) -> Iterator[None]:
    """Turn whatever a call on a server raises into one line beginning with `what`.

    Raises StoreUnreachable (later may help), StoreMissing (no such collection), StoreError.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        raise
    except LessonsError as error:
        if str(error).startswith(what) or not isinstance(error, StoreError):
            raise
        raise type(error)(f"{what}: {error}") from None
    except BaseException as error:  # chromadb's Rust core panics with a BaseException
        raise _translated(error, what) from None


def _translated(error: BaseException, what: str) -> StoreError:
    import httpx
    from chromadb.errors import ChromaError, NotFoundError

    if isinstance(error, httpx.TransportError):
        return StoreUnreachable(f"{what}: the server does not answer: {transport_reason(error)}")
    if isinstance(error, NotFoundError):
        return StoreMissing(f"{what}: {mask(first_line(error))}")
    if isinstance(error, ChromaError) or type(error) is Exception:  # what it says of itself
        return StoreError(f"{what}: {mask(first_line(error))}")
    return StoreUnreachable(
        f"{what}: the server's answer makes no sense: {mask(first_line(error))}"
    )


def transport_reason(error: Exception) -> str:
    """Return why no answer came, in one line."""
    import httpx

    return "timed out" if isinstance(error, httpx.TimeoutException) else first_line(error)


# ------------------------------------------------------------------------------
# filter/spool.py: Records on their way to staging: one fsynced file each, gone once staging has them.


_STAGING_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}-lessons-(?:candidates|events)")
BREATH_SECONDS = 0.02
"""Between batches: an embedded one holds the interpreter (50 rows: 0.1 s), chats go on here."""
SPOOL_LIMIT = 10_000
"""Files kept at most; beyond it new records are refused, with a warning."""
STUCK_SECONDS = 600.0
"""A record that waits longer, while another worker holds the lock and moves nothing: it hangs."""


class StagingSink(Protocol):
    """What a spool empties into."""

    def store(
        self, rows: Mapping[str, Sequence[Record]], seconds: float
    ) -> Mapping[str, StoreError]:
        """Keep rows by collection durably; return why a collection could not take its own.

        Raises StoreError where the whole of staging is out of reach.
        """

    def close(self) -> None:
        """Let go of connections."""


class FolderStaging:
    """Staging in a store folder, opened for one small batch at a time."""

    def __init__(self, paths: StorePaths) -> None:
        self.paths = paths

    def store(
        self, rows: Mapping[str, Sequence[Record]], seconds: float
    ) -> Mapping[str, StoreError]:
        """Add all rows in one session; raise StoreLocked, StoreDamaged, StoreError."""
        with staging_session(self.paths, seconds) as client:
            for name, records in rows.items():
                append_records(client, name, records)
        return {}

    def close(self) -> None:
        """Nothing is kept open."""


class Spool:
    """The appenders of one store; satisfies CandidateAppender and EventAppender."""

    def __init__(self, paths: StorePaths, staging: StagingSink | None = None) -> None:
        self.paths = paths
        self.staging: StagingSink = staging or FolderStaging(paths)
        self.closed = False

    def close(self) -> None:
        """End a running drain after its batch; what waits is the next spool's. Blocking."""
        self.closed = True
        self.staging.close()

    def append_candidates(self, candidates: Sequence[Candidate]) -> None:
        """Spool candidates; raise StoreError when they cannot be kept."""
        for candidate in candidates:
            name = collection_names(candidate.lesson.domain)["candidates"]
            self._keep(name, candidate.to_record())

    def append_usage(self, domain: str, usage: Usage) -> None:
        """Spool one usage event; raise StoreError when it cannot be kept."""
        if is_counted(usage.message_ref, os.environ.get(USAGE_SHARE, "")):
            self._keep(collection_names(domain)["events"], usage.to_record())

    def append_rating(self, domain: str, rating: Rating) -> None:
        """Spool one change of a rating; raise StoreError when it cannot be kept."""
        if is_counted(rating.message_ref, os.environ.get(USAGE_SHARE, "")):
            self._keep(collection_names(domain)["events"], rating.to_record())

    def append_tally(self, domain: str, tally: Tally) -> None:
        """Spool what was counted; raise StoreError when it cannot be kept."""
        self._keep(collection_names(domain)["events"], tally.to_record())

    def waiting(self) -> int:
        """Return how many records wait for staging."""
        try:
            return len(spooled_names(self.paths.spool))
        except FileNotFoundError:
            return 0

    def drain(self, seconds: float = 5.0, most: int | None = None) -> int:
        """Move what waits, the oldest `most` of it, into staging; return how many records.

        0 where another worker is still at it after `seconds`. Raises StoreError (StoreLocked,
        also where that one seems to hang, StoreDamaged, StoreUnreachable, StoreMissing) and
        leaves in place what was not stored.
        """
        lock, oldest = spool_lock(self.paths), oldest_spooled(self.paths.spool)
        with drained_alone(lock, seconds) as alone:
            if alone:
                return self._drain(seconds, most)
        if oldest is not None and oldest == oldest_spooled(self.paths.spool):
            refuse_stuck(lock, oldest)
        return 0

    def drained(self, most: int) -> bool:
        """Drain; say whether that is known to work: not where another worker is still at it."""
        return self.drain(most=most) > 0 or not self.waiting()

    def _drain(self, seconds: float, most: int | None) -> int:
        moved, refused = 0, dict[str, StoreError]()
        try:
            files = list(spooled(self.paths.spool))[:most]
            for start in range(0, len(files), APPEND_BATCH):
                time.sleep(BREATH_SECONDS if start else 0)
                if self.closed:  # the store was changed: the rest belongs to the new one
                    break
                moved += self._drain_batch(files[start : start + APPEND_BATCH], seconds, refused)
        except OSError as error:
            raise StoreError(f"{self.paths.spool} cannot be emptied: {error}") from None
        if refused:
            raise next(iter(refused.values()))
        return moved

    def _drain_batch(
        self, files: list[Path], seconds: float, refused: dict[str, StoreError]
    ) -> int:
        rows: dict[str, dict[str, Record]] = {}
        names: dict[Path, str] = {}
        for file in files:
            if entry := read_spooled(file):
                names[file] = entry[0]
                rows.setdefault(entry[0], {})[entry[1].id] = entry[1]
        open_to = {n: list(found.values()) for n, found in rows.items() if n not in refused}
        if open_to:
            refused.update(self.staging.store(open_to, seconds))
        done = [file for file in files if names.get(file) not in refused]
        for file in done:
            file.unlink(missing_ok=True)
        return len(done)

    def _keep(self, collection: str, record: Record) -> None:
        folder = self.paths.spool
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
            if self.waiting() >= SPOOL_LIMIT:
                raise StoreError(f"{folder} holds {SPOOL_LIMIT} records: see `lessons doctor`")
            write_spooled(folder, collection, record)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {first_line(error)}") from None


@contextmanager
def drained_alone(lock: Path, seconds: float) -> Iterator[bool]:
    """Yield whether nobody else empties the spool: three workers would send each record thrice.

    Also where the lock cannot be made: on a full disk emptying is what makes room.
    """
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(lock, seconds))
        except StoreLocked:
            yield False
            return
        except StoreError:
            pass
        yield True


def spool_lock(paths: StorePaths) -> Path:
    """Return the lock of whoever empties the spool; the kernel's, so it ends with its holder."""
    return paths.root / "spool.lock"


def oldest_spooled(folder: Path) -> Path | None:
    """Return the file that waits longest, None without one."""
    try:
        names = spooled_names(folder)
    except OSError:
        return None
    return folder / min(names) if names else None


def refuse_stuck(lock: Path, oldest: Path) -> None:
    """Raise StoreLocked where a record waits too long for whoever holds the lock."""
    with suppress(OSError):  # it was moved on just now
        minutes = (time.time() - oldest.stat().st_mtime) / 60
        if minutes * 60 > STUCK_SECONDS:
            raise StoreLocked(
                f"{lock} is held by another worker and a record waits for {minutes:.0f} minutes: "
                "where that lasts, end the worker that hangs"
            )


def spooled_names(folder: Path) -> list[str]:
    """Return the names of the waiting files in no order; raise OSError."""
    with os.scandir(folder) as found:  # at each append: 5,000 in 2 ms
        return [entry.name for entry in found if entry.name.endswith(".json")]


def spooled(folder: Path) -> Iterator[Path]:
    """Yield the waiting files, oldest first."""
    if folder.is_dir():
        yield from sorted(folder.glob("*.json"))


def write_spooled(folder: Path, collection: str, record: Record) -> None:
    """Write one record under its final name only once it is on disk."""
    stem = f"{time.time_ns():020d}-{record.id[:40]}"
    draft = folder / f".{stem}.{os.getpid()}.tmp"
    content = {"collection": collection, "record": record._asdict()}
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(json.dumps(content, ensure_ascii=False))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(folder / f"{stem}.json")
    except OSError:  # a full disk would fill up with halves
        draft.unlink(missing_ok=True)
        raise


def read_spooled(file: Path) -> tuple[str, Record] | None:
    """Return collection and record; a file that is none of ours is moved to `bad/`.

    Raises OSError where the disk or a limit of open files is at fault: the record may be sound.
    """
    try:
        content = json.loads(file.read_text("utf-8"))
        return checked_row(content["collection"], Record(**content["record"]))
    except FileNotFoundError:  # another worker moved it on
        return None
    except (ValueError, KeyError, TypeError, RecursionError, IsADirectoryError, PermissionError):
        with suppress(FileNotFoundError):  # so did another worker
            bad = file.parent / "bad"
            bad.mkdir(exist_ok=True)
            file.rename(bad / file.name)
        return None


def checked_row(collection: object, record: Record) -> tuple[str, Record]:
    """Return both; raise ValueError unless Chroma would store it, in a staging collection.

    One row it refuses would hold up all that wait behind it.
    """
    metadata: object = record.metadata
    usable = (
        isinstance(collection, str)
        and _STAGING_NAME.fullmatch(collection)
        and all(isinstance(text, str) and text for text in (record.id, record.document))
        and isinstance(metadata, dict)
        and metadata
        and all(map(is_storable, metadata.values()))
    )
    if not usable:
        raise ValueError("no row of ours")
    json.dumps(record, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    return str(collection), record


def is_storable(value: object) -> bool:
    """Say whether Chroma takes a metadata value."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(entry, str) for entry in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


# ------------------------------------------------------------------------------
# filter/rating_register.py: What was noted of each thumb: Open WebUI tells a deleted feedback by its id alone.


_RATINGS_TABLE = """
create table if not exists ratings
  (feedback text primary key, user text not null, row text not null) without rowid;
"""
RATING_MOMENT = "%Y-%m-%dT%H:%M:%S.%fZ"
"""Finer than other events: two changes of mind may fall into one second."""


class RatingRegister:
    """The thumbs of one store; `append` spools a row before the register forgets the old one."""

    def __init__(self, path: Path, append: Callable[[Rating], None]) -> None:
        self.path, self.append = path, append

    def note(self, feedback: str, rating: Rating) -> bool:
        """Append a thumb where it says something new; raise StoreError."""
        with self._writing() as found:
            before = noted(found, feedback)
            if said(rating) == said(before):
                return False
            self._keep(found, feedback, after(before, rating))
        return True

    def take_back(self, feedback: str, at: str) -> int:
        """Append that a deleted feedback counts no more; return how many rows; raise StoreError."""
        return self._take_back("where feedback = ?", (feedback,), at)

    def take_back_all(self, user_ref: str, at: str) -> int:
        """Do so for all feedback of a user, of everybody where none is named."""
        return self._take_back("where ? in ('', user)", (user_ref,), at)

    def forget(self, references: Iterable[str]) -> int:
        """Erase what names one of these users or chats; return how many; raise StoreError.

        For `lessons forget`: nothing is appended, nothing is made.
        """
        if not self.path.exists():
            return 0
        with self._writing() as found:
            found.execute("pragma secure_delete = on")
            query = "delete from ratings where instr(row, ?)"
            return sum(found.execute(query, (name,)).rowcount for name in references if name)

    def _take_back(self, where: str, values: tuple[str, ...], at: str) -> int:
        with self._writing() as found:
            names = found.execute(f"select feedback from ratings {where}", values).fetchall()
        return sum(self._take_one(name, at) for (name,) in names)

    def _take_one(self, feedback: str, at: str) -> bool:
        with self._writing() as found:
            before = noted(found, feedback)
            if before and before.outcome != "none":
                gone = {"outcome": "none", "at": at, "reason": "", "keys": ()}
                self.append(after(before, before.model_copy(update=gone)))
            found.execute("delete from ratings where feedback = ?", (feedback,))
        return bool(before and before.outcome != "none")

    def _keep(self, found: sqlite3.Connection, feedback: str, rating: Rating) -> None:
        self.append(rating)
        values = (feedback, rating.user_ref, rating.model_dump_json())
        found.execute("insert or replace into ratings values (?, ?, ?)", values)

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Hold the register alone; what the block appended but could not note comes again."""
        return writing_register(self.path, _RATINGS_TABLE, "delete it, thumbs are noted anew")


def noted(found: sqlite3.Connection, feedback: str) -> Rating | None:
    """Return what was noted last of a feedback, None where nothing readable was."""
    query = "select row from ratings where feedback = ?"
    row = found.execute(query, (feedback,)).fetchone()
    try:
        return Rating.model_validate_json(row[0]) if row else None
    except ValueError:
        return None


def said(rating: Rating | None) -> tuple[object, ...]:
    """Return what a thumb says, when it was given aside; no thumb says what `none` does."""
    if rating is None or rating.outcome == "none":
        return ("none",)
    return (rating.message_ref, rating.outcome, rating.reason, rating.keys)


def after(before: Rating | None, rating: Rating) -> Rating:
    """Return the rating with a time later than the one before it, whatever the clock does."""
    if before is None or before.at < rating.at:
        return rating
    return rating.model_copy(update={"at": a_moment_later(before.at)})


def a_moment_later(at: str) -> str:
    """Return the next moment after a rating's."""
    moment = datetime.datetime.strptime(at, RATING_MOMENT).replace(tzinfo=datetime.UTC)
    return (moment + datetime.timedelta(microseconds=1)).strftime(RATING_MOMENT)


def rating_stamp(moment: datetime.datetime) -> str:
    """Return a moment as ratings carry it: ISO 8601, UTC, microseconds."""
    return moment.astimezone(datetime.UTC).strftime(RATING_MOMENT)


# ------------------------------------------------------------------------------
# filter/place.py: Where the chat side's store is: as set, else beside Open WebUI's data.


def host_module(name: str) -> Any:
    """Return a module of the Open WebUI server in this process, None outside of one."""
    return importlib.import_module(name) if "open_webui.main" in sys.modules else None


def store_setting(valve: str) -> str:
    """Return the store as set: the valve, else LESSONS_STORE; empty where neither is."""
    return valve.strip() or os.environ.get("LESSONS_STORE", "").strip()


def store_folder(valve: str) -> Path:
    """Return the store's folder: as set, else beside Open WebUI's data.

    Raises StoreError for what no system can hold. With a store on a server this is where
    records wait for it, and where the salt is.
    """
    chosen = store_setting(valve)
    if chosen and not is_server(chosen):
        return usable_folder(chosen)
    data = getattr(host_module("open_webui.env"), "DATA_DIR", None)
    return Path(data) / "lessons" if data else Path("lessons")


def usable_folder(chosen: str) -> Path:
    """Return the folder as a path; raise StoreError for what no system can hold."""
    try:
        if "\x00" in chosen:
            raise ValueError
        return Path(chosen).expanduser()
    except (RuntimeError, ValueError):
        raise StoreError(f"the store {chosen[:80]!r} is no folder: set the valve `store`") from None


# ------------------------------------------------------------------------------
# filter/rating_host.py: What the rating plugin asks of Open WebUI: the feedback, the filter's settings, a user's wish.


FILTER_TITLE = "Lessons Loop"
"""The filter's title in its front matter: an admin may have pasted it under any id."""


class FilterFacts(NamedTuple):
    """The filter as it is stored in this Open WebUI."""

    name: str
    valves: LessonsValves


class RatingHost(Protocol):
    """Where feedback comes from."""

    async def feedback(self, name: str) -> Mapping[str, Any] | None:
        """Return a feedback row, None where there is none (any more)."""

    async def filter_facts(self) -> FilterFacts | None:
        """Return the filter whose answers are rated, None where it is not installed."""

    async def contributes(self, function: str, user: str) -> bool:
        """Say whether a user lets lessons be learned from his chats."""


class OpenWebUIHost:
    """The Open WebUI this process runs; satisfies RatingHost."""

    async def feedback(self, name: str) -> Mapping[str, Any] | None:
        """Return a feedback row without the whole chat it carries."""
        row = await host_module("open_webui.models.feedbacks").Feedbacks.get_feedback_by_id(name)
        return None if row is None else dict(row.model_dump(exclude={"snapshot"}))

    async def filter_facts(self) -> FilterFacts | None:
        """Return the filter, of several an active one."""
        functions = host_module("open_webui.models.functions").Functions
        stored = await functions.get_functions_by_type("filter")
        ours = [function for function in stored if titled(function) == FILTER_TITLE]
        if not ours:
            return None
        chosen = min(ours, key=lambda function: (not function.is_active, function.id))
        valves = await functions.get_function_valves_by_id(chosen.id)
        return FilterFacts(chosen.id, LessonsValves.model_validate(valves or {}))

    async def contributes(self, function: str, user: str) -> bool:
        """Read the user's own valves of the filter."""
        functions = host_module("open_webui.models.functions").Functions
        own = await functions.get_user_valves_by_id_and_user_id(function, user)
        chosen = LessonsUserValves.model_validate(own or {})
        return chosen.contribute and chosen.use_lessons


def titled(function: Any) -> object:
    """Return the title in a stored function's front matter."""
    return mapping_of(getattr(function.meta, "manifest", None)).get("title")


# ------------------------------------------------------------------------------
# filter/lessons_rating.py


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
