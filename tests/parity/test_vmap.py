"""`vmap` beside torch.func.vmap: values, derivatives and gradients of each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
import burnpy.linalg
from burnpy import IntTensor, Tensor, cross_entropy, func, nn
from burnpy.backend import NumPy

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of torch.func's own modules

RNG = np.random.default_rng(0)
X, Y, M = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=(5, 4, 3))
PLACES = RNG.integers(0, 3, (5, 2))

Case = tuple[Callable[[Any, Any], Any], tuple[Any, ...], dict[str, Any]]
CASES: dict[str, Case] = {
    "a product": (lambda lib, f: lambda a, b: a @ b, (X, Y), {}),
    "a matrix and a vector": (lambda lib, f: lambda a, b: (a @ b).tanh(), (M, X), {}),
    "a shared vector": (lambda lib, f: lambda a, b: a @ b, (M, X[0]), {"in_dims": (0, None)}),
    "the last dim": (lambda lib, f: lambda a: a.softmax(0), (M,), {"in_dims": -1, "out_dims": 1}),
    "chunks": (lambda lib, f: lambda a: a.cumsum(0), (M,), {"chunk_size": 2}),
    "an index": (lambda lib, f: lambda a, i: a.gather(0, i), (X, PLACES), {}),
    "a gradient": (lambda lib, f: f.grad(lambda a: (a**3).sum() * a[0]), (X,), {}),
    "a Hessian": (lambda lib, f: f.hessian(lambda a: (a**3).sum() * a[0]), (X,), {}),
    "a Jacobian": (lambda lib, f: f.jacrev(lambda a: a.sin() * a[0]), (X,), {}),
    "nested": (lambda lib, f: f.vmap(lambda a: a.square().sum()), (M,), {}),
    "solve": (lambda lib, f: lambda a, b: lib.linalg.solve(a @ a.T + 1.0, b), (M[:, :3], X), {}),
    "a tree": (lambda lib, f: lambda t: {"s": t["a"] * t["b"].sum()}, ({"a": X, "b": Y},), {}),
    "a gradient of a batch": (
        lambda lib, f: lambda a: f.grad(lambda b: f.vmap(lambda c: c.sin())(b).sum())(a),
        (M,),
        {},
    ),
}


def converted(tree: Any, make: Callable[[Any], Any]) -> Any:
    return {k: converted(v, make) for k, v in tree.items()} if isinstance(tree, dict) else make(tree)


def ours_of(array: Any) -> Any:
    return (IntTensor if array.dtype.kind == "i" else Tensor)[NumPy].from_data(array)


@pytest.mark.parametrize("name", CASES)
def test_it_gives_the_results_of_torch(name: str) -> None:
    make, arrays, options = CASES[name]
    found = func.vmap(make(burnpy, func), **options)(*[converted(a, ours_of) for a in arrays])
    wanted = torch.func.vmap(make(torch, torch.func), **options)(*[converted(a, torch.from_numpy) for a in arrays])
    found, wanted = (next(iter(x.values())) if isinstance(x, dict) else x for x in (found, wanted))
    np.testing.assert_allclose(found.to_numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)


def test_gradients_of_each_sample() -> None:
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    theirs = theirs.double()
    model: Any = nn.Sequential(
        nn.Linear(3, 4, device=NumPy), nn.Gelu(), nn.LayerNorm(4, device=NumPy), nn.Linear(4, 2, device=NumPy)
    ).astype("float64")
    params = {path: param.detach() for path, param in theirs.named_parameters()}
    values = {path: p.numpy() for path, p in params.items()}
    model = model.load_record({path: v.T if v.ndim == 2 else v for path, v in values.items()})
    labels = RNG.integers(0, 2, 5)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return cross_entropy(model(x), y)

    def their_loss(params: Any, x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(torch.func.functional_call(theirs, params, (x,)), y)

    found = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(model, ours_of(X), ours_of(labels)).named_params()
    wanted = torch.func.vmap(torch.func.grad(their_loss), in_dims=(None, 0, 0))(
        params, torch.from_numpy(X), torch.from_numpy(labels)
    )
    for path, gradient in wanted.items():
        expected = gradient.numpy().swapaxes(1, 2) if gradient.ndim == 3 else gradient.numpy()
        np.testing.assert_allclose(found[path].value.to_numpy(), expected, rtol=1e-8, atol=1e-10)
