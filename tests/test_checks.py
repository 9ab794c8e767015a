from __future__ import annotations

import threading

import pytest

from lessons_loop.deploy.doctor.findings import (
    Answer,
    Finding,
    Level,
    Probe,
    run_probes,
    unanswered,
)
from lessons_loop.deploy.doctor.render import as_content, finding_lines, render_findings
from lessons_loop.deploy.doctor.store import problem_finding
from lessons_loop.filter.errors import StoreError


def fails(error: Exception) -> None:
    raise error


def test_probes_run_side_by_side() -> None:
    met = threading.Barrier(12)
    probes = [Probe(str(n), lambda: met.wait(100) >= 0, 120.0) for n in range(12)]
    assert set(run_probes(probes).values()) == {Answer(True)}


def test_endless_probe_is_left_behind() -> None:
    told: list[list[str]] = []
    never = threading.Event()
    probes = [Probe("endless", lambda: never.wait(200), 0.5), Probe("quick", lambda: 1, 60.0)]
    answers = run_probes(probes, told.append)
    never.set()
    assert answers["quick"] == Answer(1)
    assert answers["endless"].late and "longer than" in answers["endless"].error
    assert told and told[-1] == ["endless"]
    assert unanswered("x", answers["endless"]).level is Level.NOT_CHECKED


def test_probe_tells_errors_of_ours_only() -> None:
    probes = [
        Probe("ours", lambda: fails(StoreError("the store is gone")), 60.0),
        Probe("foreign", lambda: fails(RuntimeError("obviously-fake-secret")), 60.0),
    ]
    answers = run_probes(probes)
    assert answers["ours"].error == "the store is gone"
    assert answers["foreign"].error == "failed: RuntimeError"


@pytest.mark.parametrize("width", [50, 80, 120])
def test_findings_are_aligned_and_fit(width: int) -> None:
    text = "the store /a/long/folder cannot be read " * 3
    finding = Finding("store", Level.PROBLEM, text, "lessons init --store " + "/x" * 40)
    lines = finding_lines(finding, width)
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("problem      store           the store")
    assert lines[1].startswith(" " * 29)


def test_long_name_is_shown_whole_above_its_text() -> None:
    names = ["gateway-runbook-north", "gateway-runbook-south"]
    shown = [finding_lines(Finding(name, Level.OK, "8 curated"), 80) for name in names]
    assert shown == [[f"ok           {name}", " " * 29 + "8 curated"] for name in names]


def test_edited_ledger_has_a_remedy() -> None:
    finding = problem_finding("ledger: line 3: was edited", {"domains": []})
    assert (finding.check, finding.text) == ("ledger", "line 3: was edited")
    assert "backup" in finding.remedy


def test_report_closes_with_the_counts() -> None:
    levels = [Level.OK, Level.OK, Level.WARNING, Level.NOT_CHECKED]
    shown = render_findings([Finding("a", level, "b") for level in levels])
    assert shown.splitlines()[-1] == "2 ok, 1 warning, 1 not checked"


def test_only_a_problem_is_unhealthy() -> None:
    mild = [Finding("a", level, "b") for level in Level if level is not Level.PROBLEM]
    assert as_content(mild)["healthy"] is True
    assert as_content([*mild, Finding("a", Level.PROBLEM, "b")])["healthy"] is False


def test_report_shows_no_hidden_character() -> None:
    finding = Finding("a", Level.OK, "x\u202ey\x1b[2J", "lessons status\nrm")
    shown = render_findings([finding])
    assert "\u202e" not in shown and "\x1b" not in shown and "<U+202E>" in shown
    assert "lessons status rm" in shown
