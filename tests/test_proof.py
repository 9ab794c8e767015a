from __future__ import annotations

import pytest

from lessons_loop.filter.proof import DOCUMENT_TOOLS, Proofs
from lessons_loop.filter.transcript import Turn
from support.exchanges import assistant, tool, turns, user


def test_good_result_proves() -> None:
    proofs = Proofs(turns(user("q"), *tool("run_sql", "118 rows", sql="SELECT 1")))
    assert proofs.results == {2}


@pytest.mark.parametrize("result", ["", "[]", "0 rows", "Error: no", '{"error": "x"}'])
def test_bad_or_empty_result_proves_nothing(result: str) -> None:
    assert not Proofs(turns(user("q"), *tool("run_sql", result, sql="SELECT 1"))).results


def test_echo_proves_nothing() -> None:  # T-23
    assert not Proofs(turns(user("run"), *tool("shell", "hello", cmd="echo hello"))).results


@pytest.mark.parametrize("name", sorted(DOCUMENT_TOOLS - {"document"}))
def test_retrieved_text_proves_nothing(name: str) -> None:  # T-49
    assert not Proofs(turns(user("q"), *tool(name, "a page", url="u"))).results


def test_changed_call_is_a_fix() -> None:
    failed = tool("run_sql", "Error: no column a", sql="SELECT a")
    proofs = Proofs(turns(user("q"), *failed, *tool("run_sql", "3 rows", sql="SELECT b")))
    assert proofs.fixes == {4}


@pytest.mark.parametrize("again", ["SELECT a", "SELECT   a ", "SELECT a;", "SELECT\n a"])
def test_same_call_again_is_transient(again: str) -> None:
    failed = tool("run_sql", "database is locked", sql="SELECT a")
    proofs = Proofs(turns(user("q"), *failed, *tool("run_sql", "3 rows", sql=again)))
    assert not proofs.results
    assert proofs.retried == {4}


@pytest.mark.parametrize("again", ["sleep 10; curl -s x", "sleep 2m && curl -s x"])
def test_waiting_first_is_no_change(again: str) -> None:
    failed = tool("shell", "curl: (6) Could not resolve host: x", cmd="curl -s x")
    assert not Proofs(turns(user("q"), *failed, *tool("shell", "14 objects", cmd=again))).results


def test_retry_counter_is_no_change() -> None:
    failed = tool("get", "HTTP 503", path="a", attempt=1)
    assert not Proofs(turns(user("q"), *failed, *tool("get", "ok!", path="a", attempt=2))).results


def test_waiting_in_between_cures_nothing() -> None:
    failed = tool("get", "HTTP 503", path="a")
    wait = tool("shell", "done", cmd="sleep 5")
    proofs = Proofs(turns(user("q"), *failed, *wait, *tool("get", "fine", path="a")))
    assert 6 not in proofs.results


def test_repair_in_between_cures() -> None:
    failed = tool("run_sql", "Error: function similarity does not exist", sql="SELECT a")
    repair = tool("run_sql", "CREATE EXTENSION", sql="CREATE EXTENSION pg_trgm")
    proofs = Proofs(turns(user("q"), *failed, *repair, *tool("run_sql", "3 rows", sql="SELECT a")))
    assert 6 in proofs.results


def test_correction_voids_what_was_before() -> None:
    first = tool("run_sql", "41 rows", sql="SELECT a")
    talk = (user("q"), *first, assistant("41"), user("no, that is wrong"))
    assert not Proofs(turns(*talk)).results
    second = tool("run_sql", "38 rows", sql="SELECT b")
    assert Proofs(turns(*talk, *second)).results == {6}


def test_first_question_corrects_nothing() -> None:
    proofs = Proofs(turns(user("this is wrong, why?"), *tool("run_sql", "3 rows", sql="SELECT 1")))
    assert not proofs.corrections
    assert proofs.results


def test_parallel_calls_pair_by_id() -> None:
    one, other = Turn("call", "a", "t", "1"), Turn("call", "b", "t", "2")
    results = Turn("result", "B", "t", "2"), Turn("result", "A", "t", "1")
    assert Proofs((one, other, *results)).calls == {2: 1, 3: 0}


def test_results_without_id_pair_in_order() -> None:
    calls = Turn("call", "a", "t"), Turn("call", "b", "t")
    assert Proofs((*calls, Turn("result", "A"), Turn("result", "B"))).calls == {2: 0, 3: 1}


def test_status_of_a_statement_is_no_echo() -> None:
    index = tool("run_sql", "CREATE INDEX", sql="CREATE INDEX i ON orders(customer_id)")
    assert Proofs(turns(user("q"), *index)).results


@pytest.mark.parametrize(("remark", "proven"), [("works now, thanks", True), ("hm", False)])
def test_silence_after_a_failure_counts_once_confirmed(remark: str, proven: bool) -> None:
    failed = tool("shell", "Error: no such option", cmd="mount -x /data")
    silent = tool("shell", "", cmd="mount -o rw /data")
    talk = turns(user("q"), *failed, *silent, assistant("mounted"), user(remark))
    assert bool(Proofs(talk).fixes) is proven


@pytest.mark.parametrize(
    ("last", "settled"),
    [
        ("I will ask the marketing team about it", False),
        ("ok that is it", True),
        ("hm", True),
    ],
)
def test_who_corrected_once_has_to_agree_in_the_end(last: str, settled: bool) -> None:
    first = (user("how many?"), *tool("sql", "41 rows", q="a"), assistant("41"))
    again = (user("that is wrong"), *tool("sql", "43 rows", q="b"), assistant("43"))
    assert bool(Proofs(turns(*first, *again, user(last))).results) == settled
    assert Proofs(turns(*first, user(last))).results
