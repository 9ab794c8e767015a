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
from support.sandbox import Sandbox, Started, Volume, image_of

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


class CannotStart(AssertionError):
    """What the kubelet says where a container's references do not resolve."""


class Pod:
    """One pod: its empty volumes are its own, its claims the cluster's."""

    def __init__(
        self, spec: Mapping[str, Any], cluster: Cluster, claims: Sequence[str] = ()
    ) -> None:
        self.spec, self.cluster, self.claims = spec, cluster, claims
        self.folder = Path(tempfile.mkdtemp(prefix="pod-", dir=cluster.folder))

    @property
    def containers(self) -> dict[str, dict[str, Any]]:
        """Return its containers, those that come first included."""
        return {
            one["name"]: one
            for part in ("initContainers", "containers")
            for one in self.spec.get(part) or ()
        }

    def environment(self, container: str) -> dict[str, str]:
        """Return what the kubelet would set; raise CannotStart."""
        found: dict[str, str] = {}
        for source in self.containers[container].get("envFrom") or ():
            for kind in ("configMapRef", "secretRef"):
                if reference := source.get(kind):
                    found |= self.cluster.values(kind, reference) or {}
        for one in self.containers[container].get("env") or ():
            if (value := self._value(one)) is not None:
                found[one["name"]] = value
        return found

    def _value(self, one: Mapping[str, Any]) -> str | None:
        if "valueFrom" not in one:
            return str(one.get("value", ""))
        kind, reference = next(iter(one["valueFrom"].items()))
        values = self.cluster.values(kind, reference)
        if values is not None and reference["key"] in values:
            return values[reference["key"]]
        if reference.get("optional"):
            return None
        raise CannotStart(f"couldn't find key {reference['key']} in {reference['name']}")

    def volumes(self, container: str) -> list[Volume]:
        """Return what is mounted where."""
        return [self._volume(one) for one in self.containers[container].get("volumeMounts") or ()]

    def _volume(self, mount: Mapping[str, Any]) -> Volume:
        name = mount["name"]
        about = next((v for v in self.spec.get("volumes") or () if v["name"] == name), {})
        place = self.folder / name
        if (config := about.get("configMap") or about.get("secret")) is not None:
            kind = "configMap" if "configMap" in about else "secret"
            values = self.cluster.values(
                kind, {"name": config.get("name", config.get("secretName"))}
            )
            place.mkdir(exist_ok=True)
            for file, text in (values or {}).items():
                (place / file).write_text(text, "utf-8")
            source = place / mount["subPath"] if "subPath" in mount else place
            return Volume(source, mount["mountPath"], False)
        if claim := about.get("persistentVolumeClaim", {}).get("claimName"):
            place = self.cluster.volume(claim)
        elif name in self.claims:
            place = self.cluster.volume(f"{name}-0")
        place.mkdir(exist_ok=True)
        self._give_to_group(place)
        return Volume(place, mount["mountPath"], not mount.get("readOnly"))

    def _give_to_group(self, place: Path) -> None:
        """Do as the kubelet does with fsGroup; an empty volume belongs to root."""
        group = (self.spec.get("securityContext") or {}).get("fsGroup", 0)
        if os.getuid() == 0 and (place.stat().st_gid == 0 or not group):
            os.chown(place, 0, group)
            place.chmod(0o2777 if place.parent == self.folder else 0o2775)

    def sandbox(self, container: str) -> Sandbox:
        """Return how to run one container."""
        about = self.containers[container]
        context = {
            **(self.spec.get("securityContext") or {}),
            **(about.get("securityContext") or {}),
        }
        return Sandbox(
            image=image_of(about["image"]),
            command=about.get("command"),
            args=about.get("args"),
            environment=self.environment(container),
            volumes=self.volumes(container),
            uid=int(context["runAsUser"]),
            gid=int(context["runAsGroup"]),
            groups=[context["fsGroup"]] if "fsGroup" in context else [],
            read_only=bool(context.get("readOnlyRootFilesystem")),
            hosts=self.cluster.hosts,
            namespace=self.cluster.holder,
            scratch=self.folder,
        )

    def run(
        self,
        container: str,
        *,
        args: Sequence[str] | None = None,
        command: Sequence[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a container to its end; `args` and `command` replace what stands there."""
        running = self.start(
            container, args=args, command=command, env=env, stdin=stdin is not None
        )
        try:
            out, err = running.communicate(stdin, timeout=timeout)
        except BaseException:
            running.kill()
            running.communicate()
            raise
        return subprocess.CompletedProcess(running.args, running.returncode, out, err)

    def start(
        self,
        container: str,
        *,
        args: Sequence[str] | None = None,
        command: Sequence[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: bool = False,
    ) -> Started:
        """Start a container; signals sent to it reach its first process. None in `env` unsets."""
        box = self.sandbox(container)
        if command is not None:  # as `kubectl exec` would
            box.command, box.args = list(command), []
        if args is not None:
            box.args = list(args)
        for name, value in (env or {}).items():
            box.environment.pop(name, None)
            if value is not None:
                box.environment[name] = value
        started = box.start(stdin=stdin)
        self.cluster.running.append(started)
        return started


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
        self.sockets = Path(tempfile.mkdtemp(prefix="lessons-"))  # a socket's path has 107 signs
        self.secrets = {"LESSONS_SALT": SALT} if secrets is None else dict(secrets)
        self.config = {o["metadata"]["name"]: dict(o["data"]) for o in self.of_kind("ConfigMap")}
        self.config["lessons-settings"] |= settings or {}
        self.names = [o["metadata"]["name"] for o in self.of_kind("Service")]
        self.tunnels: dict[int, str] = {}

    def __enter__(self) -> Self:
        """Make the namespace: it lives as long as its holder."""
        from support.sandbox import hold_network

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

    def serve(self, kind: str, name: str, seconds: float = 60) -> Started:
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
