"""A dry run's copy answers as Chroma does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.filter.store import open_embedded
from lessons_loop.promote.store.copied import CopiedClient
from lessons_loop.promote.store.rows import create_cosine, find_collection, read_rows
from lessons_loop.promote.store.staging_made import make_staging
from support.gate import candidate, gate, on_server, promotion, raw_client

IDS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
VALUES = st.one_of(st.integers(-5, 5), st.sampled_from(["x", "y"]), st.just(["t", "u"]))
ROW = st.dictionaries(st.sampled_from(["k", "l", "m"]), VALUES, min_size=1, max_size=3)
CALLS = st.one_of(
    st.tuples(st.just("upsert"), IDS, ROW),
    st.tuples(st.just("update"), IDS, st.one_of(ROW, st.just({"k": None, "l": "kept"}))),
    st.tuples(st.just("delete"), IDS, st.none()),
    st.tuples(st.just("modify"), st.none(), ROW.map(lambda row: {"at": len(row)})),
)
COUNTER = itertools.count()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with closing(open_embedded(tmp_path_factory.mktemp("real"))) as client:  # type: ignore[type-var]
        yield client


def call(collection: Any, verb: str, ids: list[str] | None, content: Any) -> None:
    if verb == "upsert":
        rows = [content] * len(ids or [])
        texts = [f"{id_} {content}" for id_ in ids or []]
        vectors = [[float(len(content)), 1.0]] * len(rows)
        collection.upsert(ids=ids, documents=texts, metadatas=rows, embeddings=vectors)
    elif verb == "update":
        collection.update(ids=ids, metadatas=[content] * len(ids or []))
    elif verb == "delete":
        collection.delete(ids=ids)
    else:
        collection.modify(metadata=content)


def look(client: Any, name: str) -> Any:
    found = find_collection(client, name)
    assert found is not None
    rows = found.get(include=["documents", "metadatas", "embeddings"])
    vectors = [[round(float(number), 4) for number in row] for row in rows["embeddings"]]
    pages = [tuple(page) for page in read_rows(found)]
    part = found.get(ids=["d", "a", "x"], include=[])["ids"]
    order = sorted(zip(rows["ids"], rows["documents"], vectors, strict=True))
    return order, dict(zip(rows["ids"], rows["metadatas"], strict=True)), pages, part, (
        found.metadata, found.count()
    )  # fmt: skip


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(calls=st.lists(CALLS, max_size=8))
def test_any_calls_leave_the_same_rows(real: Any, calls: list[Any]) -> None:
    copy, name = CopiedClient(), f"c-{next(COUNTER)}"
    for client in (real, copy):
        collection = create_cosine(client, name, {"at": 0})
        for verb, ids, content in calls:
            call(collection, verb, ids, content)
    assert look(copy, name) == look(real, name)


def test_names_are_taken_given_and_missed_alike(tmp_path: Path) -> None:
    with closing(open_embedded(tmp_path)) as embedded:  # type: ignore[type-var]
        for client in (embedded, CopiedClient()):
            create_cosine(client, "one").modify(name="two")  # type: ignore[arg-type]
            assert find_collection(client, "one") is None  # type: ignore[arg-type]
            assert [found.name for found in client.list_collections()] == ["two"]
            client.delete_collection("two")
            assert find_collection(client, "two") is None  # type: ignore[arg-type]


@on_server
def test_lost_vectors_are_lost_in_the_copy_too(root: Path) -> None:
    with gate(root) as session:
        session.apply(promotion(session, found := candidate()))
    with raw_client(root, "curated") as client:
        one = client.get_collection("sql-lessons", embedding_function=None)
        one.update(ids=[found.lesson.key], embeddings=[[0.0] * 64])
    with gate(root, dry_run=True) as session:
        assert list(session.curated) == [found.lesson.key]
        with pytest.raises(StoreDamaged, match="has lost vectors"):
            session.nearest_vectors()


def test_staging_is_made_as_in_chroma(real: Any) -> None:
    name, copy = f"made-{next(COUNTER)}", CopiedClient()
    for client in (real, copy):
        make_staging(client, name, {"schema_version": 1})
        make_staging(client, name, None)
    assert look(real, name) == look(copy, name)
