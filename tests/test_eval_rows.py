"""Files of cases: what cannot be read is named with its line."""

from __future__ import annotations

import pytest

from lessons_loop.eval.rows import BadFile, read_rows


def label_of(row):
    """Read a record of one field."""
    if not row["label"]:
        raise ValueError("label is empty")
    return row["label"]


def test_blank_lines_are_no_records(tmp_path):
    file = tmp_path / "cases.jsonl"
    file.write_text('{"label": "a"}\n\n  \n{"label": "b"}\n', "utf-8")
    assert read_rows(file, label_of) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("# Title", "line 2 is no JSON: "),
        ("[1, 2]", "line 2 is no JSON object"),
        ('"text"', "line 2 is no JSON object"),
        ('{"name": "x"}', "line 2 has no field 'label'"),
        ('{"label": ""}', "line 2: label is empty"),
    ],
)
def test_first_bad_line_is_named(tmp_path, line, told):
    file = tmp_path / "cases.jsonl"
    file.write_text(f'{{"label": "a"}}\n{line}\n', "utf-8")
    with pytest.raises(BadFile) as caught:
        read_rows(file, label_of)
    assert told in str(caught.value) and "\n" not in str(caught.value)
