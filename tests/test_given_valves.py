from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.webui.given_valves import read_valve, read_valves
from lessons_loop.filter.valves import LessonsValves


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("top_k=3", 3),
        ("recall_enabled=off", False),
        ("distill_model = m=1 ", "m=1"),
        ("min_similarity=0.45", "0.45"),
        ("domains=sql, cooking", "sql, cooking"),
        ("top_k=", None),
    ],
)
def test_valve_has_its_own_type(pair: str, value: object) -> None:
    assert list(read_valves([pair]).values()) == [value]


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("top_k", "no NAME=VALUE"),
        ("topk=3", "no valve 'topk', but top_k"),
        ("top_k=three", "top_k takes a whole number, 0 or more, got 'three'"),
        ("top_k=-3", "top_k takes a whole number, 0 or more"),
        ("debug=maybe", "debug takes true or false"),
        ("min_similarity=0,45", "from 0 to 1"),  # T-10
        ("min_similarity=7", "from 0 to 1"),
        ("domains=SQL; DROP", "is no domain"),
        ("store=lessons", "absolute path"),
        ("store=http://h?tenant=", "no usable tenant"),
        ("store=ftp://h", "no usable address"),
        ("store=http:/h", "no usable address"),
    ],
)
def test_unusable_value_is_refused_with_its_name(pair: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_valves([pair])


def test_options_and_pairs_may_not_contradict() -> None:
    assert read_valves(["store=/a"], store="/a") == {"store": "/a"}
    with pytest.raises(ValueError, match="store is given twice"):
        read_valves(["store=/a"], store="/b")
    assert read_valves([], domain="sql", distill=True) == {
        "domains": "sql",
        "distill_enabled": True,
    }


def test_refused_password_of_an_address_is_not_repeated() -> None:  # T-47
    with pytest.raises(ValueError, match="chroma_token") as error:
        read_valves(["store=http://user:obviously/fake@h"])
    assert "obviously" not in str(error.value)


def test_refused_secret_is_not_repeated() -> None:
    with pytest.raises(ValueError) as error:
        read_valves(["chroma_token=x", "chroma_token=obviously-fake"])
    assert "obviously-fake" not in str(error.value)


@given(st.sampled_from(sorted(LessonsValves.model_fields)), st.text(max_size=30))
def test_whatever_is_accepted_is_what_the_plugin_uses(name: str, text: str) -> None:
    try:
        value = read_valve(name, text)
    except ValueError:
        return
    if value is not None:
        assert getattr(LessonsValves.model_validate({name: value}), name) == value
    if name == "min_similarity" and value is not None:
        assert LessonsValves.model_validate({name: value}).floor() is not None
