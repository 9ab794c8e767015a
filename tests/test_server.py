"""The address of a store on a server, and a client whose every call ends in one line."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import socket
import ssl
import string
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.server import (
    ServerAddress,
    is_server,
    open_server,
    parse_server,
    server_errors,
    server_token,
)
from support.certificates import make_certificate
from support.chroma_server import ChromaServer, prepare
from support.relay import Relay, Spoilt

TOKEN = "obviously-fake-token"
WORDS = st.text(string.ascii_lowercase + string.digits, min_size=3, max_size=12)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("http://chroma:8000", ServerAddress("chroma", 8000)),
        ("https://Chroma.example/", ServerAddress("chroma.example", 443, ssl=True)),
        ("http://h", ServerAddress("h", 80)),
        (" http://h:1/pre/fix/ ", ServerAddress("h", 1, prefix="/pre/fix")),
        ("http://[::1]:8000?tenant=team-a", ServerAddress("::1", 8000, tenant="team-a")),
    ],
)
def test_address_is_read(setting, expected):
    assert is_server(setting) and parse_server(setting) == expected


@given(WORDS, st.integers(1, 65535), st.booleans(), st.lists(WORDS, max_size=2), WORDS)
def test_printed_address_means_the_same(host, port, safe, steps, tenant):
    prefix = "".join(f"/{step}" for step in steps)
    address = ServerAddress(host, port, safe, prefix, tenant)
    assert parse_server(address.url) == address


BAD_PLACES = "ftp://h http:// http://h:0 http://h:99999 http://h:x ://h http://h/a/../b http://[::1"
BAD_ENDS = "http://h#x http://h?x=1 http://h?tenant=a http://h?tenant http://h?tenant=a/b file:///s"
BAD_TENANTS = "http://h?tenant= http://h?tenant=abc&tenant=xyz http:/h http:h HTTPS:/h"
BAD_SIGNS = ("http://h h", "http://h\nx", "http://h\x00")


@pytest.mark.parametrize(
    "setting",
    [*BAD_PLACES.split(), *BAD_ENDS.split(), *BAD_TENANTS.split(), *BAD_SIGNS],
)
def test_unusable_address_is_one_line(setting):
    with pytest.raises(StoreError, match=r"^the store [^\n]*give a folder or http"):
        parse_server(setting)


PASSWORDS = (
    "http://user:obviously-fake@h:8000?tenant=abc",
    "http://user:obviously/fake@h",
    "http://user:obviously?fake@h",
    "http://user:obviously#fake@h",
    "https:/user:obviously-fake@h",
    "http:user:obviously-fake@h",
)


@pytest.mark.parametrize("setting", PASSWORDS)
def test_credentials_in_the_address_are_refused_unseen(setting):  # T-47
    assert is_server(setting)
    with pytest.raises(StoreError, match="chroma_token") as raised:
        parse_server(setting)
    assert "obviously" not in str(raised.value) and "user:" not in str(raised.value)


@pytest.mark.parametrize(
    "folder", ["", "lessons", "/data/lessons", "~/x", "C:\\x", "https", "/a/http:/x"]
)
def test_folders_are_no_server(folder):
    assert not is_server(folder)


def test_token_comes_from_setting_then_environment(monkeypatch):
    assert server_token() == ""
    monkeypatch.setenv("LESSONS_CHROMA_TOKEN", " from-env ")
    assert (server_token(), server_token(" given ")) == ("from-env", "given")


@pytest.mark.parametrize("token", ["a\nb", "ü", "a b", "a\x00"])
def test_token_no_header_can_carry_is_refused_unseen(token):
    with pytest.raises(StoreError, match="no header can carry") as raised:
        server_token(token)
    assert token not in str(raised.value)


def test_missing_tenant_and_database_name_the_command(store_url, chroma_server):
    with pytest.raises(StoreMissing, match="lessons init --store") as raised:
        open_server(parse_server(store_url), "curated")
    assert store_url in str(raised.value)
    prepare(parse_server(store_url))
    with pytest.raises(StoreMissing, match="database elsewhere is missing"):
        open_server(parse_server(store_url), "elsewhere")


def test_settings_around_it_are_not_read(store_url, tmp_path):
    prepare(parse_server(store_url), "sql")
    (tmp_path / ".env").write_text("CHROMA_SERVER_HOST=elsewhere\nALLOW_RESET=maybe\n")
    foreign = {
        "CHROMA_SERVER_HOST": "elsewhere",
        "CHROMA_SERVER_HTTP_PORT": "1",
        "CHROMA_CLIENT_AUTH_PROVIDER": "no.such.Class",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    source = (
        "import sys, os, chromadb\n"  # as Open WebUI has long done
        f"os.environ.update({foreign!r}); os.chdir({str(tmp_path)!r})\n"
        "from lessons_loop.filter.server import open_server, parse_server\n"
        "client = open_server(parse_server(sys.argv[1]), 'curated')\n"
        "print(client.get_collection('sql-lessons', embedding_function=None).count())\n"
    )
    found = subprocess.run([sys.executable, "-c", source, store_url], capture_output=True)
    assert (found.stdout, found.returncode) == (b"0\n", 0), found.stderr


def test_connections_are_closed(store_url):
    prepare(parse_server(store_url), "sql")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        client = open_server(parse_server(store_url), "curated", token=TOKEN)
        client.get_collection("sql-lessons", embedding_function=None)
        client.close()
    gc.collect()  # an unclosed socket would be a ResourceWarning
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_closed_and_refused_clients_leave_nothing_behind(store_url):
    from chromadb.api.shared_system_client import SharedSystemClient

    address = parse_server(store_url)
    with pytest.raises(StoreMissing):
        open_server(address, "curated")
    prepare(address, "sql")
    before = set(SharedSystemClient._identifier_to_system)
    for _ in range(3):
        client = open_server(address, "curated")
        client.close()
        client.close()
        with pytest.raises(StoreMissing):
            open_server(address, "nowhere")
    assert set(SharedSystemClient._identifier_to_system) <= before


def test_server_that_is_down_is_told_at_once():
    address = ServerAddress("127.0.0.1", free_port())
    with pytest.raises(
        StoreUnreachable, match=r"^lesson store http[^\n]*cannot be reached: [^\n]*refused"
    ):
        open_server(address, "curated")


def test_server_that_never_answers_costs_the_limit():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = ServerAddress("127.0.0.1", silent.getsockname()[1])
        started = time.monotonic()
        with pytest.raises(StoreUnreachable, match=r"within 0\.3 s: timed out"):
            open_server(address, "curated", seconds=0.3)
    assert time.monotonic() - started < 3


def test_frozen_server_ends_every_call(tmp_path):
    with ChromaServer(tmp_path) as server:
        address = parse_server(server.base)
        prepare(address, "sql")
        client = open_server(address, "curated", seconds=2.0)
        collection = client.get_collection("sql-lessons", embedding_function=None)
        server.freeze()
        for call in (collection.count, collection.get, client.heartbeat):
            says = r"^reading: .* timed out"
            with pytest.raises(StoreUnreachable, match=says), server_errors("reading"):
                call()
        server.thaw()
        assert collection.count() == 0  # the same objects go on
        server.kill()
        with pytest.raises(StoreUnreachable, match=r"^reading: "), server_errors("reading"):
            collection.count()
        server.start()
        assert collection.count() == 0
        client.close()


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
    (Spoilt(200, b"x" * 200, trickle=0.05), StoreUnreachable, "took more than 1 s"),
    (Spoilt(200, b"x" * 3_000_000), StoreError, "more than 1 MiB"),
]


@pytest.mark.parametrize(("spoilt", "kind", "says"), ODD)
def test_odd_answer_is_one_line_without_the_token(spoilt, kind, says, chroma_server):
    with (
        Relay(chroma_server.base, spoil=lambda call: spoilt) as relay,
        pytest.raises(kind, match=says) as raised,
    ):
        address = parse_server(relay.base)
        seconds = 1.0 if "took more" in says else 20.0
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


def opened(address):
    open_server(address, "curated").close()


def refused(address):
    with pytest.raises(StoreMissing):
        open_server(address, "nowhere")


def unreachable(address):
    with pytest.raises(StoreUnreachable):
        open_server(ServerAddress("127.0.0.1", free_port()), "curated")


@pytest.mark.parametrize("connect", [opened, refused, unreachable])
def test_connecting_leaves_nothing_big_behind(store_url, connect):
    """Python looks for rings late in a process as big as Open WebUI: 0.7 MB each waited for it."""
    address = parse_server(store_url)
    prepare(address, "sql")
    for _ in range(2):
        connect(address)
    gc.collect()
    gc.disable()
    try:
        before = {id(one) for one in gc.get_objects()}
        for _ in range(10):
            connect(address)
        left = [one for one in gc.get_objects() if id(one) not in before]
    finally:
        gc.enable()
    assert [one for one in left if isinstance(one, type)] == []
    assert [one for one in left if isinstance(one, ssl.SSLContext) and one.get_ca_certs()] == []
    assert len(left) < 10 * 200


def test_panics_are_translated_and_interrupts_are_not():
    class PanicException(BaseException):
        pass

    with pytest.raises(StoreError, match=r"^reading: .*torn"), server_errors("reading"):
        raise PanicException("torn\nindex")
    for passing in (KeyboardInterrupt, SystemExit):
        with pytest.raises(passing), server_errors("reading"):
            raise passing
