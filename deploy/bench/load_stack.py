"""What the load runs on: Chroma, the policy proxy, a model, and Open WebUI with three workers.

    with load_stack(folder, stages) as stack:
        stack.each_worker()     # a client for each worker, by process id

Everything is on loopback, started on a leash and stopped together. Two small plugins tell which
worker answered: one puts its process id into each request to the model, one answers with it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lessons_loop.deploy.bench.gate import put_curated
from lessons_loop.deploy.bench.lessons import DOMAIN, Maker, Words
from lessons_loop.deploy.bench.load_probes import KNOCK, KNOCK_ID, TELL, TELL_ID
from lessons_loop.deploy.bench.load_provider import MODEL
from lessons_loop.deploy.policy import adapted_policy, nginx_command
from lessons_loop.deploy.processes import (
    LOOPBACK,
    Child,
    StartError,
    free_port,
    start,
    stopping,
    wait_for_url,
)
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.deploy.webui.plugin_file import PLUGIN_ID, plugin_source
from lessons_loop.deploy.webui.server import (
    ADMIN_EMAIL,
    READY_SECONDS,
    ServerSettings,
    start_server,
    wait_until_ready,
)
from lessons_loop.filter.embed import Embedder
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.store.initialise import initialise

WORKERS = 3
SERVE_SECONDS = 400.0
"""Four processes load Open WebUI: 60 s on two idle cores, several minutes on busy ones."""
LAUNCH = (
    "import functools, uvicorn; "
    "uvicorn.run = functools.partial(uvicorn.run, timeout_worker_healthcheck=90, "
    "timeout_keep_alive=75); "
    "from open_webui import app; app()"
)
"""uvicorn kills a worker that is silent for 5 s; on busy cores that one is still being loaded.

And it ends a connection after 5 idle seconds: a client that was one worker's would be another's.
"""
LOOKS = {"chroma": "/api/v2/heartbeat", "proxy": "/healthz", "provider": "/v1/models"}
CURATED = 60
"""Lessons in the store."""
SEED = 11
PASSWORD = "obviously-fake-1"
SALT = "obviously-fake-salt"
WITH, WITHOUT = "load-with", "load-without"
"""Two workspace models on one base model: the first one has the plugin."""
VALVES: Mapping[str, object] = {
    "domains": DOMAIN,
    "distill_enabled": True,
    "distill_api_chats": True,
    "distill_model": MODEL,
    "distill_daily_cap": 1_000_000,
    "distill_user_daily_cap": 1_000_000,
}
"""Everything the plugin does, it does under load too."""


@dataclass
class LoadStack:
    """The running parts; each can be ended and started again on its port."""

    folder: Path
    children: list[Child]
    ports: Mapping[str, int] = field(default_factory=lambda: dict(enumerated_ports()))
    running: dict[str, Child] = field(default_factory=dict)
    words: list[Words] = field(default_factory=list)
    """What the lessons are about."""

    def __post_init__(self) -> None:
        """Name the server's settings."""
        self.settings = server_settings(self)
        self.admin = OpenWebUI(self.settings.url)

    def url(self, part: str) -> str:
        """Return the address of a part."""
        return f"http://{LOOPBACK}:{self.ports[part]}"

    @property
    def embedder(self) -> Embedder | None:
        """The gate's embedder: the endpoint Open WebUI asks."""
        return parse_embedding(f"openai:load-embed@{self.url('provider')}/v1", {})

    @property
    def gate(self) -> GateSettings:
        """What a gate on this store works with; it reaches Chroma itself."""
        return GateSettings(self.url("chroma"), DOMAIN, self.folder / "state", self.embedder)

    def begin(self, part: str) -> None:
        """Start chroma, proxy or provider; raise StartError.

        In the main thread: a child on a leash ends with the thread that started it.
        """
        command = command_of(part, self)
        child = start(part, command, self.folder / f"{part}.log", environment(), self.folder)
        self.running[part] = child
        self.children.append(child)

    def wait_for(self, part: str) -> None:
        """Wait until a part answers; raise StartError."""
        wait_for_url(self.running[part], f"{self.url(part)}{LOOKS[part]}", 60)

    def serve(self) -> None:
        """Start Open WebUI, sign the admin in; raise StartError, OpenWebUIError."""
        child = start_server(self.settings)
        self.running["openwebui"] = child
        self.children.append(child)
        wait_until_ready(child, self.settings, SERVE_SECONDS)
        self.admin.sign_in(ADMIN_EMAIL, PASSWORD)
        self.admin.model_ids()

    def teach(self, count: int) -> None:
        """Make that many more lessons curated, as the gate does."""
        maker = Maker(SEED + len(self.words))
        fresh = [maker.words() for _ in range(count)]
        with open_gate(self.gate) as session:
            put_curated(session, fresh)
        self.words += fresh

    def install(self) -> None:
        """Install both probes, and the plugin for one of the two models only."""
        for name, source in ((TELL_ID, TELL), (KNOCK_ID, KNOCK)):
            self.admin.install_function(name, name, source)
        self.admin.store_function(PLUGIN_ID, "Lessons", plugin_source())
        self.admin.switch_on(PLUGIN_ID, ["is_active"])
        self.admin.set_valves("functions", PLUGIN_ID, VALVES)
        for model, filters in ((WITH, [PLUGIN_ID]), (WITHOUT, [])):
            form = {"id": model, "base_model_id": MODEL, "name": model, "params": {}}
            meta = {"filterIds": filters, "capabilities": {}}
            rest = {"meta": meta, "access_grants": [], "is_active": True}
            self.admin.ask("POST", "/api/v1/models/create", form | rest)

    def worker_pids(self) -> list[int]:
        """Return the workers' process ids; the resource tracker beside them is none."""
        pid = self.running["openwebui"].pid
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
        return [int(child) for child in listed if b"spawn_main" in command_line(int(child))]

    def knock(self, hold: float = 0.1) -> tuple[int, OpenWebUI] | None:
        """Return which worker a fresh connection got, with a client that keeps it."""
        client = OpenWebUI(self.settings.url, token=self.admin.token)
        form = {"model": MODEL, "id": "x", "chat_id": "", "session_id": "", "hold": hold}
        try:
            client.model_ids()  # without Redis each worker has a list of models of its own
            return int(client.ask("POST", f"/api/chat/actions/{KNOCK_ID}", form)["worker"]), client
        except OpenWebUIError:
            return None

    def each_worker(self, seconds: float = READY_SECONDS) -> dict[int, OpenWebUI]:
        """Return a client per worker, each on a connection of its own.

        Raises StartError when not all workers could be reached in time.
        """
        deadline = time.monotonic() + seconds
        with ThreadPoolExecutor(3 * WORKERS) as pool:
            while True:
                found = dict(filter(None, pool.map(lambda _: self.knock(), range(3 * WORKERS))))
                if len(found) >= WORKERS:
                    return found
                if time.monotonic() > deadline:
                    break
        raise StartError(f"only {len(found)} of {WORKERS} workers answer")


