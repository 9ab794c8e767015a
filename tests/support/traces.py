"""Every byte under a store, and which files hold a text."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path


def everything(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Every byte under a store, packed snapshots unpacked too."""
    for file in root.rglob("*"):
        if file.is_file():
            yield file, file.read_bytes()
        if file.name.endswith(".tar.gz"):
            with tarfile.open(file) as tar:
                for member in tar:
                    part = tar.extractfile(member)
                    assert part is not None
                    yield file / member.name, part.read()


def naming(root: Path, *needles: str) -> list[str]:
    """Return the files that hold one of the texts."""
    found = [
        str(file.relative_to(root))
        for file, content in everything(root)
        if any(needle.encode() in content for needle in needles)
    ]
    return [name for name in found if not name.startswith("server")]
