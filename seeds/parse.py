"""One seed file into entries with line numbers: YAML or JSON, composed, never executed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

STRING, NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"
SIZE_LIMIT = 2_000_000


class SeedFields(NamedTuple):
    """The fields an entry may have, by the shape of their value."""

    text: tuple[str, ...] = ("id", "text", "kind", "trigger", "note")
    lists: tuple[str, ...] = ("tags",)
    all: tuple[str, ...] = ("id", "text", "kind", "trigger", "tags", "note", "origin")
    lesson: tuple[str, ...] = ("text", "kind", "trigger", "tags")
    label: str = "id"
    """The field an entry is called by."""
    what: str = "lesson"
    """What an entry is called in messages."""
    article: str = "a seed"
    one_or_list: bool = False
    """Whether a file may hold one entry without a list, and a list one text."""


FIELDS = SeedFields()
GUIDE_FIELDS = SeedFields(
    text=("title", "rule", "when"),
    lists=("scope",),
    all=("title", "rule", "when", "scope"),
    label="title",
    what="directive",
    article="a directive",
    one_or_list=True,
)


class Problem(NamedTuple):
    """One mistake in a seed file; sorts by place."""

    file: str
    line: int
    """1 is the first; 0 where the whole file is meant."""
    lesson: str
    field: str
    message: str
    what: str = "lesson"

    def __str__(self) -> str:
        """Return one line, as compilers print it."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        about = [f"{self.what} {self.lesson}"] * bool(self.lesson) + [self.field] * bool(self.field)
        return ": ".join([place, *about, self.message])


@dataclass
class Entry:
    """One lesson as written: its fields, their lines, and what was wrong on the way."""

    file: str
    line: int
    fields: dict[str, object] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    form: SeedFields = FIELDS
    names: dict[str, str] = field(default_factory=dict)
    """What a field is called in the file, where that is another name."""
    label: str = ""
    """What the entry is called, as far as it says."""
    id_rule: str = ""
    """How its id is bounded, where that is not said of an id."""

    def problem(self, name: str, message: str) -> Problem:
        """Return a problem at a field of this entry."""
        own = self.names.get(name, name)
        said = " ".join(message.split())
        line = self.lines.get(own, self.line)
        return Problem(self.file, line, self.label, own, said, self.form.what)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield every text in the entry with its field; a title stands in none of them."""
        if self.names:
            yield "id", self.label
        for name, value in self.fields.items():
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str):
                    yield name, text


def read_entries(
    path: Path, name: str, form: SeedFields = FIELDS
) -> tuple[list[Entry], list[Problem]]:
    """Return a file's entries, or the problem that makes it unreadable as a whole."""
    try:
        text = _read(path)
        if path.suffix == ".json" and text.strip():
            json.loads(text)  # stricter than YAML; raises with a line
            text = text.replace("\t", " ")  # white space only: JSON strings hold no raw tab
    except (OSError, ValueError) as error:
        line = getattr(error, "lineno", 0)
        return [], [Problem(name, line, "", "", f"cannot be read: {_first(error)}")]
    try:
        roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return [], [_syntax_problem(error, text, name, form)]
    if len(roots) > 1:
        line = _line(roots[1]) if roots[1] else 0
        return [], [Problem(name, line, "", "", "has several documents: keep one per file")]
    return _entries(roots[0] if roots else None, name, form)


def _read(path: Path) -> str:
    if path.stat().st_size > SIZE_LIMIT:
        raise ValueError(f"larger than {SIZE_LIMIT:,} bytes")
    return path.read_text("utf-8-sig")


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _syntax_problem(error: Exception, text: str, name: str, form: SeedFields) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else 0
    above = text.splitlines()[:line]
    label = re.compile(rf"""^[\s-]*"?{form.label}"?\s*:\s*["']?([\w.-]+(?: [\w.-]+)*)""")
    labels = (found.group(1) for row in reversed(above) if (found := label.match(row)))
    reason = getattr(error, "problem", None) or _first(error)
    if "mapping values" in reason:
        reason += ": put text that contains a colon in quotes"
    at = above[-1].partition(":")[0].strip(" -") if above else ""
    field_name = at if at in form.all else ""
    said = f"cannot be read: {reason}"
    return Problem(name, line, next(labels, ""), field_name, said, form.what)


def _entries(root: Node | None, name: str, form: SeedFields) -> tuple[list[Entry], list[Problem]]:
    if root is None or root.tag == NULL:
        return [], []
    if isinstance(root, MappingNode) and form.one_or_list:
        return [_entry(root, name, form)], []
    if not isinstance(root, SequenceNode):
        return [], [Problem(name, _line(root), "", "", f"must be a list of {form.what}s")]
    entries, problems = [], []
    for node in root.value:
        if isinstance(node, MappingNode):
            entries.append(_entry(node, name, form))
        else:
            said = f"is no {form.what} with named fields"
            problems.append(Problem(name, _line(node), "", "", said))
    return entries, problems


def _entry(node: MappingNode, name: str, form: SeedFields) -> Entry:
    entry = Entry(name, _line(node), form=form)
    pairs = [(str(key.value), key, value) for key, value in node.value]
    for key, _, value in pairs:  # the label first: every problem names it
        if key == form.label and isinstance(value, ScalarNode):
            entry.label = str(value.value)
            entry.fields[key] = value.value
    seen: set[str] = set()
    for key, key_node, value in pairs:
        entry.lines.setdefault(key, _line(key_node))
        if key in seen:
            again = entry.problem(key, "is given twice")._replace(line=_line(key_node))
            entry.problems.append(again)
        elif key not in form.all:
            known = ", ".join(form.all)
            shown = ascii(key[:40])[1:-1]
            said = f"is no field of {form.article} ({known})"
            entry.problems.append(entry.problem(shown, said)._replace(line=_line(key_node)))
        elif value.tag != NULL:
            _take(entry, key, value)
        seen.add(key)
    return entry


def _take(entry: Entry, key: str, node: Node) -> None:
    form = entry.form
    value: object = None
    if key in form.text:
        value = _text(node)
    elif key in form.lists and isinstance(node, SequenceNode):
        texts = [_text(one) for one in node.value]
        value = None if None in texts else tuple(texts)
    elif key in form.lists and form.one_or_list and (one := _text(node)) is not None:
        value = (one,)
    elif key == "origin":
        value = _text(node) or _plain_json(node)
    if value is None:
        want = "a list of texts" if key in form.lists else "text"
        message = f"must be {want}: put numbers, dates and yes or no in quotes"
        entry.problems.append(entry.problem(key, message))
    else:
        entry.fields[key] = value


def _text(node: Node) -> str | None:
    if not isinstance(node, ScalarNode) or node.tag != STRING:
        return None
    # JSON writes one character beyond U+FFFF as two escapes; YAML keeps the halves apart.
    try:
        joined = str(node.value).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return str(node.value).strip()
    return joined.strip()


def _plain_json(node: Node) -> str | None:
    """Return a mapping of texts as JSON, None for anything deeper."""
    if not isinstance(node, MappingNode):
        return None
    pairs = [(str(key.value), value) for key, value in node.value]
    if not all(isinstance(value, ScalarNode) for _, value in pairs):
        return None
    return json.dumps({key: value.value for key, value in pairs}, ensure_ascii=False)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
