"""Padding of the last dimensions: with a number, or with the tensor's own elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Scalar, Shape, Value
from burnpy.nn.argument_checks import check_choice
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import addressable, integers
from burnpy.tensor.operands import number
from burnpy.tensor.tensor_base import TensorBase, describe

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
    if any(size + min(low, 0) + min(high, 0) < 0 for size, (low, high) in zip(shape, pairs, strict=True)):
        raise ShapeError(f"pad() cannot cut {ends} off shape {shape}, which has fewer elements")
    full = addressable(tuple([low + size + high for size, (low, high) in zip(shape, pairs, strict=True)]), "pad")
    b: Any = x._backend
    if mode == "constant":
        fill = (False if x.kind == "bool" else 0) if value is None else number(x, value, "pad")
        return x._like(_constant(b, x._primitive, pairs, full, fill))
    for dim, pair in enumerate(pairs):
        if pair != (0, 0):
            _need(mode, shape, dim, *pair)
    return x._like(b.pad_ends(x._primitive, tuple(pairs), mode) if any(map(any, pairs)) else x._primitive)


def _constant(b: Any, x: Value, pairs: list[tuple[int, int]], full: Shape, fill: Scalar) -> Value:
    """Return x, without the elements cut off, in an array of shape ``full`` that is filled with a number."""
    sizes = x.shape
    kept = tuple([slice(max(-low, 0), size - max(-high, 0), 1) for size, (low, high) in zip(sizes, pairs, strict=True)])
    if any(low < 0 or high < 0 for low, high in pairs):
        x = b.slice(x, kept)
    if x.shape == full:
        return x
    place = tuple([slice(max(low, 0), max(low, 0) + size, 1) for size, (low, _) in zip(x.shape, pairs, strict=True)])
    return b.slice_scatter(b.expand(b.full((), fill, x.dtype), full), place, x)  # which copies the expanded array


def _need(mode: str, shape: Shape, dim: int, low: int, high: int) -> None:
    """Check that a dimension has enough elements to be padded with.

    Raises:
        ShapeError: it has too few.
    """
    size, most = shape[dim], max(low, high)
    enough = {
        "reflect": most < size,
        "replicate": size > 0,
        "circular": most <= size + min(low, 0) + min(high, 0),
    }
    if most > 0 and not enough[mode]:
        least = {"reflect": f"more than {most}", "replicate": "one or more", "circular": f"{most} or more"}[mode]
        raise ShapeError(
            f"pad() got {(low, high)} in mode {mode!r} along dim {dim} of shape {shape}; it needs {least} "
            "elements there"
        )
