"""Write drafts as files: seeds with comments for a person, and question stubs beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from lessons_loop.promote.lint.hidden import reveal
from lessons_loop.promote.lint.language import guess_language
from lessons_loop.seeds.draft import Drafted, Outcome
from lessons_loop.seeds.guess import guess_kind

WIDTH = 96
_SEED_HEAD = """\
Draft of seed lessons, imported from {source}. Nothing of it is loaded yet.
Read every lesson: kind, trigger, tags and id are guesses. A `check` line says what to look at;
delete it when it is right. What was left out stands as a comment, with the reason.
"""
_QUESTION_HEAD = """\
STUBS, not an evaluation: every question is still empty.
For each lesson write, under `question`, what somebody would really ask when he needs it, in his
words rather than in those of the lesson. `suggested` is made from the trigger and too easy;
delete it. `relevant` lists the lessons that answer the question (empty: none does).
"""


class _Dumper(yaml.SafeDumper):
    """Indents lists as people write them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def seed_draft(drafted: Sequence[Drafted], source: str) -> str:
    """Return the draft's YAML: kept lessons, then what was left out."""
    kept = [one for one in drafted if one.outcome is Outcome.KEPT]
    out = [one for one in drafted if one.outcome is Outcome.LEFT_OUT]
    blocks = [comment(_SEED_HEAD.format(source=reveal(source)))]
    again: dict[str, list[int]] = {}
    for one in drafted:
        if one.outcome is Outcome.JOINED:
            again.setdefault(one.id, []).append(one.rule.line)
    blocks += [_entry(one, source, again.get(one.id, [])) for one in kept]
    if out:
        blocks.append(comment("Left out:"))
    blocks += [_left_out(one) for one in out]
    return "\n\n".join(blocks) + "\n"


def comment(text: str) -> str:
    """Return lines as YAML comments."""
    return "\n".join(f"# {line}".rstrip() for line in text.strip("\n").split("\n"))


def _entry(one: Drafted, source: str, again: Sequence[int]) -> str:
    lines = [f"check: {check}" for check in one.checks]
    lines += [f"line {line} says the same" for line in again]
    return "\n".join([*(f"# {line}" for line in lines), _listed(one, source)])


def _listed(one: Drafted, source: str) -> str:
    """Return a lesson as a list entry, its kind with the reason behind it."""
    if one.lesson is None:
        return ""
    lesson = one.lesson
    fields: dict[str, object] = {"id": one.id, "kind": lesson.kind.value}
    fields |= {"trigger": lesson.trigger, "tags": list(lesson.tags), "text": lesson.text}
    fields |= {"note": one.note} if one.note else {}
    fields |= {"origin": f"{reveal(source)} line {one.rule.line}"}
    if not lesson.tags:
        del fields["tags"]
    why = guess_kind(lesson.text, lesson.trigger).why
    kind = f"  kind: {lesson.kind.value}"
    return dumped([fields]).replace(f"{kind}\n", f"{kind}  # check: {why}\n", 1)


def dumped(value: object) -> str:
    """Return a value as YAML, keys in their order."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return str(text).rstrip("\n")


def _left_out(one: Drafted) -> str:
    """Return a comment; the words of what must not be repeated stay out of it."""
    lines = [f"line {one.rule.line}: {reason}" for reason in one.reasons]
    if one.speakable:
        words = (one.rule.text, *one.rule.code.splitlines())
        lines += [f"  {reveal(line)}" for line in words]
    return comment("\n".join(lines))


def question_stubs(drafted: Sequence[Drafted], source: str) -> str:
    """Return one empty question per kept lesson as YAML."""
    head = comment(f"Questions for the lessons of {reveal(source)}.\n{_QUESTION_HEAD}")
    return "\n\n".join([head, *_stubs(drafted)]) + "\n"


def _stubs(drafted: Sequence[Drafted]) -> Iterator[str]:
    for one in drafted:
        if one.outcome is Outcome.KEPT and one.lesson is not None:
            stub = {"id": f"q-{one.id}", "relevant": [one.id], "question": ""}
            yield dumped([stub | {"suggested": suggested(one.lesson.trigger)}])


def suggested(trigger: str) -> str:
    """Return a question made from a trigger."""
    german = guess_language(trigger) == "de"
    return f"{'Was gilt hier' if german else 'What applies here'}: {trigger.rstrip('.?! ')}?"
