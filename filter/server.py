"""A lesson store on a Chroma server: its address, and a client whose every call ends.

Covered: no setting of the environment or of a `.env` is read, no proxy of the environment
is used; redirects are not followed; each step of a call has a time limit and each answer a
size limit; errors are one line without the token.
Not covered: what the server's other users may do (a proxy's matter); certificates beyond
what httpx trusts (`SSL_CERT_FILE`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from lessons_loop.filter.address import public_url
from lessons_loop.filter.errors import LessonsError, StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.redact import mask
from lessons_loop.filter.server_session import BoundedSession
from lessons_loop.filter.store import first_line, import_chromadb

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.config import Settings

DEFAULT_TENANT = "default_tenant"
SERVER_SECONDS = 5.0
ANSWER_LIMIT = 256 * 2**20
"""Bytes of one answer; a page of 2,000 rows with 3,072 numbers each has 75 MB."""
_WEB = re.compile(r"\s*https?:", re.IGNORECASE)
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{2,127}")
_HOST = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_.~-]+)*")
_PORTS = {"http": 80, "https": 443}
_GIVE = "give a folder or http(s)://host[:port][/prefix][?tenant=NAME]"


@dataclass(frozen=True)
class ServerAddress:
    """Where a store's server is; holds no secret."""

    host: str
    port: int
    ssl: bool = False
    prefix: str = ""
    tenant: str = DEFAULT_TENANT

    @property
    def base(self) -> str:
        """Return the address Chroma's own paths are appended to."""
        scheme = "https" if self.ssl else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[scheme] else f":{self.port}"
        return f"{scheme}://{host}{port}{self.prefix}"

    @property
    def url(self) -> str:
        """Return the store setting that means this address; safe to print."""
        query = "" if self.tenant == DEFAULT_TENANT else f"?{urlencode({'tenant': self.tenant})}"
        return f"{self.base}{query}"


def is_server(setting: str) -> bool:
    """Say whether a store setting means a server, a mistyped one too; any other is a folder."""
    return "://" in setting or _WEB.match(setting) is not None


def parse_server(setting: str) -> ServerAddress:
    """Return the address of a store setting; raise StoreError naming what is wrong."""
    cleaned = setting.strip()
    if "@" in cleaned:  # wherever it stands: a password may hold `/`, `?` and `#`
        raise StoreError(
            "the store's address has a user or password: give the token as `chroma_token` "
            f"(LESSONS_CHROMA_TOKEN), and {_GIVE.removeprefix('give ')}"
        )
    shown = f"the store {public_url(cleaned)[:80]!r}"
    try:
        parts = urlsplit(cleaned)
        host, port = parts.hostname or "", parts.port
        pairs = parse_qsl(parts.query, True, strict_parsing=True) if parts.query else []
    except ValueError:
        raise StoreError(f"{shown} is no usable address: {_GIVE}") from None
    prefix = unquote(parts.path).rstrip("/")
    good = parts.scheme in _PORTS and _HOST.fullmatch(host) and _PREFIX.fullmatch(prefix)
    if not good or port == 0 or ".." in prefix or not cleaned.isprintable():
        raise StoreError(f"{shown} is no usable address: {_GIVE}")
    tenant = dict(pairs).get("tenant", DEFAULT_TENANT)
    if [name for name, _ in pairs] not in ([], ["tenant"]) or parts.fragment:
        raise StoreError(f"{shown} has more behind it than ?tenant=NAME: {_GIVE}")
    if not _TENANT.fullmatch(tenant):
        raise StoreError(
            f"{shown} has no usable tenant (3 to 128 of A-Z, a-z, 0-9, . _ -): {_GIVE}"
        )
    return ServerAddress(
        host, port or _PORTS[parts.scheme], parts.scheme == "https", prefix, tenant
    )


def server_token(given: str = "") -> str:
    """Return the token for a store's server: the given one, else LESSONS_CHROMA_TOKEN."""
    token = given.strip() or os.environ.get("LESSONS_CHROMA_TOKEN", "").strip()
    if not all("!" <= character <= "~" for character in token):
        raise StoreError("the lesson store's token has characters no header can carry")
    return token


def open_server(
    address: ServerAddress,
    database: str,
    *,
    token: str = "",
    seconds: float = SERVER_SECONDS,
    answer_limit: int = ANSWER_LIMIT,
) -> ClientAPI:
    """Return a client of one database whose every call ends; close it after use.

    `seconds` limits each step of a call: connecting, sending, the first byte, the whole rest.
    Raises StoreUnreachable, StoreMissing, StoreError.
    """
    import_chromadb()
    session = BoundedSession(token, seconds, answer_limit)
    try:
        with server_errors(f"lesson store {address.url}"):
            check_heartbeat(session, address)
            return _client(address, database, session)
    except BaseException:
        session.close()
        raise


def check_heartbeat(session: BoundedSession, address: ServerAddress) -> None:
    """Raise StoreUnreachable unless a Chroma server answers."""
    import httpx

    what = f"lesson store {address.url}"
    try:
        answer = session.request("GET", f"{address.base}/api/v2/heartbeat")
    except httpx.TransportError as error:
        silent = isinstance(error, httpx.TimeoutException)
        how = f"does not answer within {session.seconds:g} s" if silent else "cannot be reached"
        raise StoreUnreachable(f"{what} {how}: {transport_reason(error)}") from None
    try:
        alive = "nanosecond heartbeat" in answer.json()
    except (ValueError, TypeError):
        alive = False
    if not alive:
        raise StoreUnreachable(f"{what} answers, but is no Chroma server")


