"""Keep a data folder's stored settings in step with this start, and with nothing the admin chose.

Open WebUI reads its environment on the first start only; afterwards its database
decides. What an earlier start of ours put there may be replaced, anything else stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lessons_loop.deploy.local.sources import Models
from lessons_loop.deploy.webui.client import Json, OpenWebUI

DEFAULT_EMBEDDING = "sentence-transformers/all-MiniLM-L6-v2"


def align_models(admin: OpenWebUI, wanted: Models, earlier: str) -> bool:
    """Make Open WebUI use `wanted`; `earlier` is the URL the last start set. True when changed."""
    if wanted.ollama:
        return align_ollama(admin, wanted.url)
    stored = dict(admin.ask("GET", "/openai/config"))
    aligned = with_connection(stored, wanted, earlier)
    if aligned == stored:
        return False
    admin.ask("POST", "/openai/config/update", aligned)
    return True


def with_connection(stored: Json, wanted: Models, earlier: str) -> Json:
    """Return the stored connections with `wanted` in the place of `earlier`, else appended."""
    urls, keys = list(stored["OPENAI_API_BASE_URLS"]), list(stored["OPENAI_API_KEYS"])
    keys += [""] * (len(urls) - len(keys))
    place = next((urls.index(url) for url in (wanted.url, earlier) if url in urls), len(urls))
    urls[place : place + 1] = [wanted.url]
    keys[place : place + 1] = [wanted.key]
    changed = {"OPENAI_API_BASE_URLS": urls, "OPENAI_API_KEYS": keys, "ENABLE_OPENAI_API": True}
    return stored | changed


def align_ollama(admin: OpenWebUI, url: str) -> bool:
    """Make Open WebUI use a local Ollama; return whether anything was changed."""
    stored = dict(admin.ask("GET", "/ollama/config"))
    urls = list(stored["OLLAMA_BASE_URLS"])
    aligned = stored | {
        "ENABLE_OLLAMA_API": True,
        "OLLAMA_BASE_URLS": urls if url in urls else [*urls, url],
    }
    if aligned == stored:
        return False
    admin.ask("POST", "/ollama/config/update", aligned)
    return True


def align_embedding(admin: OpenWebUI, wanted: Mapping[str, str], earlier: str) -> bool:
    """Make Open WebUI embed with `wanted`, unless the admin chose an engine since."""
    if not wanted:
        return False
    stored = dict(admin.ask("GET", "/api/v1/retrieval/embedding"))
    model = str(stored["RAG_EMBEDDING_MODEL"])
    if model == wanted["RAG_EMBEDDING_MODEL"] or model not in (earlier, DEFAULT_EMBEDDING):
        return False
    form: dict[str, Any] = {
        name: wanted[name] for name in ("RAG_EMBEDDING_ENGINE", "RAG_EMBEDDING_MODEL")
    }
    if wanted["RAG_EMBEDDING_ENGINE"] == "openai":
        url, key = wanted["RAG_OPENAI_API_BASE_URL"], wanted["RAG_OPENAI_API_KEY"]
        form["openai_config"] = {"url": url, "key": key}
    admin.ask("POST", "/api/v1/retrieval/embedding/update", form)
    return True
