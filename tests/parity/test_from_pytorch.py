"""The pages about PyTorch have a row for each public name of its autograd, modules and optimizers."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import pytest

from burnpy.docs.names_elsewhere import PAGE
from burnpy.testing.conformance import every_case

torch = pytest.importorskip("torch", reason="reads the names from PyTorch, which is not installed")

LINES = [line for page in PAGE.parent.glob("*.md") for line in page.read_text(encoding="utf-8").splitlines()]
THEIRS = " ".join(
    code for line in LINES if line.startswith("| ") for code in re.findall(r"`(.+?)`", line.split("|")[1])
)
MODULES = (
    "torch.autograd",
    "torch.autograd.anomaly_mode",
    "torch.autograd.forward_ad",
    "torch.autograd.function",
    "torch.autograd.functional",
    "torch.autograd.grad_mode",
    "torch.autograd.gradcheck",
    "torch.autograd.graph",
    "torch.autograd.profiler",
    "torch.autograd.profiler_util",
    "torch.autograd.variable",
    "torch.func",
    "torch.utils.checkpoint",
)
OF_TENSORS = re.compile(r"^(?!_).*(grad|hook|leaf|detach|backward|output_nr|is_inference|^data$)")
OF_TORCH = re.compile(r"^(?!_).*(_grad$|grad_enabled|inference|anomaly|^vmap$)")
NOT_AUTOGRAD = {"retain_graph"}
MODULES_OF_UTILS = {"torch.nn.utils.clip_grad"}
ONE_NAME_FOR_ALL = {f"Optimizer.{name}": f"optimizer.{name}" for name in ("step", "zero_grad")}


def members(cls: Any) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


def names() -> list[str]:
    """Return the names that a page must have, as it writes them."""
    found: list[str] = []
    for module in MODULES:
        __import__(module)
        loaded = sys.modules[module]
        found += [f"{module}.{name}" for name in loaded.__all__ if not inspect.ismodule(getattr(loaded, name, None))]
    found += [f".{name}" for name in members(torch.Tensor) if OF_TENSORS.match(name)]
    found += [f"torch.{name}" for name in members(torch) if OF_TORCH.match(name)]
    function = torch.autograd.Function
    found += [f".{name}" for name in members(function)]
    found += [f".{name}" for name in members(torch.autograd.graph.Node)]
    found += [f".{name}" for name in members(torch.autograd.profiler.profile)]
    found += [f"torch.nn.{name}" for name in members(torch.nn) if inspect.isclass(getattr(torch.nn, name))]
    found += [f"torch.nn.init.{name}" for name in members(torch.nn.init) if name.endswith("_")]
    found += [f"torch.nn.utils.{name}" for name in members(torch.nn.utils) if name.startswith("clip")]
    found += [f"torch.optim.{name}" for name in torch.optim.__all__]
    found += [f"torch.optim.lr_scheduler.{name}" for name in torch.optim.lr_scheduler.__all__]
    methods = {name: getattr(torch.nn.Module, name) for name in members(torch.nn.Module)}
    own = [name for name, f in methods.items() if callable(f) and f.__module__.startswith("torch.")]
    found += [f"Module.{name}" for name in own]  # transformers adds others
    found += [f"Optimizer.{name}" for name in members(torch.optim.Optimizer)]
    return found


ELSEWHERE = {f"torch.autograd.grad_mode.{name}": f"torch.autograd.{name}" for name in torch.autograd.grad_mode.__all__}
"""The shorter names under which a page lists some functions."""


def test_a_page_has_a_row() -> None:
    with every_case() as case:
        for name in sorted(set(names()) - NOT_AUTOGRAD - MODULES_OF_UTILS):
            with case(name):
                shown = (ELSEWHERE | ONE_NAME_FOR_ALL).get(name, name)
                assert re.search(rf"{re.escape(shown)}(?!\w)", THEIRS), (
                    f"burnpy/docs/from_pytorch has no row for {shown}"
                )
