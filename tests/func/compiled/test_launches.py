"""Kernels and products of plans: whole sums, vectors, lists and cross entropy, joined into one call and one by one."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, compiled, func
from burnpy.backend import NumPy
from burnpy.backend.decorators.recorded import Recorded
from burnpy.backend.plans.fusion import Grouping
from burnpy.backend.plans.recording import simplified
from burnpy.func.pytree import flatten
from burnpy.nn import BatchNorm, GroupNorm, InstanceNorm, Linear, MultiHeadAttention, Sequential, Tanh, functional
from burnpy.optim import Adam, GradientsParams, Sgd, clip_by_global_norm
from burnpy_numpy.kernels import plans
from burnpy_numpy.kernels.kernel import kernels_enabled
from tests.kernels import needs_products
from tests.rows import every_row

Train = Autodiff[NumPy]
rng = np.random.default_rng(0)
joins = pytest.mark.skipif(not kernels_enabled(), reason="calls are joined by a kernel")


@pytest.fixture(params=["joined", "one by one"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run calls joined, and one by one."""
    if request.param == "one by one":
        monkeypatch.setattr(plans, "sequence_entry", lambda: None)


def data(*shape: int, dtype: str = "float32") -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(rng.standard_normal(shape), dtype=dtype)


def same(x: Any, y: Any, rtol: float = 1e-5) -> None:
    np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("shape", [(100_000,), (65_537,), (2, 50_000), (50_000, 2), (70_000, 1), (3, 5, 7_000)])
def test_sums_of_whole_large_arrays(shape: tuple[int, ...], each_way: None) -> None:
    def f(x: Any) -> Any:
        y = x.tanh() * x
        return y, y.sum(), (y * 2.0).mean(), y.amax()

    x = data(*shape, dtype="float64")
    for got, expected in zip(compiled(f)(x), f(x), strict=True):
        same(got, expected, 1e-9)


def test_roundings_of_long_sums_over_rows_do_not_add_up(each_way: None) -> None:
    """Chunks of rows are added in pairs, in eager kernels, too; one after the other is wrong by 3e-5."""

    def f(x: Any) -> Any:
        return x.sum(0), x.nansum(0), (x * 2.0).mean(0)

    x = Tensor[NumPy].full((600_000, 2), 0.1)
    for got, expected in zip((*compiled(f)(x), *f(x)), [60_000, 60_000, 0.2] * 2, strict=True):
        np.testing.assert_allclose(got.to_numpy(), [expected] * 2, rtol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (1, 2, 5, 7), (40, 8, 32, 32)])
def test_max_pooling_has_the_bits_of_eager_mode(shape: tuple[int, ...], dtype: str, each_way: None) -> None:
    values = rng.integers(-1, 2, shape).astype(dtype)  # ties
    values[rng.random(shape) < 0.1], values[rng.random(shape) < 0.1] = np.nan, -np.inf

    def f(x: Any, kernel: Any, stride: Any) -> Any:
        out = functional.max_pool2d(x * 2.0, kernel, stride=stride)
        return out.detach(), (out * out).sum().backward()[x]

    x = Tensor[Train].from_data(values).require_grad()
    for windows in ((2, 2), (2, 1), ((1, 3), (1, 3))):
        for got, expected in zip(compiled(f)(x, *windows), f(x, *windows), strict=True):
            np.testing.assert_array_equal(got.to_numpy(), expected.to_numpy())


@joins
@pytest.mark.parametrize("shape", [(1_000_000,), (300, 400), (2, 300, 400)])
def test_a_large_array_is_averaged_in_the_program_that_makes_it(shape: tuple[int, ...]) -> None:
    f = compiled(lambda x: ((x.tanh() * x).mean(), (x.tanh() * x).mean(0)))
    x = data(*shape, dtype="float64")
    for got, expected in zip(f(x), ((x.tanh() * x).mean(), (x.tanh() * x).mean(0)), strict=True):
        same(got, expected, 1e-9)
    assert f.plans[0].programs[0].operations[:3] == ("tanh", "mul", "sum")


