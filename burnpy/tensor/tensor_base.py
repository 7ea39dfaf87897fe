"""`TensorBase`: the base class of the tensor classes, and the functions that create tensors.

A tensor consists of a device and a primitive. Operations on floats and complex numbers run on the device itself, those
on ints and bools on ``device.discrete``. Tensor methods check their arguments, explain mistakes and call the backend.
Tensors are immutable.

Each kind has its own copies of the methods, so that errors name its class. Placeholders stand for methods that are not
loaded or do not exist: a `LazyMethod` imports its module at the first use, so that `import burnpy` loads no method that
only some programs call, and a `Missing` name raises an error with the code to write instead.

At run time the classes of `burnpy.tensor.lazy_methods` are stand-ins, which hold a `LazyMethod` for each name of its
table. Type checkers and editors see the classes themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

from burnpy.backend.devices import Subscriptable
from burnpy.backend.errors import KindError, MissingNameError, a, class_name
from burnpy.backend.primitives import DType, KindName, Shape, Value
from burnpy.hints import other_names, torch_public_names
from burnpy.tensor.call_errors import copy_method, inherit_method
from burnpy.typevars import B, F

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor

new = object.__new__

_owned: set[Callable[..., Any]] = set()


def owned(method: F) -> F:
    """Decorate a method so that each kind has its own copy, where ``blank()`` creates a tensor of that kind without a
    primitive, and ``blank_bool()`` a bool tensor.

    The generic ``new(self.__class__)`` adds 6 % to ``x + y`` and ``x.relu()`` of 8 × 8 numbers, and a method of the
    class, ``self.blank()``, 4 % (NumPy, Python 3.11).
    """
    _owned.add(method)
    return method


def blank() -> Any:
    """Return an empty tensor of the kind whose `owned` method calls this."""
    raise NotImplementedError


def blank_bool() -> Any:
    """Return an empty bool tensor; for use inside an `owned` method."""
    raise NotImplementedError


class Missing:
    """A placeholder for a name that tensors, or tensors of one kind, do not have: reading it raises a helpful
    `AttributeError`.

    One class attribute per name costs nothing, whereas a ``__getattr__`` would slow down every attribute of every
    tensor.
    """

    __slots__ = ()


class TensorMeta(type):
    """The metaclass of the tensor classes, which refuses calls such as ``Tensor(...)`` and names the factories."""

    def __dir__(cls) -> list[str]:
        """Return the names of the attributes, without the `Missing` placeholders."""
        attributes: dict[str, object] = {}
        for base in reversed(cls.__mro__):
            attributes.update(vars(base))
        return [name for name, value in attributes.items() if not isinstance(value, Missing)]

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        """Raise an error that says how tensors are created."""
        name = cls.__name__
        parts = " or burnpy.complex(real, imag)" if name == "ComplexTensor" else ""
        raise KindError(
            f"{name}(...) does not make a tensor; write {name}[NumPy].from_data(values), .zeros(shape) or such{parts}"
        )


class TensorBase(Subscriptable, Generic[B], metaclass=TensorMeta):
    """An immutable array of one dtype on a device of backend ``B``."""

    __slots__ = ("__weakref__", "_device", "_primitive")

    kind: ClassVar[KindName]
    numbers: ClassVar[frozenset[type]]
    """The types of Python numbers that can be combined with tensors of the kind."""
    kinds: ClassVar[dict[KindName, type[Any]]] = {}
    """The class of each kind, registered by the classes themselves, which cannot import one another."""

    _device: B
    _primitive: Value
    _backend = property(attrgetter("_device.discrete"))
    """The backend that runs operations on this kind: for floats and complex numbers the device itself, for others
    ``device.discrete``."""

    __hash__ = object.__hash__

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            TensorBase.kinds[cls.kind] = cls
            _give_own_methods(cls)

    def _like(self, primitive: Value) -> Self:
        """Return a tensor of this one's kind and device that holds ``primitive``."""
        out: Self = new(type(self))
        out._device = self._device
        out._primitive = primitive
        return out

    def _float(self, primitive: Value) -> Tensor[B]:
        """Return a float tensor on this one's device that holds ``primitive``."""
        return new_tensor(TensorBase.kinds["float"], self._device, primitive)  # type: ignore[no-any-return]  # as above

    def _int(self, primitive: Value) -> IntTensor[B]:
        """Return an int tensor on this one's device that holds ``primitive``."""
        return new_tensor(TensorBase.kinds["int"], self._device, primitive)  # type: ignore[no-any-return]  # as above

    def _complex(self, primitive: Value) -> ComplexTensor[B]:
        """Return a complex tensor on this one's device that holds ``primitive``."""
        return new_tensor(TensorBase.kinds["complex"], self._device, primitive)  # type: ignore[no-any-return]  # as above

    def _bool(self, primitive: Value) -> BoolTensor[B]:
        """Return a bool tensor on this one's device that holds ``primitive``."""
        return new_tensor(TensorBase.kinds["bool"], self._device, primitive)  # type: ignore[no-any-return]  # as above

    @property
    def shape(self) -> Shape:
        """The size of each dimension; () for a 0-d tensor.

        >>> Tensor[NumPy].zeros((2, 3)).shape
        (2, 3)
        """
        return self._primitive.shape  # type: ignore[no-any-return]  # a primitive's shape is a tuple of ints

    @property
    def dtype(self) -> DType:
        """The dtype of the elements, a NumPy dtype."""
        return self._primitive.dtype  # type: ignore[no-any-return]  # a primitive's dtype is NumPy's

    def __dir__(self) -> list[str]:
        return dir(type(self))

    @property
    def device(self) -> B:
        """The device of the tensor, an instance of its backend."""
        return self._device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._primitive.shape)


