"""The address of a store on a server, and a client whose every call ends in one line."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import ssl
import string
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.server import (
    SERVER_SECONDS,
    ServerAddress,
    is_server,
    open_server,
    parse_server,
    server_errors,
    server_token,
)
from support.chroma_server import ChromaServer, prepare
from support.processes import soon

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
    # of another test's threads one may just be at work
    assert soon(lambda: len(os.listdir("/proc/self/fd")) <= before + 1)


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
    assert time.monotonic() - started < SERVER_SECONDS


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
        assert soon(lambda: answers(collection))  # the same objects go on
        server.kill()
        with pytest.raises(StoreUnreachable, match=r"^reading: "), server_errors("reading"):
            collection.count()
        server.start()
        assert soon(lambda: answers(collection))
        client.close()


def answers(collection):
    """Say whether an empty collection is there again: a server just started may be slow."""
    with contextlib.suppress(StoreUnreachable), server_errors("reading"):
        return collection.count() == 0


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
