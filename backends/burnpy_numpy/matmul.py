"""Matrix products, also with quantized matrices, by burnpy's kernels or by OpenBLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import burnpy_numpy.cpu_threads as threads
from burnpy.backend.dtypes import float32, float64, int32, int64, uint8
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_numpy.kernels.kernel import family_kernels, kernels_enabled, lookup
from burnpy_numpy.numpy_calls import quietly, run
from burnpy_numpy.openblas import gemm, openblas

if TYPE_CHECKING:
    from burnpy.backend.entries import Operation
    from burnpy.backend.primitives import DType, Shape

MAX_SINGLE_THREADED = 1 << 18
"""The number of multiplications up to which OpenBLAS uses one thread by itself."""
_MAX_VECTOR = 9 << 10
"""The same for the product of a matrix and a vector."""

LEAST = 1 << 20
"""The number of multiplications below which a product without a bias takes less time by NumPy."""

MIN_BIAS_FIRST = 1 << 17
"""The least number of elements for which `biased_product` takes less time than a product and a sum."""

MULTIPLICATIONS_PER_ELEMENT = 16
"""The number of multiplications that count as one element in `burnpy_numpy.cpu_threads.shared`."""

MIN_OUTER = 1 << 12
"""The least number of elements for which outer products take less time as a kernel, and products of ints as floats."""

_FEW_ROWS = 8
"""The number of rows up to which a quantized matrix is converted in registers."""
_CONVERTED = 1 << 19
"""The number of elements of a quantized matrix that are converted at a time, so that they stay in the second cache."""

_dot: Any = np.ndarray.dot


class NumPyMatmul(ArrayBackend):
    """Matrix products by a kernel of burnpy or by OpenBLAS, and linear layers."""

    adds_products = True

    def matmul(self, x: Any, y: Any) -> Any:
        dtype = x.dtype
        if (dtype is float32 or dtype is float64) and y.ndim == 2:  # whatever y's dtype, NumPy promotes as we do
            if x.ndim == 2:
                small = 1 < x.size < 1024 > y.size > 1
                if not small:
                    out = kernel_product(x, y) if x.shape[1] == y.shape[0] else None
                    if out is not None:
                        return out
                    kernels_enabled()  # so that it is not `run`'s context alone whose arrays start at cache lines
                try:
                    return run(_dot if small else product, x, y)  # a third of ``@``'s time when small
                except RuntimeError:
                    return quietly(product, x, y)
            if x.size and x.ndim > 2:  # one large product instead of many small ones, though it may copy x
                return self.matmul(x.reshape((-1, x.shape[-1])), y).reshape((*x.shape[:-1], y.shape[-1]))
        elif x.ndim > 2 and _are_outer(x, y) and (kernels := family_kernels("linalg_and_distances")):
            out = kernels.run_outer_products(x, y)
            if out is not None:
                return out
        elif x.ndim > 1 < y.ndim and x.size * y.shape[-1] >= LEAST and (dtype is float32 or dtype is float64):
            out = kernel_product(x, y)
            if out is not None:
                return out
        elif x.itemsize == 2 and y.dtype is dtype and is_half(dtype):
            out = _narrow_product("matmul", x, y, dtype=dtype)
            if out is not None:
                return out if out.dtype is dtype else self.cast(out, dtype)
        elif dtype.kind in "iu" and y.dtype is dtype and x.ndim > 1 < y.ndim and x.size * y.shape[-1] >= MIN_OUTER:
            exact = float_of_products(x, y)
            if exact is not None:  # NumPy multiplies ints one by one; the last bits of a sum are those of its int
                return self.cast(self.cast(self.matmul(self.cast(x, exact), self.cast(y, exact)), int64), dtype)
        if not _starts_threads(x, y):
            return super().matmul(x, y)
        if x.ndim > 2 < y.ndim and dtype is y.dtype and (dtype is float32 or dtype is float64) and shares_products():
            return self._call(_products_of_members, x, y)
        with threads.alone(True):
            return super().matmul(x, y)

    def product_in_float32(self, op: Operation, args: tuple[Any, ...]) -> Any:
        out = None
        if op.name in _NARROW:
            out = _narrow_product(op.name, *args)
        elif op.name == "linear_backward":
            out = self._gradients_of_linear(args[0], args[1], float32)
        return super().product_in_float32(op, args) if out is None else out

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        dtype, columns = x.dtype, weight.shape[1]
        if (dtype is float32 or dtype is float64) and weight.dtype is dtype is bias.dtype and x.ndim > 1 and x.size:
            rows = x if x.ndim == 2 else x.reshape((-1, x.shape[-1]))
            out = kernel_product(rows, weight, bias if bias.flags.c_contiguous else np.ascontiguousarray(bias))
            if out is None and len(rows) * columns >= MIN_BIAS_FIRST:
                out = self._call(biased_product, np.ascontiguousarray(rows), weight, bias)
            if out is not None:
                return out if rows is x else out.reshape((*x.shape[:-1], columns))
        return super().linear(x, weight, bias)

    def linear_backward(self, grad: Any, x: Any) -> tuple[Any, Any]:
        dtype, out = grad.dtype, None
        if dtype is float32 or dtype is float64 or is_half(dtype):
            out = self._gradients_of_linear(grad, x, dtype if is_half(dtype) else None)
        if out is None:
            return super().linear_backward(grad, x)
        weight, bias = out
        return out if weight.dtype is dtype else (self.cast(weight, dtype), self.cast(bias, dtype))

    def _gradients_of_linear(self, grad: Any, x: Any, dtype: Any = None) -> tuple[Any, Any] | None:
        """Return the gradients of a linear layer by weight and bias; None if no kernel adds up the rows of ``grad``.
        The kernel does so with the product, or with a column of it if NumPy computes the product: the bits of the
        gradient of the bias do not depend on the number of inputs. See `kernel_product`."""
        if not grad.size or not x.size or x.dtype is not grad.dtype:
            return None
        inputs, columns = x.shape[-1], grad.shape[-1]
        if grad.ndim != 2:
            x, grad = x.reshape((-1, inputs)), grad.reshape((-1, columns))
        whole = x.itemsize == 2 or (inputs > 1 and x.size * columns >= LEAST)
        found: tuple[Any, Any] | None = kernel_product(x[:, : None if whole else 1].T, grad, dtype=dtype, sums=True)
        return found if found is None or whole else (self.matmul_tn(x, grad), found[1])

    def accumulate_product(self, total: Any, x: Any, y: Any) -> Any:
        dtype, flags = x.dtype, total.flags
        whole = type(total) is np.ndarray and total.dtype is dtype and flags.c_contiguous and flags.writeable
        if whole and (dtype is float32 or dtype is float64):
            out = kernel_product(x, y, total=total)
            if out is not None:
                return out
        return super().accumulate_product(total, x, y)

    def matmul_nt(self, x: Any, y: Any) -> Any:
        return self.matmul(x, y.T) if y.ndim == 2 else super().matmul_nt(x, y)

    def matmul_tn(self, x: Any, y: Any) -> Any:
        return self.matmul(x.T, y) if x.ndim == 2 else super().matmul_tn(x, y)


def float_of_products(x: Any, y: Any) -> DType | None:
    """Return the float dtype in which a product of int matrices is exact, in any order of its sums; None if none is.
    The numbers of 32 and 64 bits are looked at, as they rarely have all the values that they may have."""
    least = [np.iinfo(each.dtype).min if each.itemsize < 4 else int(each.min(initial=0)) for each in (x, y)]
    most = [np.iinfo(each.dtype).max if each.itemsize < 4 else int(each.max(initial=0)) for each in (x, y)]
    bound = x.shape[-1] * max(most[0], -least[0]) * max(most[1], -least[1])
    return float32 if bound <= 1 << 24 else float64 if bound <= 1 << 53 else None


def _are_outer(x: Any, y: Any) -> bool:
    """Return whether a kernel computes the products of a column and a row for each member of a batch."""
    dtype, shape = x.dtype, x.shape
    return (
        shape[-1] == 1
        and (dtype is float32 or dtype is float64)
        and y.dtype is dtype
        and y.shape[:-1] == (*shape[:-2], 1)
        and x.size * y.shape[-1] >= MIN_OUTER
    )


_products: dict[tuple[Any, ...], Any] = lookup()
_quantized_products: dict[tuple[Any, ...], Any] = lookup()
_MOST_KNOWN = 1 << 12
"""The least number of descriptions of products for which they are made anew."""


_NARROW = ("matmul", "matmul_nt", "matmul_tn", "linear")
"""The products that the kernel computes of floats of 16 bits."""


def _narrow_product(name: str, x: Any, y: Any, bias: Any = None, dtype: Any = float32) -> Any:
    """Return a product of floats of 16 bits in float32, or in ``dtype`` if the kernel rounds its sums to that; None if
    it does not compute it."""
    if x.ndim < 2 or y.ndim < 2 or x.itemsize != 2 or y.itemsize != 2:
        return None
    if name == "matmul_tn":
        x = x.swapaxes(-1, -2)
    if name == "matmul_nt":
        y = y.swapaxes(-1, -2)
    rows = x.reshape((-1, x.shape[-1])) if y.ndim == 2 < x.ndim and x.size else x
    if bias is not None:
        if bias.dtype is not float32:
            return None
        bias = np.ascontiguousarray(bias)
    out = kernel_product(rows, y, bias, dtype=dtype)
    return out if out is None or rows is x else out.reshape((*x.shape[:-1], y.shape[-1]))


def kernel_product(x: Any, y: Any, bias: Any = None, dtype: Any = None, total: Any = None, sums: bool = False) -> Any:
    """Return the product of arrays of matrices whose sizes fit together; None if no kernel computes it.

    Args:
        x: the first array, of float32 or float64.
        y: the second one.
        bias: a row to add, of the dtype of the product.
        dtype: the dtype of the product, if it is another one: int32 of ints of 8 bits; of floats of 16 bits float32, or
            their own, which is replaced by float32 if the kernel does not round to it.
        total: C-contiguous memory of the product's shape and dtype to which it is added, if each of its elements is one
            sum in order; so the bits are those of a product and a sum.
        sums: whether to return the product of two matrices and the sum of the rows of y, whose bits depend on y alone.
    """
    kind: Any = x.itemsize  # hashing a dtype takes longer
    if dtype is not None:
        kind = x.dtype.num, y.dtype.num, dtype.num
    elif y.dtype is x.dtype:
        dtype = x.dtype
    else:
        return None
    key = (kind, x.shape, x.strides, y.shape, y.strides, bias is None, sums)
    try:
        found = _products[key]
    except KeyError:
        if len(_products) >= _MOST_KNOWN:
            _products.clear()
        kernels = family_kernels("products.products")
        given = bias is not None, False, dtype, sums
        found = _products[key] = None if kernels is None else kernels.product_of(x, y, *given)
    if found is None:
        return None
    if found.__class__ is str:
        return kernel_product(np.ascontiguousarray(x), np.ascontiguousarray(y), bias, dtype, total, sums)
    if total is not None:
        if not found.is_one_sum or found.shape != total.shape:
            return None
        found.run(x, y, total, adds=True)
        return total
    out = np.empty(found.shape, found.result)
    if sums:
        total = np.empty(found.shape[1:], found.result)
        found.run_with_sum(x, y, out, total)
        return out, total
    found.run(x, y, out, bias)
    return out


def dot(x: Any, y: Any, out: Any = None) -> Any:
    """Return the product of two matrices, with 0 · NaN: `numpy.dot` skips it where a matrix has one element."""
    if x.size != 1 and y.size != 1:
        return np.dot(x, y, out)
    return (np.multiply if x.shape[1] == y.shape[0] else np.matmul)(x, y, out)  # which refuses other shapes


def product(x: Any, y: Any) -> Any:
    """Return the product of two matrices of float32 or float64."""
    rows, inner = x.shape
    columns = y.shape[1]
    if rows * inner * columns >= LEAST and inner == y.shape[0]:
        out = kernel_product(x, y)
        if out is not None:
            return out
    if not _starts_threads(x, y) or x.dtype is not y.dtype or inner != y.shape[0] or not shares_products():
        return dot(x, y)
    out = np.empty((rows, columns), x.dtype)
    product_into(x, y, out)
    return out


def _starts_threads(x: Any, y: Any) -> bool:
    """Return whether OpenBLAS would use threads of its own, which burnpy's several threads avoid; see `alone`."""
    if threads.COUNT == 1:
        return False
    rows, columns = x.shape[-2] if x.ndim > 1 else 1, y.shape[-1] if y.ndim > 1 else 1
    return bool(rows * x.shape[-1] * columns > (MAX_SINGLE_THREADED if rows > 1 < columns else _MAX_VECTOR))


