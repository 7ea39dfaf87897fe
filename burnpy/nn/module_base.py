"""`ModuleBase`: construction, validation of the fields after ``__init__``, immutability and traversal of modules.

The leaves of a module are the values of its parameters, shared ones once; buffers and everything else are constants.
The derivative is a module with gradients in place of parameters and the same buffers.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NoReturn

import numpy as np

from burnpy.backend.devices import Subscriptable
from burnpy.backend.errors import DeviceError, ImmutableError, KindError, ModuleError, a
from burnpy.backend.primitives import INEXACT
from burnpy.nn.module_tree import (
    FrozenDict,
    FrozenList,
    TreeNode,
    joined,
    new_module,
    part_names,
    regrouped,
    variables_in,
    walk,
)
from burnpy.nn.param import Param, Variable, holder_of
from burnpy.tensor.call_errors import (
    UNEXPLAINED,
    explained,
    flags_of,
    own_methods,
    refuse_attribute,
    refuse_call,
    refuse_construction,
    signature_of,
    with_flags,
)
from burnpy.tensor.levels import in_training_mode
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

_ARRAYS = ("__array__", "__dlpack__", "__cuda_array_interface__")


def read_only_fields(module: TreeNode) -> tuple[str, ...]:
    """Make a module's fields read-only and return the names of those that contain parameters, buffers or modules."""
    name, fields = type(module).__name__, vars(module)
    parts = []
    for field, value in fields.items():
        stored, is_tree = _read_only(value, name, field)
        fields[field] = stored
        if is_tree:
            parts.append(field)
    return tuple(parts)


def check_variables(module: TreeNode) -> None:
    """Check that all variables of a module are on one device and that their ids are unique."""
    name = type(module).__name__
    first: tuple[str, Any] | None = None
    ids: dict[str, tuple[str, Any]] = {}
    for path, item in walk(module):
        if not isinstance(item, Variable):
            continue
        device = item._value._device
        if first is None:
            first = path, device
        elif device is not first[1]:
            raise DeviceError(
                f"{name} holds {first[0]} on {first[1]} and {path} on {device}; a module is on one device: give all "
                "of its layers the same device, or move one with .to_device(device)"
            )
        known = ids.setdefault(item._id, (path, item))
        if known[1] is not item:
            raise ModuleError(
                f"{name} holds two {item.word}s of one id, {known[0]} and {path}, as copies of a module have; "
                "hold the same object in both places to share it, or give one of them .with_new_ids()"
            )


def _read_only(value: Any, name: str, path: str) -> tuple[Any, bool]:
    """Return the read-only form of a field's value, and whether it contains variables or modules. Lists become tuples,
    of modules and parameters `FrozenList`, and dicts become `FrozenDict`."""
    if isinstance(value, Variable):
        return value, True
    if isinstance(value, TreeNode):
        if not value._sealed:
            raise ModuleError(
                f"{name}.{path} holds {a(type(value).__name__)} whose __init__ is not done yet; a module cannot "
                "contain itself: let its parts be modules of their own"
            )
        return value, True
    if isinstance(value, TensorBase):
        _refuse_tensor(value, name, path)
    if isinstance(value, (str, bytes, int, float, type(None), type, np.generic)):
        return value, False
    if any(hasattr(value, attribute) for attribute in _ARRAYS):
        _refuse_array(value, name, path)
    if isinstance(value, (list, tuple)):
        members = value if isinstance(value, tuple) else tuple(value)
        stored = [
            _read_only(member, name, joined(path, place))
            for place, member in zip(part_names(members), members, strict=True)
        ]
        is_tree, read_only = any(tree for _, tree in stored), tuple([member for member, _ in stored])
        return FrozenList(read_only) if is_tree and isinstance(value, list) else regrouped(read_only, members), is_tree
    if isinstance(value, Mapping):
        return _read_only_dict(value, name, path)
    if isinstance(value, (set, frozenset)):
        return _read_only_set(value, name, path), False
    refuse_hidden(value, name, path)
    return value, False


