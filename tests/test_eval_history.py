"""A domain's history of evaluations: every line kept, torn ones told, shown in 80 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lessons_loop.eval.runs.history import (
    HistoryLine,
    append_history,
    domains_with_history,
    history_file,
    read_history,
)
from lessons_loop.eval.stats.arm_figures import ArmFigures
from lessons_loop.filter.errors import StoreError
from support.commands import run_here

OFF = ArmFigures(passed=9, judged=30, rate=0.3, low=0.2, high=0.4)
ON = ArmFigures(passed=27, judged=30, rate=0.9, low=0.8, high=0.95)
BASELINE = HistoryLine(
    at="2026-11-28T08:00:00Z",
    kind="baseline",
    domain="sql",
    model="example-model",
    arms={"off": OFF},
)
AFTER = HistoryLine(
    at="2026-11-29T08:00:00Z", kind="after", domain="sql", model="example-model", lessons=12,
    arms={"off": OFF, "on": ON}, verdict="helps", lift=0.6, low=0.45, high=0.72, p=0.0001,
)  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with two evaluations of one domain."""
    append_history(tmp_path, BASELINE)
    append_history(tmp_path, AFTER)
    return tmp_path


def shown(state: Path, *more: str) -> str:
    done = run_here("eval", "history", "--state-dir", str(state), *more)
    assert (done.code, done.err) == (0, "")
    return done.out


def test_lines_come_back_in_order(state: Path) -> None:
    assert read_history(state, "sql") == [BASELINE, AFTER]
    assert domains_with_history(state) == ["sql"]


def test_one_run_told_twice_is_one_line(state: Path) -> None:
    append_history(state, AFTER)
    assert len(read_history(state, "sql")) == 2


@pytest.mark.parametrize("torn", [b'{"at": "2026', b"\xff\xfe", b"[]", b'{"at": 1}'])
def test_torn_line_costs_only_itself(state: Path, torn: bytes) -> None:
    with history_file(state, "sql").open("ab") as file:
        file.write(torn)
    later = AFTER.model_copy(update={"at": "2026-11-30T08:00:00Z"})
    append_history(state, later)
    found = read_history(state, "sql")
    assert found == [BASELINE, AFTER, later] and found.unreadable == 1
    assert "1 lines cannot be read" in shown(state)


def test_line_of_a_later_version_is_read(state: Path) -> None:
    with history_file(state, "sql").open("a") as file:
        file.write(json.dumps(AFTER.model_dump() | {"new": 1, "at": "2027"}) + "\n")
    assert read_history(state, "sql")[-1].at == "2027"


def test_file_is_its_owners(state: Path) -> None:
    assert history_file(state, "sql").stat().st_mode & 0o077 == 0
    assert (state / "eval").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("domain", ["../x", "", "A B"])
def test_no_domain_leads_out_of_the_folder(state: Path, domain: str) -> None:
    with pytest.raises(StoreError):
        append_history(state, AFTER.model_copy(update={"domain": domain}))


def test_table_tells_rates_lift_and_verdict(state: Path) -> None:
    out = shown(state)
    assert "+60 [+45,+72]" in out and "helps" in out and "baseline" in out
    assert out.splitlines()[0] == "sql  ▃▇"
    assert max(map(len, out.splitlines())) <= 80


def test_stand_in_is_marked(state: Path) -> None:
    append_history(state, AFTER.model_copy(update={"stand_in": True, "at": "2026-11-30"}))
    assert "* a script stood in for the model" in shown(state)


def test_json_has_every_line(state: Path) -> None:
    found = json.loads(shown(state, "--json"))
    assert [one["kind"] for one in found["domains"]["sql"]["runs"]] == ["baseline", "after"]


def test_nothing_evaluated_is_told(tmp_path: Path) -> None:
    assert "nothing was evaluated yet" in shown(tmp_path)
    assert "nothing was evaluated yet" in shown(tmp_path, "--domain", "other")
