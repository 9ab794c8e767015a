"""What a gate works on: the store of a setting and its state directory."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.schema import MARK_FIELD, SCHEMA, refuse_newer
from lessons_loop.filter.server import ServerAddress, is_server, parse_server, server_token
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.errors import StoreOlder, WrongState
from lessons_loop.promote.files import write_atomic
from lessons_loop.promote.store.curated import Header
from lessons_loop.promote.store.places import FolderStore
from lessons_loop.promote.store.server_lock import LOCK_TERM
from lessons_loop.promote.store.server_place import CALL_SECONDS, ServerStore

_DOMAIN = re.compile(r"^[a-z0-9][a-z0-9-]{0,39}$")
Located = FolderStore | ServerStore


def clean_domain(value: str) -> str:
    """Return a domain name without stray white space; raise StoreError when it is none."""
    name = value.strip()
    if not _DOMAIN.match(name):
        raise StoreError(
            f"domain {value[:60]!r} is not allowed: "
            "1 to 40 of a-z, 0-9 and '-', beginning with a letter or digit"
        )
    return name


def locate(
    store: str,
    state: Path | None,
    lock_term: float = LOCK_TERM,
    call_seconds: float = CALL_SECONDS,
) -> Located:
    """Return a store by its setting, a folder or a URL; raise StoreError. Asks nobody.

    Raises StoreNewer where a later release keeps the state directory.
    """
    if not is_server(store):
        paths = store_paths(store)
        return FolderStore(paths, state_folder(state, paths))
    address, chosen = parse_server(store), _given_folder(state)
    if chosen is None:
        raise StoreError(
            f"lesson store {address.url} needs a state directory of its own: pass --state-dir "
            "or set LESSONS_STATE"
        )
    refuse_newer_state(chosen)
    return ServerStore(address, chosen, server_token(), lock_term, call_seconds)


def store_paths(store: str) -> StorePaths:
    """Return the paths of a store folder; raise StoreError for anything else."""
    place = store.strip()
    if not place:
        raise StoreError("no store given: pass --store or set LESSONS_STORE")
    if is_server(place):
        raise StoreError(f"{parse_server(place).url} is no folder")
    return StorePaths(Path(place).expanduser().absolute())


def state_of(store: str, state: Path | None) -> Path:
    """Return the state directory alone, for what works without a store; raise StoreError."""
    if chosen := _given_folder(state):
        refuse_newer_state(chosen)
        return chosen
    if is_server(store):
        return locate(store, state).state
    paths = store_paths(store)
    if not paths.root.is_dir():
        raise StoreError(
            f"no lesson store in {paths.root}: check --store and --state-dir, "
            f"or run `lessons init --store {paths.root}`"
        )
    return state_folder(None, paths)


def state_folder(given: Path | None, paths: StorePaths) -> Path:
    """Return the state directory of a folder store, stray white space of a setting removed.

    Raises StoreNewer.
    """
    folder = _given_folder(given) or paths.state.absolute()
    refuse_newer_state(folder)
    return folder


def _given_folder(given: Path | None) -> Path | None:
    place = str(given).strip() if given else ""
    return Path(place).expanduser().absolute() if place else None


def existing_store(store: str) -> StorePaths | ServerAddress:
    """Return where a store is that was made, if only what was staged; raise StoreError.

    A server is not asked: whoever opens it learns what is missing.
    """
    if is_server(store):
        return parse_server(store)
    paths = store_paths(store)
    if not any(folder.is_dir() for folder in (paths.gate, paths.staging, paths.spool)):
        raise StoreError(
            f"no lesson store in {paths.root}: run `lessons init --store {paths.root}`"
        )
    return paths


def ensure_state_id(state: Path, headers: Sequence[Header]) -> str:
    """Return the id of the state directory, made where no curated names one yet.

    Raises WrongState when curated belongs to another state directory.
    """
    found = read_state_id(state)
    for header in headers:
        if header.state_id != found:  # in a cluster: another volume under the same path
            raise WrongState(
                f"{header.domain}'s state {header.state_id} is expected in {header.state_dir}; "
                f"{state} holds {found or 'none'}: pass --state-dir, or put that folder back"
            )
    if found:
        return found
    made = secrets.token_hex(8)
    _write_state(state, {"state_id": made, MARK_FIELD: SCHEMA})
    return made


def refuse_newer_state(state: Path) -> None:
    """Raise StoreNewer where a later release keeps the directory."""
    refuse_newer(_read_state(state), f"state directory {state}")


def mark_state(state: Path, schema: int) -> None:
    """Let a state directory say which schema its files have; raise WrongState, StoreError."""
    known = {"state_id": read_state_id(state), MARK_FIELD: schema}
    if _read_state(state) != known and known["state_id"]:
        _write_state(state, known)


def refuse_older(headers: Sequence[Header], store: str) -> None:
    """Raise StoreOlder where a domain is of an earlier release: nothing is written into it.

    Not migrated by the way: going back to the earlier release, and its plugins at work, stay
    possible until a person says so.
    """
    oldest = min((header.schema_version for header in headers), default=SCHEMA)
    if oldest < SCHEMA:
        raise StoreOlder(
            f"lesson store {store} has schema {oldest}, this release writes {SCHEMA}: "
            "run `lessons migrate`"
        )


def _read_state(state: Path) -> dict[str, object]:
    try:
        found = json.loads((state / "state.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_state(state: Path, content: dict[str, object]) -> None:
    write_atomic(state / "state.json", json.dumps(content).encode())


def read_state_id(state: Path) -> str:
    """Return the id a state directory carries, "" when it carries none."""
    try:
        return str(json.loads((state / "state.json").read_text("utf-8"))["state_id"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        raise WrongState(f"{state / 'state.json'} cannot be read: restore it") from None