def enumerated_ports() -> Iterator[tuple[str, int]]:
    """Yield a free port for each part."""
    for part in ("chroma", "proxy", "provider", "openwebui"):
        yield part, free_port()


def environment() -> dict[str, str]:
    """Return the environment of the parts: one thread for numbers, memory as openwebui.env.yaml."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def command_line(pid: int) -> bytes:
    """Return a process's command line, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def command_of(part: str, stack: LoadStack) -> list[str]:
    """Return how a part is started; raise StartError."""
    port = str(stack.ports[part])
    if part == "provider":
        return [sys.executable, "-m", "lessons_loop.deploy.bench.load_provider", port]
    if part == "chroma":
        program = str(Path(sys.executable).with_name("chroma"))
        place = ["--path", str(stack.folder / "chroma"), "--host", LOOPBACK, "--port", port]
        return [program, "run", *place]
    config = stack.folder / "nginx" / "nginx.conf"
    config.parent.mkdir(exist_ok=True)
    rules = adapted_policy(stack.ports["proxy"], stack.ports["chroma"], config.parent)
    config.write_text(rules, "utf-8")
    return nginx_command(config)


def server_settings(stack: LoadStack) -> ServerSettings:
    """Return Open WebUI's settings: three workers, one model for chats and embeddings."""
    provider = f"{stack.url('provider')}/v1"
    models = {
        "ENABLE_OLLAMA_API": "false",
        "OPENAI_API_BASE_URL": provider,
        "OPENAI_API_KEY": "fake",
    }
    embedding = {
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_OPENAI_API_BASE_URL": provider,
        "RAG_OPENAI_API_KEY": "fake",
        "RAG_EMBEDDING_MODEL": "load-embed",
    }
    extra = {
        "UVICORN_WORKERS": str(WORKERS),
        "BYPASS_MODEL_ACCESS_CONTROL": "true",
        "LESSONS_SALT": SALT,
        "LESSONS_STORE": stack.url("proxy"),
    }
    return ServerSettings(
        data=stack.folder / "openwebui",
        port=stack.ports["openwebui"],
        secret="obviously-fake-secret",
        password=PASSWORD,
        store=stack.folder,
        models=models,
        embedding=embedding,
        extra=extra,
        launch=LAUNCH,
    )


@contextmanager
def load_stack(folder: Path, stages: Stages) -> Iterator[LoadStack]:
    """Start everything, teach the lessons, install the plugin; stop everything afterwards."""
    with stopping([]) as children:
        stack = LoadStack(folder, children)
        with stages.stage("starting Chroma, the policy proxy and a model"):
            for part in ("chroma", "proxy", "provider"):
                stack.begin(part)
                stack.wait_for(part)
        with stages.stage(f"making a store with {CURATED} lessons"):
            initialise(stack.gate.store, [DOMAIN], stack.embedder, stack.gate.state)
            stack.teach(CURATED)
        with stages.stage(f"starting Open WebUI with {WORKERS} workers"):
            stack.serve()
            stack.install()
            stack.each_worker()
        yield stack