@joins
def test_a_large_array_is_summed_in_the_program_that_makes_it() -> None:
    plan = compiled(lambda x: (x.tanh() * x).sum()).explain(data(1_000_000))
    assert [part.operations for part in plan.programs] == [("tanh", "mul", "sum")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4, 3), (3,)),
        ((3,), (3, 4)),
        ((1, 3), (3, 4)),
        ((4, 3), (3, 1)),
        ((5, 1), (1, 6)),
        ((2, 4, 3), (3, 5)),
        ((3,), (3,)),
    ],
)
def test_products(left: tuple[int, ...], right: tuple[int, ...], dtype: str, each_way: None) -> None:
    a = Tensor[Train].from_data(rng.standard_normal(left), dtype=dtype).require_grad()
    b = Tensor[Train].from_data(rng.standard_normal(right), dtype=dtype).require_grad()

    def g(a: Any, b: Any) -> Any:
        y = (a * 1.0) @ (b * 1.0)
        grads = y.tanh().sum().backward()
        return (y * 2.0).detach(), a.grad(grads), b.grad(grads)

    for got, expected in zip(compiled(g)(a, b), g(a, b), strict=True):
        same(got, expected)


@pytest.mark.slow
@pytest.mark.parametrize("optim", [Adam(), Sgd(momentum=0.9), Sgd()])
@pytest.mark.parametrize("donate", [(), ("model", "state")])
def test_steps_of_layers_of_one_shape(optim: Any, donate: tuple[str, ...], each_way: None) -> None:
    """No update overwrites an array of the same shape that another one still reads."""

    def step(model: Any, state: Any, rate: Any, x: Any, labels: Any) -> Any:
        loss = burnpy.cross_entropy(model(x), labels)
        grads = GradientsParams.from_grads(loss.backward(), model)
        model, state = optim.pure_step(rate, model, grads, state)
        return model, state, loss.detach()

    layers: list[Any] = [part for _ in range(3) for part in (Linear(6, 6, device=Train), Tanh())]
    first = Sequential(*layers)
    run = compiled(step, donate=donate)
    eager, planned = (first, optim.init(first)), (first.map(lambda x: x * 1.0), optim.init(first))
    for _ in range(3):
        x = Tensor[Train].from_data(rng.standard_normal((5, 6)), dtype="float32")
        labels = IntTensor[Train].from_data(np.array([0, 5, 2, -100, 3]))
        *eager_state, loss = step(*eager, 0.1, x, labels)
        *planned_state, own = run(*planned, 0.1, x, labels)
        eager, planned = tuple(eager_state), tuple(planned_state)
        same(own, loss)
        for p, q in zip(planned[0].params(), eager[0].params(), strict=True):
            same(p.value, q.value, 1e-4)


def test_a_copy_of_a_view_waits_for_the_kernels_before_it(each_way: None) -> None:
    plan = compiled(lambda x: (x * 2.0 + x).transpose(0, 1).reshape(-1)[1:] * 1.0)
    for _ in range(2):
        x = data(3, 4)
        same(plan(x), (x * 3.0).transpose(0, 1).reshape(-1)[1:])


