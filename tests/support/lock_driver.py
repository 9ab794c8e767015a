"""Take a domain's lock on a server in a process of its own; run by the lock tests.

    python lock_driver.py URL TERM [race]

Prints `held` and keeps it until its input ends; `race`: for each line of input tries to
take it, prints `held` or `refused`, and gives it up at the next line.
"""

from __future__ import annotations

import sys

from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.promote.errors import LockHeld
from lessons_loop.promote.store.server_lock import server_lock


def main(url: str, term: str, *race: str) -> None:
    connect = lambda: open_server(parse_server(url), "gate")  # noqa: E731
    client = connect()
    if race:
        print("ready", flush=True)
    while not race or sys.stdin.readline():
        try:
            with server_lock(connect, client, "sql", float(term)):
                print("held", flush=True)
                sys.stdin.readline()
        except LockHeld:
            print("refused", flush=True)
            sys.stdin.readline()
        if not race:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
