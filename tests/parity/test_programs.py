"""Random programs of many operations: values, gradients and second derivatives are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import (
    Balanced,
    checkpoint,
    detect_anomaly,
    save_on_cpu,
    save_to_disk,
    saved_tensors_hooks,
    track_lines,
)
from burnpy.backend import Checked, NumPy, Profiled
from tests.parity.closeness import assert_close
from tests.parity.programs import STEPS, Ours, Program, Step, Theirs, program

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")


def theirs(p: Program) -> tuple[Any, list[Any], list[Any]]:
    """The value, the gradients, and the derivatives of the gradients along the program's directions."""
    leaves = [torch.tensor(x, requires_grad=True) for x in p.inputs]
    value = p.run(Theirs(torch), leaves, torch.tensor(p.weights))
    grads = torch.autograd.grad(value, leaves, create_graph=True, materialize_grads=True)
    along = sum((g * torch.tensor(d)).sum() for g, d in zip(grads, p.directions, strict=True))
    if not along.requires_grad:
        return value, list(grads), [torch.zeros_like(x) for x in leaves]
    return value, list(grads), list(torch.autograd.grad(along, leaves, materialize_grads=True))


def ours(p: Program, plain: Any = NumPy, run: Callable[..., Any] = Program.run) -> tuple[Any, list[Any], list[Any]]:
    """The same by reverse over reverse mode, over a backend, and with something around the program."""
    once: Any = Autodiff(plain)
    twice: Any = Autodiff(once)
    leaves = [Tensor.from_data(x, device=twice).require_grad() for x in p.inputs]
    value = run(p, Ours(twice), leaves, Tensor.from_data(p.weights, device=twice))
    first = value.backward()
    below = [x.inner() for x in leaves]
    grads = [first.get(x, b.detach() * 0.0) for x, b in zip(leaves, below, strict=True)]
    along = sum(
        ((g * Tensor.from_data(d, device=once)).sum() for g, d in zip(grads, p.directions, strict=True)),
        Tensor.from_data(0.0, dtype="float64", device=once),
    )
    second = along.backward() if along.is_require_grad() else {}
    return value, grads, [second.get(b, b.detach().inner() * 0.0) for b in below]


def compare(p: Program, plain: Any = NumPy, run: Callable[..., Any] = Program.run) -> None:
    named = " → ".join(f"{step.name}{places}" for step, places in p.steps)
    (value, grads, second), (value_, grads_, second_) = ours(p, plain, run), theirs(p)
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


@pytest.mark.parametrize("decorator", [Balanced, Checked, Profiled])
@pytest.mark.parametrize("seed", range(200, 210))
def test_a_program_on_a_decorator(seed: int, decorator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategies and instruments inside of Autodiff change no derivative of any order."""
    monkeypatch.setattr(Balanced, "smallest", 0)  # so that small arrays are computed again as well
    with Profiled.record():
        compare(program(seed, 3 + seed % 8), decorator(NumPy))


def unpacked(content: tuple[Any, Any]) -> Any:
    """A tensor of the kind and the array that it was packed as."""
    kind, array = content
    return kind.from_data(array, device=NumPy)


@pytest.mark.parametrize("around", ["checkpoint", "hooks", "host", "disk", "anomaly", "lines"])
@pytest.mark.parametrize("seed", range(300, 305))
def test_a_program_with_something_around_it(seed: int, around: str, tmp_path: Path) -> None:
    """Neither does what is kept elsewhere, or not at all, nor who looks on."""
    blocks: dict[str, Callable[[], Any]] = {
        "hooks": lambda: saved_tensors_hooks(lambda t: (type(t), t.to_numpy()), unpacked),
        "host": save_on_cpu,
        "disk": lambda: save_to_disk(tmp_path),
        "anomaly": detect_anomaly,
        "lines": track_lines,
    }

    def run(p: Program, *arguments: Any) -> Any:
        if around == "checkpoint":
            return checkpoint(p.run, *arguments)
        with blocks[around]():
            return p.run(*arguments)

    compare(program(seed, 3 + seed % 8), run=run)