def _client(address: ServerAddress, database: str, session: BoundedSession) -> ClientAPI:
    """Build Chroma's client on our session; its own has no limit, not even while it is built."""
    client: ClientAPI = _client_class()(address, database, session)
    return client


@cache  # a class made for each client would outlive it until Python looks for circles
def _client_class() -> Any:
    from chromadb.api.client import Client
    from chromadb.auth import UserIdentity

    class BoundedClient(Client):
        """Works through our session from its first request on."""

        def __init__(self, address: ServerAddress, database: str, session: BoundedSession) -> None:
            self._address, self._session = address, session
            super().__init__(address.tenant, database, plain_settings(address))

        def get_user_identity(self) -> UserIdentity:
            use_session(self._server, self._session)
            return UserIdentity(user_id="")

        def _validate_tenant_database(self, tenant: str, database: str) -> None:
            admin: Any = self._admin_client
            use_session(admin._server, self._session)  # it has a server of its own
            try:
                self._admin_client.get_tenant(name=tenant)
                self._admin_client.get_database(name=database, tenant=tenant)
            except Exception as error:
                forget_systems(systems_of(self, admin))
                tell_missing(error, f"database {database}", self._address)

        def close(self) -> None:
            self._session.close()
            systems = systems_of(self, self._admin_client)
            super().close()
            forget_systems(systems)

    return BoundedClient


def systems_of(*clients: Any) -> list[Any]:
    """Return what Chroma keeps for these clients; nothing for closed ones."""
    from chromadb.api.shared_system_client import SharedSystemClient

    known = SharedSystemClient._identifier_to_system
    return [known[one._identifier] for one in clients if one._identifier in known]


def forget_systems(systems: Iterable[Any]) -> None:
    """Drop what Chroma 1.5.9 keeps of a closed client for ever: 1 MB each time (measured).

    It registers the client's system once more, and another one, under names nobody knows.
    """
    from chromadb.api.shared_system_client import SharedSystemClient

    known, gone = SharedSystemClient._identifier_to_system, list(systems)
    for name, system in list(known.items()):
        if any(system is one for one in gone):
            known.pop(name, None)
            SharedSystemClient._identifier_to_refcount.pop(name, None)


def plain_settings(address: ServerAddress) -> Settings:
    """Return Chroma's settings for an address, without environment and `.env`."""
    return _plain_class()(
        chroma_api_impl="chromadb.api.fastapi.FastAPI",
        chroma_server_host=address.base,  # only a whole URL may carry a prefix
        chroma_server_http_port=address.port,
        chroma_server_ssl_enabled=address.ssl,
        chroma_server_ssl_verify=False,  # of sessions that are replaced unused; ours verifies
        anonymized_telemetry=False,
    )


@cache  # a class of pydantic's costs more than a connection
def _plain_class() -> type[Settings]:
    from chromadb.config import Settings

    class PlainSettings(Settings):
        """Reads what it is given."""

        @classmethod
        def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
            return (sources["init_settings"],)

    return PlainSettings


def use_session(server: Any, session: BoundedSession) -> None:
    """Put our session in the place of the one Chroma made."""
    server._session.close()
    server._session = session


def tell_missing(error: Exception, name: str, address: ServerAddress) -> NoReturn:
    """Raise StoreMissing for Chroma's own "not found", else the error itself."""
    from chromadb.errors import NotFoundError

    if not isinstance(error, NotFoundError):
        raise error
    raise StoreMissing(
        f"lesson store {address.url}: {name} is missing: run `lessons init --store {address.url}`"
    ) from None


@contextmanager
def server_errors(what: str) -> Iterator[None]:
    """Turn whatever a call on a server raises into one line beginning with `what`.

    Raises StoreUnreachable (later may help), StoreMissing (no such collection), StoreError.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        raise
    except LessonsError as error:
        if str(error).startswith(what) or not isinstance(error, StoreError):
            raise
        raise type(error)(f"{what}: {error}") from None
    except BaseException as error:  # chromadb's Rust core panics with a BaseException
        raise _translated(error, what) from None


def _translated(error: BaseException, what: str) -> StoreError:
    import httpx
    from chromadb.errors import ChromaError, NotFoundError

    if isinstance(error, httpx.TransportError):
        return StoreUnreachable(f"{what}: the server does not answer: {transport_reason(error)}")
    if isinstance(error, NotFoundError):
        return StoreMissing(f"{what}: {mask(first_line(error))}")
    if isinstance(error, ChromaError) or type(error) is Exception:  # what it says of itself
        return StoreError(f"{what}: {mask(first_line(error))}")
    return StoreUnreachable(
        f"{what}: the server's answer makes no sense: {mask(first_line(error))}"
    )


def transport_reason(error: Exception) -> str:
    """Return why no answer came, in one line."""
    import httpx

    return "timed out" if isinstance(error, httpx.TimeoutException) else first_line(error)
