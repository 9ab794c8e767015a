"""Run a command that ends when its parent does: `python -m lessons_loop.deploy.leash PID CMD…`.

The parent-death signal survives exec, so a `lessons up` ended by kill -9 leaves no
server behind. Linux only; elsewhere the command just runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to the parent named first, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the call above
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
