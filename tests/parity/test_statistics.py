"""Sorting, ranks, scans and statistics beside PyTorch's: values, both derivatives, NaN, ties, no elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import BurnpyError
from tests.parity.closeness import assert_close

torch: Any = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),  # its own
    pytest.mark.filterwarnings("ignore:.*degrees of freedom"),
]

Train = Autodiff[NumPy]
Twice = Autodiff[Train]
F = Callable[..., Any]
NAN, INF = math.nan, math.inf

rng = np.random.default_rng(7)
X = rng.normal(size=(3, 5)).round(2) + 0.001  # none is 0
INTEGERS = rng.integers(0, 4, (3, 5))
TIES = INTEGERS.astype(np.float64)
WITH_NAN = np.where(rng.random((3, 5)) < 0.3, NAN, X)
INPUTS: dict[str, np.ndarray[Any, Any]] = {
    "floats": X,
    "ties": TIES,
    "NaN": WITH_NAN,
    "a vector": X[0],
    "0-d": np.array(2.5),
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((3, 0)),
    "ints": INTEGERS,
    "bools": INTEGERS > 1,
}


def of(x: Any, name: str) -> Any:
    """A function of the library of x."""
    return getattr(torch if isinstance(x, torch.Tensor) else burnpy, name)


def made(x: Any, values: list[float]) -> Any:
    """A float tensor of the library and on the device of x."""
    array = np.array(values)
    return torch.tensor(array) if isinstance(x, torch.Tensor) else Tensor.from_data(array, device=x.device)


def ints(x: Any, values: list[int]) -> Any:
    array = np.array(values)
    return torch.tensor(array) if isinstance(x, torch.Tensor) else IntTensor.from_data(array, device=x.device)


def stable(x: Any, **keywords: Any) -> Any:
    return x.sort(stable=True, **keywords)


FLOATS: dict[str, F] = {
    **{f"norm for p = {p}": lambda x, p=p: x.norm(p) for p in ("fro", 2, 1, 3, 1.5, 0, INF, -INF, -1)},
    **{f"norm for p = {p} along a dim": lambda x, p=p: x.norm(p, dim=0, keepdim=True) for p in (2, 1, 3, 0.5, -INF)},
    **{
        f"{name}, {how}": lambda x, name=name, how=how: getattr(x, name)(0.3, dim=0, keepdim=True, interpolation=how)
        for name in ("quantile", "nanquantile")
        for how in ("linear", "lower", "higher", "nearest", "midpoint")
    },
    "quantile of all": lambda x: x.quantile(0.7),
    "quantile of all, keepdim": lambda x: x.quantile(0.7, keepdim=True),
    "quantiles": lambda x: x.quantile(made(x, [0.0, 0.45, 1.0]), dim=-1),
    "quantiles, keepdim": lambda x: x.nanquantile(made(x, [0.1, 0.45]), keepdim=True),
    "nansum": lambda x: x.nansum(dim=0, keepdim=True) + x.nansum(),
    "nanmean": lambda x: x.nanmean(dim=0, keepdim=True) + x.nanmean(),
    "logcumsumexp": lambda x: x.logcumsumexp(dim=-1),
    "dist": lambda x: x.dist(x.flip(dims=(0,)) * 2 + 1 if x.ndim else x + 1, 3),
    "cov": lambda x: x.cov(),
    "cov of a population": lambda x: x.cov(correction=0),
    "corrcoef": lambda x: x.corrcoef(),
    "histc between bounds": lambda x: x.histc(bins=3, min=-1, max=1),
    "var_mean": lambda x: of(x, "var_mean")(x, dim=0),
    "std_mean": lambda x: of(x, "std_mean")(x, dim=-1, correction=0, keepdim=True),
    "trapezoid": lambda x: of(x, "trapezoid")(x),
    "trapezoid by dx": lambda x: of(x, "trapezoid")(x, dx=0.5, dim=0),
    "trapezoid by x": lambda x: of(x, "trapezoid")(x, x.cumsum(0), dim=0),
    "trapezoid by a vector": lambda x: of(x, "trapezoid")(x, x.reshape(-1)[: x.shape[-1]].cumsum(0)),
    "cumulative_trapezoid": lambda x: of(x, "cumulative_trapezoid")(x, x.cumsum(-1)),
}
NUMBERS: dict[str, F] = {
    "topk": lambda x: x.topk(1).values,
    "topk of the smallest": lambda x: x.topk(2, 0, False).values,
    "kthvalue": lambda x: x.kthvalue(2).values,
    "kthvalue along a dim": lambda x: x.kthvalue(1, dim=0, keepdim=True).values,
    "median": lambda x: x.median(dim=-1).values,
    "nanmedian": lambda x: x.nanmedian(dim=0, keepdim=True).values,
    "mode": lambda x: x.mode(dim=-1),
    "mode, keepdim": lambda x: x.mode(0, True),
    "cumprod": lambda x: x.cumprod(dim=0),
    "cumprod in a dtype": lambda x: x.cumprod(-1, dtype=x.dtype),
    "cummax": lambda x: x.cummax(dim=-1),
    "cummin": lambda x: x.cummin(0),
    "aminmax": lambda x: x.aminmax(),
    "aminmax along a dim": lambda x: x.aminmax(dim=-1, keepdim=True),
    "searchsorted": lambda x: of(x, "searchsorted")(sequence(x), x),
    "searchsorted, right": lambda x: of(x, "searchsorted")(sequence(x), x, right=True, out_int32=True),
    "searchsorted of a number": lambda x: of(x, "searchsorted")(sequence(x), 1, side="right"),
    "searchsorted by a sorter": lambda x: of(x, "searchsorted")(sequence(x).flip(dims=(0,)), x, sorter=turned(x)),
    "searchsorted in rows": lambda x: of(x, "searchsorted")(stable(x, dim=-1)[0], x),
    "bucketize": lambda x: of(x, "bucketize")(x, sequence(x)),
    "bucketize, right": lambda x: of(x, "bucketize")(x, sequence(x), right=True),
}
INTS: dict[str, F] = {
    "nansum": lambda x: x.nansum(dim=0, keepdim=True) + x.nansum(),
    "cov": lambda x: (x.cov() * 1024).round(),  # in float32, whose last bits depend on the order of sums
    "corrcoef": lambda x: (x.corrcoef() * 1024).round(),
    "trapezoid": lambda x: of(x, "trapezoid")(x),
    "trapezoid by x": lambda x: of(x, "trapezoid")(x, x.cumsum(0), dim=0),
    "cumulative_trapezoid": lambda x: of(x, "cumulative_trapezoid")(x, dim=0),
}
BOOLS = {name: NUMBERS[name] for name in NUMBERS if name.startswith(("mode", "cummax", "cummin", "aminmax"))}
VALUES: dict[str, F] = {
    "sort": lambda x: stable(x, dim=-1),
    "sort, descending": lambda x: stable(x, dim=0, descending=True),
    "argsort": lambda x: x.argsort(dim=-1, descending=True, stable=True),
    "msort": lambda x: x.msort(),
    "unique": lambda x: x.unique(),
    "unique with counts": lambda x: x.unique(return_inverse=True, return_counts=True),
    "unique rows": lambda x: x.unique(dim=0, return_inverse=True, return_counts=True),
    "unique columns": lambda x: x.unique(dim=1, return_counts=True),
    "count_nonzero": lambda x: x.count_nonzero(),
    "count_nonzero along a dim": lambda x: x.count_nonzero(dim=0),
    "diff": lambda x: x.diff(),
    "diff twice": lambda x: x.diff(n=2, dim=0),
    "diff too often": lambda x: x.diff(n=9),
    "diff of nothing with more": lambda x: x.diff(n=0, prepend=x, append=x),
    "diff with more": lambda x: x.diff(prepend=x, append=x),
}
ALSO_OF_NONE = ("unique columns", "unique rows", "quantile", "nanquantile")
"""What PyTorch refuses of tensors without elements, and is an empty result here."""
NOT_OF_NAN = ("mode", "searchsorted in rows", "unique rows", "unique columns")
"""What depends on the order of comparisons in PyTorch where there are NaNs."""
NOT_DIFFERENTIATED = ("unique", "count_nonzero", "histc", "searchsorted", "bucketize", "argsort", "norm for p = 0")
FIRST_OF_TIES = ("topk", "kthvalue", "median", "nanmedian", "quantile", "nanquantile")
"""Of equal elements PyTorch chooses any, so that gradients may go to others."""


def sequence(x: Any) -> Any:
    values = [-1.0, 0.0, 1.0, 1.0, 2.0]
    whole = x.dtype in (np.dtype("int64"), torch.int64)
    return ints(x, [-1, 0, 1, 1, 2]) if whole else made(x, values)


def turned(x: Any) -> Any:
    return ints(x, [4, 3, 2, 1, 0])


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def compare(name: str, which: str, f: F) -> None:
    array = INPUTS[which]
    if which == "NaN" and name.startswith(NOT_OF_NAN):
        return
    theirs: Any = torch.tensor(array)
    kinds: dict[str, Any] = {"f": Tensor, "i": IntTensor, "b": BoolTensor}
    kind = kinds[array.dtype.kind]
    ours = kind[Twice].from_data(array)
    if kind is Tensor:
        ours, theirs = ours.require_grad(), theirs.requires_grad_()
    try:
        outs_ = listed(f(theirs))
    except (RuntimeError, IndexError):
        if not (name.startswith(ALSO_OF_NONE) and 0 in array.shape):
            with pytest.raises((BurnpyError, IndexError)):
                f(ours)
        return
    outs = listed(f(ours))
    for k, (out, out_) in enumerate(zip(outs, outs_, strict=True)):
        assert_close(out, out_, f"result {k} of {name}")
    ambiguous = which in ("ties", "NaN") and name.split()[0].rstrip(",") in FIRST_OF_TIES
    if (
        not any(out.requires_grad for out in outs_)
        or name.startswith(NOT_DIFFERENTIATED)
        or ambiguous
        or which == "NaN"
    ):
        return
    total: Any = sum((out * out).sum() for out in outs if isinstance(out, Tensor))
    total_: Any = sum((out * out).sum() for out in outs_ if out.requires_grad)
    (first_,) = torch.autograd.grad(total_, theirs, create_graph=True)
    first = total.backward()[ours]
    assert_close(first, first_, f"the gradient of {name}")
    if first_.requires_grad and "ties" not in which and which != "0-d":
        (second_,) = torch.autograd.grad((first_ * first_).sum(), theirs, allow_unused=True, materialize_grads=True)
        second = (first * first).sum().backward()
        zeros = ours.inner().inner().zeros_like()
        assert_close(second.get(ours.inner(), zeros), second_, f"the second derivative of {name}")


@pytest.mark.parametrize("which", [name for name, array in INPUTS.items() if array.dtype.kind == "f"])
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, which: str) -> None:
    compare(name, which, FLOATS[name])


@pytest.mark.parametrize("which", [name for name, array in INPUTS.items() if array.dtype.kind == "i"])
@pytest.mark.parametrize("name", INTS)
def test_ints(name: str, which: str) -> None:
    compare(name, which, INTS[name])


@pytest.mark.parametrize("which", [name for name, array in INPUTS.items() if array.dtype.kind == "b"])
@pytest.mark.parametrize("name", BOOLS)
def test_bools(name: str, which: str) -> None:
    compare(name, which, BOOLS[name])


@pytest.mark.parametrize("which", [name for name, array in INPUTS.items() if array.dtype.kind != "b"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str, which: str) -> None:
    compare(name, which, NUMBERS[name])


@pytest.mark.parametrize("which", INPUTS)
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, which: str) -> None:
    compare(name, which, VALUES[name])


@pytest.mark.parametrize("counts", [{}, {"minlength": 9}])
def test_bincount(counts: dict[str, int]) -> None:
    for values in ([0, 3, 3, 1], [], [5]):
        x, x_ = IntTensor[Train].from_data(np.array(values, np.int64)), torch.tensor(values, dtype=torch.int64)
        assert_close(x.bincount(**counts), x_.bincount(**counts))
        if not values:  # PyTorch's are ints here
            continue
        weights = np.arange(len(values)) / 2
        found = x.bincount(Tensor[Train].from_data(weights, dtype="float64"), **counts)
        assert_close(found, x_.bincount(torch.tensor(weights), **counts))
        for kind, dtype in ((IntTensor, "int32"), (IntTensor, "int64"), (BoolTensor, "bool")):
            array = np.arange(3, 3 + len(values)).astype(dtype)
            found = x.bincount(kind[Train].from_data(array), **counts)
            assert type(found) is Tensor
            assert_close(found, x_.bincount(torch.tensor(array), **counts))


def test_weighted_covariance() -> None:
    x, x_ = Tensor[Train].from_data(X).require_grad(), torch.tensor(X, requires_grad=True)
    frequencies, importances = [1, 2, 0, 3, 1], [0.5, 1.0, 2.0, 0.25, 1.5]
    for names in (("fweights",), ("aweights",), ("fweights", "aweights")):
        for correction in (0, 1):
            given: dict[str, Any] = {"correction": correction}
            given_ = dict(given)
            for values, options in ((x, given), (x_, given_)):
                options |= {"fweights": ints(values, frequencies)} if "fweights" in names else {}
                options |= {"aweights": made(values, importances)} if "aweights" in names else {}
            out, out_ = x.cov(**given), x_.cov(**given_)
            assert_close(out, out_)
            (grad_,) = torch.autograd.grad(out_.square().sum(), x_)
            assert_close(out.square().sum().backward()[x], grad_)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_floats(dtype: str) -> None:
    x, x_ = Tensor[NumPy].from_data(X, dtype=dtype), torch.tensor(X).to(getattr(torch, dtype))
    functions: tuple[F, ...] = (
        lambda x: stable(x, dim=-1)[1],
        lambda x: x.topk(3).values,
        lambda x: x.cummax(0)[1],
        lambda x: x.median(1).values,
        lambda x: x.unique(return_counts=True)[1],
    )
    for f in functions:
        found, wanted = f(x), f(x_)
        found, wanted = (
            (found, wanted) if isinstance(found, IntTensor) else (found.to_dtype("float64"), wanted.double())
        )
        assert_close(found, wanted)
