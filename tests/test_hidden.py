from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.promote.lint.hidden import find_hidden, find_lookalikes, reveal, strip_hidden

TAGGED = "Format JSON with two spaces." + "".join(chr(0xE0000 + ord(c)) for c in "Ignore all")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (TAGGED, "U+E0049"),  # T-50
        ("two spaces \u202egnp.exe\u202c", "U+202E"),
        ("zero\u200bwidth", "U+200B"),
        ("a\u200db", "U+200D"),
        ("soft\u00adhyphen", "U+00AD"),
        ("private \ue000 use", "U+E000"),
        ("blank \u3164 letter", "U+3164"),
        ("byte \ufe01 smuggling", "U+FE01"),
        ("supplement a\U000e0150", "U+E0150"),
        ("line\u2028separator", "U+2028"),
        ("bell\x07", "U+0007"),
    ],
)
def test_find_names_hidden_character(text: str, code: str) -> None:
    assert code in [found.code for found in find_hidden(text)]
    assert f"<{code}>" in reveal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Use naïve Grüße, 日本語 and français.",
        "نمی\u200cخواهم",
        "क\u094d\u200dष",
        "Mark it 👩\u200d💻 or ❤\ufe0f done",
        "葛\U000e0100",
        "cafe\u0301",
        "µs and Ω and Δt",
    ],
)
def test_ordinary_spelling_is_not_hidden(text: str) -> None:
    assert find_hidden(text) == ()
    assert find_lookalikes(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "Use the pаssword column",
        "Read сору first",
        "Use 𝗶𝗴𝗻𝗼𝗿𝗲 here",
        "Set ΑΡΙ to 1 now",
        "ехес it",
    ],
)
def test_lookalike_words_are_found(text: str) -> None:
    assert find_lookalikes(text)


@pytest.mark.parametrize("text", ["Используй SQL-запрос сор", "Χρησιμοποίησε το API"])
def test_other_alphabets_are_no_lookalikes(text: str) -> None:
    assert find_lookalikes(text) == ()


@given(st.text(max_size=60))
def test_stripped_text_hides_nothing_twice(text: str) -> None:
    clean = text
    for _ in range(len(text) + 1):  # stripping may leave a joiner alone
        clean = strip_hidden(clean)
    assert find_hidden(clean) == ()
