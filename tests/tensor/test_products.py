"""Products of vectors and matrices, and einsum, beside NumPy's: values, both derivatives, shapes, kinds, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import (
    Autodiff,
    BoolTensor,
    IntTensor,
    Tensor,
    chain_matmul,
    einsum,
    tensordot,
)
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError
from burnpy.tensor.einsum import contraction_path
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

rng = np.random.default_rng(5)

METHODS: dict[str, tuple[Any, list[tuple[tuple[int, ...], tuple[int, ...]]]]] = {
    "dot": (np.dot, [((3,), (3,)), ((0,), (0,))]),
    "mv": (np.dot, [((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,))]),
    "mm": (np.dot, [((2, 3), (3, 4)), ((2, 0), (0, 4))]),
    "bmm": (np.matmul, [((2, 2, 3), (2, 3, 1)), ((0, 2, 3), (0, 3, 1))]),
    "outer": (np.outer, [((2,), (3,)), ((0,), (3,)), ((2,), (0,))]),
    "kron": (
        np.kron,
        [
            ((2, 3), (3, 2)),
            ((2,), (2, 3)),
            ((2, 1, 2), (2, 2)),
            ((), (3,)),
            ((), ()),
            ((0, 2), (2, 2)),
            ((1,) * 31 + (2,), (3, 2) + (1,) * 30),
            ((0, 1), (1, 2)),
        ],
    ),
    "cross": (
        lambda x, y: np.cross(x, y, axis=-1),
        [((2, 3), (2, 3)), ((3,), (3,)), ((1, 3), (2, 3)), ((0, 3), (0, 3))],
    ),
}
EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,kj", [(2, 3), (4, 3)]),
    ("ii", [(3, 3)]),
    ("bii->bi", [(2, 3, 3)]),
    ("iij->ij", [(3, 3, 2)]),
    ("iji->j", [(2, 3, 2)]),
    ("iii->i", [(3, 3, 3)]),
    ("ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("i,j->ji", [(2,), (3,)]),
    ("i,i", [(3,), (3,)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
    ("...ij,...jk", [(5, 2, 3), (3, 4)]),
    ("...ij,...jk->...ik", [(5, 1, 2, 3), (6, 3, 4)]),
    ("i...->...", [(3, 2)]),
    ("...,...->...", [(2, 3), (3,)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("ij,jj->i", [(2, 3), (3, 3)]),
    ("ab,cd->ca", [(2, 3), (4, 2)]),
    ("abc,ac->b", [(2, 3, 4), (2, 4)]),
    ("ij, ij -> ij", [(2, 3), (2, 3)]),
    ("ij,j,j->i", [(2, 3), (3,), (3,)]),
    ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 2), (2, 5)]),
    ("i,j,k->kij", [(2,), (3,), (2,)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]),
    ("ba,bcd->acd", [(0, 3), (0, 2, 2)]),
    (",->", [(), ()]),
    ("i,->i", [(3,), ()]),
    ("", [()]),
]


def drawn(shapes: Any, dtype: str = "float64") -> list[Any]:
    arrays = [np.asarray(rng.normal(size=shape)) for shape in shapes]
    return [np.round(a * 5).astype(dtype) if dtype.startswith("int") else a.astype(dtype) for a in arrays]


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    reference, pairs = METHODS[name]
    how = {"dim": -1} if name == "cross" else {}
    for shapes in pairs:
        for dtype, cls in (("float64", Tensor), ("float32", Tensor), ("float16", Tensor), ("int64", IntTensor)):
            a, b = drawn(shapes, dtype)
            found = getattr(cls.from_data(a, device=NumPy), name)(cls.from_data(b, device=NumPy), **how)
            wanted = np.asarray(reference(a, b))
            assert (found.shape, found.dtype) == (wanted.shape, dtype), (shapes, dtype)
            digits = 1e-2 if dtype == "float16" else 1e-5
            np.testing.assert_allclose(found.to_numpy().astype(float), wanted.astype(float), digits, digits)
        xs = [Tensor[NumPy].from_data(a) for a in drawn(shapes)]
        for check in (gradcheck, gradgradcheck):
            check(lambda x, y: getattr(x, name)(y, **how), xs)


@every_row(("equation", "shapes"), EQUATIONS)
def test_einsum(equation: str, shapes: Any) -> None:
    kinds: tuple[tuple[str, Any], ...] = (("float64", Tensor), ("float16", Tensor), ("int64", IntTensor))
    for dtype, cls in kinds:
        arrays = drawn(shapes, dtype)
        found: Any = einsum(equation, *[cls.from_data(a, device=NumPy) for a in arrays])
        wanted = np.einsum(equation, *[a.astype(np.float64) for a in arrays])
        assert (found.shape, found.dtype) == (wanted.shape, dtype)
        digits = 2e-2 if dtype == "float16" else 1e-10
        np.testing.assert_allclose(found.to_numpy().astype(float), wanted, digits, digits)
    xs = [Tensor[NumPy].from_data(a) for a in drawn(shapes)]
    for check in (gradcheck, gradgradcheck):
        check(lambda *xs: einsum(equation, *xs), xs)


def test_sizes_of_1_broadcast_and_dtypes_promote() -> None:
    x, y = (Tensor[NumPy].from_data(a) for a in drawn([(2, 1), (4, 3)]))
    np.testing.assert_allclose(einsum("ij,kj->ik", x, y).to_numpy(), x.to_numpy() * y.to_numpy().sum(1))
    assert einsum("ij,kj->ik", x, y.to_dtype("float32")).dtype == "float64"
    members: Any = [x, y]
    assert einsum("ij,kj", members).shape == (2, 4)


def test_several_operands_are_multiplied_in_a_good_order() -> None:
    path = contraction_path("ij,jk,k->i", ((90, 80), (80, 70), (70,)))
    assert (path.steps[0].left, path.steps[0].right) == (1, 2), "the matrices were multiplied first"


@pytest.mark.parametrize("dims", [0, 1, ([1, 2], [1, 0]), ([-1], [0]), (2, 0)])
def test_tensordot(dims: Any) -> None:
    a, b = drawn([(2, 3, 4), (4, 3, 5)])
    x, y = Tensor[NumPy].from_data(a), Tensor[NumPy].from_data(b)
    np.testing.assert_allclose(tensordot(x, y, dims=dims).to_numpy(), np.tensordot(a, b, dims))
    gradcheck(lambda x, y: tensordot(x, y, dims=dims), (x, y))


def test_chain_matmul() -> None:
    arrays = drawn([(2, 30), (30, 4), (4, 50), (50, 1)])
    xs = [Tensor[Autodiff[NumPy]].from_data(a) for a in arrays]
    np.testing.assert_allclose(chain_matmul(*xs).to_numpy(), np.linalg.multi_dot(arrays))
    np.testing.assert_allclose(chain_matmul(xs[0]).to_numpy(), arrays[0])


def test_mistakes() -> None:
    x, v = Tensor[NumPy].ones((2, 3)), Tensor[NumPy].ones((3,))
    i: Any = IntTensor[NumPy].ones((3,))
    for call, error, said in (
        (lambda: einsum("ij,jk", x), ArgumentError, "names 2 operands, with 1"),
        (lambda: einsum("ij,jk->ik", x, x), ShapeError, r"shapes \(2, 3\), \(2, 3\); 'j' is 3 and 2"),
        (lambda: einsum("i", x), ShapeError, "names 1 dimensions"),
        (lambda: einsum("ii->i", x[:, :1]), ShapeError, r"shapes \(2, 1\); 'i' is 1 and 2"),
        (lambda: einsum("ij->ik", x), ArgumentError, "each letter of the result"),
        (lambda: einsum("i1", x), ArgumentError, "written as letters"),
        (lambda: einsum("i,i", v, i), KindError, "an equation|after the equation"),
        (lambda: einsum("i,i"), ArgumentError, "got no tensors"),
        (lambda: einsum("ij", BoolTensor[NumPy].ones((2, 3))), KindError, "BoolTensor"),  # type: ignore[call-overload]
        (lambda: x.dot(v), ShapeError, r"takes shapes \(n,\) and \(n,\)"),
        (lambda: x.mv(x), ShapeError, r"\(2, 3\) and \(2, 3\)"),
        (lambda: x.mm(x), ShapeError, r"takes shapes \(n, k\) and \(k, m\)"),
        (lambda: v.outer(x), ShapeError, "two vectors"),
        (lambda: v.dot(i), KindError, r"convert the IntTensor with \.float\(\)"),
        (lambda: x.kron(2.0), KindError, "takes another Tensor"),  # type: ignore[arg-type]
        (lambda: x.cross(x, dim=0), ShapeError, "size 3"),
        (lambda: x.cross(x, dim=5), DimError, "dim 5"),
        (lambda: tensordot(x, x, dims=1), ShapeError, "dim 1 of x and dim 0 of y"),
        (lambda: tensordot(x, x, dims=9), ArgumentError, "9 dims"),
        (lambda: chain_matmul(x, x), ShapeError, "do not multiply"),
        (lambda: chain_matmul(v, x), ShapeError, "takes matrices"),
    ):
        with pytest.raises(error, match=said):
            call()
