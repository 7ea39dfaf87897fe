"""Checks of the arguments of layers and functions: numbers, float tensors, windows of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import index
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a, class_name
from burnpy.backend.operations.convolution import window_counts
from burnpy.backend.primitives import Shape
from burnpy.tensor.operand_checks import MOST_FLOAT, refuse_wider, to_float, together
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

QuantizedDType: TypeAlias = Literal["int8", "int4"]
"""The size of the ints of quantized weights."""

_LARGEST_SIZE = 1 << 62


def positive(layer: str, **sizes: int) -> None:
    """Check that all sizes are positive ints.

    Raises:
        ArgumentError: one of them is not.
    """
    for name, size in sizes.items():
        positive_int(layer, name, size)


def positive_int(operation: str, name: str, value: int) -> int:
    """Convert a positive integer value to int."""
    number = _int(value)
    if number is None or number < 1:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected a positive int")
    return number


def above_zero(operation: str, **numbers: float) -> None:
    """Check that all numbers are above 0."""
    for name, number in numbers.items():
        if not number > 0.0:
            raise ArgumentError(f"{operation}() got {name}={describe(number)}; expected a number above 0")
        if isinstance(number, int) and number > MOST_FLOAT:
            raise ArgumentError(f"{operation}() got {name}={describe(number)}, which is too large for a float")


def check_choice(operation: str, name: str, value: object, choices: Iterable[str]) -> None:
    """Check that a setting is one of a few words."""
    words = tuple(choices)
    if value not in words:
        *most, last = map(repr, words)
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected {', '.join(most)} or {last}")


def grouped(layer: str, in_channels: int, out_channels: int, groups: int) -> None:
    """Check the channels of a convolution and its groups, which divide both."""
    positive(layer, in_channels=in_channels, out_channels=out_channels, groups=groups)
    if in_channels % groups or out_channels % groups:
        raise ArgumentError(
            f"{layer}() got groups={groups} for {in_channels} → {out_channels} channels; it must divide both"
        )


def last_dims(layer: str, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of the last dimensions, over which a layer normalizes, as a tuple."""
    shape = tuple(normalized_shape) if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    if not shape:
        raise ArgumentError(f"{layer}() got normalized_shape=(); expected at least one size")
    for size in shape:
        positive(layer, normalized_shape=size)
    return shape


def wholes(operation: str, name: str, values: Sequence[int]) -> tuple[int, ...]:
    """Return the ints of a list or tuple, as Python's."""
    if not isinstance(values, (list, tuple)):
        raise ArgumentError(f"{operation}() got {name}={describe(values)}; expected a tuple of ints")
    return tuple([whole(operation, name, value) for value in values])


def whole(operation: str, name: str, value: int) -> int:
    """Convert an integer value to int."""
    number = _int(value)
    if number is None:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected an int")
    return number


def _int(value: Any) -> int | None:
    try:
        number = index(value)
    except TypeError:
        return None
    return number if -_LARGEST_SIZE < number < _LARGEST_SIZE else None


def floats(operation: str, required: int, **tensors: Any) -> list[Any]:
    """Convert float tensors, or complex ones for some operations, to a common device and their widest dtype.

    The first ``required`` of them must be given; the others may be None, and stay None. The weights (for attention, the
    queries) determine the dtype: ``x``, ``x1``, ``x2``, ``key`` and ``value`` may be narrower than those, not wider.

    Raises:
        KindError: an argument is not a float tensor.
        DeviceError: they are on different devices.
        DTypeError: ``x``, ``key`` or ``value`` is wider than the weights.
    """
    left, device, dtype = required, None, None
    for x in tensors.values():
        if x.__class__ is not Tensor:
            if x is not None or left > 0:
                return _floats_together(operation, required, tensors)
        elif device is None:
            device, dtype = x._device, x._primitive.dtype
        elif x._device is not device or x._primitive.dtype is not dtype:
            return _floats_together(operation, required, tensors)
        left -= 1
    return [*tensors.values()]


def alike(*tensors: Any) -> bool:
    """Return whether all arguments are float tensors of one device and dtype, with which `floats` does nothing."""
    first = tensors[0]
    if first.__class__ is not Tensor:
        return False
    device, dtype = first._device, first._primitive.dtype
    for x in tensors:
        if x.__class__ is not Tensor or x._device is not device or x._primitive.dtype is not dtype:
            return False
    return True


