"""The tensors of a module: `Param` and `ComplexParam` for learned ones, `Buffer` and its kin for the others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self

from burnpy.backend.devices import Subscriptable
from burnpy.backend.dtypes import complex_dtype
from burnpy.backend.errors import ImmutableError, KindError, NotTrackedError, a
from burnpy.backend.primitives import INEXACT, KindName
from burnpy.tensor.call_errors import explained, inherit_methods, refuse_attribute
from burnpy.tensor.levels import constant, levels_between, transfer
from burnpy.tensor.tensor_base import TensorBase, new_tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor

_set = object.__setattr__


def level_above(device: Any, values: Iterable[Any]) -> Any:
    """Return the highest level of `burnpy.func` that one of the values is on, if it is above a device; else that."""
    levels = [x._device for x in values if isinstance(x, TensorBase) and x._device.level]
    return max((level for level in levels if levels_between(level, device)), key=attrgetter("level"), default=device)


def new_id() -> str:
    """Return a new id, unique across processes: 16 random hexadecimal digits."""
    return os.urandom(8).hex()


class Variable(Subscriptable, Generic[B]):
    """A tensor of a module, with an id: the base class of parameters and buffers.

    It is immutable; methods that change a module create new variables with the same ids.
    """

    __slots__ = ("__weakref__", "_frozen", "_id", "_value")

    word: ClassVar[str] = "buffer"
    """The noun for it in error messages: "parameter" or "buffer"."""
    kind: ClassVar[KindName] = "float"
    """The kind of tensor that it stores."""

    _learned: ClassVar[bool] = False
    """True if the tensor is a leaf of graphs unless it is frozen."""

    _frozen: bool
    _id: str
    _value: Any

    @explained  # no metaclass: it would make isinstance() slower, which asks about every value of a module
    def __init__(self, value: TensorBase[B], *, frozen: bool = False, id: str | None = None) -> None:
        argument: object = value
        if not isinstance(argument, TensorBase) or argument.kind != self.kind:
            owner = TensorBase.kinds[self.kind].__name__
            hint = f"make one first, as with {owner}.from_data(values, device=device)"
            if isinstance(argument, TensorBase):
                hint = f"write {holder_of(argument.kind, self._learned)}(...)"
            raise KindError(f"{type(self).__name__}() holds one {owner}, got {_shown(argument)}; {hint}")
        _set(self, "_frozen", bool(frozen))
        _set(self, "_id", new_id() if id is None else id)
        _set(self, "_value", self._admitted(value))

    def _admitted(self, value: Any) -> Any:
        """Validate a tensor for this variable and return it, tracked or detached as the class requires."""
        return value

    if not TYPE_CHECKING:  # each class says its tensor's class; an attrgetter takes no frame of Python
        value = property(
            attrgetter("_value"),
            doc="The tensor: a parameter's is a leaf on a device that differentiates, unless it is frozen.",
        )

    @property
    def id(self) -> str:
        """The identifier, unchanged by ``valid()``, ``fork()``, updates, pickling and saving."""
        return self._id

    @property
    def frozen(self) -> bool:
        """True if training leaves it unchanged: see `Module.no_grad`."""
        return self._frozen

    @property
    def shape(self) -> Shape:
        """The shape of the tensor."""
        return self._value.shape  # type: ignore[no-any-return]  # a tensor's

    @property
    def ndim(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor."""
        return self._value.dtype  # type: ignore[no-any-return]  # a tensor's

    @property
    def device(self) -> B:
        """The device of the tensor."""
        return self._value.device  # type: ignore[no-any-return]  # a tensor's

    def numel(self) -> int:
        """Return the number of elements."""
        return self._value.numel()  # type: ignore[no-any-return]  # a tensor's

    def _with_value(self, value: Any) -> Self:
        """Return a variable with the same id that stores a tensor: see `constant`; a parameter makes a leaf of it."""
        return self._with_primitive(value._device, value._primitive)

    def _cut(self, value: Any, operation: str, path: str) -> Any:
        """Return a new value without its graph, to make a leaf; in a function of `burnpy.func`, return it as it is.
        Raise an error for a learned variable that would be a leaf in place of a result, where gradients would end."""
        if self._learned and not self._frozen and not value._device.level and value.grad_fn is not None:
            raise NotTrackedError(
                f"{operation} got a tensor of shape {value.shape} for {path} that was computed from tracked tensors, "
                "and would make a leaf of it, where gradients end; pass value.detach(), or differentiate through it in "
                "a function: burnpy.func.grad(f)(model)"
            )
        return constant(value)

    def _with_primitive(self, device: Any, primitive: Any) -> Self:
        """Return a variable with the same id that stores a primitive of ``device``: see `_with_value`."""
        if self._learned and not self._frozen and not device.level:
            primitive = device.require_grad(primitive)
        return self._unchecked(new_tensor(type(self._value), device, primitive))

    def _on(self, device: Any) -> Self:
        """Return a variable with the same id and value on another device."""
        return self._with_value(transfer(constant(self._value), device))

    def _with_frozen(self, frozen: bool) -> Self:
        """Return a variable with the same id and value, frozen or not."""
        out = self._unchecked(self._value.detach())
        _set(out, "_frozen", frozen)
        return out if frozen else out._with_value(out._value)

    def _with_id(self, id: str) -> Self:
        """Return a variable with the same tensor and another id."""
        out = self._unchecked(self._value)
        _set(out, "_id", id)
        return out

    def _unchecked(self, value: Any) -> Self:
        """Return a variable with the same id and frozen flag that stores ``value``, as it is."""
        out = object.__new__(type(self))
        _set(out, "_frozen", self._frozen)
        _set(out, "_id", self._id)
        _set(out, "_value", value)
        return out

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(
            f"{a(type(self).__name__)} never changes: its {name} cannot be assigned to; optim.step(...), model.map(f) "
            "and model.replace({path: ...}) return a new model"
            + (", as model.no_grad(where) does of frozen parameters" if name == "requires_grad" else "")
        )

    __delattr__: Any = __setattr__

    if not TYPE_CHECKING:  # type checkers see only the attributes above
        __getattr__ = refuse_attribute

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise KindError(f"{a(type(self).__name__)} is not an array but holds a tensor; pass its .value to NumPy")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._value, self._frozen, self._id)

    def __repr__(self) -> str:
        mark = ", frozen" if self._frozen else ""
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, device={self.device}{mark})"