CHANNELS = [((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), (1, 3, 4, 1)), ((4, 2, 3, 2), (2, 3, 1)), ((3, 1, 4, 5), (4, 1))]
"""The shapes of arrays, and of values that are repeated along their first dims."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "small"), CHANNELS)
def test_values_for_each_channel(shape: tuple[int, ...], small: tuple[int, ...], dtype: str, each_way: None) -> None:
    def f(x: Any, scale: Any, shift: Any) -> Any:
        y = (x * scale.exp() + shift).relu()
        return y, y.sum(-1), y * scale

    plan = compiled(f)
    for _ in range(3):
        given = data(*shape, dtype=dtype), data(*small, dtype=dtype), data(*small, dtype=dtype)
        for got, expected in zip(plan(*given), f(*given), strict=True):
            same(got, expected)


@joins
def test_a_batch_norm_of_running_averages_is_one_kernel_with_its_neighbours() -> None:
    norm = BatchNorm(4, device=NumPy)
    plan = compiled(lambda x, y: (norm(x) + y).relu()).explain(data(2, 4, 5, 5), data(2, 4, 5, 5))
    assert plan.programs[-1].operations == ("sub", "mul", "add", "add", "relu")


@needs_products
def test_kernels_and_products_are_one_call() -> None:
    model: Any = compiled(Sequential(Linear(8, 8, device=NumPy), Tanh(), Linear(8, 8, device=NumPy), Tanh()))
    source = model.explain(data(3, 8)).source
    assert source.count("q0(") == 1
    assert "q1" not in source


def test_an_index_out_of_range_is_still_an_error(each_way: None) -> None:
    f = compiled(lambda x, labels: burnpy.cross_entropy(x, labels))
    x = data(4, 3)
    same(
        f(x, IntTensor[NumPy].from_data([0, 1, 2, 0])),
        burnpy.cross_entropy(x, IntTensor[NumPy].from_data([0, 1, 2, 0])),
    )
    with pytest.raises(IndexError):
        f(x, IntTensor[NumPy].from_data([0, 1, 3, 0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_read_where_they_are(dtype: str, each_way: None) -> None:
    """Inputs of one element, results of operations, which may be NumPy's scalars, and values made by the same call."""

    def f(x: Any, a: Any, b: Any) -> Any:
        y = x * a + b
        total = y.sum()
        return y, x * total, y / y.max(), x + a.exp()

    x, a = data(2, 3, dtype=dtype), Tensor[NumPy].from_data(0.75, dtype=dtype)
    plan = compiled(f)
    for b in (0.1, 0.3):
        for got, expected in zip(plan(x, a, b), f(x, a, b), strict=True):
            same(got, expected)


BODIES: dict[str, Any] = {
    "carries": lambda c, x: ((c[0] * 0.9 + x, c[1] * 0.5 + c[0].sum()), None),
    "states before and after": lambda c, x: ((c[0].tanh() + x, c[1] + x), (c[0], c[1] + x)),
    "one value twice": lambda c, x: ((c[0] + x, c[1] * 0.5), (c[0] + x, c[0] + x, c[1])),
    "new values": lambda c, x: ((c[0] + x, c[1] * 1.0), (c[0] * x, x.sum())),
    "swapped": lambda c, x: ((c[1], c[0] + x), (c[0], x)),
    "a carry that stays": lambda c, x: ((c[0], c[1] + c[0] * x), c[0]),
    "two carries of one value": lambda c, x: ((c[1] + x, c[1] + x), c[0] - c[1]),
}


@every_row("reverse", [False, True])
@every_row("name", BODIES)
def test_loops(name: str, reverse: bool) -> None:
    """Values of steps are in the memory that the next step reads, and results in memory of their own."""
    f: Any = lambda c, xs: func.scan(BODIES[name], c, xs, reverse=reverse)  # noqa: E731
    plan = compiled(f)
    earlier: list[Any] = []
    for _ in range(3):
        carry, xs = (data(4, 3), data(4, 3)), data(5, 4, 3)
        got, expected = flatten(plan(carry, xs))[0], flatten(f(carry, xs))[0]
        for x, y in zip(got, expected, strict=True):
            same(x, y)
        earlier += [(x, x.to_numpy().copy()) for x in got]
        arrays = [x.to_numpy() for x in got]
        assert not any(np.shares_memory(x, y) for k, x in enumerate(arrays) for y in arrays[:k])
    for x, values in earlier:
        np.testing.assert_array_equal(x.to_numpy(), values)


