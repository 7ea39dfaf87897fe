"""How the entries of ``op_db`` are called here: the arguments are PyTorch's, with tensors of this library.

An entry that is not listed is the method or the function of its name. The expressions are those of
burnpy/docs/from_pytorch/tensors.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import burnpy
from burnpy import BoolTensor, ComplexTensor, IntTensor, Tensor, fft, linalg
from burnpy.nn import functional

CLASSES: dict[str, Any] = {"float": Tensor, "complex": ComplexTensor, "int": IntTensor, "bool": BoolTensor}
KIND_LETTERS = {"f": "float", "c": "complex", "V": "float", "i": "int", "u": "int", "b": "bool"}
"""Kinds by the letters of NumPy's dtypes; bfloat16's is V."""


def class_of(dtype: Any) -> Any:
    return CLASSES[KIND_LETTERS[np.dtype(dtype).kind]]


def result(x: Any, dtype: Any) -> Any:
    return x if dtype is None else converted(x, dtype)


def converted(x: Any, dtype: Any) -> Any:
    """x in another dtype, of any kind."""
    kind = KIND_LETTERS[np.dtype(dtype).kind]
    if kind == "complex":
        return x.complex(dtype)
    if kind != "float":
        return x.bool() if kind == "bool" else x.int(dtype)
    return (x if x.kind == "float" else x.float()).to_dtype(dtype)


def to(x: Any, *args: Any, **kwargs: Any) -> Any:
    dtypes = [a for a in (*args, *kwargs.values()) if isinstance(a, np.dtype)]
    others = [a.dtype for a in (*args, *kwargs.values()) if hasattr(a, "to_numpy")]
    return converted(x, (dtypes + others)[0]) if dtypes or others else x


def spread(name: str) -> Callable[..., Any]:
    """A variance or standard deviation, whose older form says whether it is unbiased."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], bool):
            args, kwargs = args[1:], {"correction": int(args[0]), **kwargs}
        if "unbiased" in kwargs:
            kwargs["correction"] = int(kwargs.pop("unbiased"))
        if kwargs.get("correction", 1) is None:
            del kwargs["correction"]
        function = getattr(burnpy, name, None)
        return function(x, *args, **kwargs) if function else getattr(x, name)(*args, **kwargs)

    return call


def stft(x: Any, *args: Any, return_complex: bool = False, **kwargs: Any) -> Any:
    spectra = fft.stft(x, *args, **kwargs)
    return spectra if return_complex else fft.view_as_real(spectra)


def with_names(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A function whose arguments after the first are passed by name."""
    return lambda x, *args, **kwargs: function(x, **dict(zip(names, args, strict=False)), **kwargs)


def without(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A function that takes no arguments of these names, which do not change its result."""
    return lambda *args, **kwargs: function(*args, **{k: v for k, v in kwargs.items() if k not in names})


def in_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of x in another dtype."""
    return lambda x, *args, dtype=None, **kwargs: function(result(x, dtype), *args, **kwargs)


def extreme(name: str, of_two: str) -> Callable[..., Any]:
    """``max`` or ``min``, also of two tensors."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        two = args and hasattr(args[0], "to_numpy")
        return getattr(x, of_two if two else name)(*args, **kwargs)

    return call


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    at = x.at[tuple(indices)]
    return at.add(values) if accumulate else at.set(values)


def matrix_of_norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if p == "nuc":
        return linalg.matrix_norm(result(x, dtype), "nuc", tuple(dim) if dim is not None else (0, 1), keepdim)
    return x.norm(p, dim, keepdim) if x.kind == "complex" else x.norm(p, dim, keepdim, dtype=dtype)


def sum_to_size(x: Any, *size: Any) -> Any:
    shape = tuple(size[0]) if size and isinstance(size[0], (tuple, list)) else size
    lead = tuple(range(x.ndim - len(shape)))
    summed = x.sum(lead) if lead else x
    kept = tuple(d for d, n in enumerate(shape) if n != summed.shape[d])
    return summed.sum(kept, keepdim=True) if kept else summed


def svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    u, s, vh = linalg.svd(x, full_matrices=not some)
    return u, s, vh.mT


def inner(x: Any, y: Any) -> Any:
    return burnpy.tensordot(x, y, ([-1], [-1])) if x.ndim and y.ndim else x * y


def attention(q: Any, k: Any, v: Any, attn_mask: Any = None, *, is_causal: bool = False, **kwargs: Any) -> Any:
    kwargs.pop("dropout_p", None)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask, causal=is_causal, **kwargs)


