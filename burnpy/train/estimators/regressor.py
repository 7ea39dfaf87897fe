"""`Regressor`: a model as a regressor of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.tensor import Tensor
from burnpy.train.estimators.estimator import Estimator, MeanLoss, RegressorMixin
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def squared_error(outputs: Tensor[B], targets: Tensor[B]) -> Tensor[B]:
    """Return (outputs - targets)², element by element."""
    return (outputs - targets).square()


class Regressor(RegressorMixin, Estimator):
    """A regressor of scikit-learn around a model that returns a number for each target.

    y has shape (n,), or (n, targets). After `fit`, ``model_`` is the trained model, and ``history_`` has the values of
    each epoch. It needs scikit-learn: ``pip install "burnpy[sklearn]"``. Targets far from 0 or of another size than 1
    train slowly: standardize them with ``sklearn.compose.TransformedTargetRegressor``.

    The arguments are those of `Classifier`; ``loss`` is a function of outputs and targets of shape (n, targets), by
    default their squared difference.

    >>> X = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> line = Regressor(epochs=100, lr=0.01, random_state=0).fit(X, 2.0 * X[:, 0])
    >>> line.predict([[0.5]]).round(1).tolist(), line.score(X, 2.0 * X[:, 0]) > 0.99
    ([1.0], True)
    """

    n_outputs_: int  #: the number of targets

    _check_of_targets: ClassVar[Mapping[str, bool]] = {"multi_output": True, "y_numeric": True}

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train for one epoch on some samples, from the present model on; the arguments are those of `fit`."""
        return self._fitted(X, y, sample_weight, 1, not hasattr(self, "model_"))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the outputs for the samples, in the shape of the y of `fit`."""
        outputs = self._outputs(X, lambda outputs: outputs)
        return outputs[:, 0] if self._is_flat else outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _step(self) -> MeanLoss:
        return MeanLoss(self.loss or squared_error, self.n_outputs_, False)

    def _targets(self, y: NDArray[Any], dtype: Any, is_first: bool, classes: Any) -> NDArray[Any]:
        columns = y.reshape(len(y), -1).astype(dtype)
        if is_first:
            self.n_outputs_, self._is_flat = columns.shape[1], y.ndim == 1
        if columns.shape[1] != self.n_outputs_:
            raise ArgumentError(f"y has {columns.shape[1]} targets, but this Regressor was fitted to {self.n_outputs_}")
        return columns
