"""The formulas of optimizers: values, dtypes, layouts and memory, on a device that computes and under decorators."""

from __future__ import annotations

from itertools import chain, product
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, optim
from burnpy.autodiff import Balanced
from burnpy.backend import Backend, Checked, Decorator, Mixed, NumPy, Profiled, dtypes, errors
from burnpy.nn import Linear, Sequential
from burnpy.optim import Adam, GradientsParams, GradScaler, Step, clip_by_global_norm
from burnpy.testing.checks import difference
from burnpy_numpy.programs import NumPyForeachBlocks
from tests.optim.test_whole_updates import UPDATES as WHOLE
from tests.optim.updates import STEPS, UPDATES, Update, lists_of
from tests.rows import every_row

SHAPES = ((2, 3), (), (0, 3), (130, 140), (260, 140))


class InBlocks(NumPy):
    """Without kernels of lists."""

    foreach = NumPyForeachBlocks.foreach


class Composed(NumPy):
    """Without a `foreach` of its own."""

    foreach = Backend.foreach


DEVICES: dict[str, Any] = {
    "NumPy": NumPy,
    "in blocks": InBlocks,
    "composed": Composed,
    "Profiled": Profiled[NumPy],
    "Checked": Checked[NumPy],
    "Mixed": Mixed[NumPy],
    "Balanced": Balanced[NumPy],
    "Checked[Profiled]": Checked[Profiled[NumPy]],
}
OWN = ("NumPy", "in blocks", "composed")
"""Those that compute. Decorators hand a formula on, whatever its step."""


def check(update: Update, device: Any, lists: list[list[Any]], step: Step) -> None:
    """Check the values, shapes and dtypes of an update, and that it changes and shares no memory."""
    before = [[x.copy() for x in xs] for xs in lists]
    found = update(device, lists, step)
    assert len(found) == len(lists) - 1
    for k, row in enumerate(zip(*before, strict=True)):
        for x, expected in zip([column[k] for column in found], update.expected(row, step), strict=True):
            assert (x.shape, x.dtype) == (expected.shape, expected.dtype)
            assert difference(np.asarray(x), expected, 8) is None, step
    for x, same in zip(chain(*lists), chain(*before), strict=True):
        assert x.tobytes() == same.tobytes()
        assert not any(np.shares_memory(x, new) for new in chain(*found))


def test_every_optimizer_with_a_formula_is_tried() -> None:
    classes = [getattr(optim, name) for name in optim.__all__]
    optimizers = {c for c in classes if isinstance(c, type) and issubclass(c, optim.Optimizer)}
    own = {c for c in optimizers if c.formula is not optim.Optimizer.formula}
    absent = own - {type(update.optim) for update in UPDATES.values()} - {type(row[0]) for row in WHOLE}
    assert not absent, f"give {', '.join(c.__name__ for c in absent)} a row in tests/optim/updates.py"


@pytest.mark.slow
@every_row("device", DEVICES)
@pytest.mark.parametrize("name", UPDATES)
def test_values(name: str, device: str) -> None:
    update = UPDATES[name]
    for step in STEPS if device in OWN else STEPS[1:2]:
        check(update, DEVICES[device].device(), lists_of(update, SHAPES, "float32"), step)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", UPDATES)
def test_other_dtypes(name: str, dtype: str) -> None:
    update = UPDATES[name]
    for step, device in zip(STEPS, ("NumPy", "in blocks", "composed", "Profiled"), strict=True):
        check(update, DEVICES[device].device(), lists_of(update, SHAPES, dtypes.dtype_of(dtype)), step)


@pytest.mark.slow
@every_row("device", [NumPy, InBlocks, Composed])
@every_row("name", UPDATES)
def test_strided_arrays_and_several_dtypes_in_one_list(name: str, device: Any) -> None:
    update = UPDATES[name]
    wide = lists_of(update, ((6, 10), (300, 400)), "float32")
    half, double = lists_of(update, ((3,),), "float16"), lists_of(update, ((2, 2), ()), "float64")
    columns = zip(wide, half, double, strict=True)
    check(update, device(), [[xs[0][:, ::2].T, xs[1].T, *ys, *zs] for xs, ys, zs in columns], STEPS[1])


@every_row("name, device", product(UPDATES, DEVICES))
def test_no_parameters(name: str, device: str) -> None:
    update = UPDATES[name]
    none: list[list[Any]] = [[] for _ in range(2 + len(update.signed))]
    assert update(DEVICES[device].device(), none, Step(0.1)) == tuple(none[1:])


