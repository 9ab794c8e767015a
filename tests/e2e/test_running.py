from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lessons_loop.deploy.local.demo import FIRST
from lessons_loop.deploy.webui.browser import Turn
from lessons_loop.deploy.webui.client import OpenWebUI
from lessons_loop.deploy.webui.exchange import received_system
from lessons_loop.deploy.webui.server import ADMIN_EMAIL
from lessons_loop.filter.inject import BLOCK_OPEN
from support.openwebui import PLUGIN, RATING_PLUGIN, ask_in_page
from support.processes import alive, soon

LESSONS = [sys.executable, "-m", "lessons_loop.deploy.cli"]
FOREIGN = ("OPENAI_API_", "RAG_", "LESSONS_")


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


class Up:
    """A running `lessons up`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [*LESSONS, "up", "--port", "0", "--data-dir", str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
        )
        self.output = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.output += line

    def complete_output(self) -> str:
        """Return everything it printed; it has ended."""
        self._reader.join(60)
        return self.output

    def wait_until_ready(self) -> OpenWebUI:
        soon(lambda: "Ctrl-C" in self.output or self.process.poll() is not None, 400)
        assert "Ctrl-C" in self.output, self.output
        client = OpenWebUI(re.findall(r"Open WebUI +(http\S+)", self.output)[0])
        client.sign_in(ADMIN_EMAIL, (self.folder / "admin-password").read_text().strip())
        return client

    def children(self) -> list[int]:
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(OSError):  # a thread that ended meanwhile
                found += map(int, task.read_text().split())
        return found

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)

    def close(self) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        self._reader.join(10)
        assert self.process.stdout
        self.process.stdout.close()


@contextmanager
def up(folder: Path) -> Iterator[Up]:
    running = Up(folder)
    try:
        yield running
    finally:
        running.close()


def gone(pids: list[int]) -> bool:
    return bool(soon(lambda: not any(alive(pid) for pid in pids)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up") / "openwebui"


def test_up_brings_everything_and_stops_on_interrupt(folder: Path) -> None:
    with up(folder) as running:
        client = running.wait_until_ready()
        plugin = client.function(PLUGIN)
        assert plugin and plugin["is_active"] and plugin["is_global"]
        assert client.valves("functions", PLUGIN)["distill_enabled"] is True
        assert (client.function(RATING_PLUGIN) or {})["is_active"]
        assert "a script, not an LLM" in running.output
        assert stat.S_IMODE((folder / "admin-password").stat().st_mode) == 0o600
        (model,) = client.ask("GET", "/api/models")["data"]
        assert model["info"]["meta"]["toolIds"] == ["run_sql"]
        turn: Turn = ask_in_page(client, model["id"], FIRST, tool_ids=["run_sql"])
        answer = client.stored_message(turn.chat_id, turn.message_id)
        assert "1,481.3 operating hours" in answer["content"]
        assert BLOCK_OPEN in received_system(folder / "practice-model.jsonl", FIRST)[0]
        command = f"source {folder / 'lessons.env'} && {' '.join(LESSONS)} status --json"
        shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert {d["domain"]: d["curated"] > 10 for d in json.loads(shown.stdout)["domains"]} == {
            "sql": True,
            "openwebui": True,
        }
        client.set_valves("functions", PLUGIN, {"domains": "sql", "top_k": 3})
        client.ask("POST", f"/api/v1/functions/id/{PLUGIN}/toggle")
        children = running.children()
        assert len(children) == 2
        assert running.end(signal.SIGINT) == 0
        assert gone(children)
        assert "Traceback" not in running.complete_output()


def test_second_start_keeps_what_the_admin_changed(folder: Path) -> None:
    with up(folder) as running:
        client = running.wait_until_ready()
        assert client.valves("functions", PLUGIN) == {"domains": "sql", "top_k": 3}
        plugin = client.function(PLUGIN)
        assert plugin and not plugin["is_active"] and "switched off" in running.output
        assert "demo database is built" not in running.output
        assert client.model_ids() == ["practice-model"]
        again = subprocess.run(
            [*LESSONS, "up", "--port", "0", "--data-dir", str(folder)],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        assert f"in use by process {running.process.pid}" in again.stderr
        children = running.children()
        os.kill(children[0], signal.SIGKILL)
        assert running.process.wait(120) == 1
        assert re.search(r"lessons: .* ended with code -9", running.complete_output())
        assert gone(children)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_up_ended_while_starting_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with up(tmp_path) as running:

        def at_its_height() -> bool:
            """Practice model, Open WebUI, `lessons init`: that one at work, or missed."""
            return len(running.children()) > 2 or any(tmp_path.rglob("*.lessons"))

        assert soon(at_its_height, pause=0.1)
        children = running.children()
        assert running.end(number) == code
        assert gone(children)
        assert "Traceback" not in running.complete_output()


def test_demo_observes_every_step() -> None:
    done = subprocess.run(
        [*LESSONS, "demo", "--json"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["first"]["lesson_in_prompt"] is False
    assert figures["second"]["lesson_in_prompt"] is True
    assert figures["second"]["tool_calls"] < figures["first"]["tool_calls"]


def test_demo_interrupted_in_a_chat_leaves_nothing(tmp_path: Path) -> None:
    command = [*LESSONS, "demo", "--json"]
    env = environment() | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as demo:
        assert demo.stderr
        shown = ""
        for line in demo.stderr:
            shown += line
            if "engine is warm" in line:
                time.sleep(1)
                demo.send_signal(signal.SIGINT)
    assert demo.returncode == 130
    assert "Traceback" not in shown
    assert list(tmp_path.glob("lessons-demo-*")) == []
