"""Values and first gradients beside PyTorch's, of arrays sprinkled with NaN, ±inf, ±0, subnormals, the largest numbers.

Where burnpy differs, `DIFFERENT` says so; users read it in `burnpy/docs/gradients.md`. ``BURNPY_LONG_TESTS=N`` draws N
examples of each function.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.nn import functional

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # its own

F = torch.nn.functional
EXAMPLES = settings(max_examples=int(os.environ.get("BURNPY_LONG_TESTS", "10")))
INF, NAN = float("inf"), float("nan")
Array = Any


class Case(NamedTuple):
    """A function of burnpy and the same of PyTorch, of one array or of two."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arguments: int = 1
    extremes: bool = True  #: whether the values include the largest numbers, whose sums depend on the order
    digits: float = 1.0  #: by how much errors may be larger than those of one operation
    absolute: bool = False  #: whether they are relative to 1, not to the value


def method(name: str, *how: Any, arguments: int = 1, **kinds: Any) -> Case:
    """A method that both have."""
    call = lambda *xs: getattr(xs[0], name)(*xs[1:], *how)  # noqa: E731
    return Case(call, call, arguments, **kinds)


POINTWISE: dict[str, Case] = {
    **{n: method(n) for n in ("abs", "neg", "sign", "floor", "ceil", "round", "exp", "log", "log1p", "sqrt")},
    **{n: method(n) for n in ("rsqrt", "reciprocal", "square", "sin", "cos", "relu")},
    **{n: method(n, absolute=True) for n in ("expm1", "tanh", "erf", "sigmoid")},
    **{n: method(n, digits=16) for n in ("atan", "trunc", "frac", "log2", "log10", "exp2")},
    **{n: method(n, absolute=True, digits=16) for n in ("tan", "erfc", "asinh", "deg2rad", "nan_to_num")},
    **{n: method(n, digits=64, arguments=2) for n in ("fmax", "fmin", "logaddexp")},
    "silu": Case(lambda x: x.silu(), F.silu, absolute=True, digits=64),
    "gelu": Case(lambda x: x.gelu(), F.gelu, absolute=True, digits=64),
    "gelu tanh": Case(lambda x: x.gelu("tanh"), lambda x: F.gelu(x, approximate="tanh"), absolute=True, digits=64),
    "softplus": Case(lambda x: x.softplus(), lambda x: F.softplus(x, threshold=1e9), absolute=True),
    "clamp": method("clamp", -1.0, 1.0),
    "clamp below": Case(*(lambda x: x.clamp(min=-1.0),) * 2),
    "clamp above": Case(*(lambda x: x.clamp(max=1.0),) * 2),
    **{f"x ** {p}": method("pow", p, digits=16) for p in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5)},
    **{n: method(n, arguments=2) for n in ("add", "sub", "mul", "div", "maximum", "minimum", "remainder")},
    "x ** y": method("pow", arguments=2, digits=64),
    "where": Case(lambda x, y: x.where(x > 0.0, y), lambda x, y: x.where(x > 0.0, y), 2),
    "mse": Case(
        lambda x, y: burnpy.mse_loss(x, y, reduction="none"), lambda x, y: F.mse_loss(x, y, reduction="none"), 2
    ),
    **{
        f"bce {target}": Case(
            lambda x, t=target: burnpy.binary_cross_entropy_with_logits(x, x.detach().full_like(t), reduction="none"),
            lambda x, t=target: F.binary_cross_entropy_with_logits(x, torch.full_like(x, t), reduction="none"),
            digits=64,
            absolute=True,
        )
        for target in (0.0, 0.5, 1.0)
    },
}
ROWS: dict[str, Case] = {
    **{n: method(n, 1, extremes=False, digits=8) for n in ("sum", "mean", "var", "std", "cumsum")},
    **{n: method(n, 1) for n in ("amax", "amin")},
    **{n: Case(*(lambda x, n=n: getattr(x, n)(1).values,) * 2) for n in ("max", "min")},
    "max()": Case(lambda x: x[0].max(), lambda x: x[0].max()),
    "min()": Case(lambda x: x[0].min(), lambda x: x[0].min()),
    "prod": method("prod", 1, extremes=False, digits=8),
    **{n: method(n, 1, digits=8, absolute=True) for n in ("softmax", "log_softmax", "logsumexp")},
    "layer_norm": Case(
        lambda x: functional.layer_norm(x, 4), lambda x: F.layer_norm(x, (4,)), extremes=False, digits=1e3
    ),
    "cross_entropy": Case(
        lambda x: burnpy.cross_entropy(x, IntTensor.from_data([0, 3], device=x.device), reduction="none"),
        lambda x: F.cross_entropy(x, torch.tensor([0, 3]), reduction="none"),
        digits=8,
        absolute=True,
    ),
    "adaptive_avg_pool2d": Case(
        lambda x: functional.adaptive_avg_pool2d(x.reshape(1, 1, 2, 4), (2, 3)),
        lambda x: F.adaptive_avg_pool2d(x.reshape(1, 1, 2, 4), (2, 3)),
        extremes=False,
    ),
    "avg_pool2d": Case(
        lambda x: functional.avg_pool2d(x.reshape(1, 1, 2, 4), 2, stride=1),
        lambda x: F.avg_pool2d(x.reshape(1, 1, 2, 4), 2, stride=1),
        extremes=False,
    ),
    **{
        f"max_pool2d, padding {p}": Case(
            lambda x, p=p: functional.max_pool2d(x.reshape(1, 1, 2, 4), 2, stride=2, padding=p),
            lambda x, p=p: F.max_pool2d(x.reshape(1, 1, 2, 4), 2, stride=2, padding=p),
        )
        for p in (0, 1)
    },
    "attention": Case(
        lambda x: functional.scaled_dot_product_attention(x, x * 0.1, x),
        lambda x: (x @ x.mT * 0.05).softmax(-1) @ x,
        extremes=False, digits=64, absolute=True,
    ),
}  # fmt: skip


