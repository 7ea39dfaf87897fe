"""Factories that draw from the gamma, beta, Dirichlet, t, Poisson and binomial distributions.

Numbers of the gamma, beta and Dirichlet distribution are drawn on a scale without bounds, as logarithms or logits, so
that small ones do not underflow, and are differentiable by the parameters: see `burnpy.backend.operations.random`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ShapeError
from burnpy.tensor.draws import COUNT, FINITE, NEGATIVE, OPEN_UNIT, POSITIVE, PROBABILITY, RATE, Draw
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.host_data import DTypeLike

    Parameter = Any
    """A parameter of a distribution: a Python number, or a float tensor that broadcasts to the shape of the numbers."""
    Count = Any
    """The same, or an int tensor."""


class DistributionFactories(TensorBase[B]):
    """Random float tensors from distributions of several parameters, which are numbers or tensors."""

    __slots__ = ()

    @classmethod
    def gamma(
        cls,
        shape: Size,
        concentration: Parameter,
        rate: Parameter = 1.0,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from the gamma distribution, with a density proportional to x^(concentration-1) · e^(-rate·x).

        The parameters are numbers, or tensors that broadcast to ``shape``. Gradients by them hold the probability of
        each number fixed (implicit reparametrization), as do second ones. The numbers of a concentration below 1 may be
        too small for the dtype, and are then its smallest normal number; their logarithms have all digits.

        Args:
            shape: the shape of the result.
            concentration: the shape parameter.
            rate: the inverse of the scale.
            log: whether to return the logarithms of the numbers, which do not underflow.
            dtype: the dtype of the result; by default the dtype of the parameters that are tensors, else float32.
            generator: the source of random numbers; by default `burnpy.default_generator` of the device.
            device: a backend class, an alias or a device, instead of ``Tensor[backend]``; neither is needed where a
                parameter is a tensor.

        Raises:
            ArgumentError: a parameter is not a finite number above 0.
            ShapeError: a parameter does not broadcast to ``shape``.
            DeviceError: a parameter is on another device.

        Source: Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, 2018.

        >>> a = Tensor[Autodiff[NumPy]].from_data([0.5, 2.0]).require_grad()
        >>> x = Tensor.gamma((1000, 2), a, generator=Generator(0))
        >>> (x.mean().backward()[a] * 2.0).round().tolist()  # the derivative of the mean, which is a
        [1.0, 1.0]
        """
        draw = Draw(
            cls, "gamma", shape, dtype, generator, device,
            concentration=(concentration, POSITIVE), rate=(rate, POSITIVE),
        )  # fmt: skip
        d, by = draw.device, draw.value("rate")
        out = d.random_gamma(draw.rng(), draw.full("concentration"), log, ())
        if isinstance(by, float):
            if by != 1.0:
                out = d.add(out, -float(np.log(by))) if log else d.div(out, by)
        else:
            out = d.sub(out, d.log(by)) if log else d.div(out, by)
        return draw.wrap(out, FINITE if log else POSITIVE)

    @classmethod
    def beta(
        cls,
        shape: Size,
        a: Parameter,
        b: Parameter,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from the beta distribution, with a density proportional to x^(a-1) · (1-x)^(b-1) on (0, 1).

        The arguments, errors and gradients are as of `gamma`.

        >>> x = Tensor[NumPy].beta((1000,), 8.0, 2.0, generator=Generator(0))
        >>> round(x.mean().item(), 1)
        0.8
        """
        draw = Draw(cls, "beta", shape, dtype, generator, device, a=(a, POSITIVE), b=(b, POSITIVE))
        d = draw.device
        logit = d.random_logit_beta(draw.rng(), draw.full("a"), draw.full("b"), ())
        if log:
            return draw.wrap(d.neg(d.softplus(d.neg(logit), 1.0)), NEGATIVE)
        return draw.wrap(d.sigmoid(logit), OPEN_UNIT)

    @classmethod
    def dirichlet(
        cls,
        shape: Size,
        concentration: Parameter,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random probabilities from the Dirichlet distribution: rows over the last dimension, whose sums are 1.

        The arguments, errors and gradients are as of `gamma`. ``shape`` includes the last dimension, and a number as
        concentration stands for each component.

        >>> x = Tensor[NumPy].dirichlet((5, 3), 0.5, generator=Generator(0))
        >>> (x.sum(dim=-1) - 1.0).abs().amax().item() < 1e-6
        True
        """
        draw = Draw(cls, "dirichlet", shape, dtype, generator, device, concentration=(concentration, POSITIVE))
        if not draw.shape or not draw.shape[-1]:
            raise ShapeError(
                f"{draw.factory}() got shape {draw.shape}; its last dimension has the components, at least one"
            )
        d = draw.device
        logs = d.random_log_dirichlet(draw.rng(), draw.full("concentration"), ())
        return draw.wrap(logs, FINITE) if log else draw.wrap(d.exp(logs), POSITIVE)

    @classmethod
    def student_t(
        cls,
        shape: Size,
        df: Parameter,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers from Student's t distribution with ``df`` degrees of freedom.

        The arguments, errors and gradients are as of `gamma`. A normal number is divided by the
        root of one of the gamma distribution, through which the gradient by ``df`` passes.

        >>> x = Tensor[NumPy].student_t((1000,), 3.0, loc=5.0, generator=Generator(0))
        >>> round(x.median().item())
        5
        """
        draw = Draw(
            cls, "student_t", shape, dtype, generator, device,
            df=(df, POSITIVE), loc=(loc, FINITE), scale=(scale, POSITIVE),
        )  # fmt: skip
        d, rng = draw.device, draw.rng()
        half = d.mul(draw.full("df"), 0.5)
        normal = d.random_normal(rng, draw.shape, draw.dtype)
        log_factor = d.sub(d.log(half), d.random_gamma(rng, half, True, ()))
        factor = d.clamp(d.exp(d.mul(log_factor, 0.5)), None, FINITE.ends(draw.dtype)[1])
        return draw.scaled(d.mul(normal, factor), "loc", "scale")

    @classmethod
    def poisson(
        cls,
        shape: Size,
        rate: Parameter,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random whole numbers from the Poisson distribution with mean ``rate``, which is at most 9e18.

        They are floats, as in PyTorch; float32 rounds those above 2²⁴. They have no gradient. The arguments and errors
        are as of `gamma`.

        >>> rates = Tensor[NumPy].from_data([0.0, 1e8], dtype="float64")
        >>> x = Tensor.poisson((2,), rates, generator=Generator(0))
        >>> x[0].item(), round(x[1].item() / 1e8, 2)
        (0.0, 1.0)
        """
        draw = Draw(cls, "poisson", shape, dtype, generator, device, rate=(rate, RATE))
        d = draw.device
        return draw.wrap(d.random_poisson(draw.rng(), d.detach(draw.exact("rate")), ()))

    @classmethod
    def binomial(
        cls,
        shape: Size,
        count: Count,
        prob: Parameter,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: Any = None,
    ) -> Any:
        """Random numbers of successes in ``count`` trials, at most 2⁵³, with probability ``prob`` each.

        They are floats, as in PyTorch; float32 rounds those above 2²⁴. They have no gradient. The arguments and errors
        are as of `gamma`, and ``count`` may be an `IntTensor` as well.

        >>> x = Tensor[NumPy].binomial((1000,), 10, 0.3, generator=Generator(0))
        >>> round(x.mean().item())
        3
        """
        draw = Draw(cls, "binomial", shape, dtype, generator, device, count=(count, COUNT), prob=(prob, PROBABILITY))
        d = draw.device
        parameters = [d.detach(draw.exact(name)) for name in ("count", "prob")]
        return draw.wrap(d.random_binomial(draw.rng(), *parameters, ()))
