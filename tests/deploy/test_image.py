from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.image import DOCKERFILE, ROOT, build_context, gate_image, ignore_rules, ignored, stages

BUILD, RUN = stages(DOCKERFILE.read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LEFT_OUT = {"chromadb", "huggingface-hub", "sentence-transformers"}
HEAVY = {"torch", "sentence-transformers", "transformers", "onnxruntime", "chromadb", "open-webui"}


def one(stage: list[tuple[str, str]], word: str) -> str:
    found = [rest for name, rest in stage if name == word]
    assert len(found) == 1, word
    return found[0]


def pinned(file: str = "requirements.txt") -> dict[str, str]:
    text = (ROOT / "deploy" / file).read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==([\w.]+) \\$", text, re.MULTILINE))


def inside(program: str, opt: Path) -> Any:
    """Run a program with the image's Python and nothing of this environment; return its JSON."""
    done = subprocess.run(
        [opt / "bin" / "python", "-c", program],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8"},
        cwd="/",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def opt() -> Path:
    return gate_image()


def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [program, "--failure-threshold", "style", DOCKERFILE], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_finds_a_slip(tmp_path: Path) -> None:
    slip = tmp_path / "Dockerfile"
    slip.write_text("FROM python:latest\nRUN pip install requests\n")
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, slip], capture_output=True, text=True)
    assert done.returncode and "DL3007" in done.stdout


def test_both_stages_have_the_same_versioned_base() -> None:
    bases = {stage[0][1].partition(" ")[0] for stage in (BUILD, RUN)}
    assert len(bases) == 1
    found = re.fullmatch(r"python:(3\.1[12])\.\d+-slim-bookworm", bases.pop())
    assert found and f">={found[1]}" == PROJECT["requires-python"]


def test_image_runs_as_a_numbered_user() -> None:
    uid, gid = one(RUN, "USER").split(":")
    assert int(uid) == int(gid) == 10001


def test_image_starts_the_command_without_a_shell() -> None:
    assert json.loads(one(RUN, "ENTRYPOINT")) == ["lessons"]
    assert json.loads(one(RUN, "CMD")) == ["--help"]
    assert not [rest for word, rest in RUN if word == "RUN"]


def test_image_carries_no_secret() -> None:
    text = " ".join(rest for _, rest in [*BUILD, *RUN])
    assert not re.search(r"(?i)(password|token|api_key|salt)\s*=", text)


def test_versions_are_the_project_s() -> None:
    version = PROJECT["version"]
    labels = one(RUN, "LABEL")
    assert f'image.version="{version}"' in labels
    for place in ("deploy/base/kustomization.yaml", "deploy/compose.yaml", "deploy/Dockerfile"):
        text = (ROOT / place).read_text("utf-8")
        named = re.findall(r"lessons-loop-(?:gate|eval)\s*(?:\n\s*newTag: |:)([\d.]+)", text)
        assert named and set(named) == {version}, place


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-eval.txt"])
def test_every_requirement_is_pinned_with_its_content(file: str) -> None:
    lines = (ROOT / "deploy" / file).read_text("utf-8").replace("\\\n", "").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            assert re.fullmatch(r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", line), line


def test_pins_fit_what_the_project_asks_for() -> None:
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    found, more = pinned(), pinned("requirements-eval.txt")
    assert found.items() <= more.items()
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        version = found["chromadb-client" if name == "chromadb" else name]
        assert requirement.specifier.contains(version), requirement
    for text in PROJECT["optional-dependencies"]["eval"]:
        assert Requirement(text).specifier.contains(more[Requirement(text).name])


def test_image_lacks_nothing_it_asks_for(opt: Path) -> None:
    program = (
        "import json; from importlib.metadata import distributions as d\n"
        "print(json.dumps({x.metadata['Name']: x.requires or [] for x in d()}))"
    )
    found: dict[str, list[str]] = inside(program, opt)
    there = {canonicalize_name(name) for name in found}
    needed = {
        canonicalize_name(requirement.name)
        for requirement in (Requirement(text) for texts in found.values() for text in texts)
        if requirement.marker is None
        or requirement.marker.evaluate({"extra": "", "python_version": "3.11"})
    }
    assert needed - there == LEFT_OUT
    assert there & HEAVY == set() and "pip" not in there


def test_every_module_loads_in_the_image(opt: Path) -> None:
    program = (
        "import importlib, json, pkgutil, lessons_loop, sys\n"
        "failed = {}\n"
        "for found in pkgutil.walk_packages(lessons_loop.__path__, 'lessons_loop.'):\n"
        "    if '.openwebui' in found.name or '.bench' in found.name: continue\n"
        "    try: importlib.import_module(found.name)\n"
        "    except ImportError as error: failed[found.name] = str(error)\n"
        "print(json.dumps([failed, len(sys.modules)]))"
    )
    failed, loaded = inside(program, opt)
    assert failed == {} and loaded > 500


def test_data_files_are_in_the_image(opt: Path) -> None:
    packages = next(opt.glob("lib/python3.*/site-packages/lessons_loop"))
    held = {path.relative_to(packages) for path in packages.rglob("*") if path.is_file()}
    parts = ("filter", "promote", "seeds", "eval", "deploy")
    kinds = (".yaml", ".css", ".html", ".sql", ".jsonl", ".py")
    wanted = {path for path in build_context() if path.parts[0] in parts and path.suffix in kinds}
    kubernetes = {"base", "overlays", "rendered", "compose.yaml", "openwebui.env.yaml"}
    assert {path for path in wanted - held if path.parts[1] not in kubernetes} == set()


def test_image_is_small(opt: Path) -> None:
    size = sum(path.lstat().st_size for path in opt.rglob("*") if not path.is_dir())
    assert size < 330_000_000


# T-43
def test_command_embeds_without_torch(opt: Path) -> None:
    program = (
        "import json, sys\n"
        "import lessons_loop.deploy.cli\n"
        "from lessons_loop.promote.embedding.embedders import parse_embedding\n"
        "rows = parse_embedding('minilm:', {}).embed(['a lesson'], 'document')\n"
        "heavy = {'torch', 'sentence_transformers', 'onnxruntime'} & set(sys.modules)\n"
        "print(json.dumps([list(rows.shape), sorted(heavy)]))"
    )
    assert inside(program, opt) == [[1, 384], []]


def test_store_in_a_folder_is_refused_in_one_line(opt: Path, tmp_path: Path) -> None:
    command = [opt / "bin" / "python", opt / "bin" / "lessons"]  # in the image it stands elsewhere
    done = subprocess.run(
        [*command, "init", "--store", tmp_path / "lessons", "--domain", "sql"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        timeout=300,
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "http-only client" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "path",
    [
        "deploy/compose.env",
        ".git/config",
        ".cache/image/x",
        ".run/openwebui/secret-key",
        "tests/conftest.py",
        "deploy/__pycache__/cli.cpython-311.pyc",
        "build/lib/x.py",
        "notes.txt",
    ],
)
def test_build_does_not_see(path: str) -> None:
    assert ignored(path, ignore_rules())


def test_build_sees_what_it_copies() -> None:
    context = {str(path) for path in build_context()}
    for word, rest in BUILD:
        if word == "COPY":
            for source in rest.split()[:-1]:
                assert source in context or any(p.startswith(f"{source}/") for p in context), rest
