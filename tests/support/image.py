"""The gate's image without an engine: the Dockerfile's own build steps, run in a folder.

The stages' RUN lines are executed as they stand; `/opt/lessons` and the base image's Python
are stood in for by a folder under .cache and the Python that made this environment.
Not covered: the base image's file system, layers, the engine itself.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from lessons_loop.filter.store import file_lock

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
HOME_OF_IMAGE = "/opt/lessons"
BUILD_SECONDS = 600


def instructions(text: str) -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions in order: word, and the rest as one line."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|$)", line)]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = (line.strip().partition(" ") for line in joined.splitlines())
    return [(word.upper(), re.sub(r"\s+", " ", rest.strip())) for word, _, rest in found]


def stages(text: str) -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, FROM first."""
    found: list[list[tuple[str, str]]] = []
    for one in instructions(text):
        if one[0] == "FROM":
            found.append([])
        if found:
            found[-1].append(one)
    return found


def ignored(path: str, rules: list[str]) -> bool:
    """Say whether .dockerignore keeps a path out of the build; the last rule that fits counts."""
    out = False
    for rule in rules:
        keep, pattern = rule.startswith("!"), rule.lstrip("!").removeprefix("**/")
        parents = [path, *map(str, Path(path).parents)]
        names = parents if "**/" not in rule else [Path(one).name for one in parents]
        if any(fnmatch.fnmatchcase(name, pattern) for name in names if name != "."):
            out = not keep
    return out


def ignore_rules() -> list[str]:
    """Return .dockerignore's rules."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def build_context() -> list[Path]:
    """Return the files a build gets to see, relative to the project."""
    rules = ignore_rules()
    tops = [path for path in ROOT.iterdir() if not ignored(path.name, rules)]
    files = [file for top in tops for file in ([top] if top.is_file() else top.rglob("*"))]
    names = [file.relative_to(ROOT) for file in files if file.is_file()]
    return sorted(name for name in names if not ignored(str(name), rules))


@cache
def gate_image(requirements: str = "requirements.txt") -> Path:
    """Return the folder that stands for /opt/lessons, built where it is not there yet."""
    text = DOCKERFILE.read_text("utf-8")
    runs = [rest for word, rest in stages(text)[0] if word == "RUN"]
    runs = [line.replace("${REQUIREMENTS}", requirements) for line in runs]
    pinned = (ROOT / "deploy" / requirements).read_text("utf-8")
    cached = ROOT / ".cache" / "image"
    cached.mkdir(parents=True, exist_ok=True)
    with file_lock(cached / "build.lock", BUILD_SECONDS):
        below = _layer(cached / _digest(*runs[:-1], pinned, sys.version, "moved"), None, runs[:-1])
        _forget_old(cached)
        return _layer(
            cached / _digest(below.parent.name, runs[-1], _sources_digest()), below, runs[-1:]
        )


def _layer(folder: Path, below: Path | None, runs: list[str]) -> Path:
    """Return a folder on which the steps were run, made as links to the one below it."""
    if (folder / "done").exists():
        (folder / "done").touch()
        return folder / "opt"
    shutil.rmtree(folder, ignore_errors=True)
    _copy_context(folder / "src")
    if below:
        shutil.copytree(below, folder / "opt", symlinks=True, copy_function=os.link)
    for line in runs:
        _run_step(line, folder / "src", folder / "opt")
    for script in (folder / "opt" / "bin").iterdir():
        moved_script(script, script, str(folder / "opt"), HOME_OF_IMAGE)
    (folder / "done").touch()
    return folder / "opt"


def moved_script(script: Path, target: Path, home: str, other: str) -> None:
    """Let a command of an environment at `home` name the Python of the same one at `other`.

    In a container it stands elsewhere: a checkout below /tmp is hidden by the pod's own /tmp.
    """
    if not script.is_file() or not (content := script.read_bytes()).startswith(b"#!"):
        return
    content = content.replace(f"{home}/bin/".encode(), f"{other}/bin/".encode())
    if target.is_file() and target.read_bytes() == content:
        return
    # Put in its place whole: it may be a link into the layer below, or be started just now.
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.replace(target)


def _run_step(line: str, source: Path, target: Path) -> None:
    line = line.replace(HOME_OF_IMAGE, str(target))
    words = shlex.split(line)
    base = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    words = {"python": [base], "pip": [base, "-m", "pip"]}[words[0]] + words[1:]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        words, cwd=source, env=kept, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def _forget_old(cached: Path, kept: int = 8) -> None:
    """Delete what was not used for longest; a layer of the running tests is among the newest."""
    found = sorted(cached.glob("*/done"), key=lambda one: one.stat().st_mtime, reverse=True)
    for one in found[kept:]:
        shutil.rmtree(one.parent, ignore_errors=True)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _copy_context(source: Path) -> None:
    shutil.rmtree(source, ignore_errors=True)
    for name in build_context():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)


def _sources_digest() -> str:
    content = hashlib.sha256()
    for name in build_context():
        content.update(str(name).encode() + b"\0" + (ROOT / name).read_bytes())
    return content.hexdigest()