@joins
@needs_products
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", ["ints", "floats", "while"])
def test_steps_read_panels_that_the_plan_has(kind: str, turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products with a matrix that stays are calls of compiled code in a loop, too: Python looks for no panels."""
    n = 136 if kind == "ints" else 728
    floats = data(n, n) * 0.01
    w: Any = IntTensor[NumPy].from_data(rng.integers(-9, 9, (n, n)), dtype="int8") if kind == "ints" else floats
    w = w.T if turned else w

    def step(c: Any) -> Any:
        product = functional.integer_matmul((c * 9.0).round().int("int8"), w).float() if kind == "ints" else c @ w
        return (product * 0.01).tanh() + c * 0.5

    def f(c: Any, xs: Any) -> Any:
        if kind == "while":
            return func.while_loop(lambda s: s[1] < 12.0, lambda s: (step(s[0]), s[1] + 1.0), (c, c.sum() * 0.0))
        return func.scan(lambda c, x: (step(c) + x, c), c, xs)

    c, xs = data(2, n), data(12, 2, n)
    plan, expected = compiled(f), f(c, xs)
    plan(c, xs)
    monkeypatch.delattr("burnpy_numpy.kernels.products.products.Product.run")
    for got, other in zip(plan(c, xs), expected, strict=True):
        same(got, other)


def test_two_threads_run_one_loop_at_once() -> None:
    def f(c: Any, xs: Any) -> Any:
        return func.scan(lambda c, x: ((c @ w + x).tanh(), c), c, xs)

    w = data(6, 6)
    plan = compiled(f)
    arguments = [(data(4, 6), data(50, 4, 6)) for _ in range(8)]
    expected = [f(*given) for given in arguments]
    with ThreadPoolExecutor(4) as pool:
        for got, (last, stack) in zip(pool.map(lambda given: plan(*given), arguments * 4), expected * 4, strict=True):
            same(got[0], last)
            same(got[1], stack)


NORMS: dict[str, Any] = {
    "batch": lambda: BatchNorm(4, device=Train),
    "group": lambda: GroupNorm(2, 4, device=Train),
    "instance": lambda: InstanceNorm(4, device=Train),
}


def block(model: Any, x: Any) -> Any:
    """Return relu of a norm, its gradients, and updated averages."""
    y = model(x).relu()
    grads = (y * y).sum().backward()
    return y.detach(), x.grad(grads), [p.value.grad(grads) for p in model.params()]


def shown(model: Any, x: Any) -> Any:
    """As `block`, but the result of the norm is used besides."""
    normal = model(x)
    y = normal.relu()
    grads = (y * normal).sum().backward()
    return y.detach(), normal.detach(), x.grad(grads), [p.value.grad(grads) for p in model.params()]


@pytest.mark.slow
@pytest.mark.parametrize("f", [block, shown])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NORMS)
def test_norms_and_relu(name: str, dtype: str, f: Any, each_way: None) -> None:
    model = NORMS[name]().astype(dtype)
    plan = compiled(f)
    for _ in range(2):
        x = Tensor[Train].from_data(rng.standard_normal((3, 4, 5, 7)), dtype=dtype).require_grad()
        got, expected = flatten(plan(model, x))[0], flatten(f(model, x))[0]
        for value, other in zip(got, expected, strict=True):
            same(value, other)
        np.testing.assert_array_equal(got[0].to_numpy(), expected[0].to_numpy())


@joins
def test_relu_is_part_of_a_norm_whose_result_nothing_else_needs() -> None:
    x = Tensor[Train].from_data(rng.standard_normal((3, 4, 5, 7)), dtype="float32").require_grad()
    model = BatchNorm(4, device=Train)
    names = {f: [part.name for part in compiled(f).explain(model, x).operations] for f in (block, shown)}
    assert {"normalize_relu", "normalize_relu_backward"} <= {*names[block]}
    reasons = {part.name: part.reason for part in compiled(block).explain(model, x).operations}
    assert reasons["normalize_relu"] == "a kernel of its own"
    assert "normalize" in names[shown]
    assert "normalize_relu" not in names[shown]


def test_norms_and_relu_of_what_is_not_finite(each_way: None) -> None:
    model = BatchNorm(2, device=Train)
    values = rng.standard_normal((2, 2, 3, 3))
    values[0, 0, 0, 0] = np.nan
    x = Tensor[Train].from_data(values, dtype="float32").require_grad()
    for got, expected in zip(flatten(compiled(block)(model, x))[0], flatten(block(model, x))[0], strict=True):
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-5, atol=1e-6)


def test_modules_without_variables_are_arguments() -> None:
    model: Any = Sequential(Tanh(), Tanh())
    got, x = compiled(lambda model, x: (model, model(x)))(model, data(3))
    same(x, got(x) * 0.0 + x)
    assert [type(part) for part in got.named_modules().values()] == [Sequential, Tanh, Tanh]


@pytest.mark.slow
def test_grouping_takes_as_long_for_each_operation_of_a_long_recording() -> None:
    """The number of calls of functions grows as the number of operations does."""

    def calls(length: int) -> int:
        recorder: Any = Recorded.unregistered(NumPy())
        chosen = np.random.default_rng(0)
        x, w = (recorder.input(np.ones(shape, np.float32)) for shape in ((4, 5), (5, 5)))
        values = [x]
        for kind in chosen.integers(10, size=length):
            last, other = values[-1], values[max(0, len(values) - 1 - int(chosen.integers(8)))]
            if kind < 7:
                values.append(recorder.add(last, other) if kind % 2 else recorder.mul(last, 0.9))
            elif kind < 9:
                values.append(recorder.sub(last, recorder.mean(other, (1,), True)))
            else:
                values.append(recorder.matmul(last, w))
        recorder.recording.outputs.append(values[-1].ref)
        nodes, _ = simplified(recorder.recording)
        count = 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event == "call"

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            Grouping(nodes, {}).ordered()
        finally:
            sys.setprofile(before)
        return count

    short, long = calls(400), calls(1600)
    assert long < 4.6 * short


@pytest.mark.parametrize("wide", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_numbers_are_parts_of_kernels(dtype: str, wide: str, each_way: None) -> None:
    """Conversions of ints of 8 and 32 bits to floats and back, and arithmetic of int32, which wraps around."""

    def f(q: Any, sums: Any, row: Any, column: Any) -> Any:
        total = (sums - row) * column + 3
        y = (total.float(wide) * 1e-8 + q.float(wide) * 0.3).round().clamp(0, 100)
        return y.int(dtype), y, (q.float(wide) * -3.7).int("int32")

    info = np.iinfo(dtype)
    q = IntTensor[NumPy].from_data(rng.integers(info.min, info.max + 1, (5, 37)), dtype=dtype)
    shapes = ((5, 37), (37,), (5, 1))
    ints = [IntTensor[NumPy].from_data(rng.integers(-(2**31), 2**31, shape), dtype="int32") for shape in shapes]
    step = compiled(f)
    for found, expected in zip(step(q, *ints), f(q, *ints), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())
    if kernels_enabled():
        plan = step.explain(q, *ints)
        assert (len(plan.programs), plan.operations) == (1, ())


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("shape", "kernel", "groups", "zeros"),
    [
        ((2, 24, 20, 33), (24, 1, 3, 3), 24, 1),
        ((1, 24, 30, 31), (24, 1, 5, 5), 24, 2),
        ((2, 64, 14, 14), (64, 64, 3, 3), 1, 1),
        ((2, 3, 40, 40), (8, 3, 3, 3), 1, 1),
        ((2, 64, 12, 12), (64, 32, 3, 3), 2, 0),
    ],
)
def test_convolutions_round_their_results_to_ints(
    dtype: str, shape: Any, kernel: Any, groups: int, zeros: int, each_way: None
) -> None:
    """A convolution's kernel adds int32 and ends in ints of 8 bits."""
    weight = Tensor[NumPy].from_data(rng.integers(-3, 4, kernel), dtype="float32")
    sums = IntTensor[NumPy].from_data(rng.integers(-9, 9, (kernel[0], 1, 1)), dtype="int32")

    def f(x: Any) -> Any:
        y = functional.conv2d(x, weight, padding=zeros, groups=groups).int("int32") + sums
        return (y.float() * 0.25).round().clamp(0, 127).int(dtype)

    x = Tensor[NumPy].from_data(rng.integers(-3, 4, shape), dtype="float32")
    step = compiled(f)
    np.testing.assert_array_equal(step(x).to_numpy(), f(x).to_numpy())
    if kernels_enabled():
        plan = step.explain(x)
        assert (len(plan.programs), plan.operations) == (1, ())


def attended(layer: Any, x: Any, causal: bool, mask: Any) -> Any:
    """Return attention of a sequence to itself, whose queries, keys and values are slices, and its gradients."""
    y = layer(x, mask=mask, causal=causal)
    grads = (y * y).sum().backward()
    return y.detach(), x.grad(grads), [p.value.grad(grads) for p in layer.params()]


@joins
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", ["all", "causal", "mask"])
def test_gradients_of_attention_are_written_into_the_gradient_of_one_matrix(how: str, dtype: str) -> None:
    layer = MultiHeadAttention(16, 2, device=Train).astype(dtype)
    mask = BoolTensor[Train].from_data(rng.random((6, 6)) < 0.7) if how == "mask" else None
    plan = compiled(attended)
    for _ in range(2):
        x = Tensor[Train].from_data(rng.standard_normal((3, 6, 16)), dtype=dtype).require_grad()
        got, expected = (flatten(f(layer, x, how == "causal", mask))[0] for f in (plan, attended))
        for value, other in zip(got, expected, strict=True):
            same(value, other)
    parts = plan.explain(layer, x, how == "causal", mask).operations
    reasons = {part.name: part.reason for part in parts}
    assert reasons["attention_backward_placed"] == "a kernel of its own"
    assert not {"attention_backward", "placed_slice"} & {*reasons}


@joins
def test_gradients_of_attention_that_are_read_besides_are_operands() -> None:
    @compiled
    def gradients(qkv: Any) -> Any:
        q, k, v = (qkv[:, part].retain_grad() for part in range(3))
        y = functional.scaled_dot_product_attention(q, k, v)
        grads = (y * y).sum().backward()
        return qkv.grad(grads), q.grad(grads)

    qkv = Tensor[Train].from_data(rng.standard_normal((2, 3, 4, 6, 8)), dtype="float32").require_grad()
    whole, part = gradients(qkv)
    np.testing.assert_array_equal(whole.to_numpy()[:, 0], part.to_numpy())
    assert "attention_backward" in {part.name for part in gradients.explain(qkv).operations}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_factor_of_clipped_gradients_is_part_of_the_update(dtype: str, each_way: None) -> None:
    model, optim = Linear(5, 7, device=Train).astype(dtype), Adam()

    def step(model: Any, state: Any, grads: Any) -> Any:
        return optim.pure_step(0.1, model, clip_by_global_norm(grads, 0.5), state)

    x = Tensor[Train].from_data(rng.standard_normal((3, 5)), dtype=dtype)
    grads = GradientsParams.from_grads((model(x) ** 2).sum().backward(), model)
    plan, state = compiled(step), optim.init(model)
    for _ in range(2):
        got, expected = plan(model, state, grads), step(model, state, grads)
        for value, other in zip(flatten(got)[0], flatten(expected)[0], strict=True):
            np.testing.assert_array_equal(np.asarray(value.to_numpy()), np.asarray(other.to_numpy()))
        model, state = got
    names = [part.name for part in plan.explain(model, state, grads).operations]
    assert "foreach adam_step" in names
    assert ("foreach_mul" not in names) == kernels_enabled()


def test_a_multiplied_list_that_is_read_twice_stays_one() -> None:
    model, optim = Linear(5, 7, device=Train), Sgd()

    @compiled
    def step(model: Any, grads: Any) -> Any:
        grads = clip_by_global_norm(grads, 0.5)
        return optim.pure_step(0.1, model, grads, optim.init(model))[0], grads

    x = Tensor[Train].from_data(rng.standard_normal((3, 5)), dtype="float32")
    grads = GradientsParams.from_grads((model(x) ** 2).sum().backward(), model)
    clipped = step(model, grads)[1]
    assert clipped.norm().item() == pytest.approx(0.5)
    assert "foreach_mul" in {part.name for part in step.explain(model, grads).operations}


def test_sums_of_empty_arrays_are_zero() -> None:
    def f(x: Any, y: Any) -> Any:
        return (y.sin().maximum(x) * 1.1).sin().sum()

    plan = compiled(func.grad(f, argnums=(0, 1)))
    for shape in ((0, 4), (3, 0, 4), (0, 1, 4)):
        for _ in range(3):  # results lie in memory that other arrays have left
            by_x, by_y = plan(data(*shape), data(4))
            assert by_x.shape == shape
            assert by_y.tolist() == [0.0] * 4