X = TypeVar("X", bound=TensorBase[Any])
"""A tensor class, where results have the class of an argument."""


def new_tensor(cls: type[Any], device: Any, primitive: Value) -> Any:
    """Return a tensor of class ``cls`` from a device and a primitive, without checks."""
    out = new(cls)
    out._device = device
    out._primitive = primitive
    return out


def tensor_of(device: Any, primitive: Value) -> Any:
    """Return a tensor of floats or complex numbers from a device and a primitive, without checks."""
    return new_tensor(TensorBase.kinds["complex" if primitive.dtype.kind == "c" else "float"], device, primitive)


def _give_own_methods(cls: type[Any]) -> None:
    """Give a kind its own copies of the methods that it inherits, so that errors name its class."""
    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        inherited.update(vars(base))
    copies: dict[Any, Any] = {}  # ``add`` is also ``__add__``
    for name, method in inherited.items():
        if type(method) in (FunctionType, classmethod) and (method in _owned or not name.startswith("_")):
            if method not in copies:
                copies[method] = own_method(cls, name, method)
            setattr(cls, name, copies[method])


def own_method(cls: type[Any], name: str, method: Any) -> Any:
    """Return a kind's own copy of a method that it inherits, as ``name``; of anything else, the thing itself. Copies of
    `owned` methods create tensors of the kind. Other public methods that take arguments explain a wrong one."""
    if type(method) is FunctionType and method in _owned:
        return copy_method(method, cls, _own_globals(cls, method.__globals__))
    if type(method) in (FunctionType, classmethod) and not name.startswith("_"):
        return inherit_method(method, cls)
    return method


_globals: dict[tuple[type[Any], str], dict[str, Any]] = {}


def _own_globals(cls: type[Any], module_globals: dict[str, Any]) -> dict[str, Any]:
    """Return the globals of a module, in which ``blank`` and ``blank_bool`` create tensors for methods of ``cls``."""
    key = (cls, module_globals["__name__"])
    if key not in _globals:
        kinds = {"blank": cls, "blank_bool": TensorBase.kinds["bool"]}  # BoolTensor is defined before the others
        # ``cls()`` is refused by `TensorMeta`; this bound ``type.__call__`` is the fastest way around it.
        constructors = {name: type.__call__.__get__(kind) for name, kind in kinds.items()}
        _globals[key] = module_globals | constructors
    return _globals[key]


def describe(value: object) -> str:
    """Describe a value for an error message: short, on one line, a tensor without its elements.

    >>> describe([1.0] * 99), describe("cuda")
    ('[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0…', "'cuda'")
    """
    if isinstance(value, TensorBase) or getattr(value, "shape", None):
        array: Any = value
        return f"{a(class_name(value))} of shape {tuple(array.shape)} and dtype {array.dtype}"
    if isinstance(value, (tuple, list)) and any(isinstance(part, TensorBase) for part in value):
        return f"{a(class_name(value))} of {', '.join(class_name(part) for part in value[:8])}"
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an int of more digits than Python converts, or a list that contains one
        size = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"{a(class_name(value))}{size}"
    return text if len(text) <= 90 else f"{text[:89]}…"


def made_of(value: object, wanted: str = "IntTensor") -> str:
    """Return the way from a wrong argument to a tensor of the class ``wanted``, as the end of an error message.

    >>> made_of([0, 2]), made_of(None)
    ('; make one of it first: IntTensor.from_data(values, device=device)', '')
    """
    if isinstance(value, TensorBase):
        return f"; convert it with .{wanted.removesuffix('Tensor').lower() or 'float'}()"
    is_array = hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")
    if is_array or isinstance(value, (list, tuple, range, int, float)):
        return f"; make one of it first: {wanted}.from_data(values, device=device)"
    return ""


class LazyMethod:
    """A stand-in for a method, or a property, of a class in another module.

    Its first use on a tensor class imports the module and puts the method into the tensor class, where it is found
    from then on: later calls cost as much as those of any other method.
    """

    __slots__ = ("module", "name", "owner")

    def __init__(self, module: str, owner: str, name: str) -> None:
        self.module, self.owner, self.name = module, owner, name

    def __get__(self, tensor: TensorBase[Any] | None, cls: type[Any]) -> Any:
        method = self.load()
        if "kind" not in vars(cls):  # the stand-in itself, which `help` looks at
            return method
        setattr(cls, self.name, own_method(cls, self.name, method))
        return getattr(cls if tensor is None else tensor, self.name)

    def load(self) -> Any:
        """Return the method as it is written, importing its module."""
        return vars(getattr(import_module(self.module), self.owner))[self.name]

    def __repr__(self) -> str:
        return f"<method {self.name} of {self.module}, loaded at first use>"


