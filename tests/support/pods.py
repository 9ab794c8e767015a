"""A pod of rendered Kubernetes objects: what the kubelet makes of its template."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.sandbox import Sandbox, Started, Volume, image_of

if TYPE_CHECKING:
    from support.containers import Cluster


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
        timeout: float = 200,
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
