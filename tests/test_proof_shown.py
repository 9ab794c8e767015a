from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.deploy.report.data import read_report
from lessons_loop.deploy.report.page import render_page
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.proof.lesson_proof import LessonProof
from lessons_loop.promote.proof.prove_lesson import store_proofs
from lessons_loop.promote.proof.summary import proof_summary
from support.commands import run_here
from support.gate import HashEmbedder, candidate, curated, flags, gate, located, promotion
from support.judging import OTHER, SOUND

EMBEDDER = HashEmbedder(256)
THIRD = "Sum fuel_litres by month_key."


def proof(verdict: str, at: str = "2099-01-01T00:00:00Z") -> LessonProof:
    rates = {"helps": (0.9, 0.2), "harmful": (0.25, 0.85)}.get(verdict, (0.5, 0.5))
    return LessonProof(
        verdict=verdict,
        questions=12,
        runs=5,
        with_rate=rates[0],
        without_rate=rates[1],
        fixed=8,
        broken=0,
        p=0.008,
        low=0.4,
        high=0.8,
        model="some-model-[bold red]x",
        question_set="0123456789ab",
        at=at,
    )


@pytest.fixture
def measured(root: Path) -> dict[str, str]:
    """Return the keys of three lessons, by verdict; one is not measured."""
    found = {"helps": SOUND, "harmful": OTHER, "": THIRD}
    with gate(root, EMBEDDER) as session:
        for text in found.values():
            session.apply(promotion(session, candidate(text)))
        keys = {verdict: candidate(text).lesson.key for verdict, text in found.items()}
        rows = session.curated
        store_proofs(session, [(rows[keys[w]], proof(w), {}) for w in ("helps", "harmful")])
    return keys


def test_show_tells_numbers_and_date(root: Path, measured: dict[str, str]) -> None:
    done = run_here("show", measured["helps"], *flags(root))
    lines = " ".join(done.out.split())
    assert "measured: helps: 90% with it, 20% without (12 questions, 5 runs; " in lines
    assert "95 % +40 to +80, p 0.008, some-model-[bold red]x, 2099-01-01)" in lines
    assert "measured:" not in run_here("show", measured[""], *flags(root)).out


@pytest.mark.parametrize("more", [[], ["--check"]])
def test_status_counts_verdicts_and_names_harm(
    root: Path, measured: dict[str, str], more: list[str]
) -> None:
    told = run_here("status", *more, *flags(root)).out
    assert "measured: 1 harmful, 1 helps, 1 unmeasured" in told
    assert f"harmful: {measured['harmful'][:12]}, held by the next run" in told


def test_report_lists_what_was_measured(root: Path, measured: dict[str, str]) -> None:
    page = render_page("here", read_report(located(root).state, ["sql"]), utc_now())
    assert "proven to help" in page and "1 harmful, 1 unmeasured" in page
    assert page.index(measured["harmful"][:12]) < page.index(measured["helps"][:12])


def test_nothing_measured_is_nothing_told() -> None:
    rows = [curated(candidate(text).lesson) for text in (SOUND, OTHER)]
    assert proof_summary(rows).told() == "" and proof_summary(rows).harmful == ()


def test_harm_a_person_knows_of_is_counted_and_not_listed() -> None:
    old = proof("harmful", at="2020-01-01T00:00:00Z").model_dump_json()
    found = proof_summary([curated(candidate(SOUND).lesson, proof=old)])
    assert found.counts == {"harmful": 1} and found.harmful == ()


def test_lesson_that_is_another_one_now_is_passed_over(
    root: Path, measured: dict[str, str]
) -> None:
    with gate(root, EMBEDDER) as session:
        gone = curated(candidate("Never there.").lesson)
        other = session.curated[measured["helps"]]
        changed = other.model_copy(
            update={"lesson": other.lesson.model_copy(update={"trigger": "pumps"})}
        )
        assert (
            store_proofs(session, [(gone, proof("helps"), {}), (changed, proof("helps"), {})]) == []
        )
        row = session.curated[measured[""]]
        assert store_proofs(session, [(row, proof("neutral"), {})]) == [measured[""]]
        assert session.ledger.verify() == []
