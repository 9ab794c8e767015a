"""Where the chat model and the embedding of a local run come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import requests

from lessons_loop.deploy.local.embedding import user_configured
from lessons_loop.deploy.processes import LOOPBACK, StartError, loopback_session
from lessons_loop.promote.embedding.forms import FORMS_OR_NONE
from lessons_loop.promote.embedding.minilm_files import packaged_model

OLLAMA_URL = f"http://{LOOPBACK}:11434"
OPENAI_URL = "https://api.openai.com/v1"
PRACTICE_LABEL = "practice model: a script, not an LLM"
PRACTICE_KEY = "practice"


@dataclass(frozen=True)
class Models:
    """The chat models Open WebUI is given."""

    label: str
    url: str
    """Base URL Open WebUI asks; Ollama's own, or an OpenAI-compatible one."""
    key: str = field(default="", repr=False)
    ollama: bool = False
    practice: bool = False

    @property
    def openai_url(self) -> str:
        """Where its OpenAI-compatible interface is."""
        return self.url + ("/v1" if self.ollama else "")

    @property
    def variables(self) -> dict[str, str]:
        """Open WebUI's own settings for it."""
        if self.ollama:
            return {
                "ENABLE_OLLAMA_API": "true",
                "OLLAMA_BASE_URL": self.url,
                "ENABLE_OPENAI_API": "false",
            }
        return {
            "ENABLE_OLLAMA_API": "false",
            "ENABLE_OPENAI_API": "true",
            "OPENAI_API_BASE_URL": self.url,
            "OPENAI_API_KEY": self.key,
        }


def configured_models(environ: Mapping[str, str], ollama: str = OLLAMA_URL) -> Models | None:
    """Return the user's own models: his endpoint, else a local Ollama; None without either."""
    url = environ.get("OPENAI_API_BASE_URL", "").strip()
    key = environ.get("OPENAI_API_KEY", "").strip()
    if url or key:
        return Models(f"OpenAI-compatible endpoint {url or OPENAI_URL}", url or OPENAI_URL, key)
    if names := ollama_models(ollama):
        return Models(f"local Ollama ({len(names)} models)", ollama, ollama=True)
    return None


def practice_models(port: int) -> Models:
    """Return the practice model's connection."""
    return Models(PRACTICE_LABEL, f"http://{LOOPBACK}:{port}/v1", PRACTICE_KEY, practice=True)


def ollama_models(url: str) -> list[str]:
    """Return the models a local Ollama offers; none when nothing answers within a second."""
    try:
        response = loopback_session().get(f"{url}/api/tags", timeout=1)
        found = response.json()["models"] if response.ok else []
        return [str(model["name"]) for model in found]
    except (requests.RequestException, ValueError, KeyError, TypeError):
        return []


@dataclass(frozen=True)
class Embedding:
    """One embedding engine, as the gate and as Open WebUI name it."""

    gate: str
    """LESSONS_EMBEDDING; empty: none, recall is lexical."""
    variables: Mapping[str, str]
    label: str
    offline: bool = True
    """Nothing has to come from a model hub."""


LEXICAL = Embedding("", {}, "none: recall is lexical, and the gate promotes nothing")


def choose_embedding(option: str, environ: Mapping[str, str]) -> Embedding:
    """Return the engine: `option` or LESSONS_EMBEDDING, Open WebUI's own settings, else MiniLM.

    `none` switches it off. Raises StartError for an option of no known form, EmbedError
    when the packaged model is not the known one.
    """
    wanted = (option or environ.get("LESSONS_EMBEDDING", "")).strip()
    if wanted == "none":
        return LEXICAL
    if wanted:
        return named_embedding(wanted, environ)
    if user_configured(environ):
        name = gate_name(environ)
        return Embedding(name, {}, "as configured by RAG_EMBEDDING_*", not from_hub(name))
    folder = packaged_model()
    if folder is None:
        return LEXICAL
    variables = {"RAG_EMBEDDING_ENGINE": "", "RAG_EMBEDDING_MODEL": str(folder)}
    return Embedding(f"sentence-transformers:{folder}", variables, "MiniLM, packaged, on this CPU")


def named_embedding(setting: str, environ: Mapping[str, str]) -> Embedding:
    """Return Open WebUI's settings for a LESSONS_EMBEDDING value; raise StartError."""
    engine, _, rest = setting.partition(":")
    model, _, url = rest.partition("@")
    if engine == "sentence-transformers" and rest:
        names = {"RAG_EMBEDDING_ENGINE": "", "RAG_EMBEDDING_MODEL": rest}
        return Embedding(setting, names, setting, not from_hub(setting))
    if setting == "minilm:" and (folder := packaged_model()):
        names = {"RAG_EMBEDDING_ENGINE": "", "RAG_EMBEDDING_MODEL": str(folder)}
        return Embedding(setting, names, "MiniLM, packaged, on this CPU")
    if engine == "openai" and model and url:
        key = environ.get("LESSONS_EMBEDDING_KEY") or environ.get("OPENAI_API_KEY", "")
        names = {
            "RAG_EMBEDDING_ENGINE": "openai",
            "RAG_EMBEDDING_MODEL": model,
            "RAG_OPENAI_API_BASE_URL": url,
            "RAG_OPENAI_API_KEY": key,
        }
        return Embedding(setting, names, f"openai:{model}")
    raise StartError(
        f"embedding {setting.split('@')[0]!r} is of no known form: give {FORMS_OR_NONE}"
    )


def from_hub(setting: str) -> bool:
    """Tell whether a LESSONS_EMBEDDING value names a model a hub may have to deliver."""
    engine, _, name = setting.partition(":")
    return engine == "sentence-transformers" and not Path(name).expanduser().is_dir()


def gate_name(environ: Mapping[str, str]) -> str:
    """Return LESSONS_EMBEDDING for what Open WebUI is configured with; empty when unknown."""
    engine = environ.get("RAG_EMBEDDING_ENGINE", "").strip()
    model = environ.get("RAG_EMBEDDING_MODEL", "").strip()
    if engine == "":
        return f"sentence-transformers:{model}" if model else ""
    url = {
        "openai": environ.get("RAG_OPENAI_API_BASE_URL", "").strip() or OPENAI_URL,
        "ollama": (environ.get("RAG_OLLAMA_BASE_URL", "").strip() or OLLAMA_URL) + "/v1",
    }.get(engine, "")
    return f"openai:{model}@{url}" if model and url else ""
