"""A person clicks the thumbs, and what of it reaches staging."""

from __future__ import annotations

from collections.abc import Callable

from lessons_loop.filter.inject import reference
from lessons_loop.filter.text import digest
from support.browser import Screen
from support.openwebui import Server
from support.processes import soon

QUESTION = "Which work orders does the machine named by its serial number SN-004711 have?"
Windows = Callable[[str], Screen]


def outcomes(server: Server, message: str, number: int) -> list[tuple[str, str]]:
    """Wait for that many ratings of an answer; return outcome and reason of each."""
    rows = soon(lambda: len(found := server.ratings(message)) >= number and found)
    return [(row.outcome, row.reason) for row in rows]


def test_clicked_thumbs_become_ratings(taught: Server, window: Windows) -> None:
    taught.install_ratings()
    ann = window("ann")
    ann.ask(QUESTION).require_lessons(1)
    ann.page.get_by_role("button", name="Good Response").click()
    form = ann.page.locator("[id^=message-feedback-]")
    message = str(form.get_attribute("id")).removeprefix("message-feedback-")
    assert outcomes(taught, message, 1) == [("up", "")]
    ann.page.get_by_role("button", name="Bad Response").click()
    assert outcomes(taught, message, 2)[1] == ("down", "")
    ann.page.get_by_role("button", name="Too verbose").click()
    own = digest("message", message)
    (usage,) = soon(lambda: [one for one in taught.usages() if one.message_ref == own])
    named = f"lesson {reference(usage.keys[0])} is right, the answer too long"
    ann.page.get_by_label("Additional feedback comments").fill(named)
    ann.shot("chat-thumb-with-reason")
    ann.page.get_by_role("button", name="Save", exact=True).click()
    assert outcomes(taught, message, 3)[2] == ("down", "too_verbose")
    last = taught.ratings(message)[-1]
    assert last.keys == (reference(usage.keys[0]),)
    assert (last.message_ref, last.user_ref) == (usage.message_ref, usage.user_ref)
    ann.page.reload()
    ann.page.get_by_role("button", name="Good Response").click()
    assert outcomes(taught, message, 4)[3] == ("up", "")