def split_along(dim: int) -> Callable[..., Any]:
    """``hsplit`` and its kin, along a dimension; of vectors along the only one."""
    return lambda x, parts: x.tensor_split(parts, dim if x.ndim > 1 else 0)


def flat(results: Any) -> list[Any]:
    """The tensors of a result, and other values."""
    if isinstance(results, (list, tuple)):
        return [each for member in results for each in flat(member)]
    return [results]


def first(results: Any) -> list[Any]:
    return [results[0]]


def magnitudes(results: Any) -> list[Any]:
    return [x.abs() for x in results]


def with_wide_ints(results: Any) -> list[Any]:
    """Pivots and the like are int64 here, and int32 there."""
    return [
        x if "int" not in str(x.dtype) else x.to_dtype("int64") if hasattr(x, "to_dtype") else x.long() for x in results
    ]


AFTER: dict[str, Callable[[Any], list[Any]]] = {
    **dict.fromkeys(("kthvalue", "mode", "topk"), first),  # which of equal elements is not defined
    **dict.fromkeys(("linalg.eigh", "linalg.svd", "svd"), magnitudes),  # signs are LAPACK's choice
    **dict.fromkeys(("linalg.lu_factor", "linalg.lu_factor_ex", "lu"), with_wide_ints),
    "logcumsumexp": lambda x: (  # PyTorch's angles go beyond π
        [x.real, x.imag.cos(), x.imag.sin()] if "complex" in str(x.dtype) else [x]
    ),
    "linalg.lstsq": first,  # the other results depend on LAPACK's driver
}
"""How the results of an entry, of either library, become the list of tensors that is compared."""

