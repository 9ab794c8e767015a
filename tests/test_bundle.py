"""The pasted file: fresh, readable, self-contained, loaded by Open WebUI's own loader."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_loop.deploy.bundle import OUTPUT, BundleError, bundle

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
user_spec = instance.UserValves.model_json_schema()["properties"]
print("\\n" + json.dumps([kind, front, ours, sorted(spec), sorted(user_spec)]))
"""


def source(folder: Path, **modules: str) -> Path:
    """Write a small filter package whose entry is `lessons_filter`."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return folder


def test_committed_file_is_fresh():
    assert OUTPUT.read_text("utf-8") == bundle(), "run `make bundle`"


def test_check_reports_a_stale_file(tmp_path):
    command = [sys.executable, "deploy/bundle.py", "--check"]
    assert subprocess.run(command, cwd=ROOT).returncode == 0


def test_text_and_comments_are_kept():
    text = OUTPUT.read_text("utf-8")
    for module in sorted((ROOT / "filter").glob("*.py")):
        kept = [line for line in module.read_text("utf-8").splitlines() if line.startswith("    #")]
        assert module.stem == "__init__" or f"# filter/{module.name}" in text
        assert all(line in text for line in kept)


def test_pasted_file_holds_no_gate():
    tree = ast.parse(OUTPUT.read_text("utf-8"))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not {name for name in imported if name.startswith("lessons_loop")}
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert not names & {"GateSession", "Archived", "Change", "Ledger", "CuratedWriter"}


def test_front_matter_asks_for_no_installs():
    head = OUTPUT.read_text("utf-8").split('"""')[1]
    assert OUTPUT.read_text("utf-8").startswith('"""\n')
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
def test_open_webui_loads_the_pasted_file(tmp_path):
    import json

    environment = os.environ | {
        "DATA_DIR": str(tmp_path),
        "WEBUI_SECRET_KEY": "throwaway",
        "OFFLINE_MODE": "true",
        "GLOBAL_LOG_LEVEL": "ERROR",
    }
    command = [sys.executable, "-c", LOADER, str(OUTPUT)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kind, front, ours, valves, user_valves = json.loads(done.stdout.splitlines()[-1])
    assert (kind, ours, front["title"]) == ("filter", [], "Lessons Loop")
    assert {"domains", "distill_api_key", "recall_timeout_ms"} <= set(valves)
    assert user_valves == ["contribute", "show_lessons", "use_lessons"]
