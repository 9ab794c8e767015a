"""Baselines that are kept: `<state>/eval/baseline/<digest>.json`, grades only.

The digest covers everything a grade may depend on, so that another question, model, tool,
lesson or seed is another baseline. Covered: a torn, edited or foreign file is none.
Not covered: somebody who seals his edit anew, a model that changes behind its name, a database
behind its path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.eval.proving.asking import bare, graded_only
from lessons_loop.eval.trials import Trial
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.files import private_folder, write_atomic


class Baseline(BaseModel):
    """The grades of one set of lessons."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str
    seal: str = ""
    """sha256 over digest and trials."""
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
    return list(found.trials) if found == sealed(digest, found.trials) else []


def sealed(digest: str, trials: Sequence[Trial]) -> Baseline:
    """Return trials under their seal."""
    found = Baseline(digest=digest, trials=tuple(trials))
    mark = hashlib.sha256(found.model_dump_json().encode()).hexdigest()
    return found.model_copy(update={"seal": mark})


def keep_baseline(state: Path, digest: str, trials: Sequence[Trial]) -> None:
    """Keep what is graded; a disk that is full costs the next proof time, not this one."""
    rows = sealed(digest, [bare(one) for one in graded_only(trials)])
    path = baseline_file(state, digest)
    with suppress(LessonsError):
        private_folder(path.parent.parent)
        private_folder(path.parent)
        write_atomic(path, rows.model_dump_json().encode())
