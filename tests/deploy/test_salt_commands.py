"""The page's commands for the salt: one for both namespaces, and never an empty one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.operators_page import blocks

KUBECTL = """\
kubectl() {
  case "$1 $2" in
    "get secret") printf %s "$STORED" | base64 ;;
    *) printf '%s\\n' "$*" >> "$CALLS" ;;
  esac
}
"""
"""Keeps what is asked of it, and knows one Secret's value."""


def typed(folder: Path, stored: str, prelude: str = "") -> list[str]:
    """Type the block that makes the Secrets; return what kubectl was asked to create."""
    (block,) = [text for text in blocks() if "create secret" in text]
    calls = folder / "calls"
    calls.touch()
    for line in [part for part in block.replace("\\\n", " ").splitlines() if "rollout" not in part]:
        script = f"{prelude}{KUBECTL}[ -f vars ] && . ./vars\n{line}\ndeclare -p salt > vars"
        environment = {"STORED": stored, "CALLS": str(calls), "PATH": "/usr/bin:/bin"}
        subprocess.run(["bash", "-c", script], env=environment, cwd=folder, timeout=60)
    return [line for line in calls.read_text("utf-8").splitlines() if "create secret" in line]


def test_both_namespaces_get_one_salt(tmp_path: Path) -> None:
    made = typed(tmp_path, "obviously-fake-salt")
    assert ["-n lessons " in line for line in made] == [True, False]
    assert len(made[0].rpartition("LESSONS_SALT=")[2]) == 64
    assert made[1].endswith("-n open-webui --from-literal=LESSONS_SALT=obviously-fake-salt")


@pytest.mark.parametrize("prelude", ["", "openssl() { return 127; }\n"])
def test_missing_salt_makes_no_secret_for_open_webui(tmp_path: Path, prelude: str) -> None:
    """Each of its pods would make one of its own, and one user count as many."""
    made = typed(tmp_path, "", prelude)
    assert not [line for line in made if "-n open-webui" in line]