CALLS: dict[str, Callable[..., Any]] = {
    "H": lambda x: adjoint(x) if x.ndim else x,
    "mH": lambda x: adjoint(x),
    "mT": lambda x: x.mT,
    "T": lambda x: x.T,
    "t": lambda x: x.T if x.ndim > 1 else x,
    "real": lambda x: x.real if x.kind == "complex" else x,
    "cdouble": lambda x: x.complex("complex128"),
    "cfloat": lambda x: x.complex("complex64"),
    "conj": lambda x: x.conj() if x.kind == "complex" else x,
    "conj_physical": lambda x: x.conj() if x.kind == "complex" else x,
    "clone": lambda x: x,
    "positive": lambda x: +x,
    "__getitem__": lambda x, key: x[key],
    "__radd__": lambda x, y: y + x,
    "__rand__": lambda x, y: y & x,
    "__rdiv__": lambda x, y: y / x,
    "__rmatmul__": lambda x, y: y @ x,
    "__rmod__": lambda x, y: y % x,
    "__rmul__": lambda x, y: y * x,
    "__ror__": lambda x, y: y | x,
    "__rpow__": lambda x, y: y**x,
    "__rsub__": lambda x, y: y - x,
    "__rxor__": lambda x, y: y ^ x,
    "angle": lambda x: x.complex().angle(),
    "bool": lambda x: x.bool(),
    "byte": lambda x: x.int("uint8"),
    "char": lambda x: x.int("int8"),
    "short": lambda x: x.int("int16"),
    "int": lambda x: x.int("int32"),
    "long": lambda x: x.int(),
    "double": lambda x: converted(x, "float64"),
    "half": lambda x: converted(x, "float16"),
    "bfloat16": lambda x: converted(x, bfloat16),
    "to": to,
    "cdist": lambda x, y, p=2.0, mode=None: burnpy.cdist(x, y, p),
    "cholesky": lambda x, upper=False: linalg.cholesky(x, upper=upper),
    "cholesky_inverse": lambda x, upper=False: linalg.cholesky_inverse(x, upper=upper),
    "cholesky_solve": lambda b, x, upper=False: linalg.cholesky_solve(b, x, upper=upper),
    "dsplit": lambda x, parts: x.tensor_split(parts, 2),
    "hsplit": split_along(1),
    "vsplit": lambda x, parts: x.tensor_split(parts, 0),
    "einsum": lambda xs, equation: burnpy.einsum(equation, *xs),
    "equal": lambda x, y: x.shape == y.shape and bool((x == y).all()),
    "gradient": lambda x, **kwargs: burnpy.gradient(x, **{k: v for k, v in kwargs.items() if v is not None}),
    "index_put": index_put,
    "inner": inner,
    "isin": lambda x, values: (x.unsqueeze(-1) == values.flatten()).any(-1),
    "isinf": lambda x: x.isinf() if x.kind == "float" else x != x,
    "isfinite": lambda x: x.isfinite() if x.kind == "float" else x == x,
    "isnan": lambda x: x.isnan() if x.kind == "float" else x != x,
    "isposinf": lambda x: x == math.inf if x.kind == "float" else x != x,
    "isneginf": lambda x: x == -math.inf if x.kind == "float" else x != x,
    "imag": lambda x: x.imag,
    "isreal": lambda x: x.imag == 0.0 if x.kind == "complex" else x.ones_like() == (True if x.kind == "bool" else 1),
    "linalg.cross": lambda x, y, dim=-1: x.cross(y, dim),
    "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: x.diagonal(offset, dim1, dim2),
    "linalg.lu_factor": without(linalg.lu_factor, "pivot"),
    "linalg.lu_factor_ex": without(linalg.lu_factor_ex, "pivot"),
    "linalg.lu": without(linalg.lu, "pivot"),
    "logical_and": lambda x, y: x.bool() & y.bool(),
    "logical_not": lambda x: ~x.bool(),
    "logical_or": lambda x, y: x.bool() | y.bool(),
    "logical_xor": lambda x, y: x.bool() ^ y.bool(),
    "log_softmax": in_dtype(lambda x, *args, **kwargs: x.log_softmax(*args, **kwargs)),
    "softmax": in_dtype(lambda x, *args, **kwargs: x.softmax(*args, **kwargs)),
    "nn.functional.softmin": in_dtype(functional.softmin),
    "lu": lambda x, pivot=True, get_infos=False: (
        *linalg.lu_factor(x),
        *([IntTensor.zeros(x.shape[:-2], device=x.device)] * get_infos),
    ),
    "lu_solve": lambda b, factors, pivots: linalg.lu_solve(factors, pivots, b),
    "max": extreme("max", "maximum"),
    "min": extreme("min", "minimum"),
    "new_full": lambda x, shape, value, dtype=None: class_of(dtype or x.dtype).full(
        shape, value, dtype=dtype or x.dtype, device=x.device
    ),
    "new_ones": lambda x, shape, dtype=None: class_of(dtype or x.dtype).ones(
        shape, dtype=dtype or x.dtype, device=x.device
    ),
    "new_zeros": lambda x, shape, dtype=None: class_of(dtype or x.dtype).zeros(
        shape, dtype=dtype or x.dtype, device=x.device
    ),
    "ones_like": lambda x, dtype=None: result(x.ones_like(), dtype),
    "zeros_like": lambda x, dtype=None: result(x.zeros_like(), dtype),
    "full_like": lambda x, value, dtype=None: result(x, dtype).full_like(value),
    "narrow": lambda x, dim, start, length: x.narrow(dim, int(start), length),
    "nn.functional.silu_complex": lambda z: z.silu(),
    "norm": matrix_of_norm,
    "nn.functional.adaptive_max_pool1d": with_names(functional.adaptive_max_pool1d, "output_size", "return_indices"),
    "nn.functional.adaptive_max_pool2d": with_names(functional.adaptive_max_pool2d, "output_size", "return_indices"),
    "nn.functional.avg_pool1d": with_names(
        functional.avg_pool1d, "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"
    ),
    "nn.functional.avg_pool2d": with_names(
        functional.avg_pool2d,
        *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    ),
    "nn.functional.adaptive_max_pool3d": with_names(functional.adaptive_max_pool3d, "output_size", "return_indices"),
    "nn.functional.avg_pool3d": with_names(
        functional.avg_pool3d,
        *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    ),
    "nn.functional.batch_norm": without(functional.batch_norm, "momentum"),
    "nn.functional.embedding": lambda weight, index, **kwargs: functional.embedding(index, weight, **kwargs),
    "nn.functional.embedding_bag": lambda weight, index, **kwargs: functional.embedding_bag(
        index, weight, **{k: v for k, v in kwargs.items() if k not in ("sparse", "max_norm", "scale_grad_by_freq")}
    ),
    "nn.functional.instance_norm": without(functional.instance_norm, "momentum"),
    "nn.functional.linear": lambda x, weight, bias=None: functional.linear(
        x, weight.mT if weight.ndim > 1 else weight, bias
    ),
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.softplus": lambda x, beta=1.0, threshold=20.0: burnpy.where(
        x * beta > threshold, x, x.softplus(beta)
    ),
    "nn.functional.triplet_margin_with_distance_loss": without(functional.triplet_margin_loss, "distance_function"),
    "nn.functional.unfold": with_names(functional.unfold, "kernel_size", "dilation", "padding", "stride"),
    "nn.functional.upsample_bilinear": lambda x, *args, **kwargs: functional.interpolate(
        x, *args, mode="bilinear", align_corners=True, **kwargs
    ),
    "nn.functional.upsample_nearest": functional.interpolate,
    "linalg.pinv_singular": lambda x, y: linalg.pinv(x @ y.mT),
    "pinverse": linalg.pinv,
    "qr": lambda x, some=True: linalg.qr(x, "reduced" if some else "complete"),
    "reshape_as": lambda x, y: x.reshape(y.shape),
    "sgn": lambda x: x.sgn() if x.kind == "complex" else x.sign(),
    "std": spread("std"),
    "std_mean": spread("std_mean"),
    "var": spread("var"),
    "var_mean": spread("var_mean"),
    "special.polygamma": lambda x, n: x.polygamma(n),
    "split_with_sizes": lambda x, sizes, dim=0: x.split(list(sizes), dim),
    "istft": fft.istft,
    "stft": stft,
    "sum_to_size": sum_to_size,
    "svd": svd,
    "trapz": burnpy.trapezoid,
    "true_divide": lambda x, y: x / y,
    "vdot": lambda x, y: (x.conj() if x.kind == "complex" else x).dot(y),
    "view": lambda x, *shape: x.reshape(*shape),
    "view_as": lambda x, y: x.reshape(y.shape),
    "where": lambda x, condition, y: burnpy.where(condition, x, y),
}
"""Entries that have another name or other arguments here."""


