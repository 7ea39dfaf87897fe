"""The table of operators, with their functions and arguments, and the helpers that write operations as nodes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache, reduce
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend import dtypes
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import bool_, dtype_of, kind_of, promote_types
from burnpy.backend.entries import Operation
from burnpy.backend.errors import BurnpyError, LoadingError, RecordingError
from burnpy.backend.functions import signature
from burnpy.backend.primitives import DType
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.tensor.joining import stack, where
from burnpy.tensor.ordering import searchsorted
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor

if TYPE_CHECKING:
    from burnpy.interop.onnx.writer import Writer

GraphWriter: TypeAlias = "Writer"
"""The graph that a rule writes to; its values are known by their names."""
Value: TypeAlias = Any
"""A tensor of any kind."""
Ints: TypeAlias = tuple[int, ...]
"""An input whose ints are read, such as a shape."""
Scalar: TypeAlias = Any
"""An input whose number is read."""
Numbers: TypeAlias = Any
"""An input whose numbers are read, as an array of NumPy."""
Kept: TypeAlias = Any
"""An input that stays on its device, so that a constant can be read; with `Scalar`, one that the function reads."""
Maybe: TypeAlias = Any
"""An input that may be absent, although others follow that may not."""

READ = ("Ints", "Scalar", "Numbers")
"""The annotations of inputs whose values are read."""

SHAPED = ("Compress", "NonMaxSuppression", "NonZero", "Unique")
"""The operators whose results have shapes that depend on values."""

CLASSES: dict[str, Any] = {"float": Tensor, "int": IntTensor, "bool": BoolTensor}


class Operator(NamedTuple):
    """One of ONNX's operators."""

    function: Callable[..., Any]
    inputs: tuple[tuple[str, str], ...]  #: the names and annotations of its inputs
    variadic: bool  #: whether it takes any number of inputs
    attributes: Mapping[str, str]  #: their annotations by name; also those that are inputs of newer opsets
    required: frozenset[str]  #: the attributes without a default
    needs: int  #: the number of inputs without a default


OPERATORS: dict[str, Operator] = {}
"""The operators by name; the modules of this package add theirs."""

