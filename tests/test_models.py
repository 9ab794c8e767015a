"""The data model: any valid lesson survives Chroma; what stores refuse is refused early."""

from __future__ import annotations

import tempfile

import chromadb
import pytest
from chromadb.config import Settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.events import Rating, Tally, Usage, is_counted, tally_of
from lessons_loop.filter.kinds import KIND_MEANINGS
from lessons_loop.filter.models import (
    Candidate,
    Curated,
    Evidence,
    EvidenceKind,
    Kind,
    Lesson,
    Record,
    Status,
)
from lessons_loop.filter.spool import Spool, read_spooled, spooled
from lessons_loop.filter.store import StorePaths
from lessons_loop.filter.text import digest

LINE = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\x00\n\r"), min_size=1
).filter(lambda text: bool(text.strip()))
BLOCK = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1)


def line(limit: int) -> st.SearchStrategy[str]:
    return LINE.map(lambda text: text[:limit]).filter(lambda text: bool(text.strip()))


LESSONS = st.builds(
    Lesson,
    domain=st.from_regex(r"[a-z0-9][a-z0-9-]{0,39}", fullmatch=True),
    text=line(400),
    kind=st.sampled_from(Kind),
    trigger=line(160),
    tags=st.lists(line(40), max_size=8).map(tuple),
    status=st.sampled_from(Status),
    source=line(80),
)
QUOTES = st.text("abc xyz 漢字 é🚨", min_size=12, max_size=400).filter(lambda t: bool(t.strip()))
CANDIDATES = st.builds(
    Candidate,
    lesson=LESSONS,
    evidence=st.builds(
        Evidence,
        kind=st.sampled_from(EvidenceKind),
        quote=QUOTES,
        excerpt=BLOCK.map(lambda t: t[:1200]).filter(lambda t: bool(t.strip())),
        tools=st.lists(line(40), max_size=3).map(tuple),
    ),
    message_ref=line(128),
    chat_ref=st.just("chat"),
    user_ref=st.just("user"),
    at=st.just("2026-11-29T00:00:00Z"),
)
COUNT = st.integers(0, 2**53 - 1)
CURATED = st.builds(
    Curated,
    lesson=LESSONS,
    hits=COUNT,
    successes=COUNT,
    failures=COUNT,
    since=st.just("2026-11-29T00:00:00Z"),
    rev=COUNT,
)
USAGES = st.builds(
    Usage,
    keys=st.lists(line(80), max_size=5).map(tuple),
    message_ref=line(128),
    at=st.just("2026-11-29T00:00:00Z"),
)
RATINGS = st.builds(
    Rating,
    keys=st.lists(line(80), max_size=5).map(tuple),
    message_ref=line(128),
    outcome=st.sampled_from(["up", "down", "none"]),
    reason=st.sampled_from(["", "too_verbose"]),
    at=st.just("2026-11-29T00:00:00Z"),
)
TALLIES = st.builds(
    tally_of,
    line(20),
    st.dictionaries(st.sampled_from(["proposed", "skipped:off"]), st.integers(0, 9)),
    st.just("2026-11-29T00:00:00Z"),
)


@pytest.fixture(scope="module")
def collection():
    with tempfile.TemporaryDirectory() as folder:
        client = chromadb.PersistentClient(folder, Settings(anonymized_telemetry=False))
        yield client.create_collection("round-trip", embedding_function=None)
        client.close()


def through_chroma(collection, record: Record) -> Record:
    collection.upsert(
        ids=["one"],
        documents=[record.document],
        metadatas=[dict(record.metadata)],
        embeddings=[[1.0]],
    )
    row = collection.get(ids=["one"], include=["documents", "metadatas"])
    collection.delete(ids=["one"])
    return Record(record.id, row["documents"][0], dict(row["metadatas"][0]))


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        (Candidate, CANDIDATES),
        (Curated, CURATED),
        (Usage, USAGES),
        (Rating, RATINGS),
        (Tally, TALLIES),
    ],
)
def test_any_record_survives_chroma(collection, model, strategy):
    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(strategy)
    def round_trip(value):
        assert model.from_record(through_chroma(collection, value.to_record())) == value

    round_trip()


@settings(deadline=None)
@given(LESSONS, st.sampled_from(["text", "trigger", "source"]), st.sampled_from("\x00\ud800\udfff"))
def test_unstorable_characters_are_refused(lesson, name, bad):  # T-26
    with pytest.raises(InvalidLesson, match=name):
        Lesson.build(**lesson.model_dump() | {name: "a" + bad})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("text", "x" * 401, "400"),
        ("text", " \t", "empty"),
        ("text", "two\nlines", "one line"),
        ("trigger", "x" * 161, "160"),
        ("tags", ("a",) * 9, "8"),
        ("tags", ("x" * 41,), "40"),
        ("kind", "tool-knowledge", "schema-map"),
        ("domain", "sql ", "pattern"),
        ("domain", "经验", "pattern"),
        ("domain", "lessons/prod", "pattern"),
        ("scope", "x", "not permitted"),
    ],
)
def test_bad_field_is_named(name, value, says):
    good = {"domain": "sql", "text": "Use LIMIT.", "kind": "perf-guard", "trigger": "big tables"}
    with pytest.raises(InvalidLesson) as error:
        Lesson.build(**good | {name: value})
    assert name in str(error.value) and says in str(error.value)
    assert "\n" not in str(error.value)


