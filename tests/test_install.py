from __future__ import annotations

import pytest

from lessons_loop.deploy.webui.client import OpenWebUIError
from lessons_loop.deploy.webui.install import (
    connect,
    function_id,
    install,
    open_webui_version,
    require_admin,
    require_release,
    server_address,
)
from lessons_loop.deploy.webui.plugin_file import (
    PLUGIN_ID,
    PLUGIN_TITLE,
    RATING_ID,
    RATING_TITLE,
    front_matter,
    is_ours,
    plugin_source,
    release,
)
from support.web_host import PAGE, Reply, WebHost, json_answer, redirect

TOKEN = "obviously-fake-token"
VERSION = json_answer({"version": "0.12.4"})
REFUSED = json_answer({"detail": "no"}, 401)
LIST, ANYBODY = "GET /api/v1/functions/list", "GET /api/v1/functions/"


def refusal(answers: dict[str, Reply], otherwise: Reply = PAGE) -> str:
    """Install into a host that answers so, and return the one line that tells why not."""
    with WebHost(answers, otherwise) as host, pytest.raises(OpenWebUIError) as error:
        install(connect(host.url, TOKEN, 20), plugin_source(), {})
    assert TOKEN not in str(error.value) and "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({}, "is no Open WebUI"),
        ({"GET /api/version": json_answer(["0.12.4"])}, "is no Open WebUI"),
        ({"GET /api/version": Reply(502, b"bad gateway")}, "answers 502: the proxy is up"),
        ({"GET /api/version": json_answer({"version": "0.6.5"})}, "0.6.5 is too old"),
        ({"GET /api/version": VERSION, LIST: REFUSED}, "not an admin's: pass the token"),
        ({"GET /api/version": VERSION, LIST: REFUSED, ANYBODY: REFUSED}, "does not know the token"),
        ({"GET /api/version": VERSION, LIST: json_answer({}, 403)}, "allow API keys"),
    ],
)
def test_wrong_places_are_told_in_one_line(answers: dict[str, Reply], told: str) -> None:
    assert told in refusal(answers)


def test_redirect_is_named_and_gets_no_token() -> None:
    with WebHost({}) as other:
        told = refusal({"GET /api/version": redirect(f"{other.url}/api/version")})
        assert told.endswith(f"redirects: pass --url {other.url}")
        assert other.received == []


def test_sign_in_page_before_it_is_told() -> None:
    told = refusal({"GET /api/version": redirect("https://login.example/?next=obviously-fake")})
    assert told.endswith("pass an address that reaches Open WebUI itself")
    assert "https://login.example/" in told and "obviously-fake" not in told


def test_nothing_there_says_what_to_do() -> None:
    with pytest.raises(OpenWebUIError, match="start Open WebUI, or correct --url"):
        open_webui_version(connect("http://127.0.0.1:1", TOKEN, 20))


def test_plain_http_behind_https_is_told() -> None:
    with WebHost({}) as host, pytest.raises(OpenWebUIError, match="no usable TLS"):
        open_webui_version(connect(host.url.replace("http:", "https:"), TOKEN, 20))


def test_hanging_host_ends_in_time() -> None:
    slow = Reply(wait=60)
    with WebHost({}, slow) as host, pytest.raises(OpenWebUIError, match="nothing answers"):
        open_webui_version(connect(host.url, TOKEN, 0.3))


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://h", "http://", "http://h:port", "http://u:secret-1@h", "http://[", "//h"],
)
def test_impossible_address_is_refused(url: str) -> None:
    with pytest.raises(OpenWebUIError) as error:
        server_address(url)
    assert "--url" in str(error.value) and "secret-1" not in str(error.value)


def test_address_is_cleaned() -> None:
    assert server_address(" http://h:8080/chat/?a=1#b ") == "http://h:8080/chat"


@pytest.mark.parametrize("token", ["a b", "a\nb", "ü", "a\x00b"])
def test_impossible_token_is_refused_unseen(token: str) -> None:  # T-43
    with pytest.raises(OpenWebUIError, match="characters no token has") as error:
        connect("http://h", token)
    assert token not in str(error.value)


def test_token_of_netrc_is_not_read(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password obviously-fake\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with WebHost({LIST: json_answer([])}) as host:
        assert require_admin(connect(host.url, TOKEN)) == []
    assert host.received[0][2] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("one", "other"), [("0.12.4", "0.12.0"), ("0.12.10", "0.12.9"), ("1.0", "0.12.0")]
)
def test_versions_compare_by_number(one: str, other: str) -> None:
    assert release(one) > release(other)
    require_release(one, plugin_source())


def test_unreadable_version_is_too_old() -> None:
    with pytest.raises(OpenWebUIError, match="too old"):
        require_release("main", plugin_source())


def test_front_matter_is_what_open_webui_reads() -> None:
    fields = front_matter(plugin_source())
    assert fields["title"] == PLUGIN_TITLE and len(fields["source_digest"]) == 64
    assert front_matter("import os\n") == {}


def ours(name: str) -> dict[str, object]:
    return {"id": name, "meta": {"manifest": {"title": PLUGIN_TITLE}}}


def test_plugin_pasted_under_another_id_is_updated_there() -> None:
    other = {"id": "other", "meta": {"manifest": {"title": "Other"}}}
    assert function_id([other, ours("lessons_loop")]) == "lessons_loop"
    assert function_id([other]) == PLUGIN_ID
    assert not is_ours({"id": "broken", "meta": None})


def test_two_copies_are_refused_by_name() -> None:
    with pytest.raises(OpenWebUIError, match=r"2 times \(a, b\)"):
        function_id([ours("b"), ours("a")])


def test_filter_and_ratings_are_not_taken_for_each_other() -> None:
    rating = {"id": "my_ratings", "meta": {"manifest": front_matter(plugin_source(RATING_ID))}}
    assert function_id([rating]) == PLUGIN_ID
    assert function_id([rating, ours("mine")], RATING_ID, RATING_TITLE) == "my_ratings"
    assert function_id([ours("mine")], RATING_ID, RATING_TITLE) == RATING_ID


def test_somebody_elses_plugin_is_not_overwritten() -> None:
    with pytest.raises(OpenWebUIError, match="another plugin has the id"):
        function_id([{"id": PLUGIN_ID, "meta": {"manifest": {"title": "Mine"}}}])
