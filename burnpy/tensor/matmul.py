"""The matrix product, with PyTorch's rules for vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import BurnpyError, KindError, OutOfMemoryError, ShapeError
from burnpy.tensor.base import TensorBase, blank, describe
from burnpy.tensor.call_errors import refuse_option
from burnpy.tensor.dims import MOST
from burnpy.tensor.operands import broadcast_shape, from_other_code, operands, out_of_memory
from burnpy.tensor.template import from_template
from burnpy.typevars import B


def _product(self: Any, other: Any, out: Any = None) -> Any:
    if out is not None:
        refuse_option(self, "OPERATION", out=out)
    if other.__class__ is not self.__class__ or other._device is not self._device:
        _refuse_number(other)
        self, right = operands(self, other, "OPERATION")
    else:
        right = other._primitive
    try:
        primitive = self._backend.OPERATION(self._primitive, right)
    except Exception as error:  # of the array library, of any class; it is explained or raised again
        _explain(error, self, other)
        raise
    result = blank()
    result._device = self._device
    result._primitive = primitive
    return result


class MatrixProduct(TensorBase[B]):
    """The matrix product of float and int tensors."""

    __slots__ = ()

    @from_template(_product)
    def matmul(self, other: Self) -> Self:
        """The matrix product; also ``x @ y``.

        For shapes (…, n, k) and (…, k, m) the result has shape (…, n, m), and … broadcasts. A vector on the left is
        treated as a row, one on the right as a column, and its dimension is removed from the result: the product of two
        vectors is their 0-d inner product. Dtypes promote.

        Raises:
            ShapeError: the inner sizes differ, the other dimensions do not broadcast, or one of the tensors is 0-d.
            KindError: the other operand is a number, or a tensor of another kind.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> v = Tensor[NumPy].from_data([1.0, -1.0])
        >>> (x @ x).tolist(), (x @ v).tolist(), (v @ v).item()
        ([[7.0, 10.0], [15.0, 22.0]], [-1.0, -1.0], 2.0)
        """
        ...

    __matmul__ = matmul

    if not TYPE_CHECKING:  # to type checkers, the left operand is always a tensor

        def __rmatmul__(self, other):
            _refuse_number(other)
            operands(self, other, "matmul")
            raise AssertionError("two tensors of one class never come here")


def _refuse_number(other: object) -> None:
    if isinstance(other, (int, float)):
        raise KindError(
            f"matmul() got a tensor and the number {describe(other)}; to scale it write x * {describe(other)}"
        )


def _explain(error: Exception, x: TensorBase[Any], y: TensorBase[Any]) -> None:
    """Raise a clear error if the shapes of x and y, or their size, caused ``error``; else return."""
    if isinstance(error, BurnpyError) and not isinstance(error, OutOfMemoryError):
        return
    asked = f"matmul() got shapes {x.shape} and {y.shape}"
    if not x.ndim or not y.ndim:
        raise ShapeError(f"{asked}, and a 0-d tensor has no dimension to multiply along; write x * y") from error
    rows = -2 if y.ndim > 1 else -1
    if x.shape[-1] != y.shape[rows]:
        sizes = f"{x.shape[-1]} in dim -1 of the first must be {y.shape[rows]} in dim {rows} of the second"
        raise ShapeError(f"{asked}, which do not multiply: {sizes}") from error
    batch = broadcast_shape(x.shape[:-2], y.shape[:-2])
    if batch is None:
        raise ShapeError(f"{asked}, whose dimensions before the last two do not broadcast") from error
    shape = (*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
    if from_other_code(error, x._device):
        return
    if isinstance(error, MemoryError) or math.prod(shape) > MOST:
        raise out_of_memory(error, "matmul", x, y, shape) from error
