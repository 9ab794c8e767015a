from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.address import completions_url, public_url
from lessons_loop.filter.errors import ModelError


@pytest.mark.parametrize(
    ("given_url", "wanted"),
    [
        ("http://host:1/", "http://host:1/v1/chat/completions"),
        (" https://host/v1\n", "https://host/v1/chat/completions"),
        ("https://host/openai", "https://host/openai/chat/completions"),
        ("https://host/a/v1beta/", "https://host/a/v1beta/chat/completions"),
        ("https://host/x?api-version=1", "https://host/x/v1/chat/completions?api-version=1"),
    ],
)
def test_address_is_completed(given_url: str, wanted: str) -> None:
    assert completions_url(given_url) == wanted


@pytest.mark.parametrize("bad", ["", "host/v1", "ftp://host", "http://", "http://[::1", "://"])
def test_unusable_address_is_refused(bad: str) -> None:
    with pytest.raises(ModelError, match="no http"):
        completions_url(bad)


@given(st.text())
def test_any_text_is_address_or_error(text: str) -> None:
    try:
        assert completions_url(text).startswith(("http://", "https://", "HTTP"))
    except ModelError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("url", ["http://u:p@h/v1", "http://u:p@x@h/v1?key=p", "https://p@h#p"])
def test_credentials_are_stripped(url: str) -> None:
    assert "p@" not in public_url(url)
    assert "key" not in public_url(url)
