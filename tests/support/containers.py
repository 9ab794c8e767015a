"""Run the containers of rendered Kubernetes objects without an engine: bubblewrap, real limits.

    with Cluster(tmp_path, "small") as cluster:
        cluster.serve("StatefulSet", "lessons-chroma")          # on its real name and port
        pod = cluster.pod("CronJob", "lessons-gate")
        pod.run("init", timeout=60); pod.run("gate", timeout=60)
        requests.get(cluster.reach(8000) + "/api/v2/version")   # from the test's side

Covered: arguments, environment, user and groups, read-only root, no capabilities, volumes, the
names and ports of Services, no network but the cluster's own.
Not covered: the images' file systems (this machine's stand in for them), seccomp, limits,
NetworkPolicies.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from support.image import ROOT
from support.pods import CannotStart, Pod
from support.sandbox import Started, hold_network

__all__ = ["SALT", "CannotStart", "Cluster", "Pod", "load_objects", "parsed"]
TUNNEL = Path(__file__).with_name("tunnel.py")
SALT = "fa6e" * 16
"""Obviously no secret."""


def load_objects(overlay: str) -> list[dict[str, Any]]:
    """Return the objects of a committed rendering."""
    text = (ROOT / "deploy" / "rendered" / f"{overlay}.yaml").read_text("utf-8")
    return [one for one in yaml.safe_load_all(text) if one]


def pod_template(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod spec of a workload."""
    spec = one["spec"]
    spec = spec["jobTemplate"]["spec"] if one["kind"] == "CronJob" else spec
    return dict(copy.deepcopy(spec["template"]["spec"]))


class Cluster:
    """A network namespace with the objects of one overlay; volumes are folders in `folder`."""

    def __init__(
        self,
        folder: Path,
        overlay: str = "small",
        *,
        settings: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """`secrets`: content of lessons-secrets, None for a plain salt; {} for no Secret at all."""
        self.objects = load_objects(overlay)
        self.folder = folder / "cluster"
        self.folder.mkdir(parents=True, exist_ok=True)
        os.chmod(self.folder, 0o755)
        self.running: list[subprocess.Popen[Any]] = []
        self.secrets = {"LESSONS_SALT": SALT} if secrets is None else dict(secrets)
        self.config = {o["metadata"]["name"]: dict(o["data"]) for o in self.of_kind("ConfigMap")}
        self.config["lessons-settings"] |= settings or {}
        self.names = [o["metadata"]["name"] for o in self.of_kind("Service")]
        self.tunnels: dict[int, str] = {}

    def __enter__(self) -> Self:
        """Make the namespace: it lives as long as its holder."""
        self.sockets = Path(tempfile.mkdtemp(prefix="lessons-"))  # a socket's path has 107 signs
        self.held, self.holder = hold_network()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything."""
        for one in reversed(self.running):
            one.kill()
            one.communicate()
        self.held.kill()
        self.held.communicate()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return [one for one in self.objects if one["kind"] == kind]

    def values(self, kind: str, reference: Mapping[str, Any]) -> dict[str, str] | None:
        """Return a ConfigMap's or Secret's values, None for an optional one; raise CannotStart."""
        name = reference["name"]
        secret = kind.startswith("secret")
        found = (self.secrets or None) if secret else self.config.get(name)
        if secret and name != "lessons-secrets":
            found = None
        if found is None and not reference.get("optional"):
            raise CannotStart(f'{"secret" if secret else "configmap"} "{name}" not found')
        return found

    def volume(self, claim: str) -> Path:
        """Return the folder behind a claim."""
        place = self.folder / "volumes" / claim
        place.mkdir(parents=True, exist_ok=True)
        return place

    def pod(self, kind: str, name: str) -> Pod:
        """Return a new pod of a workload."""
        found = next(o for o in self.of_kind(kind) if o["metadata"]["name"] == name)
        claims = found["spec"].get("volumeClaimTemplates") or ()
        return Pod(pod_template(found), self, [one["metadata"]["name"] for one in claims])

    @property
    def hosts(self) -> str:
        """Return /etc/hosts: every Service is here."""
        space = self.objects[0]["metadata"].get("namespace", "lessons")
        ends = ("", f".{space}", f".{space}.svc", f".{space}.svc.cluster.local")
        names = [name + end for name in self.names for end in ends]
        return f"127.0.0.1 localhost {' '.join(names)}\n"

    def serve(self, kind: str, name: str, seconds: float = 120) -> Started:
        """Start a pod's first container and wait for its readiness probe."""
        pod = self.pod(kind, name)
        about = pod.spec["containers"][0]
        started = pod.start(about["name"])
        probe = about["readinessProbe"]["httpGet"]
        ports = {one["name"]: one["containerPort"] for one in about["ports"]}
        url = self.reach(ports.get(probe["port"], probe["port"])) + probe["path"]
        deadline = time.monotonic() + seconds
        while not _answers(url):
            if started.poll() is not None or time.monotonic() > deadline:
                started.kill()
                raise AssertionError(f"{name} is not ready: {started.communicate()}")
            time.sleep(0.1)
        return started

    def reach(self, port: int) -> str:
        """Return a URL on the test's side that leads to a port of the cluster."""
        if port not in self.tunnels:
            socket = f"unix:{self.sockets / f'{port}.in'}"
            self._tunnel(self.holder, socket, f"tcp:{port}")
            self.tunnels[port] = f"http://127.0.0.1:{self._tunnel([], 'tcp:0', socket)}"
        return self.tunnels[port]

    def offer(self, name: str, port: int, outside: int) -> None:
        """Let the cluster reach a server of the test's under a name and port."""
        socket = f"unix:{self.sockets / f'{port}.out'}"
        self._tunnel([], socket, f"tcp:{outside}")
        self._tunnel(self.holder, f"tcp:{port}", socket)
        self.names.append(name)

    def _tunnel(self, inside: Sequence[str], listen: str, connect: str) -> str:
        words = [*inside, sys.executable, str(TUNNEL), listen, connect]
        relay = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.running.insert(0, relay)
        assert relay.stdout
        return relay.stdout.readline().strip()


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.RequestException:
        return False


def parsed(done: subprocess.CompletedProcess[str]) -> Any:
    """Return the JSON a command printed, its whole output in the message where it failed."""
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)
