from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lessons_loop.filter.embed import Purpose, Vectors
from lessons_loop.filter.errors import EmbeddingMismatch, EmbedError, StoreDamaged, StoreError
from lessons_loop.filter.store import StorePaths, open_embedded
from lessons_loop.promote.errors import LockHeld
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.store.rebuild import estimate, re_embed, re_embed_domain
from support.commands import parse
from support.gate import (
    HashEmbedder,
    bare,
    candidate,
    curated,
    gate,
    lesson,
    on_folder,
    promotion,
    raw_client,
    retirement,
    settings,
    shown,
)


def filled(root: Path, embedder: HashEmbedder | None = None) -> str:
    found = candidate()
    with gate(root, embedder) as session:
        session.apply(promotion(session, found))
        session.apply(promotion(session, other := candidate("Bound every read.", message="m2")))
        session.apply(retirement(session, other.lesson.key))
    return found.lesson.key


@pytest.mark.parametrize(
    "other",
    [
        HashEmbedder(32, "small"),
        HashEmbedder(64, "twin", salt="x"),
        HashEmbedder(64, "prefixed", ("q: ", "d: ")),
    ],
)
def test_other_model_is_refused_with_both_names(root: Path, other: HashEmbedder) -> None:  # T-07
    filled(root)
    expected = rf"hash-64 \(64 .*{other.name} \({other.dimension} .*`lessons reembed --domain sql`"
    with pytest.raises(EmbeddingMismatch, match=expected), gate(root, other):
        pass
    with gate(root) as session:
        assert len(session.curated) == 1


def test_same_model_under_another_name_is_welcome(root: Path) -> None:
    filled(root)
    with gate(root, HashEmbedder(64, "renamed")) as session:
        session.apply(promotion(session, candidate("Use a limit.", message="m3")))


def test_re_embedding_keeps_all_but_vectors(root: Path) -> None:  # T-07
    key, new = filled(root), HashEmbedder(32, "new")
    with gate(root) as session:
        before, archive = dict(session.curated), dict(session.archive)
    assert re_embed_domain(settings(root, new)) == 1
    with gate(root, new) as session:
        assert (dict(session.curated), dict(session.archive)) == (before, archive)
        keys, vectors = session.nearest_vectors()
        expected = new.embed([before[key].lesson.embedded_text], Purpose.DOCUMENT)
        assert keys == (key,)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        ids, rows = session.archive_vectors()
        assert ids == tuple(archive)
        texts = [row.lesson.embedded_text for row in archive.values()]
        np.testing.assert_allclose(rows, new.embed(texts, Purpose.DOCUMENT), atol=1e-6)
        assert session.ledger.verify() == []
        session.apply(promotion(session, candidate("Use a limit.", message="m3")))
    published = shown(root)
    assert published is not None and published.header.dimension == 32


def test_other_model_cannot_promote_before_re_embedding(root: Path) -> None:
    filled(root)
    chosen = settings(root, HashEmbedder(64, "twin", salt="x"))
    with open_gate(chosen, re_embedding=True) as session, pytest.raises(EmbeddingMismatch):
        session.apply(promotion(session, candidate("Use a limit.", message="m3")))


def test_failing_embedder_leaves_everything(root: Path) -> None:
    class Dying(HashEmbedder):
        def embed(self, texts: object, purpose: object) -> object:  # type: ignore[override]
            if len(list(texts)) != 8:  # type: ignore[call-overload]
                raise EmbedError("endpoint died")
            return super().embed(texts, purpose)  # type: ignore[arg-type]

    key = filled(root)
    with pytest.raises(EmbedError, match="endpoint died"):
        re_embed_domain(settings(root, Dying(32)))
    with gate(root) as session:
        assert list(session.curated) == [key]
        assert session.nearest_vectors()[1].shape == (1, 64)


def test_without_embedder_re_embedding_says_what_to_set(root: Path) -> None:
    with (
        open_gate(bare(root)) as session,
        pytest.raises(EmbedError, match="set LESSONS_EMBEDDING"),
    ):
        re_embed(session)


@on_folder
def test_lost_vectors_are_told_and_rebuilt(root: Path) -> None:
    key = filled(root)
    lose_index(StorePaths(root))
    with (
        pytest.raises(StoreDamaged, match=r"lost vectors.*run `lessons reembed`"),
        gate(root) as s,
    ):
        s.nearest_vectors()
    assert re_embed_domain(settings(root)) == 1
    with gate(root) as session:
        assert session.nearest_vectors()[0] == (key,)


