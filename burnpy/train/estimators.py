"""`Classifier` and `Regressor`: models as estimators of scikit-learn, which a `Learner` trains on arrays.

This module imports scikit-learn; `burnpy.train` imports it at the first use of an estimator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from burnpy.autodiff.autodiff import Autodiff
from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, NotTrackedError, ShapeError, a
from burnpy.backend.lazy import needed
from burnpy.data.collate import collate
from burnpy.data.dataset import ArrayDataset, Dataset
from burnpy.data.loader import Loader
from burnpy.metrics.classification import Accuracy
from burnpy.nn.layers.hard_activation import Relu
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.sequential import Sequential
from burnpy.nn.module import Module
from burnpy.optim.lr_schedule_base import ConstantLr, LrSchedule
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.optimizers.adam import AdamW
from burnpy.tensor.call_errors import explained, need_flag
from burnpy.tensor.generator import Generator, default_generator
from burnpy.tensor.losses import cross_entropy
from burnpy.tensor.tensor import Tensor
from burnpy.train.learner import Learner
from burnpy.train.train_step import Step
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from burnpy.optim.gradients.grads_params import GradientsParams
    from burnpy.train.callback import Callback
    from burnpy.train.learner import Logger

    class BaseEstimator:
        """The methods of scikit-learn's class, which has no types."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102  # scikit-learn documents these

        def set_params(self, **params: Any) -> Self: ...  # noqa: D102

        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        """As above."""

        def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...  # noqa: D102

    RegressorMixin = ClassifierMixin
else:
    _base = needed("sklearn.base", "an estimator of burnpy.train", "scikit-learn", "sklearn")
    BaseEstimator, ClassifierMixin, RegressorMixin = _base.BaseEstimator, _base.ClassifierMixin, _base.RegressorMixin

checks: Any = import_module("sklearn.utils.validation")
labeling: Any = import_module("sklearn.utils.multiclass")
"""The functions by which estimators check their input, in scikit-learn's words."""


@explained
def mlp(n_features: int, n_outputs: int, *, device: B | type[B], hidden: Sequence[int] = (100,)) -> Sequential[B]:
    """Make a multilayer perceptron with ReLU, the default model of `Classifier` and `Regressor`.

    Args:
        n_features: the size of the input.
        n_outputs: the size of the output.
        device: the device.
        hidden: the sizes of the hidden layers, as in ``Classifier(partial(mlp, hidden=(64, 64)))``.

    >>> mlp(4, 3, device=NumPy, hidden=(8,)).num_params
    67
    """
    layers: list[Any] = []
    for inputs, outputs in pairwise([n_features, *hidden]):
        layers += [Linear(inputs, outputs, device=device), Relu()]
    return Sequential(*layers, Linear([n_features, *hidden][-1], n_outputs, device=device))


@dataclass(frozen=True)
class MeanLoss:
    """A training and validation step: the mean of the losses of samples, times their weights if the batch has some."""

    loss: Callable[[Any, Any], Any]
    n_outputs: int
    is_classifier: bool

    def __call__(self, model: Any, batch: Any) -> Step[Any]:
        """Return the mean loss, and for classes the accuracy."""
        outputs, expected = model(batch.x), (len(batch), self.n_outputs)
        if outputs.shape != expected:
            each = "class" if self.is_classifier else "target"
            raise ShapeError(f"model= returned shape {outputs.shape}; expected {expected}, an output for each {each}")
        losses = self.loss(outputs, batch.y)
        if not isinstance(losses, Tensor) or losses.shape[:1] != (len(batch),):
            got = f"shape {losses.shape}" if isinstance(losses, Tensor) else a(type(losses).__name__)
            raise ShapeError(f"loss= returned {got}; expected a loss for each of {len(batch)} samples, not their mean")
        if len(losses.shape) > 1:
            losses = losses.flatten(1).mean(dim=1)
        losses = losses * batch.weight if "weight" in batch else losses
        metrics: Any = {"accuracy": Accuracy.of(outputs, batch.y)} if self.is_classifier else {}
        return Step(losses.mean(), **metrics)