@pytest.mark.slow
@every_row("device, owned", [*((name, True) for name in DEVICES), *((name, False) for name in OWN)])
@pytest.mark.parametrize("name", UPDATES)
def test_a_skipped_update_changes_nothing(name: str, device: str, owned: bool) -> None:
    update, on = UPDATES[name], DEVICES[device].device()
    for skips in (False, True):
        lists = lists_of(update, SHAPES, "float32")
        step = Step(0.1, 3, 0.1, owned=owned, found_inf=on.full((), skips, dtypes.bool_))
        before = [[x.copy() for x in xs] for xs in lists]
        found = update(on, lists, step)
        wanted = (before[0], *before[2:]) if skips else update(on, before, step._replace(owned=False, found_inf=None))
        for x, same in zip(chain(*found), chain(*wanted), strict=True):
            np.testing.assert_array_equal(x, same)


@every_row("name", UPDATES)
def test_a_formula_is_one_operation_of_its_name(name: str) -> None:
    update, device = UPDATES[name], Profiled[NumPy].device()
    lists = lists_of(update, ((2, 3), (4,)), "float32")
    with Profiled.record() as profile:
        update(device, lists, Step(0.1, 9, owned=True))
        update(device, lists, Step(0.1, 9, 0.1))
    (row,) = profile.rows()
    assert row.operation.endswith("_step")
    assert (row.calls, row.rule, row.direction) == (2, "", "forward")
    assert row.bytes == 2 * (len(lists) * 2 - 1) * 4 * (6 + 4)  # each array read once, each result written once


FLOPS = {"sgd": 2, "momentum": 5, "adam": 13, "amsgrad": 14, "rmsprop": 9, "adagrad": 7}


@every_row("name, flops", FLOPS.items())
def test_flops_are_those_of_the_operations_of_a_formula(name: str, flops: int) -> None:
    update, device = UPDATES[name], Profiled[NumPy].device()
    lists = lists_of(update, ((2, 3), (4,)), "float32")
    decay = 1 if name == "amsgrad" else 2  # one multiplication if it is decoupled
    with Profiled.record() as profile:
        update(device, lists, Step(0.1))
    assert [row.flops for row in profile.rows()] == [flops * (6 + 4)]
    with Profiled.record() as profile:
        update(device, lists, Step(0.1, weight_decay=0.1, maximize=True))
    assert [row.flops for row in profile.rows()] == [(flops + decay + 1) * (6 + 4)]


def test_a_formula_that_is_no_program_has_no_flops() -> None:
    def sorted_each(b: Any, x: Any) -> tuple[Any]:
        return (b.sort(x, 0, False)[0],)

    with Profiled.record() as profile:
        ((found,),) = Profiled[NumPy].device().foreach(sorted_each, ([np.array([2.0, 1.0])],))
    assert found.tolist() == [1.0, 2.0]
    assert [(row.operation, row.flops) for row in profile.rows()] == [("sorted_each", 0)]


def test_an_error_says_what_was_not_finite_and_what_may_be_overwritten() -> None:
    update, device = UPDATES["momentum"], Checked[NumPy].device()
    (param,), (grad,), (velocity,) = lists_of(update, ((2,),), "float32")
    grad[1] = np.nan
    for owned in (False, True):
        with pytest.raises(errors.NonFiniteError) as error:
            update(device, [[param], [grad], [velocity.copy()]], Step(0.1, owned=owned))
        message = str(error.value)
        assert "momentum_step() on Checked[NumPy] gave NaN at index (1,) in result 0 of shape (2,)" in message
        assert "param[0] of shape (2,), dtype float32 is finite" in message
        assert "grad[0] of shape (2,), dtype float32 held NaN at index (1,) already" in message
        assert "momentum=0.9" in message
        assert ("velocity[0] of shape (2,), dtype float32 may have been overwritten" in message) is owned
    with Checked.allow("nan"):
        update(device, [[param], [grad], [velocity]], Step(0.1))


def test_each_result_of_a_formula_is_checked() -> None:
    def second_each(b: Any, x: Any) -> tuple[Any, Any]:
        return b.abs(x), b.sqrt(x)

    with pytest.raises(errors.NonFiniteError, match=r"second_each\(\) .* in result 1 of shape \(1,\) .*; x\[0\] of sh"):
        Checked[NumPy].device().foreach(second_each, ([np.array([-1.0])],))


