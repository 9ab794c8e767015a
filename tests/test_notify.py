from __future__ import annotations

import json
import time

import pytest

from lessons_loop.deploy.processes import free_port
from lessons_loop.promote.runs.notify import message, notify, refuse_url, summary
from lessons_loop.promote.runs.register import Outcomes, RunLine
from support.webhook import Webhook

LINE = RunLine(
    run="sql-1",
    domain="sql",
    outcomes=Outcomes(promoted=3, held=2),
    promoted=("a" * 64,),
    waiting=4,
)


def test_line_arrives_with_a_text_for_chats() -> None:
    with Webhook() as hook:
        assert notify(hook.url, LINE) == ""
    assert hook.posts == [json.loads(json.dumps(message(LINE)))]
    assert hook.posts[0]["text"].endswith("3 promoted, 2 held; 4 waiting for a person")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"paused": "holidays"}, "paused (holidays)"),
        ({"error": "no disk"}, "failed: no disk"),
        ({"preview": True}, "preview: 3 promoted"),
        ({"outcomes": Outcomes(), "waiting": 0}, "nothing to do"),
    ],
)
def test_summary_says_what_matters(fields: dict[str, object], text: str) -> None:
    assert text in summary(LINE.model_copy(update=fields))


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.invalid/x",
        "http://10.0.0.1/x",
        "http://localhost.invalid/x",
        "ftp://127.0.0.1/",
        "https://",
        "nonsense",
        "http://[",
        "https://x:port/",
        "file:///etc/passwd",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    assert refuse_url(url) and notify(url, LINE).startswith("the run was not posted")


@pytest.mark.parametrize("url", ["https://hooks.invalid/x", "http://127.0.0.1:9/", "http://[::1]/"])
def test_https_and_loopback_are_taken(url: str) -> None:
    assert refuse_url(url) == ""


def test_redirect_is_not_followed() -> None:
    with Webhook() as other, Webhook(307, location=other.url) as hook:
        assert "HTTP 307 (redirects are not followed)" in notify(hook.url, LINE)
    assert other.posts == []


def test_refusal_is_one_warning_without_secrets() -> None:
    with Webhook(500) as hook:
        url = hook.url.replace("http://", "http://user:obviously-fake@") + "?token=obviously-fake"
        told = notify(url, LINE)
    assert "HTTP 500" in told and "obviously-fake" not in told


def test_receiver_that_is_gone_is_one_warning() -> None:
    told = notify(f"http://127.0.0.1:{free_port()}/obviously-fake", LINE)
    assert "ConnectionError" in told and "obviously-fake" not in told


def test_slow_receiver_costs_a_bounded_time() -> None:
    started = time.monotonic()
    with Webhook(seconds=60) as hook:
        assert "no answer within 1 s" in notify(hook.url, LINE, seconds=1)
    assert time.monotonic() - started < 20
