"""What `lessons doctor` says about embedding engines and language models."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from lessons_loop.deploy.doctor.findings import Answer, Finding, Level, unanswered
from lessons_loop.filter.embed import Fingerprint, fingerprint
from lessons_loop.filter.errors import UnreadableReply
from lessons_loop.filter.llm import HttpModel
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.embedding.forms import HOW_TO_SET

MODEL_SECONDS = 20.0
EMBED_SECONDS = 90.0
"""A sentence-transformers model may have to be read from a slow disk."""
FEW_TOKENS = 200
SHORT = [{"role": "user", "content": "Answer with the single word OK."}]


class Reply(NamedTuple):
    """A model's answer to a tiny question."""

    seconds: float
    empty: bool = False
    """Answered, but without text: a thinking model may need more tokens."""


def ask_model(url: str, model: str, key: str = "", seconds: float = MODEL_SECONDS) -> Reply:
    """Ask a model for one word; raise ModelError."""
    began = time.monotonic()
    try:
        HttpModel(url, model, key, seconds).ask(SHORT, FEW_TOKENS)
    except UnreadableReply:
        return Reply(time.monotonic() - began, True)
    return Reply(time.monotonic() - began)


def ask_embedder(setting: str, environ: Mapping[str, str]) -> Fingerprint | None:
    """Return the fingerprint of the gate's embedder, None without one; raise EmbedError."""
    embedder = parse_embedding(setting, environ)
    return fingerprint(embedder) if embedder else None


def reply_finding(check: str, model: str, answer: Answer | None, remedy: str) -> Finding:
    """Say whether a model answered."""
    if answer is None:
        return Finding(check, Level.NOT_CHECKED, "no model given", remedy)
    if answer.error:
        return unanswered(check, answer, remedy)
    reply: Reply = answer.value
    if reply.empty:
        text = f"{model} answers, but without text in {FEW_TOKENS} tokens (thinking?)"
        return Finding(check, Level.WARNING, text)
    return Finding(check, Level.OK, f"{model} answers in {reply.seconds:.1f} s")


def stored_fingerprints(status: Mapping[str, Any]) -> dict[str, Fingerprint]:
    """Return the embedding model of each domain's lessons, as `lessons status` read it."""
    found = {}
    for domain in status["domains"]:
        try:
            found[str(domain["domain"])] = Fingerprint.model_validate(domain["fingerprint"])
        except ValidationError:
            continue
    return found


def embedding_findings(stored: Mapping[str, Fingerprint], own: Answer, store: str) -> list[Finding]:
    """Compare the gate's embedder with the vectors of every domain."""
    if own.error:
        return [unanswered("embedding", own, "correct --embedding (LESSONS_EMBEDDING)")]
    if own.value is None:
        return [without_embedder(stored)]
    mine: Fingerprint = own.value
    found = []
    for domain, theirs in stored.items():
        if not theirs.matches(mine):
            text = f"{domain} was embedded by {named(theirs)}, LESSONS_EMBEDDING is {named(mine)}"
            remedy = f"lessons reembed --store {store} --domain {domain}"
            found.append(Finding("embedding", Level.PROBLEM, text, remedy))
    if found:
        return found
    told = "the same model as the store's" if stored else "no lesson is embedded yet"
    return [Finding("embedding", Level.OK, f"{named(mine)}: {told}")]


def without_embedder(stored: Mapping[str, Fingerprint]) -> Finding:
    """Say what the gate cannot do without an embedder."""
    names = sorted({model.name for model in stored.values()})
    text = "none given: the gate would compare and promote nothing"
    if names:
        text += f"; the lessons have vectors of {' and '.join(names)}"
    return Finding("embedding", Level.WARNING, text, HOW_TO_SET)


def named(model: Fingerprint) -> str:
    """Return a model's name and size for messages."""
    return f"{model.name or 'an unnamed model'} ({model.dimension} dimensions)"


def same_model_finding(distill: tuple[str, str] | None, review: tuple[str, str]) -> Finding:
    """Say whether proposer and reviewer differ; each is (URL, model), the URL may be empty."""
    check = "two models"
    if distill is None or not review[1]:
        missing = "which model distills" if distill is None else "which model reviews"
        return Finding(check, Level.NOT_CHECKED, f"it is not known {missing}")
    if base_name(distill[1]) == base_name(review[1]):
        text = f"{review[1]} distills and reviews: it judges its own proposals"
        return Finding(check, Level.WARNING, text, "choose another --llm-model for the review")
    return Finding(check, Level.OK, f"{distill[1]} distills, {review[1]} reviews")


def base_name(model: str) -> str:
    """Return a model's name without provider prefix and letter case."""
    return model.strip().lower().rsplit("/", 1)[-1]