_ALSO_COMPLEX = frozenset(
    (
        *("linear", "unfold", "embedding", "normalize", "softsign", "tanhshrink"),
        *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"),
    )
)
"""The functions that take complex numbers too."""


def _floats_together(operation: str, required: int, tensors: dict[str, Any]) -> list[Any]:
    """Convert tensors as `floats` does: the slow path, for other devices and dtypes, and for errors."""
    present = [x for x in tensors.values() if x is not None]
    of_complex = operation in _ALSO_COMPLEX and any(isinstance(x, ComplexTensor) for x in present)
    for k, (name, x) in enumerate(tensors.items()):
        if of_complex and isinstance(x, Tensor):
            raise KindError(f"{operation}() of complex numbers got a Tensor as {name}; write {name}.complex()")
        kind = "complex" if of_complex else "float"
        if (x is not None or k < required) and (not isinstance(x, TensorBase) or x.kind != kind):
            what = "None" if x is None else a(class_name(x))
            what += f" of dtype {x.dtype}" if isinstance(x, TensorBase) else ""
            hint = "" if x is None else "; make one of it first: Tensor.from_data(values, device=device)"
            if isinstance(x, TensorBase):
                hint = f"; {to_float(x)}"
            elif isinstance(getattr(x, "value", None), TensorBase):
                hint = "; write its .value, which is the tensor"
            raise KindError(f"{operation}() takes a float Tensor as {name}, got {what}{hint}")
    placed = list(together(operation, *present))
    if any(x.dtype != placed[0].dtype for x in placed):
        dtype = reduce(promote_types, [x.dtype for x in placed])
        data = {name: x for name, x in tensors.items() if name in ("x", "x1", "x2", "key", "value")}
        deciding = [x.dtype for name, x in tensors.items() if x is not None and name not in data]
        if deciding:
            basis = "queries" if "query" in tensors else "weights"
            refuse_wider(operation, basis, reduce(promote_types, deciding), **data)
        placed = [x.to_dtype(dtype) for x in placed]
    rest = iter(placed)
    return [None if x is None else next(rest) for x in tensors.values()]


def by_parts(operation: str, function: Callable[..., Any], x: Any, weight: Any, bias: Any, *settings: Any) -> Any:
    """Return a function of x and weight, linear in each, of complex numbers, from those of their parts.

    Args:
        operation: the name of the function for messages.
        function: called with ``(operation, x, weight, bias, *settings)`` of floats.
        x: the input.
        weight: the weight.
        bias: the bias, or None.
        settings: its other arguments.

    Raises:
        KindError: a tensor is not complex.
    """
    from burnpy.tensor.complex_numbers_lazy import complex as join  # which few models need

    for name, y in (("x", x), ("weight", weight), ("bias", bias)):
        if not isinstance(y, ComplexTensor) and (y is not None or name != "bias"):
            hint = f"; write {name}.complex()" if isinstance(y, Tensor) else ""
            raise KindError(f"{operation}() of complex numbers got {a(class_name(y))} as {name}{hint}")
    re, im = (None, None) if bias is None else (bias.real, bias.imag)
    real = function(operation, x.real, weight.real, re, *settings) - function(
        operation, x.imag, weight.imag, None, *settings
    )
    imag = function(operation, x.real, weight.imag, im, *settings) + function(
        operation, x.imag, weight.real, None, *settings
    )
    return join(real, imag)


def dims_at_least(operation: str, name: str, shape: Shape, least: int, form: str) -> None:
    """Check that a tensor of this shape has at least ``least`` dimensions."""
    if len(shape) < least:
        raise ShapeError(f"{operation}() takes {name} of shape {form}, got shape {shape}")


def exact_dims(operation: str, name: str, shape: Shape, count: int, form: str, last: int | None = None) -> None:
    """Check that a tensor of this shape has exactly ``count`` dimensions, and the size ``last`` in the last one."""
    if len(shape) != count or (last is not None and shape[-1] != last):
        raise ShapeError(f"{operation}() takes {name} of shape {form}, got shape {shape}")


def probability(operation: str, p: float) -> float:
    """Return a probability as a float."""
    argument: Any = p
    if not isinstance(argument, (int, float, np.number)) or not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{operation}() got p={describe(p)}; expected a probability, from 0 to 1")
    return float(p)


