"""Rearranging, joining, padding and placing elements, against NumPy; derivatives by differences; refusals."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.autodiff import Balanced
from burnpy.backend import Checked, NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, DimError, IndexRangeError, KindError, ShapeError
from burnpy.nn import functional
from burnpy.testing import gradcheck, gradgradcheck
from burnpy.testing.conformance import every_case
from tests.tensor.shape_programs import PROGRAMS, arrays
from tests.third_party.array_api_backend import ArrayApi

CLASSES: dict[str, Any] = {"float": Tensor, "int": IntTensor, "bool": BoolTensor}
FUNCTIONS = ["meshgrid", "cartesian_prod", "block_diag", "hstack", "vstack", "dstack"]
FUNCTIONS += ["atleast_1d", "atleast_2d", "atleast_3d"]


def library(device: Any) -> Any:
    """What programs use beside methods."""
    return SimpleNamespace(
        ints=lambda data: IntTensor.from_data(np.array(data, np.int64), device=device),
        bools=lambda data: BoolTensor.from_data(np.array(data), device=device),
        pad=functional.pad,
        **{name: getattr(burnpy, name) for name in FUNCTIONS},
    )


def parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


def test_values() -> None:
    with every_case() as case:
        for name, program in PROGRAMS.items():
            if program.numpy is None:
                continue
            with case(name):
                for kind in program.kinds:
                    given = arrays(program, kind)
                    found = parts(program.run(library(NumPy), *[CLASSES[kind][NumPy].from_data(a) for a in given]))
                    wanted = parts(program.numpy(*given))
                    assert [type(x) for x in found] == [CLASSES[kind]] * len(wanted)
                    for x, a in zip(found, wanted, strict=True):
                        assert (x.shape, x.dtype) == (a.shape, a.dtype)
                        assert np.array_equal(x.to_numpy(), a)


def check_derivatives(name: str) -> None:
    program = PROGRAMS[name]
    inputs = tuple(Tensor[NumPy].from_data(a) for a in arrays(program, "float"))

    def f(*xs: Any) -> Any:
        out = program.run(library(xs[0].device), *xs)
        return tuple(out) if isinstance(out, tuple) else out

    assert gradcheck(f, inputs)
    if not program.linear:
        assert gradgradcheck(f, inputs)
    twice = [Tensor[Autodiff[Autodiff[NumPy]]].from_data(a.to_numpy()).require_grad() for a in inputs]
    out = parts(f(*twice))
    total = sum((part.square() * 0.5).sum() for part in out)
    assert isinstance(total, Tensor)
    first = total.backward()
    again = [x.grad(first) for x in twice]
    sums = [g.sum() for g in again if g is not None and g.is_require_grad()]
    if sums and any(a.size for a in arrays(program, "float")):  # Σ second derivatives: every result is squared
        assert all(np.isfinite(s.item()) for s in sums)


@pytest.mark.slow
def test_derivatives() -> None:
    with every_case() as case:
        for name, program in PROGRAMS.items():
            if "float" in program.kinds:
                with case(name):
                    check_derivatives(name)


@pytest.mark.parametrize("device", [Checked[NumPy], Autodiff[Balanced[NumPy]], ArrayApi], ids=str)
def test_other_backends(device: Any) -> None:
    for name, program in PROGRAMS.items():
        given = arrays(program, program.kinds[0])
        cls = CLASSES[program.kinds[0]]
        found, wanted = (
            parts(program.run(library(place), *[cls.from_data(a, device=place) for a in given]))
            for place in (device, NumPy)
        )
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), 1e-12, err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits(dtype: str) -> None:
    index = IntTensor[NumPy].zeros((3000,))
    ones = Tensor[NumPy].ones((3000,), dtype=dtype)
    x = Tensor[NumPy].zeros((1,), dtype=dtype)
    for reduced in (
        x.index_reduce(0, index, ones, "mean", include_self=False),
        x.scatter_reduce(0, index, ones, "mean"),
    ):
        assert reduced.dtype == dtype
        assert reduced.item() == pytest.approx(1.0, abs=2**-8)


def test_writers_of_one_place() -> None:
    """The last has the gradient of a place that is overwritten, all of one that is added to or combined."""
    x = Tensor[Autodiff[NumPy]].zeros((3,)).require_grad()
    y = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0, 2.0]).require_grad()
    index = IntTensor[Autodiff[NumPy]].from_data([2, 0, 2])
    table = {
        "copy": (x.index_copy(0, index, y), [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]),
        "set": (x.at[index].set(y), [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]),
        "add": (x.index_add(0, index, y), [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        "ties": (x.index_reduce(0, index, y.clamp_min(2.0), "amax"), [0.0, 1.0, 0.0], [0.0, 1.0, 0.5]),
        "mean": (x.index_reduce(0, index, y, "mean", include_self=False), [0.0, 1.0, 0.0], [0.5, 1.0, 0.5]),
    }
    for name, (out, of_x, of_y) in table.items():
        grads = out.sum().backward()
        assert grads[x].tolist() == of_x, name
        assert grads[y].tolist() == of_y, name


def test_ints_and_nan() -> None:
    i = IntTensor[NumPy].from_data([100, 100], dtype="int8")
    index = IntTensor[NumPy].from_data([0, 0])
    assert i.index_reduce(0, index, i, "mean").tolist() == [100, 100]
    assert i.index_reduce(0, index, i.neg(), "amax", include_self=False).tolist() == [-100, 100]
    x = Tensor[NumPy].from_data([1.0, float("nan")])
    for reduce in ("amax", "amin", "prod", "mean"):
        reduced = x.index_reduce(0, index, x, reduce, include_self=False)
        assert reduced.isnan().tolist() == [True, True]
    assert i.argwhere().tolist() == [[0], [1]]
    assert x[0].argwhere().shape == (1, 0)


X, B = Tensor[NumPy].ones((2, 3)), BoolTensor[NumPy].ones((2, 3))
I = IntTensor[NumPy].from_data([0, 1])  # noqa: E741  # an index
REFUSED: dict[str, tuple[Callable[[], Any], type[BurnpyError], str]] = {
    "swapaxes": (lambda: X.swapaxes(0, 2), DimError, "dim 2"),
    "unflatten": (lambda: X.unflatten(1, (2, 2)), ShapeError, "unflatten"),
    "unflatten into nothing": (lambda: X.unflatten(1, ()), ShapeError, "no sizes"),
    "unflatten by two unknown": (lambda: X.unflatten(1, (-1, -1)), ShapeError, "one size may be -1"),
    "repeat": (lambda: X.repeat(2), ShapeError, "tile"),
    "repeat negative": (lambda: X.repeat(2, -1), ShapeError, "negative"),
    "repeat too often": (lambda: X.repeat(10**10, 10**10), ShapeError, "addressed"),
    "repeat_interleave": (lambda: X.repeat_interleave(-1), ArgumentError, "negative"),
    "repeat_interleave each": (lambda: X.repeat_interleave(I, dim=1), ShapeError, "3 slices"),
    "repeat_interleave size": (lambda: X.repeat_interleave(I, dim=0, output_size=2), ArgumentError, "output_size=2"),
    "repeat_interleave below 0": (lambda: X.repeat_interleave(-I, dim=0), ArgumentError, "negative"),
    "rot90": (lambda: X.rot90(1, (0,)), ArgumentError, "plane"),
    "narrow": (lambda: X.narrow(1, 1, 3), ShapeError, "there are 2"),
    "narrow from": (lambda: X.narrow(1, 4, 0), IndexRangeError, "index 4"),
    "select": (lambda: X.select(1, 3), IndexRangeError, "index 3"),
    "select 0-d": (lambda: X.sum().select(0, 0), DimError, "0 dimensions"),
    "tensor_split": (lambda: X.tensor_split(0), ArgumentError, "1 or more"),
    "unfold": (lambda: X.unfold(1, 4, 1), ShapeError, "size 4"),
    "unfold by 0": (lambda: X.unfold(1, 1, 0), ArgumentError, "step"),
    "diagonal": (lambda: X.diagonal(0, 1, -1), ArgumentError, "repeat a dimension"),
    "diag": (lambda: X[None].diag(), ShapeError, "diagonal"),
    "diag_embed": (lambda: X.sum().diag_embed(), ShapeError, "0-d"),
    "trace": (lambda: X[0].trace(), ShapeError, "matrix"),
    "trace of bools": (lambda: B.trace(), KindError, "BoolTensor"),
    "meshgrid": (lambda: burnpy.meshgrid(X), ShapeError, "vectors"),
    "meshgrid of nothing": (lambda: burnpy.meshgrid(), ArgumentError, "at least one"),
    "meshgrid indexing": (lambda: burnpy.meshgrid(X[0], indexing="yx"), ArgumentError, "'ij' or 'xy'"),  # type: ignore[call-overload]  # as above
    "cartesian_prod of kinds": (lambda: burnpy.cartesian_prod(X[0], I), KindError, "kinds"),  # type: ignore[call-overload]  # as above
    "block_diag": (lambda: burnpy.block_diag(X[None]), ShapeError, "two dimensions"),
    "hstack": (lambda: burnpy.hstack([X, X[:1]]), ShapeError, r"hstack\(\)"),
    "vstack of nothing": (lambda: burnpy.vstack([]), ArgumentError, "at least one"),
    "atleast_1d": (lambda: burnpy.atleast_1d(3.0), KindError, "atleast_1d"),  # type: ignore[call-overload]  # as above
    "pad": (lambda: functional.pad(X, (1,)), ArgumentError, "pairs"),
    "pad too many": (lambda: functional.pad(X, (1,) * 6), ShapeError, "3 pairs"),
    "pad cut": (lambda: functional.pad(X, (-2, -2)), ShapeError, "fewer"),
    "pad reflect": (lambda: functional.pad(X, (3, 0), "reflect"), ShapeError, "more than 3"),
    "pad circular": (lambda: functional.pad(X, (4, 0), "circular"), ShapeError, "4 or more"),
    "pad replicate": (lambda: functional.pad(X[:, :0], (1, 0), "replicate"), ShapeError, "one or more"),
    "pad mode": (lambda: functional.pad(X, (1, 0), "wrap"), ArgumentError, "'circular'"),  # type: ignore[arg-type]  # as above
    "pad value": (lambda: functional.pad(X, (1, 0), "reflect", 2.0), ArgumentError, "only 'constant'"),
    "pad kind": (lambda: functional.pad(I, (1, 0), value=0.5), KindError, "float 0.5"),
    "take": (lambda: X.take(IntTensor[NumPy].from_data([6])), IndexRangeError, "index 6"),
    "take kind": (lambda: X.take(X), KindError, "IntTensor"),  # type: ignore[arg-type]  # as above
    "index_add": (lambda: X.index_add(1, I, X), ShapeError, r"\(2, 2\)"),
    "index_add kind": (lambda: X.index_add(0, I, I), KindError, "IntTensor"),  # type: ignore[arg-type]  # as above
    "index_add a number": (lambda: X.index_add(0, I, 1.0), KindError, "as a tensor"),  # type: ignore[arg-type]  # as above
    "index_copy out of range": (lambda: X.index_copy(0, I + 1, X), IndexRangeError, "index 2"),
    "index_copy 2-d": (lambda: X.index_copy(0, I[None], X), ShapeError, "1-d"),
    "index_fill": (lambda: X.index_fill(0, I, X), ShapeError, "0-d"),
    "index_reduce": (lambda: X.index_reduce(0, I, X, "sum"), ArgumentError, "'prod'"),  # type: ignore[arg-type]  # as above
    "index_reduce of bools": (lambda: B.index_reduce(0, I, B, "amax"), KindError, "numbers"),
    "scatter_reduce": (lambda: X.scatter_reduce(0, I[None], X, "max"), ArgumentError, "'amax'"),  # type: ignore[arg-type]  # as above
    "scatter reduce": (lambda: X.scatter(0, I[None], X, reduce="sum"), ArgumentError, "'add'"),  # type: ignore[arg-type]  # as above
    "masked_scatter": (lambda: X.masked_scatter(B, X[0]), ShapeError, "3 values"),
    "masked_scatter shapes": (lambda: X.masked_scatter(B[:, :2], X), ShapeError, r"\(2, 2\)"),
}


def test_what_is_refused() -> None:
    with every_case() as case:
        for name in REFUSED:
            with case(name):
                call, error, said = REFUSED[name]
                with pytest.raises(error, match=said):
                    call()
