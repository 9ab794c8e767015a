from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.failure import looks_echoed, looks_empty, looks_failed, looks_transient

FAILED = [
    '{"error": "database locked"}',
    '{"errors": [{"message": "no"}]}',
    '{"success": false, "rows": []}',
    '{"status": 404}',
    '{"status": "failed"}',
    '{"exit_code": 2, "stdout": ""}',
    '{"errorMessage": "No module named x", "errorType": "ImportError"}',
    "Error: it broke",
    "ERROR:  column x does not exist",
    "Traceback (most recent call last):\n  File x\nKeyError: 'a'",
    "pkg.mod.SomeError: broken",
    "AnalysisException: Illegal type",
    "HTTP 503 Service Unavailable",
    "410 Gone: removed",
    "getaddrinfo ENOTFOUND db",
    "bash: foo: command not found",
    "database is locked",
    "Cannot access field a on a value of type ARRAY",
    "permission denied",
    "refused: scans on raw serials are not allowed",
    "12 passed, 3 failed",
    "loading...\nfatal: not a git repository",
    "[error] worker exited",
    "Query timed out after 30 s",
    "jq: error (at out.json:1): Cannot iterate over null (null)",
    "src/main.c:3:5: error: expected ';'",
    "gcc: fatal error: no input files\ncompilation terminated.",
    "tar: invalid option -- 'q'",
    "403 No valid crumb",
    "mount error(112): Host is down",
    "The input is a custom-format dump.\nUse the other client to restore this dump.",
    "POD    REASON\nweb-1  failed\npay-1  OOMKilled\ndb-0   <none>\n",
    "POD    REASON\nweb-1  OOMKilled",
]
FINE = [
    "",
    "ok",
    "12400",
    "Sunny 21C in Paris",
    '[{"id": 1, "error_count": 0}]',
    '{"error": null, "rows": [1]}',
    '{"status": 200}',
    '{"status": "succeeded", "amount": 4}',
    "Login Succeeded\nok",
    "0 failed, 12 passed",
    "no errors",
    "row | errors\na | 3\n" + "b | 4\n" * 200,
    "access granted",
    "level: error is logged by 3 of 40 services",
    "status: invalid",
    "412 rows in set (0.08 sec)",
    "found 0 vulnerabilities\nrun it again to see more, use --help for details",
    "404 Zeilen gelesen",
    "POD    REASON\nweb-1  <none>\npay-1  OOMKilled\ndb-0   <none>\n",
]


@pytest.mark.parametrize("text", FAILED)
def test_errors_look_failed(text: str) -> None:
    assert looks_failed(text)


@pytest.mark.parametrize("text", FINE)
def test_results_do_not_look_failed(text: str) -> None:
    assert not looks_failed(text)


@pytest.mark.parametrize(
    "text", ["", " ", "[]", "{}", "null", '{"rows": [], "n": 0}', "0 rows", "None", "(0 rows)", "0"]
)
def test_hollow_results_look_empty(text: str) -> None:
    assert looks_empty(text)


@pytest.mark.parametrize("text", ["1", "118 rows", '{"rows": [0, 1]}', "ok", "10 rows"])
def test_filled_results_do_not_look_empty(text: str) -> None:
    assert not looks_empty(text)


def test_echo_is_seen() -> None:  # T-23
    assert looks_echoed("hello\n", '{"cmd": "echo hello"}')
    assert not looks_echoed("Login Succeeded\nok", '{"cmd": "docker login && echo ok"}')


@pytest.mark.parametrize("text", ["timed out", "HTTP 503", "database is locked", "429"])
def test_passing_failures_look_transient(text: str) -> None:
    assert looks_transient(text)


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    for check in (looks_failed, looks_empty, looks_transient):
        assert check(text) in (True, False)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000])
def test_deep_nesting_is_survived(deep: str) -> None:
    assert not looks_failed(deep)
    assert not looks_empty(deep)
