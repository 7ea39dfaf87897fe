"""`Metric`, the base class of metrics; `total`, the sum that most hold; `decisions`, classes from predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np

from burnpy.backend.devices import innermost
from burnpy.backend.errors import ArgumentError, CallError, KindError, RecordError, ShapeError, a
from burnpy.backend.primitives import Shape
from burnpy.tensor.call_errors import Explaining, explained, refuse_attribute
from burnpy.tensor.operand_checks import in_range
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, made_of

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend


def _of_sums(made: Any) -> Any:
    """Return the ``__init__`` of a metric with an error that names `Metric.of`, which users call."""

    @wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            made(self, *args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # raised inside, by a __post_init__
                raise
            name, fields = type(self).__name__, ", ".join(self._names)
            raise CallError(f"{name}() takes its sums ({fields}); {name}.of(...) computes them from a batch") from error

    return init


@dataclass_transform(frozen_default=True, eq_default=False)
class Metric(metaclass=Explaining):
    """The base class of metrics. A subclass is a frozen dataclass, without the decorator being written.

    Fields that are tensors are sums: ``a + b`` adds them. Fields that are tuples of tensors are joined end to end, for
    metrics that need every score. All other fields are settings, which must be equal. Tensors are on the plain device,
    the innermost backend, so that a metric never holds a graph; nothing is read from the device before `value`.

    A metric of one's own has its sums as fields, a class method ``of`` that computes them, and `value`::

        class Within(Metric):
            near: Tensor[Any]
            count: Tensor[Any]

            @classmethod
            def of(cls, prediction: Tensor[Any], target: Tensor[Any], tolerance: float = 0.1) -> Self:
                near = (prediction - target).abs() <= tolerance
                return cls(near=total(near), count=total(near.ones_like()))

            def value(self) -> float:
                return (self.near / self.count).item()

    >>> from burnpy.metrics import Mean
    >>> a, b = Mean.of(Tensor[NumPy].from_data(1.0), weight=3), Mean.of(Tensor[NumPy].from_data(5.0))
    >>> (a + b).value(), sum([a, b])
    (2.0, Mean(2))
    """

    better: ClassVar[Literal["min", "max"]] = "max"
    """The direction of improvement: "max" if higher values are better."""

    _names: ClassVar[tuple[str, ...]] = ()
    """The names of the fields."""

    _classes: ClassVar[dict[str, type[Metric]]] = {}
    """All subclasses, by the names under which files refer to them."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.__init__ = _of_sums(cls.__init__)  # type: ignore[method-assign]  # with another error
        of = vars(cls).get("of")
        if isinstance(of, classmethod):
            setattr(cls, "of", classmethod(explained(of.__func__, cls)))  # noqa: B010  # each class defines its own
        cls._names = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]  # a dataclass by now
        Metric._classes[f"{cls.__module__}.{cls.__qualname__}"] = cls

    def _flatten_tree(self) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the fields: to `burnpy.func` a metric is a tree, which compiled functions may return."""
        return [value for _, value in self._named_fields()], (type(self),)

    @classmethod
    def _unflatten_tree(cls, children: Sequence[Any], rest: tuple[Any, ...]) -> Self:
        return cls(*children)

    @abstractmethod
    def value(self) -> Any:
        """Return the metric over all that it was computed from, which reads its sums from the device."""

    def into_record(self) -> dict[str, Any]:
        """Return the class's name and the fields, for `burnpy.record.save`."""
        return {"class": f"{type(self).__module__}.{type(self).__qualname__}", "fields": dict(self._named_fields())}

    @staticmethod
    @explained
    def from_record(record: Mapping[str, Any], device: Backend | type[Backend]) -> Metric:
        """Return the metric of a loaded record, with its tensors on ``device``.

        Raises:
            RecordError: no such class is defined, or it has other fields.

        >>> from burnpy.metrics import Mean
        >>> Metric.from_record(Mean.of(Tensor[NumPy].from_data([1.0, 2.0])).into_record(), NumPy)
        Mean(1.5)
        """
        name, values = record.get("class"), record.get("fields")
        known = Metric._classes.get(name) if isinstance(name, str) else None
        if known is None or not isinstance(values, Mapping):
            raise RecordError(f"the record of a metric names the class {name!r}, which is not defined here")
        if set(values) != set(known._names):
            raise RecordError(
                f"the record of {a(known.__name__)} has the fields {', '.join(map(str, values)) or '(none)'}; expected "
                f"{', '.join(known._names)}"
            )
        made = {name: _on_device(value, device) for name, value in values.items()}
        for field in fields(known):  # type: ignore[arg-type]  # a dataclass
            if str(field.type).startswith("Tensor") and not isinstance(made[field.name], TensorBase):
                shown = f"{field.name}={describe(made[field.name])}"
                raise RecordError(f"the record of {a(known.__name__)} has {shown}; expected a tensor")
        return known(**made)

    def __add__(self, other: Self) -> Self:
        """Return the metric of both together.

        Raises:
            KindError: ``other`` is not a metric of the same class.
            ArgumentError: a setting differs, such as the beta of an F-score.
            ShapeError: the sums have other shapes, as those of 3 and of 4 classes.
        """
        self._check_addable(other)
        return self._combined(other)

    def __radd__(self, other: int) -> Self:
        """Return the metric itself for ``0 + metric``, with which the built-in ``sum`` begins.

        Raises:
            KindError: ``other`` is not 0.
        """
        if other != 0:
            self._check_addable(other)
        return self

    if not TYPE_CHECKING:  # type checkers see only the attributes above
        __getattr__ = refuse_attribute

    def __repr__(self) -> str:
        value = self.value()
        return f"{type(self).__name__}({f'{value:.6g}' if isinstance(value, float) else value})"

    def _combined(self, other: Any) -> Self:
        """Return the sum of two metrics that were found to fit; overridden where fields are not plain sums."""
        return type(self)(
            **{
                name: mine + getattr(other, name) if isinstance(mine, (TensorBase, tuple)) else mine
                for name, mine in self._named_fields()
            }
        )

    def _named_fields(self) -> Iterator[tuple[str, Any]]:
        for name in self._names:
            yield name, getattr(self, name)

    def _check_addable(self, other: object) -> None:
        name = type(self).__name__
        if type(other) is not type(self):
            given = a(type(other).__name__)
            raise KindError(f"{a(name)} can be added to {a(name)} only, and was added to {given}")
        for field, mine in self._named_fields():
            theirs = getattr(other, field)
            if isinstance(mine, TensorBase):
                if mine.shape != theirs.shape:
                    raise ShapeError(
                        f"{name} was added to {name} of other sums: {field} has the shapes {mine.shape} and "
                        f"{theirs.shape}, as for different numbers of classes or outputs"
                    )
            elif not isinstance(mine, tuple) and mine != theirs:
                raise ArgumentError(f"{name} with {field}={mine!r} was added to {name} with {field}={theirs!r}")


