"""Functions whose transformations once disagreed in the differential machine: they agree, and values are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.backend.operations.resampling import Sampling
from burnpy.func import grad
from burnpy.nn import functional
from burnpy.testing.cases import ROWS
from burnpy.testing.differential import call, check, constant
from tests.rows import every_row


def _ctc(grad: Any) -> Any:
    """Return gradients of sequences; the second one is shorter."""
    _, *rest, blank = next(iter(ROWS["ctc_loss_backward"].examples.values()))
    arrays = [a.array(np.dtype("float64" if k == 0 else "int64"), 1) for k, a in enumerate(rest)]
    return call("ctc_loss_backward", grad, *[constant(a, grad) for a in arrays], blank)


def _ignored(grad: Any) -> Any:
    """Return the gradient of the mean of losses that are all ignored."""
    mask = constant(np.zeros(3, bool), grad)
    return call("masked_mean_backward", grad, mask)


def _resampled(x: Any) -> Any:
    """Return rows that are resampled, without any."""
    return call("resample", x[:0], 1, 5, Sampling("linear", False, 0.5))


AGREE: dict[str, tuple[Callable[..., Any], list[Any], str]] = {
    "a file of topk's values alone": (lambda x: call("topk", x, 0, 1, False)[0], [[3.0, 1.0]], "f of ONNX"),
    "a file of any() over no elements": (lambda x: (x > 0).any(dim=1), [np.zeros((2, 0))], "f of ONNX"),
    "a file of all() over no elements": (lambda x: (x > 0).all(dim=1), [np.zeros((2, 0))], "f of ONNX"),
    "NaN beyond the end of a sequence": (_ctc, [[np.nan, np.nan]], "vmap(f)"),
    "equal bounds that raise": (lambda x, b: call("clamp_between", x, b, b), [[-1.0, 3.0], 2.0], "= differences"),
    "derivatives of erfcx in the tail": (lambda x: call("erfcx", x).square(), [[3.0, 12.0, 40.0]], "float32"),
    "complex numbers of 16-bit floats": (lambda x: call("fft", x, (0,), False, "ortho"), [[-1.0, 2.0]], "float16"),
    "resampling of no elements": (_resampled, [np.zeros((2, 0))], "= differences"),
    "the mean of no elements": (_ignored, [2.0], "grad(f) = differences"),
}


@every_row("name", AGREE)
def test_it_agrees(name: str) -> None:
    f, inputs, only = AGREE[name]
    check(f, inputs, only=only)


def test_a_gradient_is_0_beyond_the_end_of_a_sequence() -> None:
    found = _ctc(Tensor[NumPy].from_data([np.nan, np.nan])).to_numpy()
    _, _, _, steps, *_ = next(iter(ROWS["ctc_loss_backward"].examples.values()))
    for k, count in enumerate(steps.array(np.dtype("int64"), 1)):
        assert (found[count:, k] == 0.0).all()
        assert np.isnan(found[:count, k]).any()


@every_row("dtype", ["float16", "float32", "float64"])
@every_row("power", [1.0, 2.0, 3.0])
def test_powers_of_windows_neither_overflow_nor_vanish(dtype: str, power: float) -> None:
    x = np.array([[1.0, 2.0, 3.0, 4.0, 0.0, 0.0]])
    sums = (x.reshape(3, 2) ** power).sum(1)
    slopes = np.where(x == 0.0, 0.0, (x / np.repeat(np.maximum(sums, 1e-9) ** (1 / power), 2)) ** (power - 1) * (x > 0))
    scale = float(np.finfo(dtype).max)
    for factor in (1.0, 2.0 ** (np.log2(scale) // 1 - 4), 2.0 ** (4 - np.log2(scale) // 1)):
        given = Tensor[NumPy].from_data(x * factor, dtype=dtype)
        found = functional.lp_pool1d(given, power, 2).to_numpy() / factor
        slope = grad(lambda x: functional.lp_pool1d(x, power, 2).sum())(given).to_numpy()
        eps = 400 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(found[0], sums ** (1 / power), eps, eps)
        np.testing.assert_allclose(slope, slopes, eps, eps)
