"""The forms in which PyTorch's methods are written: keywords, options, tensors as bounds, 0-d tensors with a dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import DTypeError
from tests.rows import every_row

Train = Autodiff[NumPy]
A = np.array([[1.5, -2.25, 3.0], [-4.75, 5.0, -6.5]])
KINDS: dict[Any, str] = {Tensor: "float64", IntTensor: "int64", BoolTensor: "bool"}


def of(kind: Any, array: np.ndarray[Any, Any] = A) -> Any:
    return kind[NumPy].from_data(array.astype(KINDS[kind]))


def values(x: Any) -> Any:
    return [values(part) for part in x] if isinstance(x, tuple) else x.tolist()


SAME: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    # of all three kinds: the form, and another with the same result
    ("flip", lambda x: x.flip(dims=(0, 1)), lambda x: x.flip(0, 1)),
    ("flip along one", lambda x: x.flip(dims=1), lambda x: x.flip(1)),
    ("permute", lambda x: x.permute(dims=(1, 0)), lambda x: x.permute(1, 0)),
    ("reshape", lambda x: x.reshape(shape=(3, -1)), lambda x: x.reshape(3, 2)),
    ("reshape to a vector", lambda x: x.reshape(shape=6), lambda x: x.flatten()),
    ("reshape to nothing", lambda x: x[0, 0].reshape(shape=()), lambda x: x[0, 0]),
    ("expand", lambda x: x[:1].expand(size=(2, -1)), lambda x: x[[0, 0]]),
    ("roll", lambda x: x.roll(4), lambda x: x.flatten().roll(4, 0).reshape(2, 3)),
    ("roll of no dims", lambda x: x[0, 0].roll(4), lambda x: x[0, 0]),
    ("a tuple as an index", lambda x: x[(1, 0, 1), 2], lambda x: x[[1, 0, 1], 2]),
    ("a tuple of bools", lambda x: x[:, (True, False, True)], lambda x: x[:, [0, 2]]),
    ("an empty tuple", lambda x: x[(), 1], lambda x: x[[], 1]),
    ("a tuple of one tuple", lambda x: x[((1, 1),)], lambda x: x[[1, 1]]),
    ("a tuple of tuples", lambda x: x[((0, 1), (1, 0)), 1], lambda x: x[[[0, 1], [1, 0]], 1]),
    ("x.at with a tuple", lambda x: x.at[(0, 1), 2].set(x[0, 0]), lambda x: x.at[:, 2].set(x[0, 0])),
    ("take_along_dim", lambda x: x.take_along_dim(ints([[5], [0]])), lambda x: x.flatten()[[5, 0]]),
    ("tensor_split", lambda x: x.tensor_split(ints([1, -1]), 1), lambda x: x.tensor_split((1, -1), 1)),
    ("tensor_split into parts", lambda x: x.tensor_split(ints(2), dim=1), lambda x: x.tensor_split(2, dim=1)),
    ("nonzero", lambda x: x.nonzero(as_tuple=True), lambda x: tuple(x.nonzero().unbind(1))),
    ("nonzero as an index", lambda x: x[x.nonzero(as_tuple=True)], lambda x: x.flatten()),
    ("nonzero of 0-d", lambda x: x[0, 0].nonzero(as_tuple=True), lambda x: (ints([0]),)),
]


def ints(data: Any) -> IntTensor[NumPy]:
    return IntTensor[NumPy].from_data(np.array(data, np.int64))


@every_row("kind", KINDS)
@every_row("name, form, other", SAME, ids=[row[0] for row in SAME])
def test_forms(name: str, form: Callable[[Any], Any], other: Callable[[Any], Any], kind: Any) -> None:
    x = of(kind)
    assert values(form(x)) == values(other(x))


def test_alpha() -> None:
    x, i = of(Tensor), of(IntTensor)
    assert x.add(x, alpha=0.5).tolist() == (A * 1.5).tolist()
    assert x.sub(2, alpha=3).tolist() == (A - 6).tolist()
    assert i.sub(i[0], alpha=-1).tolist() == (A.astype(int) + A.astype(int)[0]).tolist()
    wide = x.float("float32").add(Tensor[NumPy].from_data([0.1], dtype="float64"), alpha=3)
    assert wide.dtype == np.float64
    assert wide.tolist() == (A + 0.1 * 3).tolist()


def test_pow_names_its_exponent() -> None:
    assert of(Tensor).pow(exponent=2).tolist() == (A**2).tolist()
    assert of(IntTensor).pow(exponent=of(IntTensor).abs()).tolist() == (A.astype(int) ** abs(A.astype(int))).tolist()


def test_division_rounds() -> None:
    x, i = of(Tensor), of(IntTensor)
    for divisor in (0.4, -0.4, x.flip(0)):
        array = divisor if isinstance(divisor, float) else A[::-1]
        assert x.div(divisor, rounding_mode="floor").tolist() == (A // array).tolist()
        assert x.div(divisor, rounding_mode="trunc").tolist() == np.trunc(A / array).tolist()
    assert x.div(0.0, rounding_mode="trunc").isinf().all()
    ends = IntTensor[NumPy].from_data([-128, -127, 127, 7, -7, 6], dtype="int8")
    for by in (3, -3, 1, 127, -127):
        found = ends.div(by, rounding_mode="trunc")
        assert found.dtype == np.int8
        assert found.tolist() == [int(n / by) for n in ends.tolist()]
        assert ends.div(by, rounding_mode="floor").tolist() == [n // by for n in ends.tolist()]
    assert i.div(2, rounding_mode=None).dtype == np.float32
    assert IntTensor[NumPy].from_data([200, 7], dtype="uint8").div(9, rounding_mode="trunc").tolist() == [22, 0]


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_have_no_gradient(mode: Any) -> None:
    x = Tensor[Train].from_data(A).require_grad()
    grads = (x.div(0.3, rounding_mode=mode) + x.round(decimals=1) + x // 2.0).sum().backward()
    assert grads[x].tolist() == np.zeros_like(A).tolist()


def test_round_keeps_decimals() -> None:
    x = Tensor[NumPy].from_data([1234.5678, -0.125, 0.5, 1e300, float("inf")], dtype="float64")
    assert x.round(decimals=2).tolist() == [1234.57, -0.12, 0.5, 1e300, float("inf")]
    assert x.round(decimals=300).tolist() == x.tolist()
    assert x[:3].round(decimals=-3).tolist() == [1000.0, 0.0, 0.0]
    assert round(x[0], 1).item() == 1234.6
    assert round(x[0]).item() == 1235.0
    half = Tensor[NumPy].from_data([0.1234, 60000.0], dtype="float16").round(decimals=3)
    assert half.dtype == np.float16
    assert half.tolist() == np.array([0.123, 60000.0], np.float16).tolist()


def test_dtypes_to_add_up_in() -> None:
    x = Tensor[NumPy].from_data([1e8, 1.0, -1e8], dtype="float32")
    assert x.sum(dtype="float64").item() == 1.0
    assert x.cumsum(0, dtype="float64").tolist() == [1e8, 1e8 + 1, 1.0]
    assert x.mean(dim=0, dtype="float64").item() == pytest.approx(1 / 3, rel=1e-12)
    assert x.prod(dtype="float64").dtype == np.float64
    i = IntTensor[NumPy].from_data([100, 100])
    assert i.sum(dtype="int8").item() == -56
    assert i.prod(0, True, dtype="int32").dtype == np.int32
    assert i.cumsum(dim=0, dtype="int8").tolist() == [100, -56]
    assert (i > 0).sum(dtype="int8").dtype == np.int8
    with pytest.raises(DTypeError, match="float32"):
        i.cumsum(0, dtype="float32")


def test_clamp_of_ints_and_wider_bounds() -> None:
    i = IntTensor[NumPy].from_data([-5, 0, 5], dtype="int8")
    low = IntTensor[NumPy].from_data([[-1], [7]], dtype="int16")
    out = i.clamp(low, 6)
    assert out.dtype == np.int16
    assert out.tolist() == [[-1, 0, 5], [6, 6, 6]]
    assert i.clamp(max=low[0, 0]).tolist() == [-5, -1, -1]
    assert i.clamp(max=low[0, 0]).dtype == np.int8
    x = Tensor[NumPy].from_data([-5.0, 0.0], dtype="float32")
    assert x.clamp(Tensor[NumPy].from_data([-1.0], dtype="float64"), 2).dtype == np.float64
    assert x.clamp_min(-1).tolist() == [-1.0, 0.0]


OF_SCALARS: dict[str, Callable[[Any, int], Any]] = {
    name: (lambda x, dim, name=name: getattr(x, name)(dim))
    for name in (
        *("sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "cumsum", "logsumexp", "softmax", "log_softmax"),
        *("max", "min", "flip", "squeeze"),
    )
} | {
    "transpose": lambda x, dim: x.transpose(dim, 0),
    "movedim": lambda x, dim: x.movedim(dim, 0),
    "index_select": lambda x, dim: x.index_select(dim, ints(0)),
    "gather": lambda x, dim: x.gather(dim, ints(0)),
    "scatter": lambda x, dim: x.scatter(dim, ints(0), x),
    "scatter_add": lambda x, dim: x.scatter_add(dim, ints([0]), x) - x,
}
SPECIAL = {"argmax": 0, "argmin": 0, "softmax": 1.0, "log_softmax": 0.0, "max": [2.5, 0], "min": [2.5, 0]}


@every_row("name", OF_SCALARS)
def test_0d_tensors_take_the_dims_of_a_vector(name: str) -> None:
    x = Tensor[NumPy].from_data(2.5)
    for dim in (0, -1):
        found = OF_SCALARS[name](x, dim)
        assert values(found) == SPECIAL.get(name, 2.5)
        assert all(part.shape == () for part in (found if isinstance(found, tuple) else (found,)))


def test_ints_that_only_the_end_of_a_range_does_not_fit() -> None:
    assert IntTensor[NumPy].arange(128, dtype="int8")[-1].item() == 127
    assert IntTensor[NumPy].arange(250, 256, dtype="uint8").tolist() == list(range(250, 256))
    assert IntTensor[NumPy].arange(0, 100, 200, dtype="int8").tolist() == [0]
    assert IntTensor[NumPy].arange(300, 300, dtype="int8").tolist() == []
    assert IntTensor[NumPy].arange(0, 2**64, 2**62, dtype="uint64").tolist() == [0, 2**62, 2**63, 3 * 2**62]
    assert IntTensor[NumPy].arange(2**63 - 2, 2**63).tolist() == [2**63 - 2, 2**63 - 1]
    for arguments in ((129,), (-129, 0), (0, -130, -1), (0, 2**70, 2**69)):
        with pytest.raises(DTypeError, match=r"arange\(\) cannot go from .* in int8, which cannot hold"):
            IntTensor[NumPy].arange(*arguments, dtype="int8")
