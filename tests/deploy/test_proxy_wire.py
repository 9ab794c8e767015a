"""What the policy proxy passes on besides the line: headers, bodies, ids; and what it logs."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.guarded import (
    CURATED,
    GATE,
    KNOWN,
    PERMITTED,
    STAGING,
    TENANT,
    Guarded,
)
from support.nginx import Proxy, send_raw, statuses
from support.recorder import Recorder

SECRET = "obviously-fake-token"


@pytest.fixture(autouse=True)
def _nothing_seen_yet(guarded: Guarded) -> None:
    guarded.seen.reached.clear()


HEADERS = {
    "method override": ["X-HTTP-Method-Override: DELETE", "X-Method-Override: PUT", "_method: PUT"],
    "another path": ["X-Original-URL: /api/v2/reset", "X-Rewrite-URL: /api/v2/reset"],
    "another host": ["X-Forwarded-Host: evil", "X-Forwarded-For: 10.0.0.1", "Forwarded: for=x"],
    "upgrade": ["Upgrade: websocket", "Sec-WebSocket-Key: eA==", "HTTP2-Settings: AAMAAABkAAQ"],
    "tenant and token": ["X-Chroma-Token: " + SECRET, "Authorization: Bearer " + SECRET],
    "encoding": ["Content-Encoding: gzip", "TE: trailers", "Trailer: x", "Accept-Encoding: br"],
    "another type": ["Content-Type: multipart/form-data", "Cookie: a=b", "Range: bytes=0-1"],
    "expecting": ["Expect: 100-continue"],
}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS.keys())
def test_headers_of_the_client_go_no_further(guarded: Guarded, headers: list[str]) -> None:
    guarded.answer(f"{PERMITTED[-1]} HTTP/1.1", *headers, body=b'{"ids":[]}')
    (arrived,) = guarded.seen.calls
    assert arrived.headers == {
        "host": "lessons-chroma",
        "content-type": "application/json",
        "content-length": "10",
    }


def test_body_of_a_look_goes_no_further(guarded: Guarded) -> None:
    for call in (PERMITTED[0], PERMITTED[-2]):
        assert guarded.send(f"{call} HTTP/1.1", body=b"GET /api/v2/reset") == [200]
    assert [(one.body, "content-length" in one.headers) for one in guarded.seen.reached] == [
        (b"", False)
    ] * len(guarded.seen.reached)


HIDDEN = b"POST /api/v2/reset HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"0\r\n\r\n" + HIDDEN
SMUGGLED = {
    "chunked": (["Transfer-Encoding: chunked"], CHUNKED),
    "length and chunked": (
        [f"Content-Length: {len(CHUNKED)}", "Transfer-Encoding: chunked"],
        CHUNKED,
    ),
    "chunked and length": (["Transfer-Encoding: chunked", "Content-Length: 5"], CHUNKED),
    "chunked, hidden": (["Transfer-Encoding: xchunked"], CHUNKED),
    "chunked twice": (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], CHUNKED),
    "chunked with a tab": (["Transfer-Encoding:\tchunked"], CHUNKED),
    "chunked on a folded line": (["Transfer-Encoding:", " chunked"], CHUNKED),
    "two lengths": (["Content-Length: 0", f"Content-Length: {len(HIDDEN)}"], HIDDEN),
    "length twice in one": ([f"Content-Length: 0, {len(HIDDEN)}"], HIDDEN),
    "negative length": (["Content-Length: -1"], HIDDEN),
    "length with a sign": (["Content-Length: +0"], HIDDEN),
    "length in hex": (["Content-Length: 0x0"], HIDDEN),
    "space before the colon": (["Content-Length : 0"], HIDDEN),
    "no length": ([], HIDDEN),
    "length nought": (["Content-Length: 0"], HIDDEN),
}


@pytest.mark.parametrize(("headers", "rest"), SMUGGLED.values(), ids=SMUGGLED.keys())
def test_no_second_request_is_smuggled(guarded: Guarded, headers: list[str], rest: bytes) -> None:
    for call in PERMITTED[-1], PERMITTED[0]:
        head = "\r\n".join([f"{call} HTTP/1.1", "Host: x", *headers, "", ""])
        send_raw(guarded.proxy.port, head.encode() + rest, seconds=0.3)
    lines = {one.line for one in guarded.seen.reached if not one.is_lookup}
    assert lines <= {f"{PERMITTED[-1]} HTTP/1.1", f"{PERMITTED[0]} HTTP/1.1"}
    assert all("transfer-encoding" not in one.headers for one in guarded.seen.reached)
    assert all(" + " not in length for one in guarded.seen.calls for length in one.headers.values())


def test_each_of_several_requests_on_a_connection_is_judged(guarded: Guarded) -> None:
    lines = [PERMITTED[0], "DELETE " + TENANT, PERMITTED[1], "POST /api/v2/reset", PERMITTED[-2]]
    heads = [f"{line} HTTP/1.1\r\nHost: x\r\n" for line in lines]
    wire = "\r\n".join(heads) + "Connection: close\r\n\r\n"
    answer = send_raw(guarded.proxy.port, wire.encode())
    assert statuses(answer) == [200, 403, 200, 403, 200]
    assert [one.line[:-9] for one in guarded.seen.calls] == lines[::2]


def test_chunked_body_is_refused(guarded: Guarded) -> None:
    body = b"2\r\n{}\r\n0\r\n\r\n"
    head = f"{PERMITTED[-1]} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    wire = f"{head}Connection: close\r\n\r\n".encode() + body
    assert statuses(send_raw(guarded.proxy.port, wire)) == [403]
    assert guarded.seen.reached == []


def test_refusals_are_one_line_of_json_that_names_the_proxy(guarded: Guarded) -> None:
    head, _, body = guarded.answer("DELETE / HTTP/1.1").partition(b"\r\n\r\n")
    told = json.loads(body)
    assert told["error"] == "AuthorizationError" and b"\n" not in body
    assert "policy proxy refuses" in told["message"]
    assert b"application/json" in head and b"nginx/" not in head


def test_refusals_are_logged_without_secrets(guarded: Guarded) -> None:  # T-47
    header = f"Authorization: Bearer {SECRET}"
    path = f"{TENANT}/databases/curated/collections/{CURATED}/delete"
    guarded.answer(f"POST {path}?key={SECRET} HTTP/1.1", header, body=SECRET.encode())
    guarded.answer(f"GET {TENANT}/databases/gate HTTP/1.0", header)
    first, second = guarded.proxy.told()[-2:]
    assert (first["method"], first["path"], first["status"]) == ("POST", f"{path}?", 403)
    assert (second["method"], second["path"]) == ("GET", f"{TENANT}/databases/gate")
    assert first["client"] == "127.0.0.1" and first["time"]
    assert SECRET not in guarded.proxy.log_text()


def test_log_keeps_one_line_for_each_refusal(guarded: Guarded) -> None:
    before = len(guarded.proxy.told())
    for hostile in (
        'GET /"}\\x0a{"a":" HTTP/1.1',
        "GET /\x1b[31m HTTP/1.1",
        "GET /\udcff\0 HTTP/1.1",
    ):
        guarded.answer(hostile)
    guarded.answer(f"{PERMITTED[0]} HTTP/1.1")  # what succeeds is not logged
    told = guarded.proxy.told()[before:]
    assert [line["status"] for line in told] == [403] * 3


def test_ids_of_other_databases_are_refused(guarded: Guarded) -> None:
    crossed = [
        *(f"POST {TENANT}/databases/curated/collections/{one}/get" for one in (STAGING, GATE)),
        *(f"POST {TENANT}/databases/curated/collections/{one}/query" for one in (STAGING, GATE)),
        *(f"GET {TENANT}/databases/curated/collections/{one}/count" for one in (STAGING, GATE)),
        *(f"POST {TENANT}/databases/staging/collections/{one}/add" for one in (CURATED, GATE)),
    ]
    assert [guarded.send(f"{line} HTTP/1.1") for line in crossed * 2] == [[403]] * 16
    assert guarded.seen.calls == []


def test_an_id_is_looked_up_once_for_many_calls(guarded: Guarded, tmp_path: Path) -> None:
    with Proxy(tmp_path, guarded.seen.port) as fresh:
        for _ in range(5):
            Guarded(fresh, guarded.seen).send(f"{PERMITTED[-1]} HTTP/1.1")
    assert [one.is_lookup for one in guarded.seen.reached] == [True] + [False] * 5


def test_connection_that_died_meanwhile_loses_no_call(tmp_path: Path) -> None:  # T-31
    with Recorder(KNOWN, fickle=True) as fickle, Proxy(tmp_path, fickle.port) as proxy:
        both = Guarded(proxy, fickle)
        bodies = [f'{{"ids":["{number}"]}}'.encode() for number in range(8)]
        assert [both.send(f"{PERMITTED[-1]} HTTP/1.1", body=body) for body in bodies] == [[200]] * 8
    assert len(fickle.calls) > 8 and {one.body for one in fickle.calls} == set(bodies)


def test_many_pages_in_a_row_are_paced_and_never_refused(guarded: Guarded, tmp_path: Path) -> None:
    def read(_: int) -> set[int]:
        call = f"{PERMITTED[-4]} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as wire:
            found = set()
            for _ in range(220):  # one after the other, as a worker that reads all lessons anew
                wire.sendall(call)
                answer = wire.recv(65536)
                while not answer.endswith(b"{}"):
                    answer += wire.recv(65536)
                found.update(statuses(answer))
        return found

    with Proxy(tmp_path, guarded.seen.port) as proxy, ThreadPoolExecutor(3) as workers:
        began = time.monotonic()
        assert set().union(*workers.map(read, range(3))) == {200}
        assert time.monotonic() - began > 1.5  # what is above 200 waits its turn: 2.3 s
    assert len(guarded.seen.calls) == 660
