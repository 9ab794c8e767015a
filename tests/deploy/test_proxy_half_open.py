"""The policy proxy after its connections to Chroma died without a word."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from support.guarded import KNOWN, PERMITTED
from support.nginx import Proxy
from support.processes import soon
from support.recorder import Recorder
from support.silent import SilentRelay

POLLING = 10
"""Seconds between two looks of a worker: what is kept longer meets every one of them."""


def test_dead_connections_are_let_go_before_they_cost_calls(tmp_path: Path) -> None:
    with (
        Recorder(KNOWN) as seen,
        SilentRelay(seen.port) as relay,
        Proxy(tmp_path, relay.port) as proxy,
        ThreadPoolExecutor(16) as chats,
    ):
        url, together = proxy.base + PERMITTED[0].removeprefix("GET "), threading.Barrier(16)

        def ask(_: int) -> int:
            together.wait(60)
            return requests.get(url, timeout=60).status_code

        assert {*chats.map(ask, range(16))} == {200} and relay.connected > 1
        relay.forget()
        assert soon(lambda: relay.connected == 0, 3 * POLLING)
        assert {requests.get(url, timeout=60).status_code for _ in range(3)} == {200}
