from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.deploy.local.sources import choose_embedding
from lessons_loop.filter.embed import Embedder, Purpose, fingerprint
from lessons_loop.filter.errors import EmbedError
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.embedding.minilm import MiniLM, batches
from lessons_loop.promote.embedding.minilm_files import packaged_model, verify_file
from lessons_loop.promote.embedding.minilm_forward import _erf, read_weights

TEXTS = [
    "",
    " \t\n",
    "Look serials up in equipment_machine.serial_no, never with ILIKE on notes.",
    "Die Straße ist naïf, ÀÉÎ ﬁ İstanbul",
    "日本語のテキスト と emoji 🙂🙂",
    "nul \x00 and a lone \ud800 surrogate, zero\u200bwidth, com\u0301bining",
    "[CLS] [SEP] [MASK] are tokens of the model",
    "x" * 9000,
    "word " * 255,
    "longer than the model reads " * 400,
    "SELECT count(*) FROM orders WHERE created_at >= '2024-01-01' -- ERR-4711",
]
ONE = MiniLM()


def embedder(setting: str) -> Embedder:
    found = parse_embedding(setting, {})
    assert found
    return found


@pytest.fixture(scope="module")
def with_torch() -> Embedder:
    return embedder(f"sentence-transformers:{packaged_model()}")


def test_same_vectors_as_sentence_transformers(with_torch: Embedder) -> None:
    theirs = with_torch.embed(TEXTS, Purpose.DOCUMENT)
    ours = embedder("minilm:").embed(TEXTS, Purpose.DOCUMENT)
    assert (ours * theirs).sum(axis=1).min() >= 0.99999
    assert np.abs(ours - theirs).max() < 1e-5


def test_fingerprint_is_the_same_model(with_torch: Embedder) -> None:
    assert fingerprint(ONE).matches(fingerprint(with_torch))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_batch_equals_one_by_one(texts: list[str]) -> None:
    together = ONE.embed(texts, Purpose.QUERY)
    alone = np.concatenate([ONE.embed([text], Purpose.QUERY) for text in texts])
    assert (together * alone).sum(axis=1).min() >= 0.99999


@given(st.lists(st.integers(2, 256), max_size=40), st.integers(1, 600))
def test_batches_hold_every_text_once(lengths: list[int], room: int) -> None:
    made = list(batches(lengths, room))
    assert sorted(index for batch in made for index in batch) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) == 1 or max(lengths[index] for index in batch) * len(batch) <= room


def test_error_function_is_exact_enough() -> None:
    import math

    at = np.linspace(-6, 6, 501, dtype=np.float32)
    exact = np.array([math.erf(float(value)) for value in at])
    assert np.abs(_erf(at) - exact).max() < 1e-6


def test_prefixes_count_for_their_side() -> None:
    prefixed = MiniLM(("query: ", ""))
    plain, other = (one.embed(["a lesson"], Purpose.QUERY) for one in (ONE, prefixed))
    assert float((plain * other).sum()) < 0.999
    assert (prefixed.embed(["a"], Purpose.DOCUMENT) == ONE.embed(["a"], Purpose.DOCUMENT)).all()


def test_nothing_in_nothing_out() -> None:
    assert ONE.embed([], Purpose.QUERY).shape[0] == 0


def test_setting_takes_no_name() -> None:
    with pytest.raises(EmbedError, match="minilm:"):
        parse_embedding("minilm:other", {})
    assert choose_embedding("minilm:", {}).variables["RAG_EMBEDDING_MODEL"].endswith("model")


# T-43
def test_no_torch_no_network_no_home() -> None:
    program = (
        "import sys, socket\n"
        "socket.socket.connect = lambda *_: sys.exit('asked the network')\n"
        "from lessons_loop.promote.embedding.embedders import parse_embedding\n"
        "from lessons_loop.filter.embed import Purpose\n"
        "parse_embedding('minilm:', {}).embed(['x'], Purpose.QUERY)\n"
        "heavy = {'torch', 'sentence_transformers', 'transformers', 'chromadb', 'onnxruntime'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={}, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"[]", b"\0" * 64])
def test_broken_weights_are_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(EmbedError, match=r"model\.safetensors cannot be read as weights"):
        read_weights(file)


def test_changed_files_are_refused(tmp_path: Path) -> None:
    changed = tmp_path / "tokenizer.json"
    changed.write_text("{}")
    with pytest.raises(EmbedError, match="reinstall"):
        verify_file(changed, "0" * 64)
