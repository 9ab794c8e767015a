"""Walk the deployment page: its commands in their order, in the containers they name.

What needs a cluster's own brain (apply, rollout, scale, wait, logs) is done by hand here; each
command inside a container runs there as it stands, with its settings, user and read-only root.
Not covered: docker, helm and what runs in Open WebUI's pod.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import tarfile
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.inject import BLOCK_OPEN
from lessons_loop.filter.lessons_filter import Filter, tick
from lessons_loop.filter.models import Lesson
from support.containers import Cluster, Pod
from support.llm_server import LlmServer
from support.operators_page import command_lines, kubectl, parts, without_settings
from support.outlet import LESSON, model_reply, outlet_body
from support.sandbox import Started
from support.shelf import app_with

SEEDS = """\
- id: silence-before-reboot
  kind: resolution-pattern
  trigger: rebooting a rack of the plant network on purpose
  tags: [reboot, alarm]
  text: Silence the rack's alarms with rack_silence before rebooting it, never after.
- id: spare-by-part-number
  kind: schema-map
  trigger: finding a spare part for a pump
  tags: [spare, pump]
  text: Look spare parts up by part_number in spare_catalogue, never by their description.
"""
ASKED = "operating hours of the machine with serial SN-4711?"
SPARE = "Where do I find a spare part for a pump?"
LOOKS = ("candidates", "doctor", "status", "confirm")
OTHER = {
    "text": "Sum telemetry_hours through serial_key of equipment_machine, never by ILIKE.",
    "kind": "perf-guard",
    "trigger": "adding up the hours of a machine",
    "tags": ["hours"],
}


class Step(NamedTuple):
    """One command of the page as it ended."""

    line: str
    code: int
    out: str
    err: str


class Chats:
    """The pasted filter as Open WebUI's pod runs it, its store set as the env block says."""

    def __init__(self, url: str, embedder: Embedder) -> None:
        self.url, self.embedder = url, embedder

    def recalled(self, question: str) -> str:
        """Ask a question in a fresh process's filter and return the block the model is given."""

        async def ask(plugin: Filter) -> str:
            body = {"model": "m", "messages": [{"role": "user", "content": question}]}
            request = SimpleNamespace(app=app_with(self.embedder))
            found = await plugin.inlet(
                body=body, __user__=_user(1), __metadata__={"chat_id": "c"}, __request__=request
            )
            told = [str(m["content"]) for m in found["messages"]]
            return "\n".join(text for text in told if BLOCK_OPEN in text)

        async def play(plugin: Filter) -> str:
            await ask(plugin)
            await tick(plugin)  # a busy machine may need longer than a question waits
            return await ask(plugin)

        return str(self._run(play, recall_timeout_ms=30_000))

    def taught(self) -> None:
        """Let two users' chats prove one lesson, and a third chat another."""

        async def play(plugin: Filter) -> None:
            for number, user in enumerate((1, 2, 1), 1):
                body = outlet_body(chat=f"chat-{number}", message=f"message-{number}")
                metadata = {"chat_id": f"chat-{number}"}
                await plugin.outlet(body=body, __user__=_user(user), __metadata__=metadata)
                assert await plugin.worker.settle(120) == 0
            await tick(plugin)

        with LlmServer([model_reply(), model_reply(), model_reply(fields=OTHER)]) as model:
            self._run(play, distill_enabled=True, distill_url=model.url, distill_model="m")

    def _run(self, play: Any, **valves: Any) -> Any:
        async def run() -> Any:
            plugin = Filter()
            plugin.valves = Filter.Valves(store=self.url, domains="ops", **valves)
            try:
                return await play(plugin)
            finally:
                if plugin.timer:
                    plugin.timer.cancel()
                await plugin.worker.settle(30)
                if plugin.backend:
                    await plugin.backend.close()

        return asyncio.run(run())


def _user(number: int) -> dict[str, Any]:
    return {"id": f"user-{number}", "valves": Filter.UserValves()}


