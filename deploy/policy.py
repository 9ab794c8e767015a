"""The policy proxy on this machine: the committed rules with other ports and another folder.

Used by benchmarks and tests; a cluster and `compose.yaml` take deploy/base/nginx.conf as it is.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lessons_loop.deploy.processes import LOOPBACK, StartError
from lessons_loop.filter.server import DEFAULT_TENANT

POLICY = Path(__file__).resolve().parent / "base" / "nginx.conf"


def adapted_policy(
    listen: int, upstream: int, folder: Path, tenant: str = DEFAULT_TENANT, policy: Path = POLICY
) -> str:
    """Return the rules for a proxy on port `listen` before a Chroma on port `upstream`.

    What nginx writes goes to `folder`. Raises StartError where the rules lack what is replaced.
    """
    text = policy.read_text("utf-8")
    for old, new in (
        ("lessons-chroma:8000", f"{LOOPBACK}:{upstream}"),
        ("listen 8080", f"listen {LOOPBACK}:{listen}"),
        (" /tmp/", f" {folder}/"),
        (DEFAULT_TENANT, tenant),
    ):
        if old not in text:
            raise StartError(f"{policy} has no {old.strip()!r}: adapt deploy/policy.py to it")
        text = text.replace(old, new)
    # its workers would become `nobody`, who may not enter the folder
    return f"user root;\n{text}" if os.getuid() == 0 else text


def nginx_command(config: Path) -> list[str]:
    """Return how nginx is started in the foreground; raise StartError where there is none."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not program:
        raise StartError("nginx is not installed: run `make deploy-tools`")
    return [program, "-c", str(config), "-e", "stderr", "-g", "daemon off;"]
