"""The state directory: which store it belongs to, whether the gate is paused, folders."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.curated import Header
from lessons_loop.promote.errors import Paused, WrongState
from lessons_loop.promote.files import private_folder, public_folder, write_atomic

_DOMAIN = re.compile(r"^[a-z0-9][a-z0-9-]{0,39}$")
_YES = ("1", "true", "yes", "on")


def clean_domain(value: str) -> str:
    """Return a domain name without stray white space; raise StoreError when it is none."""
    name = value.strip()
    if not _DOMAIN.match(name):
        raise StoreError(
            f"domain {value[:60]!r} is not allowed: "
            "1 to 40 of a-z, 0-9 and '-', beginning with a letter or digit"
        )
    return name


def store_paths(store: str) -> StorePaths:
    """Return the paths of a store folder; raise StoreError for anything else."""
    place = store.strip()
    if not place:
        raise StoreError("no store given: pass --store or set LESSONS_STORE")
    if re.match(r"^[a-z]+://", place, re.IGNORECASE):
        raise StoreError("server stores are not supported yet: give a folder")
    return StorePaths(Path(place).expanduser().absolute())


def state_folder(given: Path | None, paths: StorePaths) -> Path:
    """Return the state directory, stray white space of a setting removed."""
    place = str(given).strip() if given else ""
    return (Path(place).expanduser() if place else paths.state).absolute()


def existing_store(store: str) -> StorePaths:
    """Return the paths of a store that is there, if only what was staged; raise StoreError."""
    paths = store_paths(store)
    if not any(folder.is_dir() for folder in (paths.gate, paths.staging, paths.spool)):
        raise StoreError(
            f"no lesson store in {paths.root}: run `lessons init --store {paths.root}`"
        )
    return paths


def refuse_paused(state: Path, environ: Mapping[str, str]) -> None:
    """Raise Paused when an administrator stopped the gate."""
    if environ.get("LESSONS_PAUSE", "").strip().lower() in _YES:
        raise Paused("the gate is paused by LESSONS_PAUSE: unset it to go on")
    flag = state / "paused"
    if flag.exists():
        raise Paused(f"the gate is paused by {flag}: remove it to go on")


def ensure_layout(paths: StorePaths, state: Path) -> None:
    """Make the folders: published is for everybody, the rest for the owner only."""
    public_folder(paths.root)
    public_folder(paths.published("x").parent)
    for folder in (paths.gate, paths.staging, paths.spool, state):
        private_folder(folder)


def ensure_state_id(state: Path, headers: Sequence[Header]) -> str:
    """Return the id of the state directory, made where no curated names one yet.

    Raises WrongState when curated belongs to another state directory.
    """
    found = read_state_id(state)
    for header in headers:
        if header.state_id != found:
            raise WrongState(
                f"{header.domain}'s state {header.state_id} is expected in {header.state_dir}, "
                f"not in {state}: pass --state-dir"
            )
    if found:
        return found
    made = secrets.token_hex(8)
    write_atomic(state / "state.json", json.dumps({"state_id": made}).encode())
    return made


def read_state_id(state: Path) -> str:
    """Return the id a state directory carries, "" when it carries none."""
    try:
        return str(json.loads((state / "state.json").read_text("utf-8"))["state_id"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        raise WrongState(f"{state / 'state.json'} cannot be read: restore it") from None
