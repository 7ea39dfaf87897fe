"""Each tensor argument of a function alone may be on a level: of a derivative, or of `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import IntTensor, Tensor, cross_entropy, fft, func, gradient, linalg, nll_loss, stack
from burnpy.backend import NumPy
from burnpy.nn import functional
from burnpy.tensor.tensor_base import TensorBase
from tests.rows import every_row

RNG = np.random.default_rng(0)


def t(*shape: int) -> Any:
    return Tensor[NumPy].from_data(RNG.uniform(0.2, 1.0, shape), dtype="float64")


def ints(*values: Any) -> Any:
    return IntTensor[NumPy].from_data(list(values))


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "cross_entropy": (lambda x, y, w: cross_entropy(x, y, weight=w), (t(3, 4), ints(0, 3, 1), t(4))),
    "cross_entropy, unweighted": (cross_entropy, (t(3, 4), ints(0, 3, 1))),
    "nll_loss": (lambda x, y, w: nll_loss(x, y, weight=w), (t(3, 4), ints(0, 3, 1), t(4))),
    "multi_margin_loss": (lambda x, y, w: functional.multi_margin_loss(x, y, weight=w), (t(3, 4), ints(0, 3, 1), t(4))),
    "multilabel_margin_loss": (functional.multilabel_margin_loss, (t(2, 3), ints([1, 0, -1], [2, -1, -1]))),
    "gaussian_nll_loss": (functional.gaussian_nll_loss, (t(3), t(3), t(3))),
    "hinge_embedding_loss": (functional.hinge_embedding_loss, (t(3), ints(1, -1, 1))),
    "cosine_embedding_loss": (functional.cosine_embedding_loss, (t(2, 3), t(2, 3), ints(1, -1))),
    "margin_ranking_loss": (functional.margin_ranking_loss, (t(2), t(2), ints(1, -1))),
    "soft_margin_loss": (functional.soft_margin_loss, (t(2), ints(1, -1))),
    "ctc_loss": (functional.ctc_loss, (t(4, 2, 3).log_softmax(-1), ints([1, 2], [2, 1]), ints(4, 3), ints(2, 1))),
    "embedding_bag": (
        lambda i, w, o, f: functional.embedding_bag(i, w, o, mode="sum", per_sample_weights=f),
        (ints(0, 2, 1, 1), t(3, 2), ints(0, 0), t(4)),
    ),
    "stft": (lambda x, w: fft.stft(x, 4, window=w), (t(12), t(4))),
    "istft": (lambda x, y, w: fft.istft(burnpy.complex(x, y), 4, window=w), (t(3, 5), t(3, 5), t(4))),
    "gradient": (
        lambda x, a, b: gradient(x, spacing=(a, b)),
        (t(3, 4), t(3).cumsum(0), t(4).cumsum(0)),
    ),
    "lu_solve": (linalg.lu_solve, (*linalg.lu_factor(t(3, 3)), t(3, 2))),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[:2], (t(4, 2), t(4, 2))),
    "bincount": (lambda x, w: x.bincount(w, minlength=5), (ints(1, 3, 1), t(3))),
    "quantize": (lambda x: functional.quantize(x)[0], (t(4, 3),)),
    "at": (lambda x, i, v: x.at[i].set(v), (t(4), ints(2, 0), t(2))),
    "at, of a scalar": (lambda x, i: x.at[i].set(0.0), (t(4), ints(2)[0])),
    "at, among others": (lambda x, i, v: x.at[1:, i].add(v), (t(3, 4), ints(2, 0), t(2, 2))),
    "x[i]": (lambda x, i: x[i], (t(4, 2), ints(2, 0))),
}


def flat(out: Any) -> list[Any]:
    if isinstance(out, TensorBase):
        return [out]
    return flat((out.real, out.imag)) if isinstance(out, burnpy.ComplexTensor) else [x for y in out for x in flat(y)]


@every_row("name", CALLS)
def test_alone(name: str) -> None:
    """The derivatives with respect to an argument, and a batch of it, are those of all arguments on the level."""
    f, args = CALLS[name]
    for k, x in enumerate(args):
        others = [a for n, a in enumerate(args) if n != k]

        def call(x: Any, k: int = k, others: list[Any] = others) -> list[Any]:
            return flat(f(*others[:k], x, *others[k:]))

        different = x.flip(-1) if x.shape else x
        both = func.vmap(call)(stack([x, different]))
        for got, *each in zip(both, call(x), call(different), strict=True):
            np.testing.assert_allclose(got.to_numpy(), np.stack([e.to_numpy() for e in each]), rtol=1e-9, err_msg=name)
        if x.kind != "float":
            continue

        def floats(x: Any, call: Callable[..., list[Any]] = call) -> list[Any]:
            return [y for y in call(x) if y.kind == "float"]

        if not floats(x):
            continue
        step = t(*x.shape) * 1e-6
        for got, plus, minus in zip(func.jvp(floats, x, step)[1], floats(x + step), floats(x - step), strict=True):
            np.testing.assert_allclose(
                got.to_numpy(), (plus - minus).to_numpy() / 2, rtol=1e-4, atol=1e-12, err_msg=f"{name}, argument {k}"
            )
        out, pull = func.vjp(floats, x)
        seeds = [t(*y.shape) for y in out]
        (pulled,) = pull(seeds)
        pushed = func.jvp(floats, x, step)[1]
        along = sum([(a * b).sum().item() for a, b in zip(pushed, seeds, strict=True)])
        assert (pulled * step).sum().item() == pytest.approx(along, rel=1e-6, abs=1e-14), name
