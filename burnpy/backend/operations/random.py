"""Operations that draw random numbers, and the derivatives of their results with respect to the parameters.

All state is in the NumPy generator argument, so that it can be saved, restored and shared.

A draw of a gamma, beta or Dirichlet distribution is differentiable, by implicit reparametrization: its derivative is
the derivative of the quantile at the probability that was drawn. Source: Figurnov, Mohamed and Mnih, Implicit
Reparameterization Gradients, 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, tiny
from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Bool, Dims, DType, Float, Int, Shape
from burnpy.backend.rules import DRAWN
from burnpy.backend.schema import GENERAL, LINEAR, NONDIFFERENTIABLE, POINTWISE, derived


def log_dirichlet_vjp(i: Any, g: Float, out: Float, concentration: Float) -> Float:
    """slope · (g - x · Σ g): the other components keep their proportions while one of them follows its slope."""
    last = (len(out.shape) - 1,)
    return i.mul(_component_slope(i, out, concentration), i.sub(g, i.mul(i.exp(out), i.sum(g, last, True))))


def log_dirichlet_jvp(i: Any, g: Float, out: Float, concentration: Float) -> Float:
    """Return the transpose of `log_dirichlet_vjp`."""
    moved = i.mul(_component_slope(i, out, concentration), g)
    return i.sub(moved, i.sum(i.mul(i.exp(out), moved), (len(out.shape) - 1,), True))


def _component_slope(i: Any, out: Float, concentration: Float) -> Float:
    """Return the derivative of the logit of each component by its concentration: its distribution is a beta."""
    others = i.sub(i.sum(concentration, (len(out.shape) - 1,), True), concentration)
    logit = i.sub(out, i.log(i.neg(i.expm1(i.minimum(out, -tiny(out.dtype))))))
    return i.beta_quantile_slope(logit, concentration, others)


class Random(OperationsBase):
    """Random sampling. The defaults sample on the CPU; a device may draw one seed and sample with its own generator.

    Parameters of distributions are valid, and broadcast. Along the dimensions ``alike``, all slices are drawn from the
    same state of the generator, as `burnpy.func.vmap` does for ``randomness="same"``.
    """

    @derived(NONDIFFERENTIABLE, batch=DRAWN, onnx="refused")
    def random_uniform(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Float:
        """Sample from the uniform distribution on [0, 1)."""
        sample = generator.random(shape, dtype=np.float64 if dtype == np.float64 else np.float32)
        if dtype.itemsize >= 4:
            return self.from_numpy(np.asarray(sample))
        below_one = np.nextafter(dtype.type(1), dtype.type(0))  # rounding to 16 bits must not reach 1
        return self.from_numpy(np.minimum(np.asarray(sample).astype(dtype), below_one))

    @derived(NONDIFFERENTIABLE, batch=DRAWN, onnx="refused")
    def random_normal(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Float:
        """Sample from the normal distribution with mean 0 and variance 1."""
        sample = generator.standard_normal(shape, dtype=np.float64 if dtype == np.float64 else np.float32)
        return self.from_numpy(np.asarray(sample).astype(dtype, copy=False))

    @derived(NONDIFFERENTIABLE, batch=DRAWN, onnx="refused")
    def random_exponential(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Float:
        """Sample from the exponential distribution with mean 1; small numbers have all their digits."""
        return self.from_numpy(np.asarray(generator.standard_exponential(shape)).astype(dtype))

    @derived(NONDIFFERENTIABLE, batch=DRAWN, onnx="refused")
    def random_integers(self, generator: np.random.Generator, low: int, high: int, shape: Shape, dtype: DType) -> Int:
        """Sample integers uniformly from low, …, high - 1."""
        return self.from_numpy(np.asarray(generator.integers(low, high, shape, dtype=dtype)))

    @derived(NONDIFFERENTIABLE, batch=DRAWN, onnx="refused")
    def random_permutation(self, generator: np.random.Generator, n: int, dtype: DType) -> Int:
        """Return a random permutation of 0, …, n - 1; 1-d."""
        return self.from_numpy(generator.permutation(n).astype(dtype))

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, batch=DRAWN, onnx="refused")
    def random_poisson(self, generator: np.random.Generator, rate: Float, alike: Dims) -> Float:
        """Sample from Poisson distributions with the given means."""
        return _drawn(self, np.random.Generator.poisson, generator, alike, rate)

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, batch=DRAWN, onnx="refused")
    def random_binomial(self, generator: np.random.Generator, count: Float, prob: Float, alike: Dims) -> Float:
        """Sample the numbers of successes in ``count`` trials, an integer, with probability ``prob`` each."""
        return _drawn(self, _binomial, generator, alike, count, prob)

    @derived(
        POINTWISE,
        flops=0,
        vjp=lambda i, g, out, concentration, log: i.mul(g, i.gamma_quantile_slope(out, concentration, log)),
        batch=DRAWN,
        onnx="refused",
    )
    def random_gamma(self, generator: np.random.Generator, concentration: Float, log: bool, alike: Dims) -> Float:
        """Sample from gamma distributions with rate 1, or the logarithms of samples, which do not underflow."""
        return _drawn(self, _log_gamma if log else np.random.Generator.standard_gamma, generator, alike, concentration)

    @derived(
        POINTWISE,
        flops=0,
        vjp=(
            lambda i, g, out, a, b: i.mul(g, i.beta_quantile_slope(out, a, b)),
            lambda i, g, out, a, b: i.neg(i.mul(g, i.beta_quantile_slope(i.neg(out), b, a))),
        ),
        batch=DRAWN,
        onnx="refused",
    )
    def random_logit_beta(self, generator: np.random.Generator, a: Float, b: Float, alike: Dims) -> Float:
        """Sample x from beta distributions, as log(x / (1 - x)), which has all digits of x next to 0 and next to 1."""
        return _drawn(self, _logit_beta, generator, alike, a, b)

    @derived(
        GENERAL,
        like="concentration",
        flops=0,
        vjp=log_dirichlet_vjp,
        jvp=log_dirichlet_jvp,
        batch=DRAWN,
        onnx="refused",
    )
    def random_log_dirichlet(self, generator: np.random.Generator, concentration: Float, alike: Dims) -> Float:
        """Sample from Dirichlet distributions over the last dimension; the logarithms, which do not underflow."""
        return _drawn(self, _log_dirichlet, generator, alike, concentration)

    @derived(POINTWISE, flops=900)
    def gamma_quantile_slope(self, x: Float, concentration: Float, log: bool) -> Float:
        """Return the derivative of a quantile x of the gamma distribution by its concentration; of log x, given
        log x."""
        from burnpy.backend.numerics.quantile_slopes import gamma_quantile_slope

        return gamma_quantile_slope(self, x, concentration, log)

    @derived(POINTWISE, flops=900)
    def beta_quantile_slope(self, x: Float, a: Float, b: Float) -> Float:
        """Return dx/da, where x = log(q / (1 - q)) and q is a quantile of the beta distribution."""
        from burnpy.backend.numerics.quantile_slopes import beta_quantile_slope

        return beta_quantile_slope(self, x, a, b)


def _drawn(
    device: Any, draw: Callable[..., Any], generator: np.random.Generator, alike: Dims, *parameters: Float
) -> Float:
    """Return ``draw(generator, *parameters)``, of arrays of float64, as a primitive of the parameters' dtype."""
    dtype = device.promote(*parameters)[0].dtype
    given = np.broadcast_arrays(*[np.asarray(device.to_numpy(x), np.float64) for x in parameters])
    if not alike:
        return device.from_numpy(np.asarray(draw(generator, *given)).astype(dtype))
    seed, front = int(generator.integers(0, 1 << 63)), tuple(range(len(alike)))
    arrays = [np.moveaxis(x, alike, front) for x in given]
    out = np.empty(arrays[0].shape, dtype)
    for index in np.ndindex(out.shape[: len(alike)]):
        out[index] = draw(np.random.Generator(np.random.PCG64(seed)), *[x[index] for x in arrays])
    return device.from_numpy(np.moveaxis(out, front, alike))


