"""`Gradients`: an immutable mapping, and its errors for tensors without a gradient."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Gradients, Tensor
from burnpy.backend import NumPy, errors

Train = Autodiff[NumPy]
Twice = Autodiff[Train]


def leaf(data: Any, dtype: str = "float64") -> Tensor[Autodiff[NumPy]]:
    return Tensor[Train].from_data(data, dtype=dtype).require_grad()


def nested(data: Any, device: Any = Twice) -> Any:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


def test_gradients_are_a_mapping_of_leaves() -> None:
    x, y, z = leaf([1.0, 2.0]), leaf(3.0), leaf(0.0)
    grads = (x * y).sum().backward()
    assert isinstance(grads, Gradients)
    assert len(grads) == 2
    assert (x in grads, y in grads, z in grads, "x" in grads, 3 in grads) == (True, True, False, False, False)
    assert grads[x].tolist() == [3.0, 3.0]
    assert grads[y].item() == 3.0
    assert grads.get(z) is None
    product = x * y
    others: list[Any] = [product, x.detach(), x.inner(), 3]
    assert [k in grads for k in others] == [False] * 4
    assert [grads.get(k) for k in others] == [None] * 4
    assert grads.get(product, 5) == 5
    assert grads.device is NumPy()
    for listed in grads:
        assert grads[listed].tolist() in ([3.0, 3.0], 3.0)
    assert sorted(len(g.shape) for g in grads.values()) == [0, 1]
    assert sorted(len(k.shape) for k in grads.keys()) == [0, 1]  # noqa: SIM118  # the method is tested
    assert {type(g) for _, g in grads.items()} == {Tensor}
    assert repr(grads).startswith("Gradients(2 leaves")
    assert grads == grads
    assert grads != (x * y).sum().backward()


def test_gradients_are_plain_tensors() -> None:
    x = leaf([1.0, 2.0])
    g = x.grad((x * x).sum().backward())
    assert g is not None
    assert g.device is NumPy()
    assert not g.is_require_grad()
    with pytest.raises(errors.NotTrackedError, match="records no graph"):
        g.backward()  # type: ignore[misc]  # which is the point


def test_gradients_cannot_be_changed() -> None:
    x = leaf([1.0, 2.0])
    grads = (x * x).sum().backward()
    with pytest.raises(errors.ImmutableError, match="map"):
        grads[x] = grads[x]  # type: ignore[index]  # which is the point
    with pytest.raises(errors.ImmutableError, match=r"grads\.without\(\[x\]\).*x\.grad_remove\(grads\)"):
        del grads[x]  # type: ignore[attr-defined]  # which is the point
    with pytest.raises(errors.ImmutableError, match="map"):
        grads._values = {}
    with pytest.raises(errors.ImmutableError, match="_values cannot be set or deleted"):
        del grads._values
    with pytest.raises(errors.KindError, match="pickled"):
        pickle.dumps(grads)
    array = grads[x].to_numpy()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 7.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.setflags(write=True)


def test_gradients_add_scale_and_map() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    one, two = (x * y).sum().backward(), (x * x).sum().backward()
    total = one + two
    assert (total[x].tolist(), total[y].tolist()) == ([5.0, 8.0], [1.0, 2.0])
    assert (one[x].tolist(), two[x].tolist()) == ([3.0, 4.0], [2.0, 4.0]), "adding changed what was added"
    assert (one * 2.0)[x].tolist() == (2 * one)[x].tolist() == [6.0, 8.0]
    assert (one / 2.0)[x].tolist() == [1.5, 2.0]
    assert one.map(lambda g: g - 1.0)[y].tolist() == [0.0, 1.0]
    assert one.norm().item() == np.sqrt(9 + 16 + 1 + 4)
    assert one.without([x, y]).norm().item() == 0.0
    assert sum([one, two], start=one)[x].tolist() == [8.0, 12.0]


@pytest.mark.parametrize("wrong", [lambda g: g.sum(), lambda g: g.to_dtype("float32"), lambda g: 1.0, lambda g: None])
def test_map_refuses_what_is_no_gradient(wrong: Any) -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(errors.ArgumentError, match="shape"):
        (x * x).sum().backward().map(wrong)


def test_the_norm_does_not_overflow_in_float16() -> None:
    x = leaf([300.0, 400.0], "float16")
    grads = (x * 300.0).sum().backward()
    assert grads.norm().item() == pytest.approx(300 * 2**0.5, rel=1e-3)


def test_removing() -> None:
    x, y = leaf([1.0, 2.0]), leaf(3.0)
    grads = (x * y).sum().backward()
    g, rest = x.grad_remove(grads)
    assert g is not None
    assert (g.tolist(), x in rest, y in rest, x in grads) == ([3.0, 3.0], False, True, True)
    assert grads.remove(y)[0].item() == 3.0  # type: ignore[union-attr]  # is there
    nothing, same = x.grad_remove(rest)
    assert nothing is None
    assert len(same) == 1
    assert len(grads.without([x, x])) == 1
    assert len(grads.without([])) == 2


def test_errors_of_asking() -> None:
    x, y = leaf([1.0, 2.0]), leaf([[1.0]])
    product = x * x
    grads = product.sum().backward()
    with pytest.raises(KeyError, match=r"shape \(1, 1\) and dtype float64"):
        grads[y]
    assert y.grad(grads) is None
    with pytest.raises(errors.NotTrackedError, match=r"computed by mul.*retain_grad"):
        product.grad(grads)
    with pytest.raises(errors.NotTrackedError, match="not tracked"):
        grads[x.detach()]
    with pytest.raises(errors.KindError, match="by tensor"):
        grads[0]  # type: ignore[index]  # which is the point
    with pytest.raises(errors.DeviceError, match="leaves on Autodiff"):
        grads[x.inner()]  # type: ignore[index]  # which is the point
    other = nested([1.0])
    with pytest.raises(errors.DeviceError, match="Autodiff"):
        other.grad(grads)
    with pytest.raises(errors.DeviceError, match="device"):
        grads + (other * other).sum().backward()
    with pytest.raises(errors.KindError, match="map"):
        grads + 1.0  # type: ignore[operator]  # which is the point
    with pytest.raises(errors.KindError, match="to gradients, only gradients"):
        1 + grads
    total: Any = sum([grads, grads])  # type: ignore[arg-type]  # checkers want 0 of the result, too
    assert total[x].tolist() == (grads + grads)[x].tolist()


def test_what_has_no_gradient_says_what_it_is_and_how_to_get_one() -> None:
    x: Any = leaf([1.0, 2.0])
    y: Any = Tensor[Train].ones((2, 3))
    grads = (x * x).sum().backward()
    for method in ("grad", "grad_remove"):
        with pytest.raises(
            errors.NotTrackedError, match=rf"{method}\(\) .* Tensor of shape \(2, 3\) .*require_grad\(\)"
        ):
            getattr(y, method)()
        with pytest.raises(errors.NotTrackedError, match=r"shape \(2, 3\) .*is not tracked .*require_grad\(\) before"):
            getattr(y, method)(grads)
        with pytest.raises(errors.NotTrackedError, match=r"shape \(2,\) .* on NumPy, which .*from the model that was"):
            getattr(x.inner(), method)()
        with pytest.raises(errors.KindError, match=rf"x\.{method}\(grads\) takes .*, got none; .* not stored"):
            getattr(x, method)()
        with pytest.raises(errors.KindError, match=r"takes the Gradients that loss.backward\(\) returned, got 3"):
            getattr(x, method)(3)
    with pytest.raises(errors.DeviceError, match=r"shape \(2,\) on NumPy, where nothing is tracked.*valid\(\)"):
        grads[x.inner()]


def test_gradients_are_read_in_other_threads() -> None:
    x = leaf([1.0, 2.0])
    grads = (x * x).sum().backward()
    seen: list[list[float]] = []
    workers = [threading.Thread(target=lambda: seen.append((grads + grads)[x].tolist())) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [[4.0, 8.0]] * 4
