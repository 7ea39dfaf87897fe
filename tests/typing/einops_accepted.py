"""Code type checkers must accept of `burnpy.einops`, with the types they must infer. Runs where einops is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import assert_type

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.einops import einsum, pack, rearrange, reduce, repeat, unpack


def inferred() -> None:
    x, i = Tensor[NumPy].ones((2, 3)), IntTensor[NumPy].ones((2, 3))
    on_graph = Tensor[Autodiff[NumPy]].ones((2, 3))
    assert_type(rearrange(x, "a b -> (b a)"), Tensor[NumPy])
    assert_type(rearrange(on_graph, "a (b c) -> a b c", c=3), Tensor[Autodiff[NumPy]])
    assert_type(rearrange([i, i], "n a b -> (n a) b"), IntTensor[NumPy])
    assert_type(reduce(i, "a b -> a", "max"), IntTensor[NumPy])
    assert_type(reduce(i, "a b -> a", "any"), BoolTensor[NumPy])
    assert_type(reduce(on_graph, "a b -> b", lambda x, axes: x.logsumexp(axes)), Tensor[Autodiff[NumPy]])
    assert_type(repeat(i > 0, "a b -> a b c", c=2), BoolTensor[NumPy])
    assert_type(einsum(x, x, "a b, c b -> a c"), Tensor[NumPy])
    assert_type(pack([x, x[0]], "* b"), tuple[Tensor[NumPy], list[tuple[int, ...]]])
    assert_type(unpack(i, [(2,), ()], "a *"), list[IntTensor[NumPy]])


if find_spec("einops") is not None:
    inferred()
