"""`Variable`: one tensor of a module under an id of its own; the base of `Param` and of the buffers."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.errors import ImmutableError, KindError, a
from burnpy.backend.primitives import KindName
from burnpy.tensor.base import TensorBase

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Shape

B = TypeVar("B", bound=Backend)

_set = object.__setattr__


def new_id() -> str:
    """An id that nothing else has, in this process or another: 16 hexadecimal digits."""
    return secrets.token_hex(8)


class Variable(Subscriptable, Generic[B]):
    """One tensor that belongs to a module. It never changes; what changes a module makes others, of the same id."""

    __slots__ = ("__weakref__", "_frozen", "_id", "_value")

    word: ClassVar[str]
    """What it is called in messages."""
    kind: ClassVar[KindName] = "float"

    _frozen: bool
    _id: str
    _value: Any

    def __init__(self, value: TensorBase[B], *, frozen: bool = False, id: str | None = None) -> None:
        given: object = value
        if not isinstance(given, TensorBase) or given.kind != self.kind:
            owner = TensorBase.kinds[self.kind].__name__
            raise KindError(
                f"{type(self).__name__}() holds one {owner}, and was given {_shown(given)}; "
                f"make one first, as with {owner}.from_data(values, device=device)"
            )
        _set(self, "_frozen", bool(frozen))
        _set(self, "_id", new_id() if id is None else id)
        _set(self, "_value", self._admitted(value))

    def _admitted(self, value: Any) -> Any:
        """The tensor to hold, of one that was given: tracked or not, as it must be."""
        raise NotImplementedError

    @property
    def id(self) -> str:
        """What it is known by: the same after ``valid()``, ``fork()``, updates, pickling and saving."""
        return self._id

    @property
    def frozen(self) -> bool:
        """Whether training leaves it as it is: see `Module.no_grad`."""
        return self._frozen

    @property
    def shape(self) -> Shape:
        """The shape of the tensor."""
        return self._value.shape  # type: ignore[no-any-return]  # a tensor's

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor."""
        return self._value.dtype  # type: ignore[no-any-return]  # a tensor's

    @property
    def device(self) -> B:
        """The device of the tensor."""
        return self._value.device  # type: ignore[no-any-return]  # a tensor's

    def numel(self) -> int:
        """The number of elements."""
        return self._value.numel()  # type: ignore[no-any-return]  # a tensor's

    def holding(self, value: Any, frozen: bool | None = None) -> Self:
        """The same id with another tensor, admitted as the first was; and, if given, another mark of being frozen."""
        out = self.like(None)
        if frozen is not None:
            _set(out, "_frozen", frozen)
        _set(out, "_value", out._admitted(value))
        return out

    def like(self, value: Any) -> Self:
        """The same id and mark with ``value``, unchecked and as it is."""
        out = object.__new__(type(self))
        _set(out, "_frozen", self._frozen)
        _set(out, "_id", self._id)
        _set(out, "_value", value)
        return out

    def with_id(self, id: str) -> Self:
        """The same tensor under another id."""
        out = self.like(self._value)
        _set(out, "_id", id)
        return out

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(
            f"{a(type(self).__name__)} never changes: its {name} cannot be assigned to; optim.step(...), model.map(f) "
            "and model.replace({path: ...}) return a new model"
        )

    __delattr__: Any = __setattr__

    if not TYPE_CHECKING:  # to type checkers it has what is written above

        def __getattr__(self, name: str) -> object:
            """What to say of what there is not, as of methods of its tensor."""
            from burnpy.nn.display import missing_attribute

            raise missing_attribute(self, "Held", name)

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise KindError(f"{a(type(self).__name__)} is no array but holds a tensor, of which NumPy takes .value")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._value, self._frozen, self._id)

    def __repr__(self) -> str:
        mark = ", frozen" if self._frozen else ""
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, device={self.device}{mark})"


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