def lazy_classes(table: Mapping[str, str]) -> dict[str, type[Any]]:
    """Return the stand-ins for classes of this package by name, from the names of methods by ``"module.Class"``."""
    package = "burnpy.tensor"
    classes: dict[str, type[Any]] = {}
    for path, names in table.items():
        module, _, owner = path.rpartition(".")
        body: dict[str, Any] = {"__slots__": (), "__module__": package}
        body |= {name: LazyMethod(f"{package}.{module}", owner, name) for name in names.split()}
        classes[owner] = TensorMeta(owner, (TensorBase,), body)
    return classes


_OWNERS: tuple[KindName, ...] = ("complex", "int", "bool", "float")
"""The kinds to convert to, the preferred last: a float becomes a mask, since .int() would round it towards 0."""
_ARTICLE = {"float": "a float", "int": "an int", "bool": "a bool", "complex": "a complex"}


class MissingMethodError(KindError, MissingNameError):
    """The error for a method that a kind of tensor lacks and another one has."""


class Lacking(Missing):
    """A placeholder for a method of another kind: ``i.mean`` of an int tensor suggests ``i.float().mean()``."""

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: KindName) -> None:
        self.name = name
        self.owner: KindName = owner

    def __get__(self, tensor: TensorBase[Any] | None, cls: type[TensorBase[Any]]) -> NoReturn:
        dtype = f" of dtype {tensor.dtype}" if tensor is not None else ""
        raise MissingMethodError(lambda: self._message(cls, dtype))

    def _message(self, cls: type[TensorBase[Any]], dtype: str) -> str:
        theirs = TensorBase.kinds[self.owner]
        value = self._of(theirs)
        if isinstance(value, LazyMethod):
            value = value.load()
        if isinstance(value, classmethod):
            return (
                f"{cls.__name__} has no {self.name}(), which makes {_ARTICLE[self.owner]} tensor; "
                f"write {theirs.__name__}[NumPy].{self.name}(...)"
            )
        call = "" if isinstance(value, property) else "()"
        if cls.kind == "complex":
            return (
                f"complex numbers have no {self.name}{call}; take z.real, z.imag, z.abs() or z.angle() of this tensor"
                f"{dtype}"
            )
        needed, calls = _ARTICLE[self.owner], f"x.{self.owner}().{self.name}{call}"
        if cls.kind == "bool" and self.owner == "float" and not isinstance(self._of(TensorBase.kinds["int"]), Lacking):
            needed, calls = "an int or a float", f"x.int().{self.name}{call} or {calls}"
        return (
            f"{self.name}{call} needs {needed} tensor, and this is {_ARTICLE[cls.kind]} tensor{dtype}; convert it "
            f"first: {calls}"
        )

    def _of(self, cls: type[TensorBase[Any]]) -> Any:
        """Return the attribute of a class as it is stored."""
        return next(vars(base)[self.name] for base in cls.__mro__ if self.name in vars(base))


class Elsewhere(Missing):
    """A placeholder for an attribute that PyTorch or NumPy has, whose error suggests what to write instead."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: object, cls: type) -> NoReturn:
        from burnpy.hints.missing_names import of_tensor

        raise of_tensor(cls.__name__, self.name, sys._getframe(1))

    def __set__(self, tensor: object, value: object) -> NoReturn:
        self.__get__(tensor, type(tensor))


def explain_missing_methods() -> None:
    """Add the placeholders to the tensor classes: `Lacking` for the public methods of other kinds that a kind lacks,
    and `Elsewhere` for other names of PyTorch, NumPy and Burn."""
    methods: dict[KindName, set[str]] = {kind: _public_names(cls) for kind, cls in TensorBase.kinds.items()}
    for kind, cls in TensorBase.kinds.items():
        for owner in _OWNERS:
            for name in methods[owner] - methods[kind]:
                setattr(cls, name, Lacking(name, owner))
    # Placeholders of the base class: the attributes of the kinds, which are subclasses, take precedence.
    public = torch_public_names
    functions = (public.FUNCTIONAL, public.LINALG, public.FFT, public.SPECIAL)
    theirs = " ".join((public.TENSOR, public.TORCH, *functions)).split()
    for name in {*theirs, *other_names.NAMES} - vars(TensorBase).keys():
        setattr(TensorBase, name, Elsewhere(name))


def _public_names(cls: type) -> set[str]:
    """Return the names of the public attributes of a class, including factories and inherited ones."""
    return {name for base in cls.__mro__ for name in vars(base) if not name.startswith("_")}
