"""One place says what LESSONS_EMBEDDING may be, and every form it names is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lessons_loop.promote.embedding import forms as embedding_forms
from lessons_loop.promote.embedding.embedders import parse_embedding

ROOT = Path(__file__).parents[1]
PARTS = ("filter", "promote", "seeds", "eval", "deploy")


@pytest.mark.parametrize("text", [embedding_forms.FORMS, embedding_forms.USUAL])
def test_every_form_named_is_understood(text: str) -> None:
    for form in re.split(r", | or ", text):
        assert parse_embedding(form.replace("URL", "http://127.0.0.1:9/v1"), {}) is not None


def test_commands_to_type_name_such_forms() -> None:
    typed = re.findall(r"export LESSONS_EMBEDDING=(\S+)", embedding_forms.HOW_TO_SET)
    assert typed == re.split(r", | or ", embedding_forms.USUAL)


def test_no_other_place_lists_the_forms() -> None:
    files = [file for part in PARTS for file in (ROOT / part).rglob("*.py")]
    named = [file.stem for file in files if "openai:MODEL" in file.read_text("utf-8")]
    assert sorted(named) == ["embedders", "forms"]  # the first: its own docstring
