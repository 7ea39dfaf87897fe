"""Detection of derivatives that user code loses by reading values out of tensors.

Results computed from such values are constants for second derivatives. This module detects the reads;
`burnpy.autodiff.custom.apply.refused` makes the error. Reading values of detached tensors is fine, since detach()
declares them constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from burnpy.autodiff.custom.context import Context
from burnpy.tensor.host_data import watching
from burnpy.tensor.tensor_base import TensorBase


class Departures:
    """Records the first method by which a rule read values of a tracked tensor. Inactive on a plain device."""

    def __init__(self, device: Any) -> None:
        self.method: str | None = None
        self.block = watching(self) if device.differentiates else nullcontext()

    def __call__(self, x: TensorBase[Any], method: str) -> None:
        """Record that ``method`` read the values of ``x``."""
        if self.method is None and x.kind == "float" and is_differentiated(x):
            self.method = method

    def message(self, who: str) -> str:
        """Return the error message for a derivative of the results of ``who``."""
        return (
            f"{who} took values out of a tracked tensor by {self.method} and cannot be differentiated; "
            "compute with operations on tensors alone, or mark constants with x.detach()"
        )


class FirstDeparture:
    """Records the first method by which forward() read values of a float tensor, and the attributes of ctx at
    that time."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.method: str | None = None
        self.before: dict[str, Any] = {}

    def __call__(self, x: TensorBase[Any], method: str) -> None:
        """Record that ``method`` read the values of ``x``."""
        if self.method is None and x.kind == "float":
            self.method, self.before = method, dict(self.ctx.__dict__)

    def lost(self, known: Sequence[object], others: Sequence[Any]) -> str | None:
        """Describe what forward() did that loses derivatives, as the rest of a sentence; None if it did nothing so.

        Args:
            known: the arguments and results, through whose tensors derivatives flow.
            others: the other saved tensors.
        """
        for name, value in self.ctx.__dict__.items():
            if isinstance(value, TensorBase) and any(value is x for x in known):
                return (
                    f"kept ctx.{name}, which second derivatives cannot go through; keep arguments and results with "
                    "ctx.save_for_backward()"
                )
            if self.method is None or (name in self.before and self.before[name] is value):
                continue
            if holds_floats(value, known):
                return self._left(f"kept ctx.{name}")
        if self.method is not None and any(holds_floats(x, known) for x in others):
            return self._left("saved a tensor that is neither an argument nor a result")
        return None

    def _left(self, did: str) -> str:
        return (
            f"took values out of its tensors by {self.method} and {did}, which second derivatives cannot go through; "
            "let backward() compute with the gradients and with arguments and results kept by ctx.save_for_backward(), "
            "or decorate it with once_differentiable, and pass constants to apply()"
        )


def is_differentiated(x: TensorBase[Any]) -> bool:
    """Return whether a tensor is tracked or has a tangent on any level of its device."""
    device, primitive = x._backend, x._primitive
    while device.differentiates:
        if getattr(primitive, "node", None) is not None or getattr(primitive, "tangent", None) is not None:
            return True
        device, primitive = device.inner, device.lower(primitive)
    return False


def holds_floats(value: Any, known: Sequence[object]) -> bool:
    """Return whether a value that forward() set on ctx may contain floats through which derivatives would flow."""
    if any(value is x for x in known):
        return False
    if isinstance(value, (tuple, list, set)):
        return any(holds_floats(member, known) for member in value)
    if isinstance(value, dict):
        return any(holds_floats(member, known) for member in value.values())
    if isinstance(value, TensorBase):
        return value.kind == "float"
    dtype = getattr(value, "dtype", None)  # an array, or a NumPy scalar
    return isinstance(value, (float, complex)) if dtype is None else dtype.kind in "fcV"
