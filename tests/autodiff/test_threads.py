"""Threads share leaves and graphs: the gradients are those of one thread, and of two passes over one node one wins."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy, errors

Train = Autodiff[NumPy]
THREADS = 8


@pytest.fixture(autouse=True)
def _eager_switching() -> Iterator[None]:
    """Threads change places as often as they can."""
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(old)


def leaf(data: Any) -> Tensor[Autodiff[NumPy]]:
    return Tensor[Train].from_data(data, dtype="float64").require_grad()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run work(0), work(1), … at once; raise the first error of any."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def run(k: int) -> None:
        start.wait()
        try:
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [200, pytest.param(1_000, marks=pytest.mark.long)])
def test_passes_over_shared_leaves(rounds: int) -> None:
    """8 threads build graphs over the same two leaves and go backward, so many rounds each."""
    w, b = leaf([[0.5, -0.3], [0.2, 0.8]]), leaf([0.1, -0.1])
    inputs = [np.random.default_rng(k).uniform(-1, 1, (3, 2)) for k in range(THREADS)]

    def gradients(k: int) -> list[np.ndarray[Any, Any]]:
        x = Tensor[Train].from_data(inputs[k], dtype="float64")
        h = (x @ w + b).tanh()
        grads = ((h @ w + b) * h + h[0] * b).sum().backward()
        return [grads[w].to_numpy(), grads[b].to_numpy()]

    alone = [gradients(k) for k in range(THREADS)]

    def work(k: int) -> None:
        for n in range(rounds):
            for mine, want in zip(gradients(k), alone[k], strict=True):
                assert np.array_equal(mine, want), f"thread {k}, round {n}: {mine}, alone {want}"

    in_threads(THREADS, work)


def test_retained_passes_over_one_graph() -> None:
    """8 threads go through one graph that all retain."""
    x = leaf([0.5, 1.5])
    loss = ((x * x).exp() + x[0] * x).sum()
    want = loss.backward(retain_graph=True)[x].tolist()

    def work(k: int) -> None:
        for _ in range(50):
            assert loss.backward(retain_graph=True)[x].tolist() == want

    in_threads(THREADS, work)


def test_nested_passes_over_shared_leaves() -> None:
    x = Tensor[Autodiff[Train]].from_data([0.5, 1.5], dtype="float64").require_grad()

    def second() -> list[float]:
        grad = (x * x * x).sum().backward()[x]
        found: list[float] = grad.sum().backward()[x.inner()].tolist()
        return found

    def work(k: int) -> None:
        for _ in range(30):
            assert second() == [3.0, 9.0]

    in_threads(THREADS, work)


@pytest.mark.slow
def test_exactly_one_of_two_passes_wins() -> None:
    """Two losses share an interior node. One pass wins; the other raises and consumes nothing of its own."""
    for turn in range(300):
        x, own = leaf(2.0), [leaf(3.0), leaf(5.0)]
        shared = x * x
        private = [own[k] * own[k] for k in range(2)]
        losses = [shared * private[k] for k in range(2)]
        results: list[Any] = [None, None]

        def work(k: int, losses: Any = losses, results: Any = results) -> None:
            try:
                results[k] = losses[k].backward()
            except errors.GraphError as error:
                results[k] = error

        in_threads(2, work)
        lost = [k for k in range(2) if isinstance(results[k], errors.GraphError)]
        assert len(lost) == 1, f"round {turn}: {results}"
        loser, winner = lost[0], 1 - lost[0]
        assert results[winner][x].item() == 4.0 * (9.0, 25.0)[winner]
        with pytest.raises(errors.GraphError, match="retain_graph"):
            losses[loser].backward()
        assert private[loser].backward()[own[loser]].item() == (6.0, 10.0)[loser], "the loser consumed nodes of its own"


def test_many_passes_over_one_root() -> None:
    """8 threads consume the same loss: one has the gradient, seven have an error."""
    for _ in range(60):
        x = leaf([1.0, 2.0])
        loss = (x * x).sum()
        outcomes: list[str] = []

        def work(k: int, loss: Any = loss, x: Any = x, outcomes: list[str] = outcomes) -> None:
            try:
                outcomes.append(str(loss.backward()[x].tolist()))
            except errors.GraphError:
                outcomes.append("refused")

        in_threads(THREADS, work)
        assert sorted(outcomes) == ["[2.0, 4.0]", *["refused"] * (THREADS - 1)]


@pytest.mark.slow
def test_a_retained_pass_beside_a_consuming_one() -> None:
    """The pass that retains has the right gradient or an error, never a wrong one; the one that consumes wins."""
    for turn in range(200):
        x = leaf(1.0)
        y = x
        for _ in range(20):
            y = y * 1.5
        want = 1.5**20
        found: list[float | None] = [None, None]

        def work(k: int, y: Any = y, x: Any = x, found: Any = found) -> None:
            try:
                found[k] = y.backward(retain_graph=k == 0)[x].item()
            except errors.GraphError:
                assert k == 0, "a pass that consumes lost to one that does not"

        in_threads(2, work)
        assert found[1] == want, f"round {turn}"
        assert found[0] in (None, want), f"round {turn}: the retained pass gave {found[0]}, not {want}"


def test_leaves_made_at_once_are_different() -> None:
    plain = Tensor[Train].ones((2,))
    leaves: list[Any] = []
    in_threads(THREADS, lambda k: leaves.append(plain.require_grad()))
    grads = sum((leaf_ * float(k) for k, leaf_ in enumerate(leaves)), start=plain).sum().backward()
    assert len(grads) == THREADS
    assert sorted(grads[leaf_].tolist()[0] for leaf_ in leaves) == [float(k) for k in range(THREADS)]


def test_devices_made_at_once_are_one() -> None:
    found: list[Any] = []
    in_threads(THREADS, lambda k: found.append(Autodiff(Autodiff(Autodiff(Autodiff(NumPy))))))
    assert len({id(device) for device in found}) == 1


def test_methods_compiled_at_once_work() -> None:
    """Methods of Autodiff are made at their first use: here of a class that has none yet."""
    from burnpy.autodiff.autodiff import MethodAtFirstUse, autodiff_method
    from burnpy.backend.backend import operations

    for name in ("exp", "mul", "sum"):
        assert name in operations()
        setattr(Autodiff, name, MethodAtFirstUse(name, autodiff_method))
    x = leaf([0.0, 1.0])

    def work(k: int) -> None:
        assert (x.exp() * x).sum().backward()[x].tolist()[0] == 1.0

    in_threads(THREADS, work)
