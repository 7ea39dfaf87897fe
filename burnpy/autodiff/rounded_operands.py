"""Products of `Autodiff` on a device that rounds operands (`Mixed`): the graph saves what was rounded.

A product whose operands are rounded before it is recorded saves them in 16 bits, in half the memory, and its vjps get
them so. Shapes and dtypes of the graph stay those of the tensors, so that gradients have the tensors' dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from burnpy.autodiff.graph import Tracked
from burnpy.backend.backend import operations
from burnpy.backend.entries import Operation


def products(device: Any) -> dict[str, Callable[..., Any]]:
    """Return the methods that replace those of the class on a device that rounds operands, by name."""
    return {op.name: _product(device, op) for op in _operations()}


@cache
def _operations() -> tuple[Operation, ...]:
    """Return the products of the schema; once, as `burnpy.func` makes a device for each derivative."""
    return tuple(op for op in operations().values() if op.product)


def _product(device: Any, op: Operation) -> Callable[..., Any]:
    positions = [k for k, a in enumerate(op.arguments) if a.name in op.product]
    rounded = device.computing.product_operand

    def method(*args: Any) -> Any:
        narrowed = list(args)
        for k in positions:
            x = args[k]
            if x.__class__ is Tracked:
                narrowed[k] = operand = Tracked()
                operand.value, operand.node, operand.meta = rounded(x.value), x.node, x.meta or x.measured()
        return getattr(type(device), op.name)(device, *narrowed)

    return method
