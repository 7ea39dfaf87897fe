"""`Autodiff[Balanced[B]]`: the same numbers, for less memory."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cat, errors, manual_seed
from burnpy.autodiff import Balanced, Forward, Function, checkpoint, checkpoint_sequential
from burnpy.autodiff.balanced import PASS, cost_of
from burnpy.autodiff.modes import no_grad
from burnpy.autodiff.recipes import LARGEST, ArraySource
from burnpy.autodiff.tools.backward import grad
from burnpy.backend import NumPy, operations
from burnpy.nn.functional import layer_norm

Plain = Autodiff[NumPy]
Train = Autodiff[Balanced[NumPy]]
Twice = Autodiff[Train]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes for small arrays too."""
    monkeypatch.setattr(Balanced, "smallest", 0)


def leaf(shape: tuple[int, ...], device: Any = Train, seed: int = 0) -> Tensor[Any]:
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return Tensor.from_data(values, device=device).require_grad()


def test_it_stands_inside_of_autodiff() -> None:
    device = Autodiff(Balanced(NumPy()))
    assert device is Autodiff[Balanced[NumPy]].device()
    assert repr(device) == "Autodiff[Balanced[NumPy]]"
    plain: Any = Autodiff(NumPy())
    assert device is not plain
    assert pickle.loads(pickle.dumps(device)) is device
    for wrong in (Autodiff(NumPy()), Forward(NumPy()), device):
        with pytest.raises(
            errors.DeviceError, match=r"Balanced\[.*\] cannot be: .* write (Autodiff|Forward)\[Balanced\["
        ):
            Balanced(wrong)


def test_users_see_the_inner_backend() -> None:
    x = leaf((2,))
    grads = (x * x).exp().sum().backward()
    assert (x.inner().device, grads.device, grads[x].device) == (NumPy(), NumPy(), NumPy())
    assert x.grad(grads) is not None
    assert [t.device for t in grads] == [x.device]
    (g,) = grad((x * x).sum(), x)
    assert g.device is NumPy()
    seed = Tensor[NumPy].ones((2,), dtype="float64")
    assert x.grad((x * 2.0).backward(seed)).tolist() == [2.0, 2.0]  # type: ignore[union-attr]  # it is there
    back = Tensor.from_inner(x.inner(), device=Train)
    assert back.device is x.device
    assert Tensor[Train].from_inner(x.inner()).device is x.device
    assert np.shares_memory(back.to_numpy(), x.to_numpy())
    assert (x.argmax().inner().device, (x > 1.0).inner().device) == (NumPy(), NumPy())
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (other.device, other.is_require_grad(), other.tolist()) == (x.device, True, x.tolist())


def test_by_itself_it_computes_as_the_inner_backend() -> None:
    x = Tensor[Balanced[NumPy]].from_data([1.0, 2.0])
    assert (x.exp() * 2.0).tolist() == (Tensor[NumPy].from_data([1.0, 2.0]).exp() * 2.0).tolist()
    assert type(x._primitive) is np.ndarray


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "an MLP": lambda x, w: (((x @ w + w[0]).gelu() @ w + w[1]).silu() @ w).sigmoid(),
    "pointwise": lambda x, w: ((x.exp() * x.sin() / (x * x)).sqrt() + x.log1p()).tanh() ** 3,
    "a chain longer than a recipe": lambda x, w: _chain(x, 3 * LARGEST),
    "attention": lambda x, w: ((x @ w) @ (x * w).mT * 0.5).softmax(-1) @ (x @ w).tanh(),
    "residuals": lambda x, w: _residual(_residual(_residual(x, w), w), w),
    "structure": lambda x, w: cat([x.exp(), x.mT.sin()], 1).reshape((3, 2, 3)).permute(1, 0, 2).flip(0)[0] ** 2 * x,
    "a mask": lambda x, w: (x @ w).gelu() * (w > 1.0).float().double() * w,
    "where": lambda x, w: (x @ w).exp().masked_fill(w > 1.0, 0.0).sin() * w,
    "indices": lambda x, w: x.exp().index_select(0, IntTensor.from_data([0, 0, 2], device=x.device)) ** 2 * w,
    "normalised": lambda x, w: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-5).sqrt() * w,
    "shared": lambda x, w: (lambda h: h @ w + h @ w.mT + h * h)((x @ w).gelu()),
    "a reduction between": lambda x, w: (x.exp() * x.exp().sum(1, keepdim=True)).log() * w.amax(0),
}


def _chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = (x * 1.01).sin()
    return x


def _residual(x: Any, w: Any) -> Any:
    return x + (x.tanh() @ w).gelu()


