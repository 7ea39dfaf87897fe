"""`Classifier` and `Regressor`: models as estimators of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.losses import cross_entropy
from burnpy.tensor.tensor import Tensor
from burnpy.train.estimator_base import ClassifierMixin, Estimator, MeanLoss, RegressorMixin
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_labels: Any = import_module("sklearn.utils.multiclass")


def class_error(logits: Tensor[B], classes: Any) -> Tensor[B]:
    """Return the cross entropy of each sample."""
    return cross_entropy(logits, classes, reduction="none")


class Classifier(ClassifierMixin, Estimator):
    """A classifier of scikit-learn around a model that returns a logit for each class.

    After `fit`, ``classes_`` has the labels, ``model_`` the trained model, and ``history_`` the values of each epoch.
    It needs scikit-learn: ``pip install "burnpy[sklearn]"``.

    Args:
        model: a function or class that makes the model, called as ``model(n_features, n_classes, device=device)``. To
            pickle the estimator it must be importable: a class, or a `functools.partial` of a function.
        optim: the optimizer; None for `burnpy.optim.AdamW`.
        lr: the learning rate, or a schedule of it by optimizer steps.
        epochs: the number of epochs of a fit.
        batch_size: the number of samples in a batch.
        device: where to train, as ``Autodiff[CuPy]``; None for ``Autodiff[NumPy]``.
        dtype: the dtype of the model, "float32" or "float64", to which X is converted; None for X's own, which is
            float64 unless X is float32.
        loss: a function of the outputs and the targets (the numbers of the classes) that returns a loss for each
            sample; None for `burnpy.cross_entropy`.
        clip: clipping of gradients, as in `Learner`.
        validation_fraction: the share of samples held out to compute "valid/loss" and "valid/accuracy", in ``history_``
            and for callbacks such as ``EarlyStopping("valid/loss")``.
        callbacks: as in `Learner`.
        loggers: as in `Learner`.
        compiled: as in `Learner`.
        warm_start: whether `fit` trains the model of the last fit further.
        random_state: an int or a ``numpy.random.RandomState`` that determines the initial weights, the order of the
            samples, dropout, and the samples held out; None for NumPy's global state.

    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> xor = Classifier(lr=0.03, random_state=0).fit(X, ["even", "odd", "odd", "even"])
    >>> xor.predict(X).tolist(), xor.predict_proba(X).shape
    (['even', 'odd', 'odd', 'even'], (4, 2))
    """

    classes_: NDArray[Any]  #: the labels, sorted

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on some samples, from the present model on.

        Args:
            X: samples, as for `fit`.
            y: their labels.
            classes: all labels that there will be; needed in the first call.
            sample_weight: their weights.

        Raises:
            ValueError: there are no ``classes`` in the first call, or y has others.
        """
        _labels._check_partial_fit_first_call(self, classes)
        return self._fitted(X, y, sample_weight, 1, not hasattr(self, "model_"), self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of the largest logit of each sample."""
        logits = self._outputs(X, lambda logits: logits)
        labels: NDArray[Any] = self.classes_[logits.argmax(1)]
        return labels

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the labels, of shape (n, classes): the softmax of the logits."""
        return self._outputs(X, lambda logits: logits.softmax(dim=1))

    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of the probabilities, finite also where a probability is 0."""
        return self._outputs(X, lambda logits: logits.log_softmax(dim=1))

    def _step(self) -> MeanLoss:
        return MeanLoss(self.loss or class_error, len(self.classes_), True)

    def _targets(self, y: NDArray[Any], dtype: Any, is_first: bool, classes: Any) -> NDArray[Any]:
        _labels.check_classification_targets(y)
        labels = np.unique(y)
        if is_first:
            known = labels if classes is None else classes
            if len(known) < 2:
                raise ArgumentError(
                    f"Classifier needs samples of at least 2 classes in the data, but the data contains only one "
                    f"class: {known[0]}"
                )
            self.classes_ = known
        if not np.isin(labels, self.classes_).all():
            raise ArgumentError(
                f"`y` has classes not in `self.classes_`. `self.classes_` has {self.classes_}. 'y' has {labels}."
            )
        return np.searchsorted(self.classes_, y)


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
