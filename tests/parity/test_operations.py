"""Methods of tensors beside PyTorch's, called alike: keywords, options, bounds, 0-d tensors, reductions by index."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cat, stack
from burnpy.backend import NumPy
from burnpy.backend.errors import BurnpyError
from tests.parity.closeness import assert_close

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),  # its own
    pytest.mark.filterwarnings("ignore:index_reduce"),
    pytest.mark.filterwarnings("ignore:(std|var)\\(\\). degrees of freedom"),
]

LONG = int(os.environ.get("BURNPY_LONG_TESTS", "0"))
Train = Autodiff[NumPy]
NAN, INF = float("nan"), float("inf")
F = Callable[..., Any]

rng = np.random.default_rng(16)
X, Y = (np.round(rng.uniform(-4, 4, (3, 4)), 3) for _ in range(2))
INTEGERS, DIVISORS = rng.integers(-9, 10, (3, 4)), rng.choice([-4, -3, -1, 2, 3, 5], (3, 4))

FLOATS: dict[str, F] = {
    "add alpha": lambda x, y: x.add(y, alpha=2.5),
    "add alpha of a number": lambda x, y: x.add(3, alpha=0.5),
    "add alpha of a row": lambda x, y: x.add(y[0], alpha=-1),
    "sub alpha": lambda x, y: x.sub(y, alpha=3),
    "pow exponent": lambda x, y: x.abs().pow(exponent=1.5) + x.pow(exponent=2),
    "div": lambda x, y: x.div(y, rounding_mode=None),
    "div floor": lambda x, y: x.div(y, rounding_mode="floor"),
    "div trunc": lambda x, y: x.div(y, rounding_mode="trunc"),
    "div floor by a number": lambda x, y: x.div(0.1, rounding_mode="floor"),
    "div trunc by a number": lambda x, y: x.div(-0.7, rounding_mode="trunc"),
    "round": lambda x, y: x.round(decimals=0),
    "round to tenths": lambda x, y: x.round(decimals=1),
    "round to tens": lambda x, y: (x * 30).round(decimals=-1),
    "clamp by tensors": lambda x, y: x.clamp(y, y + 1),
    "clamp min": lambda x, y: x.clamp(min=y[0]),
    "clamp max": lambda x, y: x.clamp(max=y[:, :1]),
    "clamp_min": lambda x, y: x.clamp_min(y) + x.clamp_min(min=0.5),
    "clamp_max": lambda x, y: x.clamp_max(y) + x.clamp_max(max=0.5),
    "flip": lambda x, y: x.flip(dims=(0, 1)) + x.flip(dims=[1]) + x.flip(0, 1),
    "permute": lambda x, y: x.permute(dims=(1, 0)) @ y,
    "reshape": lambda x, y: x.reshape(shape=(2, -1)),
    "expand": lambda x, y: x[:, :1].expand(size=(3, 5)) + x[:1, :1].expand(size=[-1, 5]),
    "roll": lambda x, y: x.roll(5) + x.roll(shifts=-1, dims=None),
    "roll dims": lambda x, y: x.roll(shifts=(1, -2), dims=(0, 1)),
    "mean": lambda x, y: x.mean(dim=1, keepdim=True, dtype=x.dtype) + x.mean(dtype=x.dtype),
    "sum": lambda x, y: x.sum(dim=(0, 1), dtype=x.dtype),
    "prod": lambda x, y: x.prod(dim=0, dtype=x.dtype),
    "cumsum": lambda x, y: x.cumsum(dim=1, dtype=x.dtype),
    "a tuple within the brackets": lambda x, y: x[(0, 2, 0), 1] + x[:, (1, 1, 3)].sum(1) + x[((1, 1, 0),)].sum(1),
    "a tuple of truth values": lambda x, y: x[(True, False, True), 2:],
}
INTS: dict[str, F] = {
    "add alpha": lambda x, y: x.add(y, alpha=-3),
    "sub alpha": lambda x, y: x.sub(4, alpha=2),
    "pow exponent": lambda x, y: x.pow(exponent=2),
    "div floor": lambda x, y: x.div(y, rounding_mode="floor"),
    "div trunc": lambda x, y: x.div(y, rounding_mode="trunc"),
    "div trunc by a number": lambda x, y: x.div(-2, rounding_mode="trunc"),
    "clamp by tensors": lambda x, y: x.clamp(y, y + 3),
    "clamp min": lambda x, y: x.clamp(min=y[0]) + x.clamp_min(1) + x.clamp_max(y),
    "flip": lambda x, y: x.flip(dims=(0,)),
    "roll": lambda x, y: x.roll(-3),
    "nonzero": lambda x, y: (x > 0).nonzero(as_tuple=True)[1] + x.sign().clamp(min=0).nonzero()[:, 1],
    "nonzero of none": lambda x, y: (x > 99).nonzero(as_tuple=True)[0],
    "sum": lambda x, y: x.sum(dim=0) + x.sum(dtype=x.dtype),
    "prod": lambda x, y: x.prod(dim=0, dtype=x.dtype),
    "cumsum": lambda x, y: x.cumsum(dim=0, dtype=x.dtype),
    "bool sum": lambda x, y: (x > 0).sum(dim=1, dtype=x.dtype) + (x > 0).sum(),
    "take_along_dim": lambda x, y: x.take_along_dim(y.abs()),
    "argmax": lambda x, y: x.take_along_dim(x.argmax(dim=1, keepdim=True), dim=1),
}


def compare(f: F, *arrays: np.ndarray[Any, Any]) -> None:
    """The value, its dtype and the gradients of its sum, weighted, are PyTorch's."""
    kind = Tensor if arrays[0].dtype.kind == "f" else IntTensor
    ours: Any = [kind[Train].from_data(a) for a in arrays]
    theirs: Any = [torch.tensor(a) for a in arrays]
    if kind is IntTensor:
        assert_close(f(*ours), f(*theirs))
        return
    ours = [x.require_grad() for x in ours]
    theirs = [x.requires_grad_() for x in theirs]
    out, out_ = f(*ours), f(*theirs)
    assert_close(out, out_)
    weights = np.random.default_rng(1).normal(size=out.shape)
    grads = (out * Tensor[Train].from_data(weights, dtype=out.dtype)).sum().backward()
    (out_ * torch.tensor(weights, dtype=out_.dtype)).sum().backward()
    for k, (x, x_) in enumerate(zip(ours, theirs, strict=True)):
        if x_.grad is None:
            assert x not in grads
        else:
            assert_close(grads.get(x, x.inner().zeros_like()), x_.grad, f"the gradient of input {k}")


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str) -> None:
    compare(FLOATS[name], X, Y)


