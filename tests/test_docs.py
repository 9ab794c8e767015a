"""What README and CONTRIBUTING say is what the code does."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml

from lessons_loop.filter.kinds import KIND_MEANINGS, Kind
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.prompt import distill_instructions
from support.commands import every_command

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (`[^`]*`|empty) \| (.+) \|$", re.MULTILINE)
TYPES = {"integer": "int", "string": "str", "boolean": "bool", "number": "float"}


def schema_rows(model):
    """Return the rows a table of these valves must have."""
    rows = []
    for name, field in model.model_json_schema()["properties"].items():
        default = "empty" if field["default"] == "" else f"`{field['default']}`"
        rows.append((name, TYPES[field["type"]], default, field["description"]))
    return rows


def test_valve_tables_match_the_schema():
    wanted = schema_rows(Filter.Valves) + schema_rows(Filter.UserValves)
    assert ROW.findall(README) == wanted


@pytest.mark.parametrize("model", [Filter.Valves, Filter.UserValves])
def test_every_valve_has_a_control_and_one_sentence(model):
    for name, field in model.model_json_schema()["properties"].items():
        assert field["type"] in TYPES, name
        assert field["description"].endswith(".") and field["description"].count(". ") == 0, name
        assert field.get("input", {"type": "password"}) == {"type": "password"}, name


def test_secrets_have_password_fields():
    fields = Filter.Valves.model_json_schema()["properties"]
    secret = {name for name, field in fields.items() if "input" in field}
    assert secret == {"chroma_token", "distill_api_key"}


def test_first_screen_says_what_is_missing():
    assert "**Decay is live**" in README
    assert "make run" in README[:3000] and "make test" in README[:3000]


def test_makefile_has_what_readme_names():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"(?:`|^|\$ )make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_linked_files_exist():
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text("utf-8")
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (ROOT / link).exists(), link


def test_every_kind_is_known_everywhere():
    prompt = distill_instructions(3)
    shipped = {
        lesson["kind"]
        for file in (ROOT / "seeds").glob("*/*.yaml")
        if ".guide." not in file.name  # directives name no kind
        for lesson in yaml.safe_load(file.read_text("utf-8"))
    }
    assert set(KIND_MEANINGS) == set(Kind) and shipped == {kind.value for kind in Kind}
    assert all(kind.value in prompt for kind in Kind)


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *chain.from_iterable(extras)]
    names = {re.split(r"[^\w-]", one)[0].lower() for one in wanted} - {"lessons-loop"}
    reasons = (ROOT / "CONTRIBUTING.md").read_text("utf-8").lower()
    assert {"chromadb", "scipy", "statsmodels", "pytest"} <= names
    for name in names:
        assert name.startswith("types-") or name in reasons, name


def test_every_command_a_message_names_exists():
    known = {command.words[0] for command in every_command()}
    sources = [
        p
        for part in ("filter", "promote", "seeds", "eval", "deploy")
        for p in (ROOT / part).rglob("*.py")
    ]
    named = {name for p in sources for name in re.findall(r"`lessons ([a-z-]+)", p.read_text())}
    assert named and {name.replace("-", "_") for name in named} <= {
        name.replace("-", "_") for name in known
    }
