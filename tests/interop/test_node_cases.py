"""The cases that the package onnx has for each operator: a file of one node, its inputs and its outputs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.interop import onnx
from burnpy.interop.onnx.operators.table import tensor
from tests.interrupting import LONG

pytestmark = [pytest.mark.heavy("onnx")]

OUT_OF_SCOPE = re.compile(
    "Adagrad|Adam|Momentum|Gradient|.*Sequence.*|Optional.*|String.*|RegexFullMatch|TfIdfVectorizer|ImageDecoder"
)
"""Operators for training, on text, sequences and optional values."""
REFUSED = {
    "test_training_dropout": "a Dropout for training draws other numbers",
    "test_resize_downsample_scales_linear_align_corners": "its corners are of 2.4 elements; onnxruntime's are of 2",
    "test_resize_downsample_scales_cubic_align_corners": "its corners are of 3.2 elements; onnxruntime's are of 3",
}
"""The beginnings of the names of cases that are refused or computed otherwise, with the reason."""
ROUNDING = re.compile("(bf16|fp16)|_dft")
"""Cases whose expected results are of numbers rounded in another order."""
PARTS = 16
LARGE = tuple([f"test_{kind}pool_3d_default" for kind in ("average", "lp", "max")])
"""Cases of the long form alone."""
MANY = 50_000
"""The elements of an array to pool in one of those cases, at least."""


@contextmanager
def quickly() -> Iterator[None]:
    """Collect cases without their sources, which are for pages, and without the results of the three largest pools.

    The package computes those element by element in Python, which takes longer than all else.
    """
    from onnx.backend.test.case import base
    from onnx.reference.ops import op_pool_common

    pool = op_pool_common.pool

    def small(padded: Any, *args: Any, **kwargs: Any) -> Any:
        return pool(padded, *args, **kwargs) if padded.size < MANY else np.zeros(1, np.float32)

    without_source = patch.object(base, "process_snippet", lambda op, name, export: (name, ""))
    with without_source, patch.object(op_pool_common, "pool", pool if LONG else small):
        yield


@cache
def cases() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with quickly():
            from onnx.backend.test.case.node import collect_testcases

            return tuple([case for case in collect_testcases(None) if in_scope(case)])


def in_scope(case: Any) -> bool:
    if not LONG and case.name in LARGE:
        return False
    graph = case.model.graph
    if any(OUT_OF_SCOPE.fullmatch(node.op_type) or "training" in node.domain for node in graph.node):
        return False
    if any(value.type.WhichOneof("value") != "tensor_type" for value in (*graph.input, *graph.output)):
        return False
    values = [value for pair in case.data_sets for values in pair for value in values]
    return not any(isinstance(value, np.ndarray) and value.dtype.kind in "OSU" for value in values)


def array(value: Any) -> Any:
    """The array of a value of a case, as the tensor for it has it: narrow dtypes are wider."""
    import onnx as package

    return tensor(package.numpy_helper.to_array(value) if hasattr(value, "dims") else value).to_numpy()


@pytest.mark.parametrize("part", range(PARTS if LONG else 1))
def test_results(part: int, tmp_path: Path) -> None:
    import onnx as package

    assert len(cases()) > 1750, "most are in scope"
    assert sum(case.name.startswith(tuple(REFUSED)) for case in cases()) <= 10
    path = tmp_path / "case.onnx"
    wrong = []
    for case in cases()[part::PARTS]:
        if case.name.startswith(tuple(REFUSED)):
            continue
        package.save(case.model, path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as NumPy's at a log of zero
                differences(case, onnx.load(path, NumPy))
        except Exception as error:
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def differences(case: Any, model: Any) -> None:
    for inputs, expected in case.data_sets:
        results = model(*[tensor(array(value)) for value in inputs])
        outputs = results if isinstance(results, tuple) else (results,)
        for result, value in zip(outputs, map(array, expected), strict=True):
            found = result.to_numpy()
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            if re.search("random|bernoulli|multinomial", case.name):
                continue
            coarse = ROUNDING.search(case.name)
            limits = {
                "rtol": max(case.rtol, 3e-2 if coarse else 1e-3),
                "atol": max(case.atol, 1e-2 if coarse else 1e-7),
            }
            a, b = (x.astype(np.float64) if x.dtype.kind in "fV" else x for x in (found, value))
            np.testing.assert_allclose(a, b, **limits)


@pytest.mark.parametrize(("kind", "count"), [("simple", 7), ("pytorch-converted", 82), ("pytorch-operator", 35)])
def test_models(kind: str, count: int) -> None:
    """Models of the package that are in files, some of them of opset 6."""
    import onnx as package
    from onnx.backend.test.loader import load_model_tests

    folders = [Path(case.model_dir) for case in load_model_tests(kind=kind)]
    known = [folder for folder in folders if not re.search("strnorm|sequence|gradient", folder.name)]
    assert len(known) >= count
    for folder in known if LONG else known[::8]:
        model = onnx.load(folder / "model.onnx", NumPy)
        for data in folder.glob("test_data_set_*"):
            inputs, expected = (
                [package.numpy_helper.to_array(package.load_tensor(data / f"{name}_{k}.pb")) for k in range(number)]
                for name, number in (
                    ("input", len([*data.glob("input_*.pb")])),
                    ("output", len([*data.glob("output_*.pb")])),
                )
            )
            results = model(*map(tensor, inputs))
            for result, value in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
                np.testing.assert_allclose(result.to_numpy(), value, rtol=1e-3, atol=1e-5, err_msg=folder.name)