@dataclass(frozen=True)
class LaterLr(LrSchedule):
    """A schedule from one of its steps on, for a fit that continues an earlier one."""

    schedule: LrSchedule
    start: int

    def at(self, step: int) -> float:
        """Return the learning rate of a step of this fit."""
        return self.schedule.at(self.start + step)


class Estimator(BaseEstimator):
    """The base class of `Classifier` and `Regressor`: their settings, and training and prediction on arrays."""

    model_: Any  #: the trained model, on the device
    history_: tuple[Mapping[str, float], ...]  #: the values of each epoch: "train/loss", "valid/loss", "lr" and others
    n_features_in_: int
    feature_names_in_: NDArray[Any]  #: the names of the columns, if X was a frame

    _check_of_targets: ClassVar[Mapping[str, bool]] = {}  # for scikit-learn's validate_data

    @partial(explained, flags=False)  # scikit-learn's convention: `fit` checks the arguments
    def __init__(
        self,
        model: Callable[..., Module[Any]] = mlp,
        *,
        optim: Optimizer | None = None,
        lr: LrSchedule | float = 0.003,
        epochs: int = 50,
        batch_size: int = 64,
        device: Backend | type[Backend] | None = None,
        dtype: str | None = None,
        loss: Callable[[Any, Any], Any] | None = None,
        clip: Callable[[GradientsParams[Any]], GradientsParams[Any]] | None = None,
        validation_fraction: float = 0.0,
        callbacks: Sequence[Callback | Callable[[Any], Any]] = (),
        loggers: Sequence[Logger] = (),
        compiled: bool = False,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.optim = optim
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.device = device
        self.dtype = dtype
        self.loss = loss
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.callbacks = callbacks
        self.loggers = loggers
        self.compiled = compiled
        self.warm_start = warm_start
        self.random_state = random_state

    @abstractmethod
    def _step(self) -> MeanLoss:
        """Return the training and validation step."""

    @abstractmethod
    def _targets(self, y: NDArray[Any], dtype: Any, is_first: bool, classes: Any) -> NDArray[Any]:
        """Return the targets as the loss takes them; with ``is_first``, note the classes or the number of outputs."""

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train a new model; with ``warm_start``, train the model of the last fit further.

        Args:
            X: the samples, of shape (n, features): an array, or a frame of pandas or Polars.
            y: the target of each sample.
            sample_weight: the weight of each sample; samples of weight 0 are left out.

        Raises:
            ValueError: X or y has a wrong shape, NaN or infinite values, or a weight is negative.
            TypeError: X is sparse.
            KeyboardInterrupt: Ctrl-C was pressed, and the optimizer step is complete.
        """
        further = need_flag(self.warm_start, "warm_start", "fit") and hasattr(self, "model_")
        return self._fitted(X, y, sample_weight, self.epochs, not further)

    def _fitted(self, X: Any, y: Any, sample_weight: Any, epochs: int, is_first: bool, classes: Any = None) -> Self:
        """Train for some epochs; with ``is_first`` a new model, of ``classes`` if y has not all of them."""
        x, y, weight = self._samples(X, y, sample_weight, is_first)
        y = self._targets(y, x.dtype, is_first, classes)
        data = ArrayDataset(x=x, y=y, **({} if weight is None else {"weight": weight}))
        if is_first:
            self._random = checks.check_random_state(self.random_state)
        seed, device = int(self._random.randint(2**31 - 1)), self._device()
        generator = default_generator(device)
        before = generator.get_state()
        generator.set_state(Generator(seed).get_state())  # for initial weights and dropout
        try:
            if is_first:
                self.model_ = self._made(device, x.dtype)
                self._optim, self._steps, self.history_ = AdamW() if self.optim is None else self.optim, 0, ()
            self._train(data, epochs, seed)
        finally:
            generator.set_state(before)
        return self

    def _train(self, data: Dataset[Any], epochs: int, seed: int) -> None:
        step, held, fraction = self._step(), None, self.validation_fraction
        if not 0.0 <= fraction < 1.0:
            raise ArgumentError(f"validation_fraction={fraction!r}; expected a number from 0 to below 1")
        if fraction:
            share = 1.0 - fraction
            data, rest = data.split(share, seed=seed, stratify="y" if step.is_classifier else None)
            if not len(data) or not len(rest):
                raise ArgumentError(
                    f"validation_fraction={fraction!r} leaves {len(data)} samples for training and "
                    f"{len(rest)} for validation; expected at least one each"
                )
            held = Loader(rest, collate(device=self.model_.valid().device), batch_size=self.batch_size)
        train = Loader(data, collate(device=self.model_.device), batch_size=self.batch_size, shuffle=True, seed=seed)
        learner: Learner[Any, Any, Any, Any] = Learner(
            step,
            None if held is None else step,
            optim=self._optim,
            lr=LaterLr(self.lr if isinstance(self.lr, LrSchedule) else ConstantLr(self.lr), self._steps),
            clip=self.clip,
            callbacks=self.callbacks,
            loggers=self.loggers,
            sanity=0,
            compiled=self.compiled,
        )
        result = learner.fit(self.model_, train, held, epochs=epochs)
        self.model_, self._optim = result.model, result.optim
        self._steps, self.history_ = self._steps + result.step, (*self.history_, *result.history)
        if result.stopped == "interrupted":  # a search would begin the next fit
            raise KeyboardInterrupt

    def _device(self) -> Backend:
        if self.device is None:
            from burnpy.backend import NumPy

            return Autodiff(NumPy())
        device = device_of(self.device)
        if not device.differentiates:
            raise NotTrackedError(f"device={device} records no graph; write device=Autodiff[{device}] to train on it")
        return device

    def _made(self, device: Backend, dtype: Any) -> Module[Any]:
        """Return a new model, in the dtype of the samples."""
        make: object = self.model
        if isinstance(make, Module) or not callable(make):
            raise KindError(
                "model= takes a function or a class that makes a model, called as model(n_features, n_outputs, "
                f"device=device), got {a(type(make).__name__)}"
            )
        model: object = make(self.n_features_in_, self._step().n_outputs, device=device)
        if not isinstance(model, Module):
            raise KindError(f"model= returned {a(type(model).__name__)}; expected a burnpy.nn.Module")
        return model.astype(dtype)

    def _dtypes(self, is_first: bool) -> list[Any]:
        """Return the dtypes that samples keep; others are converted to the first."""
        if not is_first:
            return [next(param.dtype for param in self.model_.params())]
        if self.dtype is None:
            return [np.float64, np.float32]
        if self.dtype not in ("float32", "float64"):
            raise DTypeError(f"dtype={self.dtype!r:.80}; expected 'float32', 'float64', or None for the dtype of X")
        return [np.dtype(self.dtype)]

    def _samples(
        self, X: Any, y: Any, sample_weight: Any, is_first: bool
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """Return the samples that have a weight, their targets, and their weights, whose mean is 1; None without."""
        dtypes = self._dtypes(is_first)
        x, y = checks.validate_data(self, X, y, reset=is_first, dtype=dtypes, **self._check_of_targets)
        if sample_weight is None:
            return x, y, None
        weight = checks._check_sample_weight(sample_weight, x, dtype=x.dtype, ensure_non_negative=True)
        used = np.flatnonzero(weight)
        if not len(used):
            raise ArgumentError("Sample weights must contain at least one non-zero number.")
        if len(used) < len(weight):
            x, y, weight = x[used], y[used], weight[used]
        return x, y, weight / weight.mean()

    def _outputs(self, X: Any, of: Callable[[Tensor[Any]], Tensor[Any]]) -> NDArray[Any]:
        """Return a function of the model's outputs for the samples."""
        checks.check_is_fitted(self, "model_")
        x = checks.validate_data(self, X, reset=False, dtype=self._dtypes(False))
        model, size = self.model_.valid(), max(self.batch_size, 1024)  # larger batches are faster
        batches = (x[start : start + size] for start in range(0, len(x), size))
        return np.concatenate([of(model(Tensor.from_data(batch, device=model.device))).to_numpy() for batch in batches])


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
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
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
        labeling._check_partial_fit_first_call(self, classes)
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
        labeling.check_classification_targets(y)
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