class Walk:
    """The operator: types what the page says and reads what comes back."""

    def __init__(self, cluster: Cluster, chats: Chats, chroma: Started) -> None:
        self.cluster, self.chats, self.chroma = cluster, chats, chroma
        self.steps: list[Step] = []
        self.recalled: dict[str, str] = {}
        """What a chat was told at some points of the walk."""
        self.desk: Pod = cluster.pod("Deployment", "lessons-desk")

    def go(self) -> None:
        """Type every command of the page."""
        for line in command_lines():
            self.type(line)
        self.at_the_desk("desk history", ["history"])

    def type(self, line: str) -> None:
        """Type one line; what is only looked at is looked at once."""
        if line.split()[:2][-1] in LOOKS and self.all(line):
            return
        if line.startswith("desk candidates"):
            self.chats.taught()
        elif line.startswith("desk init"):
            self.lose_chroma()
        self.carry_out(line)
        if line.startswith("desk migrate --to"):  # back, and on again
            self.at_the_desk(line, ["migrate"])
        for command in ("seed", "promote", "import", "demote"):
            if line.startswith(f"desk {command} "):
                self.recalled[command] = self.chats.recalled(ASKED if command != "seed" else SPARE)

    def lose_chroma(self) -> None:
        """Let Chroma's volume be lost, and do what the page says before the desk is opened."""
        self.chroma.kill()
        self.chroma.communicate()
        shutil.rmtree(self.cluster.volume("data-0"))
        self.chroma = self.cluster.serve("StatefulSet", "lessons-chroma")
        self.cluster.config["lessons-settings"]["LESSONS_STATE"] = "/state/second"
        self.desk = self.cluster.pod("Deployment", "lessons-desk")

    def carry_out(self, line: str) -> None:
        """Do what the commands of a line do; a pipe's last one gets what stands before it."""
        for words in map(without_settings, parts(line)):
            if words[:1] == ["desk"]:
                self.at_the_desk(line, words[1:])
            elif words[:1] == ["kubectl"]:
                self.kubectl(line, words)

    def kubectl(self, line: str, words: list[str]) -> None:
        """Do what a kubectl command does."""
        call = kubectl(words)
        if call.verb == "create" and call.options.get("--from"):
            self.job(line)
        elif call.verb == "scale" and call.options["--replicas"] == "1":
            self.desk = self.cluster.pod("Deployment", "lessons-desk")
        elif call.verb == "exec" and call.namespace == "lessons" and "$@" not in call.inside:
            self.inside(line, list(call.inside))

    def job(self, line: str) -> None:
        """Run the gate's pod once, as its CronJob would."""
        pod = self.cluster.pod("CronJob", "lessons-gate")
        for container in ("init", "gate"):
            done = pod.run(container, timeout=200)
            self.steps.append(Step(line, done.returncode, done.stdout, done.stderr))
            if done.returncode:
                return

    def at_the_desk(self, line: str, words: list[str]) -> None:
        """Run a `lessons` command at the desk, ids put in."""
        command = ["env", "LOGNAME=anna", "lessons", *self.with_ids(words)]
        done = self.desk.run("desk", command=command, args=[], timeout=200)
        self.steps.append(Step(line, done.returncode, done.stdout, done.stderr))

    def with_ids(self, words: list[str]) -> list[str]:
        """Put a real id where the page says ID."""
        if "ID" not in words:
            return words
        rejected, other = words[0] == "reject", words[0] == "forget"
        chosen = "user-1" if other else key_of(OTHER if rejected else LESSON)
        return [chosen if word == "ID" else word for word in words]

    def inside(self, line: str, words: list[str]) -> None:
        """Run another program at the desk: what the page sends in comes from here."""
        stdin = {"tar x": archive(), "tee /tmp/lessons.jsonl": self.last("export").out}.get(
            " ".join(words[:2])
        )
        if words[:2] == ["tar", "c"]:  # what it writes is no text
            words = [*words, "-f", "/dev/null", "--verbose"]
        done = self.desk.run("desk", command=words, args=[], stdin=stdin, timeout=200)
        self.steps.append(Step(line, done.returncode, done.stdout, done.stderr))

    def last(self, text: str) -> Step:
        """Return the newest step whose line holds a text; an empty one where there is none."""
        found = [step for step in self.steps if text in step.line]
        return found[-1] if found else Step("", 0, "", "")

    def all(self, text: str) -> list[Step]:
        """Return every step whose line holds a text."""
        return [step for step in self.steps if text in step.line]


def key_of(fields: Mapping[str, Any]) -> str:
    """Return the id of a lesson as commands show it."""
    return Lesson(domain="ops", source="distill", **fields).key[:12]


def archive() -> str:
    """Return what `tar c ops` writes; plain ASCII, so that it passes as text."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        about = tarfile.TarInfo("ops/ops.yaml")
        about.size = len(SEEDS.encode())
        tar.addfile(about, io.BytesIO(SEEDS.encode()))
    return packed.getvalue().decode("ascii")
