"""`Mixed[B]`: products of float32 have 16-bit operands and float32 results, in forward and backward passes."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor, compiled, func, linalg
from burnpy.autodiff import checkpoint, memory_report
from burnpy.backend import Backend, Checked, Mixed, NumPy, Profiled, operations
from burnpy.errors import DeviceError, DTypeError
from burnpy.nn import Conv2d, Flatten, Gru, Linear, Lstm, Module, MultiHeadAttention, Param, Relu, Rnn, Sequential
from burnpy.optim import Adam, GradientsParams
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import Arguments
from tests.rows import every_row

HALVES = ("bfloat16", "float16")
ROUNDING = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
"""The largest relative error of a rounded number."""
PRODUCTS = [op for op in operations().values() if op.product]


def drawn(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def rounded(x: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    return Tensor[NumPy].from_data(x).to_dtype(dtype).to_dtype("float32").to_numpy()


@pytest.mark.parametrize("dtype", HALVES)
def test_a_product_of_float32_is_that_of_rounded_operands(dtype: str) -> None:
    device, x, y = Mixed(NumPy, dtype), drawn((5, 7)), drawn((7, 3), seed=1)
    out = Tensor.from_data(x, device=device) @ Tensor.from_data(y, device=device)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out.to_numpy(), rounded(x, dtype) @ rounded(y, dtype))


def _halved(b: Any, x: Any) -> tuple[Any]:
    return (b.mul(x, 0.5),)


def test_new_values_of_weights_are_rounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    device, weights = Mixed(NumPy), [drawn((7, 3), seed=seed) for seed in range(3)]
    for weight in weights[:2]:
        device.matmul(drawn((5, 7)), weight)
    (new,) = device.foreach(_halved, (weights,))
    wanted = [rounded(weight * 0.5, "bfloat16") for weight in weights[:2]]
    monkeypatch.setattr(NumPy, "cast", lambda *_: pytest.fail("rounded again"))
    for x, want in zip(new[:2], wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(device.product_operand(x), np.float32), want)
    with pytest.raises(pytest.fail.Exception, match="again"):
        device.product_operand(new[2])  # which was no operand


@pytest.mark.parametrize("dtype", ["float64", *HALVES])
def test_a_product_of_another_dtype_is_left_alone(dtype: str) -> None:
    x, y = (Tensor[NumPy].from_data(drawn((4, 4), seed=k)).to_dtype(dtype) for k in range(2))
    mixed = [Tensor.from_data(a.to_numpy(), device=Mixed[NumPy]) for a in (x, y)]
    out = mixed[0] @ mixed[1]
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(out.to_numpy(), (x @ y).to_numpy())


def test_a_product_of_ints_is_left_alone() -> None:
    x = burnpy.IntTensor.from_data([[1000, 1001]], device=Mixed[NumPy])
    assert (x @ x.mT).tolist() == [[2002001]]


@pytest.mark.slow
@every_row("op", PRODUCTS, ids=lambda op: op.name)
def test_every_product_has_the_dtypes_and_nearly_the_values_of_its_inner_device(op: Any) -> None:
    exact, mixed = NumPy(), Mixed(NumPy())
    for example in ROWS[op.name].examples:
        args = Arguments(ROWS[op.name], example, np.dtype(np.float32), "contiguous").primitives(exact, False)
        wanted, got = getattr(exact, op.name)(*args), getattr(mixed, op.name)(*args)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (wanted, got)), strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=0.05, atol=0.05 * max(1.0, float(np.abs(a).max(initial=0.0))))


class Net(burnpy.nn.Module[Any]):
    def __init__(self, device: Any) -> None:
        self.features = Sequential(Conv2d(1, 4, 3, device=device), Relu(), Flatten(2))
        self.attention = MultiHeadAttention(16, 2, device=device)
        self.logits = Linear(16, 3, device=device)

    def forward(self, x: Tensor[Any]) -> Tensor[Any]:
        return self.logits(self.attention(self.features(x)).sum(dim=1))


def trained(device: Backend, steps: int = 30) -> list[float]:
    burnpy.manual_seed(0)
    model, optim = Net(device), Adam()
    x = Tensor.from_data(drawn((12, 1, 6, 6)), device=device)
    y = burnpy.IntTensor.from_data(np.arange(12) % 3, device=device)
    losses = []
    for _ in range(steps):
        loss = burnpy.cross_entropy(model(x), y)
        losses.append(loss.item())
        model = optim.step(0.01, model, loss.backward())
        assert all(value.dtype == np.float32 for value in model.named_params().values())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_a_model_trains_as_in_float32(dtype: str) -> None:
    exact, mixed = trained(Autodiff(NumPy)), trained(Autodiff(Mixed(NumPy, dtype)))
    assert exact != mixed
    np.testing.assert_allclose(mixed, exact, rtol=0.05, atol=0.03)
    assert mixed[-1] < 0.5 * mixed[0]


@pytest.mark.parametrize(
    "device",
    [Autodiff(Profiled(Mixed(NumPy))), Autodiff(Mixed(Profiled(NumPy))), Autodiff(Mixed(Checked(NumPy)))],
    ids=str,
)
def test_decorators_around_and_inside_compute_the_same(device: Backend) -> None:
    assert trained(device, 3) == trained(Autodiff(Mixed(NumPy)), 3)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kind", [Lstm, Gru, Rnn])
def test_the_gradient_by_a_recurrent_weight_is_a_product_of_rounded_operands(kind: Any, dtype: str) -> None:
    """It is left as the two factors of a product, of all elements of all sequences that share the weight."""
    network, xs = kind(6, 8, device=NumPy), [drawn((3, length, 6), seed=length) for length in (20, 9)]

    def gradients(device: Backend, width: str) -> dict[str, Any]:
        model = network.to_device(device).astype(width)
        loss = sum(model(Tensor.from_data(x.astype(width), device=device))[0].square().sum() for x in xs)
        return {
            path: np.asarray(g.to_numpy()) for path, g in GradientsParams.from_grads(loss.backward(), model).items()
        }

    found, exact = gradients(Autodiff(Mixed(NumPy, dtype)), "float32"), gradients(Autodiff(NumPy), "float64")
    for path, wanted in exact.items():
        assert found[path].dtype == np.float32
        error = np.linalg.norm(found[path] - wanted) / np.linalg.norm(wanted)
        assert error < ROUNDING[dtype] * 4, (path, error)
        assert error > ROUNDING[dtype] / 100, (path, error)


def test_gradients_are_float32_at_every_level() -> None:
    for device in (Autodiff(Mixed(NumPy)), Autodiff(Autodiff(Mixed(NumPy)))):
        x = Tensor.from_data(drawn((2, 3, 4)), device=device).require_grad()
        w = Tensor.from_data(drawn((4, 3), seed=1), device=device).require_grad()
        grads = (x @ w).square().sum().backward()
        assert grads[x].dtype == grads[w].dtype == np.float32
        exact = [Tensor[Autodiff[NumPy]].from_data(a.to_numpy()).require_grad() for a in (x, w)]
        wanted = (exact[0] @ exact[1]).square().sum().backward()
        np.testing.assert_allclose(grads[w].to_numpy(), wanted[exact[1]].to_numpy(), rtol=0.05, atol=0.1)


def test_the_graph_saves_operands_in_sixteen_bits() -> None:
    def saved(device: Backend) -> int:
        x = Tensor.from_data(drawn((64, 8)), device=device).require_grad()
        w = Tensor.from_data(drawn((8, 8), seed=1), device=device).require_grad()
        return memory_report((x * 2.0) @ w).saved

    assert saved(Autodiff(NumPy)) == 64 * 8 * 4  # the weight is a leaf
    assert saved(Autodiff(Mixed(NumPy))) == (64 * 8 + 8 * 8) * 2


def roundings(p: Any) -> dict[str, int]:
    """The calls that round operands: of one, and of several."""
    return {row.operation: row.calls for row in p.rows() if "cast" in row.operation}


def test_a_weight_is_rounded_once_per_version() -> None:
    device = Mixed(Profiled(NumPy))
    w = Tensor.from_data(drawn((4, 4)), device=device)
    with Profiled.record() as p:
        for k in range(3):
            _ = Tensor.from_data(drawn((2, 4), seed=k), device=device) @ w
    assert roundings(p) == {"foreach_cast": 1, "cast": 2}  # of the first x and w, and of each other x


def test_a_view_of_a_rounded_operand_is_not_rounded_again() -> None:
    device = Mixed(Profiled(NumPy))
    x, w = (Tensor.from_data(drawn(shape), device=device) for shape in ((2, 3, 4), (4, 4)))
    with Profiled.record() as p:
        wide, flat = x @ w, x.reshape((6, 4)) @ w
    assert roundings(p) == {"foreach_cast": 1}  # of x and w
    assert wide.flatten().tolist() == flat.flatten().tolist()


def test_rounded_operands_are_freed_with_what_they_were_rounded_from() -> None:
    device = Mixed(NumPy())
    before = len(device._operands)
    x = Tensor.from_data(drawn((4, 4)), device=device)
    y = x @ x
    assert len(device._operands) == before + 1
    del x, y
    gc.collect()
    assert len(device._operands) == before
    assert not device._of_float32.keys() - device._operands.keys()


def test_memory_that_an_operation_overwrites_is_rounded_again() -> None:
    device = Mixed(NumPy())
    total = device.full((2, 2), 1.0, np.dtype(np.float32))
    eye = device.eye(2, 2, np.dtype(np.float32))
    assert device.matmul(total, eye).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    total = device.accumulate(total, eye)
    assert device.matmul(total, eye).tolist() == [[2.0, 1.0], [1.0, 2.0]]


class Shifted(Module[Any]):
    """A product, to which a weight is added, whose gradient is an operand in the backward pass."""

    def __init__(self, device: Any) -> None:
        self.factor, self.shift = (Param(Tensor.from_data(drawn((8, 8), seed=k), device=device)) for k in range(2))

    def forward(self, x: Tensor[Any]) -> Tensor[Any]:
        return self.shift.value + self.factor.value @ x


@pytest.mark.parametrize("compiled_step", [False, True])
def test_memory_that_a_step_overwrites_is_rounded_again(compiled_step: bool) -> None:
    device, optim = Autodiff(Mixed(NumPy)), Adam()
    model, x = Shifted(device), Tensor.from_data(drawn((8, 8), seed=2), device=device)
    state = optim.init(model)

    @compiled(donate=("model", "state"))
    def step(model: Any, state: Any, x: Any) -> Any:
        return optim.pure_step(0.1, model, model(x).square().mean().backward(), state)

    for _ in range(3):
        if compiled_step:
            model, state = step(model, state, x)
        else:
            model = optim.step(0.1, model, model(x).square().mean().backward())
        for weight in (model.factor.value, model.shift.value):
            fresh = Tensor.from_data(weight.to_numpy().copy(), device=device)
            assert (weight @ x).tolist() == (fresh @ x).tolist()


def test_rules_of_linear_algebra_multiply_in_float32() -> None:
    a = drawn((4, 4))
    a = a @ a.T + 4 * np.eye(4, dtype=np.float32)

    def slope(device: Any) -> np.ndarray[Any, Any]:
        x = Tensor.from_data(a, device=device).require_grad()
        loss = linalg.cholesky(x).sum() + linalg.inv(x).sum() + linalg.eigh(x)[1].abs().sum()
        return loss.backward()[x].to_numpy()

    np.testing.assert_array_equal(slope(Autodiff(Mixed(NumPy))), slope(Autodiff(NumPy)))
    np.testing.assert_array_equal(slope(Autodiff(Profiled(Mixed(NumPy)))), slope(Autodiff(NumPy)))


def test_functions_of_functions_and_checkpoints_work_on_it() -> None:
    x = Tensor.from_data(drawn((3, 3)), device=Mixed[NumPy])
    hessian = func.hessian(lambda x: (x @ x).square().sum())(x)
    exact = func.hessian(lambda x: (x @ x).square().sum())(Tensor[NumPy].from_data(drawn((3, 3))))
    np.testing.assert_allclose(hessian.to_numpy(), exact.to_numpy(), rtol=0.1, atol=0.5)
    tracked = Tensor.from_data(drawn((3, 3)), device=Autodiff[Mixed[NumPy]]).require_grad()
    plain = (tracked @ tracked).relu().sum().backward()[tracked]
    again = checkpoint(lambda x: (x @ x).relu(), tracked).sum().backward()[tracked]
    assert plain.tolist() == again.tolist()


def test_float16_overflows_and_bfloat16_does_not() -> None:
    x = np.array([[1e5]], np.float32)
    half, brain = (Tensor.from_data(x, device=Mixed(NumPy, dtype)) for dtype in ("float16", "bfloat16"))
    assert (half @ half).item() == float("inf")
    assert np.isfinite((brain @ brain).item())


def test_devices_are_singletons_with_names() -> None:
    assert Mixed(NumPy) is Mixed[NumPy].device() is Mixed(NumPy(), "bfloat16")
    assert Mixed(NumPy, "float16") is Mixed(NumPy, np.dtype(np.float16)) is not Mixed(NumPy)
    assert [str(Mixed(NumPy, dtype)) for dtype in HALVES] == ["Mixed[NumPy]", "Mixed[NumPy, float16]"]
    for dtype in HALVES:
        assert pickle.loads(pickle.dumps(Mixed(NumPy, dtype))) is Mixed(NumPy, dtype)


def test_mistakes() -> None:
    with pytest.raises(DTypeError, match="expected 'bfloat16' or 'float16'"):
        Mixed(NumPy, "float64")
    with pytest.raises(DeviceError, match=r"write Autodiff\[Mixed\[NumPy\]\]"):
        Mixed(Autodiff(NumPy))