def _on_device(value: Any, device: Any) -> Any:
    """Return a field of a record: arrays as tensors on the device, plain values as they are."""
    if isinstance(value, tuple):
        return tuple(_on_device(part, device) for part in value)
    if isinstance(value, TensorBase):
        value = plain(value).to_numpy()  # type: ignore[arg-type]  # one of the three kinds
    if not isinstance(value, np.ndarray):
        return value
    kinds: dict[str, Any] = {"f": Tensor, "b": BoolTensor}
    return kinds.get(value.dtype.kind, IntTensor).from_data(value, device=device)


@explained
def plain(x: Tensor[Any] | IntTensor[Any] | BoolTensor[Any]) -> Any:
    """Return the tensor, detached, on its innermost device, where no graph is recorded; the memory is shared.

    >>> plain(Tensor[Autodiff[NumPy]].zeros((2,)).require_grad()).device
    NumPy
    """
    return x.detach().to_device(innermost(x.device))


@explained
def total(x: TensorBase[Any], weight: Tensor[Any] | None = None) -> Tensor[Any]:
    """Return the weighted sum of all elements in float64, as a 0-d tensor on the plain device.

    Args:
        x: a tensor of any kind; True counts as 1.
        weight: the weight of each element, of the shape of ``x``; 1 if None. Those of weight 0, such as padding, may
            be infinite or NaN.

    Raises:
        KindError: ``x`` is not a tensor.

    >>> total(BoolTensor[NumPy].from_data([True, False, True])).item()
    2.0
    """
    values = doubles(x)
    return (values if weight is None else weighted(values, weight)).sum()


def weighted(values: Tensor[Any], weights: Tensor[Any]) -> Tensor[Any]:
    """Return numbers times their weights; 0 where the weight is 0, whatever the number."""
    return (values * weights).where(weights != 0.0, 0.0)