def _read_only_dict(value: Mapping[Any, Any], name: str, path: str) -> tuple[FrozenDict[Any, Any], bool]:
    entries = {key: _read_only(member, name, joined(path, key)) for key, member in value.items()}
    is_tree = any(tree for _, tree in entries.values())
    for key in entries if is_tree else ():
        if not isinstance(key, str) or not key or "." in key:
            raise ModuleError(
                f"{name}.{path} has the key {key!r}; where a dict holds parameters or modules, keys are parts of "
                "their paths: non-empty strings without a dot"
            )
    return FrozenDict({key: member for key, (member, _) in entries.items()}), is_tree


def _read_only_set(value: set[Any] | frozenset[Any], name: str, path: str) -> frozenset[Any]:
    for member in value:
        if _read_only(member, name, joined(path, "…"))[1]:
            raise ModuleError(
                f"{name}.{path} is a set that holds {a(type(member).__name__)}, which has no path in it; "
                "use a list, a tuple or a dict"
            )
    return frozenset(value)


def _refuse_array(value: Any, name: str, path: str) -> NoReturn:
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
    raise ModuleError(
        f"{name}.{path} is a {type(value).__module__}.{type(value).__name__}{shape}, and a module keeps arrays as "
        "tensors: write Param(Tensor.from_data(array, device=device)) for a tensor that it learns, Buffer(...) for "
        "any other"
    )


def _refuse_tensor(value: TensorBase[Any], name: str, path: str) -> NoReturn:
    buffer, param = holder_of(value.kind, False), holder_of(value.kind, True)
    field = path.rpartition(".")[2]
    learned = f"{param}({field if field.isidentifier() else '...'}) for a tensor that it learns, "
    raise ModuleError(
        f"{name}.{path} is a bare {type(value).__name__} of shape {value.shape}; wrap it: "
        f"{learned if value.kind in INEXACT else ''}{buffer}(...) for one that it does not learn"
    )


def refuse_hidden(value: Any, name: str, path: str) -> None:
    """Raise if an opaque value contains a tensor, variable or module, or if it is an iterator or mutable sequence.

    Parts inside such a value would not be moved, saved or trained. Inspected are the objects of bound methods, the
    arguments of `functools.partial`, closures of functions, and attributes of objects, one level deep. The lists, dicts
    and dataclasses in them may contain tensors, such as constants on the host, but no variables and modules.
    """
    what = f"{name}.{path} is {a(type(value).__name__)}"
    if isinstance(value, (Iterator, MutableSequence, memoryview)):
        raise ModuleError(
            f"{what}, which can change or be exhausted, and a module never changes; give "
            "it a list or a tuple, and of numbers a Buffer"
        )
    parts = _direct(value)
    hidden = [found for found in parts if isinstance(found[1], (Variable, TensorBase, TreeNode))]
    hidden += [found for found in _within(value, parts) if isinstance(found[1], (Variable, TreeNode))]
    for where, part in hidden:
        raise ModuleError(
            f"{what} that keeps {a(type(part).__name__)}{where}, where it has no path and "
            "would stay as it is when the model is moved, saved or trained; make it a field of the module, in "
            "lists, tuples and dicts if need be, and use it in forward()"
        )


def _direct(value: Any) -> list[tuple[str, Any]]:
    """List the objects that a value refers to, each with text that says where: " as attribute"."""
    if isinstance(value, partial):
        arguments: list[Any] = [value.func, *value.args, *value.keywords.values()]
        return [("", part) for each in arguments for part in (each, getattr(each, "__self__", None))]
    cells: Any = getattr(value, "__closure__", None) or ()
    names: Any = _fields_of(value) or getattr(value, "__dict__", ())
    return [
        ("", getattr(value, "__self__", None)),
        *(("", getattr(cell, "cell_contents", None)) for cell in cells),
        *((f" as {key}", getattr(value, key, None)) for key in names),
    ]


def _within(value: Any, parts: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """List the objects within the lists, dicts and dataclasses that a value refers to."""
    found, seen = [*parts], {id(value)}
    for where, part in found:  # which grows meanwhile
        if id(part) in seen or len(found) > _MOST_INSIDE:
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple, Mapping)):
            found += [(where, each) for each in (part.values() if isinstance(part, Mapping) else part)]
        else:
            found += [(f"{where}.{key}" if where else "", getattr(part, key, None)) for key in _fields_of(part)]
    return found[len(parts) :]


