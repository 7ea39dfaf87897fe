"""The parameters of distributions: how a distribution holds them, and the numbers that they may be."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, Union, overload

import numpy as np

from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import DEFAULT, bool_, int64, result_type
from burnpy.backend.errors import ArgumentError, DeviceError, KindError, ShapeError
from burnpy.nn.module import Module
from burnpy.nn.module_tree import walk
from burnpy.nn.param import Param
from burnpy.tensor.levels import common_device, levels_between, raised
from burnpy.tensor.operand_checks import refuse_unless
from burnpy.tensor.random_parameters import Bound
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Bool, Float, Shape
    from burnpy.distributions.bijections import Bijection


POSSIBLE = Bound("a number above 0, and at most 1", 0.0, above=True, high=1.0)
LOGIT = Bound("a number, which may be infinite", finite=False)


class Constraint(Protocol):
    """A condition on the values of a parameter: a `Bound` of each number, or `CHOLESKY_FACTOR`."""

    @property
    def words(self) -> str:
        """The values, for messages: "a finite number above 0"."""
        ...

    def has(self, number: float) -> bool:
        """Return whether a number is one of them."""
        ...

    def holds(self, device: Any, x: Float) -> Bool:
        """Return where a primitive satisfies the constraint."""
        ...


class _CholeskyFactor(NamedTuple):
    """Lower triangular matrices with a positive diagonal."""

    words: str = "of a lower triangular matrix with a positive diagonal"

    def has(self, number: float) -> bool:
        """Return False: a number is not a matrix."""
        return False

    def holds(self, device: Any, x: Float) -> Bool:
        """Return where the elements fit: those of the diagonal above 0, those above it 0."""
        d, count = device.discrete, x.shape[-1]
        row, column = d.arange(0, x.shape[-2], 1, int64), d.arange(0, count, 1, int64)
        row = d.reshape(row, (x.shape[-2], 1))
        diagonal = d.where(d.eq(row, column), device.gt(x, 0.0), d.full((), True, bool_))
        above = d.where(d.lt(row, column), device.eq(x, 0.0), device.isfinite(x))
        return d.bitwise_and(diagonal, above)


CHOLESKY_FACTOR: Constraint = _CholeskyFactor()


class Given(Param[B]):
    """A parameter that holds a tensor unchanged, tracked or not.

    Training leaves it unchanged, and its gradient goes on to whatever it was computed from.
    """

    __slots__ = ()

    def __init__(self, value: Tensor[B], *, id: str | None = None) -> None:
        super().__init__(value, frozen=True, id=id)

    def _admitted(self, value: Any) -> Any:
        return value


class Constrained(Module[B]):
    """A parameter that is a bijection's result of an unconstrained `Param`, so that training keeps its constraint.

    `Distribution.trainable` makes them.
    """

    def __init__(self, bijection: Bijection[B], unconstrained: Param[B]) -> None:
        self.bijection = bijection
        self.unconstrained = unconstrained

    @property
    def value(self) -> Tensor[B]:
        """The constrained tensor."""
        return self.bijection(self.unconstrained.value)


ParameterLike: TypeAlias = Union["Tensor[B]", Param[B], Constrained[B], float]
"""A parameter of a distribution: a tensor, a trained `Param` or `Constrained` one, or a number."""


class Parameter:
    """The declaration of a parameter in the class of a distribution or bijection, whose attribute is the tensor.

    Args:
        bound: the numbers that it may be.
        event_dims: the number of its last dimensions that belong to an event.
        otherwise: computes the tensor from another parameter that takes its place.
        learned: whether `Distribution.trainable` learns it.
    """

    def __init__(
        self,
        bound: Constraint,
        *,
        event_dims: int = 0,
        otherwise: Callable[[Any], Tensor[Any]] | None = None,
        learned: bool = True,
    ) -> None:
        self.bound, self.event_dims, self._otherwise, self.learned = bound, event_dims, otherwise, learned
        self.__doc__ = f"A parameter: {bound.words}."

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, cls: type) -> Parameter: ...
    @overload
    def __get__(self, owner: Module[B], cls: type) -> Tensor[B]: ...
    def __get__(self, owner: Any, cls: type) -> Any:
        if owner is None:
            return self
        parameter: Any = vars(owner)[self.name]
        return parameter.value if self._otherwise is None or parameter is not None else self._otherwise(owner)

    def __set__(self, owner: object, value: object) -> None:
        vars(owner)[self.name] = value

    def check_number(self, owner: str, value: float) -> None:
        """Raise if a number is not what the parameter may be."""
        if self.event_dims:
            raise self._lacks_dims(owner, ())
        if not self.bound.has(value):
            raise ArgumentError(f"{owner}() got {self.name}={value!r:.80}; expected {self.bound.words}")

    def check(self, owner: str, x: TensorBase[Any]) -> None:
        """Raise, now or at the next synchronization, if a tensor has an element that the parameter may not be.

        Raises:
            ArgumentError: it has one.
            ShapeError: it lacks the dimensions of an event.
        """
        if x.ndim < self.event_dims:
            raise self._lacks_dims(owner, x.shape)
        device: Any = x._device
        message = f"{owner}() got {self.name} of shape {x.shape} with an element that is not {self.bound.words}"
        refuse_unless(device, self.bound.holds(device, device.detach(x._primitive)), ArgumentError(message))

    def _lacks_dims(self, owner: str, shape: Shape) -> ShapeError:
        dims = "dimension belongs" if self.event_dims == 1 else f"{self.event_dims} dimensions belong"
        return ShapeError(f"{owner}() got {self.name} of shape {shape}; its last {dims} to an event")


@cache
def parameters_of(cls: type[Any]) -> dict[str, Parameter]:
    """Return the declared parameters of a class by name."""
    return {
        name: value
        for base in reversed(cls.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, Parameter) and getattr_static(cls, name) is value  # a subclass may compute it
    }


def held(
    owner: str, declared: dict[str, Parameter], given: dict[str, Any], device: Any, validate: bool
) -> dict[str, Any]:
    """Return the fields of a distribution for the arguments of its ``__init__``, all on one device.

    Args:
        owner: the class's name, for messages.
        declared: the parameters that it declares, by name.
        given: a number, a tensor, a `Param` or a `Constrained` module for each, or None.
        device: the argument ``device``, or None.
        validate: whether to check the numbers.
    """
    tensors: dict[str, Any] = {}
    for name, value in given.items():
        tensor = getattr(value, "value", value)
        if isinstance(tensor, TensorBase) and tensor.kind == "float":
            tensors[name] = tensor
        elif value is not None and (isinstance(value, bool) or not isinstance(value, (int, float, np.number))):
            raise KindError(f"{owner}() got {name}={describe(value)}; expected a float Tensor, a Param or a number")
    on = _device_of(owner, tensors, device)
    dtype = result_type(*[x._primitive for x in tensors.values()]) if tensors else DEFAULT["float"]
    fields: dict[str, Any] = {}
    for name, value in given.items():
        x = tensors.get(name)
        if x is None:
            if value is not None and validate:
                declared[name].check_number(owner, value)
            fields[name] = None if value is None else Given(Tensor.full((), float(value), dtype=dtype, device=on))
            continue
        if validate:
            declared[name].check(owner, x)
        here: Any = raised(x, on)
        fields[name] = value if here is x and value is not x else Given(here)
    return fields


def on_one_level(owner: str, *parts: Any) -> list[Any]:
    """Return modules with their tensors lifted to the highest level among them, so that one can hold them all."""
    devices = {id(v.value.device): v.value.device for part in parts for _, v in walk(part) if isinstance(v, Param)}
    if len(devices) < 2:
        return list(parts)
    top: Any = common_device(owner, devices.values())
    moved: list[Any] = []
    for part in parts:
        lifted: dict[str, Any] = {path: raised(v.value, top) for path, v in walk(part) if isinstance(v, Param)}
        moved.append(part.replace({path: Given(x) for path, x in lifted.items()}))
    return moved


def _device_of(owner: str, tensors: dict[str, Any], device: Any) -> Any:
    """Return the device that tensors have in common, or the one that is named."""
    if not tensors:
        if device is None:
            raise DeviceError(f"{owner}() got numbers alone; name the device, as in {owner}(..., device=NumPy)")
        return device_of(device)
    on = common_device(owner, [x.device for x in tensors.values()])
    if device is not None and device_of(device) is not on and levels_between(on, device_of(device)) is None:
        raise DeviceError(
            f"{owner}() got {' and '.join(tensors)} on {on} and device={device_of(device)}; move them with "
            ".to_device(...), or leave the device out"
        )
    return on
