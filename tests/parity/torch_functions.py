"""The PyTorch function of each operation, called with the arguments of the operation.

Where PyTorch has a function of the same name that takes the same arguments, nothing is listed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
F: Any = torch.nn.functional


def operand(y: Any, x: Any) -> Any:
    return y if isinstance(y, torch.Tensor) else torch.as_tensor(y, dtype=x.dtype)


def over(function: Any) -> Callable[..., Any]:
    """A reduction over several dimensions, which PyTorch understands as all where none is given."""
    return lambda x, dims, keepdim: function(x, dim=dims, keepdim=keepdim) if dims else one_by_one(x, function)


def one_by_one(x: Any, function: Any) -> Any:
    """A reduction over no dimensions."""
    return function(x.unsqueeze(0), dim=0, keepdim=False)


def prod(x: Any, dims: Any, keepdim: bool) -> Any:
    if not dims:
        return one_by_one(x, torch.prod)
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keepdim=keepdim)
    return x


def logsumexp(x: Any, dims: Any, keepdim: bool) -> Any:
    return x.logsumexp(dims, keepdim) if dims else x


def spread(function: Any) -> Callable[..., Any]:
    """The variance or standard deviation."""
    return lambda x, dims, keepdim, correction: function(x, dim=dims, correction=correction, keepdim=keepdim)


def sliced(x: Any, key: Any) -> Any:
    """Basic indexing; steps backward, which PyTorch lacks, by indices."""
    dim, out = 0, x
    for k in key:
        if k is None:
            out = out.unsqueeze(dim)
        elif isinstance(k, int):
            out = out.select(dim, k)
            continue
        else:
            out = out.index_select(dim, torch.tensor(range(out.shape[dim])[k], dtype=torch.int64))
        dim += 1
    return out


def slice_scattered(x: Any, key: Any, src: Any) -> Any:
    places = sliced(torch.arange(x.numel()).reshape(x.shape), key)
    flat = operand(src, x).expand(places.shape).reshape(-1)
    return x.reshape(-1).index_copy(0, places.reshape(-1), flat).reshape(x.shape)


def mean_cross_entropy(x: Any, index: Any, counted: Any, dim: int) -> Any:
    index = index if counted is None else torch.where(counted, index, -100)
    return F.cross_entropy(x.movedim(dim, min(x.ndim - 1, 1)), index), torch.logsumexp(x, dim, keepdim=True)


def cross_entropy(x: Any, index: Any, dim: int) -> Any:
    losses = F.cross_entropy(x.movedim(dim, min(x.ndim - 1, 1)), index, reduction="none")
    return losses, x.logsumexp(dim, keepdim=True)


def conv2d(x: Any, weight: Any, *where: Any) -> Any:
    return F.conv2d(x, weight, None, *where)


def arange(start: int, stop: int, step: int, dtype: Any) -> Any:
    """PyTorch refuses a range whose end lies behind its start."""
    return torch.arange(start, stop if (stop - start) * step > 0 else start, step, dtype=dtype)


def first_sorted(x: Any, dim: int, k: int, largest: bool) -> Any:
    """The first of the stable sort, as which of equal elements topk() and kthvalue() find is not defined."""
    return tuple(each.narrow(dim, 0, k) for each in torch.sort(x, dim=dim, descending=largest, stable=True))


def kthvalue(x: Any, dim: int, k: int, keepdim: bool) -> Any:
    found = tuple(each.narrow(dim, k - 1, 1) for each in torch.sort(x, dim=dim, stable=True))
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


def vector_norm(x: Any, p: float, dims: Any, keepdim: bool) -> Any:
    """PyTorch understands no dimensions as all."""
    if not dims:
        return torch.linalg.vector_norm(x.unsqueeze(0), p, 0)
    return torch.linalg.vector_norm(x, p, dims, keepdim)


def conv3d(x: Any, weight: Any, *where: Any) -> Any:
    return F.conv3d(x, weight, None, *where)


def converted(x: Any, dtype: Any) -> Any:
    return x.to(dtype)


def nth(number: Any, k: int) -> Any:
    """The number of the k-th of a list; all may have the same."""
    return number[k] if isinstance(number, torch.Tensor) and number.ndim else number


def norms(xs: list[Any], p: float) -> Any:
    """The norm of each, as a vector; PyTorch has no norm for inf of nothing."""
    return torch.stack([torch.linalg.vector_norm(x, p) if x.numel() else x.new_zeros(()) for x in xs])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "all": over(torch.all),
    "amax": over(torch.amax),
    "amin": over(torch.amin),
    "any": over(torch.any),
    "arange": arange,
    "argsort": lambda x, dim, descending: torch.argsort(x, dim=dim, descending=descending, stable=True),
    "avg_pool2d": F.avg_pool2d,
    "cast": converted,
    "cholesky": torch.linalg.cholesky,
    "clamp_between": torch.clamp,
    "conv2d": conv2d,
    "conv2d_bias": F.conv2d,
    "conv3d": conv3d,
    "conv3d_bias": F.conv3d,
    "conv3d_input": lambda grad, weight, shape, *where: torch.nn.grad.conv3d_input(shape, weight, grad, *where),
    "conv3d_weight": lambda grad, x, shape, *where: torch.nn.grad.conv3d_weight(x, shape, grad, *where),
    "conv2d_input": lambda grad, weight, shape, *where: torch.nn.grad.conv2d_input(shape, weight, grad, *where),
    "conv2d_weight": lambda grad, x, shape, *where: torch.nn.grad.conv2d_weight(x, shape, grad, *where),
    "atan2": lambda x, y: torch.atan2(x, operand(y, x)),
    "copysign": lambda x, y: torch.copysign(x, operand(y, x)),
    "cross_entropy": cross_entropy,
    "elu": torch.ops.aten.elu,
    "eigvalsh": torch.linalg.eigvalsh,
    "cummax_index": lambda x, dim: torch.cummax(x, dim).indices,
    "cummin_index": lambda x, dim: torch.cummin(x, dim).indices,
    "embedding": lambda weight, index, padding: F.embedding(index, weight, padding),
    "expand": lambda x, shape: x.expand(shape),
    "fmax": lambda x, y: torch.fmax(x, operand(y, x)),
    "fmin": lambda x, y: torch.fmin(x, operand(y, x)),
    "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "eye": lambda n, m, dtype: torch.eye(n, m, dtype=dtype),
    "full": lambda shape, value, dtype: torch.full(shape, value, dtype=dtype),
    "gcd": lambda x, y: torch.gcd(x, operand(y, x)),
    "hypot": lambda x, y: torch.hypot(x, operand(y, x)),
    "squared_difference": lambda x, y: torch.square(x - y),
    "lcm": lambda x, y: torch.lcm(x, operand(y, x)),
    "logaddexp": lambda x, y: torch.logaddexp(x, operand(y, x)),
    "logaddexp2": lambda x, y: torch.logaddexp2(x, operand(y, x)),
    "nextafter": lambda x, y: torch.nextafter(x, operand(y, x)),
    "polygamma": lambda x, n: torch.polygamma(n, x),
    "foreach_add": lambda xs, ys, alpha: tuple(torch.add(x, y, alpha=alpha) for x, y in zip(xs, ys, strict=True)),
    "foreach_cast": lambda xs, dtype: tuple(converted(x, dtype) for x in xs),
    "foreach_clamp": lambda xs, low, high: tuple(x.clamp(low, high) for x in xs),
    "foreach_div": lambda xs, divisor: tuple(x / nth(divisor, k) for k, x in enumerate(xs)),
    "foreach_lerp": lambda xs, ys, weight: tuple(x.lerp(y, weight) for x, y in zip(xs, ys, strict=True)),
    "foreach_mul": lambda xs, factor: tuple(x * nth(factor, k) for k, x in enumerate(xs)),
    "foreach_norm": norms,
    "foreach_where": lambda condition, xs, ys: tuple(
        torch.where(condition, *pair) for pair in zip(xs, ys, strict=True)
    ),
    "gelu": lambda x, approximate: F.gelu(x, approximate="tanh" if approximate else "none"),
    "hardswish": F.hardswish,
    "hardtanh": F.hardtanh,
    "reverse_cumsum": lambda x, dim: x.flip(dim).cumsum(dim).flip(dim),
    **{
        name: getattr(torch.special, name)
        for name in ("i0e", "i1", "i1e", "erfcx", "ndtr", "log_ndtr", "ndtri", "entr", "xlog1py")
    },
    "zeta": lambda x, y: torch.special.zeta(x.detach(), operand(y, x)),
    "igamma": lambda x, y: torch.igamma(x.detach(), operand(y, x)),
    "igammac": lambda x, y: torch.igammac(x.detach(), operand(y, x)),
    "index_order": lambda index, size: torch.argsort(index, stable=True),
    "index_put": torch.index_copy,
    "leaky_relu": F.leaky_relu,
    "inv": torch.linalg.inv,
    "kthvalue": kthvalue,
    "kthvalue_index": lambda x, dim, k: kthvalue(x, dim, k, True)[1],
    "linear": lambda x, weight, bias: F.linear(x, weight.mT, bias),
    "linspace": lambda start, stop, num, dtype: torch.linspace(start, stop, num, dtype=dtype),
    "logsumexp": logsumexp,
    "masked_scale": lambda x, mask, scale: torch.where(mask, x * scale, 0.0),
    "mean_cross_entropy": mean_cross_entropy,
    "masked_mean": lambda x, mask: torch.where(mask, x, 0.0).sum() / mask.sum(),
    "matmul_nt": lambda x, y: x @ y.mT,
    "matmul_tn": lambda x, y: x.mT @ y,
    "max_dim": torch.max,
    "max_pool2d": F.max_pool2d,
    "adaptive_max_pool2d_indices": lambda x, size: F.adaptive_max_pool2d(x, size, return_indices=True)[1],
    "max_pool2d_indices": lambda *arguments: F.max_pool2d(*arguments, return_indices=True)[1],
    "maximum": lambda x, y: torch.maximum(x, operand(y, x)),
    "mean": over(torch.mean),
    "min_dim": torch.min,
    "minimum": lambda x, y: torch.minimum(x, operand(y, x)),
    "mish": F.mish,
    "mT": lambda x: x.mT,
    "one_hot": F.one_hot,
    "pinv": lambda x, atol, rtol: torch.linalg.pinv(x, atol=atol, rtol=rtol),
    "prod": prod,
    "rms_norm": lambda x, weight, dims, eps: x * (x.square().mean(dims, keepdim=True) + eps).rsqrt() * weight,
    "silu": F.silu,
    "searchsorted": lambda sequence, values, right: torch.searchsorted(sequence, values, right=right),
    "slice": sliced,
    "slice_scatter": slice_scattered,
    "softplus": lambda x, beta: F.softplus(x, beta, threshold=40.0),
    "solve": torch.linalg.solve,
    "solve_triangular": lambda a, b, upper, unitriangular: torch.linalg.solve_triangular(
        a, b, upper=upper, unitriangular=unitriangular
    ),
    "sort": lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True),
    "std": spread(torch.std),
    "nansum": over(torch.nansum),
    "sum": over(torch.sum),
    "sum_to": lambda x, shape: x.sum_to_size(shape),
    "svdvals": torch.linalg.svdvals,
    "to_bool": lambda x: x.bool(),
    "total_norm": lambda xs, p: torch.linalg.vector_norm(norms(xs, p), p),
    "to_float": converted,
    "to_int": converted,
    "topk": first_sorted,
    "topk_index": lambda *arguments: first_sorted(*arguments)[1],
    "var": spread(torch.var),
    "vector_norm": vector_norm,
}
"""Functions of other names or arguments."""

NONE = {
    **dict.fromkeys(
        ("gamma_quantile_slope", "beta_quantile_slope"), "the gradients of random numbers, which are others in PyTorch"
    ),
    "accumulate": "a sum, for the backward pass",
    "accumulate_index": "a sum, for the backward pass",
    "accumulate_slice": "a sum, for the backward pass",
    "adjugate": "the gradient of det",
    "attention": "functional.scaled_dot_product_attention is compared in test_nn.py",
    "bounded": "checks an index",
    "center": "a part of the variance",
    "detach": "nothing is computed",
    "integer_matmul": "a private function in PyTorch, torch._int_mm, of int8 alone",
    "integer_conv": "PyTorch convolves ints of 8 bits in quantized modules alone, which round the sums",
    "quantized_matmul": "PyTorch's products with ints have ints as operands or other layouts",
    "resample": "functional.interpolate is compared in test_networks.py",
    "bessel_ratio": "the derivatives of i0 and i1, which are compared",
    "erfcx_slope": "the gradient of erfcx, which is compared",
    "normal_ratio": "the gradient of log_ndtr, which is compared",
    "ndtri_exp": "ndtri of exp(x), compared in tests/backend/test_special_accuracy.py",
    "zeta_slope": "the gradient of zeta with respect to x, which PyTorch lacks",
    "betainc": "PyTorch has no incomplete beta function",
    "betainc_density": "the gradient of betainc with respect to x",
    "igamma_density": "the gradient of igamma with respect to its second operand, which is compared",
    "igamma_slope": "the gradient of igamma with respect to its first operand, which PyTorch lacks",
    "ctc_loss": "functional.ctc_loss is compared in test_ctc.py, behind log_softmax, where PyTorch's gradient is right",
    **dict.fromkeys(("sum_rows", "dot_rows"), "functional.embedding_bag is compared in test_volumes.py"),
    **dict.fromkeys(("gru", "lstm", "rnn"), "the layers are compared in test_nn.py"),
    **dict.fromkeys(("complex", "complex_abs"), "complex numbers are compared in test_op_db.py"),
    **dict.fromkeys(("eig", "eigvals"), "complex matrices are compared in test_complex_linalg.py"),
    "cholesky_info": "a part of cholesky_ex",
    "pivot_order": "a part of lu_solve",
    **dict.fromkeys(("eigh", "lu_factor", "qr", "svd"), "linalg is compared in test_linalg.py, whatever the signs"),
    **dict.fromkeys(
        ("fft", "fft_real", "rfft", "irfft", "frames", "overlap_add", "frame_spectra"),
        "burnpy.fft is compared in test_fft.py",
    ),
    "batch_totals": "running statistics of batch norm are compared in test_nn.py",
    "normalize": "functional.layer_norm and batch_norm are compared in test_nn.py",
    "pad_ends": "functional.pad is compared in test_shape_programs.py",
    **dict.fromkeys(
        ("recurrence", "reverse_recurrence"), "cumprod and logcumsumexp, whose gradients they compute, are compared"
    ),
    "run": "PyTorch has no programs",
    **dict.fromkeys(
        ("weighted_gather", "weighted_scatter", "gathered_products"),
        "functional.grid_sample is compared in test_networks.py",
    ),
}
"""Operations that are not compared here; nor are updates (test_optim.py) and, by themselves, gradients."""


def torch_function(name: str) -> Callable[..., Any] | None:
    """The function of an operation; None where it is compared elsewhere."""
    if name in NONE or name.endswith(("_backward", "_update")):
        return None
    function: Callable[..., Any] | None = FUNCTIONS.get(name) or getattr(torch, name, None)
    assert function is not None, f"PyTorch has no function {name}: name one in tests/parity/torch_functions.py"
    return function


def to_torch(argument: Any) -> Any:
    """An argument for PyTorch."""
    if isinstance(argument, list):
        return [to_torch(member) for member in argument]
    if isinstance(argument, np.dtype):
        return getattr(torch, argument.name)
    if not isinstance(argument, np.ndarray):
        return argument
    tensor = torch.tensor(np.ascontiguousarray(argument).reshape(argument.shape))
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor
