"""Buffers: tensors of a module that are no parameters, such as running statistics, tables and masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import NotTrackedError, a
from burnpy.nn.variable import Variable
from burnpy.tensor.call_errors import composed

if TYPE_CHECKING:
    from burnpy.backend.primitives import KindName
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


@composed
class Buffer(Variable[B]):
    """A tensor that goes with a module and is not learned: it is moved, saved and loaded, and has no gradient.

    What a forward pass would have it become travels with the gradients and is applied by an optimizer's step: see
    `burnpy.nn.record_update`.

    Args:
        value: an untracked tensor.
        frozen: whether such updates leave it as it is.
        id: for who restores a buffer; otherwise a new one.

    Raises:
        KindError: ``value`` is no float `Tensor`; for ints there is `IntBuffer`, for bools `BoolBuffer`.
        NotTrackedError: ``value`` is tracked.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Buffer(Tensor[NumPy].zeros((3,))).value.tolist()
    [0.0, 0.0, 0.0]
    """

    __slots__ = ()

    word: ClassVar[str] = "buffer"

    if TYPE_CHECKING:

        def __init__(self, value: Tensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

    @property
    def value(self) -> Tensor[B]:
        """The tensor, untracked."""
        return self._value  # type: ignore[no-any-return]  # a Tensor, as __init__ made sure

    def _admitted(self, value: Any) -> Any:
        if value.is_require_grad():
            raise NotTrackedError(
                f"{a(type(self).__name__)} was given a tracked tensor of shape {value.shape}, and buffers have no "
                "gradient; give it value.detach(), or make it a Param"
            )
        return value


@composed
class IntBuffer(Variable[B]):
    """A buffer of ints: counts, positions, tables of indices. Otherwise as `Buffer`."""

    __slots__ = ()

    word: ClassVar[str] = "buffer"
    kind: ClassVar[KindName] = "int"

    if TYPE_CHECKING:

        def __init__(self, value: IntTensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

    @property
    def value(self) -> IntTensor[B]:
        """The tensor."""
        return self._value  # type: ignore[no-any-return]  # an IntTensor, as __init__ made sure

    def _admitted(self, value: Any) -> Any:
        return value


@composed
class BoolBuffer(Variable[B]):
    """A buffer of truth values: masks. Otherwise as `Buffer`."""

    __slots__ = ()

    word: ClassVar[str] = "buffer"
    kind: ClassVar[KindName] = "bool"

    if TYPE_CHECKING:

        def __init__(self, value: BoolTensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

    @property
    def value(self) -> BoolTensor[B]:
        """The tensor."""
        return self._value  # type: ignore[no-any-return]  # a BoolTensor, as __init__ made sure

    def _admitted(self, value: Any) -> Any:
        return value