def test_short_quote_is_refused():
    with pytest.raises(InvalidLesson, match="quote"):
        Evidence.build(kind="tool-success", quote="too short", excerpt="too short")


@settings(deadline=None)
@given(LESSONS)
def test_key_ignores_case_and_spacing(lesson):
    spaced = lesson.model_copy(update={"text": f"  {lesson.text} "})
    assert spaced.key == lesson.key
    assert lesson.model_copy(update={"domain": "other-domain-x"}).key != lesson.key


def test_candidate_id_names_its_message():
    lesson = Lesson(domain="sql", text="Use LIMIT.", kind=Kind.PERF_GUARD, trigger="big tables")
    proof = Evidence(kind=EvidenceKind.TOOL_SUCCESS, quote="x" * 12, excerpt="x" * 12)
    one = Candidate(lesson=lesson, evidence=proof, message_ref="m1", at="2026")
    other = one.model_copy(update={"message_ref": "m2"})
    assert one.id != other.id and one.id.startswith(lesson.key)


def test_foreign_row_is_refused():  # T-41
    with pytest.raises(InvalidLesson):
        Candidate.from_record(Record("x", "text", {"kind": "perf-guard"}))


def test_row_with_another_text_is_refused():
    lesson = Lesson(domain="sql", text="Use LIMIT.", kind=Kind.PERF_GUARD, trigger="big tables")
    record = Curated(lesson=lesson, since="2026").to_record()
    with pytest.raises(InvalidLesson, match="id"):
        Curated.from_record(record._replace(document="Use no LIMIT."))


def test_models_are_frozen():
    usage = Usage(keys=("k",), message_ref="m", at="2026")
    with pytest.raises(Exception, match="frozen"):
        usage.at = "2027"


def test_one_event_per_answer_and_user():
    first = Usage(keys=("k",), message_ref="m", user_ref="u", at="2026")
    later = Usage(keys=("l",), message_ref="m", user_ref="u", at="2027")
    rating = Rating(keys=("k",), message_ref="m", user_ref="u", at="2026", outcome="up")
    assert first.id == later.id != rating.id


def test_each_change_of_mind_is_a_row():
    up = Rating(message_ref="m", user_ref="u", at="2026-11-29T00:00:00Z", outcome="up")
    taken_back = up.model_copy(update={"outcome": "none"})
    again = up.model_copy(update={"at": "2026-11-29T00:00:01Z"})
    assert len({up.id, taken_back.id, again.id}) == 3


def test_event_row_of_before_reads():
    meta = {"keys": ["k"], "message_ref": "m", "user_ref": "u", "at": "2026", "outcome": "stop"}
    found = Usage.from_record(Record("x", "used", {**meta, "type": "used"}))
    assert (found.keys, found.tools, found.model, found.chat_ref) == (("k",), "", "", "")


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        (Usage, "tools", "maybe"),
        (Usage, "keys", "one text"),
        (Usage, "type", "rating"),
        (Rating, "outcome", "sideways"),
        (Rating, "reason", "Because the bill of Ms. Example was wrong"),
        (Tally, "counts", ["what a chat said=1"] * 201),
        (Tally, "counts", ["proposed=-1"]),
    ],
)
def test_forged_event_is_refused(model, field, value):  # T-41
    meta = {"message_ref": "m", "at": "2026", "type": model.kind}
    own = {Usage: {"keys": ["k"]}, Rating: {"outcome": "up"}, Tally: {"counts": ["proposed=1"]}}
    sound = meta | own[model]
    assert model.from_record(Record("x", model.kind, sound))
    with pytest.raises(InvalidLesson):
        model.from_record(Record("x", model.kind, sound | {field: value}))


def test_tally_keeps_what_was_counted():
    counts = {"proposed": 3, "skipped:off": 1, "never": 0, "Text of a chat?": 2}
    found = tally_of("instance", counts, "2026")
    assert found.totals() == {"proposed": 3, "skipped:off": 1}


def test_every_kind_is_explained():
    assert set(KIND_MEANINGS) == set(Kind)


@given(st.text(min_size=1, max_size=40))
def test_share_counts_all_none_or_more_with_a_larger_one(message):
    assert is_counted(message, "") and is_counted(message, "100") and not is_counted(message, "0")
    assert is_counted(message, "40") <= is_counted(message, "70%")


def test_share_counts_about_so_many_answers():
    counted = sum(is_counted(digest("message", str(n)), "10") for n in range(20_000))
    assert 1_800 < counted < 2_200


def test_uses_and_their_thumbs_are_sampled_together(tmp_path, monkeypatch):
    spool = Spool(StorePaths(tmp_path / "store"))
    monkeypatch.setenv("LESSONS_USAGE_SHARE", "30%")
    for n in range(40):
        spool.append_usage("sql", Usage(keys=("k",), message_ref=f"m{n}", at="2026"))
        spool.append_rating("sql", Rating(message_ref=f"m{n}", outcome="up", at="2026"))
    kept = [read_spooled(file)[1].metadata for file in spooled(spool.paths.spool)]
    used = {row["message_ref"] for row in kept if row["type"] == "used"}
    assert used == {row["message_ref"] for row in kept if row["type"] == "rating"}
    assert 0 < len(used) < 40


def test_unusable_share_counts_all_and_says_so_once(caplog):
    given_share = "a third"
    assert all(is_counted(f"m{n}", given_share) for n in range(50))
    assert caplog.text.count("is no percentage") == 1 and "a third" in caplog.text
