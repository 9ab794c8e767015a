"""Curated lessons that chats do not get, by cause, with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lessons_loop.deploy.status_facts import DomainStatus, Hidden, StoreStatus
from lessons_loop.promote.summary import Summary

BY_WORDS = "found by their words alone"


def hidden_lessons(
    found: StoreStatus, summaries: Sequence[Summary], environ: Mapping[str, str]
) -> list[Hidden]:
    """Return what is hidden in each domain."""
    by_name = {domain.domain: domain for domain in found.domains}
    every = [
        *(hidden for one in summaries for hidden in of_domain(by_name[one.domain], one)),
        *other_models(summaries, environ.get("LESSONS_EMBEDDING", "")),
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


def other_models(summaries: Sequence[Summary], setting: str) -> Iterator[Hidden]:
    """Yield domains whose vectors cannot be compared with the others', or with questions."""
    known = [one for one in summaries if one.model and one.curated]
    named = model_of(setting)
    for one in known:
        others = sorted({other.model for other in known} - {one.model})
        again = f"lessons reembed --domain {one.domain}"
        if named and named not in one.model and one.model not in named:
            cause = f"vectors of {one.model}, LESSONS_EMBEDDING is {named}: {BY_WORDS}"
            yield Hidden(one.domain, one.curated, cause, again)
        elif others and one.model != known[0].model:
            cause = f"another model than {known[0].domain}'s: together {BY_WORDS}"
            yield Hidden(one.domain, one.curated, cause, again)


def model_of(setting: str) -> str:
    """Return the model an embedding setting names, "" where it names none."""
    kind, colon, rest = setting.strip().partition(":")
    if not colon or kind == "none":
        return ""
    return rest.rpartition("@")[0] if kind == "openai" and "@" in rest else rest


def never_asked(domains: Sequence[DomainStatus]) -> Iterator[Hidden]:
    """Yield domains no chat ever used while others are used: the plugin may not know them."""
    if not any(domain.hits or domain.events for domain in domains):
        return
    for domain in domains:
        if not domain.hits and not domain.events:
            cause = "no chat has used this domain: is it in the plugin's `domains`?"
            yield Hidden(domain.domain, domain.curated or 0, cause, "lessons doctor")
