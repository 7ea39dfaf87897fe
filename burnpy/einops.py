"""einops for tensors: its functions, typed, whose errors are one sentence. It needs the package einops.

Importing this module makes tensors known to einops, so that its own functions and libraries that call them take tensors
from then on. Gradients flow through all of them.

>>> from burnpy.einops import rearrange, reduce
>>> images = Tensor[NumPy].zeros((8, 3, 32, 32))
>>> rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=16, q=16).shape
(8, 4, 768)
>>> reduce(images, "b c h w -> b c", "mean").shape
(8, 3)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, overload

from burnpy.array_api.creation_and_manipulation import default_device
from burnpy.backend.errors import ArgumentError, ShapeError, counted
from burnpy.backend.lazy import needed
from burnpy.backend.primitives import Shape
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.einsum import einsum as sum_of_products
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import BoolTensor, IntTensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

__all__ = ["einsum", "pack", "rearrange", "reduce", "repeat", "unpack"]


def __dir__() -> list[str]:
    return __all__


T = TypeVar("T", bound=TensorBase[Any])
Numeric: TypeAlias = Literal["min", "max", "sum", "mean", "prod"]


class Computation:
    """The part of einops' class ``AbstractBackend`` that computes, with tensors."""

    framework_name = "burnpy"
    of_einops: ClassVar[Any] = None
    """The subclass of both, which einops finds among the subclasses of its own class."""

    def is_appropriate_type(self, tensor: object) -> bool:
        """Return whether it is a tensor."""
        return isinstance(tensor, TensorBase)

    def to_numpy(self, x: Any) -> Any:
        """Return a read-only array."""
        return x.to_numpy()

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        """Reorder all axes."""
        return x.permute(tuple(axes))

    def reduce(self, x: Any, operation: str, axes: Sequence[int]) -> Any:
        """Reduce axes; ``any`` and ``all`` of numbers ask whether they are 0."""
        if operation in ("any", "all"):
            return getattr(x.bool(), operation)(tuple(axes))
        return getattr(x, {"min": "amin", "max": "amax"}.get(operation, operation))(tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
        """Join along a new first axis."""
        return stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """Insert an axis of size 1."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
        """Insert axes of given sizes, without a copy."""
        for position in pos2len:
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(axis, -1) for axis in range(n_axes)])

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        """Join along an axis."""
        return cat(tensors, axis)

    def arange(self, start: int, stop: int) -> Any:
        """Return the ints from start to before stop, on the CPU."""
        return IntTensor.arange(start, stop, device=default_device())

    def tile(self, x: Any, repeats: Sequence[int]) -> Any:
        """Repeat along each axis."""
        return x.tile(tuple(repeats))

    def is_float_type(self, x: Any) -> bool:
        """Return whether the elements are floats."""
        return bool(x.kind == "float")

    def einsum(self, pattern: str, *x: Any) -> Any:
        """Compute sums of products."""
        return sum_of_products(pattern, *x)


@explained
def rearrange(x: T | Sequence[T], pattern: str, **sizes: int) -> T:
    """Reorder, split and merge axes, as `einops.rearrange`.

    Raises:
        EinopsError: the pattern does not fit the shape.
    """
    return _transformed("rearrange", x, pattern, (), sizes)  # type: ignore[no-any-return]  # of x's class


@overload
def reduce(
    x: TensorBase[B] | Sequence[TensorBase[B]], pattern: str, reduction: Literal["any", "all"], **sizes: int
) -> BoolTensor[B]: ...
@overload
def reduce(
    x: T | Sequence[T], pattern: str, reduction: Numeric | Callable[[T, tuple[int, ...]], T], **sizes: int
) -> T: ...
@explained
def reduce(x: Any, pattern: str, reduction: Any, **sizes: int) -> Any:
    """Reduce the axes that the right side lacks, as `einops.reduce`; "any" and "all" give a `BoolTensor`.

    Raises:
        EinopsError: the pattern does not fit the shape.
    """
    return _transformed("reduce", x, pattern, (reduction,), sizes)


@explained
def repeat(x: T | Sequence[T], pattern: str, **sizes: int) -> T:
    """Repeat elements along new axes, as `einops.repeat`.

    Raises:
        EinopsError: the pattern does not fit the shape.
    """
    return _transformed("repeat", x, pattern, (), sizes)  # type: ignore[no-any-return]  # of x's class


@explained
def einsum(*tensors_and_pattern: T | str) -> T:
    """Compute sums of products over named axes, as `einops.einsum`: tensors first, then the pattern.

    Raises:
        EinopsError: the pattern does not fit the shapes.

    >>> x, weight = Tensor[NumPy].ones((4, 3)), Tensor[NumPy].ones((2, 3))
    >>> einsum(x, weight, "batch inputs, outputs inputs -> batch outputs").shape
    (4, 2)
    """
    einops = package()
    if str(tensors_and_pattern[-1]).count("->") > 1:
        raise einops.EinopsError(f"einsum(): a pattern has one '->', got {tensors_and_pattern[-1]!r}")
    try:
        return einops.einsum(*tensors_and_pattern)  # type: ignore[no-any-return]  # of the tensors' class
    except (ArgumentError, ShapeError):  # in letters, where the pattern has words
        *tensors, pattern = tensors_and_pattern
        got = " and ".join(describe(x) for x in tensors)
        cause = _misfit(str(pattern), [x.shape for x in tensors if isinstance(x, TensorBase)])
        raise einops.EinopsError(f"einsum(): cannot apply {pattern!r} to {got}: {cause}") from None


def _misfit(pattern: str, shapes: Sequence[Shape]) -> str:
    """Return the first mismatch of a pattern of `einsum`."""
    terms = [term.split() for term in pattern.partition("->")[0].split(",")]
    if len(terms) != len(shapes):
        return f"{counted(len(terms), 'term')} for {counted(len(shapes), 'tensor')}"
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        axes = list(term)
        if "..." in axes and len(shape) >= len(term) - 1:
            at = axes.index("...")
            axes[at : at + 1] = ["..."] * (len(shape) - len(term) + 1)
        if len(axes) != len(shape):
            return f"{' '.join(term)!r} does not fit shape {shape}"
        for axis, size in zip(axes, shape, strict=True):
            known = sizes.get(axis, 1)
            if axis != "..." and known != 1 != size != known:
                return f"axis {axis} is {known} and {size}"
            sizes[axis] = size if known == 1 else known
    return "the dims of ... do not broadcast"


@explained
def pack(xs: Sequence[T], pattern: str) -> tuple[T, list[Shape]]:
    """Join tensors along one axis, ``*`` of the pattern, as `einops.pack`; also return what each had in its place."""
    return package().pack(xs, pattern)  # type: ignore[no-any-return]  # einops may be absent


@explained
def unpack(x: T, shapes: Sequence[Shape], pattern: str) -> list[T]:
    """Split what `pack` joined."""
    return package().unpack(x, shapes, pattern)  # type: ignore[no-any-return]  # einops may be absent


def _transformed(name: str, x: Any, pattern: str, reduction: tuple[Any, ...], sizes: dict[str, int]) -> Any:
    einops = package()
    for axis, size in sizes.items():
        integer(size, f"size of axis {axis}", name)
    for each in reduction:
        if not isinstance(each, str) and not callable(each):
            raise ArgumentError(f"{name}() got reduction={describe(each)}; expected a name or a function")
    try:
        if pattern.count("->") != 1:
            raise einops.EinopsError("A pattern has one '->'")
        return getattr(einops, name)([*x] if isinstance(x, tuple) else x, pattern, *reduction, **sizes)
    except einops.EinopsError as error:
        cause = re.sub(r"\. (\w)", lambda match: f", {match[1].lower()}", str(error).rpartition("\n ")[2].rstrip("."))
        raise einops.EinopsError(
            f"{name}(): cannot apply {pattern!r} to {describe(x)}: {cause[:1].lower()}{cause[1:]}"
        ) from None


@cache
def package() -> Any:
    """Return the package einops, to which tensors are known."""
    einops = needed("einops", "burnpy.einops", "einops", "einops")
    base = needed("einops._backends", "burnpy.einops", "einops", "einops").AbstractBackend
    Computation.of_einops = type("Tensors", (Computation, base), {})
    return einops


if find_spec("einops") is not None:
    package()
