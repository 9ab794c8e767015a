from __future__ import annotations

import time

import pytest

from lessons_loop.filter.people import name_words
from lessons_loop.filter.redact import mask
from support.distilling import read
from support.exchanges import assistant, lesson, reply, tool, turns, user


@pytest.mark.parametrize(
    "text",
    [
        "matches the list of Mrs. Kunze",
        "stimmt mit der Liste von Frau Kunze überein",
        "so sagt es Herr Dr. Kunze immer",
        "le fichier de Mme Kunze",
        "My name is Rita Kunze and I work in finance",
        "Hi, I'm Rita Kunze from finance.",
        "Ich bin Rita Kunze, Einkauf",
        "ich heiße Kunze",
        "me llamo Rita Kunze",
        "Hello Kunze,\nplease see below",
        "Hallo Rita Kunze!\nwie besprochen",
        "that's right. Cheers, Kunze",
        "passt so.\nViele Grüße\nRita Kunze",
        "passt so. VG Kunze",
        "from Rita Kunze <rita@example.com>",
        "a customer named Kunze has paid twice",
        "eine Kundin namens Kunze",
    ],
)
def test_names_are_masked_where_the_words_say_so(text: str) -> None:
    masked = mask(text)
    assert "Kunze" not in masked
    assert "[personal: name]" in masked
    assert "Kunze" in name_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "Hello World!",
        "Hi Team,\nthe export runs",
        "I'm using Open WebUI with Ollama",
        "I am on Windows Server 2022.",
        "Avoid joins. Best Practice",
        "thanks, Grafana works now",
        "Dear all,\nplease update",
        "MS SQL and Ms-style names",
        "a table named Orders",
        "the user Postgres runs as",
        "Ich bin mir sicher, dass Docker läuft",
        "Use Power BI and Home Assistant.",
        "My name server is slow",
    ],
)
def test_products_and_greetings_stay(text: str) -> None:
    assert mask(text) == text
    assert name_words(text) == frozenset()


TALK = (
    user("Hi, I'm Rita Kunze from finance. How much space do users take?"),
    *tool("run_sql", "142 GB", sql="SELECT SUM(size) FROM oc_filecache WHERE owner='Kunze'"),
    assistant("142 GB in all, Rita."),
    user("correct, that matches the report"),
)


def test_a_name_once_told_is_masked_everywhere() -> None:
    told = lesson("Sum size in oc_filecache.", [2, 3, 5], "SELECT SUM(size) FROM oc_filecache")
    (found,) = read(turns(*TALK), reply(told)).candidates
    assert "Kunze" not in repr(found) and "Rita" not in repr(found)


@pytest.mark.parametrize(
    "changed",
    [
        {"text": "Sum size in oc_filecache for Kunze."},
        {"text": "Ask Rita before summing size in oc_filecache."},
        {"trigger": "space of Kunze's files"},
    ],
)
def test_lesson_naming_a_person_is_dropped(changed: dict[str, str]) -> None:
    told = lesson("Sum size in oc_filecache.", [2, 3, 5], "SELECT SUM(size) FROM oc_filecache")
    assert read(turns(*TALK), reply(told | changed)).counts == {"dropped:sensitive": 1}


def test_tag_naming_a_person_is_left_out() -> None:
    told = lesson("Sum size in oc_filecache.", [2, 3, 5], "SELECT SUM(size) FROM oc_filecache")
    (found,) = read(turns(*TALK), reply(told | {"tags": ["Kunze", "size"]})).candidates
    assert found.lesson.tags == ("size",)


@pytest.mark.parametrize("part", ["Aa ", "Hi Aa", "Cheers, Aa\n", "Dr. ", "Aa-Bb ", "I'm Aa Bb "])
def test_long_text_takes_seconds_at_most(part: str) -> None:
    flood = part * (60_000 // len(part))
    began = time.process_time()
    name_words(flood)
    assert time.process_time() - began < 3
