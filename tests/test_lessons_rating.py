"""The rating plugin: which thumbs become rows, which leave nothing, and that it never raises."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.lessons_rating import Event
from lessons_loop.filter.store import StorePaths, ensure_salt
from lessons_loop.filter.text import digest, user_reference
from support.ratings import Thumbs


@pytest.fixture
def thumbs(tmp_path):
    return Thumbs(tmp_path / "store")


def test_thumb_names_answer_and_rater_as_the_filter_does(thumbs):
    thumbs.rate("f", -1, reason="too_verbose", comment="lesson [0A1B2C3D] misled Ms. Example")
    (row,) = thumbs.spooled()
    salt = ensure_salt(StorePaths(thumbs.store))
    assert row["message_ref"] == digest("message", "msg-f")
    assert row["user_ref"] == user_reference(salt, "user-1")
    assert (row["type"], row["outcome"], row["reason"]) == ("rating", "down", "too_verbose")
    assert row["keys"] == ["0a1b2c3d"] and "Example" not in json.dumps(row)


def test_page_makes_one_row_a_change(thumbs):
    for _ in range(2):
        thumbs.rate("f", 1)  # created, then tags
    thumbs.rate("f", 1, reason="accurate_information")
    thumbs.rate("f", -1)
    thumbs.delete("f")
    assert thumbs.outcomes() == ["up", "up", "down", "none"]


def test_two_raters_are_two(thumbs):
    thumbs.rate("f", 1)
    thumbs.rate("g", -1, user="user-2")
    assert len({row["user_ref"] for row in thumbs.spooled()}) == 2


def test_each_domain_gets_the_row(tmp_path):
    thumbs = Thumbs(tmp_path, domains="sql,openwebui")
    thumbs.rate("f", 1)
    assert thumbs.outcomes("sql") == thumbs.outcomes("openwebui") == ["up"]


@pytest.mark.parametrize("chat", ["temporary:abc", "local:abc", "channel:abc", ""])
def test_chat_that_is_not_saved_leaves_nothing(thumbs, chat):
    thumbs.rate("f", 1, chat=chat)
    assert not thumbs.store.exists()


def test_api_chat_counts_where_it_is_learned_from(tmp_path):
    thumbs = Thumbs(tmp_path, distill_api_chats=True)
    thumbs.rate("f", 1, chat="")
    assert thumbs.outcomes() == ["up"]


def test_opted_out_rater_leaves_nothing_new(thumbs):
    thumbs.host.opted_out.add("user-2")
    thumbs.rate("g", 1, user="user-2")
    assert not thumbs.store.exists()


def test_removal_counts_after_opting_out(thumbs):
    thumbs.rate("f", 1)
    thumbs.host.opted_out.add("user-1")
    thumbs.rate("f", -1)
    thumbs.delete("f")
    assert thumbs.outcomes() == ["up", "none"]


def test_all_feedback_deleted_is_all_taken_back(thumbs):
    thumbs.rate("f", 1)
    thumbs.rate("g", -1, user="user-2")
    thumbs.hear("feedback.deleted_all", "user-2", "user")
    assert thumbs.outcomes() == ["up", "down", "none"]
    thumbs.hear("feedback.deleted_all", "all")
    assert thumbs.outcomes() == ["up", "down", "none", "none"]
    assert thumbs.spooled()[-1]["message_ref"] == digest("message", "msg-f")


@pytest.mark.parametrize(
    ("name", "whom"),
    [
        ("feedback.updated", "gone"),
        ("feedback.deleted", "gone"),
        ("feedback.deleted_all", ""),
        ("chat.finished", "f"),
        ("feedback.exported", "f"),
        ("", "f"),
    ],
)
def test_other_events_leave_nothing(thumbs, name, whom):
    thumbs.hear(name, whom)
    assert not list(thumbs.store.glob("spool/*"))


def test_row_that_vanished_meanwhile_changes_nothing(thumbs):
    thumbs.rate("f", 1)
    del thumbs.host.rows["f"]
    thumbs.hear("feedback.updated", "f")
    assert thumbs.outcomes() == ["up"]


def test_switched_off_or_without_filter_leaves_nothing(thumbs):
    thumbs.plugin.valves = Event.Valves(enabled=False)
    thumbs.rate("f", 1)
    thumbs.plugin.valves = Event.Valves()
    thumbs.host.installed = False
    thumbs.rate("g", 1)
    assert not thumbs.store.exists()


def test_store_that_cannot_be_written_warns_once(tmp_path, caplog):
    blocked = tmp_path / "store"
    blocked.write_text("a file where the store should be")
    thumbs = Thumbs(blocked)
    with caplog.at_level(logging.WARNING, "lessons_loop"):
        for number in range(3):
            thumbs.rate(f"f{number}", 1)
    assert [r.message.count("not noted") for r in caplog.records] == [1]


def test_events_at_once_end_with_the_newest_state(thumbs):
    async def page():
        row = {"id": "f", "user_id": "u", "type": "rating", "data": {"rating": 1}}
        thumbs.host.rows["f"] = row | {"meta": {"chat_id": "c", "message_id": "m"}}
        heard = {"event": "feedback.updated", "subject": {"id": "f"}}
        first = asyncio.create_task(thumbs.plugin.event(event=heard))
        await asyncio.sleep(0)
        thumbs.host.rows["f"] = thumbs.host.rows["f"] | {"data": {"rating": -1}}
        await asyncio.gather(first, thumbs.plugin.event(event=heard))

    asyncio.run(page())
    newest = max(thumbs.spooled(), key=lambda row: row["at"])
    assert newest["outcome"] == "down"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(subject=JSON, data=JSON, meta=JSON)
def test_hostile_events_never_raise(tmp_path, subject, data, meta):
    thumbs = Thumbs(tmp_path / "store")
    row = {"id": "f", "user_id": "u", "type": "rating", "data": data, "meta": meta}
    thumbs.host.rows["f"] = row
    asyncio.run(thumbs.plugin.event(event={"event": "feedback.created", "subject": subject}))
    thumbs.hear("feedback.created", "f")
    thumbs.host.rows["f"] = row | {
        "data": {"rating": 1, "comment": data},
        "meta": {"message_id": "m", "chat_id": meta},
    }
    thumbs.hear("feedback.updated", "f")
