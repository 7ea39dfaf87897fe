"""`Strategy`: the base class of decorators inside `Autodiff` that change the kept values, not where gradients are."""

from __future__ import annotations

from typing import Any, Generic

from burnpy.backend.backend import Backend
from burnpy.typevars import I_co


class Strategy(Backend, Generic[I_co]):
    """A backend around ``I`` that gives ``Autodiff[Strategy[I]]`` its planner. Gradients are tensors on ``I``.

    `burnpy.autodiff.Balanced` is one. Signatures need not mention it: `Autodiff.gradient_device` tells type checkers
    where the gradients are, through `burnpy.tensor.on_autodiff`.
    """

    inner: I_co  # pyright: ignore[reportIncompatibleMethodOverride]  # a property only to allow such declarations
    planner: Any
    """The device whose operations recorded ones call. Its primitives may know how to compute their arrays again."""