def _products_of_members(x: Any, y: Any) -> Any:
    """Return the products of arrays of matrices, a part of the members on each thread."""
    batch, rows, columns = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]
    out = np.empty((*batch, rows, columns), x.dtype)

    def work(start: int, stop: int) -> None:
        left, right = (a[start:stop] if a.ndim == out.ndim and len(a) > 1 else a for a in (x, y))
        np.matmul(left, right, out[start:stop])

    each = out[0].size * x.shape[-1] / MULTIPLICATIONS_PER_ELEMENT if out.size else 0.0
    threads.shared(work, len(out), each, products=True)
    return out


def product_into(x: Any, y: Any, out: Any) -> None:
    """Write the product of two large matrices into memory, on several threads."""
    rows, inner = x.shape
    columns = y.shape[1]
    by_rows = rows >= columns

    def work(start: int, stop: int) -> None:
        if by_rows:
            np.matmul(x[start:stop], y, out[start:stop])
        else:
            np.matmul(x, y[:, start:stop], out[:, start:stop])

    size = max(rows, columns)
    threads.shared(work, size, rows * inner * columns / size / MULTIPLICATIONS_PER_ELEMENT, products=True)


def biased_product(x: Any, weight: Any, bias: Any) -> Any:
    """Return x @ weight + bias for C-contiguous matrices x and a row ``bias`` of one dtype; None without OpenBLAS. The
    rows are filled with the bias, to which the product is added: OpenBLAS would fill them with zeros."""
    (rows, inner), columns = x.shape, weight.shape[1]
    transposed = not weight.flags.c_contiguous
    own = shares_products()
    if gemm(x.dtype) is None or (transposed and not weight.flags.f_contiguous) or (own and rows < columns):
        return None
    out = np.empty((rows, columns), x.dtype)
    work = _filled_and_added(x, weight, bias, out, transposed)
    if own:
        threads.shared(work, rows, inner * columns / MULTIPLICATIONS_PER_ELEMENT, products=True)
    else:
        work(0, rows)
    return out


