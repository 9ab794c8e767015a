"""Directive files, `*.guide.yaml`: house rules as a team writes them, read as seeds.

One directive, or a list of them:

    title: Serials by key           becomes the id (serials-by-key) and, word by word, tags
    rule: Look a machine up by …    becomes the text
    when: a machine is named by its serial number        becomes the trigger
    scope: [domain:sql, serial]     optional: a text or a list of texts

A scope `domain:NAME` keeps a directive to that domain: read for another one it is passed
over without a mistake. Every other scope is a tag. The kind is guessed from the wording
(seeds/guess.py). No other field is allowed; mistakes name file, line, directive and field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lessons_loop.filter.models import TAG_LIMIT
from lessons_loop.seeds.guess import ascii_word, content_words, guess_kind
from lessons_loop.seeds.parse import Entry

GUIDE_SUFFIXES = (".guide.yaml", ".guide.yml", ".guide.json")
NAMES = {"id": "title", "text": "rule", "kind": "rule", "trigger": "when", "tags": "scope"}
_DOMAIN = "domain:"
_DOMAIN_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_ID_RULE = "must have a letter a-z or a digit and make an id of at most 80 characters"


def is_guide(path: Path) -> bool:
    """Say whether a file holds directives."""
    return path.name.endswith(GUIDE_SUFFIXES)


def as_seed_entries(entries: Sequence[Entry], domain: str) -> Iterator[Entry]:
    """Yield the directives meant for a domain, and those with a mistake, as seed entries."""
    for entry in entries:
        wanted = [name.removeprefix(_DOMAIN) for name in _scopes(entry) if _is_domain(name)]
        for name in wanted:
            if not _DOMAIN_NAME.fullmatch(name):
                said = "domain:NAME wants a name of a-z, 0-9 and '-', at most 40"
                entry.problems.append(entry.problem("scope", said))
        if entry.problems or not wanted or domain in wanted:
            yield as_seed(entry)


def as_seed(entry: Entry) -> Entry:
    """Return a directive with a seed's fields; problems keep the names it was written with."""
    rule, when = (str(entry.fields.get(name, "")) for name in ("rule", "when"))
    fields: dict[str, object] = {"id": ascii_word(entry.label), "tags": _tags(entry)}
    fields |= {"text": rule} if rule else {}
    fields |= {"trigger": when} if when else {}
    fields |= {"kind": guess_kind(rule, when).kind.value}
    return Entry(
        file=entry.file,
        line=entry.line,
        fields=fields,
        lines=entry.lines,
        problems=entry.problems,
        form=entry.form,
        names=NAMES,
        label=entry.label,
        id_rule=_ID_RULE,
    )


def _tags(entry: Entry) -> tuple[str, ...]:
    """Return the scopes that name no domain, then the title's words as far as there is room."""
    scopes = [scope for scope in _scopes(entry) if not _is_domain(scope)]
    words = [word for word in content_words(entry.label) if word not in scopes]
    return tuple(dict.fromkeys([*scopes, *words[: max(0, TAG_LIMIT - len(scopes))]]))


def _scopes(entry: Entry) -> tuple[str, ...]:
    found = entry.fields.get("scope", ())
    return found if isinstance(found, tuple) else ()


def _is_domain(scope: str) -> bool:
    return scope.startswith(_DOMAIN)
