"""``x.at[key]``: what NumPy's assignments do, as new tensors, with gradients in both the tensor and the value."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, compiled, func
from burnpy.autodiff import Forward
from burnpy.backend import Backend, NumPy
from burnpy.tensor.tensor_base import new_tensor
from tests.rows import every_row

NAN = float("nan")
LONG = int(os.environ.get("BURNPY_LONG_TESTS", "0"))
Train = Autodiff[NumPy]
A = np.arange(1.0, 13.0).reshape(3, 4)
KEYS: list[Any] = [
    *(0, -1, slice(1, None), (), ..., (slice(None), 1), (1, 2), (None, 0), (slice(None, None, -2), slice(1, 3))),
    *(
        [0, 2],
        [1, 1, 0],
        (slice(None), [3, 0]),
        ([0, 0, 1], [1, 1, 3]),
        ([[0, 1], [1, 0]], slice(1, 3)),
        ([0, 1], None, [2, 2]),
    ),
    *(A > 6, A < 0, A[:, 0] > 1, True, False, ([], 0)),
]
COMBINE: dict[str, Callable[..., Any]] = {
    "set": lambda old, v: v,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def assigned(name: str, key: Any, values: np.ndarray[Any, Any], a: np.ndarray[Any, Any] = A) -> np.ndarray[Any, Any]:
    """One element after the other."""
    if isinstance(key, tuple):
        key = tuple(np.array(k, np.int64) if isinstance(k, list) and not k else k for k in key)
    places = np.arange(a.size).reshape(a.shape)[key]
    out = a.ravel().copy()
    for place, value in zip(places.ravel(), np.broadcast_to(values, places.shape).ravel(), strict=True):
        out[place] = COMBINE[name](out[place], value)
    return out.reshape(a.shape)


@every_row("name", COMBINE)
@every_row("key", KEYS, ids=range(len(KEYS)))
def test_values_and_gradients(key: Any, name: str) -> None:
    x = Tensor[Train].from_data(A).require_grad()
    values = np.random.default_rng(6).uniform(3.1, 8.9, x[key].shape)  # no ties with x
    v = Tensor[Train].from_data(values).require_grad()
    out = getattr(x.at[key], name)(v)
    np.testing.assert_allclose(out.to_numpy(), assigned(name, key, values), 1e-12)
    np.testing.assert_allclose(getattr(x.at[key], name)(2.5).to_numpy(), assigned(name, key, np.array(2.5)), 1e-12)
    assert x.tolist() == A.tolist()

    weights = np.random.default_rng(7).standard_normal(A.shape)
    grads = (out * Tensor[Train].from_data(weights)).sum().backward()
    for leaf, of in ((x, A), (v, values)):
        for at in np.ndindex(of.shape):
            moved, step = of.copy(), 1e-6
            moved[at] += step
            changed = assigned(name, key, values, moved) if leaf is x else assigned(name, key, moved)
            slope = (weights * (changed - out.to_numpy())).sum() / step
            assert (grads[leaf][at].item() if leaf in grads else 0.0) == pytest.approx(slope, abs=1e-5)


@every_row("name", COMBINE)
def test_one_value_for_a_mask(name: str) -> None:
    """It needs no indices, so that the mask may differ between the examples of vmap, or be of a compiled function."""
    x, v = Tensor[NumPy].from_data(A), Tensor[NumPy].from_data([9.0, 2.5, -1.0, 7.0])

    def update(x: Any, value: Any, mask: Any = None) -> Any:
        return getattr(x.at[x > 6 if mask is None else mask], name)(value)

    for value in (2.5, v[1]):
        wanted = assigned(name, A > 6, np.array(2.5))
        assert (
            update(x, value).tolist() == func.vmap(lambda row, v=value: update(row, v))(x).tolist() == wanted.tolist()
        )
        assert compiled(update)(x, value).tolist() == wanted.tolist()
    rows = BoolTensor[NumPy].from_data([True, False, True])
    assert update(x, v, rows).tolist() == assigned(name, A[:, 1] != 6, v.to_numpy()).tolist()
    assert update(x.to_dtype("float32"), v[0]).dtype == np.float32
    found = func.grad(lambda pair: (update(pair[0], pair[1]) * x).sum())((x, v[1]))
    some = A[A > 6]
    of_x, of_v = {"set": (0.0, some.sum()), "add": (some, some.sum()), "mul": (2.5 * some, some @ some)}.get(
        name, (0.0, some.sum()) if name == "min" else (some, 0.0)
    )
    expected = A.copy()
    expected[A > 6] = of_x
    assert found[0].tolist() == expected.tolist()
    assert found[1].item() == of_v
    infinite = func.grad(lambda x: getattr(x.at[x > 6], name)(np.inf)[0].sum())(x)
    assert infinite[0].tolist() == [1.0] * 4


def test_values_broadcast_and_are_cast() -> None:
    x = Tensor[NumPy].from_data(A, dtype="float32")
    column = Tensor[NumPy].from_data([[1.0], [2.0]], dtype="float64")
    assert x.at[1:, :2].set(column).tolist() == [[1, 2, 3, 4], [1, 1, 7, 8], [2, 2, 11, 12]]
    assert x.at[[1, 2]].add(column).dtype == np.float32
    assert x.at[0].set(column[0, 0]).tolist()[0] == [1.0] * 4


def test_ints_and_bools() -> None:
    i = IntTensor[NumPy].from_data([1, 2, 3])
    assert i.at[[0, 0]].add(5).tolist() == [11, 2, 3]
    assert i.at[i > 1].mul(10).tolist() == [1, 20, 30]
    b = BoolTensor[NumPy].from_data([False, False, True])
    assert b.at[:2].set(True).tolist() == [True, True, True]
    assert b.at[[2]].set(b[:1]).tolist() == [False, False, False]


def test_a_long_list_of_repetitions() -> None:
    index = np.random.default_rng(8).integers(0, 5, 300)
    values = np.random.default_rng(9).uniform(0.9, 1.1, 300)
    x = Tensor[NumPy].ones((5,), dtype="float64")
    v = Tensor[NumPy].from_data(values)
    for name in ("add", "mul", "max"):
        found = getattr(x.at[IntTensor[NumPy].from_data(index)], name)(v)
        np.testing.assert_allclose(found.to_numpy(), assigned(name, index, values, np.ones(5)), 1e-9)


def test_a_product_with_zero_keeps_the_gradients_of_the_others() -> None:
    x = Tensor[Train].from_data([2.0]).require_grad()
    v = Tensor[Train].from_data([0.0, 3.0]).require_grad()
    grads = x.at[[0, 0]].mul(v).sum().backward()
    assert grads[x].tolist() == [0.0]
    assert grads[v].tolist() == [6.0, 0.0]


@every_row("seed", range(max(LONG, 12)))
def test_random_repetitions(seed: int) -> None:
    """Values, and both gradients by differences, of small and large shapes, of the default and of NumPy's own."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
    dim, count = int(rng.integers(len(shape))), int(rng.choice([0, 1, 2, 7, 40]))
    index, name = rng.integers(0, shape[dim], count), ("mul", "min", "max")[seed % 3]
    a = rng.choice([-1.5, -1.0, 0.0, 1.0, 2.0], shape)
    key: Any = (slice(None),) * dim
    values = rng.choice([-1.5, -1.0, 0.0, 0.5, 1.0], (*shape[:dim], count, *shape[dim + 1 :]))
    x, v = (Tensor[Train].from_data(array).require_grad() for array in (a, values))
    out = getattr(x.at[(*key, IntTensor[Train].from_data(index))], name)(v)
    wanted = assigned(name, (*key, index), values, a)
    np.testing.assert_array_equal(out.to_numpy(), wanted)
    reduce = {"mul": "prod", "min": "amin", "max": "amax"}[name]
    plain = NumPy()
    np.testing.assert_array_equal(Backend.index_reduce(plain, a, dim, index, values, reduce), wanted)
    np.testing.assert_array_equal(Backend.index_order(plain, index, shape[dim]), np.argsort(index, kind="stable"))

    weights = rng.standard_normal(shape)
    grads = (out * Tensor[Train].from_data(weights)).sum().backward()
    if not count:
        assert grads[x].tolist() == weights.tolist()
        return
    places = np.arange(a.size).reshape(shape)[(*key, index)].ravel()
    flat, from_value, weight = a.ravel(), values.ravel(), weights.ravel()
    for at in range(a.size):
        members = np.concatenate([flat[at : at + 1], from_value[places == at]])
        wanted = weight[at] * _shares(members, name)
        found = np.concatenate([grads[x].to_numpy().ravel()[at : at + 1], grads[v].to_numpy().ravel()[places == at]])
        np.testing.assert_allclose(found, wanted, 1e-12, err_msg=f"{name} of {members}")


