"""Seed folders for tests: a third domain, and a store's bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

WEATHER = {
    "rain-in-mm": "Read rainfall in the table rain as millimetres per hour.",
    "gust-column": "Take gusts from wind.gust_ms, never from the mean wind speed.",
}


def write_seeds(folder: Path, texts: dict[str, str], file: str = "all.yaml") -> Path:
    """Write one seed file of plain lessons; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"- id: {ident}\n  kind: schema-map\n  trigger: weather readings\n"
        f"  text: {json.dumps(text, ensure_ascii=False)}\n"
        for ident, text in texts.items()
    ]
    (folder / file).write_text("".join(rows), "utf-8")
    return folder


def tree_hash(root: Path) -> str:
    """Return a hash over every file's name and bytes below `root`."""
    total = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        total.update(f"{path.relative_to(root)}\0{len(content)}\0".encode() + content)
    return total.hexdigest()
