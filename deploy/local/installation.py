"""A whole local installation: models, Open WebUI with plugin and tool, store, seeds, demo data.

Everything runs on loopback as children of this process and ends with it. A second
start on the same folder keeps what is there: nothing is installed again needlessly,
valves and settings the admin changed stay.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lessons_loop.deploy.evaluation.baseline import around_seeds
from lessons_loop.deploy.local.align import align_embedding, align_models
from lessons_loop.deploy.local.home import Home, held_home, kept_secret
from lessons_loop.deploy.local.sources import (
    PRACTICE_LABEL,
    Embedding,
    Models,
    choose_embedding,
    configured_models,
    practice_models,
)
from lessons_loop.deploy.local.store import (
    TOOL_FILE,
    gate_environment,
    prepare_database,
    prepare_store,
)
from lessons_loop.deploy.processes import (
    LOOPBACK,
    Child,
    StartError,
    free_port,
    port_is_free,
    start,
    stopping,
    wait_for_url,
)
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.deploy.webui.install import PLUGIN_NAME
from lessons_loop.deploy.webui.install_ratings import RATING_NAME, install_ratings
from lessons_loop.deploy.webui.plugin_file import PLUGIN_ID, RATING_ID, plugin_source
from lessons_loop.deploy.webui.server import (
    ADMIN_EMAIL,
    ServerSettings,
    require_open_webui,
    start_server,
    wait_until_ready,
)

TOOL_ID = "run_sql"
PRACTICE_SECONDS = 30.0


@dataclass(frozen=True)
class Options:
    """What the caller of `lessons up` or `lessons demo` chose."""

    root: Path
    port: int = 0
    """0: any free port."""
    domains: str = "sql,openwebui"
    seeds: bool = True
    embedding: str = ""
    """As LESSONS_EMBEDDING; empty: choose."""
    models: Models | None = None
    """None: the user's own where found, else the practice model."""
    always_practice: bool = False
    practice: tuple[str, ...] = ()
    """Further arguments of the practice model, such as its error rate."""
    baseline: bool = False
    """Measure before the seeds are loaded, and again behind."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Open WebUI, as its own variables."""
    valves: Mapping[str, object] = field(default_factory=dict)
    """Set when the plugin is first installed, on top of ours."""


@dataclass(frozen=True)
class Running:
    """A local installation that is ready."""

    home: Home
    settings: ServerSettings
    admin: OpenWebUI
    models: Models
    embedding: Embedding
    children: list[Child]
    model: str = ""
    """The one model that is offered; empty where there are several."""

    @property
    def environment(self) -> dict[str, str]:
        """What a gate command needs to work on this installation's store."""
        return gate_environment(os.environ, self.home, self.embedding)


@contextmanager
def local_run(
    options: Options, stages: Stages, environ: Mapping[str, str] = os.environ
) -> Iterator[Running]:
    """Bring everything up, yield it, stop everything; raise LessonsError with one line."""
    require_open_webui()
    with held_home(Home(options.root.resolve())) as home, stopping([]) as children:
        port = chosen_port(options.port)
        embedding = choose_embedding(options.embedding, environ)
        models = bring_models(options, home, children, environ, stages)
        settings = server_settings(options, home, port, models, embedding)
        earlier = home.notes()
        home.note(url=settings.url)
        server = start_server(settings, environ, home.kept)
        children.append(server)
        prepare_database(home, stages)
        with around_seeds(options, home, models, embedding, environ, stages):
            prepare_store(options, home, embedding, environ, stages)
        with stages.stage("starting Open WebUI", "Open WebUI is ready"):
            wait_until_ready(server, settings)
        admin = OpenWebUI(settings.url)
        with stages.stage("installing plugins and tool", "plugins and run_sql tool are installed"):
            sign_in(admin, home, settings)
            install(admin, home, options)
            align_models(admin, models, str(earlier.get("models", "")))
            align_embedding(admin, embedding.variables, str(earlier.get("embedding", "")))
            offered = admin.model_ids()
        if off := switched_off(admin):
            stages.note(f"the plugin is {off} in Open WebUI and stays so: Admin Panel, Functions")
        if embedding.gate:
            with stages.stage("warming the embedding engine", "embedding engine is warm"):
                admin.warm_embedding()
        if not offered:
            stages.note(f"warning: {models.label} offers no model")
        embedded = embedding.variables.get("RAG_EMBEDDING_MODEL", "")
        home.note(models=models.url, embedding=embedded)
        only = offered[0] if len(offered) == 1 else ""
        yield Running(home, settings, admin, models, embedding, children, only)


