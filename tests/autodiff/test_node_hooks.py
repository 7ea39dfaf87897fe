"""Hooks around an operation: what goes into its rule, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, cat
from burnpy.autodiff import Context, Function
from burnpy.backend import NumPy, errors
from tests.rows import every_row

Train = Autodiff[NumPy]
Twice = Autodiff[Train]


def leaf(data: Any, device: Any = Train) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


X = leaf([1.0, 2.0])


def test_node_hooks_see_what_goes_in_and_out() -> None:
    seen: list[Any] = []
    x, y = leaf([2.0]), leaf([3.0])
    product, handle = (x * y).register_node_hook(
        before=lambda outs: seen.append(("before", [g.tolist() for g in outs])),
        after=lambda ins, outs: seen.append(("after", [g.tolist() for g in ins], [g.tolist() for g in outs])),
    )
    grads = (product * 5.0).sum().backward(retain_graph=True)
    assert seen == [("before", [[5.0]]), ("after", [[15.0], [10.0]], [[5.0]])]
    assert (grads[x].tolist(), grads[y].tolist()) == ([15.0], [10.0])
    handle.remove()
    product.backward()
    assert len(seen) == 2


def test_node_hooks_replace() -> None:
    x, y = leaf([2.0]), leaf([3.0])
    after, _ = (x * y).register_node_hook(after=lambda ins, outs: (ins[0] * 10.0, None))
    grads = after.backward()
    assert (grads[x].tolist(), grads[y].tolist()) == ([30.0], [2.0])
    before, _ = (x * y).register_node_hook(before=lambda outs: (outs[0] * 10.0,))
    grads = before.backward()
    assert (grads[x].tolist(), grads[y].tolist()) == ([30.0], [20.0])
    both, _ = (x * y).register_node_hook(before=lambda outs: outs[0] * 10.0, after=lambda ins, outs: (outs[0], outs[0]))
    grads = both.backward()
    assert (grads[x].tolist(), grads[y].tolist()) == ([10.0], [10.0])


class Triple(Function):
    calls = 0

    @staticmethod
    def forward(ctx: Context, x: Any, y: Any, z: Any) -> Any:
        ctx.save_for_backward(x, y, z)
        return x * y * z

    @staticmethod
    def backward(ctx: Context, g: Any) -> Any:
        Triple.calls += 1
        x, y, z = ctx.saved_tensors
        return g * y * z, g * x * z, g * x * y


NODES: list[tuple[str, Callable[..., Any], list[Any]]] = [
    ("one argument", lambda x, y, z: x.exp(), [[1.0]]),
    ("one tensor twice", lambda x, y, z: z * z, [[3.0], [3.0]]),
    ("one tracked argument", lambda x, y, z: y * z.detach(), [[3.0]]),
    ("a slice", lambda x, y, z: cat([y, z])[:1], [[1.0, 0.0]]),
    ("many arguments", lambda x, y, z: cat([x, y, z, x, y])[2:3] * 1.0, [[1.0]]),
    ("cat", lambda x, y, z: cat([x, y, z, x, y]), [[1.0], [1.0], [1.0], [1.0], [1.0]]),
    ("a Function", lambda x, y, z: Triple.apply(x + 1.0, y + 1.0, z), [[6.0], [3.0], [2.0]]),
    ("broadcasting", lambda x, y, z: y + z.reshape(1, 1), [[1.0], [[1.0]]]),
]


@every_row("what, f, want", NODES, ids=[row[0] for row in NODES])
def test_node_hooks_of_any_operation(what: str, f: Any, want: Any) -> None:
    seen: list[Any] = []
    xs = leaf([0.0]), leaf([1.0]), leaf([3.0])
    out = f(*xs)
    hooked, _ = out.register_node_hook(after=lambda ins, outs: seen.append([g.tolist() for g in ins]))
    Triple.calls = 0
    grads = hooked.sum().backward(retain_graph=True)
    assert seen == [want]
    assert Triple.calls == (what == "a Function")
    plainly = out.sum().backward()
    assert {k.tolist()[0]: g.tolist() for k, g in grads.items()} == {
        k.tolist()[0]: g.tolist() for k, g in plainly.items()
    }


def test_node_hooks_nest_and_combine() -> None:
    seen: list[Any] = []
    x = leaf(2.0, Twice)
    hooked, _ = (x * x).register_hook(lambda g: seen.append("tensor"))
    both, _ = hooked.register_node_hook(before=lambda outs: seen.append("node"))
    first = both.backward()[x]
    assert seen == ["tensor", "node"]
    assert first.backward()[x.inner()].item() == 2.0
    again, _ = (x * x).register_node_hook(before=lambda outs: (outs[0] * 2.0,))
    twice, _ = again.register_node_hook(before=lambda outs: (outs[0] + 1.0,))
    assert twice.backward()[x].item() == 16.0


WRONG_NODES: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("shape before", {"before": lambda outs: outs[0].sum()}, errors.ShapeError, r"gradient 0 .*, where shape \(2,\)"),
    ("count before", {"before": lambda outs: outs * 2}, errors.ArgumentError, "returned 2 gradients in place of 1"),
    ("count after", {"after": lambda ins, outs: ins[0]}, errors.ArgumentError, "returned 1 gradients in place of 2"),
    ("kind after", {"after": lambda ins, outs: (ins[0], 1.0)}, errors.KindError, r"as gradient 1 float 1\.0"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "hooks", "error", "message"), WRONG_NODES, ids=[row[0] for row in WRONG_NODES])
def test_wrong_node_hooks(what: str, hooks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        (X * X).register_node_hook(**hooks)[0].sum().backward()


def test_where_node_hooks_do_not_fit() -> None:
    with pytest.raises(errors.NotTrackedError, match=r"got a leaf.*register_hook"):
        X.register_node_hook(before=lambda outs: None)
    with pytest.raises(errors.ArgumentError, match="before=f or after=f"):
        (X * 2.0).register_node_hook()
    with pytest.raises(errors.ArgumentError, match=r"after retain_grad\(\)"):
        (X * 2.0).retain_grad().register_node_hook(before=lambda outs: None)

    class Two(Function):
        @staticmethod
        def forward(ctx: Context, x: Any) -> Any:
            return x * 1.0, x * 2.0

        @staticmethod
        def backward(ctx: Context, a: Any, b: Any) -> Any:
            return a + b * 2.0

    with pytest.raises(errors.ArgumentError, match="several results"):
        Two.apply(X)[0].register_node_hook(before=lambda outs: None)
    used = X * 2.0
    used.sum().backward()
    with pytest.raises(errors.GraphError, match="freed"):
        used.register_node_hook(before=lambda outs: None)
