"""Elementwise operators, casts, choices and random draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from burnpy.backend.dtypes import int32, int64
from burnpy.backend.errors import LoadingError
from burnpy.interop.onnx.operators.table import (
    HOST,
    MICROSOFT,
    Conditional,
    GraphWriter,
    Kept,
    Operand,
    Scalar,
    Value,
    cast,
    common_dtype,
    is_float,
    like,
    narrowed,
    only,
    onnx_dtype,
    operator,
    rule,
    tensor,
)
from burnpy.nn import functional
from burnpy.tensor.joining import maximum as larger
from burnpy.tensor.joining import minimum as smaller
from burnpy.tensor.joining import where as select
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor

METHODS = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Det", "Erf", "Exp", "IsNaN", "Log"),
    *("Reciprocal", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Sqrt", "Tan", "Tanh"),
)
"""Operators that are methods of tensors, in lower case."""


def _method(name: str) -> Callable[[Value], Value]:
    return lambda x: getattr(x, name.lower())()


def _rounding(name: str) -> Callable[[Value], Value]:
    return lambda x: getattr(x, name.lower())() if isinstance(x, Tensor) else x


UNARY: dict[str, Callable[[Value], Value]] = {
    **{name: _method(name) for name in METHODS},
    **{name: _rounding(name) for name in ("Floor", "Ceil", "Round")},
    "Neg": lambda x: -x,
    "Not": lambda x: ~x,
    "BitwiseNot": lambda x: ~x,
    "Identity": lambda x: x,
    "Relu": lambda x: x.relu() if isinstance(x, Tensor) else x.clamp(0, None),
    "Softsign": functional.softsign,
    "Mish": functional.mish,
    "HardSwish": functional.hardswish,
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "And": lambda x, y: x & y,
    "Or": lambda x, y: x | y,
    "Xor": lambda x, y: x ^ y,
    "BitwiseAnd": lambda x, y: x & y,
    "BitwiseOr": lambda x, y: x | y,
    "BitwiseXor": lambda x, y: x ^ y,
    "Equal": lambda x, y: x == y,
    "Less": lambda x, y: x < y,
    "LessOrEqual": lambda x, y: x <= y,
    "Greater": lambda x, y: x > y,
    "GreaterOrEqual": lambda x, y: x >= y,
    "MatMul": lambda x, y: x @ y,
}


@operator("Placed")
def placed(x: Value, device_like: Value) -> Value:
    """Return x, which is moved to the device of another tensor: no operator of ONNX."""
    return x


@operator(*UNARY)
def unary(x: Value, *, kind: str) -> Value:
    """Compute a function of one tensor."""
    return UNARY[kind](x)


def aligned(x: Value, y: Value, axis: int | None) -> Value:
    """Return y with dimensions of size 1 after its own, so that it broadcasts along x from an axis on.

    So operators broadcast before opset 7.
    """
    return y if axis is None else y.reshape(*y.shape, *(1,) * (x.ndim - y.ndim - axis % x.ndim))


@operator(*BINARY)
def binary(x: Value, y: Value, *, kind: str, axis: int | None = None, broadcast: int = 1) -> Value:
    """Compute a function of two tensors."""
    return BINARY[kind](x, aligned(x, y, axis))


@operator("Div")
def div(x: Value, y: Value, *, axis: int | None = None, broadcast: int = 1) -> Value:
    """Divide; of ints the quotient is rounded toward zero."""
    y = aligned(x, y, axis)
    if isinstance(x, Tensor):
        return x / y
    quotient = x.floor_divide(y)
    inexact = (x - quotient * y) != 0
    return quotient + cast(inexact & ((x < 0) != (y < 0)), x.dtype)


PRODUCTS = (2, 3)
"""The exponents that are products."""


@operator("Pow")
def pow_(x: Value, y: Kept, *, axis: int | None = None, broadcast: int = 1) -> Value:
    """Raise to a power, where 2 and 3 are products, as in onnxruntime; the result has the dtype of x."""
    if y.device is HOST and y.numel() == 1 and x.ndim >= y.ndim and y.item() in PRODUCTS:
        return x * x if y.item() == 2 else x * x * x
    y = aligned(x, y.to_device(x.device), axis)
    if isinstance(x, IntTensor) and isinstance(y, Tensor):
        return cast(cast(x, y.dtype) ** y, x.dtype)
    return cast(x ** cast(y, x.dtype), x.dtype)


@operator("Mod")
def mod(x: Value, y: Value, *, fmod: int = 0) -> Value:
    """Return the remainder with the sign of y, or with ``fmod`` the sign of x."""
    return x.fmod(y) if fmod else x.remainder(y)


VARIADIC: dict[str, Callable[[Value, Value], Value]] = {
    "Max": larger,
    "Min": smaller,
    "Sum": BINARY["Add"],
    "Mean": BINARY["Add"],
}


@operator(*VARIADIC)
def variadic(*xs: Value, kind: str) -> Value:
    """Compute a function of any number of tensors."""
    total = reduce(VARIADIC[kind], xs)
    return total / len(xs) if kind == "Mean" else total


@operator("Where")
def where(condition: Value, x: Value, y: Value) -> Value:
    """Select elements."""
    return select(condition, x, y)


@operator("Clip")
def clip(x: Value, min: Value = None, max: Value = None) -> Value:
    """Limit x to bounds."""
    x = x if min is None else larger(x, min)
    return x if max is None else smaller(x, max)


@operator("PRelu")
def prelu(x: Value, slope: Value, *, opset: int) -> Value:
    """Return x where it is positive, else x times the slope; before opset 7 that has an element for each channel."""
    slope = aligned(x, slope, 1) if opset < 7 and slope.numel() > 1 else slope
    return select(x < 0, x * slope, x)


class Activation(NamedTuple):
    """A function of a tensor with one or two numbers, and what these are by default."""

    function: Callable[[Value, Any, Any], Value]
    alpha: float | None = None
    beta: float | None = None


ACTIVATIONS = {
    **{name.lower(): Activation(lambda x, *_, name=name: UNARY[name](x)) for name in UNARY},
    "affine": Activation(lambda x, alpha, beta: x * alpha + beta, 1.0, 0.0),
    "celu": Activation(lambda x, alpha, _: functional.celu(x, alpha), 1.0),
    "clip": Activation(lambda x, low, high: x.clamp(low, high)),
    "elu": Activation(lambda x, alpha, _: functional.elu(x, alpha), 1.0),
    "hardsigmoid": Activation(lambda x, alpha, beta: (x * alpha + beta).clamp(0, 1), 0.2, 0.5),
    "leakyrelu": Activation(lambda x, alpha, _: functional.leaky_relu(x, alpha), 0.01),
    "scaledtanh": Activation(lambda x, alpha, beta: (x * beta).tanh() * alpha, 1.0, 1.0),
    "thresholdedrelu": Activation(lambda x, alpha, _: select(x > alpha, x, 0.0), 1.0),
}
"""The activations of nodes, of recurrent networks and of fused operators, by their names in lower case."""


@operator("Celu", "Elu", "HardSigmoid", "LeakyRelu", "ThresholdedRelu")
def activation(x: Value, *, kind: str, alpha: float | None = None, beta: float | None = None) -> Value:
    """Compute an activation.

    Raises:
        LoadingError: it is unknown.
    """
    found = ACTIVATIONS.get(kind.lower())
    if found is None:
        raise LoadingError(f"the activation {kind!r} has no counterpart in burnpy")
    return found.function(x, found.alpha if alpha is None else alpha, found.beta if beta is None else beta)


@operator("Selu")
def selu(x: Value, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Value:
    """Scaled exponential linear unit."""
    return (x.clamp(0, None) + x.clamp(None, 0).expm1() * alpha) * gamma


@operator("Shrink")
def shrink(x: Value, *, lambd: float = 0.5, bias: float = 0.0) -> Value:
    """Move x toward 0 by ``bias``, and to 0 within ``lambd`` of it."""
    if not isinstance(x, Tensor):
        return cast(shrink(cast(x, "float64"), lambd=lambd, bias=bias), x.dtype)
    return select(x < -lambd, x + bias, select(x > lambd, x - bias, 0.0))


@operator("Gelu")
@operator("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT)
def gelu(x: Value, bias: Value = None, *, kind: str = "Gelu", approximate: str = "none") -> Value:
    """Gaussian error linear unit, of a sum if there is a bias."""
    total = x if bias is None else x + bias
    return total.gelu(approximate="tanh" if kind.endswith("FastGelu") else approximate)


@operator("QuickGelu", domain=MICROSOFT)
@operator("Swish")
def swish(x: Value, *, kind: str = "Swish", alpha: float | None = None) -> Value:
    """Return x · sigmoid(alpha · x)."""
    factor = alpha if alpha is not None else 1.702 if kind.endswith("QuickGelu") else 1.0
    return x * (x * factor).sigmoid()


@operator("SwiGLU")
def swiglu(gate: Value, x: Value, *, alpha: float = 1.0) -> Value:
    """Return x times the swish of the gate."""
    return swish(gate, alpha=alpha) * x


@operator("IsInf")
def isinf(x: Value, *, detect_positive: int = 1, detect_negative: int = 1) -> Value:
    """Test for infinity."""
    found = x.isinf()
    if not detect_negative:
        found = found & (x > 0)
    return found if detect_positive else found & (x < 0)


@operator("BitShift")
def bit_shift(x: Value, y: Value, *, direction: Literal["LEFT", "RIGHT"]) -> Value:
    """Shift the bits of x by y places."""
    return x << y if direction == "LEFT" else x >> y


@operator("Cast")
def cast_(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Convert to another dtype."""
    return narrowed(x, to, bool(saturate), round_mode)


