from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from lessons_loop.eval.serving import serving


def test_server_answers_inside_the_block_only() -> None:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        assert requests.get(url, timeout=20).status_code == 501
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=20)
