"""What is asked: the last real question, its topic, the telling part of a long paste."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.question import (
    VIEW_LIMIT,
    Question,
    only_thanks,
    read_question,
    since,
    views,
)

PARTS = [
    {"type": "text", "text": "Why is this pipeline red?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def test_text_parts_only_are_asked():  # T-01
    messages = [user("look"), {"role": "assistant", "content": None}, user(PARTS)]
    assert read_question(messages, None).text == "Why is this pipeline red?"


def test_metadata_question_wins_on_continue():
    messages = [user("the question"), assistant("half an ans")]
    asked = {"user_message": {"content": "the question"}}
    assert read_question(messages, asked).text == "the question"


def test_guided_regenerate_asks_the_real_question():
    messages = [user("the question"), assistant("an answer"), user("Make it shorter")]
    found = read_question(messages, {"user_message": {"content": "the question"}})
    assert found == Question("the question")


def test_tool_turns_are_no_context():
    messages = [user("a"), {"role": "tool", "content": "secret rows"}, assistant("b"), user("c")]
    assert read_question(messages, None) == Question("c", ("a", "b"), ("a",))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(JSON | st.fixed_dictionaries({"role": st.just("user"), "content": JSON})), JSON)
def test_no_shape_raises(messages, asked):  # T-01, T-14, T-26
    found = read_question(messages, {"user_message": asked})
    found.text.encode("utf-8")
    views(found)


@pytest.mark.parametrize(
    "messages", [[], [user("")], [user("   ")], [assistant("a")], [user(None)]]
)
def test_empty_question_has_no_view(messages):  # T-04, T-14
    assert views(read_question(messages, None)).texts == ()


def test_follow_up_brings_its_topic():
    messages = [user("operating hours of SN-1?"), assistant("812 hours"), user("and last month?")]
    asked = views(read_question(messages, None))
    alone, own, everything = asked.texts
    assert alone == "and last month?" and own == "operating hours of SN-1?\nand last month?"
    assert everything == "operating hours of SN-1?\n812 hours\nand last month?"
    assert asked.follow_up is not None and asked.follow_up.certain
    assert dict(asked.follow_up.turns) == {alone: 1.0, "operating hours of SN-1?": 0.5}


def test_full_question_stands_alone():
    text = (
        "Which of our machines at the northern site ran for more than two hundred hours in August,"
        " and which of them were in the workshop meanwhile?"
    )
    assert views(Question(text, ("something else entirely",))).texts == (text,)


@pytest.mark.parametrize(
    "text",
    [
        "thanks! something else: write a mail to the caretaker",
        "by the way, when does the canteen open?",
        "Anderes Thema: wer kocht morgen?",
        "autre question : où est la gare ?",
        "换个话题，今天吃什么？",
        "ところで、明日の天気は？",
    ],
)
def test_announced_change_of_topic_stands_alone(text: str) -> None:
    assert views(Question(text, ("hours of SN-1?", "812."), ("hours of SN-1?",))).texts == (text,)


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("and for SN-2?", True),
        ("we use graphql", True),
        ("504", True),
        ("Und für die andere Maschine?", True),
        ("Recommend three board games for a rainy afternoon", False),
        ("Qual capital australiana recomendas visitar?", False),
        ("Please write a short mail to the site manager about it.", True),
        ("They will now ask why I left the last job at the museum", False),
    ],
)
def test_pointing_back_is_told_from_a_full_question(text: str, certain: bool) -> None:
    asked = views(Question(text, ("hours of SN-1?", "812."), ("hours of SN-1?",)))
    assert asked.follow_up is not None and asked.follow_up.certain is certain


def test_announced_change_leaves_the_turns_before_it_out():
    messages = [user("SN-1?"), assistant("812."), user("Other topic: soup?"), assistant("Leeks.")]
    found = read_question([*messages, user("without cream")], None)
    assert found == Question(
        "without cream", ("Other topic: soup?", "Leeks."), ("Other topic: soup?",)
    )


@pytest.mark.parametrize(
    ("first", "earlier"),
    [("soup?", ("soup?", "Leeks.")), ("gone by an edit", ("SN-1?", "812.", "soup?", "Leeks."))],
)
def test_turns_before_another_subject_are_left_out(first: str, earlier: tuple[str, ...]) -> None:
    question = Question("more", ("SN-1?", "812.", "soup?", "Leeks."), ("SN-1?", "soup?"))
    assert since(question, first) == Question("more", earlier, earlier[::2])


def test_thanks_before_a_question_without_spaces_ask() -> None:
    for text in (
        "谢谢。周末想带孩子去公园野餐，带什么吃的好？",
        "谢谢。周末想带孩子去公园野餐和游泳",
    ):
        assert not only_thanks(Question(text, ("SN-1?", "812."), ("SN-1?",)))


def test_characters_count_as_words_without_spaces() -> None:
    long = (
        "请告诉我上个月北部工地所有机器的运行小时数以及其中哪些机器在维修车间停留过超过三天的时间"
        * 2
    )
    assert views(Question(long, ("SN-1?", "812."), ("SN-1?",))).follow_up is None


def test_one_error_in_a_long_log_gets_a_window():
    log = [f"12:00:{i % 60:02d} INFO request {i} served in {i} ms" for i in range(5000)]
    log[3210] = "12:53:30 ERROR pool exhausted: remaining connection slots are reserved"
    found = views(Question("Why?\n" + "\n".join(log))).texts
    assert len(found) <= 6
    assert any("connection slots" in view for view in found)


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.integers(1, 20_000))
def test_views_fit_the_embedder(unit, times):  # T-06
    found = views(Question((unit * times)[:200_000].strip() or "x")).texts
    assert 1 <= len(found) <= 6
    assert all(len(view) <= VIEW_LIMIT for view in found)


@pytest.mark.parametrize("text", ["thanks!", "Perfekt, danke dir", "ok great", "merci", "谢谢"])
def test_thanks_bring_no_topic_back(text: str) -> None:
    assert views(Question(text, ("hours of SN-1?", "812 hours."))).texts == (text,)


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("yes", "Shall I add April?"),
        ("ok, and April?", "812 hours."),
        ("good, the same for SN-2 by month please", "812 hours."),
        ("no, that is wrong", "812 hours."),
    ],
)
def test_what_goes_on_keeps_its_topic(text: str, before: str) -> None:
    assert len(views(Question(text, ("hours of SN-1?", before), ("hours of SN-1?",))).texts) == 3
