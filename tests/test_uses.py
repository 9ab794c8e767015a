"""The use register: absolute rows, read back by id and by lesson."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.promote.decay.uses import Use, UseRegister


def use(id_: str = "u1", **fields: object) -> Use:
    return Use.model_validate(
        {"id": id_, "message_ref": "m", "at": "2026-11-01T08:00:00Z", "keys": ("k1",), **fields}
    )


def test_missing_register_is_empty(tmp_path: Path) -> None:
    register = UseRegister(tmp_path, "sql")
    assert list(register.rows()) == []
    assert register.get(["u1"]) == {} == register.of_keys(["k1"])
    assert not register.path.exists()


def test_put_twice_is_one_row(tmp_path: Path) -> None:
    register = UseRegister(tmp_path, "sql")
    register.put([use(), use("u2", keys=("k1", "k2"))])
    register.put([use(rating="down")])
    assert [(row.id, row.rating) for row in register.rows()] == [("u1", "down"), ("u2", "")]
    assert set(register.of_keys(["k2"])) == {"u2"}


def test_new_keys_replace_old_ones(tmp_path: Path) -> None:
    register = UseRegister(tmp_path, "sql")
    register.put([use()])
    register.put([use(keys=("k9",))])
    assert register.of_keys(["k1"]) == {} and set(register.of_keys(["k9"])) == {"u1"}


def test_removed_use_leaves_no_bytes(tmp_path: Path) -> None:
    register = UseRegister(tmp_path, "sql")
    register.put([use(user_ref="somebody-of-old")])
    register.remove(["u1", "never-there"])
    assert list(register.rows()) == []
    assert b"somebody-of-old" not in register.path.read_bytes()


def test_many_ids_are_asked_in_pages(tmp_path: Path) -> None:
    register = UseRegister(tmp_path, "sql")
    register.put(use(f"u{n}", keys=(f"k{n}",)) for n in range(1200))
    assert len(register.get([f"u{n}" for n in range(1200)])) == 1200
    assert len(register.of_keys([f"k{n}" for n in range(0, 1200, 2)])) == 600


def test_damaged_file_is_one_line(tmp_path: Path) -> None:
    register = UseRegister(tmp_path, "sql")
    register.path.parent.mkdir()
    register.path.write_bytes(b"no database" * 100)
    with pytest.raises(StoreDamaged, match="run `lessons repair`"):
        list(register.rows())
    with pytest.raises(StoreDamaged, match="is damaged"):
        register.put([use()])
