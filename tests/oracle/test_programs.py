"""Random programs of many operations: values, gradients and second derivatives are PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from tests.oracle.closeness import assert_close
from tests.oracle.programs import STEPS, Ours, Program, Step, Theirs, program

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

Twice = Autodiff[Autodiff[NumPy]]


def theirs(p: Program) -> tuple[Any, list[Any], list[Any]]:
    """The value, the gradients, and the derivatives of the gradients along the program's directions."""
    leaves = [torch.tensor(x, requires_grad=True) for x in p.inputs]
    value = p.run(Theirs(torch), leaves, torch.tensor(p.weights))
    grads = torch.autograd.grad(value, leaves, create_graph=True, materialize_grads=True)
    along = sum((g * torch.tensor(d)).sum() for g, d in zip(grads, p.directions, strict=True))
    if not along.requires_grad:
        return value, list(grads), [torch.zeros_like(x) for x in leaves]
    return value, list(grads), list(torch.autograd.grad(along, leaves, materialize_grads=True))


def ours(p: Program) -> tuple[Any, list[Any], list[Any]]:
    """The same by reverse over reverse mode."""
    leaves = [Tensor[Twice].from_data(x).require_grad() for x in p.inputs]
    value = p.run(Ours(Twice.device()), leaves, Tensor[Twice].from_data(p.weights))
    first = value.backward()
    below = [x.inner() for x in leaves]
    grads = [first.get(x, b.detach() * 0.0) for x, b in zip(leaves, below, strict=True)]
    along = sum(
        ((g * Tensor[Autodiff[NumPy]].from_data(d)).sum() for g, d in zip(grads, p.directions, strict=True)),
        Tensor[Autodiff[NumPy]].from_data(0.0, dtype="float64"),
    )
    second = along.backward() if along.is_require_grad() else {}
    return value, grads, [second.get(b, b.detach().inner() * 0.0) for b in below]


def compare(p: Program) -> None:
    named = " → ".join(f"{step.name}{places}" for step, places in p.steps)
    (value, grads, second), (value_, grads_, second_) = ours(p), theirs(p)
    assert_close(value, value_, f"value of {named}")
    for k, (g, g_) in enumerate(zip(grads, grads_, strict=True)):
        assert_close(g, g_, f"gradient of input {k} of {named}")
    for k, (h, h_) in enumerate(zip(second, second_, strict=True)):
        assert_close(h, h_, f"second derivative of input {k} of {named}")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_one_step(step: Step) -> None:
    compare(program(1, 1, first=step))


@pytest.mark.parametrize("seed", range(60))
def test_a_program(seed: int) -> None:
    compare(program(seed, 3 + seed % 8))
