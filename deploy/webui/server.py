"""A real Open WebUI on loopback: its environment, its start, its readiness."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from lessons_loop.deploy.processes import LOOPBACK, Child, StartError, start, wait_for_url

READY_SECONDS = 180.0
ADMIN_EMAIL = "admin@example.com"
FOREIGN = (
    *("DATABASE_URL", "DATABASE_TYPE", "REDIS_URL", "VECTOR_DB", "CHROMA_HTTP_HOST"),
    *("OPENAI_API_BASE_URLS", "OPENAI_API_KEYS", "OLLAMA_BASE_URLS"),
    *("WEBUI_AUTH", "UVICORN_WORKERS", "ENABLE_PERSISTENT_CONFIG"),
)
"""Settings of another installation: they would draw this one away from its own data and models."""
CONSTANT = {
    "ENABLE_API_KEYS": "true",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "SCARF_NO_ANALYTICS": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "ENABLE_SIGNUP": "false",
    "PYTHONUNBUFFERED": "1",
}
OFFLINE = {"OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1"}
"""Without it a start without network spends a minute and more on retries at a model hub."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""On busy cores torch's threads wait for each other: 800 ms for one short text instead of 10."""


@dataclass(frozen=True)
class ServerSettings:
    """What one Open WebUI is started with."""

    data: Path
    port: int
    secret: str = field(repr=False)
    password: str = field(repr=False)
    store: Path
    models: Mapping[str, str]
    """Where its models come from, as Open WebUI's own variables."""
    embedding: Mapping[str, str]
    """Its embedding engine, as Open WebUI's own variables; empty: left as it is."""
    offline: bool = True
    """Ask no model hub."""
    tools: tuple[str, ...] = ()
    """Tools switched on in every new chat."""
    extra: Mapping[str, str] = field(default_factory=dict)
    launch: str = "from open_webui import app; app()"
    """The Python that starts it."""

    @property
    def url(self) -> str:
        """Address for browsers and clients."""
        return f"http://{LOOPBACK}:{self.port}"


def environment(settings: ServerSettings, base: Mapping[str, str]) -> dict[str, str]:
    """Return the server's environment; what `settings` says wins over `base`."""
    kept = {name: value for name, value in base.items() if name not in FOREIGN}
    own = {
        "DATA_DIR": str(settings.data),
        "WEBUI_SECRET_KEY": settings.secret,
        "WEBUI_URL": settings.url,
        "WEBUI_ADMIN_EMAIL": ADMIN_EMAIL,
        "WEBUI_ADMIN_PASSWORD": settings.password,
        "WEBUI_ADMIN_NAME": "Admin",
        "LESSONS_STORE": str(settings.store),
        "NO_PROXY": ",".join(filter(None, (base.get("NO_PROXY"), LOOPBACK, "localhost"))),
    }
    tools = {"DEFAULT_MODEL_METADATA": json.dumps({"toolIds": list(settings.tools)})}
    layers = (
        ONE_THREAD,
        kept,
        CONSTANT,
        OFFLINE if settings.offline else {},
        own,
        tools if settings.tools else {},
        settings.models,
        settings.embedding,
        settings.extra,
    )
    return {name: value for layer in layers for name, value in layer.items()}


def require_open_webui() -> None:
    """Raise StartError when Open WebUI is not installed beside this command."""
    if find_spec("open_webui") is None:
        raise StartError(
            "open-webui is not installed here: run `make run` in the project's folder,"
            " or `pip install '.[demo]'` there"
        )


def start_server(
    settings: ServerSettings, base: Mapping[str, str] = os.environ, kept: Sequence[int] = ()
) -> Child:
    """Start Open WebUI without waiting for it, `kept` files open; raise StartError."""
    require_open_webui()
    settings.data.mkdir(parents=True, exist_ok=True)
    serve = ["serve", "--host", LOOPBACK, "--port", str(settings.port)]
    command = [sys.executable, "-c", settings.launch, *serve]
    log = settings.data / "open-webui.log"
    log.unlink(missing_ok=True)
    return start("open-webui", command, log, environment(settings, base), settings.data, kept)


def wait_until_ready(
    child: Child, settings: ServerSettings, seconds: float = READY_SECONDS
) -> None:
    """Wait for /ready (/health answers before the models are there); raise StartError."""
    wait_for_url(child, f"{settings.url}/ready", seconds)