def chosen_port(wanted: int) -> int:
    """Return the port to use; raise StartError when it is taken."""
    if not wanted:
        return free_port()
    if not port_is_free(wanted):
        raise StartError(
            f"port {wanted} on {LOOPBACK} is taken by another program: stop it,"
            " or give --port 0 for a free one"
        )
    return wanted


def bring_models(
    options: Options,
    home: Home,
    children: list[Child],
    environ: Mapping[str, str],
    stages: Stages,
) -> Models:
    """Return the models to use, starting the practice model where it is needed."""
    found = options.models or (None if options.always_practice else configured_models(environ))
    if found:
        stages.note(f"models: {found.label}")
        return found
    port = free_port()
    with stages.stage("starting the practice model", f"models: {PRACTICE_LABEL}"):
        module = "lessons_loop.deploy.demo.practice_model"
        command = [sys.executable, "-m", module, "--port", str(port), *options.practice]
        log = home.root / "practice-model.log"
        command += ["--log", str(home.requests_log)]
        child = start("practice model", command, log, environ, home.root, home.kept)
        children.append(child)
        wait_for_url(child, f"http://{LOOPBACK}:{port}/v1/models", PRACTICE_SECONDS)
    return practice_models(port)


def server_settings(
    options: Options, home: Home, port: int, models: Models, embedding: Embedding
) -> ServerSettings:
    """Return what Open WebUI is started with."""
    return ServerSettings(
        data=home.root,
        port=port,
        secret=kept_secret(home.secret_file, 32),
        password=kept_secret(home.password_file, 12),
        store=home.store.root,
        models=models.variables,
        embedding=embedding.variables,
        offline=embedding.offline,
        tools=(TOOL_ID,),
        extra=options.environment,
    )


def sign_in(admin: OpenWebUI, home: Home, settings: ServerSettings) -> None:
    """Sign in as the admin; raise StartError when the password was changed meanwhile."""
    try:
        admin.sign_in(ADMIN_EMAIL, settings.password)
    except OpenWebUIError as error:
        raise StartError(
            f"sign-in as {ADMIN_EMAIL} failed: if the password was changed, write it to"
            f" {home.password_file} ({error})"
        ) from None


def install(admin: OpenWebUI, home: Home, options: Options) -> None:
    """Install plugins and tool; switches and valves are set once, later ones are the admin's."""
    known = admin.function(PLUGIN_ID) is not None and bool(admin.valves("functions", PLUGIN_ID))
    put = admin.store_function if known else admin.install_function
    try:
        put(PLUGIN_ID, PLUGIN_NAME, plugin_source())
        if admin.function(RATING_ID):
            admin.store_function(RATING_ID, RATING_NAME, plugin_source(RATING_ID))
        else:
            install_ratings(admin, plugin_source(RATING_ID))
    except OpenWebUIError as error:  # Open WebUI tells the reason in its log only
        raise StartError(f"{error}; the reason is in {home.root / 'open-webui.log'}") from None
    if not known:
        valves = {"domains": options.domains, "distill_enabled": True, **options.valves}
        admin.set_valves("functions", PLUGIN_ID, valves)
    admin.install_tool(TOOL_ID, "Demo data server", TOOL_FILE.read_text("utf-8"))
    stored = admin.valves("tools", TOOL_ID)
    if stored.get("database") != str(home.database):
        admin.set_valves("tools", TOOL_ID, stored | {"database": str(home.database)})


def switched_off(admin: OpenWebUI) -> str:
    """Return how an admin left the plugin where it does not run for everybody, else nothing."""
    state = admin.function(PLUGIN_ID) or {}
    if not state.get("is_active"):
        return "switched off"
    return "" if state.get("is_global") else "not global"
