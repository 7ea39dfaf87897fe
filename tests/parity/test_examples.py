"""Operations beside PyTorch's functions, on the examples of the conformance suite: values, dtypes and gradients."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff
from burnpy.backend import NumPy
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import Arguments, calls
from burnpy.testing.checks import difference
from tests.parity.torch_functions import to_torch, torch, torch_function

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),  # its own
    pytest.mark.filterwarnings("ignore:index_reduce"),
    pytest.mark.filterwarnings("ignore:(std|var)\\(\\). degrees of freedom"),
]
DTYPES = ("float64", "float32", "int64", "uint8", "bool")
ROUNDING = 4
"""By how much more results may differ from each other than from the exact ones."""
Train = Autodiff[NumPy]

ALONE, PASSED_ON = "to the NaN alone, not NaN for all", "the NaN is passed on"
REPLACED = "0 for elements that a duplicate index replaced"
DIFFERENT = {
    ("abs", "gradient"): ("special values", PASSED_ON),
    ("acosh", "gradient"): ("special values", "NaN below 1, as the value is"),
    ("adaptive_max_pool2d_indices", "value"): ("special values.*", "the first of several NaN"),
    ("amax", "gradient"): ("special values.*", ALONE),
    ("amin", "gradient"): ("special values.*", ALONE),
    ("cdist", "gradient"): (".*special values.*", "0 of an infinite distance"),
    ("cdist", "value"): (r".*special values, inf.*", PASSED_ON),
    ("clamp_between", "gradient"): ("special values", "to the lower of two equal bounds, which raises x"),
    ("copysign", "gradient"): ("special values", "±1 of infinities and NaN"),
    ("cumprod", "gradient"): ("special values.*", "exactly the products of the others"),
    ("digamma", "gradient"): (".*", "exact where PyTorch's trigamma has ten digits"),
    ("hypot", "gradient"): ("special values", "0 at (0, 0)"),
    ("erfcx", "gradient"): ("special values", "0 at ∞"),
    ("i0", "value"): ("special values", "∞ at ±∞"),
    ("i1", "value"): ("special values", "±∞ at ±∞"),
    ("i0", "gradient"): ("special values", "±∞ at ±∞"),
    ("i1", "gradient"): ("special values", "∞ at ±∞"),
    ("i1e", "gradient"): ("special values", PASSED_ON),
    ("igamma", "gradient"): (".*", "by the first operand, too"),
    ("igamma", "value"): ("special values", PASSED_ON),
    ("igammac", "value"): ("special values", PASSED_ON),
    ("igammac", "gradient"): (".*", "by the first operand, too"),
    ("index_put", "gradient"): (r".*index \(3,\).*", REPLACED),
    ("index_reduce", "gradient"): ("special values.*", "finite where PyTorch has NaN"),
    ("log_ndtr", "gradient"): ("special values", "∞ at -∞, where PyTorch has NaN"),
    ("logaddexp", "gradient"): ("special values", "a half for each of two equal infinities"),
    ("logaddexp2", "gradient"): ("special values", "a half for each of two equal infinities"),
    ("logcumsumexp", "gradient"): ("special values.*", "0 for leading -inf"),
    ("logsumexp", "gradient"): ("special values.*", "0 of a row all -inf"),
    ("polygamma", "gradient"): ("special values.*", "0 at ∞"),
    ("polygamma", "value"): (".*", "exact where PyTorch's trigamma has ten digits"),
    ("prod", "gradient"): ("special values.*", "exactly the product of the others"),
    ("scatter", "gradient"): (".*", REPLACED),
    ("searchsorted", "value"): ("special values.*", "NaN is the largest"),
    ("sign", "value"): ("special values", PASSED_ON),
    ("std", "gradient"): ("special values.*", "0 of equal numbers, whose sum is rounded"),
    ("vector_norm", "gradient"): ("special values.*", "0 of an infinite norm"),
    ("xlog1py", "gradient"): ("special values", "0 at x = 0, y = -1"),
    ("zeta", "gradient"): (".*", "by the first operand, too"),
    ("zeta", "value"): ("special values", "the limits at ∞"),
    ("xlogy", "gradient"): ("special values", "0 at x = y = 0"),
}
"""Where burnpy differs from PyTorch, which users read in gradients.md: the names of the examples, and how."""


def flat(arguments: list[Any]) -> list[Any]:
    return [member for a in arguments for member in (a if isinstance(a, list) else [a])]


def ours(arguments: Arguments) -> tuple[list[Any], list[Any]]:
    """The results, and the gradients of the sum of the first; zeros where there is none."""
    device: Any = Train.device()
    given = arguments.primitives(device, tracked=True)
    on = device if arguments.dtype.kind == "f" else device.discrete
    found = getattr(on, arguments.row.operation.name)(*given)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    leaves = [a for a in flat(given) if hasattr(a, "node")]
    gradients: dict[Any, Any] = {}
    if leaves and hasattr(results[0], "node") and results[0].node is not None:
        seed = device.inner.full(results[0].shape, 1.0, results[0].dtype)
        gradients = device.gradients([(results[0], seed)], retain_graph=False)
    arrays = [device.inner.to_numpy(getattr(r, "value", r)) for r in results]
    return arrays, [
        device.inner.to_numpy(gradients[a.node]) if a.node in gradients else np.zeros(a.shape, a.dtype) for a in leaves
    ]


def theirs(arguments: Arguments, function: Any) -> tuple[list[Any], list[Any]]:
    """The same, by PyTorch."""
    given = [to_torch(a) for a in arguments.given]
    found = function(*given)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    leaves = [a for a in flat(given) if isinstance(a, torch.Tensor) and a.requires_grad]
    gradients: Any = [None] * len(leaves)
    if leaves and results[0].requires_grad:
        gradients = torch.autograd.grad(results[0].sum(), leaves, allow_unused=True)
    return [r.numpy(force=True) for r in results], [
        np.zeros(tuple(a.shape), str(a.dtype).rpartition(".")[2]) if g is None else g.numpy(force=True)
        for a, g in zip(leaves, gradients, strict=True)
    ]


@pytest.mark.parametrize("name", [name for name in ROWS if torch_function(name) is not None])
def test_an_operation(name: str) -> None:
    """Values and gradients are PyTorch's, but where `DIFFERENT` says otherwise, and there they do differ."""
    function, row = torch_function(name), ROWS[name]
    expected = {what for operation, what in DIFFERENT if operation == name}
    seen = set()
    for arguments in calls(name, DTYPES, ("contiguous",)):
        if "large" in arguments.example:
            continue
        pairs = zip(("value", "gradient"), ours(arguments), theirs(arguments, function), strict=True)
        for what, found, wanted in pairs:
            for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
                where = f"{what} {k} of {arguments.where}"
                assert (x.shape, x.dtype) == (y.shape, y.dtype), f"{where}: {x.shape}, {x.dtype}; {y.shape}, {y.dtype}"
                wrong = difference(x, y, ROUNDING * row.loose)
                if what in expected and re.fullmatch(DIFFERENT[name, what][0], arguments.example):
                    seen |= {what} if wrong else set()
                else:
                    assert wrong is None, f"{where}: {wrong}"
    assert seen == expected, f"{name} no longer differs from PyTorch in its {expected - seen}"
