"""Valves given on a command line: checked before they are sent, unlike the lenient plugin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.models import DomainName
from lessons_loop.filter.server import is_server, parse_server
from lessons_loop.filter.valves import LessonsValves, adapter_of, in_range

WORDS = {int: "a whole number, 0 or more", bool: "true or false", str: "text"}


def read_valves(
    given: Sequence[str], store: str = "", domain: str = "", *, distill: bool = False
) -> dict[str, object]:
    """Return valve values by name, None for the default; raise ValueError with one line.

    The options win over `NAME=VALUE`: a contradiction is refused.
    """
    pairs = [split_pair(pair) for pair in given]
    pairs += [("store", store)] if store.strip() else []
    pairs += [("domains", domain)] if domain.strip() else []
    pairs += [("distill_enabled", "true")] if distill else []
    found: dict[str, object] = {}
    for name, text in pairs:
        value = read_valve(name, text)
        if name in found and found[name] != value:
            raise ValueError(f"{name} is given twice with different values")
        found[name] = value
    return found


def split_pair(pair: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`; raise ValueError."""
    name, sign, value = pair.partition("=")
    if not sign or not name.strip():
        raise ValueError(f"{name[:40]!r} is no NAME=VALUE")
    return name.strip(), value.strip()


def read_valve(name: str, text: str) -> object:
    """Return one valve's value, None for an empty one; raise ValueError."""
    fields = LessonsValves.model_fields
    if name not in fields:
        near = get_close_matches(name, fields, 3) or fields
        raise ValueError(f"there is no valve {name[:40]!r}, but {', '.join(near)}")
    if not text.strip():
        return None
    annotation: Any = fields[name].annotation
    wrong = f"valve {name} takes {WORDS.get(annotation, 'another value')}"
    try:
        value = in_range(name, adapter_of(annotation).validate_python(text.strip()))
    except (ValidationError, ValueError, OverflowError):
        shown = "" if name in secret_valves() else f", got {text[:40]!r}"
        raise ValueError(f"{wrong}{shown}") from None
    check_meaning(name, str(value))
    return value


def check_meaning(name: str, value: str) -> None:
    """Raise ValueError for a text the plugin would replace by its default."""
    if name == "domains":
        for domain in filter(None, (part.strip() for part in value.split(","))):
            try:
                adapter_of(DomainName).validate_python(domain.lower())
            except ValidationError:
                raise ValueError(f"{domain[:40]!r} is no domain: a-z, 0-9 and '-'") from None
    if name == "min_similarity" and not re.fullmatch(r"0?\.\d+|0|1|1\.0*|0\.", value):
        raise ValueError(f"valve min_similarity takes a number from 0 to 1, got {value[:40]!r}")
    if name == "store" and is_server(value):
        try:
            parse_server(value)
        except StoreError as error:
            raise ValueError(str(error)) from None
    elif name == "store" and not Path(value).is_absolute():
        raise ValueError("the store is a folder on Open WebUI's machine: give its absolute path")


def secret_valves() -> tuple[str, ...]:
    """Return the names of the valves whose values are never shown."""
    fields = LessonsValves.model_fields.items()
    return tuple(name for name, field in fields if field.json_schema_extra)
