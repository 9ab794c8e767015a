"""Read the compose file as Compose does: schema, merged anchors, variables put in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

from support.image import ROOT

FILE = ROOT / "deploy" / "compose.yaml"
EXAMPLE = ROOT / "deploy" / "compose.env.example"
_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?:(?P<how>:[-?])(?P<rest>[^}]*))?\})")


class Unset(AssertionError):
    """A variable that must be set is not."""


def load(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the file as a mapping; raise Unset where a needed variable is missing."""
    found = filled(yaml.safe_load(FILE.read_text("utf-8")), environ)
    return dict(found)


def filled(value: Any, environ: Mapping[str, str]) -> Any:
    """Return a value with its variables put in."""
    if isinstance(value, dict):
        return {name: filled(part, environ) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, environ) for part in value]
    return (
        _VARIABLE.sub(lambda found: _put(found, environ), value)
        if isinstance(value, str)
        else value
    )


def _put(found: re.Match[str], environ: Mapping[str, str]) -> str:
    if found["escaped"]:
        return "$"
    value = environ.get(found["name"], "")
    if value or found["how"] is None:
        return value
    if found["how"] == ":?":
        raise Unset(f"{found['name']}: {found['rest']}")
    return found["rest"]


def schema() -> dict[str, Any]:
    """Return the compose specification's schema, as check-jsonschema carries it."""
    place = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    return dict(json.loads(place.read_text("utf-8")))


def example() -> dict[str, str]:
    """Return the variables the example file names."""
    lines = EXAMPLE.read_text("utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}
