"""The multivariate normal distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.numerics.incomplete import HALF_LOG_TAU
from burnpy.distributions.distribution import Reparametrized, register_kl
from burnpy.distributions.formulas import excess
from burnpy.distributions.parameters import CHOLESKY_FACTOR, Parameter, ParameterLike
from burnpy.linalg.decompositions import cholesky
from burnpy.linalg.equations import cholesky_inverse, solve_triangular
from burnpy.nn.module import rebound
from burnpy.tensor.random_parameters import FINITE
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class MultivariateNormal(Reparametrized[B]):
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

    loc = Parameter(FINITE, event_dims=1)
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
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        names = [name for name, value in given.items() if value is not None]
        if len(names) != 1:
            raise ArgumentError(
                f"MultivariateNormal() got {' and '.join(names) or 'no matrix'}; expected one of {', '.join(given)}"
            )
        if scale_tril is None:
            matrix: Any = given[names[0]]
            if not isinstance(matrix, Tensor):
                raise KindError(
                    f"MultivariateNormal() got {names[0]}={describe(matrix)}; expected a float Tensor; what is learned "
                    "is scale_tril"
                )
            scale_tril = cholesky(matrix) if precision_matrix is None else _factor_of_inverse(matrix)
        self._hold(None, validate, loc=loc, scale_tril=scale_tril)
        size, matrix_shape = self.loc.shape[-1], self.scale_tril.shape
        if matrix_shape[-2:] != (size, size):
            raise ShapeError(
                f"MultivariateNormal() got loc of shape {self.loc.shape} and a matrix of shape {matrix_shape}; "
                f"expected (…, {size}, {size})"
            )

    @property
    def event_shape(self) -> Shape:
        """(n,)."""
        return self.loc.shape[-1:]

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw loc + scale_tril · z for standard normal z."""
        shape = self._shape(sample_shape)
        z = Tensor.normal(shape, dtype=self._dtype, generator=generator, device=self.device)
        return self.loc + (self.scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density at vectors (…, n)."""
        distance = _whitened(self.scale_tril, value - self.loc).square().sum(dim=-1)
        return -0.5 * distance - self._half_log_det() - self.loc.shape[-1] * HALF_LOG_TAU

    def _half_log_det(self) -> Tensor[B]:
        """Return half the logarithm of the covariance's determinant."""
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)

    def entropy(self) -> Tensor[B]:
        """Return log det(scale_tril) + n / 2 · log(2πe)."""
        return (self._half_log_det() + self.loc.shape[-1] * (0.5 + HALF_LOG_TAU)).expand(self.batch_shape)

    @property
    def covariance_matrix(self) -> Tensor[B]:
        """scale_tril · scale_trilᵀ."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor[B]:
        """The inverse of the covariance."""
        return cholesky_inverse(self.scale_tril)

    @property
    def mean(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand((*self.batch_shape, *self.event_shape))

    @property
    def mode(self) -> Tensor[B]:
        """The location."""
        return self.mean

    @property
    def variance(self) -> Tensor[B]:
        """The diagonal of the covariance."""
        return self.scale_tril.square().sum(dim=-1).expand((*self.batch_shape, *self.event_shape))

    def valid(self: MultivariateNormal[Autodiff[I]]) -> MultivariateNormal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


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
    return solve_triangular(reverse, identity.expand(precision.shape), upper=False)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: MultivariateNormal[B], q: MultivariateNormal[B]) -> Tensor[B]:
    shape = (*(p.batch_shape if len(p.batch_shape) > len(q.batch_shape) else q.batch_shape), 1, 1)
    factor = q.scale_tril
    change = (p.scale_tril - factor).expand((*shape[:-2], *factor.shape[-2:]))
    change = solve_triangular(factor, change, upper=False)  # the factor of p in units of q's, less 1
    shift = solve_triangular(factor, (p.loc - q.loc).unsqueeze(-1), upper=False)
    diagonal = change.diagonal(dim1=-2, dim2=-1)
    square = excess(diagonal * (diagonal + 2.0)).sum(dim=-1) + change.tril(-1).square().sum(dim=(-2, -1))
    return 0.5 * (square + shift.square().sum(dim=(-2, -1)))
