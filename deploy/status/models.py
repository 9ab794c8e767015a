"""Are the gate's models there: what `lessons status` says of LESSONS_EMBEDDING and LESSONS_LLM_URL.

Quickly: does anything listen at the address. With `--check` a text is embedded and held
against the stored vectors' model. Not covered: what a model answers (`lessons doctor`).
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from pydantic import ValidationError

from lessons_loop.deploy.status.facts import StoreStatus
from lessons_loop.filter.address import public_url
from lessons_loop.filter.embed import Fingerprint
from lessons_loop.filter.errors import EmbedError

CONNECT_SECONDS = 0.5
EMBEDDING = "LESSONS_EMBEDDING"
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


def add_models(found: StoreStatus, environ: Mapping[str, str], *, whole: bool) -> None:
    """Add notes on models that do not answer, and problems with those that do not fit."""
    found.notes += silent_models(environ)
    if whole and environ.get(EMBEDDING, "").strip():
        found.problems += embedder_problems(found, environ)


def silent_models(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each address at which nothing listens."""
    for name in (EMBEDDING, "LESSONS_LLM_URL"):
        if (url := _URL.search(environ.get(name, ""))) and not listens(url[0]):
            yield f"{name}: nothing listens at {public_url(url[0])}: `lessons doctor` tells more"


def listens(url: str) -> bool:
    """Say whether a connection can be made soon; an address that is none has no listener."""
    found: list[bool] = []
    # looking a name up has no time limit of its own
    work = threading.Thread(target=_connect, args=(url, found), daemon=True)
    work.start()
    work.join(CONNECT_SECONDS)
    return bool(found)


def _connect(url: str, found: list[bool]) -> None:
    with suppress(OSError, ValueError):
        parts = urlsplit(url)
        place = (parts.hostname or "", parts.port or _PORTS[parts.scheme.lower()])
        socket.create_connection(place, CONNECT_SECONDS).close()
        found.append(True)


def embedder_problems(found: StoreStatus, environ: Mapping[str, str]) -> Iterator[str]:
    """Embed once and yield what is wrong, domain by domain."""
    from lessons_loop.deploy.doctor.models import ask_embedder, named

    try:
        own = ask_embedder(environ[EMBEDDING], environ)
    except EmbedError as error:
        yield f"{EMBEDDING}: {error}"
        return
    for domain in found.domains:
        try:
            theirs = Fingerprint.model_validate(domain.fingerprint)
        except ValidationError:
            continue
        if own is not None and not theirs.matches(own):
            yield (
                f"{domain.domain}: embedded by {named(theirs)}, {EMBEDDING} is {named(own)}:"
                f" `lessons reembed --domain {domain.domain}`"
            )
