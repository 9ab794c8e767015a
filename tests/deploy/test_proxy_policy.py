"""Which request lines the policy proxy lets through: a real nginx, and what stands behind it."""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.guarded import CURATED, GATE, PERMITTED, STAGING, TENANT, Guarded
from support.nginx import POLICY, allowed, rules


@pytest.fixture(autouse=True)
def _nothing_seen_yet(guarded: Guarded) -> None:
    guarded.seen.reached.clear()


def is_permitted(line: str) -> bool:
    """Say, without the policy's own patterns, whether a request line may pass."""
    if line in {f"{call} HTTP/1.1" for call in PERMITTED}:
        return True
    for database in ("curated", "staging"):
        start, end = f"GET {TENANT}/databases/{database}/collections/", " HTTP/1.1"
        name = line.removeprefix(start).removesuffix(end)
        if line == start + name + end and is_name(name):
            return True
    return False


def is_name(text: str) -> bool:
    """Say whether Chroma takes this as a collection's name, up to 128 characters."""
    plain = set(string.ascii_letters + string.digits)
    ends = len(text) > 2 and text[0] in plain and text[-1] in plain
    return ends and len(text) <= 128 and set(text) <= plain | set("._-")


@pytest.mark.parametrize("call", PERMITTED)
def test_what_the_filter_needs_passes_unchanged(guarded: Guarded, call: str) -> None:
    body = b'{"ids":["a"]}' if call.startswith("POST") else b""
    assert guarded.send(f"{call} HTTP/1.1", body=body) == [200]
    assert [(one.line, one.body) for one in guarded.seen.calls] == [(f"{call} HTTP/1.1", body)]


def test_policy_for_tests_is_the_proxys_own() -> None:
    told = [line for line in POLICY.read_text("utf-8").splitlines() if "HTTP/1" in line]
    assert len(rules()) == len([line for line in told if line.strip().startswith('"~^')]) - 1
    assert all(allowed().fullmatch(call) for call in PERMITTED)
    assert not allowed("[^/]+").fullmatch(f"POST {TENANT}/databases/staging/collections/x/add")


