"""Leaves and backward passes, of one level and of several."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.autodiff import backward, engine
from burnpy.backend import NumPy, errors, rules
from burnpy.nn.functional import embedding, linear
from burnpy.testing import gradgradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]
Twice = Autodiff[Train]
Thrice = Autodiff[Twice]


def leaf(data: Any, dtype: str = "float64") -> Tensor[Autodiff[NumPy]]:
    return Tensor[Train].from_data(data, dtype=dtype).require_grad()


def nested(data: Any, device: Any = Twice) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


def test_a_second_backward_is_an_error_and_consumes_nothing() -> None:
    x, y = leaf(2.0), leaf(5.0)
    shared = x * x
    own = y * y
    loss = shared * own
    shared.backward()
    with pytest.raises(errors.GraphError, match="retain_graph"):
        loss.backward()
    assert own.backward()[y].item() == 10.0, "the refused pass consumed nodes of its own"


def test_retain_graph() -> None:
    x = leaf(2.0)
    loss = x * x * x
    first = loss.backward(retain_graph=True)
    second = loss.backward(retain_graph=True)
    third = loss.backward()
    assert first[x].item() == second[x].item() == third[x].item() == 12.0
    with pytest.raises(errors.GraphError):
        loss.backward(retain_graph=True)


def test_the_root_may_be_a_leaf() -> None:
    x = leaf(2.0)
    assert x.backward()[x].item() == 1.0
    assert x.backward()[x].item() == 1.0


def test_roots_of_more_than_one_element_need_a_gradient() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(errors.ShapeError, match=r"\(2,\).*\.sum\(\).*gradient="):
        (x * x).backward()
    weights = Tensor[NumPy].from_data([10.0, 100.0], dtype="float64")
    assert (x * x).backward(weights)[x].tolist() == [20.0, 400.0]
    assert (x * x).backward(gradient=weights)[x].tolist() == [20.0, 400.0]
    assert weights.tolist() == [10.0, 100.0]
    assert leaf([[3.0]]).mul(2.0).backward() is not None, "one element needs no gradient"


def test_gradients_to_start_from_must_fit() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    with pytest.raises(errors.ShapeError, match=r"\(3,\).*\(2,\)"):
        y.backward(Tensor[NumPy].ones((3,), dtype="float64"))
    with pytest.raises(errors.ShapeError, match="float32"):
        y.backward(Tensor[NumPy].ones((2,)))
    with pytest.raises(errors.DeviceError, match=r"\.inner\(\)"):
        y.backward(leaf([1.0, 1.0]))  # type: ignore[arg-type]  # which is the point
    with pytest.raises(errors.KindError, match="Tensor"):
        y.backward(np.ones(2))  # type: ignore[arg-type]  # which is the point
    assert y.sum().backward()[x].tolist() == [2.0, 4.0], "a refused pass consumed the graph"


def test_backward_of_what_is_not_tracked() -> None:
    for x in (Tensor[Train].from_data(1.0), leaf(1.0).detach(), leaf(1.0).detach() * 2.0):
        with pytest.raises(errors.NotTrackedError, match="require_grad"):
            x.backward()


def test_backward_changes_no_tensor() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    before = [t.to_numpy().copy() for t in (x, y)]
    y.sum().backward()
    for tensor, old in zip((x, y), before, strict=True):
        assert np.array_equal(tensor.to_numpy(), old)
    assert not hasattr(x, "_grad")


def test_retain_grad() -> None:
    x = leaf([1.0, 2.0])
    plain = x * x
    kept = plain.retain_grad()
    grads = (kept * 3.0).sum().backward()
    assert grads[kept].tolist() == [3.0, 3.0]
    assert grads[x].tolist() == [6.0, 12.0]
    assert x.retain_grad().grad(grads) is not None, "a leaf keeps its gradient already"
    assert kept.retain_grad().grad(grads) is not None
    with pytest.raises(errors.NotTrackedError, match="retain_grad"):
        plain.grad(grads)
    with pytest.raises(errors.NotTrackedError, match="not tracked"):
        Tensor[Train].ones((2,)).retain_grad()


def test_require_grad_makes_leaves() -> None:
    plain = Tensor[Train].from_data([1.0, 2.0])
    x = plain.require_grad()
    assert (plain.is_require_grad(), x.is_require_grad()) == (False, True)
    grads = (x * x).sum().backward()
    assert x.require_grad().grad(grads) is not None, "require_grad of a leaf is that leaf"
    assert plain.require_grad() not in grads, "every call on an untracked tensor makes a leaf of its own"
    with pytest.raises(errors.NotTrackedError, match=r"computed by mul.*retain_grad\(\).*detach\(\)"):
        (x * x).require_grad()
    assert (x * x).detach().require_grad().is_require_grad()
    assert not x.set_require_grad(False).is_require_grad()
    assert plain.set_require_grad(True).is_require_grad()
    assert not Tensor[NumPy].ones((2,)).require_grad().is_require_grad(), "a plain backend records nothing"


def test_int_and_bool_tensors_have_no_gradient() -> None:
    for x in (IntTensor[Train].from_data([1]), BoolTensor[Train].from_data([True])):
        with pytest.raises(errors.KindError, match="float"):
            x.require_grad()
        assert not x.is_require_grad()


def test_detach_cuts() -> None:
    x = leaf(3.0)
    assert (x * (x * 2.0).detach()).backward()[x].item() == 6.0
    assert x.detach().to_numpy() == 3.0
    assert not nested(3.0).detach().is_require_grad()


def test_inner_and_from_inner() -> None:
    x = leaf([1.0, 2.0])
    v = x.inner()
    assert v.device is NumPy()
    assert np.shares_memory(v.to_numpy(), x.to_numpy())
    back = Tensor.from_inner(v)
    assert back.device is Autodiff(NumPy)
    assert not back.is_require_grad()
    assert np.shares_memory(back.to_numpy(), v.to_numpy())
    with pytest.raises(errors.NotTrackedError, match="Autodiff"):
        v.inner()  # type: ignore[misc]  # which is the point


@every_row(
    "name, f, derivatives",
    [
        ("x⁴", lambda x: x * x * x * x, lambda x: (4 * x**3, 12 * x**2, 24 * x)),
        ("exp 2x", lambda x: (x * 2.0).exp(), lambda x: (2 * np.exp(2 * x), 4 * np.exp(2 * x), 8 * np.exp(2 * x))),
        ("sin", lambda x: x.sin(), lambda x: (np.cos(x), -np.sin(x), -np.cos(x))),
        ("log", lambda x: x.log(), lambda x: (1 / x, -1 / x**2, 2 / x**3)),
        ("1 / x", lambda x: 1.0 / x, lambda x: (-1 / x**2, 2 / x**3, -6 / x**4)),
        ("√x", lambda x: x.sqrt(), lambda x: (0.5 * x**-0.5, -0.25 * x**-1.5, 0.375 * x**-2.5)),
        ("x^2.5", lambda x: x**2.5, lambda x: (2.5 * x**1.5, 3.75 * x**0.5, 1.875 * x**-0.5)),
        ("x^x", lambda x: x**x, None),
        ("tanh", lambda x: x.tanh(), None),
    ],
)  # fmt: skip
def test_third_derivatives(name: str, f: Any, derivatives: Any) -> None:
    at = 0.7
    x = nested(at, Thrice)
    once = f(x).backward()[x]
    twice = once.backward()[x.inner()]
    thrice = twice.backward()[x.inner().inner()]
    found = (once.item(), twice.item(), thrice.item())
    assert (once.device, twice.device, thrice.device) == (Autodiff(Train), Autodiff(NumPy), NumPy())
    if name == "tanh":
        t = np.tanh(at)
        want = (1 - t**2, -2 * t * (1 - t**2), (1 - t**2) * (6 * t**2 - 2))
    elif name == "x^x":
        p, q = at**at, np.log(at) + 1
        want = (p * q, p * (q * q + 1 / at), p * (q**3 + 3 * q / at - 1 / at**2))
    else:
        want = derivatives(at)
    assert found == pytest.approx(want, rel=1e-13), f"the derivatives of {name} are {want}, not {found}"


def test_levels_are_told_apart() -> None:
    x, y = nested(3.0), nested(2.0)
    outer = (x * x * y).backward()
    mixed = outer[x].backward()  # of 2xy
    assert (mixed[x.inner()].item(), mixed[y.inner()].item()) == (4.0, 6.0)


@every_row("dtype", ["float16", "float32", "float64", "bfloat16"])
@every_row("shape", [(), (2, 3), (0, 3)])
def test_a_gradient_has_its_leafs_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    x = Tensor[Train].ones(shape, dtype=dtype).require_grad()
    wide = Tensor[Train].ones((4, 2, 3) if shape != (0, 3) else (4, 1, 3), dtype="float64").require_grad()
    grads = ((x * wide).exp() + x).sum().backward()
    assert (grads[x].shape, grads[x].dtype) == (shape, x.dtype)
    assert (grads[wide].shape, grads[wide].dtype) == (wide.shape, wide.dtype)


@every_row(
    "x_dtype, x_shape, y_dtype, y_shape, dtype",
    [
        ("float32", (2,), "float64", (2,), "float64"),
        ("float32", (2,), "float64", (), "float32"),
        ("float64", (), "float32", (2,), "float32"),
        ("float64", (), "float32", (), "float64"),
        ("float16", (3, 1), "bfloat16", (1, 2), "float32"),
        ("float16", (2,), "float32", (3, 2), "float32"),
    ],
)
@every_row("operation", ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "remainder"])
def test_promotion_and_broadcasting_in_reverse(
    operation: str, x_dtype: str, x_shape: Any, y_dtype: str, y_shape: Any, dtype: str
) -> None:
    x = Tensor[Train].full(x_shape, 2.0, dtype=x_dtype).require_grad()
    y = Tensor[Train].full(y_shape, 3.0, dtype=y_dtype).require_grad()
    out = getattr(x, operation)(y)
    assert out.dtype.name == dtype
    grads = out.sum().backward()
    partial = {
        "add": (1, 1), "sub": (1, -1), "mul": (3, 2), "div": (1 / 3, -2 / 9), "pow": (12, 8 * np.log(2)),
        "maximum": (0, 1), "minimum": (1, 0), "remainder": (1, 0),
    }[operation]  # fmt: skip
    for leaf_, part in zip((x, y), partial, strict=True):
        repeats = np.prod(out.shape) / np.prod(leaf_.shape)
        assert (grads[leaf_].shape, grads[leaf_].dtype) == (leaf_.shape, leaf_.dtype)
        rel = 1e-2 if "16" in x_dtype + y_dtype else 1e-6
        assert grads[leaf_].to_numpy().astype(float) == pytest.approx(np.full(leaf_.shape, part * repeats), rel=rel)


def test_a_leaf_used_many_times() -> None:
    x = leaf([1.0, 2.0, 3.0])
    total = x * 0.0
    for k in range(21):
        total = total + x * float(k)
    assert total.sum().backward()[x].tolist() == [210.0] * 3


_ALL = slice(None)
_SLICED: list[tuple[str, list[Any], bool]] = [
    ("columns", [(_ALL, slice(0, 1)), (_ALL, slice(1, 3)), (_ALL, slice(3, 4))], True),
    ("out of order", [(slice(2, 3),), (slice(0, 2),)], True),
    ("rows", [(2,), (0,), (1,)], True),
    ("elements along the last dimension", [(_ALL, k) for k in range(4)], True),
    ("a row and the rest", [(-1,), (slice(0, -1),)], True),
    ("an empty one", [(slice(0, 0),), (slice(0, 3),)], True),
    ("a gap", [(slice(0, 1),), (slice(2, 3),)], False),
    ("overlapping", [(slice(0, 2),), (slice(1, 3),)], False),
    ("one twice", [(0,), (0,), (slice(1, 3),)], False),
    ("in steps", [(slice(0, 3, 2),), (slice(1, 3, 2),)], False),
    ("with a new dimension", [(None, slice(0, 1)), (slice(1, 3),)], False),
    ("along two dimensions", [(slice(0, 3), slice(0, 2)), (slice(0, 1), slice(2, 4))], False),
    ("the whole", [(_ALL,), (0,)], False),
]


@every_row("title, keys, joined", _SLICED)
def test_gradients_of_slices_side_by_side_are_joined(title: str, keys: list[Any], joined: bool) -> None:
    added = 0

    def counting(self: Any, total: Any, key: Any, grad: Any) -> Any:
        nonlocal added
        added += 1
        return accumulate_slice(self, total, key, grad)

    accumulate_slice = NumPy.accumulate_slice
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumPy, "accumulate_slice", counting)
        for beside in (False, True):
            rng = np.random.default_rng(0)
            value, other = rng.normal(size=(2, 3, 4))
            x, expected = leaf(value), other * beside
            y = x * 1.0  # whose slices are used, and perhaps all of it
            total = (y * leaf(other)).sum() * float(beside)
            for key in keys:
                weight = rng.normal(size=value[key].shape)
                expected[key] += weight
                total = total + (y[key] * leaf(weight)).sum()
            np.testing.assert_allclose(total.backward()[x].to_numpy(), expected, rtol=1e-12, atol=1e-15)
    assert joined is (added == 0)


def test_gradients_of_overlapping_slices_are_not_kept() -> None:
    x = leaf(np.ones(100_050))
    total = x[0] * 0.0
    for k in range(1, 50):
        total = total + (x[k : k + 100_000] * float(k)).sum()
    tracemalloc.start()
    try:
        grad = total.backward()[x]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert grad.sum().item() == 49 * 25 * 100_000
    assert peak < 5 * 8 * 100_000


_USED: list[tuple[str, Any, bool]] = [
    ("on the right", lambda w, b, x: x @ w, True),
    ("on the left", lambda w, b, x: (w @ x.T).T, True),
    ("on both sides", lambda w, b, x: x @ w + (w @ x.T).T, True),
    ("with a bias", lambda w, b, x: linear(x, w, b), True),
    ("of three dimensions, with a bias", lambda w, b, x: linear(x.unsqueeze(1), w, b).squeeze(1), True),
    ("transposed", lambda w, b, x: x @ w.T, False),
    ("of many rows", lambda w, b, x: x.repeat(20, 1)[:60] @ w, False),
    ("beside a slice and a sum", lambda w, b, x: x @ w + w[:3] + (w * 0.1).sum(0), True),
    ("of a recurrent cell", lambda w, b, x: _cell(x, x, w), True),
    ("of a recurrent cell that alone has a gradient", lambda w, b, x: _cell(x.detach(), x.detach(), w) + x, False),
]


def _cell(x: Any, hidden: Any, weight: Any) -> Any:
    """Return the state of a recurrent cell, whose gradients one joint vjp computes."""
    given = [a._primitive for a in (x.unsqueeze(1), hidden, weight)]
    return x._like(x.device.rnn(*given, None, False, False)).squeeze(1)


@every_row("title, used, joins", _USED)
def test_products_of_one_weight_are_joined_in_its_gradient(title: str, used: Any, joins: bool) -> None:
    """Not those of many rows."""
    joined, joined_products, rng = 0, rules.joined_products, np.random.default_rng(0)

    def counting(*args: Any) -> Any:
        nonlocal joined
        joined += 1
        return joined_products(*args)

    values = rng.normal(size=(192, 192)) / 14, rng.normal(size=192), rng.normal(size=(3, 192))

    def gradients(device: Any) -> list[Any]:
        """Return the gradients of a loss, or for a device of two levels the gradients of its squared gradient."""
        w, b, x = (nested(value, device) for value in values)
        hidden = x
        for _ in range(5):
            hidden = used(w, b, hidden)[:3].tanh() + x
        leaves, grads = [w, x], (hidden * hidden).sum().backward()
        if device is Twice:
            leaves, grads = [w.inner(), x.inner()], (grads[w] * grads[w]).sum().backward()
        return [grads[each].to_numpy() for each in [*leaves, b] if each in grads]

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(rules._TOGETHER, rules.add_product, rules.Together(rules.product_sizes, counting))
        first, second = gradients(Train), gradients(Twice)
        assert joins is (joined > 0)
        patch.setattr(engine, "FACTOR_VJPS", set())
        for found, expected in zip([*first, *second], [*gradients(Train), *gradients(Twice)], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@every_row("padding", [None, 2])
def test_rows_of_embeddings_are_added_to_the_gradient_so_far(
    padding: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first use makes an array as large as the weight; another use, as in a tied output, comes before all."""
    whole, backward = list[Any](), NumPy.embedding_backward

    def counted(device: Any, *args: Any) -> Any:
        whole.append(args)
        return backward(device, *args)

    monkeypatch.setattr(NumPy, "embedding_backward", counted)
    rng = np.random.default_rng(0)
    values, indices = rng.normal(size=(6, 3)), [rng.integers(0, 6, (4, 2)) for _ in range(3)]

    def loss(weight: Any, tied: bool) -> Any:
        total: Any = 0.0
        for k, index in enumerate(indices, 1):
            ints = IntTensor.from_data(index, device=weight.device)
            total = total + (embedding(ints, weight, padding_idx=padding) * float(k)).sin().sum()
        return total + (weight * weight).sum() if tied else total

    for tied in (False, True):
        expected = 2.0 * values if tied else np.zeros((6, 3))
        for k, index in enumerate(indices, 1):
            np.add.at(
                expected,
                index.ravel(),
                np.where(index.reshape(-1, 1) == padding, 0, k * np.cos(k * values[index.ravel()])),
            )
        weight = leaf(values)
        first = loss(weight, tied)
        del whole[:]
        np.testing.assert_allclose(first.backward()[weight].to_numpy(), expected, rtol=1e-12)
        assert len(whole) == 1 - tied
        gradgradcheck(lambda w, tied=tied: loss(w, tied), (weight,))