@operator("CastLike")
def cast_like(
    x: Value, y: Value, *, saturate: int = 1, round_mode: str = "up", types: tuple[int, ...] = (0, 0)
) -> Value:
    """Convert to the dtype of y."""
    return narrowed(x, types[1], bool(saturate), round_mode) if types[1] else cast(x, y.dtype)


@operator("BitCast")
def bit_cast(x: Value, *, to: int) -> Value:
    """Return a tensor whose bits are those of x."""
    return tensor(x.to_numpy().view(onnx_dtype(to)), x.device)


@operator("Dropout")
def dropout(
    x: Value, ratio: Scalar = None, trains: Scalar = None, *, is_test: int = 1, seed: int = 0, opset: int, outputs: int
) -> Any:
    """Return x, as an imported model is for inference, and before opset 12 a mask of zeros, as onnxruntime does.

    Raises:
        LoadingError: the node says that it is for training.
    """
    if trains and (ratio is None or ratio > 0):
        raise LoadingError("the file has a Dropout for training; export the model for inference")
    if outputs == 1:
        return x
    return x, like(x, x.shape, 0) if opset < 10 else BoolTensor.full(x.shape, opset >= 12, device=x.device)


class RandomSettings(TypedDict, total=False):
    """The attributes of random draws."""

    dtype: int
    mean: float
    scale: float
    low: float
    high: float
    seed: float