_MOST_INSIDE = 1000
"""The number of objects in a value beyond which no further ones are looked at, such as a dataset's samples."""


def _fields_of(value: Any) -> Iterable[str]:
    """Return the names of a dataclass instance's fields; none for other objects."""
    return () if isinstance(value, type) else getattr(type(value), "__dataclass_fields__", ())


_set = object.__setattr__


class ModuleMeta(ABCMeta):
    """The metaclass of modules: a call runs ``__init__``, validates the fields and makes the module immutable.

    Modules may have abstract methods, and `abc.ABC` among their bases. `isinstance` looks at the bases alone, which
    takes half the time of a search among registered classes.
    """

    _reserved: frozenset[str]
    _explained: frozenset[str]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any) -> None:
        super().__init__(name, bases, namespace, **keywords)
        methods = own_methods(cls, namespace, ModuleError)
        if methods:
            cls._reserved |= methods
        for key, method in [*vars(cls).items()]:
            of_all = key in cls._reserved and key[0] != "_" and key != "forward"
            if (of_all or key in cls._explained) and type(method) is FunctionType:
                setattr(cls, key, explained(method))

    if not TYPE_CHECKING:  # type checkers read the signature of __init__
        __instancecheck__ = type.__instancecheck__
        __subclasscheck__ = type.__subclasscheck__

        def __call__(cls, *args, **kwargs):
            """Create a module and make it immutable."""
            flags = flags_of(cls.__init__, 1)
            if flags:
                args = with_flags(cls.__name__, cls.__init__, flags, args, kwargs)
            try:
                module = cls.__new__(cls)
                _set(module, "_sealed", False)
                _set(module, "_override", None)
                module.__init__(*args, **kwargs)
            except UNEXPLAINED as error:
                refuse_construction(cls, args, kwargs, error)
                raise
            _set(module, "_parts", read_only_fields(module))
            _set(module, "_cached_variables", None)
            _set(module, "_whole", None)
            check_variables(module)
            _set(module, "_sealed", True)
            return module

        @property
        def __signature__(cls):
            """The signature of ``__init__``, for `inspect.signature`."""
            return signature_of(cls)


