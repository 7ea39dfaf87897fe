"""`Distribution` and `Reparametrized`, the base classes; `register_kl`, the table of divergences; `Independent`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeAlias, TypeVar

from burnpy.backend.dtypes import result_type
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.distributions.bijections import learned_onto
from burnpy.distributions.formulas import computed, log_of
from burnpy.distributions.parameters import Given, held, parameters_of
from burnpy.nn.module import Module, rebound
from burnpy.nn.module_tree import children
from burnpy.tensor.call_errors import explained
from burnpy.tensor.creation import factory_shape
from burnpy.tensor.operand_checks import broadcast_shape
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I, V

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


Formula: TypeAlias = Callable[..., Tensor[Any]]
F = TypeVar("F", bound=Formula)
DIVERGENCES: dict[tuple[type, type], Formula] = {}
"""The formulas of `kl` by the classes of both distributions.

Formulas of one family stand in its file, formulas of two in ``divergences``.
"""


@explained
def register_kl(p: type[Distribution[Any, Any]], q: type[Distribution[Any, Any]]) -> Callable[[F], F]:
    """Return a decorator that makes a function ``f(p, q)`` the divergence of two classes and their subclasses.

    >>> from burnpy.distributions import Normal, kl
    >>> class Shifted(Normal):
    ...     pass
    >>> @register_kl(Shifted, Shifted)
    ... def of_equal_scales(p, q):
    ...     return ((p.loc - q.loc) / p.scale).square() * 0.5
    >>> kl(Shifted(0.0, 1.0, device=NumPy), Shifted(2.0, 1.0, device=NumPy)).item()
    2.0
    """
    for each in (p, q):
        if not isinstance(each, type):
            raise KindError(f"register_kl() got {describe(each)}; expected two classes of distributions")

    def register(formula: F) -> F:
        DIVERGENCES[(p, q)] = formula
        return formula

    return register


def doubled(formula: F) -> F:
    """Make a formula of a divergence compute in float64, where its terms cancel for two that are nearly equal."""

    @wraps(formula)
    def divergence(p: Any, q: Any) -> Tensor[Any]:
        value = formula(p._doubled(), q._doubled())
        rounding = value.detach().clamp(None, 0.0)  # no divergence is negative
        return (value - rounding).to_dtype(result_type(*[x._primitive for d in (p, q) for x in d._values().values()]))

    return divergence  # type: ignore[return-value]  # of the same signature


def in_double(formula: F) -> F:
    """Make a method of float tensors, or of none, compute in float64, as its terms cancel for large parameters."""

    @wraps(formula)
    def method(self: Any, *values: Any) -> Tensor[Any]:
        for x in values:
            self._expect_numbers(formula.__name__, x)
        found = formula(self._doubled(), *[x.double() for x in values])
        return found.to_dtype(result_type(*[x._primitive for x in (*values, *self._values().values())]))

    return method  # type: ignore[return-value]  # of the same signature


class Distribution(Module[B], Generic[B, V]):
    """A batch of distributions on backend ``B``, whose values are ``V``: `Tensor` or `IntTensor`.

    A distribution is an immutable module. Its parameters are numbers, tensors that broadcast, or a `Param`, which
    training changes. Their shapes are ``batch_shape``, then the dimensions of an event if they have such. Samples have
    shape ``(*sample_shape, *batch_shape, *event_shape)``, and `log_prob` broadcasts a value against the batch.

    All distributions take ``device``, which is needed where all parameters are numbers, and ``validate``: False skips
    the check of the parameters' numbers.

    >>> from burnpy.distributions import Normal
    >>> prior = Normal(Tensor[NumPy].zeros((3,)), 2.0)
    >>> prior.batch_shape, prior.event_shape, prior.sample((5,)).shape
    ((3,), (), (5, 3))
    """

    _explained = frozenset(("enumerate_support", "log_prob"))
    _instead_of_forward = "write .log_prob(value), or .sample(shape) to draw values"

    def _hold(self, device: Any, validate: bool, /, **given: Any) -> None:
        """Store the parameters as fields, on one device."""
        parameters = parameters_of(type(self))
        for name, field in held(type(self).__name__, parameters, given, device, validate).items():
            setattr(self, name, field)
        shapes = [value.shape[: value.ndim - parameters[name].event_dims] for name, value in self._values().items()]
        if broadcast_shape(*shapes) is None:
            shown = " and ".join(f"{name} of shape {value.shape}" for name, value in self._values().items())
            raise ShapeError(f"{type(self).__name__}() got {shown}, which do not broadcast")

    def _hold_one(self, device: Any, validate: bool, /, probs: Any, logits: Any, **others: Any) -> None:
        """Store the parameters, one as ``probs`` or as ``logits``."""
        if (probs is None) == (logits is None):
            which = "neither" if probs is None else "both"
            raise ArgumentError(f"{type(self).__name__}() got {which} of probs and logits; expected one")
        self._hold(device, validate, **others, probs=probs, logits=logits)

    def _values(self) -> dict[str, Tensor[B]]:
        """Return the tensors of the parameters, by name."""
        fields = vars(self)
        return {name: fields[name].value for name in parameters_of(type(self)) if fields.get(name) is not None}

    @property
    def batch_shape(self) -> Shape:
        """The shape of the batch: the number of distributions along each dimension."""
        parameters = parameters_of(type(self))
        shapes = [x.shape[: x.ndim - parameters[name].event_dims] for name, x in self._values().items()]
        return broadcast_shape(*shapes) or ()

    @property
    def event_shape(self) -> Shape:
        """The shape of one value; () for a number."""
        return ()

    @property
    def _dtype(self) -> DType:
        """The dtype of float results."""
        return result_type(*[x._primitive for x in self._values().values()])

    def _shape(self, sample_shape: Size) -> Shape:
        """Return the shape of samples."""
        return (*factory_shape(sample_shape, f"{type(self).__name__}.sample"), *self.batch_shape, *self.event_shape)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> V:
        """Draw values, which carry no gradient.

        Args:
            sample_shape: the leading dimensions of the result, before those of batch and event.
            generator: the source of random numbers; by default `burnpy.default_generator` of the device.
        """
        raise NotImplementedError

    def log_prob(self, value: V) -> Tensor[B]:
        """Return the logarithm of the density, or of the probability, at values; -inf outside of the support."""
        raise NotImplementedError

    def entropy(self) -> Tensor[B]:
        """Return the entropy of each distribution, in nats; for densities the differential entropy."""
        self._refuse_method("entropy")

    _ends: tuple[Any, Any] = (-math.inf, math.inf)
    """The ends of the support, numbers or tensors."""

    def cdf(self, value: V) -> Tensor[B]:
        """Return the probability of numbers up to a value, the value included; small ones keep all digits."""
        return self._with_ends("cdf", self._cdf, value, 0.0, 1.0)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return `cdf` of finite numbers inside of the support."""
        self._refuse_method("cdf")

    def log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of `cdf`, which many families have where `cdf` rounds to 0."""
        return self._with_ends("log_cdf", self._log_cdf, value, -math.inf, 0.0)

    @in_double
    def _log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return `log_cdf` of finite numbers inside of the support."""
        return computed("log_cdf", log_of, self._cdf(value))

    def _with_ends(self, method: str, f: Callable[[Any], Any], value: Any, below: float, above: float) -> Tensor[B]:
        """Return a function of numbers, with its values below and above the support."""
        self._expect_numbers(method, value)
        low, high = self._ends
        inside = value.isfinite() & (value >= low) & (value <= high)
        bounded = isinstance(high, Tensor) or math.isfinite(high)
        middle = (low + high) * 0.5 if bounded else low + 1.0 if isinstance(low, Tensor) else 1.0  # any number inside
        found: Tensor[B] = f(value.where(inside, middle))
        found = found.where(inside | (value >= high), below).where(inside | (value < high), above)
        return found.where(value == value, math.nan)

    def icdf(self, probability: Tensor[B]) -> V:
        """Return the least number up to which the probability is the given one: the inverse of `cdf`, or quantile.

        It is NaN outside of [0, 1].
        """
        self._expect_numbers("icdf", probability)
        fits = (probability >= 0.0) & (probability <= 1.0)
        return self._icdf(probability.where(fits, 0.5)).where(fits, math.nan)  # type: ignore[return-value]  # of numbers

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return `icdf` of numbers from 0 to 1."""
        self._refuse_method("icdf")

    def enumerate_support(self, *, expand: bool = True) -> V:
        """Return all values, of shape ``(count, *batch_shape, *event_shape)``.

        Args:
            expand: whether to repeat the values for the batch, whose dimensions are otherwise of size 1.

        Raises:
            ArgumentError: there are infinitely many values, or their number differs within the batch.

        >>> from burnpy.distributions import Bernoulli
        >>> Bernoulli(Tensor[NumPy].full((3,), 0.3)).enumerate_support(expand=False).tolist()
        [[0.0], [1.0]]
        """
        raise ArgumentError(f"{type(self).__name__} has infinitely many values; draw samples in place of all values")

    def _enumerated(self, values: Any, expand: bool) -> Any:
        """Return values (count, *event_shape) with the dimensions of the batch."""
        batch, event = self.batch_shape, self.event_shape
        values = values.reshape((values.shape[0], *[1] * len(batch), *event))
        return values.expand((values.shape[0], *batch, *event)) if expand else values

    def _expect_numbers(self, method: str, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise KindError(f"{type(self).__name__}.{method}() got {describe(value)}; expected a float Tensor")

    @property
    def mean(self) -> Tensor[B]:
        """The expected value, of shape ``(*batch_shape, *event_shape)``; NaN where there is none."""
        self._refuse_method("mean")

    @property
    def variance(self) -> Tensor[B]:
        """The variance, of shape ``(*batch_shape, *event_shape)``; NaN where there is none."""
        self._refuse_method("variance")

    @property
    def stddev(self) -> Tensor[B]:
        """The standard deviation: the root of the variance."""
        return self.variance.sqrt()

    @property
    def mode(self) -> V:
        """The value of the largest density or probability."""
        self._refuse_method("mode")

    def _doubled(self) -> Self:
        """Return the distributions with parameters in float64, through which gradients pass."""
        return self.replace({name: Given(x.double()) for name, x in self._values().items()})

    def _refuse_method(self, name: str) -> NoReturn:
        raise ArgumentError(f"{type(self).__name__} has no {name} in closed form; estimate it from samples")

    @explained
    def expand(self, batch_shape: Size) -> Self:
        """Return the distributions as a larger batch, to whose shape theirs broadcasts.

        Raises:
            ShapeError: it does not broadcast to the shape.
        """
        shape = factory_shape(batch_shape, f"{type(self).__name__}.expand")
        if broadcast_shape(self.batch_shape, shape) != shape:
            raise ShapeError(f"expand() got batch shape {shape}, to which {self.batch_shape} does not broadcast")
        parameters = parameters_of(type(self))
        expanded: dict[str, Any] = {
            name: Given(x.expand((*shape, *x.shape[x.ndim - parameters[name].event_dims :])))
            for name, x in self._values().items()
        }
        return self.replace(expanded)

    @explained
    def independent(self, ndims: int) -> Independent[B, V]:
        """Return the distributions with the last ``ndims`` dimensions of the batch as part of the event.

        `log_prob` then adds up over them.

        Raises:
            ShapeError: the batch has fewer dimensions.

        >>> from burnpy.distributions import Normal
        >>> d = Normal(Tensor[NumPy].zeros((4, 3)), 1.0).independent(1)
        >>> d.batch_shape, d.event_shape, d.log_prob(d.sample()).shape
        ((4,), (3,), (4,))
        """
        return Independent(self, ndims)

    def trainable(self) -> Self:
        """Return the distributions with parameters that are learned, at their present values.

        A parameter with a constraint is held as the bijection's result of an unconstrained `Param`, so that no update
        breaks the constraint. Each distribution of the batch learns parameters of its own; pass a `Param` to share one.
        Parameters that are a `Param` or `Constrained` stay as they are, and so do counts and temperatures.

        >>> from burnpy.distributions import Normal
        >>> from burnpy.optim import Adam
        >>> model, x = Normal(0.0, 1.0, device=Autodiff[NumPy]).trainable(), Tensor[Autodiff[NumPy]].ones((5,)) * 3.0
        >>> optim = Adam()
        >>> for _ in range(10):
        ...     model = optim.step(0.1, model, (-model.log_prob(x).mean()).backward())
        >>> list(model.named_params()), bool(model.loc > 0.5)
        (['loc', 'scale.unconstrained'], True)
        """
        declared, batch = parameters_of(type(self)), self.batch_shape
        learned: dict[str, Any] = {}
        for name, part in children(self):
            if isinstance(part, Distribution):
                learned[name] = part.trainable()
            elif isinstance(part, Given) and name in declared and declared[name].learned:
                event = part.value.shape[part.value.ndim - declared[name].event_dims :]
                learned[name] = learned_onto(declared[name].bound, Given(part.value.expand((*batch, *event))))
        return self.replace(learned)


class Reparametrized(Distribution[B, Tensor[B]]):
    """A distribution whose samples are differentiable with respect to its parameters."""

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the parameters; otherwise as `sample`."""
        raise NotImplementedError

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values, which carry no gradient: see `Distribution.sample`."""
        return self.rsample(sample_shape, generator=generator).detach()

    def independent(self, ndims: int) -> IndependentReparametrized[B]:
        """Return the distributions with dimensions of the batch in the event: see `Distribution.independent`."""
        return IndependentReparametrized(self, ndims)

    @property
    def _center(self) -> Tensor[B] | None:
        """The number around which the density is symmetric, if it is."""
        return None


class Independent(Distribution[B, V]):
    """Distributions whose last dimensions of the batch are part of the event; `Distribution.independent` makes them.

    Args:
        base: the distributions.
        ndims: the number of dimensions of their batch that become dimensions of an event.
    """

    def __init__(self, base: Distribution[B, V], ndims: int) -> None:
        if not 0 <= ndims <= len(base.batch_shape):
            raise ShapeError(
                f"independent() got ndims={ndims!r:.80} for {type(base).__name__} of batch shape {base.batch_shape}, "
                "which has fewer dimensions"
            )
        self.base = base
        self.ndims = ndims

    @property
    def batch_shape(self) -> Shape:
        """The first dimensions of the base's batch."""
        shape = self.base.batch_shape
        return shape[: len(shape) - self.ndims]

    @property
    def event_shape(self) -> Shape:
        """The last dimensions of the base's batch, and its event."""
        return (*self.base.batch_shape[len(self.batch_shape) :], *self.base.event_shape)

    def _summed(self, x: Tensor[B]) -> Tensor[B]:
        return x.sum(dim=tuple(range(-self.ndims, 0))) if self.ndims else x

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> V:
        """Draw values of the base."""
        return self.base.sample(sample_shape, generator=generator)

    def log_prob(self, value: V) -> Tensor[B]:
        """Return the sum of the base's over the dimensions of the event."""
        return self._summed(self.base.log_prob(value))

    def enumerate_support(self, *, expand: bool = True) -> V:
        """Return all values of the base; with dimensions of its batch in the event, the product of them is an error."""
        if self.ndims:
            name = type(self.base).__name__
            raise ArgumentError(f"independent() of {name} has a value for each combination; enumerate those of {name}")
        return self.base.enumerate_support(expand=expand)

    def entropy(self) -> Tensor[B]:
        """Return the sum of the base's over the dimensions of the event."""
        return self._summed(self.base.entropy())

    @property
    def mean(self) -> Tensor[B]:
        """The base's."""
        return self.base.mean

    @property
    def variance(self) -> Tensor[B]:
        """The base's."""
        return self.base.variance

    @property
    def mode(self) -> V:
        """The base's."""
        return self.base.mode

    def expand(self, batch_shape: Size) -> Self:
        """Return the distributions as a larger batch: see `Distribution.expand`."""
        shape = factory_shape(batch_shape, f"{type(self).__name__}.expand")
        return self.replace(base=self.base.expand((*shape, *self.base.batch_shape[len(self.batch_shape) :])))

    def valid(self: Independent[Autodiff[I], V]) -> Independent[I, Any]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class IndependentReparametrized(Independent[B, Tensor[B]], Reparametrized[B]):
    """`Independent` of a distribution whose samples are differentiable."""

    base: Reparametrized[B]

    def __init__(self, base: Reparametrized[B], ndims: int) -> None:
        super().__init__(base, ndims)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values of the base that carry gradients."""
        return self.base.rsample(sample_shape, generator=generator)

    def independent(self, ndims: int) -> IndependentReparametrized[B]:
        """Return the distributions with further dimensions in the event: see `Distribution.independent`."""
        return IndependentReparametrized(self, ndims)

    def valid(self: IndependentReparametrized[Autodiff[I]]) -> IndependentReparametrized[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)
