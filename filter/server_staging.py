"""Staging on a Chroma server: rows are added, never read, and no collection is made.

An acknowledged add is stored. An id the server has already is left as it is, so that
repeating a batch whose answer was lost changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.models import Record
from lessons_loop.filter.server import ServerAddress, open_server, server_errors
from lessons_loop.filter.store import STAGING_VECTOR


class ServerStaging:
    """Adds rows to the database `staging`; its connection stays open between batches."""

    def __init__(self, address: ServerAddress, token: str = "") -> None:
        self.address, self._token = address, token
        self._client: Any = None
        self._lock = threading.Lock()

    def store(
        self, rows: Mapping[str, Sequence[Record]], seconds: float
    ) -> Mapping[str, StoreError]:
        """Add rows by collection; raise StoreUnreachable, StoreMissing, StoreError."""
        with self._lock:
            try:
                return self._store(rows, seconds)
            except BaseException:  # whatever it was, the next batch begins with a fresh look
                self._drop()
                raise

    def close(self) -> None:
        """Close the connection once a running batch is through; the next opens another."""
        with self._lock:
            self._drop()

    def _store(
        self, rows: Mapping[str, Sequence[Record]], seconds: float
    ) -> Mapping[str, StoreError]:
        refused: dict[str, StoreError] = {}
        place = f"lesson store {self.address.url}"
        if self._client is None:
            self._client = open_server(self.address, "staging", token=self._token, seconds=seconds)
        for name, records in rows.items():
            try:
                with server_errors(place):
                    add_rows(self._client, name, records)
            except StoreMissing:
                refused[name] = StoreMissing(
                    f"{place}: {name} is missing: run `lessons init --store {self.address.url}`"
                )
            except StoreUnreachable:
                raise
            except StoreError as error:  # another shape than ours: the others' rows go on
                refused[name] = error
        return refused

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def add_rows(client: Any, name: str, records: Sequence[Record]) -> None:
    """Add rows to an existing collection; raises what Chroma raises."""
    client.get_collection(name, embedding_function=None).add(
        ids=[record.id for record in records],
        documents=[record.document for record in records],
        metadatas=[dict(record.metadata) for record in records],
        embeddings=[STAGING_VECTOR] * len(records),
    )
