"""Tool files as Open WebUI takes them: what the model is told, how calls run and fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lessons_loop.eval.agent.tool_results import is_tool_error, result_text
from lessons_loop.eval.agent.tools import BadTools, coerced, load_tools, parsed_arguments
from support.processes import soon
from support.tool_files import BARE, SHAPES

DEMO = Path(__file__).parents[1] / "deploy" / "demo" / "sql_tool.py"


@pytest.fixture
def tool_file(tmp_path):
    file = tmp_path / "tools.py"
    file.write_text(SHAPES, "utf-8")
    return file


FAILURES = [
    "Error: no",
    "traceback (most recent call last)",
    '{"error": "x"}',
    '"{\\"error\\": \\"x\\"}"',
    '{"error": ""}',
    '{"error": null, "rows": []}',
    '{"status": "failed"}',
    '{"ok": false, "message": "no"}',
    '{"ok": false}',
    "errors are counted in column 3",
    "12",
    "",
]
ASK_OPEN_WEBUI = """
import asyncio, json, re, sys
from open_webui.utils.middleware import _is_tool_result_error
from open_webui.utils.plugin import load_tool_module_by_id
from open_webui.utils.tools import get_tool_specs

def told(content):
    tools, _, _ = asyncio.run(load_tool_module_by_id("t", content=content))
    for spec in get_tool_specs(tools):  # then as get_tools does for each request
        document = getattr(tools, spec["name"]).__doc__ or ""
        said = re.split(":(param|return)", document, maxsplit=1)[0]
        spec["description"] = said if document.strip() else spec["name"]
        shown = spec["parameters"]["properties"].items()
        spec["parameters"]["properties"] = {k: v for k, v in shown if not k.startswith("__")}
        yield {"type": "function", "function": spec}

asked = json.load(sys.stdin)
print(json.dumps({
    "specs": [list(told(content)) for content in asked["files"]],
    "failed": [bool(_is_tool_result_error(text)) for text in asked["texts"]],
}))
"""


@pytest.fixture(scope="module")
def open_webui_says(tmp_path_factory):
    """Ask Open WebUI's own code, in a process of its own: it wants a data folder and a key."""
    folder = tmp_path_factory.mktemp("data")
    place = {"DATA_DIR": str(folder), "STATIC_DIR": str(folder / "static"), "FROM_INIT_PY": "true"}
    quiet = {"WEBUI_SECRET_KEY": "fake", "HF_HUB_OFFLINE": "1", "OFFLINE_MODE": "true"}
    done = subprocess.run(
        [sys.executable, "-c", ASK_OPEN_WEBUI],
        input=json.dumps({"files": [BARE, DEMO.read_text("utf-8")], "texts": FAILURES}),
        env={**os.environ, **place, **quiet},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_specs_are_what_open_webui_sends(open_webui_says, tool_file):
    for wanted, file in zip(open_webui_says["specs"], (tool_file, DEMO), strict=True):
        assert json.loads(json.dumps(load_tools(file).specs)) == wanted


def test_failures_are_told_as_open_webui_tells_them(open_webui_says):
    assert [is_tool_error(text) for text in FAILURES] == open_webui_says["failed"]
    assert sum(open_webui_says["failed"]) == 6


def test_valves_and_given_parameters_reach_a_tool(tool_file):
    box = load_tools(tool_file, {"city": "Oslo"})
    assert box.call("weather", '{"city": "Narvik", "days": "2"}') == ("Narvik 2 Oslo False", False)
    assert box.call("weather", "{'city': 'Narvik'}") == ("Narvik 1 Oslo False", False)


def test_what_the_model_may_not_give_is_dropped(tool_file):
    told = '{"city": "A", "__user__": {"valves": null}, "extra": 1}'
    assert load_tools(tool_file).call("weather", told) == ("A 1 Bergen False", False)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("place", '{"where": {"title": "Hall"}}', '{\n  "title": "Hall",\n  "ä": [\n    1,\n'),
        ("kinds", '{"unit": "h"}', '{\n  "results": [\n    "h",\n    null,\n    true\n  ]\n}'),
        ("bare", '{"anything": 1}', ""),
        ("number", "", "12.5"),
        ("says", "{}", "printed"),
    ],
)
def test_results_read_as_open_webui_gives_them(tool_file, name, arguments, text):
    found, failed = load_tools(tool_file).call(name, arguments)
    assert found.startswith(text) and bool(found) == bool(text) and not failed


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("breaks", '{"how": "colour"}', '"error": "no such column: colour"'),
        ("breaks", '{"how": "exit"}', "SystemExit gone"),
        ("weather", "{}", "missing 1 required positional argument"),
        ("weather", '{"city": "A", "days": "many"}', "invalid literal"),
        ("weather", '{"city": ', "no readable JSON"),
        ("weather", "[" * 100_000, "no readable JSON"),
        ("weather", '["A"]', "must be one JSON object"),
        ("wether", '{"city": "A"}', 'no tool "wether"'),
        ("_private", "{}", "no tool"),
        ("valves", "{}", "no tool"),
    ],
)
def test_failures_are_told_to_the_model(tool_file, name, arguments, part):
    text, failed = load_tools(tool_file).call(name, arguments)
    assert failed and part in text


