"""A tool's result as the model reads it, and whether it failed: as Open WebUI 0.12.4 decides."""

from __future__ import annotations

import json
from typing import Any

_FAILED_STARTS = ("error:", "exception:", "traceback", "http error!")
DEPTH = 8
"""JSON in JSON in JSON: further down nobody looks."""


def result_text(name: str, result: Any) -> str:
    """Return what stands in the tool's message; nothing for an empty result."""
    if isinstance(result, str) and result.startswith("data:image/"):
        return f"{name}: the result is an image."
    if isinstance(result, tuple):
        result = result[0] if result else ""
    if isinstance(result, list):
        result = {"results": result}
    if isinstance(result, dict):
        return json.dumps(result, indent=2, ensure_ascii=False, default=str)
    if not isinstance(result, str) and isinstance(body := getattr(result, "body", None), bytes):
        return body.decode("utf-8", "replace")  # a response object
    return str(result) if result else ""


def is_tool_error(text: str) -> bool:
    """Say whether a result tells of a failure, by its first words or by its JSON."""
    if text.strip().lower().startswith(_FAILED_STARTS):
        return True
    found: Any = text
    for _ in range(DEPTH):
        if not isinstance(found, str):
            break
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return False
    return isinstance(found, dict) and _tells_failure(found)


def _tells_failure(found: dict[str, Any]) -> bool:
    status = found.get("status")
    if _says(found.get("error")):
        return True
    if isinstance(status, str) and status.strip().lower() in ("error", "failed"):
        return True
    denied = found.get("success") is False or found.get("ok") is False
    return denied and _says(found.get("message"))


def _says(value: Any) -> bool:
    return (
        bool(value.strip())
        if isinstance(value, str)
        else isinstance(value, dict | list) and bool(value)
    )
