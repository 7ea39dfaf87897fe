"""The multivariate normal distribution, by any covariance and by one of low rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.numerics.incomplete import HALF_LOG_TAU
from burnpy.distributions.distribution import Reparametrized, doubled, in_double, register_kl
from burnpy.distributions.formulas import excess
from burnpy.distributions.parameters import CHOLESKY_FACTOR, Parameter, ParameterLike
from burnpy.linalg.decompositions import cholesky
from burnpy.linalg.equations import cholesky_inverse, solve_triangular
from burnpy.nn.module import rebound
from burnpy.tensor.random_parameters import FINITE, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class _Normals(Reparametrized[B]):
    """The base class of normal distributions of vectors."""

    loc = Parameter(FINITE, event_dims=1)

    @property
    def event_shape(self) -> Shape:
        """(n,)."""
        return self.loc.shape[-1:]

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density at vectors (…, n)."""
        squares = self._squares(value - self.loc)
        return -0.5 * squares - self._half_log_det() - self.loc.shape[-1] * HALF_LOG_TAU

    def entropy(self) -> Tensor[B]:
        """Return half the logarithm of the covariance's determinant, and n / 2 · log(2πe)."""
        return (self._half_log_det() + self.loc.shape[-1] * (0.5 + HALF_LOG_TAU)).expand(self.batch_shape)

    @property
    def mean(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand((*self.batch_shape, *self.event_shape))

    @property
    def mode(self) -> Tensor[B]:
        """The location."""
        return self.mean

    def _squares(self, x: Tensor[B]) -> Tensor[B]:
        """Return xᵀ · precision · x for vectors (…, n)."""
        raise NotImplementedError

    def _half_log_det(self) -> Tensor[B]:
        """Return half the logarithm of the covariance's determinant."""
        raise NotImplementedError


class MultivariateNormal(_Normals[B]):
    """The normal distribution of vectors of size n.

    Args:
        loc: the mean, (…, n).
        covariance_matrix: the covariance, (…, n, n), symmetric and positive definite.
        precision_matrix: its inverse, in its place.
        scale_tril: the covariance's Cholesky factor, in its place, the parameter that can be learned.
        validate: whether to check the numbers of ``loc`` and ``scale_tril``.

    Raises:
        LinAlgError: a matrix is not positive definite.
        ArgumentError: not exactly one of the three is given, or ``scale_tril`` is no Cholesky factor.

    >>> T = Tensor[NumPy]
    >>> d = MultivariateNormal(T.zeros((2,)), T.from_data([[2.0, 1.0], [1.0, 2.0]]))
    >>> round(d.log_prob(T.from_data([1.0, -1.0])).item(), 4), d.sample((5,)).shape
    (-3.3872, (5, 2))
    """

    scale_tril = Parameter(CHOLESKY_FACTOR, event_dims=2)

    def __init__(
        self,
        loc: ParameterLike[B],
        covariance_matrix: Tensor[B] | None = None,
        *,
        precision_matrix: Tensor[B] | None = None,
        scale_tril: ParameterLike[B] | None = None,
        validate: bool = True,
    ) -> None:
        factor = factor_given("MultivariateNormal", covariance_matrix, precision_matrix, scale_tril)
        self._hold(None, validate, loc=loc, scale_tril=factor)
        size, matrix_shape = self.loc.shape[-1], self.scale_tril.shape
        if matrix_shape[-2:] != (size, size):
            raise ShapeError(
                f"MultivariateNormal() got loc of shape {self.loc.shape} and a matrix of shape {matrix_shape}; "
                f"expected (…, {size}, {size})"
            )

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw loc + scale_tril · z for standard normal z."""
        shape = self._shape(sample_shape)
        z = Tensor.normal(shape, dtype=self._dtype, generator=generator, device=self.device)
        return self.loc + (self.scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def _squares(self, x: Tensor[B]) -> Tensor[B]:
        return _whitened(self.scale_tril, x).square().sum(dim=-1)

    def _half_log_det(self) -> Tensor[B]:
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)

    @property
    def covariance_matrix(self) -> Tensor[B]:
        """scale_tril · scale_trilᵀ."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor[B]:
        """The inverse of the covariance."""
        return cholesky_inverse(self.scale_tril)

    @property
    def variance(self) -> Tensor[B]:
        """The diagonal of the covariance."""
        return self.scale_tril.square().sum(dim=-1).expand((*self.batch_shape, *self.event_shape))

    def valid(self: MultivariateNormal[Autodiff[I]]) -> MultivariateNormal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class LowRankMultivariateNormal(_Normals[B]):
    """The normal distribution of vectors of size n with the covariance cov_factor · cov_factorᵀ + diag(cov_diag).

    Densities and samples take the time of k columns of the factor, not of n.

    Args:
        loc: the mean, (…, n).
        cov_factor: (…, n, k), k below n.
        cov_diag: (…, n), above 0.
        validate: whether to check the numbers.

    >>> T = Tensor[NumPy]
    >>> d = LowRankMultivariateNormal(T.zeros((2,)), T.from_data([[1.0], [0.0]]), T.ones((2,)))
    >>> d.covariance_matrix.tolist(), round(d.log_prob(T.zeros((2,))).item(), 4)
    ([[2.0, 0.0], [0.0, 1.0]], -2.1845)
    """

    cov_factor = Parameter(FINITE, event_dims=2)
    cov_diag = Parameter(POSITIVE, event_dims=1)

    def __init__(
        self, loc: ParameterLike[B], cov_factor: ParameterLike[B], cov_diag: ParameterLike[B], *, validate: bool = True
    ) -> None:
        self._hold(None, validate, loc=loc, cov_factor=cov_factor, cov_diag=cov_diag)
        size = self.loc.shape[-1]
        if self.cov_factor.shape[-2] != size or self.cov_diag.shape[-1] != size:
            raise ShapeError(
                f"LowRankMultivariateNormal() got loc {self.loc.shape}, cov_factor {self.cov_factor.shape} and "
                f"cov_diag {self.cov_diag.shape}; expected (…, {size}), (…, {size}, k) and (…, {size})"
            )

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw loc + cov_factor · y + √cov_diag · z for standard normal y and z."""
        shape = self._shape(sample_shape)
        settings: Any = {"dtype": self._dtype, "generator": generator, "device": self.device}
        y = Tensor.normal((*shape[:-1], self.cov_factor.shape[-1], 1), **settings)
        z = Tensor.normal(shape, **settings)
        return self.loc + (self.cov_factor @ y).squeeze(-1) + self.cov_diag.sqrt() * z

    @in_double  # the squares are a difference of large numbers where cov_diag is small
    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density at vectors (…, n)."""
        return super().log_prob(value)

    def _weighted(self) -> Tensor[B]:
        """Return cov_factorᵀ / cov_diag."""
        return self.cov_factor.mT / self.cov_diag.unsqueeze(-2)

    def _core(self) -> Tensor[B]:
        """Return the Cholesky factor of I + cov_factorᵀ · cov_factor / cov_diag, whose size is k."""
        matrix = self._weighted() @ self.cov_factor
        return cholesky(matrix + Tensor.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device))

    def _half_log_det(self) -> Tensor[B]:
        core = self._core().diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        return core + 0.5 * self.cov_diag.log().sum(dim=-1)

    def _squares(self, x: Tensor[B]) -> Tensor[B]:
        weighted = (self._weighted() @ x.unsqueeze(-1)).squeeze(-1)
        return (x.square() / self.cov_diag).sum(dim=-1) - _whitened(self._core(), weighted).square().sum(dim=-1)

    @property
    def covariance_matrix(self) -> Tensor[B]:
        """cov_factor · cov_factorᵀ + diag(cov_diag)."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor[B]:
        """The Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor[B]:
        """The inverse of the covariance."""
        weighted = self._weighted()
        part = solve_triangular(self._core(), weighted, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    @property
    def variance(self) -> Tensor[B]:
        """The diagonal of the covariance."""
        variance = self.cov_factor.square().sum(dim=-1) + self.cov_diag
        return variance.expand((*self.batch_shape, *self.event_shape))

    def valid(self: LowRankMultivariateNormal[Autodiff[I]]) -> LowRankMultivariateNormal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def factor_given(
    owner: str, covariance: Tensor[B] | None, precision: Tensor[B] | None, factor: ParameterLike[B] | None
) -> ParameterLike[B]:
    """Return the Cholesky factor of a covariance that is given by one of three matrices."""
    given = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": factor}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ArgumentError(f"{owner}() got {' and '.join(names) or 'no matrix'}; expected one of {', '.join(given)}")
    if factor is not None:
        return factor
    matrix: Any = given[names[0]]
    if not isinstance(matrix, Tensor):
        raise KindError(
            f"{owner}() got {names[0]}={describe(matrix)}; expected a float Tensor; what is learned is scale_tril"
        )
    return cholesky(matrix) if precision is None else _factor_of_inverse(matrix)


def _whitened(factor: Tensor[B], x: Tensor[B]) -> Tensor[B]:
    """Solve factor · z = x for vectors x, (…, n); one factor for all of them in one call."""
    if factor.ndim == 2:
        columns = x.reshape(-1, x.shape[-1]).mT
        return solve_triangular(factor, columns, upper=False).mT.reshape(x.shape)
    return solve_triangular(factor, x.unsqueeze(-1), upper=False).squeeze(-1)


def _factor_of_inverse(precision: Tensor[B]) -> Tensor[B]:
    """Return the Cholesky factor of the inverse of a matrix, by the factor of the matrix with rows in reverse."""
    reverse = cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    identity = Tensor.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    # Above the diagonal, LAPACK's solution has rounding errors.
    return solve_triangular(reverse, identity.expand(precision.shape), upper=False).tril()


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: MultivariateNormal[B], q: MultivariateNormal[B]) -> Tensor[B]:
    shape = (*(p.batch_shape if len(p.batch_shape) > len(q.batch_shape) else q.batch_shape), 1, 1)
    factor = q.scale_tril
    change = (p.scale_tril - factor).expand((*shape[:-2], *factor.shape[-2:]))
    change = solve_triangular(factor, change, upper=False)  # the factor of p in units of q's, less 1
    shift = solve_triangular(factor, (p.loc - q.loc).unsqueeze(-1), upper=False)
    ratios = excess(*[d.scale_tril.diagonal(dim1=-2, dim2=-1) for d in (p, q)]).sum(dim=-1)
    return ratios + 0.5 * (change.square().sum(dim=(-2, -1)) + shift.square().sum(dim=(-2, -1)))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@doubled
def _low_rank_normals(p: Any, q: Any) -> Any:
    size, shift = p.loc.shape[-1], q._squares(p.loc - q.loc)
    trace = (q.precision_matrix * p.covariance_matrix).sum(dim=(-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace - float(size) + shift)