def derivatives(f: Any, device: Any, order: int) -> list[Any]:
    x, w = leaf((3, 3), device), leaf((3, 3), device, 1)
    out = f(x, w).sum()
    found = [out.to_numpy()]
    for _ in range(order):
        grads = out.backward(retain_graph=True)
        again = out.backward()
        parts = [grads[t] for t in (x, w) if t in grads]
        found += [p.to_numpy() for p in (*parts, *(again[t] for t in (x, w) if t in again))]
        out, x, w = sum((p * p).sum() for p in parts), x.inner(), w.inner()
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_the_same_to_the_last_bit(name: str, order: int) -> None:
    usual, balanced = NumPy(), Balanced(NumPy())
    one: Any = usual
    two: Any = balanced
    for _ in range(order):
        one, two = Autodiff(one), Autodiff(two)
    expected, found = derivatives(FUNCTIONS[name], one, order), derivatives(FUNCTIONS[name], two, order)
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert np.array_equal(a, b), f"number {k} of {name}:\n{a}\nand without Balanced:\n{b}"


def held(out: Tensor[Any]) -> int:
    """Return the bytes of the distinct large arrays that a graph keeps alive, without leaves."""
    found: dict[int, Any] = {}
    leaves = set()
    waiting: list[Any] = [out._primitive.node]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if not hasattr(node, "parent0"):
            leaves.add(id(node.value.value))
            continue
        waiting += [node.parent0, node.parent1]
        for kept in (node.saved0, node.saved1 if node.parent1 is not None else ()):
            for x in kept:
                for array in _arrays(x):
                    found[id(array)] = array
    return sum(a.nbytes for key, a in found.items() if key not in leaves and a.base is None)


def _arrays(x: Any) -> Iterator[Any]:
    if isinstance(x, ArraySource):
        if x.array is not None:
            yield x.array
        assert x.cached is None
        for a in x.args:
            yield from _arrays(a)
    elif isinstance(x, np.ndarray):
        yield x
    elif hasattr(x, "restored"):
        return


def layers(x: Any, weights: list[Any], count: int) -> Any:
    for k in range(count):
        x = (x @ weights[k] + weights[k][0]).gelu()
    return x


def test_a_deep_network_holds_one_array_for_each_layer() -> None:
    weights = [leaf((256, 256), seed=k) for k in range(8)]
    x = Tensor[Train].ones((16, 256), dtype="float64")
    out = layers(x, weights, 8)
    assert held(out) == 9 * 16 * 256 * 8, "the input and the sum before each GELU"