def _some(where: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Rows in which there is such an element."""
    return lambda x: np.broadcast_to(where(x).any(1, keepdims=True), x.shape)


class Difference(NamedTuple):
    """Where burnpy differs from PyTorch, and one array, or two, where it does."""

    why: str
    where: Callable[..., Array]  #: for each number of the value or gradient
    example: list[Any]
    everywhere: bool = True  #: False if PyTorch's result depends on the processor


def some(where: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The rows in which there is such an element."""
    return lambda x: np.broadcast_to(where(x).any(1, keepdims=True), x.shape)


PASSED_ON, ALONE = "the NaN is passed on", "to the NaN alone, not NaN for all"
ROW = [[NAN, 1.0, 2.0, NAN], [1.0, 2.0, 3.0, 4.0]]
DIFFERENT: dict[tuple[str, str], Difference] = {
    ("logaddexp", "gradient"): Difference(
        "a half for each of two equal infinities", lambda x, y: np.isinf(x) & (x == y), [[INF], [INF]]
    ),
    ("abs", "gradient"): Difference(PASSED_ON, np.isnan, [[NAN]]),
    ("sign", "value"): Difference(PASSED_ON, np.isnan, [[NAN]]),
    **{
        (name, "gradient"): Difference("the limit where PyTorch overflows", lambda x: np.abs(x) > 1e12, [[INF, -INF]])
        for name in ("gelu", "gelu tanh")
    },
    ("gelu", "value"): Difference("does not overflow", lambda x: x > 1e38, [np.full(9, INF, np.float32)], False),
    ("remainder", "value"): Difference(
        "exact, also of large quotients", lambda x, y: np.abs(x / y) > 1e3, [np.ones(9), np.full(9, 5e-324)]
    ),
    **{
        (f"bce {t}", "value"): Difference("the limit where PyTorch has NaN", np.isinf, [[INF, -INF]])
        for t in (0.0, 0.5, 1.0)
    },
    ("amax", "gradient"): Difference(ALONE, some(np.isnan), [ROW]),
    ("amin", "gradient"): Difference(ALONE, some(np.isnan), [ROW]),
    ("prod", "gradient"): Difference(
        "exactly the product of the others",
        some(lambda x: ~np.isfinite(x) | (np.abs(x) < 1e-30)),
        [[[NAN, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]]],
    ),
    ("logsumexp", "gradient"): Difference(
        "0 of a row all -inf; weights of large numbers sum to 1",
        some(lambda x: (x == -INF) | (np.abs(x) > 1e6)),
        [[[-INF] * 4] * 2],
    ),
    ("cross_entropy", "value"): Difference("the limit", lambda x: (x == INF).any(1), [[[0.0, INF, 1.0, 2.0]] * 2]),
    **{
        (f"max_pool2d, padding {p}", "gradient"): Difference(
            "to the first NaN of a window, not to the last", lambda x: np.isnan(x), [[[NAN] * 4] * 2]
        )
        for p in (0, 1)
    },
}


def special(dtype: Any, extremes: bool) -> st.SearchStrategy[float]:
    limits: Any = np.finfo(dtype)
    values = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 30.0, -30.0]
    if extremes:
        least, most, tiny = float(limits.smallest_subnormal), float(limits.max), float(limits.tiny)
        values += [least, -least, most, -most, tiny, -tiny]
    return st.one_of(st.sampled_from(values), st.floats(-3.0, 3.0, width=8 * limits.dtype.itemsize))


