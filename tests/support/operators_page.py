"""The commands on the deployment page, taken apart.

Blocks marked `text` are output; each other block is what an operator types.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "deploy" / "README.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:desk|gate|kubectl|docker|lessons) [^`]+)`")
FUNCTION = re.compile(r"^\w+\(\) \{ (.*); \}$")
"""A shell function: what it runs is read like any other line."""
KINDS = {
    "cronjob": "CronJob",
    "deploy": "Deployment",
    "statefulset": "StatefulSet",
    "pvc": "PersistentVolumeClaim",
    "configmap": "ConfigMap",
    "secret": "Secret",
    "svc": "Service",
    "job": "Job",
    "networkpolicy": "NetworkPolicy",
    "namespace": "Namespace",
}
TAKES_VALUE = ("-n", "-l", "-k", "-f", "-o", "-p", "--for", "--replicas", "--timeout", "--from")


class Kubectl(NamedTuple):
    """One kubectl command."""

    verb: str
    namespace: str
    named: tuple[tuple[str, str], ...]
    """(kind, name) of each object it names."""
    options: dict[str, str]
    inside: tuple[str, ...]
    """What runs in the container, behind `--`."""


def blocks() -> list[str]:
    """Return what an operator types, block by block."""
    return [text for language, text in FENCE.findall(PAGE.read_text("utf-8")) if not language]


def command_lines() -> list[str]:
    """Return the page's command lines, continued ones joined, those inside sentences too."""
    lines = "".join(blocks()).replace("\\\n", " ").splitlines()
    lines += INLINE.findall(FENCE.sub("", PAGE.read_text("utf-8")))
    return [FUNCTION.sub(r"\1", line) for line in lines]


def parts(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line: of pipes, lists and `$(…)`."""
    for inner in re.findall(r"\$\(([^()]+)\)", line):
        yield from parts(inner)
    flat = re.sub(r"\$\([^()]+\)", "VALUE", line)
    words = shlex.shlex(flat, posix=True, punctuation_chars="|;&<>")
    words.whitespace_split, words.commenters = True, "#"
    part: list[str] = []
    for word in words:
        if set(word) <= set("|;&"):
            yield part
            part = []
        else:
            part.append(word)
    yield part


def commands(program: str) -> list[list[str]]:
    """Return the words of every command on the page that calls this program."""
    found = [part for line in command_lines() for part in parts(line)]
    return [
        without_settings(part) for part in found if part and without_settings(part)[:1] == [program]
    ]


def without_settings(part: list[str]) -> list[str]:
    """Return a command without its redirections and leading settings (`A=b command`)."""
    kept = part[: next((i for i, word in enumerate(part) if set(word) <= set("<>")), len(part))]
    while kept and re.fullmatch(r"\w+=.*", kept[0]):
        kept = kept[1:]
    return kept


def kubectl(words: list[str]) -> Kubectl:
    """Take a kubectl command apart."""
    end = words.index("--") if "--" in words else len(words)
    rest, inside = words[1:end], tuple(words[end + 1 :])
    options, plain = _options(rest)
    named = _named(plain[1:])
    if "--from" in options:
        named.append(_object(options["--from"]))
    return Kubectl(plain[0], options.get("-n", ""), tuple(named), options, inside)


def _options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    plain: list[str] = []
    left = iter(words)
    for word in left:
        name, mark, value = word.partition("=")
        if not word.startswith("-"):
            plain.append(word)
        else:
            options[name] = value if mark or name not in TAKES_VALUE else next(left)
    return options, plain


def _named(plain: list[str]) -> list[tuple[str, str]]:
    slashed = [_object(word) for word in plain if "/" in word]
    if not slashed and len(plain) >= 2 and plain[0] in KINDS:
        return [(KINDS[plain[0]], name) for name in plain[1:] if name != "generic"]
    return slashed


def _object(word: str) -> tuple[str, str]:
    kind, _, name = word.partition("/")
    return KINDS[kind], name


def lessons_lines() -> list[str]:
    """Return every `lessons …` command line on the page, wherever it runs."""
    found = commands("lessons")
    found += [["lessons", *words[1:]] for words in commands("desk") + commands("gate")]
    for words in commands("kubectl"):
        inside = kubectl(words).inside
        found += [list(inside[inside.index("lessons") :])] if "lessons" in inside else []
    for words in commands("docker"):
        found += _by_docker(words)
    return [shlex.join(words) for words in found if "$@" not in words]


def _by_docker(words: list[str]) -> list[list[str]]:
    """Return the `lessons` command of `docker run IMAGE …` and `docker compose run gate …`."""
    image = next(
        (i for i, word in enumerate(words) if re.match(r"(.*/)?lessons-loop-gate:", word)), 0
    )
    if "run" in words and image:
        return [["lessons", *words[image + 1 :]]]
    if "run" in words and "gate" in words:
        return [["lessons", *words[words.index("gate") + 1 :]]]
    return []


def names_of(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return (kind, name) of rendered objects; a StatefulSet's claims are among them."""
    found = {(one["kind"], one["metadata"]["name"]) for one in objects}
    for one in objects:
        if one["kind"] == "StatefulSet":
            for claim in one["spec"].get("volumeClaimTemplates", []):
                claimed = f"{claim['metadata']['name']}-{one['metadata']['name']}-0"
                found.add(("PersistentVolumeClaim", claimed))
    return found