def doubles(x: object) -> Tensor[Any]:
    """Return the elements in float64 on the plain device."""
    if isinstance(x, (Tensor, IntTensor, BoolTensor)):
        return plain(x).float("float64")  # type: ignore[no-any-return]  # a Tensor
    raise KindError(f"a metric takes tensors, got {describe(x)}{made_of(x, 'Tensor')}")


def element_weights(metric: str, weight: Tensor[Any] | None, like: TensorBase[Any], shape: Shape) -> Tensor[Any]:
    """Return the weight of each element in float64: ones, or ``weight`` repeated over the trailing dimensions.

    Args:
        metric: the metric's name, for the message.
        weight: weights of shape (N,), or of any leading part of ``shape``; or None.
        like: a tensor on the plain device, on which ones are made.
        shape: the shape of the elements.
    """
    if weight is None:
        return Tensor.ones(shape, dtype="float64", device=like.device)
    values = doubles(weight)
    if values.shape != shape[: values.ndim]:
        raise ShapeError(
            f"{metric}.of() got weights with shape {values.shape} for elements with shape {shape}; "
            f"pass one for each sample, shape {shape[:1]}, or one for each element"
        )
    return values.reshape((*values.shape, *(1,) * (len(shape) - values.ndim))).expand(shape)


@dataclass(frozen=True)
class Classes:
    """One class for each of n elements."""

    predicted: IntTensor[Any]  #: shape (n,)
    target: IntTensor[Any]  #: shape (n,); 0 where the element is ignored
    weight: Tensor[Any]  #: shape (n,), float64; 0 where the element is ignored
    count: int  #: the number of classes

    def right(self) -> BoolTensor[Any]:
        """Return where the prediction is right, shape (n,)."""
        return self.predicted == self.target


@dataclass(frozen=True)
class Labels:
    """A decision for each of L labels of n samples."""

    predicted: BoolTensor[Any]  #: shape (n, L)
    target: BoolTensor[Any]  #: shape (n, L)
    weight: Tensor[Any]  #: shape (n, 1), float64

    def right(self) -> BoolTensor[Any]:
        """Return where the decision is right, shape (n, L)."""
        return self.predicted == self.target


def decisions(
    metric: str,
    prediction: Tensor[Any] | IntTensor[Any] | BoolTensor[Any],
    target: IntTensor[Any] | BoolTensor[Any],
    classes: int | None = None,
    threshold: float = 0.0,
    weight: Tensor[Any] | None = None,
    ignore_index: int | None = None,
) -> Classes | Labels:
    """Return the predictions and the targets, as classes or as labels.

    Args:
        metric: the metric's name, for messages.
        prediction: scores of classes, a `Tensor` of shape (N, C, ...) for targets of shape (N, ...); or scores of
            labels, a `Tensor` of the targets' shape (N,) or (N, L); or decisions: an `IntTensor` of classes or a
            `BoolTensor` of labels, of the targets' shape.
        target: an `IntTensor` of classes, or a `BoolTensor` of labels or an `IntTensor` of 0 and 1.
        classes: the number of classes, if ``prediction`` is an `IntTensor`.
        threshold: the score above which a label is predicted.
        weight: the weight of each sample, of shape (N,), or of each element.
        ignore_index: a class of ``target`` whose elements are not counted.
    """
    given: object
    wanted = "Tensor"
    for given in (prediction, target):
        if not isinstance(given, (Tensor, IntTensor, BoolTensor)):
            raise KindError(f"{metric}.of() takes tensors, got {describe(given)}{made_of(given, wanted)}")
        wanted = "IntTensor"
    if isinstance(given, Tensor):
        raise KindError(f"{metric}.of() takes targets as an IntTensor or a BoolTensor, got {describe(target)}")
    shape = prediction.shape
    if isinstance(prediction, Tensor) and isinstance(target, IntTensor) and len(shape) == target.ndim + 1:
        _same_shape(metric, shape[:1] + shape[2:], target.shape, shape)
        if not shape[1]:
            raise ShapeError(f"{metric}.of() got scores of shape {shape}; expected at least one class")
        return _classes(metric, plain(prediction).argmax(1), plain(target), shape[1], weight, ignore_index)
    _same_shape(metric, shape, target.shape, shape)
    if isinstance(prediction, IntTensor):
        if isinstance(target, BoolTensor):
            raise KindError(f"{metric}.of() got classes as predictions and a BoolTensor as targets; give both as one")
        if classes is None:
            raise ArgumentError(
                f"{metric}.of() of predicted classes needs their number: {metric}.of(x, y, classes=...)"
            )
        return _classes(metric, plain(prediction), plain(target), classes, weight, ignore_index)
    if ignore_index is not None:
        raise ArgumentError(f"{metric}.of() got ignore_index={ignore_index} for labels, which are 0 or 1; use weight")
    if not 1 <= len(shape) <= 2:
        raise ShapeError(f"{metric}.of() takes labels of shape (N,) or (N, L), got {shape}")
    chosen = plain(prediction)
    if isinstance(chosen, Tensor):
        chosen = chosen > threshold
    labels = (shape[0], shape[1] if len(shape) == 2 else 1)
    if weight is not None and weight.shape != shape[:1]:
        raise ShapeError(f"{metric}.of() got weights of shape {weight.shape}; give one for each sample: {shape[:1]}")
    return Labels(
        predicted=chosen.reshape(labels),
        target=_yes_or_no(metric, plain(target)).reshape(labels),
        weight=element_weights(metric, weight, chosen, shape[:1]).reshape((-1, 1) if shape[0] else (0, 1)),
    )


