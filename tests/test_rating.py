"""What a feedback row says, and what of it is never kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.events import RATING_REASONS
from lessons_loop.filter.rating import named_references, read_thumb

KEY = "0a1b2c3d" + "e" * 56


def row(**data):
    meta = {"chat_id": "chat-1", "message_id": "msg-1", "arena": False}
    return {"id": "f1", "user_id": "user-1", "type": "rating", "data": data, "meta": meta}


@pytest.mark.parametrize(
    ("rating", "outcome"),
    [
        (1, "up"),
        (-1, "down"),
        ("1", "up"),
        ("-1", "down"),
        (None, "none"),
        (7, "none"),
        ("", "none"),
    ],
)
def test_thumb_is_read(rating, outcome):
    thumb = read_thumb(row(rating=rating))
    assert thumb and (thumb.outcome, thumb.message, thumb.user) == (outcome, "msg-1", "user-1")


@pytest.mark.parametrize("reason", sorted(RATING_REASONS))
def test_known_reason_is_kept(reason):
    thumb = read_thumb(row(rating=-1, reason=reason))
    assert thumb and thumb.reason == reason


@pytest.mark.parametrize("reason", ["The bill of Ms. Example is wrong", None, 7, ["too_verbose"]])
def test_other_reason_is_dropped(reason):
    thumb = read_thumb(row(rating=-1, reason=reason))
    assert thumb and thumb.reason == ""


@pytest.mark.parametrize(
    ("comment", "references"),
    [
        ("lesson 0a1b2c3d is wrong", ("0a1b2c3d",)),
        ("[0A1B2C3D]: no; (ffff0000) yes, 0a1b2c3d again", ("0a1b2c3d", "ffff0000")),
        ("Lesson 0a1b2c3d: machines by serial", ("0a1b2c3d",)),
        (KEY, ("0a1b2c3d",)),
        ("0a1b2c3d4 and x0a1b2c3d", ()),
        ("1f0e2d3c-0a1b-4c3d-8e9f-0a1b2c3d4e5f", ()),
        ("nothing of it helped", ()),
        (None, ()),
        (["0a1b2c3d"], ()),
    ],
)
def test_references_in_a_comment_are_found(comment, references):
    assert named_references(comment) == references


@given(st.text(max_size=300))
def test_a_comment_leaves_nothing_but_references(comment):
    thumb = read_thumb(row(rating=1, comment=comment))
    assert thumb and all(len(name) == 8 and int(name, 16) >= 0 for name in thumb.references)


def test_very_many_references_are_bounded():
    assert len(named_references(" ".join(f"{n:08x}" for n in range(5000)))) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"type": "arena"},
        {"user_id": None},
        {"meta": None},
        {"meta": {"chat_id": "chat-1"}},
        {"meta": {"message_id": ["msg-1"]}},
    ],
)
def test_row_that_rates_no_message_is_none(change):
    assert read_thumb(row(rating=1) | change) is None
    assert read_thumb({}) is None


def test_arena_and_siblings_rate_their_own_message():
    arena = row(rating=1, sibling_model_ids=["other"]) | {
        "meta": {"arena": True, "message_id": "msg-2", "chat_id": "chat-1"}
    }
    thumb = read_thumb(arena)
    assert thumb and thumb.message == "msg-2"
