"""The env block for Open WebUI as its pods would get it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

BLOCK = Path(__file__).parents[2] / "deploy" / "openwebui.env.yaml"


class EnvBlock(NamedTuple):
    """What deploy/openwebui.env.yaml adds to a pod."""

    labels: dict[str, str]
    entries: list[dict[str, Any]]

    def resolved(self, secrets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return the variables a container gets; raise KeyError for a Secret that is missing."""
        return {entry["name"]: _value(entry, secrets) for entry in self.entries}


def env_block() -> EnvBlock:
    """Read the shipped block."""
    found = yaml.safe_load(BLOCK.read_text("utf-8"))
    assert set(found) == {"podLabels", "extraEnvVars"}
    return EnvBlock(found["podLabels"], found["extraEnvVars"])


def _value(entry: Mapping[str, Any], secrets: Mapping[str, Mapping[str, str]]) -> str:
    if "value" in entry:
        return str(entry["value"])
    reference = entry["valueFrom"]["secretKeyRef"]
    return secrets[reference["name"]][reference["key"]]