WHOLE: dict[str, Callable[..., Any]] = {}
"""Functions that record nodes for export as they are: see `burnpy.interop.onnx.operators.whole_nodes`."""

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators, which have it before their names in `OPERATORS`."""


GIVEN = frozenset(("kind", "opset", "outputs", "types"))
"""The keyword parameters of functions that the reader gives."""


def operator(*names: str, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function to the table.

    Its positional parameters are the inputs, those after ``*`` the attributes in lower case, with underscores; several
    operators share those of ``**settings: Unpack[Settings]``. What is an input, and in older opsets an attribute, is
    an optional input. Among the attributes, ``opset`` is the version of the operators, ``outputs`` the number of
    results, ``kind`` the name, and ``types`` the numbers of the inputs' dtypes in ``TensorProto.DataType``, 0 where the
    file does not say them.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = signature(function).parameters.values()
        positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        older = [p for p in positional if p.default is not p.empty]
        attributes = {p.name: str(p.annotation) for p in (*named, *older)}
        for p in parameters:
            if p.kind is p.VAR_KEYWORD:
                shared = str(p.annotation).removeprefix("Unpack[").removesuffix("]")
                hints = function.__globals__[shared].__annotations__
                attributes |= {name: hint.__forward_arg__ for name, hint in hints.items()}
        found = Operator(
            function,
            tuple([(p.name, str(p.annotation)) for p in positional]),
            any(p.kind is p.VAR_POSITIONAL for p in parameters),
            attributes,
            frozenset([p.name for p in named if p.default is p.empty]) - GIVEN,
            sum(p.default is p.empty for p in positional),
        )
        OPERATORS.update({f"{domain}.{name}" if domain else name: found for name in names})
        return function

    return add


class Bound:
    """An operator with its attributes, as a function of a list of its inputs.

    Inputs are tensors, and None for absent ones. If they are on several devices, constants are moved.
    """

    __slots__ = ("attributes", "function", "kind", "read", "whole")

    def __init__(self, kind: str, attributes: dict[str, Any]) -> None:
        self.kind, self.attributes = kind, attributes
        found = OPERATORS[kind]
        self.function, self.whole = found.function, WHOLE.get(kind)
        annotations = {k: annotation for k, (_, annotation) in enumerate(found.inputs)}
        self.read = {k: name for k, name in annotations.items() if name.startswith(READ) or "Kept" in name}

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Compute the operator."""
        if self.whole is not None and (found := self.whole(self, inputs)) is not None:
            return found
        for x in inputs:
            if x is not None and x.device is not HOST:
                inputs = _together(inputs, self.read)
                break
        if self.read:
            inputs = [_read(x, self.read.get(k, ""), self.kind, k) for k, x in enumerate(inputs)]
        return self.function(*inputs, **self.attributes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Bound, (self.kind, self.attributes)


def as_line(text: str) -> Callable[..., Any]:
    """Return a function that calls another one with an argument, and whose line in a traceback is a text."""
    code = (lambda f, x: f(x)).__code__
    return FunctionType(code.replace(co_filename="<ONNX file>", co_name=text, co_qualname=text, co_firstlineno=0), {})


def _together(inputs: Sequence[Any], read: Container[int]) -> list[Any]:
    """Return inputs, with those on the host moved to the device of floats, as ints may be beneath it.

    Those in ``read`` stay.
    """
    away = [x for x in inputs if x is not None and x.device is not HOST]
    floats = [x for x in away if isinstance(x, Tensor)]
    place = (floats or away)[0].device
    return [x if x is None or k in read or x.device is not HOST else x.to_device(place) for k, x in enumerate(inputs)]


def _read(x: Any, annotation: str, kind: str, k: int) -> Any:
    """Return an input as a function takes it."""
    if x is None or not annotation or "Kept" in annotation:
        return x
    try:
        array = x.to_numpy()
    except RecordingError:
        raise RecordingError(
            f"{kind} reads its input {OPERATORS[kind].inputs[k][0]} before it computes, and while a model is recorded, "
            "numbers that depend on inputs are unknown; make it a constant of the file, or compute it from shapes"
        ) from None
    if annotation.startswith("Numbers"):
        return array
    values = array.reshape(-1)
    return tuple([int(n) for n in values]) if annotation.startswith("Ints") else values[0].item()


def _host() -> Any:
    from burnpy.backend import NumPy

    return device_of(NumPy)


HOST: Any = _host()
"""The device of constants and shapes, whose values can be read."""


def tensor(array: Any, device: Any = HOST, copy: bool = True) -> Value:
    """Return a NumPy array as a tensor, which has its memory if it is not copied."""
    array = np.asarray(array)
    if array.dtype.name in _WIDE:
        array, copy = array.astype(_WIDE[array.dtype.name]), True
    if array.dtype.name not in dtypes.DTYPES or array.dtype.kind == "c":
        raise LoadingError(f"ONNX tensors of dtype {array.dtype} have no counterpart in burnpy")
    return CLASSES[kind_of(array.dtype)].from_data(array, dtype=array.dtype, device=device, copy=copy)


def cast(x: Value, dtype: Any) -> Value:
    """Return a tensor as one of any dtype."""
    target = np.dtype(dtype) if isinstance(dtype, np.dtype) else dtype_of(dtype)
    if x.dtype == target:
        return x
    if target == bool_:
        return x.bool()
    if kind_of(target) == "int":
        return (x if isinstance(x, IntTensor) else x.int()).to_dtype(target)
    return x.to_dtype(target) if isinstance(x, Tensor) else x.float(target)


DTYPES = {row.onnx: name for name, row in dtypes.DTYPES.items() if row.kind != "complex"}
"""The dtypes by their numbers in ``TensorProto.DataType``."""


class Narrow(NamedTuple):
    """A dtype of ONNX that tensors lack, and the dtype of the tensors that hold its numbers."""

    name: str
    wide: str
    limits: tuple[int, int] | None = None  #: of ints


NARROW = {
    17: Narrow("float8_e4m3fn", "float32"),
    18: Narrow("float8_e4m3fnuz", "float32"),
    19: Narrow("float8_e5m2", "float32"),
    20: Narrow("float8_e5m2fnuz", "float32"),
    21: Narrow("uint4", "uint8", (0, 15)),
    22: Narrow("int4", "int8", (-8, 7)),
    23: Narrow("float4_e2m1fn", "float32"),
    24: Narrow("float8_e8m0fnu", "float32"),
    25: Narrow("uint2", "uint8", (0, 3)),
    26: Narrow("int2", "int8", (-2, 1)),
}
"""The narrow dtypes by their numbers in ``TensorProto.DataType``."""
NARROW_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}
"""The sizes of elements that are no whole bytes, and lie next to each other in a file."""
_WIDE = {narrow.name: narrow.wide for narrow in NARROW.values()}

POWERS = 24
"""FLOAT8E8M0, whose numbers are powers of two, without a sign."""