@pytest.mark.parametrize("name", INTS)
def test_ints(name: str) -> None:
    compare(INTS[name], INTEGERS, DIVISORS)


@pytest.mark.parametrize("seed", range(max(LONG, 20)))
def test_clamp_with_ties_nans_and_empty_intervals(seed: int) -> None:
    """Bounds that are crossed, infinite or NaN, tensors of shapes that broadcast, numbers, or absent.

    They are not equal: PyTorch gives no gradient to a bound then.
    """
    rng = np.random.default_rng(seed)
    lows, highs, chances = [-INF, -1.0, 0.0, 1.0, NAN], [-0.5, 0.5, 1.5, INF, NAN], [0.1, 0.3, 0.3, 0.2, 0.1]
    x = rng.choice([*lows, *highs], (4, 5))
    shapes = [(4, 5), (5,), (4, 1), (), (1, 5)]
    low, high = (rng.choice(values, shapes[rng.integers(len(shapes))], p=chances) for values in (lows, highs))
    least, most = float(rng.choice(lows[:-1])), float(rng.choice(highs[:-1]))
    compare(lambda x, low, high: x.clamp(low, high), x, low, high)
    compare(lambda x, low: x.clamp(min=low), x, low)
    compare(lambda x, high: x.clamp(max=high), x, high)
    compare(lambda x, low: x.clamp(low, torch.tensor(most) if isinstance(low, torch.Tensor) else most), x, low)
    compare(lambda x, high: x.clamp(torch.tensor(least) if isinstance(x, torch.Tensor) else least, high), x, high)


def test_clamp_promotes() -> None:
    x, low = (np.array([1.0, 2.0], d) for d in ("float32", "float64"))
    compare(lambda x, low: x.clamp(low, low + 0.5), x, low)
    compare(lambda x, low: x.clamp(low[0]), x, low)


