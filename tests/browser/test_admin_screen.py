"""The admin's screens: pasting the file, and the settings page of the plugin."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from lessons_loop.filter.inject import BLOCK_OPEN
from lessons_loop.filter.lessons_filter import Filter
from support.browser import PHONE, WIDE, Screen, customise, row_of
from support.openwebui import PATIENT, PLUGIN, Server
from support.processes import soon
from support.provider import lessons_in, system_text
from support.teaching import COUNT, TOOL_ID, distil_widgets

BUNDLE = Path(__file__).parents[2] / "deploy" / "openwebui" / "lessons_filter.py"
QUESTION = "Which work orders does the machine named by its serial number SN-000815 have?"
FIELDS = Filter.Valves.model_json_schema()["properties"]
Windows = Callable[[str], Screen]
OUT_OF_PLACE = """
form => {
    const bounds = form.getBoundingClientRect(), wrong = [];
    const shown = [...form.querySelectorAll('input, textarea, button, p')]
        .filter(e => e.offsetParent && !e.closest('.sr-only'));
    const inside = e => e.parentElement.closest('button');
    const boxes = shown.filter(e => !inside(e)).map(e => [e, e.getBoundingClientRect()]);
    for (const [e, box] of boxes) {
        const name = e.placeholder || e.textContent.trim();
        if (box.left < bounds.left - 1 || box.right > bounds.right + 1) wrong.push('cut: ' + name);
        if (e.tagName === 'P' && e.scrollWidth > e.clientWidth + 1) wrong.push('cut: ' + name);
    }
    for (const [i, [a, x]] of boxes.entries())
        for (const [b, y] of boxes.slice(i + 1))
            if (x.right - 1 > y.left && y.right - 1 > x.left
                && x.bottom - 1 > y.top && y.bottom - 1 > x.top)
                wrong.push('overlap: ' + a.outerHTML.slice(0, 80) + b.outerHTML.slice(0, 80));
    return wrong;
}
"""


def settings_page(screen: Screen) -> Locator:
    """Open Admin → Functions → gear; return the form."""
    screen.open("/admin/functions")
    screen.page.get_by_role("button", name="Valves", exact=True).click()
    screen.page.get_by_text("Domains", exact=True).wait_for()
    return screen.page.locator(".modal form")


def save(screen: Screen, form: Locator) -> None:
    """Press Save and wait until it is stored."""
    with screen.page.expect_response("**/valves/update"):
        form.get_by_role("button", name="Save").click()


def paste_plugin(screen: Screen) -> None:
    """Create the function as the README says: name it, paste the file, save, confirm."""
    screen.open("/admin/functions")
    page = screen.page
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_label("Function Name").fill("Lessons filter")
    page.get_by_label("Function Description").fill("Recalls lessons")
    page.evaluate("text => navigator.clipboard.writeText(text)", BUNDLE.read_text("utf-8"))
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+v")
    page.get_by_role("button", name="Save", exact=False).first.click()
    page.get_by_role("button", name="Confirm", exact=True).click()
    page.get_by_text("Function created successfully").wait_for()


def switch_on_for_everybody(screen: Screen) -> None:
    """Enable the pasted function and make it global."""
    page = screen.page
    page.get_by_role("switch").click()
    page.get_by_role("button", name="Function Menu").click()
    page.get_by_role("menu").get_by_role("switch").click()
    page.get_by_text("Filter is now globally enabled").wait_for()
    screen.shot("admin-pasted-enabled-global")


def says_the_same(stored: str, pasted: str) -> bool:
    """Compare code and front matter: the editor lays code out anew when it is saved."""
    trees = [ast.parse(text) for text in (stored, pasted)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = " ".join(node.value.split())
    return ast.dump(trees[0]) == ast.dump(trees[1])


def test_pasted_file_works_without_any_other_step(bare: Server, window: Windows) -> None:
    admin = window("admin")
    paste_plugin(admin)
    admin.shot("admin-pasted")
    stored = bare.admin.function(PLUGIN)
    assert stored and says_the_same(stored["content"], BUNDLE.read_text("utf-8"))
    mark = len(bare.log)
    switch_on_for_everybody(admin)
    ann = window("ann")
    ann.ask(QUESTION).require_nothing()
    ann.shot("chat-without-any-lesson")
    (body,) = bare.provider.received(QUESTION)
    assert BLOCK_OPEN not in system_text(body)
    logged = bare.log[mark:]
    bad = re.findall(r".*(?:ERROR|Traceback|WARNING).*", logged)
    assert [line for line in bad if "is slow" not in line] == []  # a busy machine may be
    assert logged.count("none yet, chats go on without") == 1


def test_learning_switched_on_in_the_settings(bare: Server, window: Windows) -> None:
    admin = window("admin")
    paste_plugin(admin)
    switch_on_for_everybody(admin)
    form = settings_page(admin)
    row = row_of(form, "Distill Enabled")
    customise(row)
    row.get_by_role("switch").click()
    admin.shot("admin-learning-on")
    save(admin, form)
    bare.provider.distiller = distil_widgets
    ann = window("ann")
    ann.ask(COUNT, TOOL_ID)
    ann.shot("chat-that-proves-something")
    staged = soon(bare.staged)
    assert "widget_ledger" in staged[0].lesson.text


@pytest.mark.parametrize(("name", "size"), [("wide", WIDE), ("phone", PHONE)])
def test_settings_show_every_valve_with_a_control(
    taught: Server, window: Windows, name: str, size: tuple[int, int]
) -> None:
    admin = window("admin")
    admin.resize(size)
    taught.admin.set_valves("functions", PLUGIN, {})
    form = settings_page(admin)
    admin.shot(f"admin-settings-{name}")
    for field in FIELDS.values():
        row = row_of(form, field["title"])
        customise(row)
        expect(row.locator("p").get_by_text(field["description"], exact=True)).to_be_visible()
        expect(control(row, field)).to_be_visible()
    assert form.evaluate(OUT_OF_PLACE) == []
    admin.resize((size[0], 3200))
    admin.shot(f"admin-settings-all-{name}")


def control(row: Locator, field: dict[str, object]) -> Locator:
    """Return the control a valve of this type must have."""
    if field["type"] == "boolean":
        return row.get_by_role("switch")
    if "input" in field:
        return row.locator("input.password")
    return row.locator("textarea" if field["type"] == "string" else "input")


def test_changed_setting_persists_and_takes_effect(taught: Server, window: Windows) -> None:
    valves = PATIENT | {"domains": "sql", "min_similarity": "0.2", "top_k": 1}
    taught.admin.set_valves("functions", PLUGIN, valves)
    admin, ann = window("admin"), window("ann")
    ann.ask(QUESTION).require_lessons(1)
    form = settings_page(admin)
    row_of(form, "Top K").locator("input").fill("3")
    save(admin, form)
    again = row_of(settings_page(admin), "Top K").locator("input")
    expect(again).to_have_value("3")
    answer = ann.ask(QUESTION)
    given = lessons_in(system_text(taught.provider.received(QUESTION)[-1]))
    assert 1 < given <= 3
    answer.require_lessons(given)
    assert taught.admin.valves("functions", PLUGIN)["top_k"] == 3


def test_token_is_masked_on_the_screen(taught: Server, window: Windows) -> None:
    admin = window("admin")
    form = settings_page(admin)
    row = row_of(form, FIELDS["chroma_token"]["title"])
    customise(row)
    field = row.locator("input")
    field.fill("obviously-fake-token")
    masked = field.evaluate("e => e.type === 'password' || getComputedStyle(e).webkitTextSecurity")
    assert masked in (True, "disc", "circle", "square")
    admin.shot("admin-token-masked")
