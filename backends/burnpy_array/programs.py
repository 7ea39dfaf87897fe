"""The programs of operations: traced from their defaults, or from the functions of a backend that are here."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from burnpy.backend.dtypes import HALVES, float32, float64, int64
from burnpy.backend.numerics.arithmetic import two_product
from burnpy.backend.numerics.quantile_slopes import beta_quantile_slope, gamma_quantile_slope
from burnpy.backend.programs import Extent, Input, Program, ProgramError, trace
from burnpy.backend.programs.trace import Tracer, in_float32


@cache
def operation_program(name: str, extents: tuple[str, ...], dtype: str, rest: tuple[Any, ...]) -> Program | None:
    """Return the program of an operation, whose arrays have one dtype; None if it cannot be written as one. Its
    numbers, of the extent "scalar", are the operation's last arguments, after ``rest``. Floats of 16 bits are computed
    in float32, and the results rounded."""
    narrow = dtype in HALVES
    inputs = tuple([_input(extent, "float32" if narrow and extent == "scalar" else dtype) for extent in extents])
    arrays = len(extents) - extents.count("scalar")
    operation = getattr(Tracer, name, None) or globals()[name]

    def ordered(b: Any, *given: Any) -> Any:
        return operation(b, *given[:arrays], *rest, *given[arrays:])

    try:
        return trace(in_float32(ordered, dtype) if narrow else ordered, inputs, name=name)
    except ProgramError:
        return None


def _input(extent: str, dtype: str) -> Input:
    """Return an input by its extent; "index" is a column of int64, "mask_full", "mask_row", … an input of bools."""
    if extent == "index":
        return Input(Extent.COLUMN, "int64")
    if extent.startswith("mask_"):
        return Input(Extent(extent.removeprefix("mask_")), "bool")
    return Input(Extent(extent), dtype)


def attention_weights(b: Any, scores: Any) -> tuple[Any, Any, Any]:
    """Return the weights before they are divided by their sums, the sums, and the logsumexps; see
    `burnpy_array.attention`."""
    largest = b.amax(scores, (1,), True)
    shift = b.where(b.isfinite(largest), largest, 0.0)
    weights = b.exp(b.sub(scores, shift))
    sums = _sums(b, weights)
    return weights, sums, b.add(b.log(sums), shift)


def attention_weights_again(b: Any, scores: Any, logsumexp: Any) -> tuple[Any, Any]:
    """Return the weights and their sums of scores with known logsumexps."""
    weights = b.exp(b.sub(scores, logsumexp))
    return weights, _sums(b, weights)


def attention_scores_gradient(b: Any, grad: Any, weights: Any, sums: Any) -> Any:
    """Return the gradient of the scores from the gradient of the weights."""
    product = b.mul(grad, weights)
    return b.sub(product, b.mul(weights, b.div(b.sum(product, (1,), True), sums)))


def _sums(b: Any, weights: Any) -> Any:
    """Return the sums of the weights; 1 for a query that attends to nothing."""
    sums = b.sum(weights, (1,), True)
    return b.where(b.ne(sums, 0.0), sums, 1.0)


def cross_entropy_gradient(b: Any, grad: Any, x: Any, logsumexp: Any, index: Any, dtype: Any = None) -> Any:
    """Return the gradient of the cross entropy: grad · (softmax(x) - one_hot(index)), in a dtype, by default x's. The
    weights are divided by their sum, as the rounding of logsumexp keeps that from being 1."""
    e = b.exp(b.sub(x, logsumexp))
    weighted = b.mul(e, b.div(grad, b.sum(e, (1,), True)))
    columns = b.discrete.arange(0, x.shape[1], 1, int64)
    return b.cast(b.sub(weighted, b.where(b.discrete.eq(index, columns), grad, 0.0)), dtype or x.dtype)


def masked_mean_of_rows(b: Any, x: Any, mask: Any) -> Any:
    """Return the mean of each row where a mask is true."""
    return b.div(b.sum(b.where(mask, x, 0.0), (1,), True), _number_of(b, mask, x.dtype))


def masked_mean_of_rows_backward(b: Any, grad: Any, mask: Any) -> Any:
    """Return the gradient of `masked_mean_of_rows`."""
    return b.where(mask, b.div(grad, _number_of(b, mask, grad.dtype)), 0.0)


def _number_of(b: Any, mask: Any, dtype: Any) -> Any:
    """Count the elements of each row of a mask that are true."""
    return b.sum(b.cast(mask, dtype), (1,), True)


def amax_of_rows(b: Any, x: Any) -> Any:
    """Return the largest element of each row, NaN if one is NaN."""
    return b.amax(x, (1,), True)


def amin_of_rows(b: Any, x: Any) -> Any:
    """Return the smallest element of each row, NaN if one is NaN."""
    return b.neg(b.amax(b.neg(x), (1,), True))


def sum_of_squares(b: Any, x: Any) -> Any:
    """Return the sum of the squares of each row."""
    return b.sum(b.square(x), (1,), True)


def variance_of_rows(b: Any, x: Any, divisor: Any) -> Any:
    """Return the sum of squared deviations of each row from its mean over a divisor; 0 for equal finite elements. As
    for `Backend.center`, the error of the mean is subtracted as well, unless it is not finite."""
    deviation = b.sub(x, b.mean(x, (1,), True))
    error = b.mean(deviation, (1,), True)
    deviation = b.sub(deviation, b.where(b.isfinite(error), error, 0.0))
    differ = b.ne(b.sub(b.amax(x, (1,), True), amin_of_rows(b, x)), 0.0)
    return b.div(b.where(differ, b.sum(b.square(deviation), (1,), True), 0.0), divisor)


def deviations_of_rows(b: Any, x: Any, mean: Any) -> tuple[Any, Any]:
    """Return the sum of the deviations of each row from a number, and the sum of their squares."""
    deviation = b.sub(x, mean)
    return b.sum(deviation, (1,), True), b.sum(b.square(deviation), (1,), True)


def sum_of_numbers(b: Any, x: Any) -> Any:
    """Return the sum of the elements of each row that are not NaN."""
    return b.nansum(x, (1,), True)


def sums_of_numbers(b: Any, x: Any) -> Any:
    """Return the sum of the elements of each column that are not NaN."""
    return b.nansum(x, (0,), True)


def clamped(b: Any, x: Any, low: Any, high: Any) -> Any:
    """x within bounds, which are numbers, so that one kernel serves all of them."""
    return b.minimum(b.maximum(x, low), high)


def weighted_elu(b: Any, x: Any, weight: Any, scale: Any, input_scale: Any) -> Any:
    """scale · x where x > 0, else weight · (exp(input_scale · x) - 1), of numbers, as in `clamped`."""
    curve = b.mul(b.expm1(b.mul(b.minimum(x, 0.0), input_scale)), weight)
    return b.where(b.gt(x, 0.0), b.mul(x, scale), curve)


def remainder_in_float64(b: Any, x: Any, y: Any) -> Any:
    """Return the remainder of floor division of float32 numbers, NaN where float64 does not give it exactly. A quotient
    below 2²⁷ is right, and its product with a float32 number is exact. So the difference is rounded twice, from float64
    to float32, which for any sum of two float32 numbers is as if it was rounded once."""
    y = b.cast(y, float64)
    return b.cast(_remainder(b, b.cast(x, float64), y, y), float32)


def floor_divide_in_float64(b: Any, x: Any, y: Any) -> Any:
    """Return the quotient of float32 numbers rounded down, NaN where float64 does not give it, or it is not exact."""
    y = b.cast(y, float64)
    quotient = b.floor(b.div(b.cast(x, float64), y))
    exact = b.discrete.bitwise_and(b.lt(b.abs(quotient), 2.0**24), b.lt(b.abs(y), math.inf))
    return b.cast(b.where(exact, quotient, math.nan), float32)


def fmod_in_float64(b: Any, x: Any, y: Any) -> Any:
    """Return the remainder of division rounded toward 0, as `remainder_in_float64`."""
    x = b.cast(x, float64)
    return b.cast(b.copysign(_remainder(b, b.abs(x), b.abs(b.cast(y, float64)), x), x), float32)


def _remainder(b: Any, x: Any, y: Any, sign_of_zero: Any) -> Any:
    quotient = b.floor(b.div(x, y))
    rest = b.sub(x, b.mul(quotient, y))
    rest = b.where(b.eq(rest, 0.0), b.copysign(b.full((), 0.0, float64), sign_of_zero), rest)
    return b.where(b.lt(b.abs(quotient), 2.0**27), rest, math.nan)


def exact_fmod(b: Any, x: Any, y: Any) -> Any:
    """Return the remainder of float64 numbers, of division rounded toward 0; NaN where it is not computed exactly."""
    return b.copysign(_division(b, b.abs(x), b.abs(y))[1], x)


def exact_remainder(b: Any, x: Any, y: Any) -> Any:
    """Return the remainder of floor division of float64 numbers, as `exact_fmod`."""
    rest = exact_fmod(b, x, y)
    other_sign = b.lt(b.mul(b.sign(rest), b.sign(y)), 0.0)
    return b.where(b.eq(rest, 0.0), b.copysign(rest, y), b.where(other_sign, b.add(rest, y), rest))


def exact_floor_divide(b: Any, x: Any, y: Any) -> Any:
    """Return the quotient of float64 numbers rounded down; NaN where it is not computed exactly."""
    quotient, rest = _division(b, b.abs(x), b.abs(y))
    further = b.where(b.ne(rest, 0.0), b.add(quotient, 1.0), quotient)
    same_sign = b.eq(b.copysign(b.full((), 1.0, float64), x), b.copysign(b.full((), 1.0, float64), y))
    return b.where(same_sign, quotient, b.neg(further))


def _division(b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return the whole quotient and the remainder of numbers that are not negative, NaN where they are not exact. A
    quotient below 2⁵³ that is rounded is one too large at most. Then its product with y is next to x, so that the
    difference has no error beside the product's own."""
    quotient = b.floor(b.div(x, y))
    product, error = two_product(b, quotient, y)
    rest = b.sub(b.sub(x, product), error)
    beyond = b.lt(rest, 0.0)
    quotient, rest = b.where(beyond, b.sub(quotient, 1.0), quotient), b.where(beyond, b.add(rest, y), rest)
    d, large = b.discrete, b.ge(x, y)
    usual = d.bitwise_and(b.lt(quotient, 2.0**53), d.bitwise_and(b.gt(x, 1e-280), b.lt(x, 1e290)))
    right = d.bitwise_or(b.lt(x, y), d.bitwise_and(large, usual))  # not of NaN
    return b.where(right, b.where(large, quotient, 0.0), math.nan), b.where(right, b.where(large, rest, x), math.nan)


def slope_of_gamma_quantile(b: Any, x: Any, concentration: Any, log: bool) -> Any:
    """Return the operation ``gamma_quantile_slope``, as a program of its own."""
    return gamma_quantile_slope(b, x, concentration, log)


def slope_of_beta_quantile(b: Any, x: Any, alpha: Any, beta: Any) -> Any:
    """Return the operation ``beta_quantile_slope``, as a program of its own."""
    return beta_quantile_slope(b, x, alpha, beta)