def onnx_dtype(number: int) -> Any:
    """Return the dtype of a number of ``TensorProto.DataType``."""
    if number not in DTYPES:
        raise LoadingError(f"ONNX's data type {number} has no counterpart in burnpy")
    return dtype_of(DTYPES[number])


def is_narrow(number: int) -> bool:
    """Return whether tensors lack the dtype of a number of ``TensorProto.DataType``."""
    return number in NARROW and number not in DTYPES


def narrowed(x: Value, number: int, saturate: bool = True, round_mode: str = "up") -> Value:
    """Convert numbers to a dtype of ``TensorProto.DataType``, as the operator Cast does.

    Args:
        x: a tensor.
        number: of the dtype.
        saturate: whether numbers beyond the largest one become it, and not infinity or NaN.
        round_mode: of FLOAT8E8M0, whose numbers are powers of two: ``up``, ``down`` or ``nearest``.
    """
    if not is_narrow(number):
        return cast(x, onnx_dtype(number))
    if (limits := NARROW[number].limits) is not None:
        low, high = limits
        return cast((cast(x, "int64") - low).remainder(high - low + 1) + low, NARROW[number].wide)
    return _rounded(cast(x, "float32"), number, saturate, round_mode)


def _rounded(x: Value, number: int, saturate: bool, round_mode: str) -> Value:
    values, bounds, beyond = _narrow_table(number, round_mode)
    size = x.abs()
    places = searchsorted(tensor(bounds, x.device), size.reshape(-1), right=True).reshape(*x.shape)
    nearest = tensor(values, x.device).index_select(0, places.reshape(-1)).reshape(*x.shape)
    if not saturate:
        nearest = where(size >= float(beyond[0]), float(beyond[1]), nearest)
    missing = float(np.float32(np.nan).astype(NARROW[number].name).astype(np.float32))  # FLOAT4E2M1 has no NaN
    return where(x.isnan(), missing, nearest if number == POWERS else where(x < 0, -nearest, nearest))


@cache
def _narrow_table(number: int, round_mode: str) -> tuple[Any, Any, tuple[float, float]]:
    """Return the numbers of a dtype from 0 on, the least float32 that rounds to each but the first, and the least one
    beyond the largest, with its result without saturation.
    """
    dtype = np.dtype(NARROW[number].name)
    count = 16 if "float4" in dtype.name else 256
    every = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float32)
    values = np.unique(np.abs(every[np.isfinite(every)]))
    low, high = values[:-1], values[1:]
    if number == POWERS:
        middle = {"up": np.nextafter(low, high), "down": high, "nearest": low * 1.5}[round_mode]
        return values, middle.astype(np.float32), (np.inf, np.nan)
    middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)
    goes_down = middle.astype(dtype).astype(np.float32) == low
    step = values[-1] - values[-2]
    tie = np.float32(values[-1] + step / 2)
    beyond = tie if len(values) % 2 == 0 else np.nextafter(tie, np.float32(np.inf))
    largest = np.float32(1e30).astype(dtype).astype(np.float32)
    return values, np.where(goes_down, np.nextafter(middle, high), middle), (float(beyond), float(largest))


SMALLEST = float(np.finfo(np.float32).tiny)
"""The scale of zeros, by which they can be divided."""


def range_of(row: Value) -> tuple[Value, Value]:
    """Return the scale and the zero point of numbers (1, n) as uint8, by their range; both are floats (1, 1)."""
    high, low = row.amax(-1, True), (-row).amax(-1, True)
    above, below = high.relu(), low.relu()
    scale = (above + below) / 255.0 + SMALLEST
    return scale, (below / scale).round()


def levels_of(row: Value, scale: Value, zero: Value) -> Value:
    """Return numbers as uint8."""
    return ((row / scale).round() + zero).clamp(0.0, 255.0).int("uint8")


def wide_dtype(number: int) -> Any:
    """Return the dtype of the tensor that holds numbers of a dtype of ``TensorProto.DataType``."""
    return dtype_of(NARROW[number].wide) if is_narrow(number) else onnx_dtype(number)


def refuse(kind: str, **settings: Any) -> None:
    """Raise an error for inputs or attributes that are not supported."""
    found = [name for name, value in settings.items() if value is not None and value is not False and value != 0]
    if found:
        raise LoadingError(f"{kind} of {MICROSOFT} with {', '.join(found)} is not supported")


def like(x: Value, shape: Sequence[int], value: Any) -> Value:
    """Return a tensor of a shape filled with a value, of the class, dtype and device of x."""
    return type(x).full(tuple(shape), value, dtype=x.dtype, device=x.device)


