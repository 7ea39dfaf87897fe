"""The design's table of gradients where the derivative does not exist, row by row, and what is beside the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from burnpy import Autodiff, IntTensor, Tensor, cdist, cross_entropy, func, linalg, nll_loss, pdist, special
from burnpy.autodiff import Forward
from burnpy.backend import NumPy
from burnpy.backend.operations.pointwise import pow_x_vjp, pow_y_vjp
from burnpy.nn import functional
from burnpy.tensor.joining import where
from burnpy.tensor.tensor_base import new_tensor
from tests.rows import every_row

INF, NAN = float("inf"), float("nan")
F: TypeAlias = Callable[..., Any]


def derivatives(f: F, orders: int, *inputs: Any) -> list[list[np.ndarray[Any, Any]]]:
    """For each order the gradient of each input: of the results' sum, then of the sum of all gradients of the last."""
    device: Any = NumPy()
    for _ in range(orders):
        device = Autodiff(device)
    leaves: list[Any] = [Tensor.from_data(x, dtype="float64", device=device).require_grad() for x in inputs]
    total, found = f(*leaves).sum(), []
    for order in range(orders):
        grads = total.backward()
        gradients = [g if (g := grads.get(x)) is not None else x.inner() * 0.0 for x in leaves]
        found.append([np.asarray(g.to_numpy()) for g in gradients])
        if order < orders - 1:
            leaves = [x.inner() for x in leaves]
            total = sum((g.sum() for g in gradients[1:]), start=gradients[0].sum())
            if not total.is_require_grad():
                return found + [[np.zeros_like(g) for g in found[-1]]] * (orders - order - 1)
    return found


def tangents(f: F, *inputs: Any) -> np.ndarray[Any, Any]:
    """The derivative with respect to the first input's first element, by forward mode."""
    device: Any = Forward(NumPy())
    values = [NumPy().from_numpy(np.array(x, "float64")) for x in inputs]
    direction = np.zeros(values[0].shape)
    direction.reshape(-1)[0] = 1.0
    duals = [device.dual(values[0], direction), *map(device.lift, values[1:])]
    out = f(*(new_tensor(Tensor, device, dual) for dual in duals))
    return np.asarray(0.0 if out._primitive.tangent is None else out._primitive.tangent)


