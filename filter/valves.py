"""Valves that never raise: whatever the settings page can store gives usable values.

A `Valves` that refuses a stored value breaks every chat, so an unusable value
becomes the default, with one warning that names the field.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from lessons_loop.filter.models import DomainName

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
