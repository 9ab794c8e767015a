"""Read a hand-written rule list: text in UTF-8, of bounded size, or one line saying why not."""

from __future__ import annotations

import stat
from pathlib import Path

from lessons_loop.filter.errors import InvalidLesson

SOURCE_LIMIT = 5_000_000
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""How UTF-16 and UTF-32 files begin."""


class BadSource(InvalidLesson):
    """A rule list that cannot be read."""


def read_source(path: Path) -> str:
    """Return the file's text with plain line ends and without a byte order mark."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadSource(f"{path} is no regular file")
        if found.st_size > SOURCE_LIMIT:
            raise BadSource(f"{path} is larger than {SOURCE_LIMIT // 1_000_000} MB: split it")
        content = path.read_bytes()
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {(error.strerror or '').lower()}") from None
    return _decoded(content, path)


def _decoded(content: bytes, path: Path) -> str:
    if content.startswith(_WIDE):
        raise BadSource(f"{path} is UTF-16: save it as UTF-8")
    if b"\x00" in content:
        raise BadSource(f"{path} is binary: a rule list is Markdown or plain text in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSource(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
