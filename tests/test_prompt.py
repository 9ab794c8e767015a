from __future__ import annotations

import pytest

from lessons_loop.filter.kinds import KIND_MEANINGS, Kind
from lessons_loop.filter.prompt import EXAMPLE_LESSONS, distill_instructions, distill_question


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_is_explained(kind: Kind) -> None:
    assert f"- {kind.value}: {KIND_MEANINGS[kind]}" in distill_instructions(3)


def test_prompt_says_json_and_nothing() -> None:  # T-22
    assert "JSON" in distill_instructions(3)
    assert "NOTHING" in distill_instructions(3)


def test_prompt_names_the_language() -> None:  # T-27
    assert "language the user writes in" in distill_instructions(3)


def test_prompt_states_the_limit() -> None:
    assert "at most 2 lessons" in " ".join(distill_instructions(2).split())
    assert "at most 2 lessons" in " ".join(distill_question("x", 2).split())


def test_examples_come_from_the_prompt() -> None:
    prompt = distill_instructions(3)
    assert all(example in prompt for example in EXAMPLE_LESSONS)
