"""Baselines that are kept: `<state>/eval/baseline/<digest>.json`, grades only.

The digest covers everything a grade may depend on, so that another question, model, tool,
lesson or seed is another baseline. Covered: a torn, edited or foreign file is none.
Not covered: a model that changes behind its name, or a database behind its path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.eval.asking import bare, graded_only
from lessons_loop.eval.trials import Trial
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.files import private_folder, write_atomic


class Baseline(BaseModel):
    """The grades of one set of lessons."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str
    trials: tuple[Trial, ...]


def digest_of_facts(facts: Mapping[str, Any]) -> str:
    """Return the sha256 (hex) of JSON values."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def baseline_file(state: Path, digest: str) -> Path:
    """Return where a baseline is kept."""
    return state / "eval" / "baseline" / f"{digest}.json"


def read_baseline(state: Path, digest: str) -> list[Trial]:
    """Return the trials that are kept, none where there are none that can be read."""
    try:
        found = Baseline.model_validate_json(baseline_file(state, digest).read_bytes())
    except (OSError, ValidationError):
        return []
    return list(found.trials) if found.digest == digest else []


def keep_baseline(state: Path, digest: str, trials: Sequence[Trial]) -> None:
    """Keep what is graded; a disk that is full costs the next proof time, not this one."""
    rows = Baseline(digest=digest, trials=tuple(map(bare, graded_only(trials))))
    path = baseline_file(state, digest)
    with suppress(LessonsError):
        private_folder(path.parent.parent)
        private_folder(path.parent)
        write_atomic(path, rows.model_dump_json().encode())
