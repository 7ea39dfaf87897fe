"""Saved-tensor hooks, and offloading of saved tensors to the host or to disk."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cat, errors, func
from burnpy.autodiff import (
    Balanced,
    Function,
    checkpoint,
    detect_anomaly,
    disable_saved_tensors_hooks,
    save_on_cpu,
    save_to_disk,
    saved_tensors_hooks,
)
from burnpy.autodiff.modes import no_grad
from burnpy.autodiff.tools import saved_tensors
from burnpy.backend import NumPy
from tests.interrupting import every_opcode
from tests.rows import every_row

DEVICES: dict[str, Any] = {
    "Autodiff": Autodiff[NumPy],
    "Autodiff²": Autodiff[Autodiff[NumPy]],
    "Balanced": Autodiff[Balanced[NumPy]],
}


def leaf(shape: tuple[int, ...], device: Any = Autodiff[NumPy], seed: int = 0) -> Tensor[Any]:
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return Tensor.from_data(values, device=device).require_grad()


def noting(found: list[Any]) -> Callable[[Any], Any]:
    """A hook that appends its argument to a list and returns it unchanged."""

    def note(t: Any) -> Any:
        found.append(t)
        return t

    return note


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda x, w: (x.exp() * x.sin() / (x * x)).sqrt(),
    "matmul": lambda x, w: (x @ w).tanh() @ w.mT,
    "reductions": lambda x, w: x.amax(1) + x.prod(1) + x.var(1) + x.logsumexp(1) + x.softmax(1)[:, 0],
    "many members": lambda x, w: cat([x * x, x, w, x * w, x], 0).exp(),
    "where": lambda x, w: (x > 1.0).float().double() * x * x + x.masked_fill(x < 1.0, 2.0) ** 2,
    "indices": lambda x, w: x.index_select(0, IntTensor.from_data([0, 0, 2], device=x.device)) ** 2,
    "broadcast": lambda x, w: x[0] * x + x[:, :1] * w,
}


def kind(array: Any) -> Any:
    kinds: dict[str, Any] = {"f": Tensor, "i": IntTensor, "b": BoolTensor}
    return kinds[array.dtype.kind]


def gradients(f: Any, device: Any, wrap: Callable[[], Any]) -> list[Any]:
    x, w = leaf((3, 3), device), leaf((3, 3), device, 1)
    with wrap():
        loss = f(x, w).sum()
    grads = loss.backward(retain_graph=True)
    again = loss.backward()
    found = [*(grads[t] for t in (x, w) if t in grads), *(again[t] for t in (x, w) if t in again)]
    if found[0].device.differentiates:
        inner = sum((g * g).sum() for g in found)
        second = inner.backward()
        found += [second[t.inner()] for t in (x, w) if t.inner() in second]
    return [g.to_numpy() for g in found]


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_packing_changes_no_derivative(name: str, device: str, tmp_path: Path) -> None:
    ways: dict[str, Callable[[], Any]] = {
        "copies": lambda: saved_tensors_hooks(
            lambda t: t.to_numpy().copy(), lambda a: kind(a).from_data(a, device=NumPy)
        ),
        "tuples": lambda: saved_tensors_hooks(lambda t: (t,), lambda t: t[0]),
        "cpu": save_on_cpu,
        "disk": lambda: save_to_disk(tmp_path),
    }
    expected = gradients(FUNCTIONS[name], DEVICES[device], nullcontext)
    for way, wrap in ways.items():
        found = gradients(FUNCTIONS[name], DEVICES[device], wrap)
        assert len(found) == len(expected)
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert np.array_equal(a, b), f"gradient {k} of {name} with {way} on {device}:\n{a}\nand without:\n{b}"
    assert not list(tmp_path.iterdir()), "files were left behind"


@pytest.mark.parametrize("device", DEVICES)
def test_pack_is_given_innermost_tensors(device: str) -> None:
    x = leaf((2, 3), DEVICES[device])
    given: list[Any] = []

    def pack(t: Any) -> Any:
        given.append(t)
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = x.exp()
        z = y.masked_fill(y > 2.0, 0.0)
    assert z.is_require_grad()
    assert {type(t).__name__ for t in given} == {"Tensor", "BoolTensor"}
    assert {t.device for t in given} == {NumPy()}
    assert {t.shape for t in given} == {(2, 3)}


def test_each_is_packed_once_and_unpacked_once_in_each_pass() -> None:
    x = leaf((2,))
    calls = {"pack": 0, "unpack": 0}

    def count(name: str) -> Callable[[Any], Any]:
        def counted(t: Any) -> Any:
            calls[name] += 1
            return t

        return counted

    with saved_tensors_hooks(count("pack"), count("unpack")):
        loss = (x * x).sum()
        assert calls == {"pack": 2, "unpack": 0}
    (x * x).sum()
    assert calls["pack"] == 2, "hooks hold in their block only"
    loss.backward(retain_graph=True)
    loss.backward()
    assert calls == {"pack": 2, "unpack": 4}


def test_the_innermost_pair_has_all() -> None:
    x = leaf((2,))
    outer: list[Any] = []
    inner: list[Any] = []
    with saved_tensors_hooks(noting(outer), lambda t: t):
        with saved_tensors_hooks(noting(inner), lambda t: t):
            y = x.exp()
        assert (len(inner), len(outer)) == (1, 0)
        y.exp()
    assert (len(inner), len(outer)) == (1, 1)


def test_what_pack_does_is_not_packed() -> None:
    x = leaf((2,))
    depth = 0

    def pack(t: Any) -> Any:
        nonlocal depth
        depth += 1
        assert depth == 1
        x.exp() * x  # recorded, and nobody's business
        depth -= 1
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        loss = x.exp().sum()
    assert x in loss.backward()


def test_functions_go_through_hooks() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * 2.0

    x = leaf((2,))
    given: list[Any] = []
    with saved_tensors_hooks(
        lambda t: noting(given)(t).tolist(), lambda v: Tensor[NumPy].from_data(v, dtype="float64")
    ):
        loss = Square.apply(x).sum()
    assert len(given) == 1
    assert np.array_equal(loss.backward()[x].to_numpy(), 2 * x.to_numpy())


def test_what_is_packed_is_not_held() -> None:
    x = leaf((100,))
    with saved_tensors_hooks(lambda t: None, lambda _: None):  # type: ignore[arg-type,return-value]  # never unpacked
        y = x.exp()
        held = weakref.ref(y._primitive.value)
        loss = y.sum()
    del y
    assert held() is None
    del loss


@every_row(
    "unpack, error, message",
    [
        (
            lambda t: None,
            errors.KindError,
            r"saved_tensors_hooks\(\): unpack\(\), for a tensor saved by exp, must return a Tensor",
        ),
        (lambda t: t.to_numpy(), errors.KindError, "must return a Tensor on NumPy, not array"),
        (lambda t: t.int(), errors.KindError, "must return a Tensor on NumPy, not IntTensor"),
        (lambda t: Tensor.from_inner(t), errors.DeviceError, r"on NumPy, not one on Autodiff\[NumPy\]"),
        (lambda t: t.reshape((1, 2)), errors.ShapeError, r"shape \(2,\) and dtype float64, not shape \(1, 2\)"),
        (lambda t: t.float(), errors.ShapeError, "dtype float64, not shape .* and dtype float32"),
    ],
)
def test_unpack_that_gives_back_something_else(unpack: Any, error: Any, message: str) -> None:
    x = leaf((2,))
    with saved_tensors_hooks(lambda t: t, unpack):
        loss = x.exp().sum()
    with pytest.raises(error, match=message):
        loss.backward()


def test_errors_of_hooks_pass_through() -> None:
    x = leaf((2,))

    def fail(t: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"), saved_tensors_hooks(fail, lambda t: t):
        x.exp()
    with saved_tensors_hooks(lambda t: t, fail):
        loss = x.exp().sum()
    with pytest.raises(ZeroDivisionError, match="mine"):
        loss.backward()
    x.exp()  # the hooks are gone


def test_hooks_that_cannot_be_called() -> None:
    with pytest.raises(errors.ArgumentError, match=r"saved_tensors_hooks\(\) got unpack=3"):
        saved_tensors_hooks(lambda t: t, 3)  # type: ignore[arg-type]  # which is the point


def test_arguments_of_other_kinds() -> None:
    calls: list[Any] = [disable_saved_tensors_hooks, save_to_disk]
    with pytest.raises(errors.KindError, match=r"disable_saved_tensors_hooks\(message\) takes the text .*, not None"):
        calls[0](None).__enter__()
    with pytest.raises(errors.KindError, match=r"save_to_disk\(folder\) takes the path of a folder, not 3"):
        calls[1](3)


def test_disabling() -> None:
    x = leaf((2,))
    with disable_saved_tensors_hooks("they are shared"):
        x.exp()
        ways: list[Callable[[], Any]] = [lambda: saved_tensors_hooks(noting([]), noting([])), save_on_cpu]
        for enter in ways:
            with pytest.raises(errors.SavedTensorsError, match=r"\(\) is disabled here .* they are shared"), enter():
                pass
        with pytest.raises(errors.SavedTensorsError, match=r"checkpoint\(\) is disabled"):
            checkpoint(lambda x: x, x)
    with (
        save_on_cpu(),
        pytest.raises(errors.SavedTensorsError, match="hooks are in force: why"),
        disable_saved_tensors_hooks("why"),
    ):
        pass
    with save_on_cpu():
        x.exp()


def test_nothing_is_packed_where_nothing_is_recorded() -> None:
    given: list[Any] = []
    with saved_tensors_hooks(noting(given), lambda t: t), no_grad():
        leaf((2,)).exp()
    assert not given


def test_on_the_cpu_nothing_is_copied() -> None:
    x = leaf((100,))
    with save_on_cpu():
        y = x.exp()
    kept = y._primitive.node.saved0
    assert np.shares_memory(kept.restored(), y._primitive.value)


def test_an_array_is_one_file_and_parameters_are_none(tmp_path: Path) -> None:
    x, w = leaf((4, 4)), leaf((4, 4), seed=1)
    with save_to_disk(tmp_path):
        h = x @ w
        loss = (h.exp() * h.sin() + h.cos()).sum()
    # x and w are parameters; h is kept three times, exp(h) by exp and by mul, sin(h) by mul
    assert len(list(tmp_path.iterdir())) == 3
    loss.backward(retain_graph=True)
    assert len(list(tmp_path.iterdir())) == 3
    loss.backward()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("collector", ["on", "off"])
def test_files_go_with_a_dropped_graph(tmp_path: Path, collector: str) -> None:
    if collector == "off":
        gc.disable()
    try:
        x = leaf((4,))
        with save_to_disk(tmp_path):
            loss = x.exp().exp().sum()
        assert len(list(tmp_path.iterdir())) == 2
        del loss
        assert not list(tmp_path.iterdir())
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 2)])
def test_every_dtype_and_shape_on_disk(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    x = Tensor[Autodiff[NumPy]].full(shape, 0.5, dtype=dtype).require_grad()
    expected = (x * 1.0).exp().sum().backward()[x].to_numpy()
    with save_to_disk(tmp_path):
        loss = (x * 1.0).exp().sum()
    assert np.array_equal(loss.backward()[x].to_numpy(), expected)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(errors.ArgumentError, match=r"save_to_disk\(\) got .*nowhere.* create it first"):
        save_to_disk(tmp_path / "nowhere")
    x = leaf((4,))
    with save_to_disk(tmp_path):
        loss = x.exp().sum()
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(errors.SavedTensorsError, match=r"cannot read back an array of shape \(4,\)"):
        loss.backward()


@pytest.mark.slow
def test_the_handler_of_a_signal_may_raise_any_error(tmp_path: Path) -> None:
    def handler() -> None:
        if not any(frame.name == "_remove" for frame in traceback.extract_stack()):  # nobody would catch it there
            raise TimeoutError("the time is up")

    def write_and_read() -> None:
        x = leaf((3,), Autodiff[NumPy])
        with save_to_disk(tmp_path):
            loss = x.exp().sum()
        loss.backward()

    outcomes = list(every_opcode(write_and_read, (saved_tensors,), handler))
    assert {str(outcome) for outcome in outcomes} == {"the time is up", "None"}  # None: it was raised in `_remove`
    assert {type(outcome) for outcome in outcomes} == {TimeoutError, type(None)}


def test_a_folder_that_goes_away(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    with save_to_disk(folder):
        folder.rmdir()
        with pytest.raises(errors.SavedTensorsError, match="cannot write"):
            leaf((4,)).exp()


@pytest.mark.parametrize("saver", ["hooks", "numpy", "cpu", "disk", "anomalies"])
def test_savers_see_whole_batches(saver: str, tmp_path: Path) -> None:
    """Under vmap, as for Hessians, nodes keep batches: their arrays are tensors of the innermost device."""

    def block() -> Any:
        if saver == "hooks":
            return saved_tensors_hooks(lambda t: t if t.kind != "float" else t * 1.0, lambda t: t)
        if saver == "numpy":
            return saved_tensors_hooks(lambda t: (t, t.to_numpy()), lambda p: p[0].from_data(p[1], device=NumPy))
        others: Any = {"cpu": save_on_cpu, "disk": lambda: save_to_disk(tmp_path), "anomalies": detect_anomaly}
        return others[saver]()

    def f(x: Any) -> Any:
        return (x.sin() * x * (x > 1.5).float(x.dtype)).sum()

    def inside(x: Any) -> Any:
        with block():
            return f(x)

    x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 0.5]], dtype="float64")
    slopes, curvatures = func.grad(f)(x), func.vmap(func.hessian(f))(x)
    assert func.vmap(func.grad(inside))(x).tolist() == slopes.tolist()
    assert func.vmap(func.vmap(func.grad(inside)))(x).tolist() == slopes.tolist()
    assert func.vmap(func.hessian(inside))(x).tolist() == curvatures.tolist()
    with block():
        assert func.vmap(func.grad(f))(x).tolist() == slopes.tolist()
        assert func.hessian(f)(x[0]).tolist() == curvatures[0].tolist()