@every_row("device", DEVICES)
@every_row("owned", [False, True])
def test_a_formula_may_have_more_or_fewer_results_than_lists(device: str, owned: bool) -> None:
    def three_each(b: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
        return b.add(x, y), b.mul(x, z), b.sub(x, z)

    def one_each(b: Any, x: Any, y: Any, z: Any) -> tuple[Any]:
        return (b.sub(b.add(x, y), z),)

    shapes = ((2, 3), (), (40_000,))
    for dtype in ("float32", "float16"):
        for formula in (three_each, one_each):
            lists = [[np.full(shape, k, dtype) for shape in shapes] for k in (3.0, 4.0, 5.0)]
            found = DEVICES[device].device().foreach(formula, tuple(lists), (), (), owned)
            for column, value in zip(found, (7.0, 15.0, -2.0) if formula is three_each else (2.0,), strict=True):
                for x, shape in zip(column, shapes, strict=True):
                    np.testing.assert_array_equal(x, np.full(shape, value, dtype))


def test_a_formula_that_is_not_elementwise_is_computed_of_whole_arrays() -> None:
    def normed_each(b: Any, x: Any) -> tuple[Any]:
        return (b.div(x, b.sum(x, (0,), True)),)

    for device in DEVICES.values():
        ((found,),) = device.device().foreach(normed_each, ([np.ones(1 << 17, np.float32)],))
        assert np.unique(found).tolist() == [2.0**-17]


def test_a_decorator_may_change_arguments_and_numbers() -> None:
    """`around` returns the results of the call it forwards, and `Operation.function` computes them on any device."""
    seen: list[Any] = []

    class Doubles(Decorator[Any]):
        word = "doubles numbers of"

        def around(self, op: Any, f: Any, args: tuple[Any, ...]) -> Any:
            seen.append([argument.name for argument in op.arguments])
            params, grads, lr, decay, owned = args
            doubled = params, grads, 2.0 * lr, decay, owned
            assert op.function(NumPy(), *doubled)[0][0].tolist() == f(*doubled)[0][0].tolist()
            return f(*doubled)

    ((found,),) = UPDATES["sgd"](Doubles(NumPy), [[np.ones(2)], [np.ones(2)]], Step(0.25))
    assert found.tolist() == [0.5, 0.5]
    assert seen == [["param", "grad", "lr", "decay", "owned"]]


def test_numbers_may_be_primitives_under_a_decorator() -> None:
    def scaled_each(b: Any, x: Any, *factors: Any) -> tuple[Any]:
        return (b.mul(b.mul(x, factors[0]), factors[1]),)

    lists = ([np.ones(2), np.ones((1, 2))],)
    for device in DEVICES.values():
        (found,) = device.device().foreach(scaled_each, lists, (np.array([2.0, 3.0]), 10.0))
        assert [x.tolist() for x in found] == [[20.0, 20.0], [[30.0, 30.0]]]


@pytest.mark.parametrize("name", ["Profiled", "Checked", "Mixed", "Balanced"])
def test_steps_under_decorators_are_those_without(name: str) -> None:
    """A clipped, scaled and unscaled loss, with one skipped step."""

    def trained(device: Any) -> list[Any]:
        x = Tensor.from_data([[0.5, -1.0], [2.0, 0.25]], device=Autodiff[device])
        model: Any = Linear(2, 2, device=Autodiff[device])
        model = model.with_state({"weight": np.array([[0.5, -0.25], [1.5, 1.0]]), "bias": np.array([0.1, -0.2])})
        optim, scaler = Adam(amsgrad=True), GradScaler(model.device.inner)
        for k in range(4):
            loss = model(x).square().mean()
            grads = GradientsParams.from_grads(scaler.scale(loss).backward(), model)
            with Checked.allow():
                scaled = grads * float("inf") if k == 2 else grads
                unscaled, scaler = scaler.unscale(scaled)
                model = optim.step(0.1, model, clip_by_global_norm(unscaled, 0.5))
        return [*[param.value.tolist() for param in model.params()], *[s.step for s in optim.state().values()]]

    found = trained(DEVICES[name])
    assert found[2:] == [3, 3]
    if name != "Mixed":  # which rounds the operands of products
        assert found == trained(NumPy)


def test_a_step_is_one_row_of_a_profile() -> None:
    train = Autodiff[Profiled[NumPy]]
    model: Any = Sequential(Linear(3, 4, device=train), Linear(4, 2, device=train))
    optim, x = Adam(), Tensor.ones((2, 3), device=train)
    for _ in range(2):
        grads = model(x).sum().backward()
        with Profiled.record() as profile:
            model = optim.step(0.1, model, grads)
    assert [(row.operation, row.calls) for row in profile.rows()] == [("adam_step", 1)]