def _shares(members: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """The derivative of the reduction with respect to each member: the product of the others, or a share of ties."""
    if name == "mul":
        return np.array([np.delete(members, k).prod() for k in range(len(members))])
    extreme = members == (members.max() if name == "max" else members.min())
    return np.asarray(extreme / extreme.sum())


@pytest.mark.parametrize("device", [Train, lambda: Forward(NumPy())], ids=["reverse", "forward"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_a_nan_wins_and_takes_the_gradient(name: str, device: Any) -> None:
    a, values = [[1.0, NAN, 2.0, NAN], [NAN, 0.0, 2.0, NAN, 5.0, 5.0, 2.0, 2.0]]
    index = [0, 0, 1, 1, 2, 3, 2, 2]
    if device is Train:
        x, v = (Tensor[Train].from_data(array).require_grad() for array in (a, values))
        out = getattr(x.at[index], name)(v)
        grads = out.sum().backward()
        found = [*grads[x].tolist(), *grads[v].tolist()]
    else:
        found = []
        for k in range(12):
            unit = np.eye(12)[k]
            duals = [
                new_tensor(Tensor, device(), device().dual(np.array(array), unit[part]))
                for array, part in ((a, slice(4)), (values, slice(4, 12)))
            ]
            out = getattr(duals[0].at[index], name)(duals[1])
            found.append(float(out._primitive.tangent.sum()))
    third, half = 1 / 3, 1 / 2
    smaller = [0, half, third, 1, 1, 0, 0, half, 0, 0, third, third]
    larger = [0, half, 0, 1, 1, 0, 0, half, 1, 0, 0, 0]
    assert np.isnan(out.to_numpy()).tolist() == [True, True, False, True]
    np.testing.assert_allclose(found, smaller if name == "min" else larger, 1e-6)


def test_a_product_with_zeros_has_exact_second_derivatives() -> None:
    x = Tensor[Autodiff[Train]].from_data([2.0, 1.0]).require_grad()
    v = Tensor[Autodiff[Train]].from_data([0.0, 3.0, 5.0, 0.0]).require_grad()
    first = x.at[[0, 0, 1, 0]].mul(v)[0].backward()
    assert first[x].tolist() == [0.0, 0.0]
    assert first[v].tolist() == [0.0, 0.0, 0.0, 0.0]
    second = first[v][0].backward()  # by the other zero: what else is in the product
    assert second[v.inner()].tolist() == [0.0, 0.0, 0.0, 6.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_product_is_rounded_once(dtype: str) -> None:
    values = Tensor[NumPy].from_data([1.01] * 50, dtype=dtype)
    exact = float(values[0].float("float64").item()) ** 50
    out = Tensor[NumPy].ones((1,), dtype=dtype).at[[0] * 50].mul(values)
    assert out.dtype == dtype
    assert out.item() == pytest.approx(exact, rel={"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-18}[dtype])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_many_ties_of_16_bits_are_counted(dtype: str) -> None:
    x = Tensor[Train].from_data([0.0], dtype=dtype).require_grad()
    v = Tensor[Train].zeros((4095,), dtype=dtype).require_grad()
    grads = x.at[[0] * 4095].max(v).sum().backward()
    assert grads[x].item() == grads[v][7].item() == 2**-12


def test_an_infinity_does_not_reach_the_derivatives_of_other_elements() -> None:
    x = Tensor[Autodiff[Train]].from_data([1.0, 2.0], dtype="float64").require_grad()
    v = Tensor[Autodiff[Train]].from_data([float("inf"), 3.0, 5.0], dtype="float64").require_grad()
    first = x.at[[0, 1, 1]].mul(v)[1].backward()
    assert first[v].tolist() == [0.0, 10.0, 6.0]
    second = first[v][1:].sum().backward()
    assert second[v.inner()].tolist() == [0.0, 2.0, 2.0]
    assert second[x.inner()].tolist() == [0.0, 8.0]
