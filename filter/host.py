"""What the filter asks of Open WebUI: its embedding engine, its models, saved chats.

Covered: Open WebUI 0.12.4. A changed name is one EmbedError or ModelError.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lessons_loop.filter.embed import (
    FINGERPRINT_SENTENCES,
    Fingerprint,
    Purpose,
    Vectors,
    fingerprint_of,
    unit_rows,
)
from lessons_loop.filter.errors import EmbedError, ModelError, RerankError, StoreError
from lessons_loop.filter.llm import ChatReply, reply_from_completion
from lessons_loop.filter.place import host_module
from lessons_loop.filter.redact import mask
from lessons_loop.filter.store import first_line
from lessons_loop.filter.text import repeats
from lessons_loop.filter.worker import in_daemon_thread


class HostEmbedder:
    """Open WebUI's configured embedding engine, as one function object of it."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.prefixes = host_prefixes()

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows, shape (len(texts), dimension); raise EmbedError."""
        prefix = self.prefixes[0 if purpose is Purpose.QUERY else 1] or None
        try:
            rows = await self.function(list(texts), prefix=prefix)
        except Exception as error:  # whatever an engine raises, the chat goes on
            reason = discreet(error, texts)
            raise EmbedError(f"the embedding engine failed: {reason}") from None
        return unit_rows(rows, len(texts))

    async def fingerprint(self) -> Fingerprint:
        """Embed the eight sentences and return the fingerprint; raise EmbedError."""
        vectors = await self.embed(FINGERPRINT_SENTENCES, Purpose.DOCUMENT)
        return fingerprint_of(vectors, self.prefixes, await host_model_name())


class RerankedText(NamedTuple):
    """A text as Open WebUI's reranking function takes it."""

    page_content: str


async def host_rerank(app: Any, query: str, texts: Sequence[str]) -> list[float]:
    """Return one score per text from Open WebUI's reranking model; raise RerankError.

    Its function blocks, and is None unless a model is set and hybrid search is on.
    """
    function = getattr(getattr(app, "state", None), "RERANKING_FUNCTION", None)
    if function is None:
        raise RerankError("Open WebUI has no reranking model: set one and switch hybrid search on")
    documents = [RerankedText(text) for text in texts]
    try:
        found = await in_daemon_thread(lambda: function(query, documents))
        scores = [float(score) for score in found]
    except Exception as error:  # whatever a model raises or returns; None where it failed
        reason = discreet(error, [query, *texts])
        raise RerankError(f"the reranking model failed: {reason}") from None
    if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
        raise RerankError(f"the reranking model gave no usable scores for {len(texts)} lessons")
    return scores


def discreet(error: Exception, texts: Sequence[str]) -> str:
    """Return an error's first line, masked; only its type where it repeats one of the texts."""
    line = first_line(error)
    return type(error).__name__ if any(repeats(line, text) for text in texts) else mask(line)


def host_prefixes() -> tuple[str, str]:
    """Return Open WebUI's query and content prefixes, empty where none are set."""
    config = host_module("open_webui.config")
    query = getattr(config, "RAG_EMBEDDING_QUERY_PREFIX", None)
    content = getattr(config, "RAG_EMBEDDING_CONTENT_PREFIX", None)
    return query or "", content or ""


async def host_model_name() -> str:
    """Return the engine's name for messages, empty when it cannot be told."""
    try:
        settings = host_module("open_webui.models.config").Config
        engine = await settings.get("rag.embedding_engine")
        model = await settings.get("rag.embedding_model")
    except Exception:  # only a name in a message
        return ""
    return f"{engine or 'sentence-transformers'}:{Path(str(model)).name}"


def detached_request(app: Any) -> Any:
    """Return a request of our own: the turn's is shared with follow-up and tag calls."""
    from starlette.requests import Request

    address = ("127.0.0.1", 80)
    return Request(
        {
            "type": "http",
            "method": "POST",
            "path": "/lessons-loop",
            "query_string": b"",
            "headers": [],
            "client": address,
            "server": address,
            "scheme": "http",
            "app": app,
        }
    )


