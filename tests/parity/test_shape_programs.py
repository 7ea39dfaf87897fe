"""Rearranging, joining, padding and placing elements as PyTorch does: values of all kinds, and first derivatives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.testing.conformance import every_case
from tests.tensor.shape_programs import PROGRAMS, arrays
from tests.tensor.test_shape_programs import CLASSES, FUNCTIONS, library, parts

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

THEIRS: Any = SimpleNamespace(
    ints=lambda data: torch.tensor(np.array(data, np.int64)),
    bools=lambda data: torch.tensor(np.array(data)),
    pad=torch.nn.functional.pad,
    **{name: getattr(torch, name) for name in FUNCTIONS},
)
REFUSED_THERE = {
    ("trace", "bool"),
    *((name, kind) for name in PROGRAMS if name.startswith("pad re") for kind in ("int", "bool")),
}
"""Programs that PyTorch cannot run on a kind."""


OTHER_GRADIENTS = {
    "index_copy": "there, every writer of a place gets its gradient; here, the last",
    "scatter add": "it is not differentiable there",
    "scatter multiply": "it is not differentiable there",
}


@pytest.mark.filterwarnings("ignore:(index_reduce|scatter_reduce|The reduce argument)")
def test_it_agrees() -> None:
    with every_case() as case:
        for name in PROGRAMS:
            with case(name):
                program = PROGRAMS[name]
                for kind in program.kinds:
                    if (name, kind) in REFUSED_THERE:
                        continue
                    given = arrays(program, kind)
                    theirs = [torch.tensor(a, requires_grad=kind == "float") for a in given]
                    ours = [CLASSES[kind][Autodiff[NumPy]].from_data(a) for a in given]
                    ours = [x.require_grad() if kind == "float" else x for x in ours]
                    found, wanted = (
                        parts(program.run(library(Autodiff[NumPy]), *ours)),
                        parts(program.run(THEIRS, *theirs)),
                    )
                    for x, t in zip(found, wanted, strict=True):
                        assert (x.shape, str(x.dtype)) == (tuple(t.shape), str(t.dtype).removeprefix("torch."))
                        np.testing.assert_allclose(x.to_numpy(), t.detach().numpy(), 1e-12)
                    if kind != "float" or name in OTHER_GRADIENTS:
                        continue
                    weights = [np.random.default_rng(12).standard_normal(x.shape) for x in found]
                    pairs = zip(found, weights, strict=True)
                    total = sum((x * Tensor[Autodiff[NumPy]].from_data(w)).sum() for x, w in pairs)
                    assert isinstance(total, Tensor)
                    grads = total.backward()
                    sum((t * torch.tensor(w)).sum() for t, w in zip(wanted, weights, strict=True)).backward()
                    for x, t in zip(ours, theirs, strict=True):
                        gradient = x.grad(grads)
                        assert (gradient is None) == (t.grad is None) or not t.numel()
                        if gradient is not None and t.grad is not None:
                            np.testing.assert_allclose(gradient.to_numpy(), t.grad.numpy(), 1e-10, 1e-12)
