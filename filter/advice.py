"""Check what a lesson says: form, safety, and that its names and numbers were earned."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from lessons_loop.filter.figures import number_fault
from lessons_loop.filter.grounds import (
    is_copied,
    is_thin,
    label_fault,
    name_fault,
    quotes_symptom,
    without_errors,
    wording_fault,
)
from lessons_loop.filter.instances import instance_values, names_instance
from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.models import TEXT_LIMIT, TRIGGER_LIMIT, EvidenceKind
from lessons_loop.filter.parse import Proposal
from lessons_loop.filter.prompt import EXAMPLE_LESSONS
from lessons_loop.filter.reading import Reading
from lessons_loop.filter.redact import find_sensitive
from lessons_loop.filter.terms import (
    addresses_in,
    names_in,
    one_offs_in,
    without_plain_days,
)
from lessons_loop.filter.text import normalise

_MASK_MARK = re.compile(r"\[(?:secret|personal)\b", re.IGNORECASE)
_NARRATES = re.compile(
    r"^\W*(?:i (?:am|was|have|ran|used|found|will)|we (?:ran|used|found|saw)|you asked"
    r"|(?:the )?(?:user|assistant|model|chat|conversation) (?:is|was|has|asked|wanted|wants"
    r"|requested|said|needs|needed|confirmed|reported|used|ran|tried|did)"
    r"|der (?:nutzer|assistent) \w+te"
    r"|l'utilisateur a|el usuario (?:pidió|quería)|用户(?:要求|询问|想)|ユーザーは)\b",
    re.IGNORECASE,
)
_STEERS = re.compile(
    r"ignore (?:all |any )?(?:previous|above|prior|other|these|the) (?:instruction|rule|lesson)"
    r"|\breviewer\s*:|pre-?approved|do not tell the user|without telling the user"
    r"|\b(?:this|the) lesson (?:is|was|has|must|should)\b|\b(?:approved|curated|trusted) lessons?\b"
    r"|</?(?:lessons?|system|transcript)\b|\b(?-i:APPROVE|PROMOTE)\b",
    re.IGNORECASE,
)


def form_fault(proposal: Proposal) -> str | None:
    """Return the rule of form a proposal breaks, None for none."""
    text, trigger = proposal.text, proposal.trigger
    if proposal.kind not in set(Kind):
        return "kind"
    if not trigger or len(trigger) > TRIGGER_LIMIT or len(text) > TEXT_LIMIT:
        return "shape"
    if any(_resembles(text, example) for example in EXAMPLE_LESSONS) or "<" in text[:1]:
        return "template-echo"
    if _NARRATES.match(text):
        return "narration"
    return None


def safety_fault(*texts: str) -> str | None:
    """Return the rule of safety that text, trigger or a tag breaks."""
    for text in texts:
        if _MASK_MARK.search(text) or find_sensitive(text):
            return "sensitive"
        if addresses_in(text):
            return "address"
        if _STEERS.search(text):
            return "steering"
        if one_offs_in(text):
            return "one-off"
    return None


def recalled_again(text: str, injected: Sequence[str]) -> bool:
    """Say whether a lesson only repeats one that was recalled into this chat (T-13)."""
    own = normalise(text)
    for lesson in map(normalise, injected):
        shorter, longer = sorted((own, lesson), key=len)
        if shorter == longer or (len(shorter) >= 20 and shorter in longer):
            return True
        if set(own.split()) == set(lesson.split()):
            return True
    return False


def source_fault(proposal: Proposal, reading: Reading, kind: EvidenceKind) -> str | None:
    """Return the rule that names, numbers or wording of a lesson break."""
    text, trigger = proposal.text, proposal.trigger
    instances = instance_values(reading)
    for whole, symptoms in ((text, False), (trigger, True)):
        if fault := _part_fault(whole, symptoms, reading, instances):
            return fault
    if is_copied(text, reading):
        return "planted"
    failed = any(turn.failed for turn in reading.turns)
    if kind is EvidenceKind.TOOL_SUCCESS and not failed and is_thin(text, reading):
        return "thin"
    return None


def _part_fault(
    whole: str, symptoms: bool, reading: Reading, instances: Collection[str]
) -> str | None:
    """Return the rule that text or trigger breaks; `symptoms` lets words of errors through."""
    if names_instance(whole, instances):
        return "one-off"
    if _tells_secret(whole, reading):
        return "sensitive"
    part = without_plain_days(whole if symptoms else without_errors(whole, reading))
    for name in names_in(part):
        if any(piece in instances for piece in name.pieces):
            return "one-off"
        fault = name_fault(name, reading, symptoms)
        if fault and not (symptoms and quotes_symptom(name, part, reading)):
            return fault
    return (
        number_fault(part, reading, instances, symptoms)
        or label_fault(part, reading)
        or wording_fault(part, reading)
    )


def _tells_secret(text: str, reading: Reading) -> bool:
    """Say whether a text has a name of a person or a secret that the transcript tells as such."""
    return bool(reading.people.intersection(re.findall(r"\w+", text))) or any(
        secret in text for secret in reading.secrets
    )


def good_tags(tags: Sequence[str], reading: Reading) -> tuple[str, ...]:
    """Return the tags that are short, safe and earned, at most eight."""
    instances = instance_values(reading)
    return tuple(
        tag
        for tag in tags
        if len(tag) <= 40
        and len(tag.split()) <= 4
        and safety_fault(tag) is None
        and not names_instance(tag, instances)
        and not _tells_secret(tag, reading)
        and all(name_fault(name, reading, True) is None for name in names_in(tag))
        and number_fault(tag, reading, instances, False) is None
        and label_fault(tag, reading) is None
    )[:8]


def _resembles(text: str, example: str) -> bool:
    one, other = normalise(text), normalise(example)
    return one == other or SequenceMatcher(None, one, other, autojunk=False).ratio() >= 0.8
