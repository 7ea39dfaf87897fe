"""Operands that broadcast and promote, each alone, in both modes and for any number of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import Forward
from burnpy.autodiff.autodiff import MethodAtFirstUse, autodiff_method
from burnpy.autodiff.forward_methods import forward_method
from burnpy.autodiff.rule_table import RULES, rule_of
from burnpy.backend import Algebra, Backend, NumPy, Operation, operations
from burnpy.backend.dtypes import float64
from burnpy.backend.entries import operation
from burnpy.backend.primitives import Bool, Float, Scalar
from burnpy.backend.schema import derived
from burnpy.tensor.tensor_base import new_tensor
from burnpy.testing import gradcheck, gradgradcheck
from burnpy.testing.cases import ROWS
from tests.rows import every_row

NARROW: tuple[tuple[int, ...], ...] = ((3,), (2, 1), (1, 1), ())
"""The shapes of the one operand that is broadcast to (2, 3)."""


SEVERAL = [op for op in operations().values() if op.elementwise and len(op.arguments) > 1]
"""Operations with operands that broadcast to each other."""


@every_row("op", [op for op in SEVERAL if op.name in ROWS and ROWS[op.name].gradients], ids=lambda op: op.name)
def test_each_operand_is_broadcast_alone(op: Operation) -> None:
    """In examples of the conformance suite, which checks first and second derivatives of them."""
    operands = [k for k, a in enumerate(op.arguments) if a.elementwise]
    for k in operands if len(operands) > 1 else []:
        shapes = [[getattr(e[j], "shape", None) for j in operands] for e in ROWS[op.name].examples.values()]
        for narrow in ((3,), (2, 1)):
            alone = [narrow if j == k else (2, 3) for j in operands]
            assert alone in shapes, f"no example of {op.name} broadcasts its argument {op.arguments[k].name} alone"


# An operation of three floats and a mask, where the last may be a number: x + weight * (end - x), 0 where masked


def remaining(i: Any, weight: Any) -> Any:
    return 1.0 - weight if isinstance(weight, float) else i.add(i.neg(weight), 1.0)


LERP_VJPS = (
    lambda i, g, keep, weight: i.where(keep, i.mul(g, remaining(i, weight)), 0.0),
    lambda i, g, keep, weight: i.where(keep, i.mul(g, weight), 0.0),
    lambda i, g, keep, x, end: i.where(keep, i.mul(g, i.sub(end, x)), 0.0),
)


@derived(Algebra.POINTWISE, vjp=LERP_VJPS)
def lerp(self: Any, keep: Bool, x: Float, end: Float, weight: Float | Scalar) -> Float:
    """Interpolate from x to end, where ``keep`` is true; 0 elsewhere."""
    return self.where(keep, self.add(x, self.mul(self.sub(end, x), weight)), 0.0)


@pytest.fixture
def interpolate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Add `lerp` to the backends for one test, and return it as a function of tensors."""
    monkeypatch.setattr(Backend, "lerp", lerp, raising=False)
    monkeypatch.setattr(Autodiff, "lerp", MethodAtFirstUse("lerp", autodiff_method), raising=False)
    monkeypatch.setattr(Forward, "lerp", MethodAtFirstUse("lerp", forward_method), raising=False)

    monkeypatch.setitem(RULES, "lerp", rule_of(operation(lerp)))

    def of_tensors(keep: Any, x: Any, end: Any, weight: Any) -> Any:
        device = x.device
        arguments = [a._primitive if isinstance(a, Tensor) else a for a in (x, end, weight)]
        return new_tensor(Tensor, device, device.lerp(keep, *arguments))

    return of_tensors


def x64(*shape: int, seed: int = 0) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(np.random.default_rng(seed).uniform(0.2, 0.8, shape))


KEEP = np.array([[True, False, True], [False, True, True]])


