"""Checks of type promotion: operands of two dtypes, with and without dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.autodiff import Autodiff, Forward
from burnpy.backend.backend import operations
from burnpy.backend.dtypes import kind_of, promote_types
from burnpy.backend.errors import DTypeError
from burnpy.backend.schema import Algebra
from burnpy.testing.checks import device_at, difference

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType
    from burnpy.testing.cases import Row

SHAPES = ((2,), ())
TYPICAL = ("float32", "int64", "bool")
"""A dtype of each kind."""
PRODUCTS = ("matmul", "matmul_nt", "matmul_tn")


def promoting() -> list[str]:
    """Return the binary operations that promote: those that take a number as second operand, and matrix products."""
    names = []
    for name, op in operations().items():
        arguments = op.arguments
        pair = len(arguments) == 2 and not arguments[0].sequence
        if pair and arguments[1].scalar and arguments[0].kind == arguments[1].kind:
            names.append(name)
    return [*names, *PRODUCTS]


def check_promotion(
    device: Any, level: str, row: Row, dtypes: dict[str, DType], one_of: Sequence[str] | None = None
) -> None:
    """Check an operation for all pairs of dtypes of its kinds, with and without dimensions.

    At other levels than "plain" these are pairs of floats. ``one_of`` names dtypes; each pair must have one of them.
    """
    on, name = device_at(level, device), row.operation.name
    shapes = [((2, 2), (2, 2))] if name in PRODUCTS else list(product(SHAPES, SHAPES))
    for left_dtype, right_dtype in product(dtypes.values(), dtypes.values()):
        kind = kind_of(left_dtype)
        if kind != kind_of(right_dtype) or kind not in row.kinds or (level != "plain" and kind != "float"):
            continue
        if one_of is not None and left_dtype.name not in one_of and right_dtype.name not in one_of:
            continue
        try:
            promote_types(left_dtype, right_dtype)
        except DTypeError:
            continue  # uint64 with a signed dtype; the tests of tensors cover the error
        for shape, other in shapes:
            left = np.ones(shape, left_dtype)
            left = left + left if kind != "bool" else left
            _check(on, level, row, left, np.ones(other, right_dtype))


def _check(on: Any, level: str, row: Row, left: Any, right: Any) -> None:
    name, op = row.operation.name, row.operation
    where = f"{name} of {left.dtype} {left.shape} and {right.dtype} {right.shape}, {level}"
    left, right = np.asarray(left), np.asarray(right)
    if (left.shape == ()) == (right.shape == ()):
        common = promote_types(left.dtype, right.dtype)
    else:  # a 0-d operand does not promote one that has dimensions
        common = right.dtype if left.shape == () else left.dtype
    x, y = on.from_numpy(left), on.from_numpy(right)
    if level == "Forward":
        x = on.dual(x.value, on.inner.full(x.shape, 1.0, x.dtype))
    x = on.require_grad(x)
    out = getattr(on, name)(x, y)
    wide: Any = np.float64 if kind_of(common) == "float" else common
    expected = np.asarray(row.reference(left.astype(wide), right.astype(wide)))
    dtype = np.dtype(np.bool_) if op.results == ("Bool",) else common
    assert out.dtype == dtype, f"{where}: the dtype is {out.dtype}, not {dtype}"
    assert out.shape == expected.shape, f"{where}: the shape is {out.shape}, not {expected.shape}"
    owner = on if kind_of(dtype) == "float" else on.discrete
    wrong = difference(np.asarray(owner.to_numpy(out)), expected.astype(dtype), 1.0)
    assert wrong is None, f"{where}: {wrong}"
    if op.algebra is Algebra.NONDIFFERENTIABLE:
        return
    if isinstance(on, Forward):
        tangent: Any = out.tangent
        assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype), f"{where}: a tangent of {tangent.dtype}"
    elif isinstance(on, Autodiff):
        seed = on.inner.full(out.shape, 1.0, out.dtype)
        (gradient,) = on.gradients([(out, seed)], retain_graph=False).values()
        assert (gradient.shape, gradient.dtype) == (x.shape, x.dtype), f"{where}: a gradient of {gradient.dtype}"
