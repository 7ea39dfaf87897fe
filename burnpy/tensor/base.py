"""`TensorBase`: what tensors of all three kinds are made of, and how one makes another.

A tensor is a device and a primitive. What computes on it is the device itself for floats, and ``device.discrete`` for
ints and bools. It checks arguments, explains mistakes and speaks to the backend; it never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.errors import KindError, a
from burnpy.backend.primitives import DType, KindName, Shape, Value
from burnpy.tensor.call_errors import adopted, copied

if TYPE_CHECKING:
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
F = TypeVar("F", bound=Callable[..., Any])

new = object.__new__

_owned: set[Callable[..., Any]] = set()


def owned(method: F) -> F:
    """A method of which each kind has a copy of its own, in which ``blank()`` makes an empty tensor of that kind, and
    ``blank_bool()`` an empty bool tensor.

    ``new(self.__class__)`` takes half as much again, which is a thirtieth of a tiny operation.
    """
    _owned.add(method)
    return method


def blank() -> Any:
    """An empty tensor of the kind whose method, an `owned` one, calls this."""
    raise NotImplementedError


def blank_bool() -> Any:
    """An empty bool tensor, in an `owned` method."""
    raise NotImplementedError


class Missing:
    """Stands for a name that tensors, or those of one kind, do not have: reading it is an `AttributeError` that helps.

    An attribute for each costs nothing, where a ``__getattr__`` would slow down every attribute of every tensor.
    """

    __slots__ = ()


class TensorMeta(type):
    """Makes no tensor when it is called: a tensor needs to be told of what, and where."""

    def __dir__(cls) -> list[str]:
        """The names that there are; without those that are there to explain that they are not."""
        found: dict[str, object] = {}
        for base in reversed(cls.__mro__):
            found.update(vars(base))
        return [name for name, value in found.items() if not isinstance(value, Missing)]

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        """What ``Tensor(...)`` gives: an error that says how tensors are made."""
        name = cls.__name__
        raise KindError(f"{name}(...) makes no tensor; write {name}[NumPy].from_data(values), .zeros(shape) or such")


class TensorBase(Subscriptable, Generic[B], metaclass=TensorMeta):
    """An immutable array of one dtype on a device of backend ``B``."""

    __slots__ = ("__weakref__", "_device", "_primitive")

    kind: ClassVar[KindName]
    numbers: ClassVar[frozenset[type]]
    """The types of Python numbers that the kind mixes with."""
    kinds: ClassVar[dict[KindName, type[Any]]] = {}
    """The class of each kind, entered by the classes themselves, which cannot import one another."""

    _device: B
    _primitive: Value
    _backend = property(attrgetter("_device.discrete"))
    """What computes on the kind; of floats, the device itself."""

    __array_ufunc__ = None  # or ``ndarray + tensor`` would silently make an array of objects
    __hash__ = object.__hash__

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            TensorBase.kinds[cls.kind] = cls
            _give_own_methods(cls)

    def _like(self, primitive: Value) -> Self:
        """A tensor of this one's kind and device."""
        return new_tensor(type(self), self._device, primitive)  # type: ignore[no-any-return]  # of that class

    def _float(self, primitive: Value) -> Tensor[B]:
        """A float tensor on this one's device."""
        return new_tensor(TensorBase.kinds["float"], self._device, primitive)  # type: ignore[no-any-return]  # as above

    def _int(self, primitive: Value) -> IntTensor[B]:
        """An int tensor on this one's device."""
        return new_tensor(TensorBase.kinds["int"], self._device, primitive)  # type: ignore[no-any-return]  # as above

    def _bool(self, primitive: Value) -> BoolTensor[B]:
        """A bool tensor on this one's device."""
        return new_tensor(TensorBase.kinds["bool"], self._device, primitive)  # type: ignore[no-any-return]  # as above

    @property
    def shape(self) -> Shape:
        """The size of each dimension; () for a 0-d tensor.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].zeros((2, 3)).shape
        (2, 3)
        """
        return self._primitive.shape  # type: ignore[no-any-return]  # a primitive's shape is a tuple of ints

    @property
    def dtype(self) -> DType:
        """The dtype of the elements, NumPy's."""
        return self._primitive.dtype  # type: ignore[no-any-return]  # a primitive's dtype is NumPy's

    def __dir__(self) -> list[str]:
        return dir(type(self))

    @property
    def device(self) -> B:
        """The device, an instance of the backend."""
        return self._device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


def new_tensor(cls: type[Any], device: Any, primitive: Value) -> Any:
    """A tensor of class ``cls``, unchecked."""
    out = new(cls)
    out._device = device
    out._primitive = primitive
    return out


def _give_own_methods(cls: type[Any]) -> None:
    """Give a kind copies of the methods that it inherits, which are named after it in errors.

    Those of `owned` methods make tensors of the kind; of the others, what takes arguments explains its calls.
    """
    kinds = {"blank": cls, "blank_bool": TensorBase.kinds["bool"]}  # BoolTensor is made before the others
    makers = {name: type.__call__.__get__(kind) for name, kind in kinds.items()}  # quick; `TensorMeta` bars the usual
    grounds: dict[int, dict[str, Any]] = {}  # the globals of each module, with these
    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        inherited.update(vars(base))
    copies: dict[Any, Any] = {}  # ``add`` is also ``__add__``
    for name, method in inherited.items():
        if type(method) is FunctionType and method in _owned:
            if method not in copies:
                ground = method.__globals__
                own = grounds.get(id(ground)) or grounds.setdefault(id(ground), ground | makers)
                copies[method] = copied(method, cls, own)
            setattr(cls, name, copies[method])
        elif type(method) in (FunctionType, classmethod) and not name.startswith("_"):
            setattr(cls, name, adopted(method, cls))


def describe(value: object) -> str:
    """A value as messages name it: short, on one line, a tensor without its elements.

    >>> describe([1.0] * 99), describe("cuda")
    ('[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0…', "'cuda'")
    """
    if isinstance(value, TensorBase) or getattr(value, "shape", None):
        found: Any = value
        return f"{a(type(value).__name__)} of shape {tuple(found.shape)} and dtype {found.dtype}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 90 else f"{text[:89]}…"
