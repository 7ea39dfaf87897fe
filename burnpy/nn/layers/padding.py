"""Padding of sequences, images and volumes, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.padding import pad
from burnpy.nn.module import Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class _Pad(Stateless):
    """A padding of the last dimensions. The arguments are the same as for `ConstantPad`."""

    _mode: ClassVar[Literal["constant", "reflect", "replicate", "circular"]] = "constant"

    def __init__(self, padding: int | Sequence[int], *, dims: int = 2) -> None:
        self.padding, self.dims = _checked(type(self).__name__, padding, dims), dims

    @property
    def _ends(self) -> tuple[int, ...]:
        """One number for each end."""
        return (self.padding,) * (2 * self.dims) if isinstance(self.padding, int) else self.padding

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pad (…, *sizes)."""
        return pad(x, self._ends, self._mode)


class ConstantPad(_Pad):
    """Adds elements of one value around the last dimensions, or cuts some off: see `burnpy.nn.functional.pad`.

    Args:
        padding: how many elements: before and after the last dimension, then before and after the one in front of it,
            …; or one number for both ends of each of the last ``dims`` dimensions.
        value: the value.
        dims: how many dimensions one number is for: 1 of sequences, 2 of images, 3 of volumes.

    Raises:
        ArgumentError: a setting is invalid.

    >>> ConstantPad((1, 2), 7.0)(Tensor[NumPy].ones((1, 3))).tolist()
    [[7.0, 1.0, 1.0, 1.0, 7.0, 7.0]]
    """

    def __init__(self, padding: int | Sequence[int], value: float = 0.0, *, dims: int = 2) -> None:
        super().__init__(padding, dims=dims)
        self.value = value

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pad (…, *sizes)."""
        return pad(x, self._ends, value=self.value)


class ZeroPad(_Pad):
    """Adds zeros around the last dimensions, or cuts elements off: see `ConstantPad`.

    >>> ZeroPad(1)(Tensor[NumPy].ones((1, 3, 2, 2))).shape
    (1, 3, 4, 4)
    """


class ReflectionPad(_Pad):
    """Adds the elements next to the outermost ones, reversed, around the last dimensions: see `ConstantPad`.

    >>> ReflectionPad(2, dims=1)(Tensor[NumPy].from_data([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]]
    """

    _mode = "reflect"


class ReplicationPad(_Pad):
    """Adds copies of the outermost elements around the last dimensions: see `ConstantPad`.

    >>> ReplicationPad((1, 2))(Tensor[NumPy].from_data([[1.0, 2.0]])).tolist()
    [[1.0, 1.0, 2.0, 2.0, 2.0]]
    """

    _mode = "replicate"


class CircularPad(_Pad):
    """Adds the elements of the other end around the last dimensions: see `ConstantPad`.

    >>> CircularPad((1, 2))(Tensor[NumPy].from_data([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 1.0, 2.0, 3.0, 1.0, 2.0]]
    """

    _mode = "circular"


def _checked(layer: str, padding: int | Sequence[int], dims: Any) -> int | tuple[int, ...]:
    """Return the padding, one number or an even number of them.

    Raises:
        ArgumentError: it is neither an int nor pairs of ints, or ``dims`` is not positive.
    """
    if isinstance(dims, bool) or not isinstance(dims, int) or dims < 1:
        raise ArgumentError(f"{layer}() got dims={dims!r:.80}; expected a positive int")
    try:
        checked = tuple([index(n) for n in padding]) if isinstance(padding, Sequence) else index(padding)
    except TypeError:
        checked = ()
    if isinstance(checked, tuple) and (not checked or len(checked) % 2):
        raise ArgumentError(
            f"{layer}() got padding={padding!r:.80}; expected an int, or pairs of ints, the last dimension's first"
        )
    return checked
