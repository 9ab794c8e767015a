"""One container under bubblewrap: its own root, user, mounts, in a namespace with loopback only."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from support.image import DOCKERFILE, HOME_OF_IMAGE, ROOT, gate_image, moved_script, stages


class Volume(NamedTuple):
    """A folder or file of this machine in a container."""

    source: Path
    target: str
    writable: bool


class Image(NamedTuple):
    """What stands in for an image."""

    entrypoint: list[str]
    default: list[str]
    environment: dict[str, str]
    folders: list[tuple[Path, str]]
    """Bound read-only at these places, beside /usr and Python."""
    workdir: str = "/"


def image_of(name: str) -> Image:
    """Return what stands in for an image by its name."""
    short = name.rsplit("/", 1)[-1].partition(":")[0].partition("@")[0]
    if short in ("lessons-loop-gate", "lessons-loop-eval"):
        return _gate(gate_image("requirements-eval.txt" if "eval" in short else "requirements.txt"))
    environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/bin"}
    if short == "chroma":
        return Image([], [], {"PATH": CHROMA_PATH}, chroma_folders())
    return Image([], [], environment, [])


def chroma_folders() -> list[tuple[Path, str]]:
    """Return what stands in for Chroma's image: the tests' environment, its command moved along."""
    command = ROOT / ".cache" / "chroma" / "chroma"
    command.parent.mkdir(parents=True, exist_ok=True)
    moved_script(Path(sys.prefix) / "bin" / "chroma", command, sys.prefix, "/opt/venv")
    return [(Path(sys.prefix), "/opt/venv"), (command.parent, "/opt/chroma")]


def _gate(opt: Path) -> Image:
    """Read the Dockerfile's last stage."""
    environment: dict[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    words: dict[str, Any] = {"ENTRYPOINT": "[]", "CMD": "[]", "WORKDIR": "/"}
    for word, rest in stages(DOCKERFILE.read_text("utf-8"))[-1]:
        if word == "ENV":
            for pair in shlex.split(rest):
                key, _, value = pair.partition("=")
                environment[key] = value.replace("$PATH", environment["PATH"])
        words[word] = rest
    return Image(
        json.loads(words["ENTRYPOINT"]),
        json.loads(words["CMD"]),
        environment,
        [(opt, HOME_OF_IMAGE)],
        words["WORKDIR"],
    )


class Started(subprocess.Popen[str]):
    """A running container; signals reach its first process."""

    inner = 0

    def send_signal(self, number: int) -> None:
        """Signal the container's first process."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended just now
                os.kill(self.inner or self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


CHROMA_PATH = "/opt/chroma:/opt/venv/bin:/usr/bin:/bin"


@dataclass
class Sandbox:
    """How one container runs."""

    image: Image
    command: list[str] | None
    args: list[str] | None
    environment: dict[str, str]
    volumes: list[Volume]
    uid: int
    gid: int
    groups: list[int]
    read_only: bool
    hosts: str
    namespace: list[str]
    scratch: Path

    @property
    def words(self) -> list[str]:
        """Return what runs: a command replaces the image's entry point and default arguments."""
        if self.command is not None:
            return [*self.command, *(self.args or ())]
        given = self.image.default if self.args is None else self.args
        return [*self.image.entrypoint, *given]

    def start(self, *, stdin: bool = False) -> Started:
        """Start it; its input is closed unless wanted."""
        read, write = os.pipe()
        line = [*self.namespace, "bwrap", "--info-fd", str(write), *self.limits(), *self.mounts()]
        for name, value in (self.image.environment | self.environment).items():
            line += ["--setenv", name, value]
        line += ["--chdir", self.image.workdir, "--", *self._as_user(), *self.words]
        pipe = subprocess.PIPE
        started = Started(
            line,
            stdin=pipe if stdin else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            pass_fds=[write],
        )
        os.close(write)
        for stream in (started.stdout, started.stderr):
            if stream and os.getuid() == 0:  # as engines do: else nobody may open /dev/stdout
                os.fchown(stream.fileno(), self.uid, self.gid)
        with os.fdopen(read) as told:
            text = told.read()
        started.inner = int(json.loads(text)["child-pid"]) if text else 0
        return started

    def limits(self) -> list[str]:
        """Return namespaces of its own, no capabilities, nothing of this environment."""
        own = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1"]
        own += ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "pod"]
        if os.getuid() == 0:  # setpriv below needs them, and gives them up
            caps = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
            return own + [word for cap in caps for word in ("--cap-add", cap)]
        return [*own, "--unshare-user", "--uid", str(self.uid), "--gid", str(self.gid)]

    def _as_user(self) -> list[str]:
        if os.getuid() != 0:
            return []
        extra = ["--groups", ",".join(map(str, self.groups))] if self.groups else ["--clear-groups"]
        who = ["--reuid", str(self.uid), "--regid", str(self.gid), *extra]
        none = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        return ["setpriv", *who, *none]

    def mounts(self) -> list[str]:
        """Return the root: this machine's programs, read-only, and the pod's volumes."""
        found: list[str] = []
        for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64"):
            found += ["--ro-bind-try", f"/{name}", f"/{name}"]
        base = Path(sys.base_prefix)
        own = [] if base.is_relative_to("/usr") else [(base, str(base))]
        for folder, place in [*self.image.folders, *own]:
            found += ["--ro-bind", str(folder), place]
        for name in ("ld.so.cache", "ssl", "localtime", "nsswitch.conf"):
            found += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for name, text in self._etc().items():
            (self.scratch / f"etc-{name}").write_text(text)
            found += ["--ro-bind", str(self.scratch / f"etc-{name}"), f"/etc/{name}"]
        found += ["--symlink", "/dev/stderr", "/var/log/nginx/error.log"]  # as nginx's images do
        for volume in sorted(self.volumes, key=lambda one: one.target):
            bind = "--bind" if volume.writable else "--ro-bind"
            found += [bind, str(volume.source), volume.target]
        front = [*_parents(found), "--proc", "/proc", "--dev", "/dev"]
        return [*front, *found, *(["--remount-ro", "/"] if self.read_only else [])]

    def _etc(self) -> dict[str, str]:
        return {
            "hosts": self.hosts,
            "passwd": "root:x:0:0::/root:/sbin/nologin\n",
            "group": "root:x:0:\n",
            "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
        }


