"""Every operation of the schema in ONNX: a file of it gives the operation's values in onnxruntime, or it is refused."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import fft, func
from burnpy.backend import NumPy, operations
from burnpy.backend.dtypes import is_inexact, kind_of
from burnpy.backend.errors import ExportError, RecordingError
from burnpy.interop import onnx
from burnpy.nn import EmbeddingBag, Lstm
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import new_tensor, tensor_of
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import calls
from tests.conformance.suites import LARGE
from tests.interrupting import LONG

pytestmark = [pytest.mark.heavy("onnx", "onnxruntime")]

CLASSES: dict[str, Any] = {"float": Tensor, "int": IntTensor, "bool": BoolTensor}
DTYPES = ("float32", "int64", "bool")
MANY = 10**6


class Called:
    """An operation as a function of the tensors among its arguments."""

    def __init__(self, name: str, given: list[Any]) -> None:
        self.name, self.given = name, given
        self.tensors = tuple([_tensor(a) for a in _arrays(given)])

    def __call__(self, *xs: Any) -> Any:
        remaining = iter(xs)
        device = xs[0]._device
        out = getattr(device, self.name)(*[_filled(a, remaining) for a in self.given])
        found = [
            tensor_of(device, r) if is_inexact(r.dtype) else new_tensor(CLASSES[kind_of(r.dtype)], device, r)
            for r in _flat(out)
        ]
        return tuple(chain.from_iterable([(x.real, x.imag) if x.kind == "complex" else (x,) for x in found]))


def _arrays(tree: Any) -> list[Any]:
    if isinstance(tree, (list, tuple)):
        return [a for member in tree for a in _arrays(member)]
    return [tree] if isinstance(tree, np.ndarray) else []


def _filled(a: Any, remaining: Any) -> Any:
    if isinstance(a, list):
        return [_filled(member, remaining) for member in a]
    return next(remaining)._primitive if isinstance(a, np.ndarray) else a


def _flat(out: Any) -> list[Any]:
    return [r for member in out for r in _flat(member)] if isinstance(out, (list, tuple)) else [out]


def _tensor(a: Any) -> Any:
    return CLASSES[kind_of(a.dtype)].from_data(np.ascontiguousarray(a).reshape(a.shape), device=NumPy)


OPEN = {
    **dict.fromkeys(("max_pool2d", "max_pool2d_indices", "adaptive_max_pool2d_indices", "amax", "amin"), "NaN"),
    **dict.fromkeys(("argmax", "argmin", "max_dim", "min_dim"), "NaN"),
    "prod": "ints that overflow",
}
"""What ONNX leaves open, by operation: onnxruntime's result is another one than burnpy's."""
LOOSE = {"fft": 1e-3, "fft_real": 1e-3, "rfft": 1e-3}
"""The errors, relative to the largest element, of operators that onnxruntime computes less precisely than others."""


@pytest.mark.parametrize("name", sorted(ROWS))
def test_its_values_are_the_same(name: str, tmp_path: Path) -> None:
    op = operations()[name]
    path = tmp_path / "model.onnx"
    for dtype in DTYPES:
        count = 0
        for case in calls(name, (dtype,), ("contiguous",)):
            called = Called(name, case.given)
            open_for_nan = name in OPEN and ("special" in case.example or "large" in case.example)
            if not called.tensors or not all(a.size for a in _arrays(case.given)) or open_for_nan:
                continue
            count += 1
            if op.onnx == "refused":
                with pytest.raises((ExportError, RecordingError), match=rf"{name}\(\)"):
                    onnx.export(called, called.tensors, path)
                break
            onnx.export(called, called.tensors, path)
            for found in onnx.verify(path, called, called.tensors):
                assert min(found.largest, found.relative) < LOOSE.get(name, 2e-5), (case.where, found)
            if count == (MANY if LONG else 2 if dtype == "float32" and name not in LARGE else 1):
                break


def test_every_required_operation_has_a_rule() -> None:
    assert not [name for name, op in operations().items() if op.required and op.onnx is None]


def normal(*shape: int) -> Tensor[NumPy]:
    return Tensor.from_data(np.random.default_rng(0).normal(size=shape).astype(np.float32), device=NumPy)


def bags_of(*shape: int) -> IntTensor[NumPy]:
    return IntTensor.from_data(np.random.default_rng(0).integers(0, 10, shape), device=NumPy)


@pytest.mark.parametrize("settings", [{}, {"bidirectional": True, "count": 2}, {"proj_size": 3}])
def test_last_cells_of_any_length(tmp_path: Path, settings: Any) -> None:
    """An LSTM that returns its cell states, and means of bags of embeddings."""
    import onnx as package

    path, model = tmp_path / "a.onnx", Lstm(4, 5, device=NumPy, **settings)
    onnx.export(model, (normal(2, 5, 4),), path, dynamic={"x": {0: "batch", 1: "length"}})
    assert "LSTM" in {entry.op_type for entry in package.load(path).graph.node}
    for shape in ((2, 5, 4), (1, 1, 4), (3, 9, 4)):
        assert all(found.relative < 1e-5 for found in onnx.verify(path, model, (normal(*shape),)))
    bags = EmbeddingBag(10, 4, device=NumPy)
    onnx.export(bags, (bags_of(2, 5),), path, dynamic={"index": {0: "batch", 1: "length"}})
    assert onnx.verify(path, bags, (bags_of(3, 7),))[0].relative < 1e-5


@pytest.mark.parametrize("opset", [18, 20])
def test_fourier_transforms_of_older_opsets(tmp_path: Path, opset: int) -> None:
    def spectra(x: Tensor[NumPy]) -> Any:
        half, whole = fft.rfft(x), fft.fft2(x)
        return half.abs(), whole.real, fft.irfft(half, n=5), fft.ifft(whole, norm="ortho").imag

    onnx.export(spectra, (normal(2, 3, 5),), tmp_path / "a.onnx", dynamic={"x": {0: "batch"}}, opset=opset)
    assert all(found.relative < 1e-5 for found in onnx.verify(tmp_path / "a.onnx", spectra, (normal(4, 3, 5),)))


def test_branches_with_indices_that_are_checked(tmp_path: Path) -> None:
    """The checks are left to the runtime; draws in a branch are refused."""
    table = normal(10, 3)

    def chosen(x: Tensor[NumPy], index: IntTensor[NumPy]) -> Tensor[NumPy]:
        return func.cond(x.sum() > 0.0, lambda: table.index_select(0, index), lambda: table[0].expand(2, 3))

    def drawn(x: Tensor[NumPy]) -> Tensor[NumPy]:
        return func.cond(x.sum() > 0.0, lambda: x + Tensor.normal(x.shape, device=x.device), lambda: x)

    for x in (normal(3), normal(3) - 10.0, normal(3) + 10.0):
        onnx.export(chosen, (x, bags_of(2)), tmp_path / "a.onnx")
        assert onnx.verify(tmp_path / "a.onnx", chosen, (x, bags_of(2)))[0].relative == 0.0
    with pytest.raises(ExportError, match="it draws random numbers in a loop or branch"):
        onnx.export(drawn, (normal(3),), tmp_path / "a.onnx")
