"""A store on a Chroma server: databases `curated`, `staging` and `gate` of one tenant.

What is the gate's own (ledger, journal, snapshots, salt) lies in a state directory beside it,
whose lock keeps a second gate of the same host away; other hosts meet the lock collection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lessons_loop.filter.errors import StoreError, StoreMissing
from lessons_loop.filter.server import (
    ServerAddress,
    check_heartbeat,
    open_server,
    server_errors,
)
from lessons_loop.filter.server_session import BoundedSession
from lessons_loop.promote.files import private_folder
from lessons_loop.promote.store.chroma import load_chroma
from lessons_loop.promote.store.lock import gate_lock
from lessons_loop.promote.store.places import Clients
from lessons_loop.promote.store.replaced import refuse_replaced
from lessons_loop.promote.store.rows import chroma_errors
from lessons_loop.promote.store.server_lock import LOCK_TERM, server_lock

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

CALL_SECONDS = 10.0
DATABASES = ("curated", "staging", "gate")
SHORT_ANSWER = 2**20


@dataclass(frozen=True)
class ServerStore:
    """A tenant of a Chroma server, and the state directory that goes with it."""

    address: ServerAddress
    state: Path
    token: str = field(default="", repr=False)
    lock_term: float = LOCK_TERM
    call_seconds: float = CALL_SECONDS

    @property
    def title(self) -> str:
        """The address."""
        return self.address.url

    @property
    def state_lock(self) -> Path:
        """Keeps a second gate of this host away."""
        return self.state / "gate.lock"

    def make_layout(self) -> None:
        """Make the state directory."""
        private_folder(self.state)

    def published(self, domain: str) -> Path | None:
        """Return None: recall reads curated itself."""
        return None

    def client(self, database: str) -> ClientAPI:
        """Open one database; raise StoreUnreachable, StoreMissing, StoreError."""
        load_chroma()
        try:
            return open_server(self.address, database, token=self.token, seconds=self.call_seconds)
        except StoreMissing:
            if database != "staging":
                refuse_replaced(self.state, f"lesson store {self.title}", f"database {database}")
            raise

    @contextmanager
    def opened(self, domain: str, now: Callable[[], datetime]) -> Iterator[Clients]:
        """Hold both locks and two clients."""
        with self.told(), gate_lock(self.state_lock, now), ExitStack() as stack:
            curated = stack.enter_context(self.closing("curated"))
            gate = stack.enter_context(self.closing("gate"))

            @contextmanager
            def lock_also(other: str) -> Iterator[None]:
                with self.lock(gate, other):
                    yield

            lock = stack.enter_context(self.lock(gate, domain))
            yield Clients(curated, gate, lock.check, lock_also)

    def lock(self, gate: ClientAPI, domain: str) -> Any:
        """Hold a domain's lock; raise LockHeld."""
        return server_lock(lambda: self.client("gate"), gate, domain, self.lock_term)

    @contextmanager
    def staging(self, *, create: bool = False) -> Iterator[ClientAPI | None]:
        """Open the staging database."""
        with self.told(), self.closing("staging") as client:
            yield client

    def closing(self, database: str) -> AbstractContextManager[ClientAPI]:
        """Open one database for a block."""
        return closing(self.client(database))  # type: ignore[type-var]

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let errors of the store name it."""
        try:
            yield
        except StoreError as error:
            text = str(error)
            if self.address.base not in text and str(self.state) not in text:
                error.args = (f"lesson store {self.title}: {text}",)
            raise

    def domains(self) -> list[str]:
        """Return the domains that have a curated collection; raise StoreError."""
        with self.told(), self.closing("curated") as client, chroma_errors("curated"):
            found = [collection.metadata or {} for collection in client.list_collections()]
        return sorted(
            {str(one["domain"]) for one in found if {"schema_version", "domain"} <= {*one}}
        )

    def make_databases(self) -> None:
        """Create tenant and databases where they are missing; raise StoreError."""
        base = f"{self.address.base}/api/v2/tenants"
        with (
            closing(BoundedSession(self.token, self.call_seconds, SHORT_ANSWER)) as session,
            server_errors(f"lesson store {self.title}"),
        ):
            check_heartbeat(session, self.address)
            self._ensure(session, base, self.address.tenant, "tenant")
            for name in DATABASES:
                self._ensure(session, f"{base}/{self.address.tenant}/databases", name, "database")

    def _ensure(self, session: BoundedSession, base: str, name: str, what: str) -> None:
        answer = session.request("GET", f"{base}/{name}")
        if answer.status_code == 200 and answer.json() is not None:
            return
        if answer.status_code != 404:
            raise StoreError(f"{what} {name} cannot be asked for (HTTP {answer.status_code})")
        if name != "staging":  # nothing anybody decided is lost with it
            refuse_replaced(self.state, f"lesson store {self.title}", f"{what} {name}")
        made = session.request("POST", base, content=json.dumps({"name": name}))
        if made.status_code not in (200, 201, 409):  # 409: somebody else made it just now
            raise StoreError(f"{what} {name} cannot be created (HTTP {made.status_code})")
