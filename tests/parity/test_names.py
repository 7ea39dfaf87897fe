"""The list of PyTorch's names matches the installed PyTorch, and the code in the table computes the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import KindError
from burnpy.docs import names_elsewhere
from burnpy.hints import torch_public_names
from burnpy.hints.missing_names import rows
from tests.parity.pytorch_names import PAGE
from tests.parity.pytorch_names import names as installed
from tests.parity.pytorch_names import page as listed

torch: Any = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

SAME = """
abs absolute neg negative positive sign sgn square reciprocal exp exp2 expm1 log1p sin cos tan sinh cosh tanh erf erfc
deg2rad rad2deg floor ceil trunc fix frac sigmoid relu isnan isinf isfinite isposinf isneginf count_nonzero trapz
cumulative_trapezoid diff flatten ravel t mT squeeze fliplr flipud rot90 nonzero argwhere tril triu celu hardshrink
add sub subtract mul multiply div divide true_divide floor_divide remainder fmod maximum minimum fmax fmin logaddexp
hypot eq ne not_equal lt less le less_equal gt greater ge greater_equal isclose hstack vstack column_stack dstack
concatenate row_stack view_as reshape_as dist
"""
"""Names whose code in the table is compared, called with x, or x and y."""


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the list is for PyTorch 2.13")
def test_the_list_is_that_of_the_installed_pytorch() -> None:
    version = torch.__version__.partition("+")[0]
    assert PAGE.read_text(encoding="utf-8") == listed(installed(), version), "run python tests/parity/pytorch_names.py"
    assert len(torch_public_names.TENSOR.split()) > 500


@pytest.mark.parametrize("name", SAME.split())
def test_what_the_table_says_to_write_computes_the_same(name: str) -> None:
    ours: dict[str, Any] = {}
    exec(names_elsewhere.PROLOGUE, ours)
    x, y = (torch.tensor(ours[each].detach().to_numpy().copy()) for each in ("x", "y"))
    function = getattr(torch, name, None) or getattr(torch.Tensor, name)
    code = rows()[name].ours
    found = np.asarray(eval(code, ours))
    if name in ("hstack", "vstack", "column_stack", "dstack", "concatenate", "row_stack"):
        expected = function([x, y])
    elif name == "mT":
        expected = x.mT
    elif name in ("trapz", "cumulative_trapezoid"):
        expected = function(y, x)
    elif name in ("rot90", "diff"):
        expected = function(x)
    elif name == "count_nonzero":
        expected = function(x, dim=1)
    elif re.search(r"\by\b", code):
        expected = function(x, y) if name not in ("view_as", "reshape_as") else getattr(x, name)(y)
    else:
        expected = function(x)
    np.testing.assert_allclose(found, expected.numpy(), rtol=2e-6, atol=1e-6)


def test_a_function_of_pytorch_says_what_to_write() -> None:
    x, theirs = Tensor[NumPy].ones((2, 2)), torch.ones(2, 2)
    calls: list[tuple[Any, str]] = [
        (
            lambda: torch.relu(x),
            "torch.relu() got a Tensor of burnpy, but computes with PyTorch's tensors; write x.relu()",
        ),
        (lambda: torch.stack([x, x]), "write burnpy.stack([x, y])"),
        (lambda: torch.nn.Linear(2, 2)(x), "torch.from_dlpack(x)"),
        (lambda: theirs @ x, "Tensor.from_data(values, device=x.device)"),
    ]
    for call, way_out in calls:
        with pytest.raises(KindError) as caught:
            call()
        assert way_out in str(caught.value)
    assert torch.from_dlpack(x).shape == torch.as_tensor(x.to_numpy().copy()).shape == (2, 2)
