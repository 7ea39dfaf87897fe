"""Operations on lists on the real CuPy: results as on NumPy, in few launches, without waiting or copying to the GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of
from burnpy.backend.operations.programs import mul_each
from burnpy.nn import Linear, Sequential
from burnpy.optim import (
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    GradientsParams,
    GradScaler,
    Lion,
    NAdam,
    RAdam,
    RmsProp,
    Sgd,
    Step,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
)
from burnpy_cupy.kernels import foreach_tables
from tests.hostcuda import simulator
from tests.optim.updates import STEPS, UPDATES

simulator.require()

QUIET = ("to_device", "to_host", "waits")
SHAPES = ((3, 5), (), (0, 4), (5000,), (2, 3))
CALLS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "foreach_mul": (1, (0.3,)),
    "foreach_div": (1, (0.3,)),
    "foreach_add": (2, (-0.7,)),
    "foreach_lerp": (2, (0.3,)),
    "foreach_clamp": (1, (0.5, 0.75)),
}


def arrays(dtype: str, seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    xs = [np.asarray(generator.uniform(0.5, 2.0, shape)).astype(dtype_of(dtype)) for shape in SHAPES]
    return [*xs, xs[0].T]


def moved(xs: list[Any]) -> list[Any]:
    return [CuPy().from_numpy(x) for x in xs[:-1]] + [CuPy().permute(CuPy().from_numpy(xs[0]), (1, 0))]


def flat(found: Any) -> list[Any]:
    return [x for column in found for x in column] if isinstance(found, tuple) else list(found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [*CALLS, *UPDATES])
def test_one_launch_gives_what_numpy_gives(name: str, dtype: str) -> None:
    count, rest = CALLS[name] if name in CALLS else (2 + len(UPDATES[name].signed), ())

    def computed(device: Any, lists: list[list[Any]]) -> list[Any]:
        return flat(UPDATES[name](device, lists, STEPS[2]) if name in UPDATES else getattr(device, name)(*lists, *rest))

    lists = [arrays(dtype, seed) for seed in range(count)]
    given = [moved(xs) for xs in lists]
    with simulator.watched() as journal:
        found = computed(CuPy(), given)
    copies = [line for line in journal.launches if line.startswith("burnpy_copy")]
    assert len(copies) == count  # of the transposed arrays
    assert len(journal.launches) == count + 1
    assert not any(journal.counts[kind] for kind in QUIET), journal.lines
    wanted = computed(NumPy(), lists)
    rtol = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    for x, want in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(CuPy().to_numpy(x).astype("f8"), want.astype("f8"), rtol=rtol)
    for xs, before in zip(given, lists, strict=True):
        for x, y in zip(xs, before, strict=True):
            np.testing.assert_array_equal(CuPy().to_numpy(x), y)


def test_owned_states_keep_their_memory_and_parameters_do_not() -> None:
    lists = [moved(arrays("float32", seed))[:-1] for seed in range(4)]
    found = UPDATES["adam"](CuPy(), lists, Step(0.1, owned=True))
    for column, states in zip(found[1:], lists[2:], strict=True):
        assert all(x is state for x, state in zip(column, states, strict=True))
    assert all(new.data.ptr != old.data.ptr for new, old in zip(found[0], lists[0], strict=True) if old.size)


@pytest.mark.parametrize("owned", [False, True])
def test_a_formula_may_have_more_results_than_lists(owned: bool) -> None:
    lists = tuple([moved(arrays("float32", seed)) for seed in range(3)])
    found = CuPy().foreach(three_each, lists, (), (), owned)
    wanted = NumPy().foreach(three_each, tuple([arrays("float32", seed) for seed in range(3)]))
    for x, want in zip(flat(found), flat(wanted), strict=True):
        np.testing.assert_allclose(CuPy().to_numpy(x), want, rtol=1e-6)


def three_each(b: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
    return b.add(x, y), b.mul(x, z), b.sub(x, z)


def test_more_arrays_than_a_table_has_and_several_dtypes() -> None:
    many = [np.full(3, k, "f4" if k % 2 else "f8") for k in range(500)]
    with simulator.watched() as journal:
        found = CuPy().foreach_mul([CuPy().from_numpy(x) for x in many], CuPy().from_numpy(np.arange(500.0)))
    assert len(journal.launches) == 6  # of 124 arrays each
    for x, want in zip(found, many, strict=True):
        np.testing.assert_array_equal(CuPy().to_numpy(x), want * want[0])
    norms = CuPy().to_numpy(CuPy().foreach_norm([CuPy().from_numpy(x) for x in many], 1.0))
    np.testing.assert_array_equal(norms, 3.0 * np.arange(500))
    assert CuPy().foreach_mul([], 2.0) == []


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_norms_take_two_launches_and_neither_overflow_nor_underflow(p: float) -> None:
    factor = 5 ** (1 / p) if p != math.inf else 1
    numbers = [("float32", 1e37), ("float32", 1e-30), ("float16", 6e4), ("float64", 1e300), ("float64", 1e-300)]
    for dtype, number in [*numbers, ("float32", math.inf), ("float64", math.nan), ("float32", 0.0)]:
        xs = [CuPy().full(shape, number, dtype_of(dtype)) for shape in ((3,), (0,), (), (1, 1))]
        with simulator.watched() as journal:
            found = CuPy().total_norm(xs, p)
        assert len(journal.launches) == 2
        assert not any(journal.counts[kind] for kind in QUIET)
        assert found.dtype == (np.float64 if dtype == "float64" else np.float32)
        np.testing.assert_allclose(CuPy().to_numpy(found), float(np.asarray(number, dtype)) * factor, rtol=1e-6)
    assert float(CuPy().to_numpy(CuPy().total_norm([], p))) == 0.0


def gradients(device: Any) -> tuple[Any, Any]:
    """A model of six parameters, and their gradients."""
    generator = np.random.default_rng(0)
    model: Any = Sequential(*[Linear(n, m, device=NumPy) for n, m in ((4, 8), (8, 8), (8, 2))])

    def drawn(w: Any) -> Any:
        return Tensor.from_data(generator.normal(size=w.shape).astype("f4"), device=w.device)

    model = model.map(drawn).to_device(Autodiff[device])
    x = Tensor.from_data(generator.normal(size=(3, 4)).astype("f4"), device=Autodiff[device])
    return model, GradientsParams.from_grads(model(x).square().sum().backward(), model)


@pytest.mark.parametrize(
    "optim",
    [Adam, AdaDelta, AdaGrad, Adamax, Lion, NAdam, RAdam, RmsProp, Sgd],
)
def test_a_step_of_each_optimizer_is_one_launch(optim: Any) -> None:
    found: list[list[Any]] = []
    for device in (CuPy, NumPy):
        model, grads = gradients(device)
        optimizer = optim(weight_decay=0.1)
        model = optimizer.step(0.01, model, grads)  # which fills states with zeros
        with simulator.watched() as journal:
            model = optimizer.step(0.01, model, grads)
        if device is CuPy:
            assert len(journal.launches) == 1, journal.launches
            assert not any(journal.counts[kind] for kind in QUIET)
        found.append([param.value.to_numpy() for param in model.params()])
    for got, want in zip(found[0], found[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_masters_take_a_launch_more() -> None:
    found: list[list[Any]] = []
    for device in (CuPy, NumPy):
        model, _ = gradients(device)
        model, optim = model.astype("bfloat16"), Adam(master_weights=True)
        x = Tensor.full((3, 4), 0.5, device=model.device).to_dtype("bfloat16")
        grads = GradientsParams.from_grads(model(x).square().sum().backward(), model)
        model = optim.step(0.01, model, grads)
        with simulator.watched() as journal:
            model = optim.step(0.01, model, grads)
        if device is CuPy:
            assert len(journal.launches) == 2, journal.launches
        found.append([state.values["master"].to_numpy() for state in optim.state().values()])
    for got, want in zip(found[0], found[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_clipping_takes_few_launches() -> None:
    _, grads = gradients(CuPy)
    for clip, most in ((clip_by_global_norm, 4), (clip_by_norm, 4), (clip_by_value, 1)):
        with simulator.watched() as journal:
            clip(grads, 0.1)
        assert len(journal.launches) <= most, journal.launches
        assert not any(journal.counts[kind] for kind in QUIET)


def test_an_overflow_is_found_and_skipped_on_the_gpu() -> None:
    model, grads = gradients(CuPy)
    scaler, optim = GradScaler(CuPy), Adam()
    model = optim.step(0.01, model, scaler.unscale(grads)[0])
    with simulator.watched() as journal:
        bad, scaler = scaler.unscale(grads * math.inf)
        after = optim.step(0.01, model, bad)
    assert not any(journal.counts[kind] for kind in QUIET)
    assert len(journal.launches) <= 20, journal.launches
    assert [p.value.tolist() for p in after.params()] == [p.value.tolist() for p in model.params()]
    assert scaler.loss_scale == 32768.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_rounds_new_weights_in_their_update(dtype: str) -> None:
    """Those that were operands of products before, and no others."""
    device, values = Mixed(CuPy(), dtype), [np.linspace(-3, 3, n, dtype=np.float32) for n in (7, 5000, 0, 3)]
    xs = [CuPy().from_numpy(x) for x in values]
    for k in (1, 2, 3):
        device.product_operand(xs[k])
    with simulator.watched() as journal:
        (new,) = device.foreach(mul_each, (xs,), (1.7,))
        rounded = [device.product_operand(x) for x in new[1:]]
    assert journal.launches == ["burnpy_each_mul_each"]
    for x, got in zip(new[1:], rounded, strict=True):
        np.testing.assert_array_equal(CuPy().to_numpy(got), CuPy().to_numpy(x.astype(got.dtype)))
    for x, value in zip(new, values, strict=True):
        np.testing.assert_array_equal(CuPy().to_numpy(x), value * np.float32(1.7))
    with simulator.watched() as journal:
        device.product_operand(new[0])
    assert journal.launches == ["burnpy_round_1"]


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_many_parts_of_a_norm_are_added_up_by_several_blocks(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreach_tables, "SUMMED", 2)
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(size).astype("f") for size in (9000, 3, 5000, 1)]
    want = np.linalg.norm(np.concatenate(xs).astype("f8"), p)
    given = [CuPy().from_numpy(x) for x in xs]
    with simulator.watched() as journal:
        out = CuPy().total_norm(given, p)
    assert [*map(str, journal.launches)] == ["burnpy_norm_parts", "burnpy_norm_sums", "burnpy_total_norm"]
    assert float(CuPy().to_numpy(out)) == pytest.approx(want, rel=1e-6)