@operator("RandomNormal", "RandomUniform")
def random(*, kind: str, shape: tuple[int, ...], **settings: Unpack[RandomSettings]) -> Value:
    """Return random numbers, on the host."""
    return random_like(Tensor.zeros(shape, device=HOST), kind=kind, **settings)


@operator("RandomNormalLike", "RandomUniformLike")
def random_like(x: Value, *, kind: str, **settings: Unpack[RandomSettings]) -> Value:
    """Return random numbers of x's shape."""
    if kind.startswith("RandomNormal"):
        drawn = Tensor.normal(x.shape, settings.get("mean", 0.0), settings.get("scale", 1.0), device=x.device)
    else:
        drawn = Tensor.uniform(x.shape, settings.get("low", 0.0), settings.get("high", 1.0), device=x.device)
    return cast(drawn, onnx_dtype(settings["dtype"]) if "dtype" in settings else x.dtype)


@operator("Bernoulli")
def bernoulli(x: Value, *, dtype: int | None = None, seed: float = 0.0) -> Value:
    """Return ones with the probabilities x, and zeros."""
    drawn = Tensor.uniform(x.shape, dtype=x.dtype, device=x.device) < x
    return cast(drawn, x.dtype if dtype is None else onnx_dtype(dtype))


@operator("Multinomial")
def multinomial(x: Value, *, dtype: int = 6, sample_size: int = 1, seed: float = 0.0) -> Value:
    """Draw classes from unnormalized log probabilities."""
    return cast(x.softmax(dim=-1).multinomial(sample_size, replacement=True), onnx_dtype(dtype))


def logical(kind: str) -> Callable[..., Any]:
    """Return the rule of an operation of bools or of the bits of ints."""

    def write(g: GraphWriter, *operands: Any) -> Any:
        dtype = common_dtype(*operands)
        return g.node(kind if dtype.kind == "b" else f"Bitwise{kind}", *[g.cast(x, dtype) for x in operands])

    return write


write_and, write_or, write_xor, write_not = logical("And"), logical("Or"), logical("Xor"), logical("Not")


def write_where(g: GraphWriter, condition: Operand, x: Operand, y: Any) -> Any:
    """Write the selection of elements; runtimes lack a Where of bools."""
    if x.dtype.kind != "b":
        return g.node("Where", condition, x, g.cast(y, x.dtype))
    other = g.node("And", g.node("Not", condition), g.cast(y, x.dtype))
    return g.node("Or", g.node("And", condition, x), other)


