"""Claims of `burnpy.compiled` besides values: plans, inputs, refusals, donation, randomness, threads."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import os
import pickle
import queue
import re
import signal
import threading
import warnings
import weakref
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import (
    Autodiff,
    BoolTensor,
    ComplexTensor,
    Generator,
    IntTensor,
    Tensor,
    compiled,
    errors,
    func,
    manual_seed,
)
from burnpy.autodiff import Balanced, Function, no_grad
from burnpy.backend import Checked, Mixed, NumPy, Profiled
from burnpy.func.pytree import flatten
from burnpy.nn import BatchNorm, Dropout, Gelu, Linear, Lstm, Module, Param, Relu, Sequential, Tanh, functional
from burnpy.nn.functional import linear
from burnpy.optim import Adam, Ema, GradientsParams
from burnpy.tensor.host_data import readonly
from tests.kernels import needs_kernels
from tests.rows import every_row

Train = Autodiff[NumPy]


def tensor(*values: float) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(list(values))


LSTM, SPECTRA = Lstm(3, 4, bidirectional=True, device=NumPy), ComplexTensor[NumPy].ones((3, 2))
WRONG_VALUES: dict[str, tuple[Any, Any, Any]] = {
    "length": (
        lambda n: LSTM(Tensor[NumPy].ones((2, 5, 3)), lengths=n)[0],
        IntTensor[NumPy].from_data([0, 5]),
        IntTensor[NumPy].from_data([0, 6]),
    ),
    "probability": (lambda p: functional.binary_cross_entropy(p, p.ones_like()), tensor(0.5, 1.0), tensor(0.5, 1.5)),
    "variance": (lambda v: functional.gaussian_nll_loss(v, v, v), tensor(0.5, 1.0), tensor(0.5, -1.0)),
    "window": (
        lambda w: burnpy.fft.istft(SPECTRA, 4, 4, window=w, center=False),
        tensor(1.0, 1.0, 1.0, 1.0),
        tensor(0.0, 1.0, 1.0, 1.0),
    ),
}
"""Functions, values that they take, and values that they refuse."""


class TestPlans:
    def test_one_plan_for_one_kind_of_arguments(self) -> None:
        @compiled
        def f(x: Any, factor: Any, count: int = 1) -> Any:
            return x * factor + float(count)

        x = tensor(1.0, 2.0)
        assert f(x, 2.0).tolist() == [3.0, 5.0]
        assert f(x, 3.0).tolist() == [4.0, 7.0]  # a float is an input
        counts = [len(f.plans)]
        assert f(x, 2.0, count=2).tolist() == [4.0, 6.0]  # an int is a constant of another plan
        assert f(tensor(1.0), 2.0).tolist() == [3.0]
        assert f(x.double(), 2.0).dtype == np.float64
        counts.append(len(f.plans))
        f.clear()
        assert [*counts, len(f.plans)] == [1, 4, 0]

    def test_floats_have_the_bits_of_eager_mode(self) -> None:
        x, y = tensor(1.0, 3.0), Tensor[NumPy].from_data(np.array([1.0, 3.0]))
        f: Any = lambda x, a, b: (x * a - b) / a  # noqa: E731
        for t in (x, y):
            np.testing.assert_array_equal(compiled(f)(t, 0.1, 0.7).to_numpy(), f(t, 0.1, 0.7).to_numpy())

    def test_modes_are_part_of_the_key(self) -> None:
        @compiled
        def f(x: Any) -> Any:
            y = (x * x).sum()
            return x.grad(y.backward()) if y.is_require_grad() else y.detach()

        x = Tensor[Train].from_data([1.0, 2.0]).require_grad()
        assert f(x).tolist() == [2.0, 4.0]
        with no_grad():
            assert f(x).item() == 5.0

    def test_many_plans_warn_once_and_say_what_changed(self) -> None:
        f = compiled(lambda x: x + 1.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for n in range(1, 13):
                f(Tensor[NumPy].zeros((n,)))
        (warning,) = caught
        assert "has 9 plans" in str(warning.message)
        assert "Tensor(9,)" in str(warning.message)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (lambda k: ((tensor(1.0), k), 0), r"because x\[1\] is 8, after 7: pad to few"),
            (lambda k: (tensor(1.0), {"n": str(k)}), r"because y\['n'\] is '8', after '7'"),
            (lambda k: (tensor(1.0), object()), "because y is another object, after another object"),
            (lambda k: (tensor(1.0), 1, k), "because the argument number 2 is 8, after 7"),
            (lambda k: (tensor(1.0), [0.0] * k), "arguments of other structures"),
        ],
    )
    def test_the_warning_names_what_changed(self, arguments: Any, said: str) -> None:
        f = compiled(lambda x, y, *more: 1)
        for k in range(8):
            f(*arguments(k))
        with pytest.warns(RuntimeWarning, match=said):
            f(*arguments(8))
        f(*arguments(9))  # which warns no more

    def test_the_warning_names_the_argument_of_a_model(self) -> None:
        model: Any = compiled(Linear(2, 2, device=NumPy))
        for n in range(1, 9):
            model(Tensor[NumPy].ones((n, 2)))
        with pytest.warns(RuntimeWarning, match=r"^compiled\(Linear\) has 9 plans, .* because x is Tensor\(9, 2\) of"):
            model(Tensor[NumPy].ones((9, 2)))

    def test_the_warning_names_a_variable(self) -> None:
        factor = [0.0]
        f = compiled(lambda x: x * factor[0])
        for k in range(8):
            factor[0] = float(k)
            f(tensor(1.0))
        factor[0] = 8.0
        with pytest.warns(RuntimeWarning, match="because factor has other elements now: pass it as a float"):
            f(tensor(1.0))

    def test_captured_variables_are_part_of_the_key(self) -> None:
        scale = 2.0
        table = tensor(1.0, 2.0)
        f = compiled(lambda x: x * scale + table)
        assert f(tensor(1.0, 1.0)).tolist() == [3.0, 4.0]
        scale = 3.0
        assert f(tensor(1.0, 1.0)).tolist() == [4.0, 5.0]
        table = tensor(0.0, 0.0)
        assert f(tensor(1.0, 1.0)).tolist() == [3.0, 3.0]
        layer: Any = Relu()
        g = compiled(lambda x: layer(x))
        assert g(tensor(-1.0, 1.0)).tolist() == [0.0, 1.0]
        layer = Tanh()
        assert g(tensor(0.0, 0.0)).tolist() == [0.0, 0.0]
        assert len(g.plans) == 2

    def test_plans_free_their_memory(self) -> None:
        f = compiled(lambda x: (x.exp() * 2.0).sum(dim=0) + x.tanh().sum(dim=0))
        f(Tensor[NumPy].ones((64, 64)))
        plan = next(iter(f._known.values()))[0].plan
        gone = weakref.ref(plan)
        del plan
        f.clear()
        gc.collect()
        assert gone() is None

    @needs_kernels
    def test_explanation(self) -> None:
        f = compiled(lambda x, y: ((x @ y).relu() + 1.0).sum())
        text = str(f.explain(Tensor[NumPy].ones((8, 8)), Tensor[NumPy].ones((8, 8))))
        first, _, *rows = text.split("\n")
        assert first == "4 operations recorded: 1 kernel of 3 operations, and 1 single operation"
        cells = [[cell for cell in row.split("  ") if cell] for row in rows]
        assert cells[0][:2] + cells[0][3:] == ["matmul", "(8, 8)", "a product"]
        assert cells[1][:3] == ["kernel", "relu · add · sum", "(8, 8)"]
        assert all("test_compiled.py:" in row for row in rows)
        assert len(f.plans) == 1

    def test_explanation_of_a_product_of_16_bit_operands(self) -> None:
        f = compiled(lambda x: x @ x)
        parts = f.explain(Tensor[Mixed[NumPy]].ones((8, 8))).parts
        assert [(part.name, getattr(part, "reason", None)) for part in parts][-1] == ("matmul", "a product")

    @needs_kernels
    def test_a_mean_of_everything_does_not_undo_the_kernel_before_it(self) -> None:
        """Programs have no means over rows, and the bias makes the first dim rows."""
        f = compiled(lambda x, bias: (x + bias).square().mean())
        x, bias = Tensor[NumPy].ones((64, 8)), Tensor[NumPy].arange(8.0)
        text = str(f.explain(x, bias))
        assert text.startswith("3 operations recorded: 2 kernels of 3 operations, and 0 single operations"), text
        assert f(x, bias).item() == pytest.approx(25.5)

    @needs_kernels
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_values_of_one_element_are_computed_by_kernels(self, dtype: str) -> None:
        f: Any = lambda x, w, b, s: ((x @ w + b).sigmoid() * s, (x @ w > b).logical_not())  # noqa: E731
        x, w = (Tensor[NumPy].normal(shape).to_dtype(dtype) for shape in ((1, 8), (8, 1)))
        for b, s in itertools.product((0.5, np.nan, -np.inf), (0.1, -0.0)):
            given = x, w, Tensor[NumPy].full((1, 1), b).to_dtype(dtype), Tensor[NumPy].full((), s).double()
            for result, expected in zip(compiled(f)(*given), f(*given), strict=True):
                assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
                np.testing.assert_allclose(result.to_numpy(), expected.to_numpy(), rtol=1e-6)
        assert {part.name for part in compiled(f).explain(*given).operations} == {"matmul"}

    def test_sums_over_no_rows_are_zeros(self) -> None:
        x = Tensor[NumPy].zeros((0, 3))
        f: Any = compiled(lambda x: ((x * 2.0).sum(0), (x + 1.0).sum(0, keepdim=True)))
        for _ in range(3):
            _ = tensor(5.0, 6.0, 7.0)  # memory that the sums may get
            assert [y.tolist() for y in f(x)] == [[0.0] * 3, [[0.0] * 3]]
        assert not f.plans[0].programs

    def test_methods_and_modules(self) -> None:
        model = Linear(3, 2, device=NumPy)
        x = Tensor[NumPy].ones((4, 3))
        run = compiled(model)
        np.testing.assert_allclose(run(x).to_numpy(), model(x).to_numpy(), rtol=1e-6)

        class Net(Module[Any]):
            def __init__(self) -> None:
                self.layer = Linear(3, 2, device=NumPy)

            @compiled
            def forward(self, x: Any) -> Any:
                return self.layer(x).relu()

        net = Net()
        np.testing.assert_allclose(net(x).to_numpy(), net.layer(x).relu().to_numpy(), rtol=1e-6)
        other = net.map(lambda w: w * 2.0)  # the weights are inputs
        np.testing.assert_allclose(other(x).to_numpy(), other.layer(x).relu().to_numpy(), rtol=1e-6)

    @needs_kernels
    def test_products_read_transposed_matrices_as_they_lie(self) -> None:
        x, w = Tensor[NumPy].normal((8, 6)), Tensor[NumPy].normal((5, 6))
        functions: list[tuple[Any, list[str]]] = [
            (lambda x, w: x @ w.T, ["matmul_nt"]),
            (lambda x, w: functional.linear(x, w.transpose(0, 1), w[:, 0]), ["matmul_nt"]),
            (lambda x, w: x.T @ (x @ w.mT), ["matmul_nt", "matmul_tn"]),
            (lambda x, w: (x.unsqueeze(0) @ w.T).sum(0) + w.T.sum(), ["matmul_nt"]),
        ]
        for f, names in functions:
            run: Any = compiled(f)
            np.testing.assert_allclose(run(x, w).to_numpy(), f(x, w).to_numpy(), rtol=1e-5, atol=1e-5)
            parts = [getattr(part, "name", "") for part in run.explain(x, w).parts]
            assert [name for name in parts if name.startswith("matmul")] == names

    @needs_kernels
    def test_what_depends_on_a_modules_weights_alone_is_computed_once(self) -> None:
        """The tensors of the module are those of the plan; other ones, of a class that can change, make another."""

        class Scaled(Module[Any]):
            def __init__(self) -> None:
                self.weight, self.bias = [Param(Tensor[NumPy].normal(shape)) for shape in ((3, 4), (4,))]

            def forward(self, x: Any) -> Any:
                return x @ (self.weight.value * 2.0).softmax(-1) + self.bias.value.sum()

        model, x = Scaled(), Tensor.ones((5, 3), device=NumPy)
        run: Any = compiled(model)
        np.testing.assert_allclose(run(x).to_numpy(), model(x).to_numpy(), rtol=1e-6)
        assert [part.operations for part in run.explain(x).programs] == [("add",)]
        step: Any = compiled(lambda model: model.map(lambda w: w * 3.0), donate=("model",))
        before, changed = run(x), step(model.map(lambda w: w))
        np.testing.assert_allclose(compiled(changed)(x).to_numpy(), changed(x).to_numpy(), rtol=1e-6)
        np.testing.assert_array_equal(run(x).to_numpy(), before.to_numpy())

        class Line:  # which can change
            def __init__(self, slope: Any) -> None:
                self.slope = slope

            def __call__(self, x: Any) -> Any:
                return x * self.slope.exp()

        func.register_tree(Line, lambda line: ((line.slope,), None), lambda children, rest: Line(*children))
        line = Line(Tensor.ones((3,), device=NumPy))
        run = compiled(line)
        assert run(x)[0, 0].item() == pytest.approx(np.e)
        line.slope = line.slope * 2.0
        assert run(x)[0, 0].item() == pytest.approx(np.e**2)

    @needs_kernels
    def test_what_depends_on_a_short_range_alone_is_computed_once(self) -> None:
        """As positions and masks do; a large mask would keep memory that nothing else takes."""

        def f(x: Any) -> Any:
            order = IntTensor[Any].arange(x.shape[1], device=x.device)
            return x * (order <= order.unsqueeze(1)).float().sum(0)

        for size, names in ((5, {"mul"}), (300, {"le", "to_float", "sum", "mul"})):
            x: Any = Tensor.ones((2, size), device=NumPy)
            run: Any = compiled(f)
            np.testing.assert_array_equal(run(x).to_numpy(), f(x).to_numpy())
            plan = run.explain(x)
            found = {name for part in plan.programs for name in part.operations}
            assert found | {part.name for part in plan.operations} == names

    def test_branches_compute_once_what_depends_on_weights_alone(self) -> None:
        class Chosen(Module[Any]):
            def __init__(self) -> None:
                self.weight, self.other = [Param(Tensor[NumPy].normal((3, 4))) for _ in range(2)]

            def forward(self, x: Any, flag: Any) -> Any:
                w, v = self.weight.value, self.other.value

                def inner() -> Any:
                    return func.cond(flag > 1, lambda: x @ w.softmax(-1), lambda: x @ (w * 2.0).softmax(0))

                return func.cond(flag > 0, inner, lambda: x @ (w + v).softmax(0))

        x, flags = Tensor.ones((5, 3), device=NumPy), [Tensor.full((), k, device=NumPy) for k in (0.0, 1.0, 2.0)]
        for _ in range(2):  # modules of their own weights, and of one plan's shapes
            model = Chosen()
            run: Any = compiled(model)
            for flag in flags * 2:
                np.testing.assert_allclose(run(x, flag).to_numpy(), model(x, flag).to_numpy(), rtol=1e-6)
            text = str(run.explain(x, flags[0]))
            assert "softmax" not in text
            assert text.count("matmul") == 3


class TestTrees:
    def test_trees_of_other_structures_have_plans_of_their_own(self) -> None:
        pair = namedtuple("pair", "a b")
        f: Any = compiled(lambda tree, **more: sum([k * x for k, x in enumerate(flatten((tree, more))[0], 1)]))
        x, y, z = tensor(1.0), tensor(10.0), tensor(100.0)
        trees: list[tuple[Any, float]] = [
            ({"a": x, "b": [y, (z, None)]}, 321.0),
            ({"b": x, "a": [y, (z, None)]}, 321.0),
            ({"a": x, "b": (y, (z, None))}, 321.0),
            ({"a": x, "b": [y, (z, None, None)]}, 321.0),
            ((x, y, z), 321.0),
            (pair(x, [y, z]), 321.0),
            ((x, y), 21.0),
        ]
        for tree, expected in trees * 2 + trees[::-1]:
            assert f(tree).item() == f(tree).item() == expected
        assert f((x, y), c=z).item() == f((x, y), c=z).item() == 321.0
        assert len(f.plans) == len(trees) + 1

    def test_weights_of_a_model_that_were_donated_cannot_be_used(self) -> None:
        model, x = Linear(3, 2, device=NumPy), Tensor[NumPy].ones((1, 3))
        run: Any = compiled(model)
        assert run(x).tolist() == run(x).tolist() == model(x).tolist()
        compiled(lambda model: model.map(lambda v: v * 2.0), donate=("model",))(model)
        with pytest.raises(errors.StateError, match="donated"):
            run(x)

    @pytest.mark.parametrize("device", [NumPy, Autodiff[NumPy]])
    def test_plans_keep_no_tensor_of_arguments_and_results_alive(self, device: Any) -> None:
        f: Any = compiled(lambda model, x: (model.map(lambda v: v * 2.0), model(x).sum().detach()))
        model = Sequential(Linear(3, 4, device=device), BatchNorm(4, device=device))
        x = Tensor.ones((5, 3), device=device)

        def arrays(model: Any) -> list[Any]:
            found = [v.value._primitive for v in model.named_params().values()]
            return [weakref.ref(getattr(x, "value", x)) for x in found]

        first = arrays(model)
        new, _ = f(model, x)
        second = arrays(new)
        del model
        new, _ = f(new, x)
        new, total = f(new, x)
        gc.collect()
        assert all(ref() is None for ref in first + second)
        assert len(first) == 4
        assert f(new, x)[1].shape == total.shape == ()
        assert len(f.plans) == 1

    def test_results_of_all_kinds(self) -> None:
        @compiled
        def f(x: Any, index: Any, mask: Any, name: str) -> dict[str, Any]:
            return {"a": (x * 2.0, index + 1), name: [~mask, None, 3], "x": x, "sum": index.sum()}

        x, index, mask = (
            tensor(1.0, 2.0),
            IntTensor[NumPy].from_data([1, 2]),
            BoolTensor[NumPy].from_data([True, False]),
        )
        for _ in range(2):
            out = f(x, index, mask, "b")
            assert out["a"][0].tolist() == [2.0, 4.0]
            assert out["a"][1].tolist() == [2, 3]
            assert out["b"][0].tolist() == [False, True]
            assert out["b"][1:] == [None, 3]
            assert out["x"] is x
            assert out["sum"].item() == 3

    def test_views_and_repeated_results(self) -> None:
        @compiled
        def f(x: Any) -> Any:
            y = x.exp()
            return x.mT, y, y.reshape(-1), y[0], y

        x = Tensor[NumPy].from_data(np.arange(6.0).reshape(2, 3))
        first = f(x)
        values = [t.to_numpy().copy() for t in first]
        second = f(x + 1.0)
        for t, u, value in zip(first, second, values, strict=True):
            np.testing.assert_array_equal(t.to_numpy(), value)  # a later replay does not change earlier results
            assert not np.array_equal(u.to_numpy(), value)

    def test_leaves_stay_leaves(self) -> None:
        @compiled
        def f(x: Any) -> Any:
            return x, (x.detach() * 2.0).require_grad(), (x * 3.0).detach()

        x = Tensor[Train].from_data([1.0]).require_grad()
        for _ in range(2):
            same, leaf, plain = f(x)
            assert same is x
            assert leaf.is_require_grad()
            assert leaf.grad((leaf * leaf).sum().backward()).tolist() == [4.0]
            assert not plain.is_require_grad()
            assert plain.device is Train.device()

    def test_buffers_and_training_mode(self) -> None:
        model = Sequential(Linear(3, 4, device=Train), BatchNorm(4, device=Train), Dropout(0.0))
        x = Tensor[Train].from_data(np.random.default_rng(0).standard_normal((5, 3)).astype("f"))

        @compiled
        def gradients(model: Any, x: Any) -> Any:
            grads = (model(x) ** 2).mean().backward()
            return [p.value.grad(grads) for p in model.params()]

        grads = (model(x) ** 2).mean().backward()
        for p, g in zip(model.params(), gradients(model, x), strict=True):
            np.testing.assert_allclose(g.to_numpy(), grads[p.value].to_numpy(), rtol=1e-4, atol=1e-6)
        valid = model.valid()
        np.testing.assert_allclose(
            compiled(valid)(x.inner()).to_numpy(), valid(x.inner()).to_numpy(), rtol=1e-5, atol=1e-6
        )


class TestRefused:
    @pytest.mark.parametrize(
        "f",
        [
            lambda x: x * 2.0 if x.sum() > 0 else x,
            lambda x: x * x.sum().item(),
            lambda x: x * float(x.sum()),
            lambda x: Tensor[NumPy].from_data(np.sqrt(x.to_numpy())),
            lambda x: x * len(str(x)),
            lambda x: x * max(x.tolist()),
            lambda x: x + np.asarray(x)[0],
            lambda x: [y for y in (1, 2) if bool((x > y).any())],
        ],
    )
    def test_reading_values(self, f: Any) -> None:
        with pytest.raises(errors.RecordingError, match=r"cannot read a tensor's value.*where.*cond"):
            compiled(f)(tensor(1.0, 2.0))

    def test_shapes_that_depend_on_values(self) -> None:
        with pytest.raises(errors.RecordingError, match="shape depends on values"):
            compiled(lambda x: x[x > 0])(tensor(1.0, -2.0))

    def test_results_that_replays_cannot_make(self) -> None:
        for f in (lambda x: iter([x]), lambda x: {x}, lambda x: lambda: x, lambda x: (y for y in (x,))):
            with pytest.raises(errors.KindError, match=r"which its replays cannot make.*register_tree"):
                compiled(f)(tensor(1.0))

    def test_other_devices(self) -> None:
        assert compiled(lambda x: x.to_device(NumPy) * 2.0)(tensor(1.0)).tolist() == [2.0]
        x = Tensor[Train].from_data([1.0])
        out = compiled(lambda x: x.to_device(NumPy) * 2.0)(x)
        assert (out.device, out.tolist()) == (NumPy(), [2.0])
        with pytest.raises(errors.RecordingError, match=r"to_device\(Autodiff\[NumPy\]\).*move it before the call"):
            compiled(lambda x: x.to_device(Train))(tensor(1.0))

    def test_custom_functions_that_leave_the_backend(self) -> None:
        class Sine(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return Tensor.from_data(np.sin(x.to_numpy()), device=x.device)  # the line

        with pytest.raises(errors.RecordingError, match=r"cannot read a tensor's value(.|\n)*the line"):
            compiled(lambda x: Sine.apply(x))(tensor(1.0))

    def test_modules_and_optimizers_that_change(self) -> None:
        model, optim, x = Linear(2, 1, device=Train), Adam(), Tensor[Train].ones((1, 2))

        @compiled
        def assigned(model: Any, x: Any) -> Any:
            model.weight = model.weight
            return model(x)

        with pytest.raises(errors.ImmutableError, match="modules never change"):
            assigned(model, x)
        with pytest.raises(errors.RecordingError, match=r"Adam.step\(\) was called in a compiled.*pure_step"):
            compiled(lambda m, x: optim.step(0.1, m, m(x).sum().backward()))(model, x)

    def test_the_line_is_named(self) -> None:
        def step(x: Any) -> Any:
            return x * x.mean().item()  # the line

        with pytest.raises(errors.RecordingError, match="the line"):
            compiled(step)(tensor(1.0))

    def test_results_that_are_still_to_be_differentiated(self) -> None:
        x = Tensor[Train].from_data([1.0]).require_grad()
        with pytest.raises(errors.RecordingError, match=r"still to be differentiated; call backward\(\) inside"):
            compiled(lambda x: (x * x).sum())(x)
        with pytest.raises(errors.RecordingError, match="computed from tracked ones"):
            compiled(lambda x: (x * x).detach())(x * 2.0)

    def test_closing_over_tracked_tensors(self) -> None:
        w = Tensor[Train].from_data([1.0]).require_grad()
        x = Tensor[Train].from_data([2.0])
        with pytest.raises(errors.RecordingError, match="closes over a tensor of shape"):
            compiled(lambda x: x * w)(x)
        assert compiled(lambda x: x * w.detach())(x).tolist() == [2.0]

    def test_escaped_tensors(self) -> None:
        kept: Any = queue.SimpleQueue()  # whose contents cannot be compared

        def f(x: Any) -> Any:
            kept.put(x * 2.0)
            return x

        compiled(f, captured="constant")(tensor(1.0))
        with pytest.raises(errors.EscapedError, match="return the tensor from the function"):
            kept.get() + 1.0

    def test_wrong_arguments(self) -> None:
        with pytest.raises(errors.KindError, match=r"got a NumPy array of shape \(2,\)"):
            compiled(lambda x: x)(np.ones(2))
        with pytest.raises(errors.KindError, match=r"at least one tensor, .*, and got "):
            compiled(lambda x: x)(1.0)
        with pytest.raises(errors.KindError, match=r"func\.register_tree\(SimpleNamespace, "):
            compiled(lambda x: x.a)(SimpleNamespace(a=Tensor[NumPy].ones((2,))))
        with pytest.raises(errors.KindError, match="takes a function"):
            compiled(tensor(1.0))  # type: ignore[call-overload]  # the mistake
        with pytest.raises(errors.ArgumentError, match="'y', which is no positional parameter"):
            compiled(lambda x: x, donate=("y",))
        with pytest.raises(errors.ArgumentError, match="takes a tuple of names"):
            compiled(lambda x: x, donate="x")  # type: ignore[call-overload]  # the mistake

    def test_index_errors_are_raised_by_the_replay(self) -> None:
        f = compiled(lambda x, i: x.index_select(0, i))
        x = tensor(1.0, 2.0)
        assert f(x, IntTensor[NumPy].from_data([1])).tolist() == [2.0]
        with pytest.raises(errors.IndexRangeError, match="index 5"):
            f(x, IntTensor[NumPy].from_data([5]))
        assert f(x, IntTensor[NumPy].from_data([0])).tolist() == [1.0]

    def test_check_finds_what_depends_on_something_else(self) -> None:
        counter = itertools.count()
        step = lambda x: x * float(next(counter))  # noqa: E731
        with pytest.raises(errors.RecordingError, match="depends on something else"):
            compiled(step, check=True, captured="constant")(tensor(1.0))
        noise = lambda x: x + Tensor[NumPy].from_data(np.frombuffer(os.urandom(2), np.uint8).astype("f"))  # noqa: E731
        with pytest.raises(errors.RecordingError, match="depends on something else"):
            compiled(noise, check=True, captured="constant")(tensor(1.0, 2.0))
        assert compiled(lambda x: x * 2.0, check=True)(tensor(1.0)).tolist() == [2.0]


@every_row("name", WRONG_VALUES)
def test_values_are_refused_as_in_eager_mode(name: str) -> None:
    f, good, wrong = WRONG_VALUES[name]
    with pytest.raises(errors.ArgumentError) as eager:
        f(wrong)
    plan, both = compiled(f), burnpy.stack([good, wrong])
    for result in (plan(good), func.vmap(f)(burnpy.stack([good, good]))[1]):  # of the argument alone, f has constants
        np.testing.assert_allclose(result.to_numpy(), f(good).to_numpy(), rtol=1e-6)
    for g, x in ((plan, wrong), (compiled(f), wrong), (func.vmap(f), both), (compiled(func.vmap(f)), both)):
        with pytest.raises(errors.ArgumentError, match=re.escape(str(eager.value))):
            g(x)


class TestRandomness:
    def test_draws_advance_as_in_eager_mode(self) -> None:
        def f(x: Any) -> Any:
            return x + Tensor.normal(x.shape, device=x.device), x * Tensor.uniform(x.shape, device=x.device)

        x, plan = tensor(1.0, 2.0, 3.0), compiled(f)
        manual_seed(0)
        expected = [[t.tolist() for t in f(x)] for _ in range(3)]
        manual_seed(0)
        assert [[t.tolist() for t in plan(x)] for _ in range(3)] == expected
        manual_seed(0)  # a new default generator
        assert [t.tolist() for t in plan(x)] == expected[0]

    def test_a_generator_is_an_argument(self) -> None:
        f = compiled(lambda x, g: x + Tensor.normal((2,), generator=g, device=x.device))
        x = tensor(0.0, 0.0)
        eager = Tensor[NumPy].normal((2,), generator=Generator(7)).tolist()
        assert f(x, Generator(7)).tolist() == eager
        g = Generator(7)
        state = g.get_state()
        assert f(x, g).tolist() == eager
        g.set_state(state)
        assert f(x, g).tolist() == eager
        assert len(f.plans) == 1

    def test_other_sources_are_refused(self) -> None:
        g, x = Generator(0), tensor(1.0)
        with pytest.raises(errors.RecordingError, match="generator that it closes over"):
            compiled(lambda x: x + Tensor.normal((1,), generator=g, device=x.device))(x)
        with pytest.raises(errors.RecordingError, match="outside of the compiled function"):
            compiled(lambda x: x + Tensor[NumPy].normal((1,)))(x)

    def test_dropout(self) -> None:
        layer = Dropout(0.5)
        x = Tensor[Train].ones((1000,))
        f = compiled(lambda x: layer(x))
        manual_seed(3)
        expected = [layer(x).tolist() for _ in range(2)]
        manual_seed(3)
        assert [f(x).tolist() for _ in range(2)] == expected


class TestLayouts:
    @needs_kernels
    def test_products_by_matrices_whose_columns_lie_together_read_them_as_they_are(self) -> None:
        rng = np.random.default_rng(0)
        weight = Tensor[NumPy].from_data(readonly(rng.normal(size=(5, 3))).T, copy=False)
        x, bias = (Tensor[NumPy].from_data(rng.normal(size=shape)) for shape in ((2, 4, 3), (5,)))

        def layer(x: Any, w: Any, b: Any) -> Any:
            hidden = linear(x, w, b)
            return hidden, hidden @ w.T, x[0] @ w

        f = compiled(layer)
        for found, expected in zip(f(x, weight, bias), layer(x, weight, bias), strict=True):
            np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-12)
        assert "matmul_nt" in str(f.plans[0])
        steps: Any = lambda w, x, y: func.scan(lambda c, row: (c @ w + row, c.sum()), x, y)  # noqa: E731
        square = Tensor[NumPy].from_data(readonly(rng.normal(size=(3, 3))).T, copy=False)
        looped, expected = compiled(steps)(square, x[0], x[0]), steps(square, x[0], x[0])
        np.testing.assert_allclose(looped[0].to_numpy(), expected[0].to_numpy(), rtol=1e-12)
        for found, expected in zip(f(x, weight + 0.0, bias), layer(x, weight, bias), strict=True):
            np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-12)


class TestDonation:
    @needs_kernels
    def test_memory_is_reused_and_the_tensor_is_gone(self) -> None:
        f = compiled(lambda x, y: (x * 2.0 + y, y * 1.0), donate=("x",))
        y = Tensor[NumPy].ones((1000,))
        x = f(Tensor[NumPy].ones((1000,)), y)[0]
        address = x._primitive.ctypes.data
        out = f(x, y)[0]
        assert out._primitive.ctypes.data == address
        assert out.tolist() == [7.0] * 1000
        with pytest.raises(errors.StateError, match="was donated to"):
            x + 1.0
        with pytest.raises(errors.StateError, match="was donated to"):
            f(x, y)

    def test_shared_memory_is_not_overwritten(self) -> None:
        f = compiled(lambda x: x * 2.0, donate=("x",))
        x = f(Tensor[NumPy].ones((10,)))
        seen = x.to_numpy()
        out = f(x)
        assert seen.tolist() == [2.0] * 10
        assert out.tolist() == [4.0] * 10

    def test_arguments_by_name(self) -> None:
        f = compiled(lambda x, y: x * 2.0 + y, donate=("x",))
        x, y = tensor(1.0), tensor(2.0)
        assert f(y=y, x=x).tolist() == [4.0]
        assert y.tolist() == [2.0]
        with pytest.raises(errors.StateError, match="was donated to"):
            x + 1.0

    @needs_kernels
    @pytest.mark.parametrize("dim", [0, 1])
    def test_an_indexed_update_writes_into_donated_memory(self, dim: int) -> None:
        key = (slice(None),) * dim
        update: Any = lambda x, i, y: x.at[(*key, i)].set(y)  # noqa: E731
        f, index = compiled(update, donate=("x",)), IntTensor[NumPy].from_data([2, 0, 2])
        x = f(Tensor[NumPy].ones((3, 3)), index, Tensor[NumPy].zeros((3, 3)))
        values = Tensor.normal((3, 3), generator=Generator(0), device=NumPy)
        address, expected = x._primitive.ctypes.data, update(x + 0.0, index, values).tolist()
        out = f(x, index, values)
        assert out._primitive.ctypes.data == address
        assert out.tolist() == expected
        kept = out.to_numpy()
        assert f(out, index, out + 0.0)._primitive.ctypes.data != address
        assert kept.tolist() == expected

    def test_an_indexed_update_of_a_donated_argument_by_itself(self) -> None:
        f = compiled(lambda x, i: x.at[i].set(x.T), donate=("x",))
        index, x = IntTensor[NumPy].from_data([1, 0]), Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        assert f(x + 0.0, index).tolist() == [[2.0, 4.0], [1.0, 3.0]]

    def test_a_result_that_is_the_argument(self) -> None:
        f = compiled(lambda x, y: (x, y + 1.0), donate=("x",))
        x = tensor(1.0)
        assert f(x, tensor(2.0))[0] is x
        assert x.tolist() == [1.0]

    def test_a_result_that_is_several_arguments(self) -> None:
        f = compiled(lambda model, average: (model, average.update(model)), donate=("model", "average"))
        model: Any = Sequential(Linear(2, 2, device=NumPy), BatchNorm(2, device=NumPy)).no_grad("0")
        average = Ema(model)
        for count in range(1, 4):
            model, average = f(model, average)
            assert (average.updates.item(), average.model[0].weight.value.shape) == (count, (2, 2))


class TestComposition:
    def test_transforms(self) -> None:
        f: Any = lambda x: (x.sin() * x).sum()  # noqa: E731
        x = tensor(0.5, 1.0)
        hessian = func.hessian(f)(x).to_numpy()
        np.testing.assert_allclose(compiled(func.hessian(f))(x).to_numpy(), hessian, rtol=1e-6)
        np.testing.assert_allclose(func.hessian(compiled(f))(x).to_numpy(), hessian, rtol=1e-6)
        np.testing.assert_allclose(compiled(compiled(f))(x).item(), f(x).item(), rtol=1e-6)
        tangent = func.jvp(f, (x,), (x,))[1].item()
        assert compiled(lambda x: func.jvp(f, (x,), (x,))[1])(x).item() == pytest.approx(tangent)

    def test_batches_and_higher_derivatives(self) -> None:
        f: Any = lambda x: (x.sin() * x).sum()  # noqa: E731
        fourth: Any = lambda x: x**4  # noqa: E731
        x = Tensor[NumPy].from_data(np.random.default_rng(0).standard_normal((3, 4)))
        for name, plan, eager, argument in (
            ("compiled(vmap)", compiled(func.vmap(f)), func.vmap(f), x),
            ("vmap(compiled)", func.vmap(compiled(f)), func.vmap(f), x),
            ("of gradients", compiled(func.vmap(func.grad(f))), func.vmap(func.grad(f)), x),
            ("of second ones", compiled(func.vmap(func.hessian(f))), func.vmap(func.hessian(f)), x),
            ("grad(compiled)", func.grad(compiled(f)), func.grad(f), x),
            ("jacfwd", compiled(func.jacfwd(lambda x: x.sin() * x)), func.jacfwd(lambda x: x.sin() * x), x[0]),
            (
                "third",
                compiled(func.grad(func.grad(func.grad(fourth)))),
                func.grad(func.grad(func.grad(fourth))),
                x[0, 0],
            ),
        ):
            for _ in range(2):
                np.testing.assert_allclose(
                    plan(argument).to_numpy(), eager(argument).to_numpy(), rtol=1e-9, atol=1e-12, err_msg=name
                )

    @pytest.mark.parametrize(
        "device", [Balanced[NumPy], Mixed[NumPy], Checked[NumPy], Profiled[NumPy], Balanced[Mixed[NumPy]]], ids=str
    )
    def test_training_steps_on_decorated_backends(self, device: Any) -> None:
        on: Any = Autodiff[device]
        optim, model = Adam(), Sequential(Linear(4, 8, device=on), Gelu(), Linear(8, 2, device=on))
        x = Tensor.from_data(np.random.default_rng(0).standard_normal((3, 4)).astype("f"), device=on)

        def step(model: Any, state: Any, x: Any) -> Any:
            loss = model(x).square().mean()
            return (*optim.pure_step(0.1, model, loss.backward(), state), loss.detach())

        plan = compiled(step)
        eager = replayed = (model, optim.init(model))
        for _ in range(3):
            *eager, expected = step(*eager, x)
            *replayed, loss = plan(*replayed, x)
            assert loss.device is on.device()
            assert loss.item() == pytest.approx(expected.item(), rel=1e-5)

    def test_nested_tracking(self) -> None:
        twice = Autodiff[Autodiff[NumPy]]

        def f(x: Any) -> Any:
            g = x.grad((x**3).sum().backward())
            return x.inner().grad(g.sum().backward())

        x = Tensor[twice].from_data([1.0, 2.0]).require_grad()
        assert compiled(f)(x).tolist() == f(x).tolist() == [6.0, 12.0]

    def test_decorated_backends(self) -> None:
        x = np.random.default_rng(0).standard_normal((8, 8)).astype("f")
        for device in (Mixed[NumPy], Checked[NumPy], Autodiff[Mixed[NumPy]], Autodiff[Checked[NumPy]]):
            t = Tensor.from_data(x, device=device)
            f: Any = lambda t: (t @ t.mT).relu().mean(dim=0)  # noqa: E731
            np.testing.assert_allclose(compiled(f)(t).to_numpy(), f(t).to_numpy(), rtol=1e-6)
        bad = Tensor[Checked[NumPy]].from_data([-1.0])
        f = compiled(lambda t: t.sqrt())
        f(bad * -1.0)
        with pytest.raises(errors.NonFiniteError):
            f(bad)

    def test_devices(self) -> None:
        x, y = Tensor[Train].from_data([1.0]), tensor(2.0)
        with pytest.raises(errors.DeviceError, match="got tensors on"):
            compiled(lambda x, y: x + y)(x, y)
        assert compiled(lambda x, y: (x * 2.0, y * 2.0))(x, y)[1].tolist() == [4.0]


class TestThreads:
    def test_two_threads_on_one_plan(self) -> None:
        f = compiled(lambda x: ((x.exp() @ x).tanh() * x).sum(dim=1).softmax(0))
        inputs = [Tensor[NumPy].from_data(np.random.default_rng(k).standard_normal((64, 64))) for k in range(8)]
        expected = [f(x).to_numpy() for x in inputs]
        wrong: list[int] = []

        def work(k: int) -> None:
            for _ in range(200):
                if not np.array_equal(f(inputs[k]).to_numpy(), expected[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_an_error_amid_a_replay(self) -> None:
        f = compiled(lambda x, i: (x.exp() * 2.0).index_select(0, i) + 1.0)
        x, fine = tensor(0.0, 1.0), IntTensor[NumPy].from_data([0])
        before = f(x, fine).tolist()
        for _ in range(3):
            with pytest.raises(errors.IndexRangeError):
                f(x, IntTensor[NumPy].from_data([9]))
            assert f(x, fine).tolist() == before

    def test_an_exception_of_a_signal_handler(self) -> None:
        f = compiled(lambda x: ((x.exp() @ x).tanh() * x).sum(dim=1).softmax(0))
        x = Tensor[NumPy].from_data(np.random.default_rng(0).standard_normal((128, 128)))
        expected = f(x).to_numpy()

        def stop(number: int, frame: Any) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        try:
            for k in range(30):
                with contextlib.suppress(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, 1e-3 + 1e-4 * k)
                    while True:
                        assert np.array_equal(f(x).to_numpy(), expected)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        np.testing.assert_array_equal(f(x).to_numpy(), expected)

    def test_threads_that_record_at_once_share_a_plan(self) -> None:
        f = compiled(lambda x: (x * 2.0).exp().sum())
        x, results = tensor(0.5, 1.0), list[float]()
        threads = [threading.Thread(target=lambda: results.append(f(x).item())) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [f(x).item()] * 6
        assert len(f.plans) == 1

    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_fork(self) -> None:
        f = compiled(lambda x: (x.exp() @ x).sum(dim=1))
        x = Tensor[NumPy].ones((64, 64))
        expected = f(x).to_numpy()
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(f(x).to_numpy(), expected) else 1)
        assert os.waitpid(child, 0)[1] == 0
        np.testing.assert_array_equal(f(x).to_numpy(), expected)


@compiled
def doubled(x: Any) -> Any:
    return x * 2.0


def test_copies_and_pickles() -> None:
    assert copy.copy(doubled) is copy.deepcopy(doubled) is doubled
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    model: Any = compiled(Linear(2, 2, device=NumPy))
    x = Tensor[NumPy].ones((1, 2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(x).to_numpy(), model(x).to_numpy())


def test_a_leaf_that_is_several_arguments_has_the_gradient_of_all() -> None:
    """Gradients belong to leaves: as in eager mode, a tracked tensor in two arguments is one leaf."""
    x, y = (Tensor[Train].from_data([k, 2.0]).require_grad() for k in (1.0, 3.0))

    def slopes(a: Tensor[Train], b: Tensor[Train], more: dict[str, Tensor[Train]]) -> list[Any]:
        grads = (a * b * b * more["c"]).sum().backward()
        return [t.grad(grads) for t in (a, b, more["c"])]

    step = compiled(slopes)
    for a, b, c in itertools.product((x, y, x), (x, y), (x, y)):
        found = [g.tolist() for g in step(a, b, {"c": c})]
        assert found == [g.tolist() for g in slopes(a, b, {"c": c})]
    assert len(step.plans) == 4  # all are one leaf, one of them is another, and by the guard of the last plan

    model, data = Linear(2, 2, device=Train), Tensor[Train].ones((3, 2))

    def against(model: Linear[Train], teacher: Linear[Train]) -> Any:
        return GradientsParams.from_grads((model(data) * teacher(data)).sum().backward(), model)

    expected = against(model, model)[model.weight]
    assert compiled(against)(model, model)[model.weight].allclose(expected)


WITH_NUMBERS: dict[str, Any] = {
    "a product": lambda x, k: (x.sum() * k, k * x[0], k - x[0], x[0] ** (k * k)),
    "a comparison": lambda x, k: (x[0] == k, x.sum() > k, x[0].maximum(k)),
    "vmap": lambda x, k: func.vmap(lambda a: a.sin() * k)(x),
    "gradients": lambda x, k: (func.grad(lambda a: (a * a).sum() * k)(x), func.jvp(lambda a: a * k, (x[0],), (x[1],))),
    "loops": lambda x, k: (func.while_loop(lambda s: s < 9.0 * k, lambda s: s / k, x[1]), func.scan(
        lambda c, a: (c * k, a + k), x[0], x)),
    "a branch": lambda x, k: func.cond(x[0] > k, lambda a: a * k, lambda a: a - k, x[0]),
    "draws": lambda x, k: (Tensor.normal((2,), k, 1.0, device=x.device), Tensor.gamma((2,), k, x[1])),
    "a filled tensor": lambda x, k: (x.full_like(k), x.full_like(k, dtype="float64"), x.add(x, alpha=k),
        Tensor.full((2, 3), k, device=x.device), Tensor.full((), k, dtype="float16", device=x.device)),
    "scatter": lambda x, k: x.scatter(0, IntTensor.from_data([1], device=x.device), k),
    "ints": lambda x, k: (k / (x > 1.0).int().add(1), (x > 1.0).int() / k, x.argmax() / k, (x > 1.0).int().div(k)),
    "numbers of a mask": lambda x, k: (burnpy.where(x > 1.0, k, -k), burnpy.where(x > 1.0, 1, k), x.where(x > 1.0, k)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_float_argument_promotes_no_tensor(name: str, dtype: str) -> None:
    """It is a 0-d tensor in the recording, and would promote 0-d tensors of other dtypes as such."""
    x, f = Tensor[NumPy].from_data([0.1, 2.0], dtype=dtype), WITH_NUMBERS[name]
    results = []
    for way in (f, compiled(f)):
        manual_seed(3)
        results.append(flatten(way(x, 0.1))[0])
    for expected, found in zip(*results, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert np.allclose(found.to_numpy(), expected.to_numpy(), rtol=0.01 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("number", [np.float16, np.float32, np.float64])
def test_numpy_numbers_are_arguments_as_python_numbers(number: type[Any]) -> None:
    """One plan for all floats, and one for each int and bool."""
    f = compiled(lambda x, k, n, flag: x * k if flag else x + n)
    x = Tensor[NumPy].from_data([0.5, 2.0])
    for k in (1.5, 2.0, -0.5):
        for flag in (True, np.True_):
            assert f(x, number(k), np.int32(3), flag).tolist() == [0.5 * k, 2.0 * k]
    assert len(f.plans) == 1
    assert f(x, number(1.5), np.int64(4), np.False_).tolist() == f(x, 1.5, 4, False).tolist() == [4.5, 6.0]
    assert len(f.plans) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_float_argument_beside_complex_numbers(dtype: str) -> None:
    def f(z: ComplexTensor[NumPy], k: float) -> Any:
        return (
            z * k,
            k * z + k,
            z - k,
            k - z,
            z / k,
            k / z,
            z[0] * k,
            z == k,
            z.where(z.real > 1.0, k),
            burnpy.where(z.real > 1.0, k, 1j),
        )

    x = Tensor[NumPy].from_data([0.1, 2.0], dtype=dtype)
    z = burnpy.complex(x, -x)
    for expected, found in zip(f(z, 0.1), compiled(f)(z, 0.1), strict=True):
        assert (type(found), found.dtype, found.shape) == (type(expected), expected.dtype, expected.shape)
        assert np.allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-6)


@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_a_choice_of_numbers_has_their_dtype(wide: str) -> None:
    """In one kernel with a comparison of arrays of another dtype."""
    x = Tensor[NumPy].from_data([[0.1, 2.0], [-1.0, 3.0]])
    a, b = (Tensor[NumPy].full((), k, dtype=wide) for k in (0.1, -0.3))

    def f(x: Tensor[NumPy], a: Tensor[NumPy], b: Tensor[NumPy]) -> Any:
        return burnpy.where(x > 0.5, a, b), burnpy.where(x > a, x * a, b), (x * a).exp() + b

    for expected, found in zip(f(x, a, b), compiled(f)(x, a, b), strict=True):
        assert found.dtype == expected.dtype
        assert np.allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-6)


def test_a_comparison_of_a_float_argument_chooses() -> None:
    """A comparison of numbers is on their device; it is a condition for tensors of all other devices."""

    def f(x: Tensor[NumPy], k: float) -> Any:
        more: Any = k > 1.0
        return (
            burnpy.where(more, x, -x),
            func.cond(more, lambda a: a, lambda a: a * 3.0, x),
            func.grad(lambda a: burnpy.where(more, a, -a).sum())(x),
            (x > 0.0) & more,
        )

    step, x = compiled(f), Tensor[NumPy].from_data([2.0, -1.0])
    assert [y.tolist() for y in step(x, 2.0)] == [[2.0, -1.0], [2.0, -1.0], [1.0, 1.0], [True, False]]
    assert [y.tolist() for y in step(x, 0.5)] == [[-2.0, 1.0], [6.0, -3.0], [-1.0, -1.0], [False, False]]
    assert len(step.plans) == 1


OUTSIDE: dict[str, Any] = {
    "vmap": lambda x, c: func.vmap(lambda a: a * x)(c),
    "grad": lambda x, c: func.grad(lambda w: (w * x).sin().sum())(c),
    "jvp": lambda x, c: func.jvp(lambda w: w * x, (c,), (c,))[1],
    "vjp": lambda x, c: func.vjp(lambda w: w * x, c)[1](c)[0],
    "linearize": lambda x, c: func.linearize(lambda w: w.sin() * x, c)[1](c),
    "hessian": lambda x, c: func.hessian(lambda w: (w * x).sin().sum())(c),
    "jacrev": lambda x, c: func.jacrev(lambda w: (w * x).sin())(c),
    "minimize": lambda x, c: func.minimize(lambda w: (w - x).square().sum(), c).x,
    "cg": lambda x, c: func.cg(lambda w: w * (x * x + 1.0), c).x,
    "while_loop": lambda x, c: func.while_loop(lambda s: s.sum() < 9.0, lambda s: s + x * x + 0.1, c),
    "grad in vmap": lambda x, c: func.vmap(lambda a: func.grad(lambda w: (w * x * a).sin().sum())(x))(c),
    "grad in scan": lambda x, c: func.scan(
        lambda h, v: (h + func.grad(lambda w: (w * v).sin().sum())(c).sum(), h), x[0], x)[0],
    "vmap in cond": lambda x, c: func.cond(
        x.sum() > 0.0, lambda a: func.vmap(lambda b: b * a)(c), lambda a: func.vmap(lambda b: b - a)(c), x[0]),
    "a cotangent of scan": lambda x, c: func.vjp(
        lambda x: func.scan(lambda h, v: ((h + v).sin(), h * v), x[0], x)[1], x)[1](c)[0],
    "a cotangent of cond": lambda x, c: func.vjp(
        lambda x: func.cond(x.sum() > 0.0, lambda a: a.sin(), lambda a: a * a, x), x)[1](c)[0],
    "a cotangent of while_loop": lambda x, c: func.vjp(
        lambda x: func.while_loop(lambda s: s.sum() < 9.0, lambda s: s * 1.5 + 1.0, x), x)[1](c)[0],
    "cotangents under vmap": lambda x, c: func.vmap(func.vjp(lambda x: x.sin() * x.sum(), x)[1])(c.diag())[0],
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_derivatives_and_batches_by_tensors_from_outside(name: str) -> None:
    """They are on a device of the recording, as what else the function computes with."""
    x, c = (Tensor[NumPy].from_data(row, dtype="float64") for row in ([0.4, -0.2, 0.9], [0.3, 0.5, 0.7]))
    f = OUTSIDE[name]
    step = compiled(lambda x: f(x, c))
    for y in (x, x * 1.1, -x):
        assert step(y).allclose(f(y, c), rtol=1e-6)
    assert len(step.plans) == 1


def test_a_backward_pass_from_a_gradient_from_outside() -> None:
    weights = Tensor[NumPy].from_data([1.0, 10.0])
    step = compiled(lambda x: (x * x).backward(weights)[x])
    assert step(Tensor[Train].from_data([3.0, 4.0]).require_grad()).tolist() == [6.0, 80.0]
