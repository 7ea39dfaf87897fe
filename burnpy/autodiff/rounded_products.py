"""The matrix products of an `Autodiff` around a device that rounds operands to 16 bits, such as `Mixed`.

A product rounds its operands before it is recorded, and so saves them for its vjps in half the memory. The graph keeps
the shapes and dtypes of the tensors, so that gradients have the tensors' dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.graph import Tracked
from burnpy.backend.backend import operations

if TYPE_CHECKING:
    from burnpy.backend.entries import Operation


def rounded_products(device: Any) -> dict[str, Callable[..., Any]]:
    """Return the methods that replace those of the class on a device that rounds operands, by name."""
    return {op.name: _rounded_product(device, op) for op in _products()}


@cache
def _products() -> tuple[Operation, ...]:
    """Return the products of the schema; once, as `burnpy.func` makes a device for each derivative."""
    return tuple(op for op in operations().values() if op.product)


def _rounded_product(device: Any, op: Operation) -> Callable[..., Any]:
    positions = [k for k, a in enumerate(op.arguments) if a.name in op.product]
    rounded = device.computing.product_operand

    def method(*args: Any) -> Any:
        narrowed = list(args)
        for k in positions:
            x = args[k]
            if x.__class__ is Tracked:
                narrowed[k] = operand = Tracked()
                operand.value, operand.node = rounded(x.value, op, args), x.node
                operand.meta = x.meta or x.measured()
        return getattr(type(device), op.name)(device, *narrowed)

    return method