def drawn(data: st.DataObject, case: Case, shape: tuple[int, ...]) -> list[Array]:
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    elements = special(dtype, case.extremes)
    return [data.draw(hnp.arrays(dtype, shape, elements=elements)) for _ in range(case.arguments)]


def both(case: Case, arrays: list[Array]) -> tuple[list[Array], list[Array]]:
    """The value and the gradients of its sum, ours and theirs."""
    ours = [Tensor[Autodiff[NumPy]].from_data(a).require_grad() for a in arrays]
    out = case.ours(*ours)
    grads = out.sum().backward()
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out_ = case.theirs(*theirs)
    grads_ = torch.autograd.grad(out_.sum(), theirs, allow_unused=True)
    return (
        [
            out.to_numpy(),
            *(
                np.zeros_like(a) if (g := x.grad(grads)) is None else g.to_numpy()
                for x, a in zip(ours, arrays, strict=True)
            ),
        ],
        [
            out_.numpy(force=True),
            *(np.zeros_like(a) if g is None else g.numpy() for g, a in zip(grads_, arrays, strict=True)),
        ],
    )


def close(case: Case, a: Array, b: Array, scale: float = 0.0) -> Array:
    limit = 4 * case.digits * np.finfo(b.dtype).eps
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(b), 1.0 if case.absolute else scale)
        near = np.isfinite(b) & (np.abs(a - b) <= limit * size + 4 * np.finfo(b.dtype).smallest_subnormal)
        return (a == b) | (np.isnan(a) & np.isnan(b)) | near


def check(name: str, case: Case, arrays: list[Array], scale: float) -> None:
    """Each value and gradient is PyTorch's, but where `DIFFERENT` says otherwise."""
    found, wanted = both(case, arrays)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        what = "gradient" if k else "value"
        same = close(case, a, b, scale)
        if (name, what) in DIFFERENT:
            with np.errstate(all="ignore"):
                same |= DIFFERENT[name, what].where(*arrays)
        assert same.all(), f"the {what} of {name}\n of {arrays}\nis\n{a}\nPyTorch's\n{b}"


@pytest.mark.parametrize("name", POINTWISE)
@EXAMPLES
@given(st.data())
def test_functions_of_elements(name: str, data: st.DataObject) -> None:
    case = POINTWISE[name]
    check(name, case, drawn(data, case, (12,)), 0.0)


@pytest.mark.parametrize("name", ROWS)
@EXAMPLES
@given(st.data())
def test_functions_of_rows(name: str, data: st.DataObject) -> None:
    case = ROWS[name]
    check(name, case, drawn(data, case, (2, 4)), 3.0)


@pytest.mark.parametrize(("name", "what"), [key for key, difference in DIFFERENT.items() if difference.everywhere])
def test_the_differences_are_there(name: str, what: str) -> None:
    """None is listed that either side has done away with."""
    case = (POINTWISE | ROWS)[name]
    found, wanted = both(case, [np.array(x) for x in DIFFERENT[name, what].example])
    k = int(what == "gradient")
    assert not close(case, found[k], wanted[k]).all()