@pytest.mark.slow
@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("which", [0, 1, 2, 3, None])
def test_three_floats_and_a_mask(interpolate: Any, which: int | None, narrow: tuple[int, ...]) -> None:
    """``which`` is broadcast; None: the mask alone is not."""
    shapes = [narrow if which in (k, None) else (2, 3) for k in range(3)]
    keep = np.ones(narrow, np.bool_) if which == 3 else KEEP
    inputs = [x64(*shape, seed=k) for k, shape in enumerate(shapes)]
    x, end, weight = (t.to_numpy() for t in inputs)
    out = interpolate(keep, *inputs)
    np.testing.assert_allclose(out.to_numpy(), np.where(keep, x + weight * (end - x), 0.0), rtol=1e-14)
    assert gradcheck(lambda *xs: interpolate(keep, *xs), inputs)
    assert gradgradcheck(lambda *xs: interpolate(keep, *xs), inputs)


@pytest.mark.parametrize("wide", [0, 1, 2])
def test_one_float_is_larger_than_all_others(interpolate: Any, wide: int) -> None:
    """So that the tangent by another is smaller than the result."""
    inputs = [x64(*((2, 3) if k == wide else (3,)), seed=k) for k in range(3)]
    assert gradcheck(lambda *xs: interpolate(KEEP[0], *xs), inputs)
    assert gradgradcheck(lambda *xs: interpolate(KEEP[0], *xs), inputs)


@pytest.mark.parametrize("narrow", [(2, 3), *NARROW])
def test_the_last_may_be_a_number(interpolate: Any, narrow: tuple[int, ...]) -> None:
    inputs = [x64(*narrow), x64(2, 3, seed=1)]
    assert gradcheck(lambda x, end: interpolate(KEEP, x, end, 0.25), inputs)
    assert gradgradcheck(lambda x, end: interpolate(KEEP, x, end, 0.25), inputs)
    end: Any = inputs[1]._primitive
    assert gradcheck(lambda x: interpolate(KEEP, x, x._like(x.device.lift(end)), 0.25), inputs[:1])


@pytest.mark.parametrize("device", [Autodiff(NumPy()), Forward(NumPy()), Autodiff(Autodiff(NumPy()))])
@pytest.mark.parametrize("wide", [0, 1, 2])
def test_three_floats_promote(interpolate: Any, device: Any, wide: int) -> None:
    """To the widest dtype of those with dimensions; each gradient has its argument's dtype."""
    dtypes = ["float64" if k == wide else "float32" for k in range(3)]
    inputs = [Tensor.from_data(x64(2, 3, seed=k).to_numpy(), dtype=dtypes[k], device=device) for k in range(3)]
    if isinstance(device, Forward):
        for k in range(3):
            duals = [t._primitive for t in inputs]
            duals[k] = device.dual(duals[k].value, np.ones((2, 3), dtypes[k]))
            out = device.lerp(KEEP, *duals)
            assert out.dtype == out.tangent.dtype == "float64"
        return
    leaves = [t.require_grad() for t in inputs]
    out = interpolate(KEEP, *leaves)
    assert out.dtype == "float64"
    grads = out.sum().backward()
    assert [grads[leaf].dtype for leaf in leaves] == dtypes
    numbers = [Tensor.from_data(0.5, dtype="float64", device=device)] * 2
    assert interpolate(KEEP, leaves[0], *numbers).dtype == dtypes[0], "0-d tensors do not promote"


def test_a_result_knows_its_shape_and_the_graph_its_arguments(interpolate: Any) -> None:
    device: Any = Autodiff(NumPy())
    x, end, weight = (Tensor.from_data(x64(*s).to_numpy(), device=device).require_grad() for s in ((2, 3), (3,), ()))
    out = interpolate(KEEP, x, end, weight)
    assert out._primitive.meta == ((2, 3), float64)
    assert list(out.grad_fn.saved) == ["keep", "weight", "end_shape", "weight_shape", "x", "end"]
    assert [view.shape for view in out.grad_fn.next_functions] == [(2, 3), (3,), ()]
