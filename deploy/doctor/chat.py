"""What `lessons doctor` says about an Open WebUI: version, plugin, valves, engines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lessons_loop.deploy.doctor.findings import Answer, Finding, Level
from lessons_loop.deploy.doctor.models import ask_model
from lessons_loop.deploy.doctor.proxy import Door, look_at_door, store_findings
from lessons_loop.deploy.doctor.ratings import RatingFacts, look_at_ratings, rating_findings
from lessons_loop.deploy.doctor.schema import UPGRADE, is_newer
from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.deploy.webui.install import connect, open_webui_version, require_admin
from lessons_loop.deploy.webui.plugin_file import front_matter, is_ours, plugin_source, release
from lessons_loop.filter.embed import Fingerprint, fingerprint
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.valves import LessonsValves
from lessons_loop.promote.embedding.embedders import OpenAIEmbeddings

CHAT_SECONDS = 45.0
ASK_SECONDS = 10.0


@dataclass(frozen=True)
class HostFacts:
    """What an Open WebUI tells; without an admin's token only its version."""

    url: str
    version: str
    refused: str = ""
    """Why nothing more is known."""
    plugins: tuple[Mapping[str, Any], ...] = ()
    """Every stored version of this plugin."""
    source: str = field(default="", repr=False)
    valves: Mapping[str, Any] = field(default_factory=dict, repr=False)
    models: tuple[str, ...] = ()
    engine: str = ""
    """Name of the embedding engine, as the plugin calls it."""
    engine_print: Fingerprint | None = None
    """Its fingerprint, where it could be asked from here."""
    distill: Answer | None = None
    """What the model behind the valve `distill_url` said."""
    ratings: RatingFacts | None = None
    door: Door | None = None
    """What the plugin's store address leads to, where that and ours are servers."""


def look_at_host(url: str, token: str, store: str = "") -> HostFacts:
    """Ask an Open WebUI about itself, and the way to our store; raise OpenWebUIError."""
    client = connect(url, token, ASK_SECONDS)
    version = open_webui_version(client)
    if not token:
        return HostFacts(client.url, version, "no --token given")
    try:
        functions = require_admin(client)
    except OpenWebUIError as error:
        return HostFacts(client.url, version, str(error))
    ours = tuple(function for function in functions if is_ours(function))
    name = str(ours[0]["id"]) if len(ours) == 1 else ""
    stored = client.function(name) if name else None
    valves = client.valves("functions", name) if stored else {}
    known = LessonsValves.model_validate(valves)
    engine, mark = engine_of(client)
    return HostFacts(
        client.url,
        version,
        plugins=ours,
        source=str((stored or {}).get("content", "")),
        valves=valves,
        models=tuple(client.model_ids()),
        engine=engine,
        engine_print=mark,
        distill=ask_distill_model(known) if stored else None,
        ratings=look_at_ratings(client, functions) if ours else None,
        door=look_at_door(known.store, store),
    )


def engine_of(client: OpenWebUI) -> tuple[str, Fingerprint | None]:
    """Return the embedding engine's name, and its fingerprint where it can be asked from here."""
    stored = dict(client.ask("GET", "/api/v1/retrieval/embedding"))
    engine, model = stored.get("RAG_EMBEDDING_ENGINE"), str(stored.get("RAG_EMBEDDING_MODEL"))
    name = f"{engine or 'sentence-transformers'}:{Path(model).name}"
    if engine != "openai":
        return name, None
    remote = dict(stored.get("openai_config") or {})
    try:
        url, key = str(remote.get("url")), str(remote.get("key") or "")
        return name, fingerprint(OpenAIEmbeddings(model, url, key, seconds=ASK_SECONDS))
    except LessonsError:  # its address may hold inside Open WebUI's network only
        return name, None


def ask_distill_model(valves: LessonsValves) -> Answer | None:
    """Ask the model behind `distill_url`; None where distilling does not use one."""
    if not (valves.distill_enabled and valves.distill_url.strip()):
        return None
    key = valves.distill_api_key or os.environ.get("LESSONS_LLM_API_KEY", "")
    try:
        return Answer(ask_model(valves.distill_url, valves.distill_model, key, ASK_SECONDS))
    except LessonsError as error:
        return Answer(error=str(error))


def host_findings(facts: HostFacts) -> list[Finding]:
    """Say whether Open WebUI is new enough and the plugin is as this release ships it."""
    source = plugin_source()
    needed = front_matter(source).get("required_open_webui_version", "0")
    old = release(facts.version) < release(needed)
    text = f"{facts.version} at {facts.url}" + (f", the plugin needs {needed}" if old else "")
    found = [Finding("open webui", Level.PROBLEM if old else Level.OK, text)]
    if old:
        found = [found[0]._replace(remedy="upgrade Open WebUI")]
    if facts.refused:
        level = Level.NOT_CHECKED if facts.refused == "no --token given" else Level.PROBLEM
        return [*found, Finding("plugin", level, facts.refused)]
    ratings = rating_findings(facts.ratings, facts.url) if facts.ratings else []
    return [*found, *plugin_findings(facts, source), *ratings]