def _binomial(generator: np.random.Generator, count: Any, prob: Any) -> Any:
    return generator.binomial(count.astype(np.int64), prob)


def _log_gamma(generator: np.random.Generator, concentration: Any) -> Any:
    """Sample log x, x from a gamma distribution; below 1 as log y - e / concentration, y from that with one more.

    Source: Liu, Martin and Syring, Efficient Simulation from a Gamma Distribution with Small Shape Parameter, 2017,
    section 1, in the logarithms of its terms.
    """
    small = concentration < 1.0
    out = np.asarray(np.log(generator.standard_gamma(concentration + small)))
    out[small] -= generator.standard_exponential(int(small.sum())) / concentration[small]
    return out


def _logit_beta(generator: np.random.Generator, a: Any, b: Any) -> Any:
    return _log_gamma(generator, a) - _log_gamma(generator, b)


def _log_dirichlet(generator: np.random.Generator, concentration: Any) -> Any:
    """Sample the logarithms of gamma variables less the logarithm of their sum, with all digits where x is nearly 1."""
    logs = _log_gamma(generator, concentration)
    if not logs.size:
        return logs
    largest = logs.argmax(-1)[..., None]
    logs -= np.take_along_axis(logs, largest, -1)
    others = np.exp(logs)
    np.put_along_axis(others, largest, 0.0, -1)
    return logs - np.log1p(others.sum(-1, keepdims=True))


class Dropout(OperationsBase):
    """Dropout: its mask, and its product."""

    @derived(NONDIFFERENTIABLE, batch=DRAWN, onnx="refused")
    def random_mask(self, generator: np.random.Generator, shape: Shape, p: float) -> Bool:
        """Sample a mask whose elements are independently True with probability p."""
        return self.lt(self.random_uniform(generator, shape, float32), p)

    @derived(LINEAR, elementwise=True, flops=2, vjp=lambda i, g, mask, scale: i.masked_scale(g, mask, scale))
    def masked_scale(self, x: Float, mask: Bool, scale: float) -> Float:
        """Apply a dropout mask of x's shape: x · scale where the mask is true, 0 elsewhere."""
        return self.where(mask, self.mul(x, scale), 0.0)