def _filled_and_added(x: Any, weight: Any, bias: Any, out: Any, transposed: bool) -> threads.Work:
    """Return the function that computes rows of `biased_product` without a kernel."""
    add, item = gemm(x.dtype), x.itemsize
    inner, columns = weight.shape
    left, target = x.ctypes.data, out.ctypes.data
    matrix = (weight.ctypes.data, inner if transposed else columns)

    def work(start: int, stop: int) -> None:
        out[start:stop] = bias
        sizes, place = (stop - start, columns, inner), target + start * columns * item
        add(sizes, (left + start * inner * item, inner), matrix, transposed, (place, columns))

    return work


def shares_products() -> bool:
    """Return whether burnpy uses several threads, and NumPy uses OpenBLAS with no more threads than that."""
    if threads.COUNT == 1:
        return False
    blas = openblas()
    return blas is not None and blas.get() <= threads.COUNT


class NumPyQuantization(ArrayBackend):
    """Products of float32 and float64, and of ints; 16-bit floats are computed by default."""

    def integer_matmul(self, x: Any, y: Any) -> Any:
        rows = x.reshape((-1, x.shape[-1])) if y.ndim == 2 < x.ndim and x.size else x
        out = kernel_product(rows, y, dtype=int32)
        if out is None:
            return super().integer_matmul(x, y)
        return out if rows is x else out.reshape((*x.shape[:-1], y.shape[-1]))

    def integer_conv(
        self, x: Any, weight: Any, value: Any, stride: Shape, low: Shape, high: Shape, dilation: Shape
    ) -> Any:
        kernels, where = family_kernels("products.quantized"), (stride, low, high, dilation)
        found = None if kernels is None else kernels.integer_windows(x.shape, weight.shape[2:], *where)
        if found is None:
            return super().integer_conv(x, weight, value, *where)
        columns = found.run(*map(np.ascontiguousarray, (x, value)))
        out = self.integer_matmul(weight.reshape((len(weight), -1)), columns)
        return out.reshape((*out.shape[:2], *found.counts))

    def quantized_matmul(self, x: Any, weight: Any, scale: Any) -> Any:
        if not (x.dtype is float32 or x.dtype is float64) or scale.dtype is not x.dtype or 0 in x.shape:
            return super().quantized_matmul(x, weight, scale)
        x, *others = map(np.ascontiguousarray, (x, weight, scale))
        matrix = x.reshape((-1, x.shape[-1]))
        out = None
        if len(matrix) <= _FEW_ROWS and (kernels := family_kernels("products.quantized")):
            out = kernels.run_quantized_product(matrix, *others)
        if out is None:
            out = _quantized_product(matrix, *others)
        if out is None:
            out = self._call(_product_in_blocks, matrix, *others)
        return out.reshape((*x.shape[:-1], len(scale)))