def bincount(x: IntTensor[Any], weight: Tensor[Any], size: int) -> Tensor[Any]:
    """Return the sum of the weights of each value of ``x`` from 0 to ``size`` - 1, in float64."""
    zeros: Tensor[Any] = Tensor.zeros((size,), dtype="float64", device=x.device)
    return zeros.scatter_add(0, x, weight)


def _classes(
    metric: str,
    predicted: IntTensor[Any],
    target: IntTensor[Any],
    count: int,
    weight: Tensor[Any] | None,
    ignore_index: int | None,
) -> Classes:
    weights = element_weights(metric, weight, target, target.shape)
    if ignore_index is not None:
        counted = target != ignore_index
        weights, target = weights.where(counted, 0.0), target.where(counted, 0)
    n = (target.numel(),)
    return Classes(
        predicted=_below(metric, predicted, count).reshape(n),
        target=_below(metric, target, count).reshape(n),
        weight=weights.reshape(n),
        count=count,
    )


def _below(metric: str, x: IntTensor[Any], count: int) -> IntTensor[Any]:
    """Return the classes, checked to be from 0 to ``count`` - 1."""
    return x._like(in_range(x.device, x._primitive, count, False, f"{metric}.of()", 0, (count,)))


def _yes_or_no(metric: str, target: IntTensor[Any] | BoolTensor[Any]) -> BoolTensor[Any]:
    return target if isinstance(target, BoolTensor) else _below(metric, target, 2) == 1


def _same_shape(metric: str, expected: Shape, given: Shape, scores: Shape) -> None:
    if expected != given:
        raise ShapeError(
            f"{metric}.of() got predictions with shape {scores} and targets with shape {given}; expected scores with "
            "shape (N, C, ...) for targets with shape (N, ...), or labels or decisions with the targets' shape"
        )


def scores_by_class(
    metric: str, scores: Tensor[Any], target: IntTensor[Any] | BoolTensor[Any]
) -> tuple[Tensor[Any], BoolTensor[Any]]:
    """Return scores and truth of one-against-the-rest decisions, both of shape (n, C), on the plain device."""
    given: tuple[object, object] = (scores, target)
    if not isinstance(given[0], Tensor) or not isinstance(given[1], (IntTensor, BoolTensor)):
        raise KindError(
            f"{metric}.of() takes scores as a Tensor and targets as an IntTensor or a BoolTensor, got "
            f"{describe(scores)} and {describe(target)}"
        )
    shape, values, truth = scores.shape, doubles(scores), plain(target)
    if isinstance(truth, IntTensor) and len(shape) == 2 and truth.ndim == 1:
        _same_shape(metric, shape[:1], truth.shape, shape)
        chosen = _below(metric, truth, shape[1])
        return values, chosen.unsqueeze(1) == IntTensor.arange(shape[1], device=chosen.device)
    _same_shape(metric, shape, truth.shape, shape)
    if not 1 <= len(shape) <= 2:
        raise ShapeError(f"{metric}.of() takes scores of shape (N,) or (N, C), got {shape}")
    labels = (shape[0], shape[1] if len(shape) == 2 else 1)
    return values.reshape(labels), _yes_or_no(metric, truth).reshape(labels)