def lose_index(paths: StorePaths) -> None:
    client = open_embedded(paths.gate)
    found = client.get_collection("sql-lessons", embedding_function=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # chromadb's own
        found.modify(configuration={"hnsw": {"sync_threshold": 3}})
    for _ in range(9):  # until the index is on disk and the log purged
        rows = found.get(include=["embeddings"])
        found.update(ids=rows["ids"], embeddings=rows["embeddings"])
    client.close()  # type: ignore[attr-defined]
    for folder in paths.gate.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)


def test_collection_that_compares_by_l2_is_refused(root: Path) -> None:  # T-39
    row = curated(lesson()).to_record()
    with raw_client(root, "curated") as client:
        collection = client.create_collection("sql-lessons", embedding_function=None)
        collection.add(
            ids=[row.id],
            documents=[row.document],
            metadatas=[dict(row.metadata)],
            embeddings=[[1.0, 0.0]],
        )
    expected = "sql-lessons compares by l2, the gate needs cosine: run `lessons reembed"
    with pytest.raises(StoreError, match=expected), gate(root):
        pass
    assert re_embed_domain(settings(root)) == 1
    with gate(root) as session:
        assert [item.key for item in session.curated.values()] == [row.id]


def test_similarities_stay_within_bounds(root: Path) -> None:  # T-39
    filled(root)
    with gate(root) as session:
        vectors = session.nearest_vectors()[1]
        assert np.abs(vectors @ vectors.T).max() <= 1 + 1e-6


class Counting(HashEmbedder):
    """Ends after so many texts."""

    def __init__(self, most: int = 10**6) -> None:
        super().__init__(32, "new")
        self.left = most
        self.texts = 0

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        if self.left < len(texts):
            raise EmbedError("endpoint died")
        self.left -= len(texts)
        self.texts += len(texts) if purpose is Purpose.DOCUMENT else 0
        return super().embed(texts, purpose)


def many(root: Path, count: int) -> None:
    with gate(root) as session, session.batch():
        for number in range(count):
            found = candidate(f"Bound read {number} of table t{number}.", message=f"m{number}")
            session.apply(promotion(session, found))


def test_an_ended_re_embedding_goes_on_where_it_stopped(root: Path) -> None:
    many(root, 100)
    with pytest.raises(EmbedError, match="endpoint died"):
        re_embed_domain(settings(root, Counting(8 + 64)))
    told: list[tuple[str, int, int]] = []
    second = Counting()
    assert re_embed_domain(settings(root, second), report=lambda *what: told.append(what)) == 100
    assert second.texts == 8 + 36 + 8  # fingerprint, the rest, the sample
    assert told[0] == ("embedding", 64, 100) and told[-1] == ("building", 1, 1)
    with gate(root, HashEmbedder(32)) as session:
        keys, vectors = session.nearest_vectors()
        texts = [session.curated[key].lesson.embedded_text for key in keys]
        expected = HashEmbedder(32).embed(texts, Purpose.DOCUMENT)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert not list((root / "state" / "reembed").iterdir())


@on_folder
def test_vectors_of_another_model_are_not_gone_on_with(root: Path) -> None:
    many(root, 70)
    with pytest.raises(EmbedError, match="endpoint died"):
        re_embed_domain(settings(root, Counting(8 + 64)))
    other = HashEmbedder(32, "third", salt="y")
    assert re_embed_domain(settings(root, other)) == 70
    with gate(root, other) as session:
        texts = [session.curated[key].lesson.embedded_text for key in session.curated]
        found = np.stack([session.holdings.vector(key) for key in session.curated])  # type: ignore[arg-type]
        np.testing.assert_allclose(found, other.embed(texts, Purpose.DOCUMENT), atol=1e-6)


@on_folder
def test_a_model_that_wavers_switches_nothing(root: Path) -> None:
    class Wavering(HashEmbedder):
        asked_often = 0

        def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
            self.asked_often += 1
            self.salt = "z" if self.asked_often > 2 else ""
            return super().embed(texts, purpose)

    key = filled(root)
    with pytest.raises(EmbedError, match="answers otherwise than before"):
        re_embed_domain(settings(root, Wavering(32)))
    with gate(root) as session:
        assert session.nearest_vectors()[0] == (key,)


def test_dry_run_says_how_many_and_how_long(root: Path) -> None:
    many(root, 20)
    chosen = settings(root, HashEmbedder(32, "new"), dry_run=True)
    with open_gate(chosen, re_embedding=True) as session:
        found = estimate(session)
    assert (found.lessons, found.archived, found.done) == (20, 0, 0) and found.seconds >= 0
    with gate(root) as session:
        assert session.nearest_vectors()[1].shape == (20, 64)


def test_another_gate_keeps_re_embedding_out(root: Path) -> None:
    with gate(root), pytest.raises(LockHeld):
        re_embed_domain(settings(root, HashEmbedder(32)))


def test_the_old_name_still_works() -> None:
    parse("lessons re-embed --store ./lessons")
