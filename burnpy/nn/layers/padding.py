"""Padding at the ends of dimensions, and the padding of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from burnpy.backend.devices import innermost
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Scalar, Shape, Value
from burnpy.nn.argument_checks import check_choice, form_of, pair
from burnpy.nn.module import Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import addressable, integers
from burnpy.tensor.operand_checks import number
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

Padded = TypeVar("Padded", bound=TensorBase[Any])


@explained
def pad(
    x: Padded,
    pad: Sequence[int],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
    value: float | None = None,
) -> Padded:
    """Add elements at both ends of the last dimensions of a tensor, or cut some off where a number is negative.

    Args:
        x: a tensor of any kind.
        pad: how many elements: before and after the last dimension, then before and after the one in front of it, ….
        mode: their values: ``"constant"``, ``value``; ``"reflect"``, the elements next to the outermost one,
            reversed; ``"replicate"``, the outermost one; ``"circular"``, the elements of the other end.
        value: the number for ``"constant"``; 0 (or False) by default.

    Raises:
        ShapeError: there are more pairs than dimensions, more is cut off than there is, or a dimension has too few
            elements: it needs more than the padding for ``"reflect"``, as many for ``"circular"``, one for
            ``"replicate"``.
        ArgumentError: ``pad`` is no list of pairs, ``mode`` is something else, or ``value`` is given to another mode.

    >>> x = IntTensor[NumPy].from_data([1, 2, 3])
    >>> pad(x, (1, 2)).tolist(), pad(x, (2, 1), mode="reflect").tolist()
    ([0, 1, 2, 3, 0, 0], [3, 2, 1, 2, 3, 2])
    >>> pad(x, (1, 2), mode="replicate").tolist(), pad(x, (2, -1), mode="circular").tolist()
    ([1, 1, 2, 3, 3, 3], [1, 2, 1, 2])
    """
    if not isinstance(x, TensorBase):
        raise KindError(f"pad() takes a tensor, got {describe(x)}; make a tensor of it first")
    check_choice("pad", "mode", mode, ("constant", "reflect", "replicate", "circular"))
    if mode != "constant" and value is not None:
        raise ArgumentError(f"pad() got mode={mode!r:.80} and value={describe(value)}; only 'constant' has one")
    given: Any = pad
    if isinstance(given, (tuple, list)) and any(isinstance(each, (tuple, list)) for each in given):
        raise ArgumentError(
            f"pad() got pad={describe(given)}; expected pairs in a row, the last dimension's first: "
            "(left, right, top, bottom)"
        )
    ends, shape = integers((pad,), "number", "pad"), x.shape
    if len(ends) % 2:
        raise ArgumentError(f"pad() got pad={describe(ends)}; expected pairs, the last dimension's first")
    if len(ends) > 2 * len(shape):
        raise ShapeError(f"pad() got {len(ends) // 2} pairs of shape {shape}; give one for each dim")
    pairs = [(0, 0)] * (len(shape) - len(ends) // 2) + [(ends[k], ends[k + 1]) for k in range(len(ends) - 2, -1, -2)]
    cut = min(ends, default=0) < 0
    if cut and any(size + min(low, 0) + min(high, 0) < 0 for size, (low, high) in zip(shape, pairs, strict=True)):
        raise ShapeError(f"pad() cannot cut {ends} off shape {shape}, which has fewer elements")
    full = addressable(tuple([low + size + high for size, (low, high) in zip(shape, pairs, strict=True)]), "pad")
    b: Any = x._backend
    if mode == "constant":
        fill = (False if x.kind == "bool" else 0) if value is None else number(x, value, "pad")
        return x._like(_constant(b, x._primitive, pairs, full, fill, cut))
    for dim, ends_of_dim in enumerate(pairs):
        if ends_of_dim != (0, 0):
            _need(mode, shape, dim, *ends_of_dim)
    changes = any(map(any, pairs)) or innermost(b).sizes_vary
    return x._like(b.pad_ends(x._primitive, tuple(pairs), mode) if changes else x._primitive)


def _constant(b: Any, x: Value, pairs: list[tuple[int, int]], full: Shape, fill: Scalar, cut: bool) -> Value:
    """Return x, without the elements cut off, in an array of shape ``full`` that is filled with a number."""
    if cut:
        ends = zip(x.shape, pairs, strict=True)
        x = b.slice(x, tuple([slice(max(-low, 0), size - max(-high, 0), 1) for size, (low, high) in ends]))
        pairs = [(max(low, 0), high) for low, high in pairs]
    if x.shape == full and not innermost(b).sizes_vary:
        return x
    place = tuple([slice(low, low + size, 1) for size, (low, _) in zip(x.shape, pairs, strict=True)])
    return b.slice_scatter(b.expand(b.full((), fill, x.dtype), full), place, x)  # which copies the expanded array


def _need(mode: str, shape: Shape, dim: int, low: int, high: int) -> None:
    """Check that a dimension has enough elements to be padded with."""
    size, most = shape[dim], max(low, high)
    least = most + 1 if mode == "reflect" else 1 if mode == "replicate" else most - min(low, 0) - min(high, 0)
    if most > 0 and size < least:
        words = {"reflect": f"more than {most}", "replicate": "one or more", "circular": f"{most} or more"}[mode]
        raise ShapeError(
            f"pad() got {(low, high)} in mode {mode!r} along dim {dim} of shape {shape}; it needs {words} "
            "elements there"
        )


Padding: TypeAlias = int | Sequence[int | Sequence[int]] | Literal["same", "valid"]
"""Zero padding: of each dimension a number for both sides, or (before, after); one number for all dimensions; or the
name of a mode."""
Sides: TypeAlias = tuple[int, int]
"""The zeros before and after a dimension."""


def padding_sides(operation: str, padding: Padding, stride: tuple[int, ...]) -> tuple[Sides, ...] | None:
    """Return the zeros before and after each dimension, as many as there are strides, or None for "same"."""
    if isinstance(padding, int) and padding >= 0:
        return ((padding, padding),) * len(stride)
    if isinstance(padding, tuple) and len(padding) == len(stride) == 2:  # as a layer has it, without a loop
        high, wide = padding
        if isinstance(high, int) and isinstance(wide, int) and high >= 0 and wide >= 0:
            return (high, high), (wide, wide)
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * len(stride)
        if padding != "same":
            raise ArgumentError(f'{operation}() got padding={padding!r:.80}; expected a number, "same" or "valid"')
        if stride != (1,) * len(stride):
            shown = stride[0] if len(stride) == 1 else stride
            raise ArgumentError(f'{operation}() got padding="same" with stride={shown}; expected a stride of 1')
        return None
    return _listed_sides(operation, padding, len(stride))


def same_sides(kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[Sides, ...]:
    """Return the padding "same": what preserves the sizes, with the extra element of an odd total at the end."""
    totals = [gap * (size - 1) for size, gap in zip(kernel, dilation, strict=True)]
    return tuple([(total // 2, total - total // 2) for total in totals])


def padding_setting(operation: str, padding: Padding, stride: tuple[int, ...]) -> Padding:
    """Return a validated padding in its shortest form, which a layer shows: numbers where both sides are equal."""
    sides = padding_sides(operation, padding, stride)
    if sides is None:
        return "same"
    if all(before == after for before, after in sides):
        return sides[0][0] if len(sides) == 1 else tuple([before for before, _ in sides])
    return sides[0] if len(sides) == 1 else sides


def _listed_sides(operation: str, padding: Any, dims: int) -> tuple[Sides, ...]:
    """Convert padding as `padding_sides` does: the slow path, for sequences, other integers, and errors."""
    each = padding if isinstance(padding, Sequence) else (padding,) * dims
    if dims == 1 and len(each) == 2:
        each = (each,)
    try:
        if len(each) != dims:
            raise ArgumentError
        return tuple([pair(operation, "padding", side, 0) for side in each])
    except ArgumentError:
        form = "(before, after)" if dims == 1 else f"({form_of(dims)}), where each may be (before, after)"
        raise ArgumentError(
            f"{operation}() got padding={padding!r:.80}; expected an int of at least 0, {form}, "
            'or one of the words "same" and "valid"'
        ) from None


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
    """Return the padding, one number or an even number of them."""
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