FACTORIES: dict[str, Callable[..., Any]] = {
    "arange": lambda cls, on, *args, **kwargs: cls.arange(*args, device=on, **kwargs),
    "eye": lambda cls, on, *args, **kwargs: cls.eye(*args, device=on, **kwargs),
    "full": lambda cls, on, *args, **kwargs: cls.full(*args, device=on, **kwargs),
    "linspace": lambda cls, on, *args, **kwargs: cls.linspace(*args, device=on, **kwargs),
    "logspace": lambda cls, on, start, end, steps, base=10.0, **kwargs: (
        base ** cls.linspace(start, end, steps, device=on, **kwargs)
    ),
    "ones": lambda cls, on, *args, **kwargs: cls.ones(*args, device=on, **kwargs),
    "zeros": lambda cls, on, *args, **kwargs: cls.zeros(*args, device=on, **kwargs),
    "scalar_tensor": lambda cls, on, value, **kwargs: cls.from_data(value, device=on, **kwargs),
    "tril_indices": lambda cls, on, *args, **kwargs: triangle("tril", on, *args, **kwargs),
    "triu_indices": lambda cls, on, *args, **kwargs: triangle("triu", on, *args, **kwargs),
}
"""Entries that make tensors of Python numbers: functions of the class and the device too."""


def adjoint(x: Any) -> Any:
    return x.mH if x.kind == "complex" else x.mT


def triangle(name: str, on: Any, rows: int, columns: int, offset: int = 0, dtype: Any = "int64") -> Any:
    return getattr(IntTensor.ones((rows, columns), device=on), name)(offset).nonzero().mT.to_dtype(dtype)


def call_of(name: str, cls: Any) -> Callable[..., Any] | None:
    """The call of an entry for tensors of a class; None if there is none."""
    last = name.rpartition(".")[2]
    if name in CALLS:
        return CALLS[name]
    if name in FACTORIES:
        return FACTORIES[name]
    packages = {"nn.functional": functional, "linalg": linalg, "fft": fft, "special": getattr(burnpy, "special", None)}
    package: Any = packages.get(name.rpartition(".")[0], burnpy)
    if package is not None and last in package.__all__:
        found: Callable[..., Any] = getattr(package, last)
        return found
    return (lambda x, *args, **kwargs: getattr(x, last)(*args, **kwargs)) if last in dir(cls) else None
