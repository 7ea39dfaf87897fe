"""Reading with brackets, and picking by indices and masks, against NumPy; placement of dimensions as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import IndexRangeError, KindError
from tests.rows import every_row

Train = Autodiff[NumPy]
A = np.arange(60.0).reshape(3, 4, 5)
I = np.array([2, 0, -1])  # noqa: E741  # an index
MASK = A[..., 0] % 2 == 0
KEYS: list[Any] = [
    *(
        0,
        -1,
        np.int64(2),
        slice(1, 3),
        slice(None, None, -1),
        slice(-2, None),
        slice(5, 1),
        slice(None, -9),
        slice(9, 0, -2),
    ),
    *(
        (),
        ...,
        None,
        (..., 0),
        (0, ...),
        (None, 1, None),
        (slice(None), -2),
        (1, 2, 3),
        (0, slice(1, 2), slice(None, None, 2)),
    ),
    *(I, [2, 0, -1], [[0, 1], [2, 2]], [], (slice(None), I), (..., I), (I, 1), (I, slice(1, 3)), (I, None), (None, I)),
    *((I, I), (I, I, I), (I, slice(None), I), (slice(None), I, I), (I[:, None], I), (I[:1], I), (I, None, I)),
    *(MASK, MASK[:, 0], (slice(None), MASK[0]), (MASK, 0), (MASK, I[:1]), (slice(None), slice(None), A[0, 0] > 2)),
    *(
        [True, False, True],
        (0, [True, False, False, True]),
        A > 30,
        A < 0,
        True,
        False,
        (0, True),
        np.zeros((0,), np.int64),
    ),
    *(range(2), (slice(None), range(3, 0, -2)), (range(2), range(2)), (0, range(0))),
]


def plain(key: Any) -> Any:
    """A key as NumPy takes it: an empty range is of ints there only as an array."""
    if isinstance(key, tuple):
        return tuple(map(plain, key))
    return np.array(key, np.int64) if isinstance(key, range) else key


def ours(key: Any, backend: Any) -> Any:
    """A key with tensors in place of arrays."""
    if isinstance(key, tuple):
        return tuple(ours(item, backend) for item in key)
    if isinstance(key, np.ndarray):
        return (BoolTensor if key.dtype == bool else IntTensor).from_data(key, device=backend)
    return key


@every_row("key", KEYS, ids=range(len(KEYS)))
@every_row("as_tensors", [False, True])
def test_values_and_gradients(key: Any, as_tensors: bool) -> None:
    wanted = A[np.array(key, np.int64) if isinstance(key, list) and not key else plain(key)]
    x = Tensor[Train].from_data(A).require_grad()
    found = x[ours(key, Train) if as_tensors else key]
    assert found.shape == wanted.shape
    assert np.array_equal(found.to_numpy(), wanted)
    weights = np.random.default_rng(4).standard_normal(wanted.shape)
    gradient = np.zeros(A.size)
    np.add.at(gradient, wanted.astype(int).ravel(), weights.ravel())
    grads = (found * Tensor[Train].from_data(weights)).sum().backward()
    np.testing.assert_allclose(grads[x].to_numpy(), gradient.reshape(A.shape), 1e-12)


def test_every_kind_and_dtype_of_index() -> None:
    for cls, a in ((IntTensor, A.astype(np.int8)), (BoolTensor, A > 3)):
        maker: Any = cls
        x = maker[NumPy].from_data(a)
        assert type(x[0]) is cls
        assert np.array_equal(x[..., I].to_numpy(), a[..., I])
    x = Tensor[NumPy].from_data(A)
    for dtype in ("int8", "int32", "uint8", "uint64"):
        assert x[IntTensor[NumPy].from_data([1, 2], dtype=dtype)].shape == (2, 4, 5)
    assert x[IntTensor[NumPy].from_data(-1)].tolist() == A[-1].tolist()


def test_an_int_is_no_index_among_indices() -> None:
    x = Tensor[NumPy].from_data(A)  # NumPy would count the 0, and give (3, 4)
    assert x[0, :, [1, 2, 3]].shape == (4, 3)
    assert x[[0, 1], :, [1, 2]].shape == (2, 4)


def test_iteration_ends() -> None:
    assert [row.tolist() for row in Tensor[NumPy].from_data([[1.0], [2.0]])] == [[1.0], [2.0]]


def test_index_select_gather_and_take_along_dim() -> None:
    x = Tensor[NumPy].from_data(A)
    index = IntTensor[NumPy].from_data([1, 1, 0])
    for dim in (0, 1, -1):
        assert np.array_equal(x.index_select(dim, index).to_numpy(), A.take([1, 1, 0], dim))
    where = np.random.default_rng(5).integers(0, 3, (2, 4, 3))
    wanted = np.take_along_axis(A[:, :, :3], where, 0)
    assert np.array_equal(x.gather(0, IntTensor[NumPy].from_data(where)).to_numpy(), wanted)
    order = np.argsort(-A[:1], axis=1)
    found = x.take_along_dim(IntTensor[NumPy].from_data(order), 1)
    assert np.array_equal(found.to_numpy(), np.take_along_axis(A, order, 1))
    negative = IntTensor[NumPy].from_data(order - A.shape[1])
    assert np.array_equal(x.take_along_dim(negative, 1).to_numpy(), found.to_numpy())
    assert x.take_along_dim(IntTensor[NumPy].from_data([-1, -A.size])).tolist() == [A.flat[-1], A.flat[0]]
    for outside in (-A.shape[1] - 1, A.shape[1]):
        with pytest.raises(IndexRangeError, match=rf"take_along_dim\(\) got index {outside} along dim 1"):
            x.take_along_dim(IntTensor[NumPy].full((1, 1, 1), outside), 1)


def test_scatter() -> None:
    x = Tensor[Train].zeros((3, 2)).require_grad()
    index = IntTensor[Train].from_data([[0, 1], [0, 2]])
    src = Tensor[Train].from_data([[1.0, 2.0], [3.0, 4.0]]).require_grad()
    assert x.scatter(0, index, src).tolist() == [[3.0, 0.0], [0.0, 2.0], [0.0, 4.0]]
    assert x.scatter(0, index, 7.0).tolist() == [[7.0, 0.0], [0.0, 7.0], [0.0, 7.0]]
    assert x.scatter_add(0, index, src).tolist() == [[4.0, 0.0], [0.0, 2.0], [0.0, 4.0]]
    assert x.scatter_add(0, index[:1], src).tolist() == [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]
    grads = x.scatter(0, index, src).sum().backward()
    assert grads[src].tolist() == [[0.0, 1.0], [1.0, 1.0]]  # of the duplicate the last
    assert grads[x].tolist() == [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    assert x.scatter_add(0, index, src).sum().backward()[src].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_choosing() -> None:
    x = Tensor[NumPy].from_data([[1.0, -2.0], [-3.0, 4.0]])
    mask = x > 0
    assert burnpy.where(mask, x, 0.0).tolist() == x.where(mask, 0).tolist() == [[1.0, 0.0], [0.0, 4.0]]
    assert burnpy.where(mask, 9.0, x).tolist() == [[9.0, -2.0], [-3.0, 9.0]]
    assert burnpy.where(mask[0], x, x[:, :1]).tolist() == [[1.0, 1.0], [-3.0, -3.0]]
    assert x.masked_fill(mask, -1.0).tolist() == [[-1.0, -2.0], [-3.0, -1.0]]
    assert x.masked_fill(mask[0], x.sum()).tolist() == [[0.0, -2.0], [0.0, 4.0]]
    assert x.masked_select(mask).tolist() == [1.0, 4.0]
    assert x[0].masked_select(mask).tolist() == [1.0, -2.0]
    assert x.nonzero().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert mask.nonzero().tolist() == [[0, 0], [1, 1]]
    assert IntTensor[NumPy].from_data(3).nonzero().shape == (1, 0)
    i = IntTensor[NumPy].from_data([1, 0])
    assert burnpy.where(i > 0, i, 5).tolist() == [1, 5]
    assert burnpy.where(i > 0, i > 0, True).tolist() == [True, True]


def test_one_hot() -> None:
    i = IntTensor[NumPy].from_data([[0, 2], [1, 1]], dtype="uint8")
    assert i.one_hot().tolist() == np.eye(3, dtype=int)[i.to_numpy()].tolist()
    assert i.one_hot(5).shape == (2, 2, 5)
    assert IntTensor[NumPy].zeros((0,)).one_hot(2).shape == (0, 2)


def test_another_librarys_tensor_of_one_element_is_no_int_if_it_has_dims() -> None:
    class Theirs:
        def __init__(self, ndim: int) -> None:
            self.ndim = ndim

        def __index__(self) -> int:
            return 1

    x: Any = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    assert x[Theirs(0)].tolist() == [3.0, 4.0]
    for key in (Theirs(1), (0, Theirs(1)), Theirs(2)):
        with pytest.raises(KindError, match="an index is an int"):
            x[key]
        with pytest.raises(KindError, match="an index is an int"):
            x.at[key].set(0.0)
