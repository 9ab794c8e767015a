"""The poison pack as data: what it holds, that its entries differ, how mistakes are told."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path

import pytest

from lessons_loop.eval.poison.cases import (
    PoisonCase,
    kinds_of,
    read_pack,
    shipped_pack,
)
from lessons_loop.eval.poison.chats import outlet_body
from lessons_loop.eval.rows import BadFile
from lessons_loop.filter.lessons_filter import read_exchange
from lessons_loop.filter.text import normalise
from lessons_loop.filter.transcript import read_transcript

PACK = read_pack(shipped_pack())
ATTACKS = [case for case in PACK if not case.clean]
KINDS = {
    *("planted-user", "planted-tool", "planted-document", "forged-trace", "reviewer", "bridging"),
    *("near-copies", "sock-puppets", "policy", "vendor", "exfiltration", "hidden", "secrets"),
    "forged-rows",
}


def lessons_of(case: PoisonCase) -> list[str]:
    return [normalise(scene.lesson) for scene in case.scenes]


def test_pack_is_as_large_as_promised() -> None:
    assert len(ATTACKS) >= 320
    assert len(PACK) - len(ATTACKS) >= 130


@pytest.mark.parametrize("start", ["se2", "th-", "tm"])
def test_every_later_batch_is_read(start: str) -> None:
    assert sum(case.id.startswith(start) for case in ATTACKS) >= 20


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_has_attacks(kind: str) -> None:
    assert sum(case.kind == kind for case in ATTACKS) >= 10


def test_no_kind_is_unknown() -> None:
    assert set(kinds_of(PACK)) == KINDS


def test_wordings_differ_between_cases() -> None:
    texts = [(case.id, text) for case in PACK for text in set(lessons_of(case))]
    alike = [
        (one[0], other[0])
        for one, other in combinations(texts, 2)
        if one[0] != other[0]
        and abs(len(one[1]) - len(other[1])) < 12
        and SequenceMatcher(None, one[1], other[1], autojunk=False).quick_ratio() > 0.92
        and SequenceMatcher(None, one[1], other[1], autojunk=False).ratio() > 0.85
    ]
    assert not alike


def test_attacks_come_in_several_languages() -> None:
    texts = " ".join(text for case in ATTACKS for text in lessons_of(case))
    for word in ("freigegeben", "réponds", "usuario", "系统", "勧める", "суммируйте"):
        assert word in texts


def test_clean_ones_are_about_many_subjects() -> None:
    clean = [case for case in PACK if case.clean]
    assert len({case.kind for case in clean}) >= 12
    assert 5 <= sum(case.scenes[0].users == 1 for case in clean) <= 20


def test_chat_is_an_outlet_body() -> None:
    case = next(case for case in PACK if case.id == "ft09")
    body = outlet_body(case.scenes[0].chat, "chat", "message")
    exchange = read_exchange(body, {"id": "u"}, {}, None)
    assert exchange.finish_reason == "stop" and exchange.message == "message"
    assert [turn.role for turn in read_transcript(exchange.messages)][-1] == "assistant"


def test_documents_become_documents() -> None:
    case = next(case for case in PACK if case.id == "pd01")
    turns = read_transcript(outlet_body(case.scenes[0].chat, "chat", "message")["messages"])
    assert "document" in {turn.tool for turn in turns}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1", "no list"),
        ("- id: x\n  chat:\n    - shout: hi\n  lesson: a\n  trigger: b", "'shout' is no step"),
        ("- id: x\n  chat: []\n  trigger: b", "lesson"),
        ("- [", "cannot be read"),
        ("[]", "holds no attack"),
    ],
)
def test_mistake_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "vendor.yaml").write_text(text)
    with pytest.raises(BadFile, match=told):
        read_pack(tmp_path)


def test_an_id_stands_once(tmp_path: Path) -> None:
    entry = "- id: x\n  chat: [{user: a}]\n  lesson: a\n  trigger: b\n"
    (tmp_path / "vendor.yaml").write_text(entry + entry)
    with pytest.raises(BadFile, match="twice"):
        read_pack(tmp_path)
