"""`import burnpy` stays cheap: it loads what everybody needs, and no module of Python's own that NumPy does without.

What only some users need is imported in the function that needs it, or opened by `burnpy.backend.lazy`.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

from tests.rows import every_row

EVERYBODY_NEEDS = {
    "burnpy": "typevars",
    "burnpy.backend": "devices dtypes errors functions lazy primitives rules schema",
    "burnpy.backend.operations": "",
    "burnpy.hints": "other_names torch_public_names",
    "burnpy.tensor": (
        "arithmetic backward call_errors comparison complex_numbers conversion creation dim_checks factories "
        "host_data indexing joining lazy_methods levels operand_checks pointwise protocols reduction shape template "
        "tensor tensor_base"
    ),
}
"""The modules of each package that `import burnpy` loads beside the package itself."""

TRACKED_STEP = """
from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
x = Tensor[Autodiff[NumPy]].from_data([[1.0, 2.0], [3.0, 4.0]]).require_grad()
((x @ x + 1.0).relu()[0].sum()).backward()[x]
"""


LOADED_BY_NUMPY = {
    *("__future__", "importlib", "importlib._bootstrap", "importlib._bootstrap_external", "importlib.machinery"),
    *("_opcode", "_tokenize", "dis", "inspect", "linecache", "opcode", "token", "tokenize"),
}
"""Modules that NumPy 2.1 and newer load, and NumPy 2.0 does not; from Python 3.12 on `tokenize` loads `_tokenize`."""


def loaded(program: str) -> set[str]:
    """The modules that a program loads in a fresh interpreter, other than NumPy does."""
    code = f"import sys, numpy\nbefore = set(sys.modules)\n{program}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_burnpy_loads_what_everybody_needs() -> None:
    needed = {
        *EVERYBODY_NEEDS,
        *(f"{package}.{name}" for package, names in EVERYBODY_NEEDS.items() for name in names.split()),
    }
    found = loaded("import burnpy")
    assert {name for name in found if name.partition(".")[0] == "burnpy"} == needed
    assert {name for name in found if name not in needed} <= LOADED_BY_NUMPY - {"inspect"}


def test_a_tracked_step_opens_no_door_that_it_does_not_need() -> None:
    found = loaded(TRACKED_STEP)
    assert {name for name in found if not name.startswith("burnpy")} <= LOADED_BY_NUMPY
    assert not found & {
        "burnpy.autodiff.modes",
        "burnpy.tensor.index_keys",
        "burnpy.tensor.at",
        "burnpy.tensor.generator",
    }
    assert not any(name.startswith(("burnpy.func", "burnpy.nn", "burnpy.optim", "burnpy.record")) for name in found)


@pytest.mark.slow
def test_importing_nn_loads_no_layer_and_no_derivative() -> None:
    found = loaded("import burnpy.nn")
    assert "burnpy.nn.module_base" in found
    assert not any(
        name.startswith(("burnpy.nn.layers", "burnpy.nn.functional", "burnpy.hints.missing_names")) for name in found
    )
    assert {name for name in found if name.startswith("burnpy.func")} == {"burnpy.func", "burnpy.func.pytree"}
    assert "burnpy.nn.layers.recurrent" not in loaded("from burnpy.nn import Linear")


def test_making_a_device_makes_none_of_the_methods_that_record() -> None:
    found = loaded("from burnpy import Autodiff; from burnpy.backend import NumPy; Autodiff(NumPy())")
    assert "burnpy_numpy" in found
    assert not found & {"burnpy.autodiff.codegen", "burnpy.autodiff.rule_table", "burnpy.backend.entries"}


def test_small_arrays_import_the_look_up_of_kernels_and_no_other_module_of_theirs() -> None:
    found = loaded("""
import numpy as np
from burnpy.backend import NumPy
b, x = NumPy(), np.ones((2, 2), np.float32)
b.relu(b.add(x, b.matmul(x, x)))
b.max_pool2d(b.conv2d(x[None, None], x[None, None], (1, 1), (1, 1), (1, 1), 1), (2, 2), (2, 2), (0, 0), (1, 1), False)
""")
    assert {name for name in found if name.startswith("burnpy_numpy.kernels.")} == {"burnpy_numpy.kernels.kernel"}


@every_row(
    "package",
    [
        "burnpy",
        "burnpy.autodiff",
        "burnpy.backend",
        "burnpy.func",
        "burnpy.nn",
        "burnpy.nn.functional",
        "burnpy.tensor",
    ],
)
def test_what_is_imported_later_is_there_as_if_it_had_been(package: str) -> None:
    module = import_module(package)
    names = [name for name in module.__all__ if name != "CuPy"]  # which is an extra
    assert set(module.__all__) <= set(dir(module))
    for name in names:
        value = getattr(module, name)
        assert vars(module)[name] is value  # no door is opened twice
        if isinstance(value, type):
            assert pickle.loads(pickle.dumps(value)) is value
    with pytest.raises(AttributeError, match="nowhere"):
        module.nowhere  # the attribute is what is asked for


@pytest.mark.parametrize("backend", ["NumPy", "CuPy"])
def test_backends_need_no_package_for_dtypes_that_are_not_used(backend: str) -> None:
    without = "import sys; sys.modules['ml_dtypes'] = None"
    assert loaded(f"{without}\nfrom burnpy.backend import {backend}") >= {f"burnpy_{backend.lower()}"}