ROWS: list[tuple[str, F, list[Any], list[list[float]]]] = [
    # what, the function, where, the gradient of each input
    ("relu at the kink", lambda x: x.relu(), [[0.0, -0.0, 1.0, -1.0]], [[0, 0, 1, 0]]),
    ("relu of NaN", lambda x: x.relu(), [[NAN, 1.0]], [[1, 1]]),
    ("abs of NaN", lambda x: x.abs(), [[NAN, 1.0]], [[NAN, 1]]),
    ("clamp of NaN", lambda x: x.clamp(-1, 1), [[NAN, 0.5]], [[0, 1]]),
    ("maximum with NaN", lambda x, y: x.maximum(y), [[NAN, 1.0], [1.0, NAN]], [[1, 1], [1, 1]]),
    ("amax with a NaN", lambda x: x.amax(0), [[3.0, NAN, 4.0]], [[0, 1, 0]]),
    ("amin with NaNs", lambda x: x.amin(0), [[3.0, NAN, 4.0, NAN]], [[0, 0.5, 0, 0.5]]),
    ("max() with a NaN", lambda x: x.max(), [[3.0, NAN, 4.0]], [[0, 1, 0]]),
    ("max(dim) with NaNs", lambda x: x.max(0).values, [[3.0, NAN, NAN]], [[0, 1, 0]]),
    (
        "max_pool2d with NaNs",
        lambda x: functional.max_pool2d(x, 2),
        [[[[[1.0, NAN, 5.0, 6.0], [NAN, 2.0, 7.0, 7.0]]]]],
        [[0, 1, 0, 0, 0, 0, 1, 0]],
    ),
    (
        "max_pool2d of a window all -inf, with padding",
        lambda x: functional.max_pool2d(x, 2, padding=1),
        [[[[[-INF]]]]],
        [[1]],
    ),
    (
        "adaptive_avg_pool2d with an infinite mean",
        lambda x: functional.adaptive_avg_pool2d(x, (1, 2)) ** 2,
        [[[[[INF, 1.0, 3.0, 5.0]]]]],
        [[INF, INF, 4, 4]],
    ),
    ("abs at 0", lambda x: x.abs(), [[0.0, -0.0, 2.0, -2.0]], [[0, 0, 1, -1]]),
    ("sign at 0", lambda x: x.sign(), [[0.0, 2.0]], [[0, 0]]),
    ("clamp at its bounds", lambda x: x.clamp(-1, 1), [[-1.0, 1.0, 0.0, -2.0, 2.0]], [[1, 1, 1, 0, 0]]),
    ("clamp at the lower bound alone", lambda x: x.clamp(min=0), [[0.0, 1.0, -1.0]], [[1, 1, 0]]),
    ("clamp at the upper bound alone", lambda x: x.clamp(max=0), [[0.0, 1.0, -1.0]], [[1, 0, 1]]),
    ("clamp at a tensor's bound", lambda x, y: x.clamp(min=y), [[0.0, 1.0, 2.0], [1.0] * 3], [[0, 1, 1], [1, 0, 0]]),
    ("clamp at the upper tensor", lambda x, y: x.clamp(max=y), [[0.0, 1.0, 2.0], [1.0] * 3], [[1, 1, 0], [0, 0, 1]]),
    (
        "clamp between tensors, apart, equal and crossed",
        lambda x, low, high: x.clamp(low, high),
        [[1.0, 0.0, 2.0, 0.0, 1.0, 2.0, 3.0], [0.0, 0, 0, 1, 1, 1, 4], [2.0, 2, 2, 1, 1, 1, 3]],
        [[1, 1, 1, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1]],
    ),
    ("clamp of NaN", lambda x, low, high: x.clamp(low, high), [[NAN], [0.0], [1.0]], [[0], [0], [0]]),
    (
        "a repeated index in at.max, with ties",
        lambda x, y: x.at[ints(x, [1, 1, 0])].max(y) * weights(x),
        [[3.0, 2.0], [2.0, 2.0, 4.0]],
        [[0, 10 / 3], [10 / 3, 10 / 3, 1]],
    ),
    (
        "a repeated index in at.mul, with zeros",
        lambda x, y: x.at[ints(x, [1, 1, 0])].mul(y) * weights(x),
        [[3.0, 2.0], [0.0, 5.0, 0.0]],
        [[0, 0], [100, 0, 3]],
    ),
    ("quotients rounded", lambda x, y: x // y + x.div(y, rounding_mode="trunc"), [[6.0], [3.0]], [[0], [0]]),
    ("maximum of equals", lambda x, y: x.maximum(y), [[1.0, 2.0], [1.0, 1.0]], [[0.5, 1], [0.5, 0]]),
    ("minimum of equals", lambda x, y: x.minimum(y), [[1.0, 2.0], [1.0, 1.0]], [[0.5, 0], [0.5, 1]]),
    ("maximum with an equal number", lambda x: x.maximum(1.0), [[1.0, 2.0, 0.0]], [[0.5, 1, 0]]),
    ("minimum with an equal number", lambda x: x.minimum(1.0), [[1.0, 2.0, 0.0]], [[0.5, 0, 1]]),
    ("amax of ties", lambda x: x.amax(0), [[3.0, 1.0, 3.0, 3.0]], [[1 / 3, 0, 1 / 3, 1 / 3]]),
    ("amin of ties", lambda x: x.amin(0), [[1.0, 3.0, 1.0, 3.0]], [[0.5, 0, 0.5, 0]]),
    ("max() of ties", lambda x: x.max(), [[3.0, 1.0, 3.0]], [[0.5, 0, 0.5]]),
    ("min() of ties", lambda x: x.min(), [[1.0, 1.0, 3.0]], [[0.5, 0.5, 0]]),
    ("max(dim) of ties", lambda x: x.max(0).values, [[1.0, 3.0, 3.0]], [[0, 1, 0]]),
    ("min(dim) of ties", lambda x: x.min(0).values, [[1.0, 1.0, 3.0]], [[1, 0, 0]]),
    ("sort of ties", lambda x: x.sort(0).values.cumsum(0), [[3.0, 1.0, 3.0]], [[2, 3, 1]]),
    ("sort of ties, descending", lambda x: x.sort(0, True).values.cumsum(0), [[3.0, 1.0, 3.0]], [[3, 1, 2]]),
    ("topk of ties", lambda x: x.topk(2).values, [[1.0, 3.0, 3.0, 3.0]], [[0, 1, 1, 0]]),
    ("kthvalue of ties", lambda x: x.kthvalue(2).values, [[3.0, 1.0, 1.0]], [[0, 0, 1]]),
    ("median of ties", lambda x: x.median(), [[2.0, 2.0, 2.0]], [[0, 1, 0]]),
    ("median with a NaN", lambda x: x.median(0).values, [[2.0, NAN, 4.0]], [[0, 1, 0]]),
    ("nanmedian with a NaN", lambda x: x.nanmedian(0).values, [[2.0, NAN, 4.0]], [[1, 0, 0]]),
    ("mode", lambda x: x.mode(0).values, [[2.0, 1.0, 2.0]], [[0, 0, 1]]),
    ("unique", lambda x: x.unique() * weights(x), [[2.0, 1.0, 2.0]], [[10, 1, 0]]),
    ("quantile between two", lambda x: x.quantile(0.25), [[3.0, 1.0, 0.0]], [[0, 0.5, 0.5]]),
    ("nanquantile with a NaN", lambda x: x.nanquantile(0.5), [[3.0, NAN, 0.0]], [[0.5, 0, 0.5]]),
    ("cummax of ties", lambda x: x.cummax(0).values, [[3.0, 1.0, 3.0]], [[2, 0, 1]]),
    ("cummin with NaNs", lambda x: x.cummin(0).values, [[3.0, NAN, NAN]], [[1, 1, 1]]),
    ("cumprod with a zero", lambda x: x.cumprod(0), [[2.0, 0.0, 3.0]], [[1, 8, 0]]),
    ("cumprod with zeros", lambda x: x.cumprod(0), [[0.0, 2.0, 0.0]], [[3, 0, 0]]),
    ("logcumsumexp from -inf", lambda x: x.logcumsumexp(0), [[-INF, -INF, 0.0]], [[0, 0, 1]]),
    ("nansum", lambda x: x.nansum(), [[1.0, NAN]], [[1, 0]]),
    ("nanmean", lambda x: x.nanmean(), [[1.0, NAN, 3.0]], [[0.5, 0, 0.5]]),
    ("norm of zeros along a dim", lambda x: x.norm(dim=1), [[[0.0, 0.0], [3.0, 4.0]]], [[0, 0, 0.6, 0.8]]),
    ("norm with zeros", lambda x: x.norm(1.5), [[0.0, 2.0]], [[0, 1]]),
    ("norm with zeros, p below 1", lambda x: x.norm(0.5), [[0.0, 2.0]], [[0, 1]]),
    ("norm of small numbers", lambda x: x.norm(), [[3e-300, -4e-300]], [[0.6, -0.8]]),
    ("norm of large numbers", lambda x: x.norm(3), [[0.0, -4e200]], [[0, -1]]),
    ("norm for p = inf of ties", lambda x: x.norm(INF), [[2.0, -2.0, 1.0]], [[0.5, -0.5, 0]]),
    ("dist of equals", lambda x, y: x.dist(y), [[1.0, 2.0], [1.0, 2.0]], [[0, 0], [0, 0]]),
    ("det of a singular matrix", lambda x: x.det(), [[[2.0, 0.0], [0.0, 0.0]]], [[0, 0, 0, 2]]),
    ("equal eigenvalues", lambda x: linalg.eigvalsh(x).square(), [[[2.0, 0.0], [0.0, 2.0]]], [[4, 0, 0, 4]]),
    ("eigenvectors of equal eigenvalues", lambda x: linalg.eigh(x)[1], [[[2.0, 0.0], [0.0, 2.0]]], [[0, 0, 0, 0]]),
    ("equal singular values", lambda x: linalg.svdvals(x).square(), [[[2.0, 0.0], [0.0, 2.0]]], [[4, 0, 0, 4]]),
    ("singular vectors of zeros", lambda x: linalg.svd(x, False)[0], [[[0.0], [0.0]]], [[0, 0]]),
    ("cdist of equal points", lambda x, y: cdist(x, y), [[[1.0, 2.0]], [[1.0, 2.0]]], [[0, 0], [0, 0]]),
    ("pdist of equal points", lambda x: pdist(x), [[[1.0, 2.0], [1.0, 2.0]]], [[0, 0, 0, 0]]),
    ("vector_norm of zeros", lambda x: linalg.vector_norm(x, 3), [[0.0, 0.0]], [[0, 0]]),
    ("matrix_norm of zeros", lambda x: linalg.matrix_norm(x), [[[0.0], [0.0]]], [[0, 0]]),
    ("std of constants", lambda x: x.std(), [[2.0, 2.0, 2.0]], [[0, 0, 0]]),
    ("std of constants along a dim", lambda x: x.std(0), [[[2.0], [2.0]]], [[0, 0]]),
    ("var of constants", lambda x: x.var(), [[2.0, 2.0, 2.0]], [[0, 0, 0]]),
    ("std of constants whose mean is rounded", lambda x: x.std(correction=0), [[0.1] * 3], [[0, 0, 0]]),
    ("var of constants whose mean is rounded", lambda x: x.var(), [[0.1] * 3], [[0, 0, 0]]),
    ("std of small numbers", lambda x: x.std(correction=0), [[1e-300, -1e-300]], [[0.5, -0.5]]),
    ("std of large numbers", lambda x: x.std(correction=0), [[1e300, -1e300]], [[0.5, -0.5]]),
    ("sqrt at 0", lambda x: x.sqrt(), [[0.0, 4.0]], [[INF, 0.25]]),
    ("log at 0", lambda x: x.log(), [[0.0, 4.0]], [[INF, 0.25]]),
    ("pow(0, 0)", lambda x, y: x.pow(y), [0.0, 0.0], [[0], [0]]),
    ("pow(x, 0)", lambda x, y: x.pow(y), [[5e-324, -2.0], [0.0, 0.0]], [[0, 0], [-744.4400719213812, NAN]]),
    ("pow(NaN, 0) by x", lambda x, y: x.pow(y.detach()), [[NAN, INF], [0.0, 0.0]], [[0, 0], [0, 0]]),
    ("0 ** 0", lambda x: x**0, [[0.0]], [[0]]),
    ("0 ** 1", lambda x: x**1, [[0.0]], [[1]]),
    ("0 ** 2", lambda x: x**2, [[0.0]], [[0]]),
    ("0 ** 3", lambda x: x**3, [[0.0]], [[0]]),
    ("0 ** 1.5", lambda x: x**1.5, [[0.0]], [[0]]),
    ("0 ** 0.5", lambda x: x**0.5, [[0.0]], [[INF]]),
    ("0 ** -1", lambda x: x**-1, [[0.0]], [[-INF]]),
    ("pow(0, p)", lambda x, y: x.pow(y), [[0.0] * 4, [1.0, 1.5, 2.0, 3.0]], [[1, 0, 0, 0], [0, 0, 0, 0]]),
    ("a power of a negative base", lambda x, y: x.pow(y), [[-2.0], [3.0]], [[12], [NAN]]),
    ("prod with a zero", lambda x: x.prod(), [[2.0, 0.0, 3.0]], [[0, 6, 0]]),
    ("prod with two zeros", lambda x: x.prod(), [[0.0, 0.0, 3.0]], [[0, 0, 0]]),
    ("prod with a NaN", lambda x: x.prod(), [[2.0, NAN, 3.0]], [[NAN, 6, NAN]]),
    ("prod along a dim with a zero", lambda x: x.prod(1), [[[2.0, 0.0], [4.0, 5.0]]], [[0, 2, 5, 4]]),
    ("softmax of a row all masked", lambda x: x.softmax(0), [[-INF, -INF]], [[NAN, NAN]]),
    ("log_softmax of a row all masked", lambda x: x.log_softmax(0), [[-INF, -INF]], [[NAN, NAN]]),
    ("logsumexp of a row all masked", lambda x: x.logsumexp(0), [[-INF, -INF]], [[0, 0]]),
    ("softmax of a row partly masked", lambda x: x.softmax(0)[:1], [[0.0, -INF, 0.0]], [[0.25, 0, -0.25]]),
    ("where(x > 0, sqrt(x), 0) at 0", lambda x: where(x > 0, x.sqrt(), 0.0), [[0.0, 4.0]], [[NAN, 0.25]]),
    (
        "the double where",
        lambda x: where(x > 0, where(x > 0, x, 1.0).sqrt(), 0.0),
        [[0.0, 4.0]],
        [[0, 0.25]],
    ),
    ("a repeated index in index_select", lambda x: x.index_select(0, ints(x, [1, 1, 0])), [[1.0, 2, 3]], [[1, 2, 0]]),
    ("a repeated index in gather", lambda x: x.gather(0, ints(x, [1, 1, 0])), [[1.0, 2.0, 3.0]], [[1, 2, 0]]),
    ("a repeated index in x[index]", lambda x: x[ints(x, [1, 1, 0])], [[1.0, 2.0, 3.0]], [[1, 2, 0]]),
    (
        "a repeated index in at.set",
        lambda x, y: x.at[ints(x, [1, 1])].set(y) * weights(x),
        [[1.0, 2.0], [3.0, 4.0]],
        [[1, 0], [0, 10]],
    ),
    (
        "a repeated index in at.add",
        lambda x, y: x.at[ints(x, [1, 1])].add(y) * weights(x),
        [[1.0, 2.0], [3.0, 4.0]],
        [[1, 10], [10, 10]],
    ),
    ("a duplicate in scatter", lambda x, y: x.scatter(0, ints(x, [0, 0]), y), [[1.0, 2], [3, 4]], [[0, 1], [0, 1]]),
    (
        "a duplicate in index_copy",
        lambda x, y: x.index_copy(0, ints(x, [0, 0]), y),
        [[1.0, 2], [3, 4]],
        [[0, 1], [0, 1]],
    ),
    ("a duplicate in index_add", lambda x, y: x.index_add(0, ints(x, [0, 0]), y), [[1.0, 2], [3, 4]], [[1, 1], [1, 1]]),
    ("a duplicate in take", lambda x: x.take(ints(x, [1, 1, -1])), [[1.0, 2.0]], [[0, 3]]),
    (
        "ties in index_reduce",
        lambda x, y: x.index_reduce(0, ints(x, [1, 1, 0]), y, "amax") * weights(x),
        [[3.0, 2.0], [2.0, 2.0, 4.0]],
        [[0, 10 / 3], [10 / 3, 10 / 3, 1]],
    ),
    (
        "zeros in scatter_reduce, without x",
        lambda x, y: x.scatter_reduce(0, ints(x, [1, 1, 0]), y, "prod", include_self=False) * weights(x),
        [[3.0, 2.0], [0.0, 5.0, 0.0]],
        [[0, 0], [50, 0, 1]],
    ),
    ("floor, ceil and round at an integer", lambda x: x.floor() + x.ceil() + x.round(), [[1.0, 0.5]], [[0, 0]]),
    ("remainder", lambda x, y: x.remainder(y), [[6.0, -7.0], [3.0, 2.0]], [[1, 1], [-2, 4]]),
    ("asin and acos at 1", lambda x: x.asin() - x.acos(), [[1.0, 0.0]], [[INF, 2]]),
    ("acosh at 1", lambda x: x.acosh(), [[1.0]], [[INF]]),
    ("atan2 at (0, 0)", lambda x, y: x.atan2(y), [[0.0, 0.0], [0.0, -0.0]], [[0, 0], [0, 0]]),
    ("atan2 of large numbers", lambda x, y: x.atan2(y), [[1e200], [1e200]], [[5e-201], [-5e-201]]),
    ("hypot at (0, 0)", lambda x, y: x.hypot(y), [[0.0, 3e200], [0.0, 4e200]], [[0, 0.6], [0, 0.8]]),
    ("copysign at 0", lambda x, y: x.copysign(y), [[0.0, -2.0, 2.0], [-1.0, 0.0, -0.0]], [[0, -1, -1], [0, 0, 0]]),
    ("fmod", lambda x, y: x.fmod(y), [[7.0, -7.0], [3.0, 2.0]], [[1, 1], [-2, 3]]),
    ("fmax of equals and NaN", lambda x, y: x.fmax(y), [[1.0, NAN, 1.0], [1.0, 1.0, NAN]], [[1, 0, 1], [0, 1, 0]]),
    ("fmin of equals and NaN", lambda x, y: x.fmin(y), [[1.0, NAN, 1.0], [1.0, 1.0, NAN]], [[1, 0, 1], [0, 1, 0]]),
    (
        "logaddexp of infinities",
        lambda x, y: x.logaddexp(y),
        [[INF, -INF, 1.0], [INF, -INF, -INF]],
        [[0.5, 0.5, 1], [0.5, 0.5, 0]],
    ),
    ("logaddexp2 of infinities", lambda x, y: x.logaddexp2(y), [[INF, -INF], [INF, -INF]], [[0.5, 0.5], [0.5, 0.5]]),
    ("nextafter of equals", lambda x, y: x.nextafter(y), [[1.0, 2.0], [1.0, 3.0]], [[0, 1], [0, 0]]),
    ("xlogy at 0", lambda x, y: x.xlogy(y), [[0.0, 0.0], [0.0, np.e]], [[0, 1], [0, 0]]),
    ("xlog1py at 0", special.xlog1py, [[0.0, 0.0], [-1.0, np.e - 1]], [[0, 1], [0, 0]]),
    ("entr at 0", special.entr, [[0.0, 1.0]], [[INF, -1]]),
    ("i0e, i1 and i1e at 0", lambda x: special.i0e(x) + special.i1(x) + special.i1e(x), [[0.0]], [[1]]),
    ("ndtri at 0", special.ndtri, [[0.0, 0.5]], [[INF, np.sqrt(2 * np.pi)]]),
    ("ndtri_exp far out", special.ndtri_exp, [[-INF, -0.5 * np.log(4.0)]], [[0, np.sqrt(np.pi / 2)]]),
    ("log_ndtr far out", special.log_ndtr, [[-INF, INF]], [[INF, 0]]),
    ("erfcx far out", special.erfcx, [[INF, 0.0]], [[0, -2 / np.sqrt(np.pi)]]),
    ("igamma at 0", lambda x, y: x.igamma(y), [[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]], [[0, 0, 0], [1, 0, INF]]),
    ("igamma at infinity", lambda x, y: x.igamma(y), [[1.0, INF], [INF, 2.0]], [[0, 0], [0, 0]]),
    ("sinc at 0", lambda x: x.sinc(), [[0.0, 1.0]], [[0, -1]]),
    ("erfinv at -1", lambda x: x.erfinv(), [[-1.0, 0.0]], [[INF, np.sqrt(np.pi) / 2]]),
    ("trunc and frac", lambda x: x.trunc() + 3 * x.frac(), [[1.5, -2.0]], [[3, 3]]),
    ("heaviside at 0", lambda x, y: x.heaviside(y), [[0.0, 1.0, -1.0], [5.0, 5.0, 5.0]], [[0, 0, 0], [1, 0, 0]]),
    ("frexp at 0", lambda x: x.frexp().mantissa, [[0.0, 3.0, INF]], [[1, 0.25, 1]]),
    ("nan_to_num", lambda x: x.nan_to_num(), [[NAN, INF, -INF, 1.0]], [[0, 0, 0, 1]]),
    ("logit at 0", lambda x: x.logit(), [[0.0, 0.5]], [[INF, 4]]),
    ("logit at 1", lambda x: x.logit(), [[1.0, 0.5]], [[INF, 4]]),
    ("logit outside", lambda x: x.logit(), [[-0.5, 0.5, 1.5]], [[NAN, 4, NAN]]),
    ("logit at the bounds of eps", lambda x: x.logit(0.25), [[0.25, 0.75, 0.0]], [[16 / 3, 16 / 3, 0]]),
    ("relu6 at its kinks", functional.relu6, [[0.0, 6.0, 3.0, NAN]], [[0, 0, 1, 1]]),
    ("hardtanh at its kinks", functional.hardtanh, [[-1.0, 1.0, 0.0]], [[0, 0, 1]]),
    ("hardsigmoid at its kinks", functional.hardsigmoid, [[-3.0, 3.0, 0.0]], [[0, 0, 1 / 6]]),
    ("hardswish at its kinks", functional.hardswish, [[-3.0, 3.0, 0.0]], [[0, 1, 0.5]]),
    ("leaky_relu at 0", lambda x: functional.leaky_relu(x, 0.25), [[0.0, 1.0]], [[0.25, 1]]),
    ("prelu at 0", lambda x, y: x.prelu(y), [[0.0, -2.0], [0.25]], [[0.25, 0.25], [-2]]),
    ("elu at 0", lambda x: functional.elu(x, 2.0), [[0.0, 1.0]], [[2, 1]]),
    (
        "hardshrink and softshrink",
        lambda x: x.hardshrink() + functional.softshrink(x),
        [[0.5, -0.5, 1.0]],
        [[0, 0, 2]],
    ),
    ("threshold at it", lambda x: functional.threshold(x, 0.5, 7.0), [[0.5, 1.0]], [[0, 1]]),
    ("normalize of zeros", lambda x: functional.normalize(x, eps=0.5), [[[0.0, 0.0]]], [[2, 2]]),
    ("remainder by infinity", lambda x, y: x.remainder(y), [[-2.0, 2.0], [INF, INF]], [[1, 1], [1, 0]]),
]  # fmt: skip
ROWS += [
    (f"norm of zeros for p = {p}", lambda x, p=p: x.norm(p), [[0.0, -0.0]], [[0, 0]])
    for p in (2, 1, 3, 1.5, 0.5, 0, INF, -INF, -1)
]


def weights(x: Any) -> Any:
    return Tensor.from_data([1.0, 10.0], dtype="float64", device=x.device)


def ints(x: Any, values: list[int]) -> Any:
    return IntTensor.from_data(values, device=x.device)


def names(rows: list[Any]) -> list[str]:
    return [row[0] for row in rows]


@every_row("what, f, at, gradients", ROWS, ids=names(ROWS))
def test_gradients(what: str, f: F, at: list[Any], gradients: list[list[float]]) -> None:
    (found,) = derivatives(f, 1, *at)
    for k, (g, want) in enumerate(zip(found, gradients, strict=True)):
        np.testing.assert_allclose(g.ravel(), want, rtol=1e-14, err_msg=f"the gradient of {what} by input {k}")


PUSHED = [row for row in ROWS if row[0] != "where(x > 0, sqrt(x), 0) at 0"]
"""Forward mode chooses the tangent of 0, which is 0: the NaN is of reverse mode, where 0 · ∞ is added up."""


@every_row("what, f, at, gradients", PUSHED, ids=names(PUSHED))
def test_forward_mode_says_the_same(what: str, f: F, at: list[Any], gradients: list[list[float]]) -> None:
    """The tangents of all results by the first element sum to its gradient."""
    found = tangents(f, *at).sum()
    np.testing.assert_allclose(found, gradients[0][0], rtol=1e-14, err_msg=f"the tangent of {what}")


FINITE: list[tuple[str, F, list[Any]]] = [
    ("std of constants", lambda x: x.std(), [[2.0, 2.0, 2.0]]),
    ("std of constants along a dim, weighted", lambda x: x.std(0) * x[0], [[[2.0, 1.0], [2.0, 4.0], [2.0, 5.0]]]),
    ("var of constants", lambda x: x.var(), [[2.0, 2.0, 2.0]]),
    ("std of constants whose mean is rounded", lambda x: x.std(), [[0.1] * 3]),
    ("pow(0, 0)", lambda x, y: x.pow(y), [0.0, 0.0]),
    ("pow(0, 1)", lambda x, y: x.pow(y), [0.0, 1.0]),
    ("prod with zeros", lambda x: x.prod() * x.sum(), [[0.0, 0.0, 3.0, 0.0]]),
    ("prod along a dim with zeros", lambda x: x.prod(0), [[[0.0, 1.0], [0.0, 0.0], [3.0, 2.0]]]),
    ("pow(0, p)", lambda x, y: x.pow(y), [[0.0] * 3, [3.0, 4.0, 5.0]]),
    ("0 ** 2", lambda x: x**2, [[0.0]]),
    ("0 ** 3", lambda x: x**3, [[0.0]]),
    ("at.mul with zeros", lambda x, y: x.at[ints(x, [0, 0])].mul(y) * x.sum(), [[0.0, 2.0], [0.0, 0.0]]),
    ("amax of ties", lambda x: x.amax(0) * x.sum(), [[3.0, 1.0, 3.0]]),
    ("softplus, silu, gelu at 0", lambda x: x.softplus() + x.silu() + x.gelu() + x.gelu("tanh"), [[0.0]]),
    ("hypot at (0, 0)", lambda x, y: x.hypot(y), [[0.0, 1.0], [0.0, 0.0]]),
    ("atan2 at (0, 0)", lambda x, y: x.atan2(y), [0.0, 0.0]),
    ("sinc at 0", lambda x: x.sinc(), [[0.0, 1e-9, 1.0]]),
    ("i0, i0e, i1 and i1e at 0", lambda x: special.i0(x) + special.i0e(x) + special.i1(x) + special.i1e(x), [[0.0]]),
    ("xlog1py at 0", special.xlog1py, [[0.0], [-1.0]]),
    ("igamma at the origin of x = 3", lambda y: y.full_like(3.0).igamma(y), [[0.0]]),
    ("xlogy at 0", lambda x, y: x.xlogy(y), [[0.0], [0.0]]),
    ("normalize of zeros", functional.normalize, [[[0.0, 0.0]]]),
    ("logaddexp of infinities", lambda x, y: x.logaddexp(y), [[INF, -INF], [INF, -INF]]),
    ("logaddexp2 of infinities", lambda x, y: x.logaddexp2(y), [[INF, -INF], [INF, -INF]]),
    ("logsumexp with a masked element", lambda x: x.logsumexp(0), [[1.0, -INF, 2.0]]),
]


@every_row("what, f, at", FINITE, ids=names(FINITE))
def test_derivatives_are_finite_at_every_order(what: str, f: F, at: list[Any]) -> None:
    for order, found in enumerate(derivatives(f, 3, *at), 1):
        for k, g in enumerate(found):
            assert np.isfinite(g).all(), f"the derivative of order {order} of {what} by input {k} is {g}"


SECOND: list[tuple[str, F, list[Any], list[list[float]]]] = [
    # the gradients of the sum of all first derivatives
    ("relu at the kink", lambda x: x.relu() * x, [[0.0, 2.0]], [[0, 2]]),
    ("maximum of equals", lambda x, y: x.maximum(y) * x, [[1.0], [1.0]], [[1.5], [0.5]]),
    ("prod with a zero", lambda x: x.prod(), [[2.0, 0.0, 3.0]], [[3, 5, 2]]),
    ("prod with two zeros", lambda x: x.prod(), [[0.0, 0.0, 3.0]], [[3, 3, 0]]),
    ("0 ** 2", lambda x: x**2, [[0.0]], [[2]]),
    ("pow(0, 2) by both", lambda x, y: x.pow(y), [[0.0], [2.0]], [[2], [0]]),
    ("pow(2, 0) by both", lambda x, y: x.pow(y), [[2.0], [0.0]], [[0.5], [0.5 + np.log(2.0) ** 2]]),
    ("std of constants", lambda x: x.std(), [[2.0, 2.0]], [[0, 0]]),
    ("hypot at (0, 0)", lambda x, y: x.hypot(y), [[0.0], [0.0]], [[0], [0]]),
    ("sinc at 0", lambda x: x.sinc(), [[0.0, 1e-9]], [[-(np.pi**2) / 3, -(np.pi**2) / 3]]),
    ("clamp at its bounds", lambda x: x.clamp(-1, 1) ** 2, [[-1.0, 1.0, 2.0]], [[2, 2, 0]]),
]


@every_row("what, f, at, second", SECOND, ids=names(SECOND))
def test_second_derivatives(what: str, f: F, at: list[Any], second: list[list[float]]) -> None:
    found = derivatives(f, 2, *at)[1]
    for k, (g, want) in enumerate(zip(found, second, strict=True)):
        np.testing.assert_allclose(g.ravel(), want, rtol=1e-13, err_msg=f"the second derivative of {what} by input {k}")


def test_the_hessian_of_a_power_is_symmetric() -> None:
    """Also where a convention takes the place of a derivative."""
    for x, y in [(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, 2.5), (0.0, 3.0), (2.0, 0.0), (1.5, -1.0), (0.3, 0.5)]:
        hessian = [derivatives(lambda a, b, k=k: first_derivative(a, b, k), 1, x, y)[0] for k in range(2)]
        np.testing.assert_allclose(hessian[0][1], hessian[1][0], rtol=1e-13, err_msg=f"at {x} ** {y}: {hessian}")


def first_derivative(x: Any, y: Any, k: int) -> Any:
    """The derivative of x ** y by x, or by y, tracked."""
    vjp = (pow_x_vjp, pow_y_vjp)[k]
    b, one = x.device, x.ones_like()
    kept = (x._primitive, y._primitive, *([x.pow(y)._primitive] if k else []))
    return x._like(vjp(b, one._primitive, *kept))


def test_losses_at_the_ends_of_their_domains() -> None:
    ends = [0.0, 1.0, 0.0, 1.0]
    first, second = derivatives(
        lambda p: functional.binary_cross_entropy(p, p.zeros_like().at[1:3].set(1.0), reduction="sum"), 2, ends
    )
    np.testing.assert_allclose(first[0], [1.0, -1.0, -1e12, 1e12])
    assert np.isfinite(second[0]).all()
    first, second = derivatives(lambda t: functional.kl_div(t.zeros_like() - 1.0, t, reduction="sum"), 2, [0.0, 1.0])
    assert first[0].tolist() == [1.0, 2.0]
    assert second[0].tolist() == [0.0, 1.0]

    def near(x: Any) -> Any:
        return functional.triplet_margin_loss(x, x.zeros_like(), x.zeros_like() + 3.0, margin=9.0, eps=0.0)

    first, second = derivatives(near, 2, [0.0, 0.0])
    np.testing.assert_allclose(first[0], [0.5**0.5] * 2)  # of the negative alone
    assert np.isfinite(second[0]).all()


def test_the_mean_of_no_losses() -> None:
    x, ignored = Tensor[NumPy].from_data([[1.0, 2.0], [0.5, -1.0]]), IntTensor[NumPy].from_data([-100, -100])
    losses: tuple[Callable[[Any], Any], ...] = (lambda x: cross_entropy(x, ignored), lambda x: nll_loss(x, ignored))
    for loss in losses:
        value, slope = func.value_and_grad(loss)(x)
        assert value.isnan().item()
        assert slope.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert func.jvp(loss, (x,), (x,))[1].isnan().item()
