"""Attention: causal masking with different numbers of queries and keys, and a cache of keys."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, Tensor, cat
from burnpy.backend import NumPy, errors
from burnpy.nn import MultiHeadAttention
from burnpy.nn.functional import scaled_dot_product_attention

Train = Autodiff[NumPy]


def drawn(rng: np.random.Generator, *shape: int) -> Tensor[Any]:
    return Tensor[Train].from_data(rng.normal(size=shape))


@pytest.mark.parametrize("seed", range(int(os.environ.get("BURNPY_LONG_TESTS", "5"))))
def test_a_text_read_in_parts_with_a_cache_is_attended_to_as_a_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(2, 9))
    q, k, v = (drawn(rng, 2, length, 3).require_grad() for _ in range(3))
    mask = [None, BoolTensor[Train].from_data(rng.uniform(size=(length, length)) > 0.3), drawn(rng, length, length)]
    chosen: Any = mask[seed % 3]
    whole = scaled_dot_product_attention(q, k, v, chosen, causal=True)
    cuts = sorted({0, length, *map(int, rng.integers(1, length, 2))})
    parts = [
        scaled_dot_product_attention(
            q[:, start:stop],
            k[:, :stop],
            v[:, :stop],
            None if chosen is None else chosen[start:stop, :stop],
            causal=True,
            offset=start,
        )
        for start, stop in pairwise(cuts)
    ]
    together = cat(parts, 1)
    np.testing.assert_allclose(together.to_numpy(), whole.to_numpy(), rtol=1e-10, atol=1e-12)
    seen = drawn(rng, *whole.shape)
    one, other = (whole * seen).sum().backward(), (together * seen).sum().backward()
    for x in (q, k, v):
        np.testing.assert_allclose(one[x].to_numpy(), other[x].to_numpy(), rtol=1e-9, atol=1e-12)


def test_a_layer_reads_the_last_word_with_a_cache() -> None:
    layer = MultiHeadAttention(6, 2, device=Train).astype("float64")
    words = drawn(np.random.default_rng(0), 2, 5, 6)
    whole = layer(words, causal=True).to_numpy()
    last = layer(words[:, 4:], words, causal=True, offset=4).to_numpy()
    np.testing.assert_allclose(last, whole[:, 4:], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (4, 5), (0, 1)])
def test_fewer_queries_than_keys_must_say_where_they_stand(queries: int, keys: int) -> None:
    q, k = Tensor[Train].ones((2, queries, 4)), Tensor[Train].ones((2, keys, 4))
    plural = "query" if queries == 1 else "queries"
    message = (
        rf"causal=True with {queries} {plural} and {keys} keys?, .* pass offset={keys - queries} for the last positions"
    )
    with pytest.raises(errors.ArgumentError, match=message):
        scaled_dot_product_attention(q, k, k, causal=True)
    with pytest.raises(errors.ArgumentError, match=message):
        MultiHeadAttention(4, 2, device=Train)(q, k, causal=True)


def test_more_queries_than_keys_stand_at_the_first_places_and_after() -> None:
    q, v = Tensor[Train].zeros((3, 1)), Tensor[Train].from_data([[1.0], [3.0]])
    assert scaled_dot_product_attention(q, v, v, causal=True).tolist() == [[1.0], [2.0], [2.0]]
    assert scaled_dot_product_attention(q, v, v, causal=True, offset=-1).tolist() == [[0.0], [1.0], [2.0]]


def test_where_queries_stand_is_an_int_and_of_what_is_causal() -> None:
    x = Tensor[Train].ones((2, 3))
    wrong: Any = 1.5
    with pytest.raises(errors.ArgumentError, match=r"got offset=1\.5; expected an int"):
        scaled_dot_product_attention(x, x, x, causal=True, offset=wrong)
    with pytest.raises(errors.ArgumentError, match="got offset=1 without causal=True"):
        scaled_dot_product_attention(x, x, x, offset=1)
