"""A candidate's seal: whoever wrote it knew the installation's salt, as plugin and gate do.

Covered: rows written into staging past the plugin, and fields changed there afterwards.
Not covered: what a chat can make the plugin propose; somebody who can read the salt.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable

from lessons_loop.filter.models import Candidate


def seal_of(salt: bytes, candidate: Candidate) -> str:
    """Return the HMAC-SHA256 over all a gate decides by, as hexadecimal digits."""
    lesson, evidence = candidate.lesson, candidate.evidence
    told = [
        *(candidate.id, lesson.trigger, list(lesson.tags), lesson.source),
        *(evidence.kind.value, evidence.quote, evidence.excerpt, list(evidence.tools)),
        *(candidate.message_ref, candidate.chat_ref, candidate.user_ref, candidate.at),
    ]
    return hmac.new(salt, json.dumps(told).encode(), hashlib.sha256).hexdigest()


def sealed(salt: bytes, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates with their seals."""
    return tuple(found.model_copy(update={"seal": seal_of(salt, found)}) for found in candidates)


def is_sealed(salt: bytes, candidate: Candidate) -> bool:
    """Say whether a candidate came from somebody who knows the salt, and is unchanged."""
    return hmac.compare_digest(candidate.seal.encode(), seal_of(salt, candidate).encode())
