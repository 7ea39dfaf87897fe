"""The categorical distribution, of classes as ints, and of one-hot vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import KindError, ShapeError
from burnpy.distributions.distribution import Distribution, Reparametrized, register_kl
from burnpy.distributions.formulas import computed, log_of, on_simplex, relative_entropy, times_log
from burnpy.distributions.parameters import LOGIT, Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.tensor.creation import factory_shape
from burnpy.tensor.operand_checks import broadcast_shape
from burnpy.tensor.random_parameters import NOT_NEGATIVE, POSITIVE
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I, V

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class OfClasses(Distribution[B, V]):
    """The base class of distributions of classes, by probabilities or by logits along the last dimension."""

    probs = Parameter(NOT_NEGATIVE, event_dims=1, otherwise=lambda d: d.logits.softmax(-1))
    logits = Parameter(LOGIT, event_dims=1, otherwise=lambda d: d.probs.log())

    def __init__(
        self,
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold_one(device, validate, probs, logits)

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return self._given.shape[-1]

    @property
    def _given(self) -> Tensor[B]:
        """The probabilities or logits that it holds."""
        return self.logits if vars(self)["probs"] is None else self.probs

    def _log_probs(self) -> Tensor[B]:
        """Return the logarithms of the probabilities of all classes."""
        if vars(self)["probs"] is None:
            return self.logits.log_softmax(-1)
        wide = self._wide()
        return computed("log_prob", _log_share, wide, wide.sum(dim=-1, keepdim=True)).to_dtype(self._dtype)

    def _shares(self) -> Tensor[B]:
        """Return the probabilities of all classes, whose sum is 1."""
        if vars(self)["probs"] is None:
            return self.logits.softmax(-1)
        wide = self._wide()
        return (wide / wide.sum(dim=-1, keepdim=True)).to_dtype(self._dtype)

    def _wide(self) -> Tensor[B]:
        """Return the probabilities that it holds in a dtype that has their sum."""
        probs: Tensor[B] = self.probs
        return probs.float() if probs.dtype.itemsize < 4 else probs

    def _draw(self, sample_shape: Size, generator: Generator | None) -> IntTensor[B]:
        logits = self.logits.detach()
        shape = (*factory_shape(sample_shape, f"{type(self).__name__}.sample"), *logits.shape)
        return logits.expand(shape).categorical(generator=generator)

    def entropy(self) -> Tensor[B]:
        """Return the entropy."""
        return computed("entropy", _surprise, self._shares(), self._log_probs()).sum(dim=-1)


class Categorical(OfClasses[B, IntTensor[B]]):
    """The distribution of classes 0 to n - 1 with given probabilities.

    Args:
        probs: relative probabilities (…, n), which need not add up to 1.
        logits: their logarithms, up to a constant, in place of ``probs``.
        device, validate: see `Distribution`.

    >>> d = Categorical(Tensor[NumPy].from_data([1.0, 3.0]))
    >>> d.log_prob(IntTensor[NumPy].from_data([0, 1])).exp().tolist(), d.sample((2, 5)).shape
    ([0.25, 0.75], (2, 5))
    """

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> IntTensor[B]:
        """Draw classes as int64."""
        return self._draw(sample_shape, generator)

    def log_prob(self, value: IntTensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability of classes; -inf for an int that is not a class."""
        if vars(self)["probs"] is None:
            found = self._of_classes("log_prob", self._log_probs(), value)
        else:  # logarithms of these classes alone
            wide = self._wide()
            found = computed("log_prob", _log_share, self._of_classes("log_prob", wide, value), wide.sum(dim=-1))
            found = found.to_dtype(self._dtype)
        return found.where((value >= 0) & (value < self.num_classes), -math.inf)

    def cdf(self, value: IntTensor[B]) -> Tensor[B]:
        """Return the probability of classes up to a value, the value included."""
        found = self._of_classes("cdf", self._cumulative(), value)
        return found.where(value >= 0, 0.0)

    def icdf(self, probability: Tensor[B]) -> IntTensor[B]:
        """Return the least class up to which the probability is the given one; -1 outside of [0, 1]."""
        self._expect_numbers("icdf", probability)
        if broadcast_shape(probability.shape, self.batch_shape) is None:
            raise self._no_broadcast("icdf", "probabilities", probability)
        classes = (self._cumulative().detach() < probability.detach().unsqueeze(-1)).int().sum(dim=-1)
        return classes.where((probability >= 0.0) & (probability <= 1.0), -1)

    def _cumulative(self) -> Tensor[B]:
        """Return the probabilities up to each class; the last one with any has exactly 1."""
        sums = self._shares().cumsum(-1)
        return sums / sums[..., -1:]

    def _of_classes(self, method: str, table: Tensor[B], value: IntTensor[B]) -> Tensor[B]:
        """Return the numbers of classes, from those of all classes; any number for an int that is not a class."""
        argument: object = value
        if not isinstance(argument, IntTensor):
            raise KindError(f"Categorical.{method}() got {describe(value)}; expected an IntTensor of classes")
        shape = broadcast_shape(value.shape, self.batch_shape)
        if shape is None:
            raise self._no_broadcast(method, "classes", value)
        index = value.clamp(0, self.num_classes - 1).expand(shape).unsqueeze(-1)
        return table.expand((*shape, self.num_classes)).gather(-1, index).squeeze(-1)

    def _no_broadcast(self, method: str, what: str, value: Any) -> ShapeError:
        return ShapeError(
            f"Categorical.{method}() got {what} of shape {value.shape}, which does not broadcast with the batch shape "
            f"{self.batch_shape}"
        )

    def enumerate_support(self, *, expand: bool = True) -> IntTensor[B]:
        """Return all classes: see `Distribution.enumerate_support`."""
        return self._enumerated(IntTensor.arange(self.num_classes, device=self.device.discrete), expand)  # type: ignore[no-any-return]  # an IntTensor

    @property
    def mode(self) -> IntTensor[B]:
        """The most probable class."""
        return self._given.argmax(dim=-1)

    def valid(self: Categorical[Autodiff[I]]) -> Categorical[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class OneHotCategorical(OfClasses[B, Tensor[B]]):
    """The distribution of one-hot vectors with given probabilities; the arguments are those of `Categorical`."""

    @property
    def event_shape(self) -> Shape:
        """The number of classes."""
        return (self.num_classes,)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw one-hot vectors."""
        return self._draw(sample_shape, generator).one_hot(self.num_classes).float().to_dtype(self._dtype)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability of one-hot vectors; -inf for a vector that is none."""
        hot = value == 1.0
        one_hot = (hot | (value == 0.0)).all(dim=-1) & (hot.int().sum(dim=-1) == 1)
        logs = self._log_probs()
        return logs.where(hot, 0.0).sum(dim=-1).where(one_hot, -math.inf)

    def enumerate_support(self, *, expand: bool = True) -> Tensor[B]:
        """Return all one-hot vectors: see `Distribution.enumerate_support`."""
        return self._enumerated(Tensor.eye(self.num_classes, dtype=self._dtype, device=self.device), expand)  # type: ignore[no-any-return]  # a Tensor

    @property
    def mean(self) -> Tensor[B]:
        """The probabilities."""
        return self._shares()

    @property
    def variance(self) -> Tensor[B]:
        """p · (1 - p)."""
        p = self.mean
        return p * (1.0 - p)

    @property
    def mode(self) -> Tensor[B]:
        """The vector of the most probable class."""
        return self._given.argmax(dim=-1).one_hot(self.num_classes).float().to_dtype(self._dtype)

    def valid(self: OneHotCategorical[Autodiff[I]]) -> OneHotCategorical[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class OneHotCategoricalStraightThrough(OneHotCategorical[B], Reparametrized[B]):
    """`OneHotCategorical` whose samples have the gradients of the probabilities.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic Neurons, 2013.

    >>> p = Tensor[Autodiff[NumPy]].from_data([0.2, 0.8]).require_grad()
    >>> x = OneHotCategoricalStraightThrough(p).rsample()
    >>> x.sum().item(), (x * x.detach()).sum().backward()[p].shape
    (1.0, (2,))
    """

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw one-hot vectors, whose gradients pass to the probabilities."""
        p = self._shares()
        return OneHotCategorical.sample(self, sample_shape, generator=generator) + (p - p.detach())

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw one-hot vectors without gradients."""
        return OneHotCategorical.sample(self, sample_shape, generator=generator)

    def valid(self: OneHotCategoricalStraightThrough[Autodiff[I]]) -> OneHotCategoricalStraightThrough[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class RelaxedOneHotCategorical(OfClasses[B, Tensor[B]], Reparametrized[B]):
    """The distribution of probabilities that approaches one-hot vectors for a temperature next to 0.

    Its values are the softmax of (logits + z) / temperature for z of the standard Gumbel distribution. Training leaves
    the temperature unchanged.

    Args:
        temperature: above 0.
        probs: relative probabilities (…, n), which need not add up to 1.
        logits: their logarithms, up to a constant, in place of ``probs``.
        validate: whether to check the parameters' numbers.

    Source: Maddison, Mnih and Teh, The Concrete Distribution, 2017.

    >>> d = RelaxedOneHotCategorical(0.5, Tensor[NumPy].from_data([1.0, 3.0]))
    >>> d.event_shape, d.sample((5,)).sum(dim=-1).round(decimals=4).tolist()
    ((2,), [1.0, 1.0, 1.0, 1.0, 1.0])
    """

    temperature = Parameter(POSITIVE, learned=False)

    def __init__(
        self,
        temperature: ParameterLike[B],
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold_one(None, validate, probs, logits, temperature=temperature)

    @property
    def event_shape(self) -> Shape:
        """The number of classes."""
        return (self.num_classes,)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw probabilities that are differentiable with respect to the parameters."""
        noise = Tensor.gumbel(self._shape(sample_shape), dtype=self._dtype, generator=generator, device=self.device)
        x = ((self._log_probs() + noise) / self.temperature.unsqueeze(-1)).softmax(-1)
        return x.clamp(*POSITIVE.ends(self._dtype))

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density of probabilities (…, n); -inf for others."""
        fits, n, t = on_simplex(value), self.num_classes, self.temperature
        logs = value.where(fits.unsqueeze(-1), 1.0).log()
        scores = self._log_probs() - t.unsqueeze(-1) * logs
        head = t.log() * (n - 1.0) + math.lgamma(n)
        return (head + (scores - logs).sum(dim=-1) - scores.logsumexp(dim=-1) * float(n)).where(fits, -math.inf)

    def entropy(self) -> Tensor[B]:
        """Raise: there is none in closed form."""
        self._refuse_method("entropy")

    def valid(self: RelaxedOneHotCategorical[Autodiff[I]]) -> RelaxedOneHotCategorical[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_share(b: Any, p: Float, total: Float) -> Float:
    return b.sub(log_of(b, p), b.log(total))


def _surprise(b: Any, p: Float, log_p: Float) -> Float:
    return b.neg(times_log(b, p, log_p))


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categoricals(p: OfClasses[B, Any], q: OfClasses[B, Any]) -> Tensor[B]:
    return relative_entropy(p._shares(), q._shares(), p._log_probs(), q._log_probs()).sum(dim=-1)
