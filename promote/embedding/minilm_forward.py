"""BERT's forward pass in numpy, for the shape of MiniLM: token ids to sentence vectors. Pure.

Covered: encoder layers, exact GELU, padding masked out, mean pooling.
Not covered: dropout, training, decoders, other activations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lessons_loop.filter.errors import EmbedError

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Weights = Mapping[str, Floats]
LAYERS, HEADS = 6, 12
EPSILON = np.float32(1e-12)
FAR_BELOW = np.float32(-1e9)
"""Added to the scores of padding: its share becomes 0."""
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Abramowitz and Stegun 7.1.26, highest power first: error below 1.5e-7."""


def read_weights(file: Path) -> dict[str, Floats]:
    """Map the float32 tensors of a safetensors file, without a copy; raise EmbedError.

    The format: 8 bytes length of the header, the header as JSON, the numbers.
    """
    try:
        mapped = np.memmap(file, dtype=np.uint8, mode="r")
        length = int.from_bytes(mapped[:8].tobytes(), "little")
        header = json.loads(mapped[8 : 8 + length].tobytes())
        return {
            name: _tensor(mapped, 8 + length, about)
            for name, about in header.items()
            if name != "__metadata__" and about["dtype"] == "F32"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EmbedError(f"{file} cannot be read as weights: {type(error).__name__}") from None


def _tensor(mapped: npt.NDArray[np.uint8], start: int, about: Mapping[str, list[int]]) -> Floats:
    first, last = about["data_offsets"]
    numbers: Floats = mapped[start + first : start + last].view(np.float32)
    return numbers.reshape(about["shape"])


def sentence_vectors(weights: Weights, ids: Sequence[Sequence[int]]) -> Floats:
    """Return one pooled row for each list of token ids, shape (len(ids), width)."""
    padded, mask = _padded(ids)
    hidden = _embedded(weights, padded)
    bias = np.where(mask, np.float32(0), FAR_BELOW)[:, None, None, :]
    for layer in range(LAYERS):
        hidden = _layer(weights, f"encoder.layer.{layer}.", hidden, bias)
    share = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
    pooled: Floats = np.einsum("nt,ntw->nw", share, hidden)
    return pooled


def _padded(ids: Sequence[Sequence[int]]) -> tuple[Ints, npt.NDArray[np.bool_]]:
    lengths = np.array([len(row) for row in ids])
    mask = np.arange(lengths.max())[None, :] < lengths[:, None]
    padded = np.zeros(mask.shape, dtype=np.int64)
    padded[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in ids])
    return padded, mask


def _embedded(weights: Weights, ids: Ints) -> Floats:
    words = weights["embeddings.word_embeddings.weight"][ids]
    places = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    kind = weights["embeddings.token_type_embeddings.weight"][0]
    return _normed(weights, "embeddings.LayerNorm", words + places + kind)


def _layer(weights: Weights, name: str, hidden: Floats, bias: Floats) -> Floats:
    seen = _linear(weights, f"{name}attention.output.dense", _attended(weights, name, hidden, bias))
    hidden = _normed(weights, f"{name}attention.output.LayerNorm", hidden + seen)
    wide = _gelu(_linear(weights, f"{name}intermediate.dense", hidden))
    return _normed(
        weights,
        f"{name}output.LayerNorm",
        hidden + _linear(weights, f"{name}output.dense", wide),
    )


def _attended(weights: Weights, name: str, hidden: Floats, bias: Floats) -> Floats:
    count, tokens, width = hidden.shape
    size = width // HEADS

    def part(which: str) -> Floats:
        rows = _linear(weights, f"{name}attention.self.{which}", hidden)
        return rows.reshape(count, tokens, HEADS, size).transpose(0, 2, 1, 3)

    scores = part("query") @ part("key").transpose(0, 1, 3, 2)
    shares = _softmax(scores * np.float32(size**-0.5) + bias)
    return (shares @ part("value")).transpose(0, 2, 1, 3).reshape(count, tokens, width)


def _linear(weights: Weights, name: str, rows: Floats) -> Floats:
    flat = rows.reshape(-1, rows.shape[-1]) @ weights[f"{name}.weight"].T
    flat += weights[f"{name}.bias"]
    return flat.reshape(*rows.shape[:-1], -1)


def _normed(weights: Weights, name: str, rows: Floats) -> Floats:
    centred = rows - rows.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + EPSILON)
    normed: Floats = centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normed


def _softmax(scores: Floats) -> Floats:
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def _gelu(rows: Floats) -> Floats:
    gelu: Floats = rows * np.float32(0.5) * (1 + _erf(rows * np.float32(0.5**0.5)))
    return gelu


def _erf(rows: Floats) -> Floats:
    """Return the error function; numpy has none."""
    size = np.abs(rows)
    step = 1 / (1 + np.float32(0.3275911) * size)
    total = np.zeros_like(step)
    for factor in _ERF:
        total = (total + np.float32(factor)) * step
    erf: Floats = np.copysign(1 - total * np.exp(-size * size), rows)
    return erf