@pytest.mark.slow
@pytest.mark.parametrize("width", [256, 1024])
def test_of_long_products_one_in_sixteen_is_computed_again(width: int) -> None:
    """Whatever they cost, and evenly spread; what follows them is made of them as if they were kept."""
    weights = [leaf((width, width), seed=k) for k in range(2)]
    x = Tensor[Train].ones((4, width), dtype="float64")
    each = 4 * width * 8
    counts = [held(layers(x, weights * 32, depth)) // each for depth in (1, 16, 32, 48, 64)]
    assert counts == [2, 17, 33 - 1, 49 - 2, 65 - 3]


def test_short_products_are_computed_again() -> None:
    """The scores and probabilities of attention are not saved."""
    q, k, v = (leaf((2, 64, 32), seed=n) for n in range(3))
    scores = (q * 1.0) @ (k * 1.0).mT * 0.2
    probabilities = scores.softmax(-1)
    dead = [weakref.ref(t._primitive.value.value) for t in (scores, probabilities)]
    out = probabilities @ (v * 1.0)
    del scores, probabilities
    assert [r() for r in dead] == [None, None]
    plain = [Tensor.from_data(t.to_numpy(), device=Plain).require_grad() for t in (q, k, v)]
    expected = ((plain[0] @ plain[1].mT * 0.2).softmax(-1) @ plain[2]).exp().sum().backward()
    found = out.exp().sum().backward()
    assert all(
        np.array_equal(found[a].to_numpy(), expected[b].to_numpy()) for a, b in zip((q, k, v), plain, strict=True)
    )


def test_normalizations_are_computed_again() -> None:
    """From what goes in, which they keep; the mean and the variance are there."""
    x, w = leaf((64, 256)), leaf((256, 256), seed=1)
    h = (x @ w).exp()
    y = layer_norm(h, (256,))
    normalized = weakref.ref(y._primitive.value.value)
    out = y @ w
    del y
    assert normalized() is None
    plain = [Tensor.from_data(t.to_numpy(), device=Plain).require_grad() for t in (x, w)]
    expected = (layer_norm((plain[0] @ plain[1]).exp(), (256,)) @ plain[1]).sum().backward()
    found = out.sum().backward()
    assert all(np.array_equal(found[a].to_numpy(), expected[b].to_numpy()) for a, b in zip((x, w), plain, strict=True))


def test_no_tensor_lives_longer_for_a_recipe() -> None:
    x = leaf((64, 64))
    parts = [x.exp(), x.sin()]
    dead = [weakref.ref(t._primitive.value.value) for t in parts]
    y = parts[0] + parts[1]
    parts.clear()
    assert y._primitive.value.source is not None
    z = y * 2.0 @ Tensor[Train].ones((64, 64), dtype="float64")
    assert dead[1]() is None, "an array that nothing keeps is still there"
    assert np.allclose(z.sum().backward()[x].to_numpy(), 64 * 2 * (np.exp(x.to_numpy()) + np.cos(x.to_numpy())))


def test_what_is_computed_again_dies_with_the_forward_pass() -> None:
    x, w = leaf((64, 512)), leaf((512, 512), seed=1)
    h = x @ w
    y = h.gelu()
    product, activated = weakref.ref(h._primitive.value.value), weakref.ref(y._primitive.value.value)
    out = (y @ w).sum()
    assert activated() is not None
    del y, h
    assert activated() is None, "GELU is computed again"
    assert product() is not None, "from the matrix product"
    assert x in out.backward()
    assert product() is None


def test_what_is_alive_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    gelu = NumPy.gelu

    def counted(self: Any, x: Any, approximate: bool) -> Any:
        runs.append(1)
        return gelu(self, x, approximate)

    monkeypatch.setattr(NumPy, "gelu", counted)
    x, w = leaf((64, 64)), leaf((64, 64), seed=1)

    def forward() -> tuple[Any, Any]:
        y = (x @ w).gelu()
        return y, (y @ w + y @ w + y * 2.0 @ w).sum()

    alive, out = forward()
    assert len(runs) == 1
    out.backward()
    assert len(runs) == 1
    del alive, out
    _, out = forward()
    del _
    runs.clear()
    out.backward(retain_graph=True)
    assert len(runs) == 1, "computed once for all three products"
    out.backward()
    assert len(runs) == 2, "and once more in the second pass"


def test_nothing_stays_computed_after_a_pass() -> None:
    weights = [leaf((64, 64), seed=k) for k in range(4)]
    out = layers(Tensor[Train].ones((64, 64), dtype="float64"), weights, 4)
    before = held(out)
    out.sum().backward(retain_graph=True)
    assert held(out) == before


def test_views_are_followed() -> None:
    x, w = leaf((64, 64)), leaf((64, 64), seed=1)
    y = (x @ w).gelu()
    activated = weakref.ref(y._primitive.value.value)
    out = (y.reshape((2, 32, 64)).permute(1, 0, 2)[:, 0] @ w).sum()
    del y
    assert activated() is None
    assert x in out.backward()


def test_a_mask_of_truth_values_is_held_and_not_its_floats() -> None:
    x, w = leaf((64, 64)), leaf((64, 64), seed=1)
    h = x @ w
    floats = (h > 16.0).float().double()
    dead = weakref.ref(floats._primitive.value.value)
    out = (h.gelu() * floats @ w).sum()
    del floats, h
    assert dead() is None
    assert x in out.backward()


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("length", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_long_chains_do_not_recurse(length: int) -> None:
    x = leaf((2,))
    y = x
    for _ in range(length // 10):
        y = y * 1.0001 + 0.0
    assert y._primitive.value.origin().size <= LARGEST
    out = y.exp().sum()
    assert x in out.backward()
    y = x
    for _ in range(length):
        y = y.sin()
    assert x in y.sum().backward()
    y = x
    for _ in range(length // 20):
        y = y.reshape((1, 2)).exp().reshape((2,)) * 0.1
    assert x in y.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["backward", "dropped"])
@pytest.mark.parametrize("device", [Train, Twice])
def test_nothing_is_left_without_the_garbage_collector(passes: str, device: Any) -> None:
    weights = [leaf((64, 64), device, seed=k) for k in range(3)]

    def run() -> None:
        loss = layers(Tensor.ones((64, 64), dtype="float64", device=device), weights, 3).sum()
        if passes == "backward":
            loss.backward()

    run()  # what a rule needs is made at its first use, and stays
    gc.collect()
    gc.disable()
    try:
        before = {id(o) for o in gc.get_objects()}
        run()
        left = [o for o in gc.get_objects() if id(o) not in before and type(o).__module__.startswith("burnpy.autodiff")]
        assert not left, f"{len(left)} objects: {left[:5]}"
    finally:
        gc.enable()


def test_nothing_is_planned_for_what_is_not_tracked() -> None:
    x = Tensor[Train].ones((64, 64))
    with no_grad():
        y = (leaf((64, 64)).float() @ x).gelu()
    assert not y.is_require_grad()
    assert not (x.exp() * x).is_require_grad()


def test_it_goes_together_with_checkpoint() -> None:
    runs = 0

    def f(a: Any) -> Any:
        nonlocal runs
        runs += 1
        return layers(a, weights, 4)

    weights = [leaf((64, 64), seed=k) for k in range(4)]
    x = leaf((64, 64), seed=9)
    out = checkpoint(f, x)
    assert held(out) == 0
    found = out.sum().backward()
    assert runs == 2
    expected = f(x).sum().backward()
    assert all(np.array_equal(found[t].to_numpy(), expected[t].to_numpy()) for t in (x, *weights))
    y = checkpoint_sequential([f, f, f], 3, x)
    assert x in y.sum().backward()


def test_user_defined_functions_work_on_it() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * x * 3.0

    for device in (Train, Twice):
        x = leaf((64, 64), device)
        grads = (Cube.apply(x.exp()) * x).gelu().sum().backward()
        y = leaf((64, 64), Plain if device is Train else Autodiff[Plain])
        expected = (Cube.apply(y.exp()) * y).gelu().sum().backward()
        assert np.array_equal(grads[x].to_numpy(), expected[y].to_numpy())


def test_forward_mode_over_it() -> None:
    from burnpy.autodiff import make_dual, unpack_dual

    x = leaf((64, 64))
    t = Tensor.from_inner(Tensor[NumPy].ones((64, 64), dtype="float64"), device=Train)
    tangent = unpack_dual(make_dual(x, t).exp().sin()).tangent
    assert tangent is not None
    grads = tangent.sum().backward()
    at = x.to_numpy()
    e = np.exp(at)
    assert np.allclose(grads[x].to_numpy(), e * np.cos(e) - e * e * np.sin(e))


def test_graphs_in_several_threads() -> None:
    weights = [leaf((64, 64), seed=k) for k in range(4)]
    x = leaf((64, 64), seed=9)
    loss = layers(x, weights, 4).sum()
    expected = loss.backward(retain_graph=True)[x].to_numpy()
    found: list[Any] = []

    def work() -> None:
        for _ in range(5):
            found.append(loss.backward(retain_graph=True)[x].to_numpy())
            found.append(layers(x, weights, 4).sum().backward()[x].to_numpy())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 40
    assert all(np.array_equal(f, expected) for f in found)


def test_int_and_bool_tensors_are_the_inner_backends() -> None:
    i = IntTensor[Train].arange(3)
    b = BoolTensor[Train].from_data([True, False, True])
    assert type(i._primitive) is type(b._primitive) is np.ndarray
    assert Tensor.from_inner(i.float().inner(), device=Train).tolist() == [0.0, 1.0, 2.0]


def test_costs_come_from_the_declarations() -> None:
    """A product costs its FLOPs, anything else a pass for each of them, and a view nothing."""
    x, w = np.ones((4, 8), np.float32), np.ones((8, 16), np.float32)

    def cost(name: str, *args: Any) -> int | None:
        cost = cost_of(operations()[name])
        return None if cost is None else cost(args, getattr(NumPy(), name)(*args).shape)

    assert cost("matmul", x, w) == 2 * 4 * 16 * 8
    assert cost("exp", x) == PASS * 3 * 32
    assert cost("softmax", x, 1) == PASS * 7 * 32
    assert cost("sum", x, (1,), False) == PASS * 32
    assert cost("index_select", x, 0, np.zeros(3, np.int64)) == PASS * 24
    assert cost("mT", x) == 0
    for name in (
        "accumulate",
        "average_update",
        "random_normal",
        "random_gamma",
        "random_poisson",
        "random_log_dirichlet",
        "full",
        "argmax",
        "eq",
    ):
        assert cost_of(operations()[name]) is None, name


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("draw", [Tensor.gamma, Tensor.dirichlet, lambda shape, a: Tensor.beta(shape, a, a)])
def test_the_backward_pass_uses_the_numbers_that_were_drawn(draw: Any) -> None:
    gradients = []
    for device in (Plain, Train):
        manual_seed(0)
        a = leaf((4,), device)
        gradients.append(a.grad(draw((3, 4), a).sin().sum().backward()).tolist())  # type: ignore[union-attr]  # reached
    assert gradients[0] == gradients[1]
