"""Every part of `make bench` runs and says what it should; figures themselves are no tests."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console

from lessons_loop.deploy.bench.eval import eval_figures
from lessons_loop.deploy.bench.eval_practice import practice_figures
from lessons_loop.deploy.bench.figures import Figure, ratios, spread
from lessons_loop.deploy.bench.gate import gate_figures
from lessons_loop.deploy.bench.kill import KINDS, kill_figures
from lessons_loop.deploy.bench.local import load_figures, outlet_figures, stall_figures
from lessons_loop.deploy.bench.prefix import (
    BenchChat,
    Sent,
    bench_chats,
    common_start,
    coverage,
    prefix_figures,
    repeated,
    share,
)
from lessons_loop.deploy.bench.recall import recall_figures
from lessons_loop.deploy.bench.status import status_figures
from lessons_loop.deploy.bench.table import PARTS, as_json, as_table, noise, parts
from support.gate import HashEmbedder

CHAT = BenchChat(
    name="hours",
    kind="stays",
    tools=True,
    turns=(
        "How many operating hours did machine SN-004711 run over the last 12 months?",
        "And which work orders of that machine are open?",
        "Great, thank you.",
    ),
)


def named(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def test_recall_stands_beside_numpy_and_chroma():
    found = named(recall_figures((60,), runs=4))
    inlet, numpy = found["inlet, 60 lessons"], found["  bare numpy product"]
    assert inlet.runs == numpy.runs == found["  plain Chroma query"].runs == 4
    assert found["  inlet / numpy"].median > 0 and found["  inlet / Chroma"].unit == "times"


def test_local_parts_run_in_small():
    figures = [*outlet_figures(2), *load_figures(40, 1), *stall_figures(40, 1)]
    assert all(figure.low <= figure.median <= figure.high for figure in figures)
    assert {figure.unit for figure in figures} == {"ms", "MB"}


def test_status_is_measured_on_both_stores() -> None:
    figures = status_figures(lessons=40, lines=60, runs=1)
    assert [figure.name.rpartition(" ")[2] for figure in figures] == ["folder", "server"]
    assert all(figure.low > 0 and figure.unit == "s" for figure in figures)


def test_gate_is_measured_in_small() -> None:
    found = named(gate_figures(part=200))
    run = found["--auto, 50 candidates, 50 curated"]
    assert run.low > 0 and run.unit == "s" and run.limit == "120 s at most"
    assert found["--auto, 50 candidates, 50 curated: peak memory"].unit == "MB"


def test_chance_coverage_and_power_are_measured() -> None:
    found = named(eval_figures(4, 4))
    assert found["A/A, errors 20%: neither"].limit == ">= 93 of 100"
    assert all(0 <= figure.low <= 100 for figure in found.values()) and len(found) == 6


def test_whole_evaluations_are_measured_in_small() -> None:
    found = practice_figures((0.2,), runs=1, pool=2, repetitions=2, most=12)
    assert [figure.limit for figure in found][:3] == [">= 25 points", "< 0.01", "0"]
    assert found[0].low <= found[0].median <= found[0].high and len(found) == 5


@pytest.mark.timeout(900)  # runs and runs again, each as slow as the machine
def test_kills_are_counted_per_kind() -> None:
    figures = kill_figures(1)
    assert [figure.name.partition(":")[0] for figure in figures] == list(KINDS)
    assert [figure.median for figure in figures] == [0.0] * len(KINDS)


def test_prefix_without_lessons_is_whole_and_with_lessons_below():
    found = named(prefix_figures([CHAT], HashEmbedder(384)))
    assert found["  without lessons"].low == 100.0
    assert 0 < found["  all bytes, of that without"].median <= 100.0
    assert 0 <= found["  turns with the best lesson shown"].median <= 100.0


def test_prefix_share_is_what_the_next_request_repeats():
    sent = Sent(CHAT, [b"abcd", b"abXdef", b"abXdefgh"])
    assert repeated(sent.requests) == (8, 10)
    assert share([sent]) == 80.0


def test_best_lesson_is_counted_over_the_turns_that_have_one():
    given = [Sent(CHAT, [b"a"], [True, False]), Sent(CHAT, [b"a"], [True, True]), Sent(CHAT, [])]
    (figure,) = coverage(given)
    assert (figure.median, figure.runs) == (75.0, 4)
    assert coverage([Sent(CHAT, [b"a"])]) == []


@pytest.mark.parametrize(
    ("one", "other", "common"), [(b"", b"a", 0), (b"ab", b"abc", 2), (b"xb", b"ab", 0)]
)
def test_common_start_is_counted_in_bytes(one, other, common):
    assert common_start(one, other) == common_start(other, one) == common


def test_shipped_chats_have_ten_turns_each():
    chats = bench_chats()
    assert {len(chat.turns) for chat in chats} == {10}
    assert {chat.kind for chat in chats} == {"stays", "moves on", "wanders"}
    assert {chat.tools for chat in chats} == {True, False}


def test_table_fits_eighty_columns():
    figures = [
        noise("first", 20),
        spread("prefix kept, subject wanders: per chat", [99.9, 100.0], ">= 95", "%"),
        ratios("inlet / Chroma", [12345.0], [0.001], "p50 <= 3, p99 <= 15"),
    ]
    paper = io.StringIO()
    Console(width=80, file=paper).print(as_table(figures))
    lines = paper.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and any("12,345,000" in line for line in lines)


def test_json_names_the_machine_and_every_figure():
    content = json.loads(as_json([noise("first", 20)]))
    assert set(content["host"]) == {"python", "cpu", "cores", "gigabytes", "load"}
    assert content["figures"][0]["unit"] == "ms" and content["figures"][0]["runs"] == 20


def test_parts_can_be_measured_alone():
    assert [part.part for part in parts(quick=True, large=False, only="prefix")] == ["prefix"]
    assert {part.part for part in parts(quick=False, large=True, only="")} == {*PARTS}


def test_unknown_part_is_a_usage_error():
    command = [sys.executable, "-m", "lessons_loop.deploy.bench", "--only", "everything"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
