"""The report in a real Chromium: it opens from disk, asks the network for nothing, fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from lessons_loop.deploy.report.data import DomainReport, UseDay, rate_of
from lessons_loop.deploy.report.page import render_page
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.runs.register import Outcomes, RunLine
from lessons_loop.promote.runs.summary import LessonRecord, Summary
from support.browser import PHONE, SCREENSHOTS, WIDE

TEXT = (
    "Bound telemetry_hours by day_key <img src='http://127.0.0.1:9/x' onerror='alert(1)'> always."
)


def example() -> DomainReport:
    """A domain some weeks old."""
    records = [
        LessonRecord(key=f"{n:064x}", text=TEXT, successes=n, failures=9 - n) for n in range(9)
    ]
    runs = [
        RunLine(run=str(n), domain="sql", started=f"2026-10-{n:02}T03:00:00Z", mode="unattended")
        for n in range(1, 30)
    ]
    done = [
        line.model_copy(update={"outcomes": Outcomes(promoted=n % 4, held=n % 3)})
        for n, line in enumerate(runs)
    ]
    days = [UseDay(f"2026-10-{n:02}", n, n // 2, n // 4) for n in range(1, 30)]
    growth = [(f"2026-10-{n:02}", 3 * n) for n in range(1, 30, 3)]
    summary = Summary(domain="sql", curated=84, hits=400, successes=36, failures=45, used=9)
    return DomainReport(summary, growth, done, [rate_of(one) for one in records], 36 / 81, days)


@pytest.fixture(params=[("report-wide", WIDE, "light"), ("report-phone", PHONE, "dark")])
def scene(request: pytest.FixtureRequest) -> Iterator[tuple[str, tuple[int, int], str]]:
    yield request.param


def test_report_opens_and_fits(
    browser: Browser, tmp_path: Path, scene: tuple[str, tuple[int, int], str]
) -> None:
    name, (width, height), scheme = scene
    file = tmp_path / "report.html"
    file.write_text(render_page("./lessons", [example()], utc_now()), "utf-8")
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    try:
        page = context.new_page()
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(file.as_uri())
        assert page.locator("svg").count() == 4 and page.locator("img").count() == 0
        page.get_by_text("Numbers").nth(2).click()
        assert page.locator("td").filter(has_text="telemetry_hours").first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
        assert asked == [file.as_uri()] and said == []
    finally:
        context.close()