def plugin_findings(facts: HostFacts, source: str) -> list[Finding]:
    """Say whether the plugin is there once, on, and this release's."""
    remedy = f"lessons install --url {facts.url}"
    if not facts.plugins:
        return [Finding("plugin", Level.PROBLEM, "not installed", remedy)]
    if len(facts.plugins) > 1:
        names = ", ".join(sorted(str(one.get("id")) for one in facts.plugins))
        text = f"there {len(facts.plugins)} times ({names}): lessons would be added twice"
        return [Finding("plugin", Level.PROBLEM, text, "delete all but one in Admin, Functions")]
    found = [switch_finding(facts.plugins[0], remedy)]
    shipped, stored = front_matter(source), front_matter(facts.source)
    if facts.source == source:
        digest = shipped.get("source_digest", "")[:12]
        text = f"{shipped.get('version')} as this release ships it, source {digest}"
        return [*found, Finding("plugin source", Level.OK, text)]
    there, wanted = stored.get("version", "?"), shipped.get("version")
    if is_newer(facts.source, source):
        text = f"{there} there, newer than this command's {wanted}"
        return [*found, Finding("plugin source", Level.WARNING, text, UPGRADE)]
    if stored.get("source_digest") == shipped.get("source_digest"):
        text = f"{there} there, changed by hand"
    elif there == wanted:
        text = f"{there} there, but of another source than this release's"
    else:
        text = f"{there} there, this release has {wanted}"
    return [*found, Finding("plugin source", Level.PROBLEM, text, remedy)]


def switch_finding(plugin: Mapping[str, Any], remedy: str) -> Finding:
    """Say whether a plugin runs, and for which models."""
    if not plugin.get("is_active"):
        text = "switched off (Open WebUI does so, too, when it cannot load it)"
        return Finding("plugin", Level.PROBLEM, text, remedy)
    if not plugin.get("is_global"):
        text = "active, but only for models that name it"
        return Finding("plugin", Level.WARNING, text, remedy)
    return Finding("plugin", Level.OK, f"{plugin.get('id')} is active for all models")


def valve_findings(facts: HostFacts, store: str, domains: Sequence[str]) -> list[Finding]:
    """Say what the valves make of the plugin, against the store and the domains looked at."""
    if not facts.source:
        return []
    valves = LessonsValves.model_validate(dict(facts.valves))
    found = [recall_finding(valves, facts.url), learning_finding(valves, facts)]
    known = valves.domain_names()
    if unread := [name for name in domains if name not in known]:
        remedy = f"lessons install --url {facts.url} --domain {','.join([*known, *unread])}"
        text = f"the plugin does not read {', '.join(unread)} (valve domains: {valves.domains})"
        found.append(Finding("domains", Level.WARNING, text, remedy))
    return [*found, *store_findings(valves.store, store, facts.door)]


def recall_finding(valves: LessonsValves, url: str) -> Finding:
    """Say whether questions get lessons."""
    install = f"lessons install --url {url} --set"
    if not valves.recall_enabled:
        text = "switched off by the valve recall_enabled"
        return Finding("recall", Level.WARNING, text, f"{install} recall_enabled=true")
    if not (valves.top_k and valves.token_budget):
        text = "switched off: top_k or token_budget is 0"
        return Finding("recall", Level.WARNING, text, f"{install} top_k= --set token_budget=")
    floor = valves.floor()
    told = "calibrated floor" if floor is None else f"floor {floor:g}"
    return Finding("recall", Level.OK, f"on: at most {valves.top_k} lessons, {told}")


CAPS = "distill_max_lessons= --set distill_daily_cap="
TASK_MODEL = "the task model or the chat's own"


def learning_finding(valves: LessonsValves, facts: HostFacts) -> Finding:
    """Say whether finished chats are learned from, and by which model."""
    if not valves.distill_enabled:
        return Finding("learning", Level.OK, "off: chats leave no candidates")
    install = f"lessons install --url {facts.url} --set"
    if not (valves.distill_max_lessons and valves.distill_daily_cap):
        return Finding("learning", Level.WARNING, "switched off: a cap is 0", f"{install} {CAPS}")
    chosen = valves.distill_model.strip()
    if not valves.distill_url.strip() and chosen and chosen not in facts.models:
        text = f"Open WebUI has no model {chosen} (valve distill_model)"
        return Finding("learning", Level.PROBLEM, text, f"{install} distill_model=NAME")
    return Finding("learning", Level.OK, f"on, with {chosen or TASK_MODEL}")


def distilling_model(facts: HostFacts) -> tuple[str, str] | None:
    """Return URL and name of the model that distills, None where that is not settled."""
    valves = LessonsValves.model_validate(dict(facts.valves))
    if not (facts.source and valves.distill_enabled and valves.distill_model.strip()):
        return None
    return valves.distill_url.strip(), valves.distill_model.strip()


def engine_findings(facts: HostFacts, stored: Mapping[str, Fingerprint]) -> list[Finding]:
    """Compare Open WebUI's embedding engine with the vectors recall would compare it with."""
    if not facts.engine:
        return []
    check = "host's engine"
    names = {mark.name for mark in stored.values()}
    if not stored:
        return [Finding(check, Level.OK, f"{facts.engine}: no lesson is embedded yet")]
    if facts.engine_print is not None:
        other = [name for name, mark in stored.items() if not agree(mark, facts.engine_print)]
        if not other:
            return [Finding(check, Level.OK, f"{facts.engine}: the same model as the store's")]
        text = f"{facts.engine} is another model than {', '.join(other)} was embedded by"
        return [Finding(check, Level.PROBLEM, text + ": recall goes by words", RE_EMBED)]
    if names == {facts.engine}:
        return [Finding(check, Level.OK, f"{facts.engine}: the store's, by name")]
    text = f"{facts.engine}, the store's is {' and '.join(sorted(names))}, by name"
    return [Finding(check, Level.WARNING, text, f"if they differ: {RE_EMBED}")]


RE_EMBED = "lessons reembed --embedding THE_SAME_MODEL"


def agree(stored: Fingerprint, engine: Fingerprint) -> bool:
    """Compare two models, prefixes aside: the interface does not tell Open WebUI's."""
    bare = {"query_prefix": "", "document_prefix": ""}
    return stored.model_copy(update=bare).matches(engine.model_copy(update=bare))