def _parents(mounts: Sequence[str]) -> list[str]:
    """Make the folders above the targets: bubblewrap's own are closed to all but root."""
    targets = mounts[2::3]
    above = {str(up) for one in targets for up in Path(one).parents} - {"/"} - {*targets}
    return [word for one in sorted(above) for word in ("--perms", "0755", "--dir", one)]


def hold_network() -> tuple[subprocess.Popen[str], list[str]]:
    """Make a network namespace with loopback; return its holder and the words that enter it."""
    read, write = os.pipe()
    bwrap, sleep = shutil.which("bwrap"), shutil.which("sleep")
    assert bwrap and sleep, "bubblewrap is missing: deploy/tools.sh installs it"
    own = [] if os.getuid() == 0 else ["--unshare-user"]
    line = [bwrap, *own, "--unshare-net", "--die-with-parent", "--info-fd", str(write)]
    holder = subprocess.Popen(
        [*line, "--dev-bind", "/", "/", sleep, "infinity"],
        stdin=subprocess.DEVNULL,
        text=True,
        pass_fds=[write],
    )
    os.close(write)
    with os.fdopen(read) as told:
        pid = json.load(told)["child-pid"]
    user = [] if os.getuid() == 0 else ["--user", "--preserve-credentials"]
    return holder, ["nsenter", *user, "--net", "--target", str(pid)]


def user_ids(pod_status: str, words: Sequence[str] = ("Uid", "Gid", "CapEff")) -> dict[str, str]:
    """Return lines of /proc/self/status by their names."""
    lines = (line.partition(":") for line in pod_status.splitlines())
    return {name: rest.split()[0] for name, _, rest in lines if name in words}
