"""Python's protocols, NumPy's and DLPack: printing, operators beside NumPy's numbers, copies and pickles."""

from __future__ import annotations

import copy
import operator
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import (
    ArgumentError,
    CallError,
    DTypeError,
    ImmutableError,
    KindError,
    ScalarError,
    ShapeError,
)
from tests.rows import every_row

Train = Autodiff[NumPy]
Twice = Autodiff[Train]


@pytest.mark.parametrize("backend", [NumPy, Train])
def test_len_and_iteration(backend: Any) -> None:
    x = Tensor[backend].from_data([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    a, b = IntTensor[backend].arange(2)
    assert (a.item(), b.item()) == (0, 1)
    assert list(Tensor[backend].zeros((0, 2))) == []
    assert [r.shape for r in Tensor[backend].zeros((2, 0))] == [(0,), (0,)]
    scalar = Tensor[backend].zeros(())
    for function in (len, iter, list):
        with pytest.raises(ScalarError, match="0-d Tensor"):
            function(scalar)
    with pytest.raises(TypeError):
        len(scalar)


def test_rows_are_recorded() -> None:
    x = Tensor[Train].from_data([1.0, 2.0]).require_grad()
    a, b = x
    grads = (a * b).backward()
    assert grads[x].tolist() == [2.0, 1.0]


def test_numbers() -> None:
    assert float(Tensor[NumPy].full((1, 1), 1.5)) == 1.5
    assert int(Tensor[NumPy].full((), 1.5)) == 1
    assert float(IntTensor[NumPy].full((), 2)) == 2.0
    assert int(BoolTensor[NumPy].ones(())) == 1
    assert [10, 20, 30][IntTensor[NumPy].from_data(1)] == 20
    assert list(range(IntTensor[NumPy].from_data([3]))) == [0, 1, 2]
    assert float(Tensor[Train].full((), 0.5).require_grad()) == 0.5
    for wrong in (Tensor[NumPy].ones(()), BoolTensor[NumPy].ones(())):
        with pytest.raises(TypeError):
            operator.index(wrong)  # type: ignore[arg-type]  # what is tested
    for function in (float, int):
        with pytest.raises(ShapeError, match=r"shape \(2,\)"):
            function(Tensor[NumPy].zeros((2,)))
    with pytest.raises(ShapeError, match=r"shape \(2,\)"):
        operator.index(IntTensor[NumPy].zeros((2,)))


def test_truth() -> None:
    assert bool(Tensor[NumPy].full((1,), 2.0))
    assert not IntTensor[NumPy].zeros(())
    assert BoolTensor[NumPy].ones((1, 1))
    for shape in ((2,), (0,)):
        with pytest.raises(ShapeError, match=r"\.any\(\) or x\.bool\(\)\.all\(\)"):
            bool(Tensor[NumPy].zeros(shape))
    with pytest.raises(ValueError, match="truth"):
        assert Tensor[NumPy].zeros((2,)) == Tensor[NumPy].zeros((2,))


def test_hash_and_contains() -> None:
    x, y = Tensor[NumPy].ones((2,)), Tensor[NumPy].ones((2,))
    assert len({x: 1, y: 2}) == 2
    assert hash(x) == hash(x)
    assert 1 in x
    assert 2.0 not in x
    assert x in y
    with pytest.raises(ShapeError, match="broadcast"):
        assert Tensor[NumPy].ones((3,)) in x
    assert True in BoolTensor[NumPy].ones((2,))
    assert np.float32(1) in Tensor[Train].ones((2,)).require_grad()
    with pytest.raises(KindError):
        assert "a" in x
    with pytest.raises(KindError):
        assert 1.5 in IntTensor[NumPy].arange(3)


def test_immutable() -> None:
    x: Any = Tensor[NumPy].zeros((2,))
    with pytest.raises(ImmutableError, match=r"x\.at\[\.\.\.\]\.set\(v\)"):
        x[0] = 1.0
    with pytest.raises(ImmutableError):
        x[0] += 1.0
    with pytest.raises(AttributeError):
        x.name = "x"
    before = x
    x += 1.0
    assert before.tolist() == [0.0, 0.0]
    assert x.tolist() == [1.0, 1.0]


def test_next_to_numpy() -> None:
    x: Any = Tensor[NumPy].from_data([1.0, 2.0])  # to checkers these are errors
    for scalar in (np.float32(2), np.float64(2), np.int64(2)):
        for y in (scalar * x, x * scalar):
            assert isinstance(y, Tensor)
            assert y.tolist() == [2.0, 4.0]
            assert y.dtype == burnpy.float32
    assert (np.float64(1) - x).tolist() == [0.0, -1.0]
    for f in (operator.add, operator.mul, operator.lt, operator.eq):
        with pytest.raises((KindError, TypeError), match=r"from_data|unsupported operand"):
            f(x, np.ones(2))
        with pytest.raises((KindError, TypeError), match=r"from_data|unsupported operand"):
            f(np.ones(2), x)


ARRAYS: list[Any] = [
    Tensor[NumPy].from_data([[1.0, 2.0]]),
    Tensor[NumPy].from_data(1.0),
    Tensor[NumPy].from_data([1.0, 2.0]).sum(),
    Tensor[NumPy].zeros((0, 3)),
    Tensor[NumPy].ones((2, 1)).expand(2, 3),
    Tensor[NumPy].arange(6).reshape(2, 3).transpose(0, 1),
    Tensor[NumPy].arange(6)[::-2],
    Tensor[NumPy].ones((2,), dtype="float16"),
    Tensor[NumPy].ones((2, 1), dtype="bfloat16").expand(2, 3),
    Tensor[NumPy].ones((), dtype="bfloat16"),
    Tensor[NumPy].zeros((0,), dtype="bfloat16"),
    IntTensor[NumPy].arange(3, dtype="uint64"),
    BoolTensor[NumPy].ones((2,)),
    Tensor[Train].ones((2,)).require_grad(),
]


@every_row("x", ARRAYS, ids=lambda x: f"{x.dtype}{x.shape}")
def test_arrays_stay_read_only(x: Any) -> None:
    for array in (np.asarray(x), x.to_numpy()):
        assert array.dtype is np.asarray(array, x.dtype).dtype
        assert (array.dtype, array.shape) == (x.dtype, x.shape)
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
        with pytest.raises(ValueError, match=r"read-only|read only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array[...].view(array.dtype).setflags(write=True)
    mine = np.array(x)
    assert mine.flags.writeable
    assert not np.shares_memory(mine, x.to_numpy())
    assert np.array_equal(mine, x.to_numpy())


def test_asarray() -> None:
    x = Tensor[NumPy].from_data([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), np.asarray(x))
    assert np.shares_memory(np.asarray(x, copy=False), np.asarray(x))
    assert np.asarray(x, "float64").dtype == "float64"
    assert np.asarray(x, "float32").dtype == "float32"
    with pytest.raises(ArgumentError, match="takes a copy"):
        np.asarray(x, "float64", copy=False)
    assert np.array_equal(np.stack([x, x]), [[1, 2], [1, 2]])


def test_dlpack() -> None:
    x = Tensor[NumPy].from_data([[1.0, 2.0]])
    array = np.from_dlpack(x)
    assert array.tolist() == [[1.0, 2.0]]
    assert not np.shares_memory(array, x.to_numpy())
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # since then NumPy exports what is read-only, and takes copy=
        array[0, 0] = 5.0
        assert x.tolist() == [[1.0, 2.0]]
        array = np.from_dlpack(x, copy=False)
        assert np.shares_memory(array, x.to_numpy())
        assert not array.flags.writeable
        copied = np.from_dlpack(x, copy=True)
        assert not np.shares_memory(copied, x.to_numpy())
    for scalar in (Tensor[NumPy].ones(()), Tensor[NumPy].ones((2,)).sum(), BoolTensor[NumPy].ones((2,))):
        assert np.from_dlpack(scalar).tolist() == scalar.tolist()
    assert x.__dlpack__() is not None
    with pytest.raises(ArgumentError, match="max_version"):
        x.__dlpack__(copy=False)
    with pytest.raises(ArgumentError, match="to the CPU"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(DTypeError, match="bfloat16"):
        x.bfloat16().__dlpack__()
    source = np.ones(2, "float32")
    y = Tensor[Train].from_dlpack(source)
    source[:] = 5.0
    assert y.tolist() == [1.0, 1.0]
    assert IntTensor.from_dlpack(IntTensor[NumPy].arange(3), device=NumPy).tolist() == [0, 1, 2]
    with pytest.raises(DTypeError, match=r"IntTensor\.from_data"):
        Tensor[NumPy].from_dlpack(np.arange(3))
    with pytest.raises(ArgumentError, match="__dlpack__"):
        Tensor[NumPy].from_dlpack([1.0])


@pytest.mark.parity
def test_dlpack_with_torch() -> None:
    import torch

    x = Tensor[NumPy].from_data([[1.0, 2.0]])
    theirs = torch.from_dlpack(x)
    assert theirs.tolist() == [[1.0, 2.0]]
    theirs[0, 0] = 5.0
    assert x.tolist() == [[1.0, 2.0]]
    assert Tensor[NumPy].from_dlpack(torch.ones(2)).tolist() == [1.0, 1.0]
    assert Tensor[NumPy].from_data(torch.ones(2, dtype=torch.float64)).dtype == burnpy.float64


def copies(x: Any) -> list[Any]:
    return [
        copy.copy(x),
        copy.deepcopy(x),
        *(pickle.loads(pickle.dumps(x, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)),
    ]


@every_row("x", ARRAYS, ids=lambda x: f"{x.dtype}{x.shape}")
def test_copies(x: Any) -> None:
    for y in copies(x):
        assert type(y) is type(x)
        assert y.device is x.device
        assert y._backend is x._backend
        assert (y.dtype, y.shape, y.tolist()) == (x.dtype, x.shape, x.tolist())
        assert y.is_require_grad() == x.is_require_grad()


@pytest.mark.parametrize("backend", [Train, Twice])
def test_copies_are_new_leaves(backend: Any) -> None:
    x = Tensor[backend].from_data([1.0, 2.0]).require_grad()
    computed = x * 2
    for original in (x, computed):
        for y in copies(original):
            assert y.is_require_grad()
            grads = (y * y).sum().backward()
            assert grads[y].tolist() == (2 * y.inner()).tolist()
            assert x not in grads
    assert not any(y.is_require_grad() for y in copies(x.detach()))


def test_levels_keep_their_flags() -> None:
    v = Tensor[Train].from_data([1.0, 2.0]).require_grad()
    x = Tensor[Twice].from_inner(v)
    for y in copies(x):
        assert y._primitive.node is None
        assert y.inner().is_require_grad()
        assert y.inner()._primitive.node is not v._primitive.node


def test_deepcopy_shares_what_was_shared() -> None:
    x = Tensor[Train].ones((2,)).require_grad()
    a, b = copy.deepcopy([x, x])
    assert a is b
    a, b = pickle.loads(pickle.dumps([x, x]))
    assert a is b
    plain = Tensor[NumPy].ones((2,))
    assert copy.deepcopy(plain) is plain
    assert pickle.loads(pickle.dumps(Tensor[Train])) == Tensor[Train]


@pytest.mark.parity
def test_pytorch_writes_to_a_copy_of_its_own() -> None:
    """By DLPack, and not by the array, which PyTorch takes for writable: `Tensor.to_numpy` warns of it."""
    torch: Any = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    x = Tensor[NumPy].from_data([1.0, 2.0])
    torch.from_dlpack(x).fill_(9.0)
    assert x.tolist() == [1.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, at the first array of a process
        taken = torch.from_numpy(x.to_numpy())
    taken.fill_(9.0)
    assert x.tolist() == [9.0, 9.0], "PyTorch respects read-only arrays now: to_numpy() need not warn of it"
    assert "torch.from_numpy" in str(Tensor.to_numpy.__doc__)


@every_row(
    "x, shown",
    [
        (Tensor[NumPy].from_data([1.0, 2.5]), "Tensor([1. , 2.5], shape=(2,), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].from_data(1.5), "Tensor(1.5, shape=(), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].ones((2,)).sum(), "Tensor(2., shape=(), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].zeros((0, 3)), "Tensor([], shape=(0, 3), dtype=float32, device=NumPy)"),
        (Tensor[NumPy].ones((2,), dtype="bfloat16"), "Tensor([1., 1.], shape=(2,), dtype=bfloat16, device=NumPy)"),
        (Tensor[NumPy].ones((), dtype="bfloat16"), "Tensor(1., shape=(), dtype=bfloat16, device=NumPy)"),
        (IntTensor[Train].arange(2), "IntTensor([0, 1], shape=(2,), dtype=int64, device=Autodiff[NumPy])"),
        (BoolTensor[NumPy].ones((1,)), "BoolTensor([ True], shape=(1,), dtype=bool, device=NumPy)"),
        (Tensor[Train].ones((1,)), "Tensor([1.], shape=(1,), dtype=float32, device=Autodiff[NumPy])"),
        (
            Tensor[Train].ones((1,)).require_grad(),
            "Tensor([1.], shape=(1,), dtype=float32, device=Autodiff[NumPy], tracked)",
        ),
        (
            Tensor[NumPy].eye(2),
            "Tensor([[1., 0.],\n        [0., 1.]],\n       shape=(2, 2), dtype=float32, device=NumPy)",
        ),
    ],
)
def test_repr(x: Any, shown: str) -> None:
    assert repr(x) == str(x) == f"{x}" == shown


def test_large_tensors_are_summarised() -> None:
    shown = repr(Tensor[NumPy].zeros((1000, 1000)))
    assert "..." in shown
    assert len(shown) < 1000
    assert "..." in repr(Tensor[NumPy].ones((2000,), dtype="bfloat16"))


def test_format() -> None:
    assert f"{Tensor[Train].full((), 0.12345).require_grad():.3f}" == "0.123"
    assert f"{IntTensor[NumPy].from_data([7]):03d}" == "007"
    with pytest.raises(ShapeError, match=r"shape \(2,\)"):
        format(Tensor[NumPy].zeros((2,)), ".3f")


OPERATORS: list[Callable[[Any, Any], Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
]
INTS: Any = IntTensor[NumPy].ones((2,))
X: Any = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0, 4.0])


@every_row("f", OPERATORS, ids=lambda f: f.__name__)
def test_numbers_on_the_left(f: Callable[[Any, Any], Any]) -> None:
    i: Any = IntTensor[NumPy].from_data([1, 2, 4])
    for number in (np.float32(2.0), np.float64(2.0), np.int64(2)):
        found, wanted = f(number, X), f(number.item(), X)
        assert (type(found), found.dtype, found.tolist()) == (type(wanted), wanted.dtype, wanted.tolist())
    if f is not operator.truediv:
        assert f(np.int64(2), i).tolist() == f(2, i).tolist()


def test_truth_values_on_the_left() -> None:
    b: Any = BoolTensor[NumPy].from_data([True, False])
    found = [f(np.bool_(True), b).tolist() for f in (operator.and_, operator.or_, operator.xor)]
    assert found == [[True, False], [True, True], [False, True]]


@every_row(
    "call, words",
    [
        (
            lambda: np.exp(X),
            r"np\.exp\(\) got a Tensor of shape \(3,\), but computes with arrays; write x\.exp\(\)$",
        ),
        (lambda: np.mean(X), r"np\.mean\(\) got a tensor, but computes with arrays; write x\.mean\(\)$"),
        (lambda: np.absolute(X), r"np\.absolute\(\) .* write x\.abs\(\)$"),
        (lambda: np.maximum(X, 0.0), r"np\.maximum\(\) .* write x\.maximum\(y\)$"),
        (lambda: np.add(X, 1.0), r"np\.add\(\) .* write x\.add\(y\)$"),
        (lambda: np.add.reduce(X), r"np\.add\.reduce\(\) .* compute with tensors, or pass x\.to_numpy\(\)$"),
        (lambda: np.spacing(X), r"np\.spacing\(\) .* compute with tensors, or pass x\.to_numpy\(\)$"),
        (lambda: np.equal(X, X), r"np\.equal\(\) .* write x == y$"),
        (lambda: np.exp(X, out=np.ones(3)), r"np\.exp\(\) got a Tensor"),
        (lambda: np.ones(3) + X, r"add\(\) got a Tensor and an ndarray; make a tensor of it first"),
        (lambda: np.ones(3) @ X, r"matmul\(\) got a Tensor and an ndarray"),
        (lambda: np.float32(2.0) * INTS, r"mul\(\) got an IntTensor .* the float 2\.0"),
    ],
)
def test_functions_and_arrays_are_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises((KindError, CallError), match=words):
        call()