async def host_model_id(app: Any, chosen: str, chat_model: str) -> str:
    """Return the model to distill with: the valve's, the task model, else the chat's."""
    models = getattr(getattr(app, "state", None), "MODELS", None) or {}
    if chosen:
        return chosen
    try:
        settings = host_module("open_webui.models.config").Config
        task = await settings.get("task.model.default")
        external = await settings.get("task.model.external")
        choose = host_module("open_webui.utils.task").get_task_model_id
        return str(choose(chat_model, task, external, models))
    except Exception as error:  # a changed name in another release
        reason = first_line(error)
        raise ModelError(
            f"the task model cannot be told: {reason}; set the valve `distill_model`"
        ) from None


async def ask_host_model(
    app: Any, model: str, user_id: str, messages: Sequence[Mapping[str, str]]
) -> ChatReply:
    """Ask one of Open WebUI's own models in this process; raise ModelError.

    No filter runs on this path, so it cannot recurse into this plugin.
    """
    try:
        user = await host_module("open_webui.models.users").Users.get_user_by_id(user_id)
        form = {"model": model, "messages": list(messages), "stream": False, "temperature": 0.1}
        # the workspace model's own system prompt would compete with ours
        complete = host_module("open_webui.utils.chat").generate_chat_completion
        answer = await complete(
            detached_request(app), form, user, bypass_filter=True, bypass_system_prompt=True
        )
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():  # the server ends, or the time is over
            raise
        raise ModelError(f"model {model} gave up: a part of its own was cancelled") from None
    except Exception as error:  # unknown model, provider down, another Open WebUI
        reason = discreet(error, [message["content"] for message in messages[1:]])
        raise ModelError(f"model {model} could not be asked: {reason}") from None
    if not isinstance(answer, dict):
        status = getattr(answer, "status_code", "")
        raise ModelError(f"model {model} answered with an error {status}".rstrip())
    return reply_from_completion(answer)


class StoredAnswer(NamedTuple):
    """An answer of a saved chat, as Open WebUI has it now."""

    messages: tuple[Any, ...]
    """The branch from the chat's first message to this one, as an outlet gets it."""
    user: str
    model: str
    """Id of the chat model, empty where it is not kept."""


class AnswerSource(Protocol):
    """Where unfinished answers and the wishes of today are read."""

    async def answer(self, chat: str, message: str) -> StoredAnswer | None:
        """Return an answer, None where it is there no more."""

    async def valves(self, plugin: str) -> Mapping[str, Any] | None:
        """Return a function's valves as set now, None where it is not active."""

    async def own_valves(self, plugin: str, user: str) -> Mapping[str, Any]:
        """Return a user's own valves of it."""


class HostAnswers:
    """The saved chats of the Open WebUI in this process; satisfies AnswerSource."""

    async def answer(self, chat: str, message: str) -> StoredAnswer | None:
        """Read what `outlet_filter_handler` reads, in the same shape."""
        chats = host_module("open_webui.models.chats").Chats
        misc = host_module("open_webui.utils.misc")
        row = await chats.get_chat_by_id(chat)
        found = await chats.get_messages_map_by_chat_id(chat) if row else None
        branch = misc.get_message_list(found or {}, message)
        if row is None or not branch:
            return None
        told = tuple(outlet_message(m, misc.get_output_text) for m in branch)
        return StoredAnswer(told, str(row.user_id), str(branch[-1].get("model") or ""))

    async def valves(self, plugin: str) -> Mapping[str, Any] | None:
        """Read them; the instance's own are as of the last chat in this process."""
        functions = host_module("open_webui.models.functions").Functions
        function = await functions.get_function_by_id(plugin)
        if function is None or not function.is_active:
            return None
        return await functions.get_function_valves_by_id(plugin) or {}

    async def own_valves(self, plugin: str, user: str) -> Mapping[str, Any]:
        """Read them; raise StoreError where they cannot be: nobody may count as willing then."""
        functions = host_module("open_webui.models.functions").Functions
        own = await functions.get_user_valves_by_id_and_user_id(plugin, user)
        if own is None:  # its own error is swallowed; a user without valves has an empty set
            raise StoreError("a user's own valves cannot be read")
        return dict(own)


def outlet_message(message: Mapping[str, Any], text_of: Callable[[Any], str]) -> dict[str, Any]:
    """Return a stored message as the outlet gets it, without what we do not read."""
    kept = {name: message[name] for name in ("output", "sources") if message.get(name)}
    content = message.get("content") or text_of(message.get("output"))
    return {"id": message.get("id"), "role": message.get("role"), "content": content} | kept
