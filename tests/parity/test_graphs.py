"""Hooks, saved tensors, checkpoints, modes and anomalies beside PyTorch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import (
    checkpoint,
    checkpoint_sequential,
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    register_multi_grad_hook,
    save_on_cpu,
    save_to_disk,
    saved_tensors_hooks,
    set_grad_enabled,
)
from burnpy.backend import NumPy, errors
from tests.parity.closeness import assert_close

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # its own
checkpointing = pytest.importorskip("torch.utils.checkpoint", reason="compares with PyTorch, which is not installed")

Train = Autodiff[NumPy]
Twice = Autodiff[Train]
rng = np.random.default_rng(3)
X, Y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))


def both(device: Any = Train) -> tuple[list[Any], list[Any]]:
    ours = [Tensor.from_data(a, device=device).require_grad() for a in (X, Y)]
    return ours, [torch.tensor(a, requires_grad=True) for a in (X, Y)]


def block(x: Any, y: Any) -> Any:
    return (x * y).tanh() * x.exp() + (x @ y.mT) @ x


def test_hooks_replace_gradients_in_order() -> None:
    (x, y), (x_, y_) = both()
    z, _ = (x * y).register_hook(lambda grad: grad * 2.0)
    z, _ = z.register_hook(lambda grad: grad + 1.0)
    z_ = x_ * y_
    z_.register_hook(lambda grad: grad * 2.0)
    z_.register_hook(lambda grad: grad + 1.0)
    grads = z.sin().sum().backward()
    z_.sin().sum().backward()
    assert_close(grads[x], x_.grad)
    assert_close(grads[y], y_.grad)


def test_hooks_of_leaves_and_their_removal() -> None:
    (x, _), (x_, _) = both()
    x, handle = x.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
    handle_ = x_.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
    (x_ * x_).sum().backward()
    assert_close((x * x).sum().backward()[x], x_.grad)
    handle.remove()
    handle_.remove()
    x_.grad = None
    (x_ * x_).sum().backward()
    assert_close((x * x).sum().backward()[x], x_.grad)


def test_hooks_of_a_group() -> None:
    (x, y), (x_, y_) = both()
    seen: list[Any] = []
    seen_: list[Any] = []
    (x, y), _ = register_multi_grad_hook([x, y], seen.append)
    torch.autograd.graph.register_multi_grad_hook([x_, y_], seen_.append)
    (x * x.sin()).sum().backward()
    (x_ * x_.sin()).sum().backward()
    block(x, y).sum().backward()
    block(x_, y_).sum().backward()
    assert len(seen) == len(seen_) == 2
    for grads, grads_ in zip(seen, seen_, strict=True):
        for g, g_ in zip(grads, grads_, strict=True):
            assert (g is None) == (g_ is None)
            if g is not None:
                assert_close(g, g_)


def test_saved_tensors_hooks() -> None:
    (x, y), (x_, y_) = both()
    with saved_tensors_hooks(lambda t: t * 2.0, lambda t: t * 0.75):
        loss = (x * y).sum()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach() * 2.0, lambda t: t * 0.75):
        loss_ = (x_ * y_).sum()
    loss_.backward()
    grads = loss.backward()
    assert_close(grads[x], x_.grad)
    assert_close(grads[y], y_.grad)


@pytest.mark.parametrize("where", ["host", "disk"])
def test_saving_elsewhere(where: str, tmp_path: Path) -> None:
    (x, y), (x_, y_) = both()
    with save_on_cpu() if where == "host" else save_to_disk(tmp_path):
        loss = block(x, y).sum()
    with torch.autograd.graph.save_on_cpu():
        loss_ = block(x_, y_).sum()
    loss_.backward()
    grads = loss.backward()
    assert_close(grads[x], x_.grad)
    assert_close(grads[y], y_.grad)


def test_checkpoint_of_second_order() -> None:
    (x, y), (x_, y_) = both(Twice)
    first = checkpoint(block, checkpoint(block, x, y), y).sin().sum().backward()
    second = (first[x] * first[y]).sum().backward()

    def checkpoint_(x: Any, y: Any) -> Any:
        return checkpointing.checkpoint(block, x, y, use_reentrant=False)

    loss = checkpoint_(checkpoint_(x_, y_), y_).sin().sum()
    gx, gy = torch.autograd.grad(loss, [x_, y_], create_graph=True)
    (gx * gy).sum().backward()
    assert_close(first[x], gx)
    assert_close(first[y], gy)
    limit = float(y_.grad.abs().max())  # large numbers, as block() grows like a third power
    assert_close(second[x.inner()] / limit, x_.grad / limit)
    assert_close(second[y.inner()] / limit, y_.grad / limit)


def test_checkpoint_sequential() -> None:
    (x, _), (x_, _) = both()
    layers = [lambda x, k=k: (x * (1.0 + 0.1 * k)).tanh() + x for k in range(7)]
    grads = checkpoint_sequential(layers, 3, x).sum().backward()
    checkpointing.checkpoint_sequential(layers, 3, x_, use_reentrant=False).sum().backward()
    assert_close(grads[x], x_.grad)


def test_modes() -> None:
    (x, _), (x_, _) = both()

    def tracked(x: Any) -> bool:
        y = x * 2.0
        return bool(y.is_require_grad() if hasattr(y, "is_require_grad") else y.requires_grad)

    for ours, theirs in (
        (no_grad, torch.no_grad),
        (enable_grad, torch.enable_grad),
        (inference_mode, torch.inference_mode),
    ):
        with ours():
            found = [tracked(x), is_grad_enabled()]
            with enable_grad():
                found += [tracked(x), is_grad_enabled()]
            with set_grad_enabled(False):
                found += [tracked(x)]
        with theirs():
            expected = [tracked(x_), torch.is_grad_enabled()]
            with torch.inference_mode(False), torch.enable_grad():
                expected += [tracked(x_), torch.is_grad_enabled()]
            with torch.set_grad_enabled(False):
                expected += [tracked(x_)]
        assert found == expected, ours


def test_an_anomaly_is_found_where_pytorch_finds_it() -> None:
    zero, zero_ = Tensor[Train].zeros((2,), dtype="float64").require_grad(), torch.zeros(2, requires_grad=True)
    with detect_anomaly(), pytest.raises(errors.AnomalyError, match="sqrt"):
        (zero.sqrt() * zero).sum().backward()
    with (
        pytest.warns(UserWarning, match="Anomaly|Error detected"),
        torch.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="Sqrt"),
    ):
        (zero_.sqrt() * zero_).sum().backward()


def test_the_chain_of_operations() -> None:
    """`grad_fn`: the same operations, arguments in the same order, and the same ends."""
    (x, y), (x_, y_) = both()

    def chain(node: Any) -> Any:
        name = node.name if isinstance(node.name, str) else node.name()
        children = [c[0] if isinstance(c, tuple) else c for c in node.next_functions]
        plain = name.lower().replace("backward0", "").replace("torch::autograd::accumulategrad", "leaf")
        return plain, [chain(child) for child in children if child is not None]

    assert chain((x.sin() * y.exp()).sum().grad_fn) == chain((x_.sin() * y_.exp()).sum().grad_fn)
