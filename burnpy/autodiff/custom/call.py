"""`Call`: what all levels share of one call of a `Function`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.autodiff.custom.arguments import Kept
from burnpy.autodiff.custom.base import FunctionBase
from burnpy.autodiff.custom.context import Context
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.tensor_base import TensorBase

ONCE = "_burnpy_once"
"""The attribute of a backward() that `burnpy.autodiff.once_differentiable` marked."""
TAKES = {
    "forward": "ctx, and then each argument of apply()",
    "backward": "ctx, and then the gradient of each result",
    "jvp": "ctx, and then the tangent of each argument",
}
"""The arguments of the methods of a Function, in words, for error messages."""


class Call:
    """The data of one call of a Function that all levels share. It holds no tensors except those set on ctx."""

    __slots__ = (
        "arguments",
        "attributes",
        "differentiable",
        "function",
        "hidden",
        "lost",
        "materialize",
        "outputs",
        "saved",
    )

    function: type[FunctionBase]
    attributes: dict[str, Any]  #: the attributes of ctx
    materialize: bool  #: whether missing gradients and tangents are passed as zeros
    arguments: tuple[Kept | None, ...]
    outputs: tuple[Kept, ...]
    differentiable: tuple[bool, ...]  #: for each output
    saved: tuple[Kept | None, ...]
    hidden: int  #: how many saved tensors, at the end, are not for ctx
    lost: str | None  #: what forward() did that loses second derivatives, for the error message; or None

    def context(self, phase: str, needs: tuple[bool, ...], device: Any, saved: Sequence[Any]) -> Context:
        """Create the ctx of one call of backward() or jvp()."""
        count = len(self.saved) - self.hidden
        ctx = Context(self.function.__name__, phase, needs, device, (device, self.saved[:count], saved[:count]))
        ctx.__dict__ = self.attributes
        return ctx


def differentiable_flags(
    name: str, outs: Sequence[TensorBase[Any]], marked: Sequence[TensorBase[Any]]
) -> tuple[bool, ...]:
    """Return for each result whether it has a derivative: a float tensor that forward() did not mark otherwise.

    Raises:
        ArgumentError: forward() marked a tensor that it did not return.
    """
    if not marked:
        return tuple([out.kind == "float" for out in outs])
    for k, x in enumerate(marked):
        if not any(x is out for out in outs):
            raise ArgumentError(
                f"ctx.mark_non_differentiable() of {name}: argument {k} is not a result of forward(); pass the tensors "
                "that forward() returns"
            )
    return tuple([out.kind == "float" and not any(x is out for x in marked) for out in outs])


def source_of(saved: object, c: int, arguments: Sequence[Any], outs: Sequence[Any]) -> tuple[int, int]:
    """Return the location of the c-th saved tensor on every level, by identity: (0, k) for the k-th argument, (1, k)
    for the k-th result, (2, c) for any other tensor, which is a constant."""
    if saved is not None:
        for pool, members in enumerate((arguments, outs)):
            for k, member in enumerate(members):
                if member is saved:
                    return pool, k
    return 2, c