def test_an_error_ends_no_later_call(tool_file):
    box = load_tools(tool_file)
    box.call("breaks", '{"how": "exit"}')
    assert box.call("number", "") == ("12.5", False)


def test_a_hanging_call_is_given_up(tool_file):
    box = load_tools(tool_file, seconds=1.0)
    text, failed = box.call("hangs", "{}")
    assert failed and "no answer within 1 s" in text
    box._loop.seconds = 60.0  # whatever a busy machine needs
    assert box.call("number", "") == ("12.5", False)


def test_a_blocking_call_holds_no_other_up(tool_file):
    box, started = load_tools(tool_file, seconds=3.0), time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        stuck = pool.submit(box.call, "blocks", '{"seconds": 200}')
        others = [pool.submit(box.call, "number", "") for _ in range(3)]
        assert "no answer within" in stuck.result(150)[0]
        assert [one.result(150) for one in others] == [("12.5", False)] * 3
    assert time.monotonic() - started < 150


def test_sync_calls_run_one_by_one(tool_file):
    box = load_tools(tool_file)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: box.call("alone", ""), range(24)))
    assert set(found) == {("1", False)}


def test_prints_of_a_tool_stay_out_of_the_output(tool_file, capsys):
    load_tools(tool_file).call("says", "")
    shown = capsys.readouterr()
    assert shown.out == "" and "a line for people" in shown.err


@pytest.mark.parametrize(
    ("source", "valves", "message"),
    [
        (None, {}, "cannot be read"),
        ("x = 1", {}, "has no class Tools"),
        ("import lacking_module", {}, "needs lacking_module: install it"),
        ("raise SystemExit(3)", {}, "cannot be loaded: 3"),
        ("def broken(:", {}, "cannot be loaded"),
        ("class Tools:\n    def __init__(self): raise KeyError('k')", {}, "cannot be loaded"),
        ("class Tools:\n    def a(self, x: Lacking): ...", {}, "cannot be told a model|loaded"),
        ("class Tools: ...", {"city": "x"}, "has no valves, but city is given"),
        (SHAPES, {"town": "x"}, "has no valve town"),
        (SHAPES, {"limit": "secret-value"}, "limit: Input should be a valid integer"),
    ],
)
def test_unusable_files_are_one_line(tmp_path, source, valves, message):
    file = tmp_path / "tools.py"
    if source is not None:
        file.write_text(source, "utf-8")
    with pytest.raises(BadTools, match=message) as caught:
        load_tools(file, valves)
    assert "\n" not in str(caught.value) and "secret-value" not in str(caught.value)


def test_threads_end_with_their_tools(tool_file):
    box = load_tools(tool_file)
    box.call("number", "")
    before = [one for one in threading.enumerate() if one.name == "lessons-tools"]
    del box
    assert before and soon(lambda: not before[-1].is_alive())


@pytest.mark.parametrize("result", ["", 0, None, (), [], {}, False, ("a", {}), b"x"])
def test_any_result_is_text(result):
    assert isinstance(result_text("t", result), str)


def test_numbers_and_texts_fit_their_hints():
    def f(a: int, b: str, c: int | None, d: bool, e): ...

    given = {"a": "1", "b": 2, "c": "3", "d": True, "e": "5"}
    assert coerced(f, given) == {"a": 1, "b": "2", "c": 3, "d": True, "e": "5"}
    assert parsed_arguments("  ") == ({}, True)