def _quantized_product(x: Any, weight: Any, scale: Any) -> Any:
    """Return x times the transposed matrix; None if no kernel computes it."""
    key = (x.itemsize, len(x), weight.shape, weight.dtype is uint8, scale.shape[1])
    try:
        found = _quantized_products[key]
    except KeyError:
        kernels = family_kernels("products.products")
        found = None if kernels is None else kernels.quantized_product_of(x, weight, scale)
        _quantized_products[key] = found
    if found is None:
        return None
    out = np.empty(found.shape, x.dtype)
    found.run(x, weight, out, arrays=scale)
    return out


def _product_in_blocks(x: Any, weight: Any, scale: Any) -> Any:
    """Return x times the transposed matrix, whose rows are converted to floats a block at a time."""
    (rows, columns), outputs = x.shape, len(scale)
    step = max(1, _CONVERTED // columns)
    out, block = np.empty((rows, outputs), x.dtype), np.empty((step, columns), x.dtype)
    for start in range(0, outputs, step):
        some = weight[start : start + step], scale[start : start + step], block[: outputs - start]
        convert(*some)
        np.matmul(x, some[2].T, out[:, start : start + step])
    return out


def convert(weight: Any, scale: Any, out: Any) -> None:
    """Write rows of a quantized matrix as floats into a C-contiguous matrix."""
    shape = (*scale.shape, weight.shape[1] // scale.shape[1])
    packed, floats = weight.reshape(shape), out.reshape((*scale.shape, out.shape[1] // scale.shape[1]))
    if weight.dtype is uint8:
        floats[:, :, : shape[2]] = packed & 15
        floats[:, :, shape[2] :] = packed >> 4
        floats -= 8
    else:
        floats[...] = packed
    floats *= scale[:, :, None]
