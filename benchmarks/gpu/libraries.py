"""The libraries that are measured on the GPU: burnpy, CuPy itself, and PyTorch where it has CUDA."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import CuPy, Mixed
from burnpy.environment import gpu

PRECISIONS: dict[str, tuple[Any, Callable[[], AbstractContextManager[Any]]]] = {
    "float32": (Autodiff[CuPy], nullcontext),
    "TF32": (Autodiff[CuPy], lambda: CuPy.tf32()),
    "bfloat16": (Autodiff[Mixed[CuPy]], nullcontext),
}
"""How burnpy multiplies: the backend, and a context around the steps."""


def cupy() -> Any:
    """Return the module CuPy."""
    return import_module("cupy")


@cache
def torch() -> Any:
    """Return PyTorch; None if it is not installed or has no CUDA, which a rehearsal does without."""
    try:
        module = import_module("torch")
    except ImportError:
        return None
    return module if is_rehearsal() or module.cuda.is_available() else None


def torch_device() -> str:
    """Return the device of PyTorch's tensors."""
    return "cpu" if is_rehearsal() else "cuda"


def is_rehearsal() -> bool:
    """Return whether CuPy computes on the CPU."""
    simulator = sys.modules.get("tests.hostcuda.simulator")
    return simulator is not None and bool(simulator.is_loaded())


def why_no_torch() -> str:
    """Return the sentence that says why PyTorch is left out; empty if it is not."""
    if torch() is not None:
        return ""
    installed = "has no CUDA here" if "torch" in sys.modules else "is not installed"
    return f"PyTorch is left out, as it {installed}."


def wait() -> None:
    """Wait for the GPU, whichever library queued the work: CUDA waits for the device."""
    CuPy().synchronize()


def tensor(array: np.ndarray[Any, Any], device: Any = CuPy) -> Any:
    """Return an array as a tensor of burnpy."""
    return (IntTensor if array.dtype.kind == "i" else Tensor).from_data(array, device=device)


def torch_tensor(array: np.ndarray[Any, Any]) -> Any:
    """Return an array as a tensor of PyTorch on the GPU."""
    return torch().from_numpy(array).to(torch_device())


def torch_precision(precision: str) -> AbstractContextManager[Any]:
    """Set how PyTorch multiplies float32, and return the context for the forward pass."""
    module = torch()
    module.backends.cuda.matmul.allow_tf32 = module.backends.cudnn.allow_tf32 = precision == "TF32"
    context: AbstractContextManager[Any] = nullcontext()
    if precision == "bfloat16":
        context = module.autocast(torch_device(), module.bfloat16)
    return context


def machine() -> list[str]:
    """Return what was measured on: the GPU, its driver and the versions."""
    compared = f", torch {torch().__version__}" if torch() is not None else ""
    versions = f"Python {sys.version.split()[0]}, NumPy {version('numpy')}{compared}"
    return [f"{gpu()}, {CuPy().memory()}", versions]
