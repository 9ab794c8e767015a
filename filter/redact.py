"""Find and mask secrets and personal data, before text leaves the process or is stored.

Covered: keys of usual providers by their prefix, JWTs, PEM blocks, authorization headers,
user:password@host, values of words such as password, token, secret, signing key (shell, env,
JSON, YAML), cookies, signatures and tokens in addresses, webhooks of Slack, Discord and Teams,
`-p` of docker and mysql; e-mail addresses, phone numbers with +, a label or a US or German
mobile form, IBAN and card numbers (checksum), US social security numbers, IP addresses,
names of people where the words around them say so (`people.py`).
Not covered: other names of people, postal addresses, birthdays, passwords without a telling word
beside them, secrets split over lines or encoded.
Left alone on purpose: SQL, versions, dates, UUIDs, commit and content hashes, serial numbers,
placeholders (`$TOKEN`, `<token>`, `...`), loopback, unspecified and documentation
addresses (0.0.0.0, 127.0.0.0/8, ::1, 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24,
2001:db8::/32), masks and network ranges written with /n.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lessons_loop.filter.sensitive import MASK_RULES, MASKED, MaskRule


class Finding(NamedTuple):
    """One sensitive stretch: `kind` for people, offsets into the text."""

    kind: str
    start: int
    end: int
    personal: bool = False


def find_sensitive(text: str) -> tuple[Finding, ...]:
    """Return what must not leave, in order; masks are no findings, earlier rules come first."""
    taken = sorted(found.span() for found in MASKED.finditer(text))
    findings = []
    for rule in MASK_RULES:
        for found in _apply_rule(rule, text):
            if _is_free(taken, found.start, found.end):
                insort(taken, (found.start, found.end))
                findings.append(found)
    return tuple(sorted(findings, key=lambda found: found.start))


def mask(text: str) -> str:
    """Return `text` with every finding replaced by its kind; masking twice changes nothing."""
    return mask_found(text, find_sensitive(text))


def mask_found(text: str, findings: Sequence[Finding]) -> str:
    """Return `text` with these findings, in order, replaced by their kinds."""
    pieces, position = [], 0
    for found in findings:
        label = "personal" if found.personal else "secret"
        pieces += [text[position : found.start], f"[{label}: {found.kind}]"]
        position = found.end
    return "".join((*pieces, text[position:]))


def _apply_rule(rule: MaskRule, text: str) -> Iterator[Finding]:
    group = "value" if "value" in rule.pattern.groupindex else 0
    for match in rule.pattern.finditer(text):
        if rule.accept is None or rule.accept(match.group(group)):
            yield Finding(rule.kind, match.start(group), match.end(group), rule.personal)


def _is_free(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    """Say whether a stretch touches none of the sorted, disjoint `taken` ones."""
    place = bisect_left(taken, (start, end))
    before = place == 0 or taken[place - 1][1] <= start
    return before and (place == len(taken) or end <= taken[place][0])