Pair: TypeAlias = int | Sequence[int]
"""A size for height and width: one number for both, or two."""
Triple: TypeAlias = int | Sequence[int]
"""A size for depth, height and width: one number for all, or three."""
Single: TypeAlias = int | Sequence[int]
"""A size for the length of sequences: a number, or a sequence of one."""
OutputSize: TypeAlias = int | Sequence[int | None] | None
"""The size of an output: one number for all dimensions, or one for each; None keeps the size of the input."""
Size: TypeAlias = Single | Pair | Triple
"""A size of a layer that is for sequences, images or volumes."""


def pair(operation: str, name: str, value: Pair, least: int = 1) -> tuple[int, int]:
    """Convert a size for height and width to two ints of at least ``least``.

    >>> pair("max_pool2d", "kernel_size", 2), pair("max_pool2d", "stride", (1, 2))
    ((2, 2), (1, 2))
    """
    sizes: Any = (value, value) if value.__class__ is int else value
    if sizes.__class__ is tuple and len(sizes) == 2:
        high, wide = sizes
        if (
            high.__class__ is int
            and wide.__class__ is int
            and least <= high < _LARGEST_SIZE
            and least <= wide < _LARGEST_SIZE
        ):
            return high, wide
    return _checked_sizes(operation, name, value, least, 2)  # type: ignore[return-value]  # two ints


def triple(operation: str, name: str, value: Triple, least: int = 1) -> tuple[int, int, int]:
    """Convert a size for depth, height and width to three ints of at least ``least``.

    >>> triple("max_pool3d", "kernel_size", 2), triple("max_pool3d", "stride", (1, 2, 2))
    ((2, 2, 2), (1, 2, 2))
    """
    return _checked_sizes(operation, name, value, least, 3)  # type: ignore[return-value]  # three ints


def output_sizes(operation: str, value: OutputSize, dims: int) -> tuple[int | None, ...]:
    """Convert ``output_size`` to a positive int for each dimension, or None for the size of the input.

    >>> output_sizes("adaptive_avg_pool2d", 2, 2), output_sizes("adaptive_avg_pool2d", (None, 2), 2)
    ((2, 2), (None, 2))
    """
    each: tuple[int | None, ...] = tuple(value) if isinstance(value, Sequence) else (value,) * dims
    if len(each) == dims and any(n is None for n in each):
        return tuple(None if n is None else single(operation, "output_size", n) for n in each)
    size: Any = value
    if dims == 1:
        return (single(operation, "output_size", size),)
    return pair(operation, "output_size", size) if dims == 2 else triple(operation, "output_size", size)


def single(operation: str, name: str, value: Single, least: int = 1) -> int:
    """Convert a size for the length of sequences to an int of at least ``least``.

    >>> single("max_pool1d", "kernel_size", 2), single("max_pool1d", "stride", (3,))
    (2, 3)
    """
    size: Any = value[0] if isinstance(value, Sequence) and len(value) == 1 else value
    number = _int(size)
    if number is None or number < least:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected an int of at least {least}")
    return number


def row(operation: str, name: str, value: Single, least: int = 1) -> tuple[int, int]:
    """Convert a size for the length of sequences to the sizes for images of height 1.

    >>> row("max_pool1d", "kernel_size", 2), row("max_pool1d", "padding", (3,), 0)
    ((1, 2), (0, 3))
    """
    return least, single(operation, name, value, least)


_NAMES = {2: ("two", "(height, width)"), 3: ("three", "(depth, height, width)")}
"""The words for the sizes of images and volumes, by their number."""


def _checked_sizes(operation: str, name: str, value: Any, least: int, count: int) -> tuple[int, ...]:
    """Convert a size to ``count`` ints, from any sequence and any kind of integers."""
    size = _int(value)
    sizes = (size,) * count if size is not None else tuple(map(_int, value)) if isinstance(value, Sequence) else ()
    if len(sizes) != count or any(n is None or n < least for n in sizes):
        word, form = _NAMES[count]
        raise ArgumentError(
            f"{operation}() got {name}={describe(value)}; expected an int of at least {least}, or {word} of them: "
            f"{form}"
        )
    return sizes  # type: ignore[return-value]  # ints


Pooled = TypeVar("Pooled", bound="TensorBase[Any]")

_FORMS = {1: ("length", "sequence"), 2: ("height, width", "image"), 3: ("depth, height, width", "volume")}
"""The sizes of sequences, of one dimension, of images, of two, and of volumes, of three."""
_SIZES: dict[str, Callable[..., tuple[int, ...]]] = {"1d": row, "2d": pair, "3d": triple}
"""The functions that validate sizes for sequences, images and volumes, by the end of an operation's name."""


