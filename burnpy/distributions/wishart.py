"""Distributions of matrices: the Wishart distribution, and Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.distributions.distribution import Reparametrized, doubled, in_double, register_kl
from burnpy.distributions.multivariate_normal import factor_given
from burnpy.distributions.parameters import CHOLESKY_FACTOR, Parameter, ParameterLike
from burnpy.linalg.decompositions import cholesky_ex
from burnpy.linalg.equations import cholesky_inverse, solve_triangular
from burnpy.nn.module import rebound
from burnpy.special import multigammaln
from burnpy.tensor.joining import cat
from burnpy.tensor.operand_checks import refuse_unless
from burnpy.tensor.random_parameters import POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Wishart(Reparametrized[B]):
    """The Wishart distribution of positive definite matrices: the sum of x · xᵀ for ``df`` normal vectors x of size n.

    Args:
        df: the degrees of freedom, above n - 1; they need not be whole.
        covariance_matrix: the covariance of the vectors, (…, n, n).
        precision_matrix: its inverse, in its place.
        scale_tril: its Cholesky factor, in its place, the parameter that can be learned.
        validate: whether to check the numbers of ``df`` and ``scale_tril``.

    Raises:
        LinAlgError: a matrix is not positive definite.
        ArgumentError: not exactly one of the three is given, or ``df`` is too small.

    >>> d = Wishart(3.0, Tensor[NumPy].eye(2))
    >>> d.mean.tolist(), d.sample((5,)).shape
    ([[3.0, 0.0], [0.0, 3.0]], (5, 2, 2))
    """

    df = Parameter(POSITIVE)
    scale_tril = Parameter(CHOLESKY_FACTOR, event_dims=2)

    def __init__(
        self,
        df: ParameterLike[B],
        covariance_matrix: Tensor[B] | None = None,
        *,
        precision_matrix: Tensor[B] | None = None,
        scale_tril: ParameterLike[B] | None = None,
        validate: bool = True,
    ) -> None:
        factor = factor_given("Wishart", covariance_matrix, precision_matrix, scale_tril)
        self._hold(None, validate, df=df, scale_tril=factor)
        if validate:
            n = self.event_shape[-1]
            error = ArgumentError(f"Wishart() got an element of df that is not above n - 1 = {n - 1}")
            refuse_unless(self.df._device, (self.df.detach() > n - 1.0)._primitive, error)

    @property
    def event_shape(self) -> Shape:
        """(n, n)."""
        return self.scale_tril.shape[-2:]

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw matrices; gradients of ``df`` hold the probabilities of their factors' diagonals fixed.

        Source: Smith and Hocking, Algorithm AS 53: Wishart Variate Generator, 1972.
        """
        shape = self._shape(sample_shape)
        settings: Any = {"dtype": self._dtype, "device": self.device}
        half = 0.5 * (self.df.unsqueeze(-1) - Tensor.arange(shape[-1], **settings))
        squares = Tensor.gamma(shape[:-1], half.expand(shape[:-1]), 0.5, generator=generator)
        below = Tensor.normal(shape, generator=generator, **settings).tril(-1)
        root = self.scale_tril @ (below + squares.sqrt().diag_embed())
        return root @ root.mT

    @in_double
    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density at matrices (…, n, n); -inf for one that is not positive definite."""
        factor, info = cholesky_ex(value)
        fits = info == 0
        eye = Tensor.eye(value.shape[-1], dtype=factor.dtype, device=value.device)
        factor = factor.where(fits.unsqueeze(-1).unsqueeze(-1), eye)
        n, df = float(value.shape[-1]), self.df
        batch = factor.shape[:-2] if factor.ndim >= self.scale_tril.ndim else self.scale_tril.shape[:-2]
        spread = solve_triangular(self.scale_tril, factor.expand((*batch, *factor.shape[-2:])), upper=False)
        powers = (df - n - 1.0) * _log_diagonal(factor) - df * _log_diagonal(self.scale_tril)
        norm = df * (0.5 * n * math.log(2.0)) + multigammaln(df * 0.5, int(n))
        return (powers - 0.5 * spread.square().sum(dim=(-2, -1)) - norm).where(fits, -math.inf)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        n, df = self.event_shape[-1], self.df
        log_det = 2.0 * _log_diagonal(self.scale_tril) + n * math.log(2.0)
        rest = multigammaln(df * 0.5, n) - 0.5 * (df - n - 1.0) * _multidigamma(df * 0.5, n)
        return 0.5 * (n + 1.0) * log_det + rest + 0.5 * n * df

    @property
    def covariance_matrix(self) -> Tensor[B]:
        """The covariance of the normal vectors."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor[B]:
        """The inverse of the covariance."""
        return cholesky_inverse(self.scale_tril)

    @property
    def mean(self) -> Tensor[B]:
        """df · covariance_matrix."""
        return self.df.unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def mode(self) -> Tensor[B]:
        """(df - n - 1) · covariance_matrix; NaN for df below n + 1."""
        excess = self.df - (self.event_shape[-1] + 1.0)
        return excess.where(excess >= 0.0, math.nan).unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def variance(self) -> Tensor[B]:
        """The variance of each element, df · (vᵢⱼ² + vᵢᵢ · vⱼⱼ) for the covariance v."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df.unsqueeze(-1).unsqueeze(-1) * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def valid(self: Wishart[Autodiff[I]]) -> Wishart[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class LKJCholesky(Reparametrized[B]):
    """The distribution of Cholesky factors L of correlation matrices, with density det(L · Lᵀ)^(concentration - 1).

    For a concentration of 1 all correlation
    matrices are equally probable.

    Args:
        dim: n, the size of the matrices, at least 2.
        concentration: above 0.
        device, validate: see `Distribution`.

    Source: Lewandowski, Kurowicka and Joe, Generating Random Correlation Matrices, 2009, section 3.2.

    >>> d = LKJCholesky(3, 2.0, device=NumPy)
    >>> factor = d.sample()
    >>> (factor @ factor.mT).diagonal().round(decimals=4).tolist(), d.log_prob(factor).shape
    ([1.0, 1.0, 1.0], ())
    """

    concentration = Parameter(POSITIVE)

    def __init__(
        self,
        dim: int,
        concentration: ParameterLike[B] = 1.0,
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        argument: object = dim
        if not isinstance(argument, int) or isinstance(argument, bool) or argument < 2:
            raise ArgumentError(f"LKJCholesky() got dim={dim!r:.80}; expected an int from 2 on")
        self._hold(device, validate, concentration=concentration)
        self.dim = dim

    @property
    def event_shape(self) -> Shape:
        """(n, n)."""
        return (self.dim, self.dim)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw factors row by row: a point of a sphere, whose radius has a beta distribution."""
        shape = self._shape(sample_shape)
        settings: Any = {"dtype": self._dtype, "device": self.device}
        order = Tensor.arange(self.dim - 1, **settings)
        first, second = 0.5 + 0.5 * order, self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 2.0 - order)
        rows = (*shape[:-2], self.dim - 1)
        logs = [Tensor.gamma(rows, a.expand(rows), log=True, generator=generator) for a in (first, second)]
        odds = logs[0] - logs[1]  # of the squares of the radii
        radius, rest = (0.5 * -(-odds).softplus()).exp(), (0.5 * -odds.softplus()).exp()
        points = Tensor.normal((*rows, self.dim - 1), generator=generator, **settings).tril()
        points = points / points.square().sum(dim=-1, keepdim=True).sqrt() * radius.unsqueeze(-1)
        lower = cat([points, points[..., :1].zeros_like()], dim=-1) + _shifted_diagonal(rest)
        top = Tensor.zeros((self.dim,), **settings).at[0].set(1.0).expand((*shape[:-2], 1, self.dim))
        return cat([top, lower], dim=-2)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density at factors (…, n, n); -inf for a matrix that is none."""
        if value.shape[-2:] != self.event_shape:
            raise ShapeError(f"LKJCholesky.log_prob() got shape {value.shape}; expected (…, {self.dim}, {self.dim})")
        diagonal = value.diagonal(dim1=-2, dim2=-1)
        tolerance = {8: 1e-6, 4: 1e-4}.get(value.dtype.itemsize, 2e-2)
        unit = ((value.square().sum(dim=-1) - 1.0).abs() <= tolerance).all(dim=-1)
        fits = unit & (diagonal > 0.0).all(dim=-1) & (value.triu(1) == 0.0).all(dim=(-2, -1))
        return self._log_density(diagonal.where(fits.unsqueeze(-1), 1.0)[..., 1:]).where(fits, -math.inf)

    @in_double
    def _log_density(self, diagonal: Tensor[B]) -> Tensor[B]:
        n, eta = self.dim, self.concentration
        order = n - 1.0 - Tensor.arange(1, n, dtype="float64", device=self.device)
        powers = ((2.0 * (eta.unsqueeze(-1) - 1.0) + order) * diagonal.log()).sum(dim=-1)
        alpha = eta + 0.5 * (n - 1.0)
        norm = 0.5 * (n - 1.0) * math.log(math.pi) + multigammaln(alpha - 0.5, n - 1) - alpha.lgamma() * (n - 1.0)
        return powers - norm

    def valid(self: LKJCholesky[Autodiff[I]]) -> LKJCholesky[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _shifted_diagonal(x: Tensor[B]) -> Tensor[B]:
    """Return matrices (…, n - 1, n) with the vectors (…, n - 1) to the right of the diagonal."""
    square = x.diag_embed()
    return cat([square[..., :1].zeros_like(), square], dim=-1)


def _log_diagonal(factor: Tensor[B]) -> Tensor[B]:
    """Return the logarithm of the determinant of a triangular matrix."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)


def _multidigamma(x: Tensor[B], n: int) -> Tensor[B]:
    """Return the derivative of `multigammaln`."""
    return (x.unsqueeze(-1) - 0.5 * Tensor.arange(n, dtype=x.dtype, device=x.device)).digamma().sum(dim=-1)


@register_kl(Wishart, Wishart)
@doubled
def _wisharts(p: Wishart[B], q: Wishart[B]) -> Tensor[B]:
    n = p.event_shape[-1]
    trace = (q.precision_matrix * p.covariance_matrix).sum(dim=(-2, -1))
    log_dets = _log_diagonal(q.scale_tril) - _log_diagonal(p.scale_tril)
    norms = multigammaln(q.df * 0.5, n) - multigammaln(p.df * 0.5, n)
    means = 0.5 * (p.df - q.df) * _multidigamma(p.df * 0.5, n)
    return q.df * log_dets + 0.5 * p.df * (trace - n) + norms + means
