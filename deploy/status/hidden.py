"""Curated lessons that chats do not get, by cause, with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import ValidationError

from lessons_loop.deploy.status.facts import DomainStatus, Hidden, StoreStatus
from lessons_loop.filter.embed import Fingerprint
from lessons_loop.promote.runs.summary import Summary

BY_WORDS = "found by their words alone"


def hidden_lessons(found: StoreStatus, summaries: Sequence[Summary]) -> list[Hidden]:
    """Return what is hidden in each domain."""
    by_name = {domain.domain: domain for domain in found.domains}
    every = [
        *(hidden for one in summaries for hidden in of_domain(by_name[one.domain], one)),
        *other_models(summaries),
        *never_asked(found.domains),
    ]
    return [hidden for hidden in every if hidden.lessons]


def of_domain(domain: DomainStatus, summary: Summary) -> Iterator[Hidden]:
    """Yield what the domain's own files tell."""
    name = domain.domain
    yield Hidden(
        name,
        summary.unreadable,
        "rows of curated that do not read: edited by hand",
        f"lessons verify --domain {name}",
        summary.unreadable_rows,
    )
    if domain.published is not None:
        missing = summary.curated - domain.published
        yield Hidden(name, max(0, missing), "not published", f"lessons publish --domain {name}")
    elif domain.summary_at:
        yield Hidden(
            name, summary.curated, "what recall reads cannot be read", "lessons status --check"
        )
    if not summary.dimension:
        again = f"lessons reembed --domain {name} --embedding …"
        yield Hidden(name, summary.curated, f"without a vector: {BY_WORDS}", again)


def other_models(summaries: Sequence[Summary]) -> Iterator[Hidden]:
    """Yield domains whose vectors cannot be compared with the first one's."""
    known = [(one, mark) for one in summaries if one.curated and (mark := mark_of(one))]
    for one, mark in known[1:]:
        first, wanted = known[0]
        if not mark.matches(wanted):
            cause = f"another model than {first.domain}'s: in one chat both {BY_WORDS}"
            yield Hidden(one.domain, one.curated, cause, f"lessons reembed --domain {one.domain}")


def mark_of(summary: Summary) -> Fingerprint | None:
    """Return the fingerprint of a domain's vectors, None without a readable one."""
    try:
        return Fingerprint.model_validate_json(summary.embedding)
    except ValidationError:
        return None


def other_setting(summaries: Sequence[Summary], environ: Mapping[str, str]) -> list[str]:
    """Return notes on domains whose model has another name than the setting's.

    A name proves nothing: the same model may have several.
    """
    named = label_of(environ.get("LESSONS_EMBEDDING", ""))
    return [
        f"{one.domain}: embedded by {one.model}, LESSONS_EMBEDDING names {named}:"
        " `lessons doctor` tells whether they are the same"
        for one in summaries
        if named and one.model and one.model != named and one.curated
    ]


def label_of(setting: str) -> str:
    """Return what a setting's model is called in fingerprints, "" where it names none."""
    kind, colon, rest = setting.strip().partition(":")
    if not colon:
        return ""
    name = rest.rpartition("@")[0] if kind == "openai" and "@" in rest else rest
    if kind != "openai":
        name = name.rstrip("/").rpartition("/")[2]
    return f"{kind}:{name}" if name else kind


def never_asked(domains: Sequence[DomainStatus]) -> Iterator[Hidden]:
    """Yield domains no chat ever used while others are used: the plugin may not know them."""
    if not any(domain.hits or domain.events for domain in domains):
        return
    for domain in domains:
        if not domain.hits and not domain.events:
            cause = "no chat has used this domain: is it in the plugin's `domains`?"
            yield Hidden(domain.domain, domain.curated or 0, cause, "lessons doctor")
