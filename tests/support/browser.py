"""A real Chromium on a real Open WebUI, as a person uses it; screenshots are kept as files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, Playwright, expect, sync_playwright

from lessons_loop.deploy.webui.client import OpenWebUI

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
WIDE = (1280, 800)
PHONE = (390, 844)
PATIENCE_MS = 90_000
expect.set_options(timeout=PATIENCE_MS)  # its own five seconds are short for a busy machine


def find_chromium() -> str:
    """Return the browser's path; fail with what installs it."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium found: `make test-browser` installs it"
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium with a profile of its own that is thrown away."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        try:
            yield browser
        finally:
            browser.close()


def launched(playwright: Playwright) -> Browser:
    """Start Debian's browser; Playwright brings none along."""
    return playwright.chromium.launch(executable_path=find_chromium(), args=list(SWITCHES))


class Screen:
    """One signed-in person's window."""

    def __init__(self, browser: Browser, client: OpenWebUI) -> None:
        self.url = client.url
        width, height = WIDE
        self.context = browser.new_context(viewport={"width": width, "height": height})
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=self.url)
        # The token is what the page itself keeps after a sign-in.
        token = json.dumps(client.token)
        self.context.add_init_script(f"localStorage.setItem('token', {token})")
        self.page: Page = self.context.new_page()
        news = self.page.get_by_role("button", name="Okay, Let's Go!")
        self.page.add_locator_handler(news, lambda button: button.click())

    def open(self, path: str = "/") -> None:
        """Go to a page of Open WebUI."""
        self.page.goto(self.url + path)

    def resize(self, size: tuple[int, int]) -> None:
        """Change the window's size."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})

    def shot(self, scene: str) -> None:
        """Keep what is to be seen now."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{scene}.png", animations="disabled")

    def close(self) -> None:
        """Close the window."""
        self.context.close()

    def ask(self, text: str, tool: str = "") -> Answer:
        """Ask in a new chat, with a tool where one is named; wait until nothing more comes."""
        self.open(f"/?tools={tool}" if tool else "/")
        if tool:
            self.page.get_by_role("button", name="Available Tools", exact=False).wait_for()
        # Before the models are there, a question is answered with "Model not selected".
        self.page.locator("[aria-label^='Selected model: ']").first.wait_for()
        box = self.page.locator("#chat-input")
        box.click()
        box.fill(text)
        self.page.keyboard.press("Enter")
        # Follow-ups are generated behind the answer and the filter's outlet.
        self.page.get_by_role("button", name="Follow up: What next?").wait_for()
        return self.last_answer()

    def last_answer(self) -> Answer:
        """Return the newest answer on the screen."""
        answers = self.page.locator("[id^=message-]")
        answers.last.wait_for()
        return Answer(self.page, answers.last)


class Answer:
    """An answer on the screen."""

    def __init__(self, page: Page, box: Locator) -> None:
        self.page, self.box = page, box
        self.status = page.get_by_text("learned lesson")
        self.sources_button = page.get_by_role("button", name="Toggle ", exact=False).filter(
            has_text="Source"
        )
        self.sources = page.locator("button[id^=source-]")

    def require_lessons(self, count: int) -> None:
        """Wait for the status line and the sources of that many lessons."""
        plural = "s" if count > 1 else ""
        self.page.get_by_text(f"Using {count} learned lesson{plural}", exact=True).wait_for()
        self.page.get_by_role("button", name=f"Toggle {count} source{plural}").wait_for()

    def require_nothing(self) -> None:
        """Fail when the answer shows lessons."""
        assert self.status.count() == 0
        assert self.sources_button.count() == 0

    def open_source(self, number: int = 0) -> Locator:
        """List the sources, open one; return the window that tells about it."""
        self.sources.or_(self.sources_button).first.wait_for()
        if not self.sources.count():
            self.sources_button.click()
        self.sources.nth(number).click()
        # Open WebUI's windows slide in: wait until it stands still.
        window = self.page.locator(".modal")
        window.get_by_text("Content", exact=True).click(trial=True)
        return window


def row_of(panel: Locator, title: str) -> Locator:
    """Return the row of a valve in a settings panel: title, control, help."""
    label = panel.page.get_by_text(title, exact=True)
    rows = panel.locator("div").filter(has=label).filter(has=panel.page.locator("p"))
    return rows.last


def customise(row: Locator) -> None:
    """Press `Default`, so that the control appears."""
    button = row.get_by_role("button", name="Default", exact=True)
    if button.count():
        button.click()
    row.get_by_role("button", name="Custom", exact=True).wait_for()