def _no_operator(self: Variable[Any], *others: object) -> NoReturn:
    """Raise the error for arithmetic with a variable, which is not the tensor itself."""
    name = type(self).__name__
    raise KindError(
        f"{a(name)} of shape {self.shape} is not a tensor but holds one; write its .value in the expression"
    )


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    setattr(Variable, f"__{_operator}__", _no_operator)
    setattr(Variable, f"__r{_operator}__", _no_operator)
for _operator in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "getitem"):
    setattr(Variable, f"__{_operator}__", _no_operator)


@inherit_methods
class Param(Variable[B]):
    """A learned tensor of a module, with a unique id.

    On a device that differentiates, ``value`` is a leaf unless the parameter is frozen, and it is the key of its
    gradient: ``grads[model.weight.value]``. A `Param` used in two places of a model is one parameter, and stays shared.

    Args:
        value: a leaf, or an untracked tensor, which becomes a leaf.
        frozen: whether training leaves it unchanged.
        id: the id of a parameter to restore; a new one by default.

    Raises:
        KindError: ``value`` is not a float `Tensor`.
        NotTrackedError: ``value`` was computed from tracked tensors.

    >>> weight = Param(Tensor[Autodiff[NumPy]].zeros((2, 3)))
    >>> weight.value.is_require_grad(), weight
    (True, Param(shape=(2, 3), dtype=float32, device=Autodiff[NumPy]))
    """

    __slots__ = ()

    word: ClassVar[str] = "parameter"
    _learned: ClassVar[bool] = True

    if TYPE_CHECKING:

        def __init__(self, value: Tensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

        @property
        def value(self) -> Tensor[B]:
            """The tensor: a leaf on a device that differentiates, unless the parameter is frozen."""
            ...

    def _admitted(self, value: Any) -> Any:
        if self._frozen:
            return value.detach()
        if value._device.level:
            return value
        try:
            return value.require_grad()
        except NotTrackedError:
            raise NotTrackedError(
                f"a Param got a tensor of shape {value.shape} that was computed from tracked tensors, but a "
                "parameter is a leaf; pass value.detach()"
            ) from None


@inherit_methods
class ComplexParam(Param[B]):
    """A learned tensor of complex numbers. Otherwise like `Param`.

    Optimizers update it as a pair of floats, of one dimension more, and so do `burnpy.optim.clip_by_value` and loss
    scaling; norms are those of the magnitudes.

    Raises:
        KindError: ``value`` is not a `ComplexTensor`.

    >>> from burnpy import ComplexTensor
    >>> ComplexParam(ComplexTensor[Autodiff[NumPy]].from_data([1 + 2j]))
    ComplexParam(shape=(1,), dtype=complex64, device=Autodiff[NumPy])
    """

    __slots__ = ()

    kind: ClassVar[KindName] = "complex"

    if TYPE_CHECKING:

        def __init__(self, value: ComplexTensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

        @property
        def value(self) -> ComplexTensor[B]:  # type: ignore[override]  # every parameter of a model is a `Param`
            """The tensor: a leaf on a device that differentiates, unless the parameter is frozen."""
            ...


@inherit_methods
class Buffer(Variable[B]):
    """A float tensor of a module that is not learned: moved, saved and loaded with the module, without a gradient.

    A forward pass does not modify it: its update is returned with the gradients and applied by the optimizer's step,
    see `burnpy.nn.record_update`.

    Args:
        value: an untracked tensor.
        frozen: whether such updates leave it unchanged.
        id: the id of a buffer to restore; a new one by default.

    Raises:
        KindError: ``value`` is not a float `Tensor`; use `ComplexBuffer`, `IntBuffer` or `BoolBuffer` for others.
        NotTrackedError: ``value`` is tracked.

    >>> Buffer(Tensor[NumPy].zeros((3,))).value.tolist()
    [0.0, 0.0, 0.0]
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, value: Tensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

        @property
        def value(self) -> Tensor[B]:
            """The tensor, untracked."""
            ...

    def _admitted(self, value: Any) -> Any:
        if value.is_require_grad():
            raise NotTrackedError(
                f"{a(type(self).__name__)} got a tracked tensor of shape {value.shape}, and buffers have no "
                "gradient; give it value.detach(), or make it a Param"
            )
        return value


@inherit_methods
class ComplexBuffer(Buffer[B]):
    """A buffer of complex numbers, such as a spectrum. Otherwise like `Buffer`."""

    __slots__ = ()

    kind: ClassVar[KindName] = "complex"

    if TYPE_CHECKING:

        def __init__(self, value: ComplexTensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

        @property
        def value(self) -> ComplexTensor[B]:  # type: ignore[override]  # it has what `Buffer` has otherwise
            """The tensor, untracked."""
            ...


@inherit_methods
class IntBuffer(Variable[B]):
    """A buffer of ints: counts, positions, tables of indices. Otherwise like `Buffer`."""

    __slots__ = ()

    kind: ClassVar[KindName] = "int"

    if TYPE_CHECKING:

        def __init__(self, value: IntTensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

        @property
        def value(self) -> IntTensor[B]:
            """The tensor."""
            ...


@inherit_methods
class BoolBuffer(Variable[B]):
    """A buffer of bools, such as a mask. Otherwise like `Buffer`."""

    __slots__ = ()

    kind: ClassVar[KindName] = "bool"

    if TYPE_CHECKING:

        def __init__(self, value: BoolTensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

        @property
        def value(self) -> BoolTensor[B]:
            """The tensor."""
            ...


def holder_of(kind: KindName, learned: bool) -> str:
    """Return the name of the class that holds tensors of a kind: a buffer for ints and bools, which are not learned."""
    if learned and kind in INEXACT:
        return "Param" if kind == "float" else "ComplexParam"
    return {"float": "Buffer", "complex": "ComplexBuffer", "int": "IntBuffer", "bool": "BoolBuffer"}[kind]


def in_dtype(variable: Variable[Any], dtype: DType) -> Variable[Any]:
    """Return a variable of floats or complex numbers in a dtype; a complex dtype makes complex numbers of floats.
    Complex numbers get the complex dtype whose parts have a float dtype. Ints and bools stay as they are."""
    if variable.kind not in INEXACT:
        return variable
    value = constant(variable._value)
    if variable.kind == "complex":
        return variable._with_value(value.to_dtype(complex_dtype(dtype)))
    if dtype.kind != "c":
        return variable._with_value(value.to_dtype(dtype))
    cls: Any = ComplexParam if variable._learned else ComplexBuffer
    return cls(value.complex(dtype), frozen=variable._frozen, id=variable._id)  # type: ignore[no-any-return]  # of one of them


def _restored(cls: type[Variable[Any]], value: Any, frozen: bool, id: str) -> Variable[Any]:
    out = object.__new__(cls)
    _set(out, "_frozen", frozen)
    _set(out, "_id", id)
    _set(out, "_value", value)
    return out


def _shown(value: object) -> str:
    if isinstance(value, TensorBase):
        return f"{a(type(value).__name__)} of shape {value.shape}"
    return a(type(value).__name__) + (f" of shape {getattr(value, 'shape', '')}" if hasattr(value, "shape") else "")
