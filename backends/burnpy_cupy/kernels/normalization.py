"""Normalization, its gradients and running statistics, as programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims, Shape
from burnpy_array.array_base import is_half
from burnpy_cupy.kernels.elementwise import Elementwise
from burnpy_cupy.kernels.kernel import CuPyPrograms
from burnpy_cupy.kernels.launch import Kernel
from burnpy_cupy.kernels.library import SUM, SUM_TYPE, Kernels
from burnpy_cupy.kernels.row_geometry import Geometry, along

_COUNT = "llrint(static_cast<double>(total{}[last]))"


def _statistics(count: int) -> Elementwise:
    """Return the kernel that updates a count and so many running averages by the totals of a batch."""
    each = "y{0} = static_cast<T>(F(x{0}) * F(keep) + F(total{0}[i]) / F(total{0}[last]) * F(share));"
    return Elementwise(
        ", ".join(["raw int64 count", *[f"T x{k}, raw T total{k}" for k in range(count)]])
        + ", float64 keep, float64 share, int64 last",
        ", ".join(["raw int64 sum", *[f"T y{k}" for k in range(count)]]),
        f"{SUM_TYPE} if (i == 0) sum[0] = count[0] + {_COUNT.format(0)}; "
        + " ".join([each.format(k) for k in range(count)]),
        SUM,
        exact=True,
    )


_STATISTICS = range(1, 3)
"""The numbers of averages for which there is a kernel."""
NORMALIZATION = {
    "burnpy_count": Elementwise(
        "int64 count, raw T total, int64 last", "int64 sum", f"sum = count + {_COUNT.format('')}"
    ),
    "burnpy_batch_totals": Elementwise(
        "raw T mean, raw T var, int64 size, float64 factor",
        "T total",
        "const long long at = i % (size + 1);"
        "total = at == size ? T(1) : i <= size ? mean[at] : var[at] * static_cast<T>(factor)",
    ),
    **{f"burnpy_statistics_{count}": _statistics(count) for count in _STATISTICS},
}
_FULL, _ROW, _COLUMN = "full", "row", "column"


class CuPyNormalization(CuPyPrograms):
    """Normalization of rows, or of groups of dimensions, and running statistics."""

    _kernels: Kernels

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        chosen = self._normalizing_kernel("normalize", (x,), (weight, bias), (), dims, eps)
        if chosen is None:
            return super().normalize(x, weight, bias, dims, eps)
        kernel, geometry = chosen
        out, mean, var = self._call(kernel, [x, weight, bias], (), geometry, x.shape, _small(x.shape, dims))
        return out, mean, var

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        chosen = self._normalizing_kernel("normalize_backward", (grad, x), (weight,), (mean, var), dims, eps)
        if chosen is None:
            return super().normalize_backward(grad, x, weight, mean, var, dims, eps)
        kernel, geometry = chosen
        xs = [grad, x, weight, mean, var]
        shape = weight.shape
        by_x, by_weight, by_bias = self._call(kernel, xs, (), geometry, x.shape, shape)
        if by_weight.shape != shape:
            by_weight, by_bias = by_weight.reshape(shape), by_bias.reshape(shape)
        return by_x, by_weight, by_bias

    def rms_norm(self, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
        chosen = self._normalizing_kernel("rms_norm", (x,), (weight,), (), dims, eps)
        if chosen is None:
            return super().rms_norm(x, weight, dims, eps)
        kernel, geometry = chosen
        return self._call(kernel, [x, weight], (), geometry, x.shape, ())[0]

    def rms_norm_backward(self, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
        chosen = self._normalizing_kernel("rms_norm_backward", (grad, x), (weight,), (), dims, eps)
        if chosen is None:
            return super().rms_norm_backward(grad, x, weight, dims, eps)
        kernel, geometry = chosen
        by_x, by_weight = self._call(kernel, [grad, x, weight], (), geometry, x.shape, weight.shape)
        return by_x, by_weight.reshape(weight.shape)

    def statistics_update(
        self, count: Any, averages: Sequence[Any], totals: Sequence[Any], share: float
    ) -> tuple[Any, list[Any]]:
        shape, dtype = averages[0].shape, averages[0].dtype
        alike = all(x.shape == shape and x.dtype is dtype for x in averages) and all(x.dtype is dtype for x in totals)
        if not alike or not averages[0].size or len(averages) not in _STATISTICS:
            return super().statistics_update(count, averages, totals, share)
        return self._call(self._updated, count, averages, totals, share)  # type: ignore[no-any-return]  # as it returns

    def _updated(
        self, count: Any, averages: Sequence[Any], totals: Sequence[Any], share: float
    ) -> tuple[Any, list[Any]]:
        xp = self.xp
        pairs = [x for pair in zip(averages, totals, strict=True) for x in pair]
        outs = [xp.ndarray(x.shape, x.dtype) for x in (count, *averages)]
        kernel = self._kernels[f"burnpy_statistics_{len(averages)}"]
        kernel(count, *pairs, 1.0 - share, share, totals[0].size - 1, *outs)
        return outs[0], outs[1:]

    def batch_totals(self, mean: Any, var: Any, factor: float) -> Any:
        if not mean.size or is_half(mean.dtype):
            return super().batch_totals(mean, var, factor)
        out = self._call(self.xp.ndarray, (2 * mean.size + 2,), mean.dtype)
        return self._call(self._kernels["burnpy_batch_totals"], mean, var, mean.size, float(factor), out)

    def count_update(self, count: Any, total: Any) -> Any:
        if total.dtype.kind == "V":
            total = self.cast(total, float32)
        return self._call(self._kernels["burnpy_count"], count, total, total.shape[0] - 1)

    def _normalizing_kernel(
        self,
        name: str,
        full: tuple[Any, ...],
        weights: tuple[Any, ...],
        small: tuple[Any, ...],
        dims: Dims,
        eps: float,
    ) -> tuple[Kernel, Geometry] | None:
        """Return the kernel of a normalization and its geometry, for weights of each column, or of each row."""
        dtype = full[-1].dtype
        for a in (*full, *weights, *small):
            if a.dtype is not dtype:
                return None
        layout = _layout(
            tuple([a.shape for a in full]), tuple([a.shape for a in weights]), tuple([a.size for a in small]), dims
        )
        if layout is None:
            return None
        kernel = self._operation_kernel(name, layout[0], dtype, ((1,), eps))
        return None if kernel is None else (kernel, layout[1])


@lru_cache(1024)
def _layout(
    full: tuple[Shape, ...], weights: tuple[Shape, ...], small: tuple[int, ...], dims: Dims
) -> tuple[tuple[str, ...], Geometry] | None:
    """Return the extents of a normalization's arrays and their geometry; None if kernels are not for them."""
    shape, weight = full[0], weights[0]
    geometry = along(shape, dims)
    alike = all(other == shape for other in full) and all(other == weight for other in weights)
    if geometry is None or not alike or any(size != geometry.rows for size in small):
        return None
    if weight == shape[dims[0] :] and len(dims) == len(weight):
        extent = _ROW
    elif math.prod(weight) == geometry.rows and all(
        weight[d - len(shape)] == 1 for d in dims if d >= len(shape) - len(weight)
    ):
        extent = _COLUMN
    else:
        return None
    return (_FULL,) * len(full) + (extent,) * len(weights) + (_COLUMN,) * len(small), geometry


@lru_cache(1024)
def _small(shape: Shape, dims: Dims) -> Shape:
    """Return a shape with dims of size 1."""
    return tuple([1 if d in dims else n for d, n in enumerate(shape)])
