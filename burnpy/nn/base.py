"""`ModuleBase`: how modules are made, why they never change, and what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.errors import ImmutableError, ModuleError
from burnpy.nn.call_errors import call_error, signature_of
from burnpy.nn.fields import check_held, settled
from burnpy.nn.tree import new_module, variables_in, walk
from burnpy.nn.variable import Param, Variable
from burnpy.tensor.transfer import differentiates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from burnpy.nn.call_trace import Input
    from burnpy.nn.summary import Summary
    from burnpy.tensor.base import TensorBase

B = TypeVar("B", bound=Backend)

_set = object.__setattr__


class ModuleMeta(type):
    """Makes modules: runs ``__init__``, looks through the fields, and closes them."""

    if not TYPE_CHECKING:  # to type checkers a module class is called as its __init__ says

        def __call__(cls, *args, **kwargs):
            """A module of these arguments, closed."""
            module = cls.__new__(cls)
            _set(module, "_sealed", False)
            try:
                module.__init__(*args, **kwargs)
            except TypeError as error:
                refusal = call_error(cls, args, kwargs)
                if refusal is None:
                    raise
                raise refusal from error
            parts = settled(module)
            for name, value in (("_parts", parts), ("_override", None), ("_held", None)):
                _set(module, name, value)
            check_held(module)
            _set(module, "_sealed", True)
            return module

        @property
        def __signature__(cls):
            """That of ``__init__``, for whoever looks at the class."""
            return signature_of(cls)


class ModuleBase(Subscriptable, Generic[B], metaclass=ModuleMeta):
    """What `Module` and `Stateless` share: an immutable tree of parameters, buffers and modules."""

    __slots__ = ("__dict__", "__weakref__", "_held", "_override", "_parts", "_sealed")

    _held: dict[str, Variable[Any]] | None  #: what `variables_in` found, once someone asked
    _override: bool | None  #: whether to behave as in training; None: as the device says
    _parts: tuple[str, ...]  #: the fields with parameters, buffers or modules in them
    _sealed: bool  #: whether __init__ is done

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes. Every module writes its own."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(); write one: what the module computes")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What `forward` computes."""
        return self.forward(*args, **kwargs)

    def extra_repr(self) -> str:
        """What is shown of the module besides its parts, in parentheses: its settings, as its class is called."""
        from burnpy.nn.settings import settings

        return settings(self)

    @property
    def device(self) -> B:
        """The device that the module is on.

        Raises:
            ModuleError: it holds neither parameters nor buffers, and is on none.
        """
        for held in self._all_held().values():
            return held.device  # type: ignore[no-any-return]  # all are on one
        raise ModuleError(f"{type(self).__name__} holds neither parameters nor buffers, and is on no device of its own")

    def _all_held(self) -> dict[str, Variable[Any]]:
        found = self._held
        if found is None:
            found = variables_in(self)
            _set(self, "_held", found)
        return found

    def named_params(self) -> dict[str, Param[B]]:
        """Every parameter by its path, frozen ones too, in the order of assignment; a shared one by its first path.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear
        >>> list(Linear(2, 3, device=NumPy).named_params())
        ['weight', 'bias']
        """
        return {path: held for path, held in self._all_held().items() if isinstance(held, Param)}

    def params(self) -> tuple[Param[B], ...]:
        """Every parameter, once."""
        return tuple(self.named_params().values())

    def named_buffers(self) -> dict[str, Variable[B]]:
        """Every `Buffer`, `IntBuffer` and `BoolBuffer` by its path; a shared one by its first path."""
        return {path: held for path, held in self._all_held().items() if not isinstance(held, Param)}

    def named_modules(self) -> dict[str, ModuleBase[Any]]:
        """Every module in the tree by its path, this one first, at ``""``; a shared one by its first path."""
        found: dict[str, ModuleBase[Any]] = {}
        seen: set[int] = set()
        for path, item in walk(self):
            if isinstance(item, ModuleBase) and id(item) not in seen:
                seen.add(id(item))
                found[path] = item
        return found

    def visit(self, f: Callable[[str, Variable[B]], object]) -> None:
        """Call ``f`` with the path of each parameter and buffer, and itself."""
        for path, held in self._all_held().items():
            f(path, held)

    @property
    def num_params(self) -> int:
        """How many numbers the parameters hold together, shared ones counted once."""
        return sum(held.numel() for held in self.params())

    def summary(self, *, depth: int | None = None, input: Input | Sequence[Input] | None = None) -> Summary:
        """A table of the layers with their parameters and, where there is an input, what they return and what it costs.

        With an input the model is run once, as in use and without a graph. FLOPs are counted as `Profiled` does.

        Args:
            depth: how deep to look: 0 for the model alone, 1 for what is directly inside of it; None for all.
            input: what to call the model with: a tensor, the shape of one of zeros, or a tuple of these.

        Raises:
            ArgumentError: ``input`` is none of these.
            DeviceError: ``input`` is on another device. What the model raises comes with a note of where it was.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear, Relu, Sequential
        >>> Sequential(Linear(2, 8, device=NumPy), Relu(), Linear(8, 1, device=NumPy)).summary(input=(3, 2))
        path  layer         output  parameters  FLOPs
        ────  ────────────  ──────  ──────────  ─────
              Sequential()  (3, 1)          33    195
        0     Linear(2, 8)  (3, 8)          24    120
        1     Relu()        (3, 8)           0     24
        2     Linear(8, 1)  (3, 1)           9     51
        33 parameters, 195 FLOP
        """
        from burnpy.nn.summary import summarized

        return summarized(self, depth, input)

    @property
    def is_training(self) -> bool:
        """Whether the module behaves as in training: as `train` or `eval` said, else as its device does.

        What has no device of its own, as `Dropout`, goes by its input: see `trains_on`.
        """
        if self._override is not None:
            return self._override
        return any(differentiates(held.device) for held in [*self._all_held().values()][:1])

    def trains_on(self, x: TensorBase[Any]) -> bool:
        """Whether ``x`` is treated as in training: as `train` or `eval` said, else whether its device differentiates.

        A derivative taken by `burnpy.func` is none of training: it is that of the function as it is.
        """
        return differentiates(x.device) if self._override is None else self._override

    def __setattr__(self, name: str, value: object) -> None:
        if self._sealed:
            self._refuse(name, "assigned to")
        if hasattr(ModuleBase, name) or name in _RESERVED:
            raise ModuleError(
                f"{type(self).__name__}.{name} was assigned to in __init__, and {name!r} means something for every "
                "module: choose another name"
            )
        _set(self, name, value)

    if not TYPE_CHECKING:  # to type checkers a module has the fields that its __init__ assigns

        def __getattr__(self, name: str) -> object:
            """What to say of what there is not, as of PyTorch's methods."""
            from burnpy.nn.display import missing_attribute

            raise missing_attribute(self, "Module", name)

    def __delattr__(self, name: str) -> None:
        if self._sealed:
            self._refuse(name, "deleted")
        object.__delattr__(self, name)

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise ImmutableError(
            f"modules never change: {type(self).__name__}.{name} cannot be {what} after __init__; "
            f"model.replace({{'…{name}': value}}) and optim.step(...) return a new model"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), dict(vars(self)), self._parts, self._override)

    def __copy__(self) -> Any:
        return self

    def __repr__(self) -> str:
        from burnpy.nn.display import render

        return render(self)


_METHODS = """astype eval fork into_record load_record map no_grad replace require_grad state state_report to_device
    train updated valid with_new_ids with_state with_values"""
_RESERVED = frozenset(_METHODS.split())
"""The methods that `Module` has besides; a field of such a name would hide one."""


def _restored(cls: type[Any], fields: dict[str, Any], parts: tuple[str, ...], override: bool | None) -> Any:
    return new_module(cls, fields, parts, override)
