"""What a chat user sees of lessons, and how he switches them off for himself."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, expect

from lessons_loop.filter.inject import BLOCK_OPEN, reference
from lessons_loop.filter.published import read_published
from support.browser import PHONE, Screen, customise, row_of
from support.openwebui import PATIENT, PLUGIN, Server
from support.provider import lessons_in, system_text

QUESTION = "Which work orders does the machine named by its serial number SN-004711 have?"
OTHER = "Which facts of one machine that is named by its serial number do we have?"
Windows = Callable[[str], Screen]


def told(server: Server, question: str) -> list[bool]:
    """Return, per request with this question, whether the model was given lessons."""
    return [BLOCK_OPEN in system_text(body) for body in server.provider.received(question)]


def own_valves(screen: Screen) -> Locator:
    """Open chat controls → valves → the plugin; return the panel."""
    screen.open()
    page = screen.page
    page.get_by_role("button", name="Controls").click()
    page.get_by_text("Valves", exact=True).click()
    page.locator("select").first.select_option("functions")
    page.locator("select").nth(1).select_option(PLUGIN)
    page.get_by_text("Use Lessons", exact=True).wait_for()
    return page.locator("form").filter(has_text="Use Lessons")


def switch(screen: Screen, title: str, *, on: bool) -> None:
    """Set one of the user's own switches in a fresh window; the panel saves by itself."""
    row = row_of(own_valves(screen), title)
    customise(row)
    button = row.get_by_role("switch")
    if (button.get_attribute("aria-checked") == "true") is not on:
        with screen.page.expect_response("**/valves/user/update"):
            button.click()
    expect(button).to_have_attribute("aria-checked", str(on).lower())


def test_user_sees_the_lesson_and_opens_it(taught: Server, window: Windows) -> None:
    ann = window("ann")
    answer = ann.ask(QUESTION)
    answer.require_lessons(1)
    ann.shot("chat-lesson-used")
    (body,) = taught.provider.received(QUESTION)
    found = read_published(taught.paths.published("sql"))
    assert found
    (used,) = [one for one in found.lessons if f"[{reference(one.key)}]" in system_text(body)]
    opened = answer.open_source()
    ann.shot("chat-lesson-opened")
    shown = [line.strip() for line in opened.inner_text().splitlines() if line.strip()]
    assert reference(used.key) in shown[0] and used.lesson.trigger[:20] in shown[0]
    assert shown[1:] == [
        "Content",
        used.lesson.text,
        f"Applies to: {used.lesson.trigger}",
        f"Learned: {used.since[:10]}",
    ]
    ann.resize(PHONE)
    ann.shot("chat-lesson-opened-phone")


def test_lessons_stay_with_the_answer_after_a_reload(taught: Server, window: Windows) -> None:
    ann = window("ann")
    ann.ask(QUESTION).require_lessons(1)
    ann.page.reload()
    answer = ann.last_answer()
    answer.require_lessons(1)
    answer.open_source()
    ann.shot("chat-lesson-after-reload")


def test_several_lessons_are_told_in_one_line(taught: Server, window: Windows) -> None:
    valves = PATIENT | {"domains": "sql", "min_similarity": "0.2"}
    taught.admin.set_valves("functions", PLUGIN, valves)
    ben = window("ben")
    answer = ben.ask(QUESTION)
    (body,) = taught.provider.received(QUESTION)
    given = lessons_in(system_text(body))
    assert given > 1
    answer.require_lessons(given)
    answer.open_source(given - 1)
    ben.shot("chat-several-lessons")


def test_user_switches_lessons_off_for_himself_only(taught: Server, window: Windows) -> None:
    ann, ben, settings = window("ann"), window("ben"), window("ann")
    switch(settings, "Use Lessons", on=False)
    settings.shot("own-valves-lessons-off")
    ann.ask(QUESTION).require_nothing()
    ann.page.reload()
    ann.last_answer().require_nothing()
    ann.shot("chat-lessons-off")
    ben.ask(OTHER).require_lessons(1)
    assert (told(taught, QUESTION), told(taught, OTHER)) == ([False], [True])
    switch(window("ann"), "Use Lessons", on=True)
    ann.ask(QUESTION).require_lessons(1)


def test_user_hides_lessons_that_are_still_used(taught: Server, window: Windows) -> None:
    ann = window("ann")
    switch(window("ann"), "Show Lessons", on=False)
    ann.ask(QUESTION).require_nothing()
    ann.shot("chat-lessons-hidden")
    assert told(taught, QUESTION) == [True]
    switch(window("ann"), "Show Lessons", on=True)


def test_small_talk_shows_nothing(taught: Server, window: Windows) -> None:  # T-04
    ben = window("ben")
    ben.ask("good morning!").require_nothing()
    assert told(taught, "good morning!") == [False]
