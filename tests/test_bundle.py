"""The pasted file: fresh, readable, self-contained, loaded by Open WebUI's own loader."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_loop.deploy.bundle import ENTRIES, OUTPUT, BundleError, bundle, is_current

ROOT = Path(__file__).parent.parent
ENTRY = '"""\ntitle: T\ndescription: D\n"""\nfrom __future__ import annotations\n'
DOUBLES = '''"""Doubles."""
from __future__ import annotations
import math
N = 2
"""Twice."""


def double(x: int) -> int:
    # why: two
    return math.trunc(N * x)
'''
LOADER = """
import asyncio, json, sys
from open_webui.utils.plugin import load_function_module_by_id
content = open(sys.argv[1], encoding="utf-8").read()
instance, kind, front, module = asyncio.run(load_function_module_by_id("lessons_filter", content))
ours = [name for name in sys.modules if name.startswith("lessons_loop")]
spec = instance.Valves.model_json_schema()["properties"]
user_valves = getattr(instance, "UserValves", None)
user_spec = user_valves.model_json_schema()["properties"] if user_valves else []
print("\\n" + json.dumps([kind, front, ours, sorted(spec), sorted(user_spec)]))
"""


def source(folder: Path, **modules: str) -> Path:
    """Write a small filter package whose entry is `lessons_filter`."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return folder


@pytest.fixture(params=ENTRIES)
def pasted(request: pytest.FixtureRequest) -> str:
    """The text of each file an administrator pastes."""
    return (OUTPUT / f"{request.param}.py").read_text("utf-8")


@pytest.mark.parametrize("entry", ENTRIES)
def test_committed_file_is_fresh(entry):
    assert is_current(OUTPUT / f"{entry}.py", bundle(entry=entry)), "run `make bundle`"


def test_stale_file_is_told(tmp_path):
    command = [sys.executable, "deploy/bundle.py", "--check"]
    assert subprocess.run(command, cwd=ROOT).returncode == 0
    file = tmp_path / "pasted.py"
    assert not is_current(file, "text")
    file.write_text("text", "utf-8")
    assert is_current(file, "text") and not is_current(file, "newer text")


def test_text_and_comments_are_kept():
    texts = [(OUTPUT / f"{entry}.py").read_text("utf-8") for entry in ENTRIES]
    for module in sorted((ROOT / "filter").glob("*.py")):
        kept = [line for line in module.read_text("utf-8").splitlines() if line.startswith("    #")]
        holding = [text for text in texts if f"# filter/{module.name}" in text]
        assert holding or module.stem == "__init__"
        assert all(line in text for line in kept for text in holding)


def test_pasted_file_holds_no_gate(pasted):
    tree = ast.parse(pasted)
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not {name for name in imported if name.startswith("lessons_loop")}
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert not names & {"GateSession", "Archived", "Change", "Ledger", "CuratedWriter"}


def test_each_file_is_one_sort_of_plugin():
    for entry, kind in ENTRIES.items():
        tree = ast.parse((OUTPUT / f"{entry}.py").read_text("utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        assert names & {"Pipe", "Filter", "Action", "Event", "Tools"} == {kind}


def test_front_matter_asks_for_no_installs(pasted):
    head = pasted.split('"""')[1]
    assert pasted.startswith('"""\n')
    assert "requirements:" not in head.replace("required_open_webui_version", "")
    assert "source_digest: " in head


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        (
            {"lessons_filter": ENTRY + "from lessons_loop.promote.gate import judge\n"},
            "must not import",
        ),
        ({"lessons_filter": ENTRY + "from .a import b\n"}, "relative import"),
        (
            {
                "lessons_filter": ENTRY + "from lessons_loop.filter.a import b as c\n",
                "a": "b = 1\n",
            },
            "renamed",
        ),
        (
            {"lessons_filter": ENTRY + "from lessons_loop.filter.a import *\n", "a": "b = 1\n"},
            "starred",
        ),
        ({"lessons_filter": ENTRY + "import lessons_loop.filter.a\n"}, "write `from"),
        ({"lessons_filter": ENTRY + "print('hello')\n"}, "runs code on import"),
        ({"lessons_filter": ENTRY + "class Pipe: ...\n"}, "reserves Pipe"),
        ({"lessons_filter": ENTRY + "class Event: ...\n"}, "reserves Event"),
        ({"lessons_filter": ENTRY + "x = 'take it from " + "config'\n"}, "would rewrite"),
        (
            {
                "lessons_filter": ENTRY + "from lessons_loop.filter.a import b\nx = 1\n",
                "a": "b = 1\nx = 2\n",
            },
            "x is defined in both",
        ),
        (
            {
                "lessons_filter": ENTRY
                + "from json import dumps\nfrom lessons_loop.filter.a import b\n",
                "a": "b = 1\ndumps = 2\n",
            },
            "both imported and defined",
        ),
        (
            {
                "lessons_filter": ENTRY + "import time\nfrom lessons_loop.filter.a import b\n",
                "a": "from time import time\nb = time\n",
            },
            "time is imported in two ways",
        ),
        (
            {"lessons_filter": ENTRY + "def f():\n    from lessons_loop.filter.a import b\n"},
            "inside a function",
        ),
        ({"lessons_filter": '"""\ntitle: T\nnote: stray\n"""\nx = 1\n'}, "note as front matter"),
        ({"lessons_filter": '"""title: T"""\nx = 1\n'}, "must start on the line after"),
        ({"lessons_filter": ENTRY + "from lessons_loop.filter.gone import b\n"}, "gone"),
    ],
)
def test_unsafe_source_is_refused(tmp_path, modules, says):
    with pytest.raises(BundleError, match=says):
        bundle(source(tmp_path, **modules))


def test_joined_source_runs(tmp_path):
    folder = source(
        tmp_path,
        lessons_filter=ENTRY + "from lessons_loop.filter.a import double\nX = double(4)\n",
        a=DOUBLES,
    )
    namespace: dict[str, object] = {}
    text = bundle(folder)
    exec(compile(text, "bundle", "exec"), namespace)
    assert namespace["X"] == 8 and "# why: two" in text and '"""Twice."""' in text


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("entry", "expected", "some_valves", "own"),
    [
        (
            "lessons_filter",
            ("filter", [], "Lessons Loop"),
            {"domains", "distill_api_key", "recall_timeout_ms"},
            ["contribute", "show_lessons", "use_lessons"],
        ),
        ("lessons_rating", ("event", [], "Lessons Loop Ratings"), {"enabled"}, []),
    ],
)
def test_open_webui_loads_the_pasted_file(tmp_path, entry, expected, some_valves, own):
    import json

    environment = os.environ | {
        "DATA_DIR": str(tmp_path),
        "WEBUI_SECRET_KEY": "throwaway",
        "OFFLINE_MODE": "true",
        "GLOBAL_LOG_LEVEL": "ERROR",
    }
    command = [sys.executable, "-c", LOADER, str(OUTPUT / f"{entry}.py")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kind, front, ours, valves, user_valves = json.loads(done.stdout.splitlines()[-1])
    assert (kind, ours, front["title"]) == expected
    assert some_valves <= set(valves)
    assert user_valves == own