@pytest.mark.parametrize("reduce", ["prod", "amin", "amax"])
@pytest.mark.parametrize("seed", range(max(LONG, 12)))
def test_reductions_by_index(reduce: str, seed: int) -> None:
    """``x.at[index].mul`` and its kin are PyTorch's index_reduce, gradients of ties and zeros included."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
    dim, count = int(rng.integers(len(shape))), int(rng.integers(1, 12))
    index = rng.integers(0, shape[dim], count)
    x = rng.choice([-1.5, 0.0, 0.5, 1.0], shape)
    src = rng.choice([-1.5, 0.0, 0.5, 1.0], (*shape[:dim], count, *shape[dim + 1 :]))
    method = {"prod": "mul", "amin": "min", "amax": "max"}[reduce]

    def reduced(x: Any, src: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.index_reduce(dim, torch.tensor(index), src, reduce)
        key: Any = (*(slice(None),) * dim, IntTensor.from_data(index, device=x.device))
        return getattr(x.at[key], method)(src)

    compare(reduced, x, src)


SCALARS: dict[str, F] = {
    **{
        name: lambda x, dim, name=name: getattr(x, name)(dim)
        for name in (
            *("sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "cumsum", "var", "std", "logsumexp"),
            *("softmax", "log_softmax", "max", "min", "flip", "squeeze", "unsqueeze", "unbind", "permute"),
        )
    },
    **{
        f"{name} keepdim": lambda x, dim, name=name: getattr(x, name)(dim, keepdim=True)
        for name in ("sum", "prod", "mean", "amax", "argmin", "max", "min", "std", "logsumexp")
    },
    **{
        f"{name} of a tuple": lambda x, dim, name=name: getattr(x, name)((dim,))
        for name in ("sum", "mean", "amin", "var", "flip", "squeeze")
    },
    "any": lambda x, dim: (x > 0).any(dim),
    "all": lambda x, dim: (x < 0).all(dim),
    "sum of bools": lambda x, dim: (x > 0).sum(dim),
    "sum of two": lambda x, dim: x.sum((dim, 0)),
    "roll": lambda x, dim: x.roll(1, dim),
    "transpose": lambda x, dim: x.transpose(dim, 0),
    "movedim": lambda x, dim: x.movedim(0, dim),
    "flatten": lambda x, dim: x.flatten(0, dim),
    "split": lambda x, dim: x.split(1, dim),
    "chunk": lambda x, dim: x.chunk(1, dim),
    "cat": lambda x, dim: (torch.cat if isinstance(x, torch.Tensor) else cat)([x], dim),
    "stack": lambda x, dim: (torch.stack if isinstance(x, torch.Tensor) else stack)([x], dim),
    **{
        f"{name} of {values}": lambda x, dim, name=name, values=values: getattr(x, name)(dim, ints(x, values))
        for name in ("index_select", "gather")
        for values in (0, [0], [0, 0], [], [[0]])
    },
    **{
        f"scatter of {values}": lambda x, dim, values=values: x.scatter(dim, ints(x, values), x + 1)
        for values in (0, [0], [0, 0], [[0]])
    },
    "scatter_add": lambda x, dim: x.scatter_add(dim, ints(x, 0), x * 2),
    "scatter_add of a vector": lambda x, dim: x.scatter_add(dim, ints(x, [0]), x.reshape(1)),
    "a number scattered": lambda x, dim: x.scatter(dim, ints(x, 0), 5.0),
    "a 0-d index into a vector": lambda x, dim: x.reshape(1).gather(dim, ints(x, 0)),
    "a 0-d index of slices": lambda x, dim: x.reshape(1, 1).index_select(dim, ints(x, 0)),
    "take_along_dim": lambda x, dim: x.take_along_dim(ints(x, 0), dim),
}


def ints(x: Any, values: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.tensor(values, dtype=torch.int64)
    return IntTensor.from_data(np.array(values, np.int64), device=x.device)


@pytest.mark.parametrize("dim", [0, -1, 1, -2])
@pytest.mark.parametrize("name", SCALARS)
def test_0d_tensors(name: str, dim: int) -> None:
    """A 0-d tensor takes a dim where PyTorch's does; where that raises an error, so do we."""
    f = SCALARS[name]
    x, x_ = Tensor[Train].from_data(np.float64(3.5)).require_grad(), torch.tensor(3.5).double().requires_grad_()
    try:
        theirs = f(x_, dim)
    except (RuntimeError, IndexError):
        with pytest.raises(BurnpyError):
            f(x, dim)
        return
    ours = f(x, dim)
    many = isinstance(theirs, tuple)
    for out, out_ in zip(ours if many else (ours,), theirs if many else (theirs,), strict=True):
        assert_close(out, out_, name)
        if isinstance(out, Tensor) and out_.requires_grad:
            grads = out.sum().backward(retain_graph=True)
            (grad_,) = torch.autograd.grad(out_.sum(), x_, retain_graph=True)
            assert_close(grads[x], grad_, f"the gradient of {name}")


@pytest.mark.parametrize("values", [3, True])
def test_0d_tensors_of_other_kinds(values: Any) -> None:
    kind: Any = BoolTensor if values is True else IntTensor
    x, x_ = kind[NumPy].from_data(values), torch.tensor(values)
    names = ["sum", "any", "all", "flip", "squeeze"] + ([] if values is True else ["prod", "amax", "argmin", "cumsum"])
    for name in names:
        assert_close(getattr(x, name)(-1), getattr(x_, name)(-1), name)
    for found, wanted in zip(x.nonzero(as_tuple=True), x_.nonzero(as_tuple=True), strict=True):
        assert_close(found, wanted)
    assert_close(x.roll(2), x_.roll(2))
    if values is not True:
        assert_close(IntTensor[NumPy].from_data(3, dtype="int8").max(0).values, torch.tensor(3, dtype=torch.int8))


def test_ranges_whose_end_does_not_fit() -> None:
    for name, arguments in (
        *(("int8", (128,)), ("int8", (-128, 128, 51)), ("uint8", (250, 256)), ("int8", (100, 130, 13))),
        *(("int8", (0, 100, 200)), ("int8", (-100, -129, -28)), ("int16", (32760, 32768)), ("int8", (5, 5))),
    ):
        found = IntTensor[NumPy].arange(*arguments, dtype=name)
        assert_close(found, torch.arange(*arguments, dtype=getattr(torch, name)))