def window_dims(operation: str) -> int:
    """Return the number of dimensions that windows have, which the end of the operation's name says: 1, 2 or 3."""
    return int(operation[-2])


def form_of(dims: int) -> str:
    """Return the names of the sizes of sequences (``dims`` 1), images (2) or volumes (3)."""
    return _FORMS[dims][0]


def sizes_of(operation: str, name: str, value: Any, least: int = 1) -> tuple[int, ...]:
    """Convert a size to ints for images, sequences being images of height 1, or for volumes.

    >>> sizes_of("max_pool1d", "stride", 2), sizes_of("max_pool2d", "stride", 2), sizes_of("max_pool3d", "stride", 2)
    ((1, 2), (2, 2), (2, 2, 2))
    """
    return _SIZES[operation[-2:]](operation, name, value, least)


def layer_size(layer: Any, name: str, value: Any, least: int = 1) -> Any:
    """Convert a size of a layer to an int for sequences, and to a tuple for images or volumes. The end of the name of
    the layer's function says which it is, as in `window_dims`."""
    check = (single, pair, triple)[window_dims(layer._function.__name__) - 1]
    return check(type(layer).__name__, name, value, least)


def check_form(operation: str, shape: Shape, dims: int, channels: str = "channels") -> None:
    """Check that a shape describes a batch of sequences (``dims`` 1), images (2) or volumes (3), or one without N."""
    if len(shape) not in (dims + 1, dims + 2):
        sizes, word = _FORMS[dims]
        raise ShapeError(
            f"{operation}() got x of shape {shape}, expected (N, {channels}, {sizes}), or ({channels}, {sizes}) for "
            f"one {word}"
        )


def channels_first(shape: Shape, channels: int, batched: bool) -> str:
    """Return the end of an error message for x with another number of channels: what moves them, if they are last."""
    if len(shape) < 3 or shape[-1] != channels:
        return ""
    first = (0,) if batched else ()
    order = (*first, len(shape) - 1, *range(len(first), len(shape) - 1))
    return f"; the channels come before the sizes here: x.permute{order}"


def batch_of(x: Tensor[B], dims: int) -> Tensor[B]:
    """Return images (``dims`` 2) or volumes (3) as a batch, adding N = 1 to a single one."""
    return x.unsqueeze(0) if x.ndim == dims + 1 else x


def check_kernel(
    operation: str, shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool = False
) -> None:
    """Check that the kernel fits into padded images or volumes of a shape."""
    if min(window_counts(shape, kernel, stride, padding, dilation, ceil_mode)) < 1:
        if operation.endswith("1d"):
            long = shape[-1] + 2 * padding[1]
            raise ShapeError(
                f"{operation}() got sequences of length {shape[-1]}, padded {long}, and its kernel covers "
                f"{dilation[1] * (kernel[1] - 1) + 1}; take a smaller kernel or more padding"
            )
        sizes = shape[-len(kernel) :]
        wide = tuple(size + 2 * pad for size, pad in zip(sizes, padding, strict=True))
        reach = tuple(gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True))
        raise ShapeError(
            f"{operation}() got {_FORMS[len(kernel)][1]}s of {times(sizes)}, padded {times(wide)}, and its kernel "
            f"covers {times(reach)}; take a smaller kernel or more padding"
        )


def times(sizes: Shape) -> str:
    """Return sizes as they are written: 2 × 3."""
    return " × ".join(map(str, sizes))


def as_batch(operation: str, x: Tensor[B]) -> Tensor[B]:
    """Return sequences or images as a batch of images, and volumes as a batch; the operation says which it is."""
    (x,) = floats(operation, 1, x=x)
    dims, primitive = window_dims(operation), x._primitive
    shape = primitive.shape
    check_form(operation, shape, dims)
    batched = len(shape) == dims + 2
    if batched and dims > 1:
        return x
    member = (shape[-2], 1, shape[-1]) if dims == 1 else shape
    return x._like(x._backend.reshape(primitive, (shape[0], *member) if batched else (1, *member)))


def as_given(operation: str, x: Tensor[Any], pooled: Pooled) -> Pooled:
    """Return a batch of pooled images or volumes in the form of x: as sequences, or without N, if x has that form."""
    dims, primitive = window_dims(operation), pooled._primitive
    batched, (n, *member) = x.ndim == dims + 2, primitive.shape
    if batched and dims > 1:
        return pooled
    if dims == 1:
        del member[1]
    return pooled._like(pooled._backend.reshape(primitive, (n, *member) if batched else tuple(member)))