@every_row("rows, waits", [(1, True), (30, True), (33, False)])  # three times the factors' elements are the product's
def test_products_wait_whose_factors_are_small(rows: int, waits: bool) -> None:
    x = np.ones((rows, 192), np.float32)
    products = rules.LaterProducts(NumPy())
    for part in (products.matmul_tn(x, x), products.matmul(x.T, x), products.linear_backward(x, x)[0]):
        assert isinstance(part, rules.PartialGrad) is waits


def test_one_gradient_for_two_parents_is_not_written_to() -> None:
    """add passes one array to both of its parents: accumulation for one must not change the other."""
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    both = x + y
    grads = (both + x * 10.0 + x[0] * 100.0 + x * 1000.0).sum().backward()
    assert grads[x].tolist() == [1211.0, 1011.0]
    assert grads[y].tolist() == [1.0, 1.0]


def test_the_gradient_passed_in_is_not_written_to() -> None:
    x = leaf([1.0, 2.0])
    seed = Tensor[NumPy].from_data([1.0, 1.0], dtype="float64")
    grads = (x + x + x).backward(seed)
    assert grads[x].tolist() == [3.0, 3.0]
    assert seed.tolist() == [1.0, 1.0]


def test_a_retained_pass_gives_gradients_of_its_own() -> None:
    x = leaf([1.0, 2.0])
    loss = (x * x + x + x).sum()
    first = loss.backward(retain_graph=True)
    kept = first[x].tolist()
    loss.backward(retain_graph=True)
    assert first[x].tolist() == kept


def test_copies_are_leaves_of_their_own() -> None:
    x = leaf([1.0, 2.0])
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        grads = (other * other).sum().backward()
        assert grads[other].tolist() == [2.0, 4.0]
        assert x not in grads


@pytest.mark.parametrize("pruned", [False, True])
def test_saved_arrays_are_freed_before_the_next_rule_runs(pruned: bool) -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    alive: list[bool] = []
    factor = y * 2.0  # which saves nothing, so that its value is saved by the product alone
    sine, _ = x.sin().register_hook(lambda grad: alive.extend(array() is not None for array in arrays))
    arrays = [weakref.ref(factor._primitive.value), weakref.ref(sine._primitive.value)]
    product = (factor * sine).sum()
    del factor, sine
    assert all(array() is not None for array in arrays)
    (backward([product], inputs=[x]) if pruned else product.backward())[x]
    assert alive == [False, False]