class ModuleBase(TreeNode, Subscriptable, Generic[B], metaclass=ModuleMeta):
    """The base class of `Module` and `Stateless`: an immutable tree of parameters, buffers and modules."""

    __slots__ = ()

    _reserved = frozenset[str]()
    """The names that no field may have, since every module or the layer that a class inherits from has them."""
    _instead_of_forward = "write one to compute the result"  # where a class has none, and is called
    _explained = frozenset[str]()
    """The methods that subclasses write and users call, so that their errors are `explained`, as overridden ones'."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if vars(cls).get("__slots__"):
            raise ModuleError(
                f"{cls.__name__} has __slots__, and the fields of a module are those of its __dict__: others would not "
                "be moved, saved or trained; remove __slots__, or slots=True of a dataclass"
            )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output. Every module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(); {type(self)._instead_of_forward}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of `forward`."""
        try:
            return self.forward(*args, **kwargs)
        except UNEXPLAINED as error:
            refuse_call(self, args, kwargs, error)
            raise

    @property
    def device(self) -> B:
        """The device of the module's parameters and buffers.

        Raises:
            ModuleError: the module has neither parameters nor buffers.
        """
        device: Any = self._own_device()
        if device is not None:
            return device  # type: ignore[no-any-return]  # of the backend of the module
        raise ModuleError(f"{type(self).__name__} holds neither parameters nor buffers, and is on no device of its own")

    def _own_device(self) -> Any:
        """Return the device of the parameters and buffers; None if there are none."""
        for variable in self._variables().values():
            return variable._value._device  # all are on one
        return None

    def _variables(self) -> dict[str, Variable[Any]]:
        """All parameters and buffers by path, shared ones by their first path."""
        if not self._sealed:
            raise self._unfinished()
        variables = self._cached_variables
        if variables is None:
            variables = variables_in(self)
            _set(self, "_cached_variables", variables)
        return variables

    def named_params(self) -> dict[str, Param[B]]:
        """Return all parameters by path, in the order of assignment.

        Frozen ones are included; a shared one has its first path.

        >>> from burnpy.nn import Linear
        >>> list(Linear(2, 3, device=NumPy).named_params())
        ['weight', 'bias']
        """
        return {path: variable for path, variable in self._variables().items() if isinstance(variable, Param)}

    def params(self) -> tuple[Param[B], ...]:
        """Return all parameters, each once."""
        return tuple(self.named_params().values())

    def named_buffers(self) -> dict[str, Variable[B]]:
        """Return every `Buffer`, `IntBuffer` and `BoolBuffer` by path; shared ones by their first path."""
        return {path: variable for path, variable in self._variables().items() if not isinstance(variable, Param)}

    def named_modules(self) -> dict[str, ModuleBase[Any]]:
        """Return all modules of the tree by path, this one first, at ``""``; shared ones by their first path."""
        if not self._sealed:
            raise self._unfinished()
        modules: dict[str, ModuleBase[Any]] = {}
        seen: set[int] = set()
        for path, item in walk(self):
            if isinstance(item, ModuleBase) and id(item) not in seen:
                seen.add(id(item))
                modules[path] = item
        return modules

    def visit(self, f: Callable[[str, Variable[B]], object]) -> None:
        """Call ``f(path, variable)`` for each parameter and buffer."""
        for path, variable in self._variables().items():
            f(path, variable)

    @property
    def num_params(self) -> int:
        """The total number of elements of all parameters, shared ones counted once."""
        return sum(variable.numel() for variable in self.params())

    @property
    def is_training(self) -> bool:
        """True if the module is in training mode.

        The mode is set by `train` or `eval`; by default it is training mode if the module's device differentiates.

        A module without a device of its own, such as `Dropout`, follows its input: see `trains_on`.
        """
        if self._override is not None:
            return self._override
        return any(in_training_mode(variable.device) for variable in [*self._variables().values()][:1])

    def trains_on(self, x: TensorBase[Any]) -> bool:
        """Return whether the module is in training mode for the input ``x``.

        The mode is set by `train` or `eval`; by default it is training mode if the device of ``x`` differentiates.

        Derivatives of `burnpy.func` do not switch to training mode.

        Raises:
            KindError: ``x`` is not a tensor.
        """
        self._need_tensor(x)
        return in_training_mode(x.device) if self._override is None else self._override

    def _need_tensor(self, x: object) -> None:
        """Check that an input is a tensor, and not another library's array, which has methods of the same names."""
        if not isinstance(x, TensorBase):
            name = type(self).__name__
            raise KindError(f"{name} takes a tensor as its input, got {describe(x)}{made_of(x, 'Tensor')}")

    def __setattr__(self, name: str, value: object) -> None:
        if self._sealed:
            self._refuse(name, "assigned to")
        if name in self._reserved:
            raise ModuleError(
                f"{type(self).__name__}.{name} was assigned to in __init__, and {name!r} has a meaning in its "
                "base class: choose another name"
            )
        _set(self, name, value)

    if not TYPE_CHECKING:  # type checkers see the fields that __init__ assigns
        __getattr__ = refuse_attribute

    def __delattr__(self, name: str) -> None:
        if self._sealed:
            self._refuse(name, "deleted")
        object.__delattr__(self, name)

    def _unfinished(self) -> ModuleError:
        """Return the error for a method that needs the parts of the module, called in its ``__init__``."""
        return ModuleError(
            f"{type(self).__name__} has no parameters, modules or device before its __init__ is done; give __init__ "
            "what it needs, or read them afterwards"
        )

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise ImmutableError(
            f"modules never change: {type(self).__name__}.{name} cannot be {what} after __init__; "
            f"model.replace({{'…{name}': value}}) and optim.step(...) return a new model"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), dict(vars(self)), self._parts, self._override)

    def __copy__(self) -> Any:
        return self


def _restored(cls: type[Any], fields: dict[str, Any], parts: tuple[str, ...], override: bool | None) -> Any:
    return new_module(cls, fields, parts, override)
