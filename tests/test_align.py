from __future__ import annotations

from lessons_loop.deploy.local.align import with_connection
from lessons_loop.deploy.local.sources import Models

WANTED = Models("practice", "http://127.0.0.1:2/v1", "practice")


def stored(*urls: str) -> dict[str, object]:
    return {
        "ENABLE_OPENAI_API": True,
        "OPENAI_API_BASE_URLS": list(urls),
        "OPENAI_API_KEYS": ["theirs" for _ in urls],
        "OPENAI_API_CONFIGS": {},
    }


def test_earlier_connection_is_replaced_in_its_place() -> None:
    before = stored("http://127.0.0.1:1/v1", "https://theirs.example/v1")
    after = with_connection(before, WANTED, "http://127.0.0.1:1/v1")
    assert after["OPENAI_API_BASE_URLS"] == [WANTED.url, "https://theirs.example/v1"]
    assert after["OPENAI_API_KEYS"] == ["practice", "theirs"]


def test_connection_of_the_admin_is_kept() -> None:
    after = with_connection(stored("https://theirs.example/v1"), WANTED, "")
    assert after["OPENAI_API_BASE_URLS"] == ["https://theirs.example/v1", WANTED.url]


def test_aligning_twice_changes_nothing() -> None:
    once = with_connection(stored("http://127.0.0.1:1/v1"), WANTED, "http://127.0.0.1:1/v1")
    assert with_connection(once, WANTED, WANTED.url) == once