@only(when=lambda x, low, high: low is not None and high is not None)
def write_clamp(g: GraphWriter, x: Operand, low: Any, high: Any) -> Any:
    """Write a Clip with both bounds; it keeps NaN."""
    return g.node("Clip", x, g.constant(low, x.dtype), g.constant(high, x.dtype))


def rounding(kind: str) -> Callable[..., Any]:
    """Return the rule of a rounding, which ints do not need."""
    return lambda g, x: g.node(kind, x) if is_float(x.dtype) else x


write_floor, write_ceil, write_round = map(rounding, ("Floor", "Ceil", "Round"))


def comparison(kind: str) -> Callable[..., Any]:
    """Return the rule of a comparison; by size, bools are compared as ints."""

    def write(g: GraphWriter, x: Operand, y: Any) -> Any:
        dtype = common_dtype(x, y)
        dtype = int32 if dtype.kind == "b" and kind != "Equal" else dtype
        return g.node(kind, g.cast(x, dtype), g.cast(y, dtype))

    return write


write_less, write_less_equal = comparison("Less"), comparison("LessOrEqual")
write_greater, write_greater_equal = comparison("Greater"), comparison("GreaterOrEqual")


def write_expm1(g: GraphWriter, x: Operand) -> Any:
    """Write exp(x) - 1 without cancellation, as (u - 1) · x / log(u) for u = exp(x).

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.14.1.
    """
    one, u = g.constant(1.0, x.dtype), g.node("Exp", x)
    difference = g.node("Sub", u, one)
    exact = g.node("Div", g.node("Mul", difference, x), g.node("Log", u))
    limit = g.node("Or", g.node("Equal", difference, g.constant(-1.0, x.dtype)), g.node("IsInf", u))
    out = g.node("Where", limit, difference, exact)
    return g.node("Where", g.node("Equal", u, one), x, out)


def write_log1p(g: GraphWriter, x: Operand) -> Any:
    """Write log(1 + x) without cancellation, as log(u) · x / (u - 1) for u = 1 + x.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.14.1.
    """
    one = g.constant(1.0, x.dtype)
    u = g.node("Add", x, one)
    logarithm = g.node("Log", u)
    exact = g.node("Div", g.node("Mul", logarithm, x), g.node("Sub", u, one))
    out = g.node("Where", g.node("IsInf", u), logarithm, exact)
    return g.node("Where", g.node("Equal", u, one), x, out)


def write_remainder(g: GraphWriter, x: Operand, y: Any) -> Any:
    """Write the remainder with the sign of y."""
    dtype = common_dtype(x, y)
    a, b = g.cast(x, dtype), g.cast(y, dtype)
    if not is_float(dtype):
        return g.node("Mod", a, b)
    zero = g.constant(0.0, dtype)
    rest = g.node("Mod", a, b, fmod=1)
    other = g.node("Xor", g.node("Less", rest, zero), g.node("Less", b, zero))
    moved = g.node("And", other, g.node("Not", g.node("Equal", rest, zero)))
    return g.node("Where", moved, g.node("Add", rest, b), rest)


def write_floor_divide(g: GraphWriter, x: Operand, y: Any) -> Any:
    """Write the rounded quotient (x - remainder) / y, which is exact but for the rounding of floats."""
    dtype = common_dtype(x, y)
    quotient = g.node("Div", g.node("Sub", g.cast(x, dtype), write_remainder(g, x, y)), g.cast(y, dtype))
    return g.node("Round", quotient) if is_float(dtype) else quotient


def write_complex(g: GraphWriter, real: Operand | str, imag: Operand | str) -> Any:
    """Join the parts of complex numbers along a last dimension: in ONNX, complex numbers are pairs."""
    return g.node("Concat", *[g.node("Unsqueeze", x, g.sizes((-1,))) for x in (real, imag)], axis=-1)


write_real = rule(lambda g, z: g.node("Gather", z, g.constant(0, int64), axis=-1))
write_imag = rule(lambda g, z: g.node("Gather", z, g.constant(1, int64), axis=-1))
write_complex_abs = rule(lambda g, z: g.node("ReduceL2", z, g.sizes((-1,)), keepdims=0))
write_not_equal = rule(lambda g, x, y: g.node("Not", comparison("Equal")(g, x, y)))
write_gelu = Conditional(lambda g, x, fast: g.node("Gelu", x, approximate="tanh" if fast else "none"), since=20)
write_cast = rule(lambda g, x, dtype: g.cast(x, dtype))
write_to_bool = rule(lambda g, x: g.node("Not", g.node("Equal", x, g.constant(0, x.dtype))))
