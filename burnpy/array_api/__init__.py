"""The Python array API standard, version 2025.12, for tensors of all kinds: the namespace ``x.__array_namespace__()``.

Libraries that are written to the standard, such as SciPy, scikit-learn and array-api-extra, compute with tensors
through it, and gradients flow through its functions. Names, arguments and dtypes are the standard's, with arrays of
all kinds promoted, where methods and operators of tensors keep to one kind.

The namespace of a tensor creates arrays on the device of the tensor; this module itself on the CPU, ``NumPy()``.

>>> x = Tensor[NumPy].from_data([1.0, 4.0])
>>> xp = x.__array_namespace__()
>>> xp.sqrt(x).tolist(), xp.add(x, xp.asarray([1, 2])).dtype
([1.0, 2.0], dtype('float32'))
"""

from __future__ import annotations

from typing import Any

from burnpy.backend.lazy import attached

__array_api_version__ = "2025.12"

_NAMES = {
    "burnpy.array_api": "fft linalg special",
    "burnpy.array_api.creation_and_manipulation": (
        "arange asarray broadcast_arrays broadcast_shapes broadcast_to concat empty empty_like expand_dims eye flip "
        "from_dlpack full full_like linspace meshgrid moveaxis ones ones_like permute_dims repeat reshape roll squeeze "
        "stack take take_along_axis tile tril triu unstack zeros zeros_like"
    ),
    "burnpy.array_api.data_types": "astype can_cast finfo iinfo isdtype result_type",
    "burnpy.array_api.elementwise": (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide "
        "greater greater_equal hypot imag isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp "
        "logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive "
        "pow real reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc"
    ),
    "burnpy.array_api.linalg": "matmul matrix_transpose tensordot vecdot",
    "burnpy.array_api.namespace": (
        "__array_namespace_info__ bool complex128 complex64 e float32 float64 inf int16 int32 int64 int8 nan newaxis "
        "pi uint16 uint32 uint64 uint8"
    ),
    "burnpy.array_api.searching_and_statistics": (
        "all any argmax argmin argsort count_nonzero cumulative_prod cumulative_sum diff isin max mean min nonzero "
        "prod searchsorted sort std sum unique_all unique_counts unique_inverse unique_values var where"
    ),
}
"""The names of the namespace by module; ``make generated`` writes them into the stub for type checkers."""


def _missing(name: str) -> Any:
    from burnpy.array_api.data_types import missing_from

    return missing_from(__name__)(name)


__getattr__, __dir__, __all__ = attached(__name__, _NAMES, _missing)
