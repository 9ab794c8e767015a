"""`lessons doctor`: look at every part of the loop at once, then say what is wrong and what helps.

Covered: everything down, slow or refused; each look has a time limit and looks run side by side.
Not covered: whether lessons help (that is `lessons eval`), rows of staging nobody can read.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lessons_loop.deploy.doctor import chat as checks_chat
from lessons_loop.deploy.doctor import models as checks_models
from lessons_loop.deploy.doctor import schema as checks_schema
from lessons_loop.deploy.doctor import server as checks_server
from lessons_loop.deploy.doctor import store as checks_store
from lessons_loop.deploy.doctor.findings import (
    Answer,
    Finding,
    Level,
    Probe,
    run_probes,
    unanswered,
)
from lessons_loop.deploy.webui.plugin_file import release
from lessons_loop.filter.embed import Fingerprint
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.server import is_server
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.state import state_folder, store_paths

CHROMADB = ((1, 5, 9), (1, 6))
"""Versions of chromadb the store's files and calls are known for: from, below."""
MISSING = "not installed"
FILE_SECONDS = 10.0
SERVER_SECONDS = 20.0
NO_ANSWER = ("does not answer", "cannot be reached")
"""How the store\'s errors tell a server that is down or frozen."""
SERVER_DOWN = "start the server, or correct --store (LESSONS_STORE)"
AT_PROXY = "set --store (LESSONS_STORE) to Chroma's own address, such as http://lessons-chroma:8000"


