"""Curated lessons on a Chroma server, as recall reads them.

Covered: pages under one time limit; a collection made anew or changed while it is read;
unusable rows and vectors (left out, told); more rows than recall may hold. A server that
suddenly holds nothing is not believed: a domain the gate emptied has a higher `rev`.
Not covered: a row the gate writes while a page is drawn may be missing until the next look.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.server import ServerAddress, open_server, server_errors
from lessons_loop.filter.server_rows import CuratedHeader, joined, note_of, read_header, read_page
from lessons_loop.filter.shelves import Shelf, Stamp
from lessons_loop.filter.store import collection_names

LESSONS_MOST = 100_000
"""Rows of one domain kept in memory: 150 MB at 384 dimensions."""
LOAD_SECONDS = 300.0
PAGE_ROWS = 2_000
PAGE_NUMBERS = 100_000
"""Vector numbers per page: 10,000 lessons load in 5 to 8 s without stalls above 60 ms."""
SHELF_ANSWER_LIMIT = 64 * 2**20


class CuratedServer:
    """Curated collections of a Chroma server, read through one connection kept open."""

    def __init__(
        self,
        address: ServerAddress,
        token: str = "",
        *,
        seconds: float = 5.0,
        load_seconds: float = LOAD_SECONDS,
        most: int = LESSONS_MOST,
    ) -> None:
        self.address, self.seconds = address, seconds
        self.load_seconds, self.most = load_seconds, most
        self._token = token
        self._client: Any = None

    @property
    def place(self) -> str:
        """Return the server's address."""
        return f"lesson store {self.address.url}"

    def fetch(self, domain: str, known: Shelf | None) -> Shelf:
        """Read the collection when its id, `rev` or calibration changed."""
        with self._connected() as client:
            try:
                with server_errors(self.place):
                    return self._fetch(client, domain, known)
            except StoreMissing:  # made anew between two calls: its name leads to the new one
                return self._fetch(client, domain, known)

    def close(self) -> None:
        """Close the connection; the next fetch opens another."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            if self._client is None:
                self._client = open_server(
                    self.address,
                    "curated",
                    token=self._token,
                    seconds=self.seconds,
                    answer_limit=SHELF_ANSWER_LIMIT,
                )
            with server_errors(self.place):
                yield self._client
        except BaseException:  # whatever it was, the next fetch begins with a fresh look
            self.close()
            raise

    def _fetch(self, client: Any, domain: str, known: Shelf | None) -> Shelf:
        deadline = time.monotonic() + self.load_seconds
        name = collection_names(domain)["curated"]
        found = self._find(client, name)
        if found is None:
            return self._without(name, known)
        stamp, header, collection = found
        if known is not None and known.stamp == stamp:
            return known
        count = collection.count()
        self._refuse_emptied(name, header, count, known)
        drawn, rows = self._draw(collection, header, count, deadline)
        self._refuse_unusable(name, count, drawn, known)
        after = self._find(client, name)
        as_counted = rows == min(count, self.most)
        if not as_counted or after is None or after[0] != stamp:
            return known or drawn._replace(stamp=None)  # the gate is writing: at the next look
        return drawn._replace(stamp=stamp)

    def _find(self, client: Any, name: str) -> tuple[Stamp, CuratedHeader, Any] | None:
        try:
            with server_errors(self.place):
                collection = client.get_collection(name, embedding_function=None)
        except StoreMissing:
            return None
        header = read_header(collection.metadata, f"{self.place}: {name}")
        return (str(collection.id), header.rev, header.calibrated_rev), header, collection

    def _without(self, name: str, known: Shelf | None) -> Shelf:
        if known is None or known.lessons is None or not known.lessons.keys:
            return known or Shelf(None, None)  # a domain nobody has initialised yet
        raise StoreMissing(
            f"{self.place}: {name} is gone: restore the server's data, or run "
            f"`lessons init --store {self.address.url}`"
        )

    def _refuse_emptied(
        self, name: str, header: CuratedHeader, count: int, known: Shelf | None
    ) -> None:
        before = known.lessons if known else None
        if count or before is None or not before.keys or header.rev > before.header.rev:
            return
        raise StoreMissing(
            f"{self.place}: {name} is empty, but no newer than the lessons read before: restore "
            "the server's data; to begin anew, restart Open WebUI"
        )

    def _refuse_unusable(self, name: str, count: int, drawn: Shelf, known: Shelf | None) -> None:
        before = known.lessons if known else None
        if count and before and before.keys and not (drawn.lessons and drawn.lessons.keys):
            raise StoreError(
                f"{self.place}: {name}: none of {count} rows can be used: "
                f"{drawn.note.partition(': ')[2] or 'run `lessons verify`'}"
            )

    def _draw(
        self, collection: Any, header: CuratedHeader, count: int, deadline: float
    ) -> tuple[Shelf, int]:
        """Return the shelf and how many rows came."""
        try:
            published = header.published(0)
        except (ValueError, TypeError):
            raise StoreError(
                f"{self.place}: {collection.name} has an unreadable header: run `lessons publish`"
            ) from None
        pages = [
            read_page(page, header.domain, published.dimension)
            for page in self._pages(collection, published.dimension, count, deadline)
        ]
        rows = sum(len(page.lines) + page.bad_rows + page.bad_vectors for page in pages)
        note = note_of(collection.name, pages, count, self.most)
        return Shelf(None, joined(published, pages), note), rows

    def _pages(self, collection: Any, dimension: int, count: int, deadline: float) -> Iterator[Any]:
        include = ["documents", "metadatas", *(["embeddings"] if dimension else [])]
        size = max(50, min(PAGE_ROWS, PAGE_NUMBERS // max(1, dimension)))
        for offset in range(0, max(1, min(count, self.most)), size):
            if time.monotonic() > deadline:
                raise StoreUnreachable(
                    f"{self.place}: reading {collection.name} takes more than "
                    f"{self.load_seconds:g} s"
                )
            yield collection.get(
                limit=min(size, self.most - offset), offset=offset, include=include
            )
