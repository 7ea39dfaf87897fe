"""`Compiled`: the operations of the CuPy backend that run as programs, each in one launch, or three if it adds up rows.

Empty arrays, and what no `Geometry` describes, use the methods of the classes that `CuPy` has besides this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import kind_of
from burnpy.backend.operations.normalization import split_total
from burnpy.backend.primitives import Dims, DType, Scalar, Shape
from burnpy.backend.program import Extent, Program, ProgramError
from burnpy_array import ArrayBackend
from burnpy_array.base import is_half
from burnpy_array.programs import program_of
from burnpy_cupy.compiled.geometry import Geometry, along, flat, matrix
from burnpy_cupy.compiled.kernel import Kernel, enabled

_FULL, _ROW, _COLUMN = "full", "row", "column"


def _pointwise(name: str, arrays: int = 1) -> Callable[..., Any]:
    """Return the method of an elementwise operation of some arrays and of parameters that are part of its program."""

    def method(self: Compiled, *args: Any) -> Any:
        xs, rest = args[:arrays], args[arrays:]
        kernel = self._elementwise(name, xs, rest)
        if kernel is None:
            return getattr(super(Compiled, self), name)(*args)
        return self._call(kernel, xs, (), flat(xs[0].size), xs[0].shape, ())[0]

    return _documented(method, name)


def _along(name: str, arrays: int = 1) -> Callable[..., Any]:
    """Return the method of an operation of some arrays along a dimension."""

    def method(self: Compiled, *args: Any) -> Any:
        *xs, dim = args
        geometry = along(xs[0].shape, (dim,)) if xs[0].ndim else None
        kernel = None if geometry is None else self._elementwise(name, xs, (1,))
        if geometry is None or kernel is None:
            return getattr(super(Compiled, self), name)(*args)
        return self._call(kernel, xs, (), geometry, xs[0].shape, ())[0]

    return _documented(method, name)


def _documented(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__, method.__doc__ = name, getattr(Backend, name).__doc__
    return method


class Compiled(ArrayBackend):
    """Operations as kernels. Their programs are traced from the defaults of the operations."""

    _programs: dict[tuple[Any, ...], Kernel | None]

    sigmoid, gelu, silu, mish = _pointwise("sigmoid"), _pointwise("gelu"), _pointwise("silu"), _pointwise("mish")
    gelu_backward, silu_backward = _pointwise("gelu_backward", 2), _pointwise("silu_backward", 2)
    relu_backward = _pointwise("relu_backward", 2)
    softplus, elu, hardswish = _pointwise("softplus"), _pointwise("elu"), _pointwise("hardswish")
    leaky_relu, hardtanh = _pointwise("leaky_relu"), _pointwise("hardtanh")
    rsqrt, sinc, lgamma, digamma = _pointwise("rsqrt"), _pointwise("sinc"), _pointwise("lgamma"), _pointwise("digamma")
    softmax, softmax_backward = _along("softmax"), _along("softmax_backward", 2)
    log_softmax, log_softmax_backward = _along("log_softmax"), _along("log_softmax_backward", 2)

    def run(self, program: Program, xs: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        given, rows, columns = program.bind(xs, numbers)
        geometry = flat(rows * columns) if program.elementwise else matrix(rows, columns)
        kernel = None
        if rows * columns and (program.elementwise or geometry.occupies):
            kernel = self._kernel_of(program)
        if kernel is None:
            return super().run(program, xs, numbers)
        xs = self._checked(program, given, columns)
        return self._call(kernel, xs, numbers, geometry, (rows, columns), (rows, 1))  # type: ignore[no-any-return]  # as the kernel returns it

    def clamp(self, x: Any, low: Scalar | None, high: Scalar | None) -> Any:
        kernel = None
        if x.size and low is not None and high is not None and kind_of(x.dtype) == "float":
            kernel = self._kernel("clamped", (_FULL, "scalar", "scalar"), x.dtype)  # as the bounds may change
        if kernel is None:
            return super().clamp(x, low, high)
        return self._call(kernel, [x], (low, high), flat(x.size), x.shape, ())[0]

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        kernel = None
        if x.size and x.shape == mask.shape:
            kernel = self._kernel("masked_scale", (_FULL, "mask", "scalar"), x.dtype)
        if kernel is None:
            return super().masked_scale(x, mask, scale)
        return self._call(kernel, [x, mask], (scale,), flat(x.size), x.shape, ())[0]

    def masked_mean(self, x: Any, mask: Any) -> Any:
        geometry, kernel = flat(x.size), None
        if x.size and geometry.occupies:
            kernel = self._kernel("masked_mean_of_rows", (_FULL, "mask"), x.dtype)
        if kernel is None:
            return super().masked_mean(x, mask)
        return self._call(kernel, [x, mask], (), geometry, x.shape, ())[0]

    def masked_mean_backward(self, grad: Any, mask: Any) -> Any:
        geometry, kernel = flat(mask.size), None
        if mask.size and geometry.occupies:
            kernel = self._kernel("masked_mean_of_rows_backward", (_COLUMN, "mask"), grad.dtype)
        if kernel is None:
            return super().masked_mean_backward(grad, mask)
        return self._call(kernel, [grad, mask], (), geometry, mask.shape, ())[0]

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if not (dims and x.size) or is_half(x.dtype):
            return super().mean(x, dims, keepdim)
        return self._call(x.mean, dims, None, None, keepdim)

    def logsumexp(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        geometry = along(x.shape, dims) if dims else None
        kernel = None if geometry is None else self._kernel("logsumexp", (_FULL,), x.dtype, ((1,), True))
        if geometry is None or kernel is None:
            return super().logsumexp(x, dims, keepdim)
        shape = tuple([1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims])
        return self._call(kernel, [x], (), geometry, x.shape, shape)[0]

    def cross_entropy(self, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
        geometry = along(x.shape, (dim,))
        kernel = None
        if geometry is not None and index.size == geometry.rows:
            kernel = self._kernel("cross_entropy", (_FULL, "index"), x.dtype, (1,))
        if geometry is None or kernel is None:
            return super().cross_entropy(x, index, dim)
        losses, total = self._call(kernel, [x, index], (), geometry, x.shape, index.shape)
        return losses, total.reshape((*x.shape[:dim], 1, *x.shape[dim + 1 :]))

    def cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
        geometry = along(x.shape, (dim,))
        kernel = None
        if geometry is not None and grad.size == logsumexp.size == index.size == geometry.rows:
            dtypes = (grad.dtype, x.dtype, logsumexp.dtype)
            kernel = self._kernel("cross_entropy_gradient", (_COLUMN, _FULL, _COLUMN, "index"), *dtypes[:1])
            kernel = kernel if dtypes[0] is dtypes[1] is dtypes[2] else None
        if geometry is None or kernel is None:
            return super().cross_entropy_backward(grad, x, logsumexp, index, dim)
        return self._call(kernel, [grad, x, logsumexp, index], (), geometry, x.shape, ())[0]

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        chosen = self._normalizing("normalize", (x,), (weight, bias), (), dims, eps)
        if chosen is None:
            return super().normalize(x, weight, bias, dims, eps)
        kernel, geometry = chosen
        out, mean, var = self._call(kernel, [x, weight, bias], (), geometry, x.shape, _small(x.shape, dims))
        return out, mean, var

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        chosen = self._normalizing("normalize_backward", (grad, x), (weight,), (mean, var), dims, eps)
        if chosen is None:
            return super().normalize_backward(grad, x, weight, mean, var, dims, eps)
        kernel, geometry = chosen
        xs = [grad, x, weight, mean, var]
        by_x, by_weight, by_bias = self._call(kernel, xs, (), geometry, x.shape, weight.shape)
        return by_x, by_weight.reshape(weight.shape), by_bias.reshape(weight.shape)

    def rms_norm(self, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
        chosen = self._normalizing("rms_norm", (x,), (weight,), (), dims, eps)
        if chosen is None:
            return super().rms_norm(x, weight, dims, eps)
        kernel, geometry = chosen
        return self._call(kernel, [x, weight], (), geometry, x.shape, ())[0]

    def rms_norm_backward(self, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
        chosen = self._normalizing("rms_norm_backward", (grad, x), (weight,), (), dims, eps)
        if chosen is None:
            return super().rms_norm_backward(grad, x, weight, dims, eps)
        kernel, geometry = chosen
        by_x, by_weight = self._call(kernel, [grad, x, weight], (), geometry, x.shape, weight.shape)
        return by_x, by_weight.reshape(weight.shape)

    def average_update(self, averages: Sequence[Any], totals: Sequence[Any], share: float) -> list[Any]:
        return [self._moved_average(*pair, share) for pair in zip(averages, totals, strict=True)]

    def _moved_average(self, average: Any, total: Any, share: float) -> Any:
        kernel = None
        if average.size and average.dtype is total.dtype:
            extents = (_FULL, _FULL, _COLUMN, "scalar", "scalar")
            kernel = self._kernel("moved_average", extents, average.dtype)
        if kernel is None:
            return super().average_update([average], [total], share)[0]
        xs, numbers = [average, *split_total(self, total)], (1.0 - share, share)
        return self._call(kernel, xs, numbers, flat(average.size), average.shape, ())[0]

    def _elementwise(self, name: str, xs: Sequence[Any], rest: tuple[Any, ...]) -> Kernel | None:
        """Return the kernel of an operation whose arrays have one shape and one dtype."""
        x = xs[0]
        if not x.size or any(y.shape != x.shape or y.dtype is not x.dtype for y in xs[1:]):
            return None
        return self._kernel(name, (_FULL,) * len(xs), x.dtype, rest)

    def _kernel(self, name: str, extents: tuple[str, ...], dtype: DType, rest: tuple[Any, ...] = ()) -> Kernel | None:
        """Return the kernel of an operation; None if it has none, or kernels are off. See `program_of`."""
        key = (name, extents, dtype.name, *rest)
        try:
            return self._programs[key]
        except KeyError:
            program = program_of(name, extents, dtype.name, rest) if kind_of(dtype) == "float" else None
            kernel = self._programs[key] = None if program is None else self._kernel_of(program)
            return kernel

    def _kernel_of(self, program: Program) -> Kernel | None:
        """Return the kernel of a program; None if it has none, or kernels are off."""
        key = (program.key,)
        if key not in self._programs:
            try:
                self._programs[key] = Kernel(self.xp, program) if enabled() else None
            except ProgramError:
                self._programs[key] = None
        return self._programs[key]

    def _checked(self, program: Program, given: list[Any], columns: int) -> list[Any]:
        """Return the inputs that are arrays, with indices of gathers within bounds; those beyond are a late error."""

        def refused(_: int) -> ProgramError:
            return ProgramError(f"program {program.name} got an index out of the range of its {columns} columns")

        for step in program.instructions:
            if step.op == "gather":
                source = program.instructions[step.args[1]]
                if source.op != "input" or not isinstance(source.value, int):
                    raise ProgramError(f"program {program.name} gathers by an index that is not one of its inputs")
                given[source.value] = self.bounded(given[source.value], 0, columns - 1, refused)
        return [x for x, (extent, _) in zip(given, program.inputs, strict=True) if extent is not Extent.SCALAR]

    def _normalizing(
        self,
        name: str,
        full: tuple[Any, ...],
        weights: tuple[Any, ...],
        small: tuple[Any, ...],
        dims: Dims,
        eps: float,
    ) -> tuple[Kernel, Geometry] | None:
        """Return the kernel of a normalization and its geometry, for weights of each column, or of each row."""
        x, weight = full[-1], weights[0]
        geometry = along(x.shape, dims)
        if (
            geometry is None
            or any(a.dtype is not x.dtype for a in (*full, *weights, *small))
            or any(a.shape != x.shape for a in full)
            or any(a.shape != weight.shape for a in weights)
            or any(a.size != geometry.rows for a in small)
        ):
            return None
        if weight.shape == x.shape[dims[0] :] and len(dims) == len(weight.shape):
            extent = _ROW
        elif weight.size == geometry.rows and all(
            weight.shape[d - x.ndim] == 1 for d in dims if d >= x.ndim - weight.ndim
        ):
            extent = _COLUMN
        else:
            return None
        extents = (_FULL,) * len(full) + (extent,) * len(weights) + (_COLUMN,) * len(small)
        kernel = self._kernel(name, extents, x.dtype, ((1,), eps))
        return None if kernel is None else (kernel, geometry)


def _small(shape: Shape, dims: Dims) -> Shape:
    """Return a shape with dims of size 1."""
    return tuple([1 if d in dims else n for d, n in enumerate(shape)])
