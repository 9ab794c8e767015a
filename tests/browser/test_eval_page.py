"""An evaluation's page in a real Chromium: from disk, nothing asked for, it fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from lessons_loop.eval.report.comparison import finish_run
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.trials import Trial
from support.browser import SCREENSHOTS
from support.grading import many, run_on_disk

HOSTILE = "<img src='http://127.0.0.1:9/x' onerror='alert(1)'>" + "unbroken" * 40
SCENES = [("eval-wide", (1280, 800), "light"), ("eval-phone", (400, 844), "dark")]


@pytest.fixture(params=SCENES, ids=[name for name, _, _ in SCENES])
def scene(request: pytest.FixtureRequest) -> Iterator[tuple[str, tuple[int, int], str]]:
    yield request.param


def hostile(trial: Trial) -> Trial:
    """Return a trial whose texts try to be markup, and are one long word."""
    answer = trial.answer.model_copy(update={"text": HOSTILE})
    return trial.model_copy(update={"answer": answer, "why": HOSTILE})


def example(place: Path) -> RunFolder:
    """Return a run with flips both ways, controls, a placebo and two equal arms."""
    arms = {"placebo": "--+", "off_again": "---"}
    trials = many(20, off="---", on="+++", **arms) + many(3, start=20, off="+++", on="--+", **arms)
    trials += many(20, start=30, off="+++", on="+++", **arms)
    trials += many(6, start=60, control=True, off="+++", on="+++", **arms)
    counted = {"name": "sql", "digest": "ab" * 32, "count": 49, "controls": 6, "topics": 14}
    names = ["off", "on", "placebo", "off-again"]
    return run_on_disk(place, [hostile(one) for one in trials], questions=counted, arms=names)


def test_page_opens_and_fits(
    browser: Browser, tmp_path: Path, scene: tuple[str, tuple[int, int], str]
) -> None:
    name, (width, height), scheme = scene
    folder = example(tmp_path / "run")
    finish_run(folder)
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    try:
        page = context.new_page()
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(folder.report_html.as_uri())
        assert page.get_by_text("Lessons help").first.is_visible()
        assert page.locator("svg").count() >= 2 and page.locator("img").count() == 0
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for fold in page.locator("details").all():
            fold.evaluate("fold => fold.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert asked == [folder.report_html.as_uri()] and said == []
    finally:
        context.close()