def arange(stop: int, device: Any) -> Value:
    """Return the ints from 0 to below ``stop``."""
    return IntTensor.arange(0, stop, device=device)


def scanned(
    step: Callable[..., list[Value]], state: list[Value], xs: list[Value], reverse: bool = False
) -> tuple[Value, ...] | None:
    """Return the last states and the stacked results of steps as one operation of a recording.

    None outside of recordings, and for steps that are not alike: states change their shapes, or numbers are read.
    """
    if recorder_of(xs[0].device) is None:
        return None
    from burnpy.func import scan

    def placed(values: Sequence[Value], place: Any) -> tuple[Value, ...]:
        return tuple([x.to_device(place) if x.device is HOST else x for x in values])

    def each(values: tuple[Value, ...], slices: tuple[Value, ...]) -> Any:
        results = placed(step(list(values), *slices), slices[0].device)
        return results[: len(state)], results[len(state) :]

    try:
        last, rows = scan(each, placed(state, xs[0].device), tuple(xs), reverse=reverse)
    except BurnpyError:
        return None
    return (*last, *rows)


INTS = frozenset(("int8", "uint8"))
"""The dtypes of quantized numbers in products."""


def unpacked(rows: Value, bits: int, count: int) -> Value:
    """Return ``count`` ints of some bits from each row of bytes, the lowest bits first."""
    levels = [rows >> bits * place & 2**bits - 1 for place in range(8 // bits)]
    return stack(levels, dim=-1).reshape(rows.shape[0], -1)[:, :count]


BLOCK = 1 << 17
"""The number of elements that are converted at once, for which little memory is needed beside the result."""


def by_rows(convert: Callable[[Any], Any], rows: Any, width: int, dtype: Any) -> Any:
    """Return a matrix that is converted a few rows at a time, with rows of another width."""
    out = np.empty((len(rows), width), dtype)
    step = max(1, BLOCK // max(1, width))
    for k in range(0, len(rows), step):
        out[k : k + step] = convert(rows[k : k + step])
    return out


class Operand(NamedTuple):
    """A value of the graph: an argument of an operation, or what a node returns."""

    name: str
    shape: tuple[Any, ...]  #: ints, and for sizes that vary between calls objects without arithmetic
    dtype: DType


class Conditional(NamedTuple):
    """A rule of a derived operation that holds under a condition; the operation's default is exported otherwise."""

    write: str | Callable[..., Any]
    since: int = 0  #: the first opset that has the operators
    when: Callable[..., bool] | None = None  #: a function of all arguments; None for a rule that holds for all


def only(since: int = 0, when: Callable[..., bool] | None = None) -> Callable[[Callable[..., Any]], Conditional]:
    """Return a decorator that makes a function a rule with a condition."""
    return lambda write: Conditional(write, since, when)


def rule(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule that is one expression, of the graph and the arguments of the operation."""
    return write


SMALL = frozenset(("int8", "int16", "uint8", "uint16", "uint32"))
WIDE = {
    **dict.fromkeys(("abs", "amax", "amin", "argmax", "argmin", "argsort", "clamp", "floor_divide"), SMALL),
    **dict.fromkeys(("maximum", "minimum", "sign", "topk"), SMALL),
    **dict.fromkeys(("add", "matmul", "mul", "neg", "pow", "sub", "where"), SMALL | {"uint64"}),
}
"""The ints for which ONNX or its runtimes lack operators of operations; they are computed in int64, and wrap."""

REFUSED = "refused"
"""The rule of operations without a counterpart."""
WHOLE_NODE = "whole node"
"""The rule of operations that are recorded as a node of `burnpy.interop.onnx.operators.whole_nodes`."""


def rule_of(op: Operation) -> Any:
    """Return the rule of an operation: an operator's name, a function, a `Conditional`, `REFUSED`, or None."""
    module, _, name = (op.onnx or "").partition(".")
    if not name:
        return op.onnx
    return getattr(import_module(f"burnpy.interop.onnx.operators.{module}"), f"write_{name.rstrip('_')}")


def common_dtype(*operands: Any) -> DType:
    """Return the dtype to which the primitives among operands promote."""
    dtypes = [operand.dtype for operand in operands if isinstance(operand, Operand)]
    return reduce(promote_types, dtypes)


def is_float(dtype: DType) -> bool:
    """Return whether a dtype is of floats that tensors hold; NumPy does not know bfloat16."""
    return dtype.name in dtypes.FLOATS