Trick = Callable[[str, str], str]
TRICKS: dict[str, Trick] = {
    "encoded slash": lambda verb, path: f"{verb} {path.replace('/v2/', '/v2%2F')} HTTP/1.1",
    "slash encoded twice": lambda verb, path: f"{verb} {path.replace('/v2/', '/v2%252f')} HTTP/1.1",
    "encoded letter": lambda verb, path: f"{verb} {path.replace('v2', '%762')} HTTP/1.1",
    "overlong UTF-8": lambda verb, path: f"{verb} {path.replace('/v2/', '/v2%c0%af')} HTTP/1.1",
    "dot segment": lambda verb, path: f"{verb} {path.replace('/v2', '/./v2')} HTTP/1.1",
    "dots up and down": lambda verb, path: f"{verb} {path.replace('/v2', '/v1/../v2')} HTTP/1.1",
    "encoded dots": lambda verb, path: f"{verb} {path.replace('/v2', '/v1/%2e%2e/v2')} HTTP/1.1",
    "out and in again": lambda verb, path: f"{verb} {path}/../{path[-4:]} HTTP/1.1",
    "double slash": lambda verb, path: f"{verb} {path.replace('/v2', '//v2')} HTTP/1.1",
    "slash before": lambda verb, path: f"{verb} /{path} HTTP/1.1",
    "slash behind": lambda verb, path: f"{verb} {path}/ HTTP/1.1",
    "part behind": lambda verb, path: f"{verb} {path}/x/y HTTP/1.1",
    "letter behind": lambda verb, path: f"{verb} {path}~ HTTP/1.1",
    "part before": lambda verb, path: f"{verb} /x{path} HTTP/1.1",
    "backslash": lambda verb, path: f"{verb} {path.replace('/v2/', '/v2' + chr(92))} HTTP/1.1",
    "parameter": lambda verb, path: f"{verb} {path};a=b HTTP/1.1",
    "parameter inside": lambda verb, path: f"{verb} {path.replace('/v2', '/v2;x')} HTTP/1.1",
    "query": lambda verb, path: f"{verb} {path}?tenant=other HTTP/1.1",
    "query behind a query": lambda verb, path: f"{verb} {path}&read_level=x HTTP/1.1",
    "empty query": lambda verb, path: f"{verb} {path}? HTTP/1.1",
    "fragment": lambda verb, path: f"{verb} {path}#x HTTP/1.1",
    "case of the path": lambda verb, path: f"{verb} {path.replace('api', 'API')} HTTP/1.1",
    "case of the end": lambda verb, path: f"{verb} {path[:-1]}{path[-1].upper()} HTTP/1.1",
    "case of the method": lambda verb, path: f"{verb.lower()} {path} HTTP/1.1",
    "another method": lambda verb, path: f"{'PUT' if verb == 'GET' else 'PATCH'} {path} HTTP/1.1",
    "the other method": lambda verb, path: f"{'POST' if verb == 'GET' else 'GET'} {path} HTTP/1.1",
    "HEAD": lambda verb, path: f"HEAD {path} HTTP/1.1",
    "TRACE": lambda verb, path: f"TRACE {path} HTTP/1.1",
    "OPTIONS": lambda verb, path: f"OPTIONS {path} HTTP/1.1",
    "CONNECT": lambda verb, path: f"CONNECT {path} HTTP/1.1",
    "a method of one's own": lambda verb, path: f"X{verb} {path} HTTP/1.1",
    "HTTP/1.0": lambda verb, path: f"{verb} {path} HTTP/1.0",
    "HTTP/1.2": lambda verb, path: f"{verb} {path} HTTP/1.2",
    "HTTP/2": lambda verb, path: f"{verb} {path} HTTP/2.0",
    "version in small letters": lambda verb, path: f"{verb} {path} http/1.1",
    "whole address": lambda verb, path: f"{verb} http://lessons-chroma:8000{path} HTTP/1.1",
    "address without scheme": lambda verb, path: f"{verb} //lessons-chroma{path} HTTP/1.1",
    "two spaces": lambda verb, path: f"{verb}  {path} HTTP/1.1",
    "space behind": lambda verb, path: f"{verb} {path}  HTTP/1.1",
    "tab": lambda verb, path: f"{verb} {path}\t HTTP/1.1",
    "NUL": lambda verb, path: f"{verb} {path}\0 HTTP/1.1",
    "encoded NUL": lambda verb, path: f"{verb} {path}%00 HTTP/1.1",
    "encoded line end": lambda verb, path: f"{verb} {path}%0d%0aX:1 HTTP/1.1",
    "bare carriage return": lambda verb, path: f"{verb} {path}\rx HTTP/1.1",
    "bytes beyond ASCII": lambda verb, path: f"{verb} {path}\udcff HTTP/1.1",
    "full-width letter": lambda verb, path: f"{verb} {path.replace('2', '２')} HTTP/1.1",
    "very long": lambda verb, path: f"{verb} {path}{'a' * 9000} HTTP/1.1",
    "another tenant": lambda verb, path: f"{verb} {path.replace('default', 'other')}x HTTP/1.1",
    "plus": lambda verb, path: f"{verb} {path.replace('/v2', '/v2+')} HTTP/1.1",
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("call", [PERMITTED[0], PERMITTED[5], *PERMITTED[-4:]])
def test_tricks_are_refused(guarded: Guarded, call: str, trick: str) -> None:
    line = TRICKS[trick](*call.split(" "))
    assert guarded.send(line) == [403]
    assert guarded.seen.reached == []


def test_refusal_without_a_version_passes_nothing(guarded: Guarded) -> None:
    answer = guarded.answer(PERMITTED[0])  # HTTP/0.9: no status line comes back
    assert b"AuthorizationError" in answer and guarded.seen.reached == []


@pytest.mark.parametrize("front", ["\r", "\n", "\r\n\r\n"])
def test_line_ends_before_a_request_go_no_further(guarded: Guarded, front: str) -> None:
    assert guarded.send(f"{front}{PERMITTED[0]} HTTP/1.1") == [200]
    assert guarded.send(f"{front}DELETE {TENANT} HTTP/1.1") == [403]
    assert [one.line for one in guarded.seen.reached] == [f"{PERMITTED[0]} HTTP/1.1"]


def test_inner_locations_are_nobody_s_paths(guarded: Guarded) -> None:
    inner = re.findall(r"location = (/\w+) \{", POLICY.read_text("utf-8"))
    assert len(inner) >= 10
    for verb, path in itertools.product(("GET", "POST"), inner):
        assert guarded.send(f"{verb} {path} HTTP/1.1") == [403], path
    assert guarded.seen.reached == []


WRITING = (
    *("upsert", "update", "delete", "search", "fork", "indexing_status", "functions/attach"),
    *("fork_count", "functions/x", "attached_functions/x/detach", "by-id", "add", "get", "count"),
)


@pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("database", ["curated", "staging", "gate", "default_database"])
def test_no_other_operation_on_rows_passes(guarded: Guarded, verb: str, database: str) -> None:
    own = {"curated": CURATED, "staging": STAGING}.get(database, GATE)
    lines = [
        f"{verb} {TENANT}/databases/{database}/collections/{whom}/{operation}"
        for operation in ("query", *WRITING)
        for whom in (own, "sql-lessons")
    ]
    wanted = [line for line in lines if line in PERMITTED]
    passed = [line for line in lines if guarded.send(f"{line} HTTP/1.1") != [403]]
    assert passed == wanted
    assert [one.line.removesuffix(" HTTP/1.1") for one in guarded.seen.calls] == wanted


EDITS = [
    *"/.;?#%\\ ~A\t\r\0x-",
    "%2f",
    "..",
    "//",
    "é",
    "gate",
    "curated",
    "staging",
    GATE,
    CURATED,
]


@given(st.data())
@settings(max_examples=1500, deadline=None)
def test_only_permitted_lines_ever_reach_chroma(guarded: Guarded, data: st.DataObject) -> None:
    guarded.seen.reached.clear()
    line = data.draw(st.sampled_from(PERMITTED)) + " HTTP/1.1"
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(line)))
        end = start + data.draw(st.sampled_from([0, 0, 1, 2, 7, 36]))
        line = line[:start] + data.draw(st.sampled_from(EDITS)) + line[end:]
    answer = guarded.answer(line)
    judged = line.lstrip(
        "\r"
    )  # line ends before a request are skipped (RFC 9112, 2.2), not sent on
    passed = [one.line for one in guarded.seen.calls]
    assert passed == ([judged] if is_permitted(judged) else [])
    assert b"AuthorizationError" in answer or is_permitted(judged) or judged.startswith("HEAD")
