from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Status
from lessons_loop.promote.forget.forgotten import Forgotten, Tombstone, append_tombstone, mark
from support.gate import archived, candidate, lesson

AT = "2026-11-02T00:00:00Z"
BEFORE, AFTER = "2026-11-01T08:00:00Z", "2026-11-03T08:00:00Z"


def user(name: str, **fields: object) -> Tombstone:
    return Tombstone.model_validate({"what": "user", "who": mark(name), "at": AT} | fields)


def test_without_a_file_nobody_is_forgotten(tmp_path: Path) -> None:
    found = Forgotten.load(tmp_path / "state")
    assert not found
    assert not found.covers_candidate(candidate())


def test_a_user_is_covered_until_the_moment_of_forgetting(tmp_path: Path) -> None:
    append_tombstone(tmp_path, user("user-1"))
    found = Forgotten.load(tmp_path)
    covered = [found.covers_candidate(candidate(at=at)) for at in (BEFORE, AT, AFTER)]
    assert covered == [True, True, False]
    assert not found.covers_candidate(candidate(user="user-2"))


def test_a_chat_is_covered_whenever_its_rows_come(tmp_path: Path) -> None:
    append_tombstone(tmp_path, Tombstone(what="chat", who=mark("chat-1"), at=AT))
    found = Forgotten.load(tmp_path)
    assert found.covers_candidate(candidate(at=AFTER))
    assert not found.covers_candidate(candidate(chat="chat-2"))


def test_a_late_rating_is_covered_by_its_message() -> None:
    found = Forgotten([user("user-1", messages=[mark("message-1")])])
    usage = Usage(keys=("k",), message_ref="message-1", user_ref="user-2", at=AFTER)
    assert found.covers_event(usage)
    assert not found.covers_event(usage.model_copy(update={"message_ref": "message-2"}))


@pytest.mark.parametrize(("verdict", "covered"), [(0, True), (7, True), (8, False)])
def test_a_lesson_decided_on_since_may_come_back(verdict: int, covered: bool) -> None:
    found = Forgotten([user("user-1", keys={"k": 7})])
    assert found.covers_key("k", verdict) is covered
    assert not found.covers_key("other", verdict)


def test_archived_rows_lose_only_the_forgotten_sightings() -> None:
    mine, other = candidate(), candidate(message="m2", user="user-2", chat="chat-2")
    row = archived(lesson(), Status.HELD, candidate=mine, sightings=(other,))
    cleaned = Forgotten([user("user-1")]).cleaned(row)
    assert (cleaned.candidate, cleaned.sightings) == (other, ())
    assert Forgotten([user("user-3")]).cleaned(row) == row


def test_no_line_holds_the_reference(tmp_path: Path) -> None:
    append_tombstone(tmp_path, user("user-1", messages=[mark("message-1")]))
    content = (tmp_path / "forgotten.jsonl").read_text()
    assert "user-1" not in content and "message-1" not in content


def test_half_a_line_of_a_crash_costs_no_other_line(tmp_path: Path) -> None:
    append_tombstone(tmp_path, user("user-1"))
    with (tmp_path / "forgotten.jsonl").open("a") as file:
        file.write('{"what": "us')
    append_tombstone(tmp_path, user("user-2"))
    found = Forgotten.load(tmp_path)
    assert set(found.users) == {mark("user-1"), mark("user-2")}
