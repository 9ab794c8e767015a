"""The session under a client: odd answers in one line, the token with every call, certificates."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading

import pytest

from lessons_loop.filter.errors import StoreError, StoreUnreachable
from lessons_loop.filter.server import (
    ServerAddress,
    open_server,
    parse_server,
    server_errors,
)
from support.certificates import make_certificate
from support.chroma_server import prepare
from support.relay import Relay, Spoilt

TOKEN = "obviously-fake-token"

ODD = [
    (Spoilt(200, b"<html>welcome</html>"), StoreError, "is no Chroma server"),
    (Spoilt(200, b'{"nanosecond heartb'), StoreError, "is no Chroma server"),
    (Spoilt(200, b"7"), StoreError, "is no Chroma server"),
    (Spoilt(404, b"not found"), StoreError, "is no Chroma server"),
    (Spoilt(401, b"who are you"), StoreError, "HTTP 401.*chroma_token"),
    (Spoilt(403, b'{"error": "no"}'), StoreError, "HTTP 403.*chroma_token"),
    (Spoilt(403, b'{"message": "the policy proxy refuses this"}'), StoreError, "own address"),
    (Spoilt(502, b"<html>bad gateway</html>"), StoreUnreachable, "HTTP 502"),
    (Spoilt(503, b'{"error": "InternalError"}'), StoreUnreachable, "HTTP 503"),
    (Spoilt(504, b'{"error": "InternalError"}'), StoreUnreachable, "HTTP 504"),
    (Spoilt(429, b"{}"), StoreUnreachable, "HTTP 429"),
    (Spoilt(200, b"x" * 200, trickle=0.05), StoreUnreachable, "took more than 3 s"),
    (Spoilt(200, b"x" * 3_000_000), StoreError, "more than 1 MiB"),
]


@pytest.mark.parametrize(("spoilt", "kind", "says"), ODD)
def test_odd_answer_is_one_line_without_the_token(spoilt, kind, says, chroma_server):
    with (
        Relay(chroma_server.base, spoil=lambda call: spoilt) as relay,
        pytest.raises(kind, match=says) as raised,
    ):
        address = parse_server(relay.base)
        seconds = 3.0 if "took more" in says else 20.0
        open_server(address, "curated", token=TOKEN, seconds=seconds, answer_limit=2**20)
    assert TOKEN not in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "spoilt",
    [
        Spoilt(200, b"<html>"),
        Spoilt(200, b'{"id": 7}'),
        Spoilt(200, b"[]"),
        Spoilt(200, b"null"),
        Spoilt(500, b"x"),
        Spoilt(500, b'{"error": "InternalError", "message": "you sent %s"}' % TOKEN.encode()),
        Spoilt(400, b"two\nlines"),
    ],
)
def test_odd_answer_to_a_later_call_is_one_line(spoilt, store_url, chroma_server):
    prepare(parse_server(store_url), "sql")
    with Relay(chroma_server.base, spoil=lambda c: spoilt if "coll" in c.path else None) as relay:
        address = parse_server(store_url.replace(chroma_server.base, relay.base))
        client = open_server(address, "curated", token=TOKEN)
        with (
            pytest.raises(StoreError, match=r"^reading sql: ") as raised,
            server_errors("reading sql"),
        ):
            client.get_collection("sql-lessons", embedding_function=None)
        client.close()
    assert TOKEN not in str(raised.value) and "\n" not in str(raised.value)


def test_redirect_is_not_followed(chroma_server):
    with Relay(chroma_server.base) as elsewhere:
        away = Spoilt(307, b"", (("Location", f"{elsewhere.base}/api/v2/heartbeat"),))
        with (
            Relay(chroma_server.base, spoil=lambda call: away) as relay,
            pytest.raises(StoreError, match="redirect"),
        ):
            open_server(parse_server(relay.base), "curated", token=TOKEN)
        assert elsewhere.calls == []


def test_token_is_sent_with_every_call_and_shown_nowhere(store_url, chroma_server):
    prepare(parse_server(store_url), "sql")
    with Relay(chroma_server.base) as relay:
        address = parse_server(store_url.replace(chroma_server.base, relay.base))
        client = open_server(address, "curated", token=TOKEN)
        client.get_collection("sql-lessons", embedding_function=None).count()
        shown = [repr(client), repr(client.get_settings()), repr(vars(client)), address.url]
        shown.append(repr(client._server._session.headers))
        client.close()
    assert {call.token for call in relay.calls} == {f"Bearer {TOKEN}"}
    assert TOKEN not in "".join(shown)


def test_prefix_leads_through_a_proxy(store_url, chroma_server):
    prepare(parse_server(store_url), "sql")

    with Relay(chroma_server.base, prefix="/lessons/store") as relay:
        setting = store_url.replace(chroma_server.base, relay.base)
        with contextlib.closing(open_server(parse_server(setting), "curated")) as client:
            client.get_collection("sql-lessons", embedding_function=None)
    assert all(call.path.startswith("/lessons/store/api/v2/") for call in relay.calls)


def test_tls_trouble_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def chat():
            with contextlib.suppress(OSError), plain.accept()[0] as connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 no TLS here\r\n\r\n")

        thread = threading.Thread(target=chat)
        thread.start()
        address = ServerAddress("127.0.0.1", plain.getsockname()[1], ssl=True)
        with pytest.raises(StoreUnreachable, match=r"(?i)^lesson store https[^\n]*ssl[^\n]*$"):
            open_server(address, "curated")
        thread.join()


def test_only_trusted_certificates_are_talked_to(store_url, chroma_server, tmp_path, monkeypatch):
    prepare(parse_server(store_url), "sql")
    own, other = (make_certificate(tmp_path / f"{name}.pem") for name in ("own", "other"))
    trusted = tmp_path / "trusted.pem"

    def opened():
        try:
            with contextlib.closing(open_server(address, "curated", token=TOKEN)) as client:
                return client.get_collection("sql-lessons", embedding_function=None).count()
        except StoreUnreachable as error:
            return str(error)

    with Relay(chroma_server.base, certificate=own) as relay:
        address = parse_server(store_url.replace(chroma_server.base, relay.base))
        found = [opened()]
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        for bundle in (own, other, own):  # a mounted file is replaced while the server runs
            shutil.copy(bundle, trusted)
            found.append(opened())
    assert "certificate" in found[0] and "certificate" in found[2]
    assert found[1] == found[3] == 0
    assert {call.token for call in relay.calls} == {f"Bearer {TOKEN}"} and len(relay.calls) == 10
