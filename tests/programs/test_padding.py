"""The kernels of padding and of transposed copies copy what NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

pytest.importorskip("llvmlite")

from burnpy_numpy import shape as padding
from tests.programs.switched import without_kernels

D: Any = NumPy()
CASES: dict[str, tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = {
    "images": ((2, 3, 9, 33), ((0, 0), (0, 0), (1, 4), (2, 3))),
    "rows alone": ((2, 3, 9, 5), ((0, 0), (0, 0), (8, 0), (0, 0))),
    "columns alone": ((4, 40), ((0, 0), (0, 7))),
    "nothing": ((4, 17), ((0, 0), (0, 0))),
    "a vector": ((19,), ((18, 1),)),
    "all dimensions": ((3, 2, 4, 3), ((2, 1), (1, 1), (3, 2), (1, 2))),
    "one column": ((3, 5, 1), ((1, 2), (4, 3), (0, 0))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("case", CASES)
def test_elements_are_those_of_the_default(
    case: str, how: str, dtype: str, noted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(padding, "_FEW_PADDED", 1)
    shape, pairs = CASES[case]
    x = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(dtype)
    for view in (x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2]):
        noted.clear()
        found = D.pad_ends(view, pairs, how)
        assert [k.program.name for k in noted] == ["padded_rows"]
        with without_kernels():
            wanted = D.pad_ends(x, pairs, how)
        np.testing.assert_array_equal(found, wanted)


def test_other_dtypes_and_cut_ends_have_no_kernel(noted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "MANY", 1)
    x = np.arange(24).reshape(4, 6)
    np.testing.assert_array_equal(D.pad_ends(x, ((0, 0), (1, 0)), "reflect")[:, 0], x[:, 1])
    np.testing.assert_array_equal(D.pad_ends(x.astype("float32"), ((0, 0), (-1, 0)), "reflect"), x[:, 1:])
    assert not noted


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
@pytest.mark.parametrize(
    ("shape", "dims", "kernels"),
    [
        ((90, 101), (1, 0), ["transposed_copy"]),
        ((7, 33, 2, 20), (2, 0, 3, 1), ["transposed_copy"]),
        ((5, 17, 9, 11), (0, 2, 3, 1), ["transposed_copy"]),
        ((3000, 3), (1, 0), []),
        ((8, 16, 4, 20), (0, 2, 1, 3), []),
    ],
)
def test_transposed_copies_have_the_same_elements(
    shape: tuple[int, ...], dims: tuple[int, ...], kernels: list[str], dtype: str, noted: list[Any]
) -> None:
    x = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(dtype)
    for view in (x, x[::-1], np.broadcast_to(x, (2, *shape))):
        moved = view.transpose((*range(view.ndim - len(dims)), *(d + view.ndim - len(dims) for d in dims)))
        noted.clear()
        found = D.reshape(moved, (moved.size,))
        np.testing.assert_array_equal(found, moved.flatten())
        assert [k.program.name for k in noted] == kernels
        assert np.shares_memory(D.reshape(moved, (1, *moved.shape)), x)
        np.testing.assert_array_equal(D.add(moved, np.ones(moved.shape, dtype)), moved + np.ones(moved.shape, dtype))