@dataclass(frozen=True)
class Settings:
    """What to look at; empty fields are not checked."""

    store: str = ""
    state: Path | None = None
    domains: tuple[str, ...] = ()
    embedding: str = ""
    url: str = ""
    token: str = field(default="", repr=False)
    llm_url: str = ""
    llm_model: str = ""
    llm_key: str = field(default="", repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


def diagnose(
    settings: Settings, waiting: Callable[[list[str]], None] = lambda _: None
) -> list[Finding]:
    """Look at everything the settings name and return the findings; raises nothing of ours."""
    answers = run_probes(probes(settings), waiting)
    status = answers.get("store", Answer())
    stored = checks_models.stored_fingerprints(status.value) if status.value else {}
    return [
        *version_findings(),
        *store_part(settings, answers),
        *embedding_part(settings, answers, stored),
        *chat_part(settings, answers, stored),
        *schema_part(answers),
        *model_part(settings, answers),
    ]


def probes(settings: Settings) -> list[Probe]:
    """Return the looks these settings ask for."""
    found = []
    if settings.store.strip():
        found += store_probes(settings)
    look = lambda: checks_models.ask_embedder(settings.embedding, settings.environ)  # noqa: E731
    found.append(Probe("embedding", look, checks_models.EMBED_SECONDS))
    if settings.url.strip():
        ask_host = (settings.url, settings.token.strip(), settings.store)
        host = lambda: checks_chat.look_at_host(*ask_host)  # noqa: E731
        found.append(Probe("open webui", host, checks_chat.CHAT_SECONDS))
    if settings.llm_url.strip() and settings.llm_model.strip():
        ask = (settings.llm_url, settings.llm_model, settings.llm_key)
        seconds = checks_models.MODEL_SECONDS + 5
        found.append(Probe("review model", lambda: checks_models.ask_model(*ask), seconds))
    return found


def store_probes(settings: Settings) -> list[Probe]:
    """Return the looks at a store folder, or at a server."""
    store, state, domains = settings.store, settings.state, settings.domains
    seconds = checks_store.STATUS_SECONDS
    reading = lambda: checks_store.read_status_child(store, state, domains, seconds)  # noqa: E731
    found = [Probe("store", reading, seconds + 5)]
    if is_server(store):
        server = lambda: checks_server.look_at_server(store)  # noqa: E731
        return [*found, Probe("server", server, SERVER_SECONDS)]
    return [*found, Probe("files", lambda: look_at_files(settings), FILE_SECONDS)]


def look_at_files(settings: Settings) -> checks_store.FolderFacts:
    """Look at a store folder's files; raise LessonsError where there is no store."""
    paths = store_paths(settings.store)
    try:
        if not paths.root.is_dir():
            raise LessonsError(f"there is no lesson store in {paths.root}")
        return checks_store.look_at_folder(paths, state_folder(settings.state, paths))
    except OSError as error:
        raise LessonsError(f"{paths.root} cannot be read: {error.strerror}") from None


def version_findings() -> list[Finding]:
    """Say which versions run here."""
    python = ".".join(map(str, sys.version_info[:3]))
    found = [Finding("lessons-loop", Level.OK, f"{installed('lessons-loop')}, Python {python}")]
    whole, client = installed("chromadb"), installed("chromadb-client")
    thin = whole == MISSING != client  # the gate's image: enough for servers
    chroma = f"{client} (client, for servers)" if thin else whole
    low, high = CHROMADB
    wanted = "chromadb>=1.5.9,<1.6"
    good = low <= release(client if thin else whole) < high
    level = Level.OK if good else Level.PROBLEM
    return [*found, Finding("chromadb", level, chroma, "" if good else f"pip install '{wanted}'")]


def installed(package: str) -> str:
    """Return an installed package's version, or that it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return MISSING


def store_part(settings: Settings, answers: Mapping[str, Answer]) -> list[Finding]:
    """Say what is to be said about the store."""
    if not settings.store.strip():
        text = "no store given"
        return [Finding("store", Level.NOT_CHECKED, text, "pass --store or set LESSONS_STORE")]
    looked = answers.get("files") or answers["server"]
    remedy = server_remedy(looked.error) if is_server(settings.store) else init_command(settings)
    if checks_schema.NEWER in looked.error:  # the error says what helps
        remedy = ""
    if looked.error:
        return [unanswered("store", looked, remedy)]
    place = place_findings(settings, looked.value)
    if not (status := answers["store"].value):
        told = any(one.level is Level.PROBLEM for one in place)  # why it cannot be read
        return place if told else [*place, read_failure(answers["store"])]
    return [*place, *checks_store.status_findings(status), *waiting_findings(settings, answers)]


def server_remedy(error: str) -> str:
    """Return what helps when a server refuses or is down, "" where the error says it all."""
    if "the policy proxy refuses" in error:
        return AT_PROXY
    return SERVER_DOWN if any(words in error for words in NO_ANSWER) else ""


def init_command(settings: Settings) -> str:
    """Return the command that makes the store."""
    return f"lessons init --store {shlex.quote(settings.store)}"


def read_failure(answer: Answer) -> Finding:
    """Return why the store could not be read; the command in the error becomes the remedy."""
    command = re.search(r"`(lessons [^`]+)`", answer.error)
    found = unanswered("lessons", answer, command[1] if command else "")
    return found._replace(text=found.text.removesuffix(f": run `{found.remedy}`"))


def place_findings(settings: Settings, facts: Any) -> list[Finding]:
    """Say what the place of the store itself tells."""
    if is_server(settings.store):
        domains = settings.domains or tuple(checks_server.domains_there(facts))
        return checks_server.server_findings(facts, domains)
    paths = store_paths(settings.store)
    there = Finding("store", Level.OK, str(paths.root))
    return [there, *checks_store.folder_findings(paths, facts)]


def waiting_findings(settings: Settings, answers: Mapping[str, Answer]) -> list[Finding]:
    """Say what of spool and salt can be seen from here."""
    if is_server(settings.store):
        text = "in Open WebUI's data folder, which cannot be seen from here"
        file = (settings.state or Path(".")) / "salt"
        salt = checks_store.salt_finding(file.is_file(), file, settings.environ)
        return [Finding("spool", Level.NOT_CHECKED, text), salt]
    facts, status = answers["files"].value, answers["store"].value
    paths: StorePaths = store_paths(settings.store)
    spool = checks_store.spool_finding(status, facts.oldest_spooled, settings.store)
    return [spool, checks_store.salt_finding(facts.salt, paths.salt, settings.environ)]


def embedding_part(
    settings: Settings, answers: Mapping[str, Answer], stored: Mapping[str, Fingerprint]
) -> list[Finding]:
    """Say whether the gate's embedder is the one the lessons were embedded by."""
    return checks_models.embedding_findings(
        stored, answers["embedding"], shlex.quote(settings.store)
    )


def chat_part(
    settings: Settings, answers: Mapping[str, Answer], stored: Mapping[str, Fingerprint]
) -> list[Finding]:
    """Say what is to be said about Open WebUI and the plugin."""
    answer = answers.get("open webui")
    if answer is None:
        text = "no address given"
        remedy = "pass --url and --token (LESSONS_OPENWEBUI_URL, LESSONS_OPENWEBUI_TOKEN)"
        return [Finding("open webui", Level.NOT_CHECKED, text, remedy)]
    if answer.error:
        return [unanswered("open webui", answer)]
    facts: checks_chat.HostFacts = answer.value
    status = answers.get("store", Answer()).value or {"domains": []}
    domains = [str(domain["domain"]) for domain in status["domains"]]
    return [
        *checks_chat.host_findings(facts),
        *checks_chat.valve_findings(facts, settings.store, domains),
        *checks_chat.engine_findings(facts, stored),
    ]


def schema_part(answers: Mapping[str, Answer]) -> list[Finding]:
    """Say whether store, command and plugin know each other's data."""
    status = answers.get("store", Answer()).value or {}
    facts: checks_chat.HostFacts | None = answers.get("open webui", Answer()).value
    source, url = (facts.source, facts.url) if facts else ("", "")
    return checks_schema.schema_findings(status, source, url)


def model_part(settings: Settings, answers: Mapping[str, Answer]) -> list[Finding]:
    """Say whether the models answer and whether proposer and reviewer differ."""
    remedy = "correct --llm-url, --llm-model, LESSONS_LLM_API_KEY"
    given = "pass --llm-url and --llm-model (LESSONS_LLM_URL, LESSONS_LLM_MODEL)"
    review = answers.get("review model")
    found = [
        checks_models.reply_finding(
            "review model", settings.llm_model, review, remedy if review else given
        )
    ]
    facts = answers.get("open webui", Answer()).value
    distill = checks_chat.distilling_model(facts) if facts else None
    if facts and facts.distill and distill:
        fix = "lessons install --set distill_url=URL --set distill_model=NAME"
        found.append(checks_models.reply_finding("distill model", distill[1], facts.distill, fix))
    reviewer = (settings.llm_url, settings.llm_model.strip())
    return [*found, checks_models.same_model_finding(distill, reviewer)]


def split_domains(names: Sequence[str] | str) -> tuple[str, ...]:
    """Return the names of a comma list, each once."""
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
