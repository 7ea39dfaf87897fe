"""``backward(on_ready=f)``: a function called with each leaf's gradient as soon as the pass has completed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.autodiff.custom.user_code import called
from burnpy.autodiff.graph import Leaf, untracked
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.backend.primitives import Float
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe, new_tensor

if TYPE_CHECKING:
    from burnpy.autodiff.engine import Ready


def reporting(operation: str, device: Any, on_ready: Any) -> Ready:
    """Return the function for the engine that calls ``on_ready`` with leaf and gradient as tensors.

    Updates of buffers are not reported, as they are not gradients.

    Raises:
        KindError: ``on_ready`` is no function. During the pass also ArgumentError: it does not take two arguments, or
            it returned something.
    """
    if not callable(on_ready):
        raise KindError(
            f"{operation}(on_ready=…) takes a function of a leaf and its gradient, not {describe(on_ready)}"
        )
    who = f"the function given to {operation}(on_ready=…)"

    def ready(leaf: Leaf, gradient: Float) -> None:
        if leaf.buffer is not None:
            return
        primitive = untracked(leaf.value)
        primitive.node = leaf
        x, grad = new_tensor(Tensor, device, primitive), new_tensor(Tensor, device.inner, gradient)
        result = called(who, "a leaf and its gradient", on_ready, device.inner, x, grad)
        if result is not None:
            raise ArgumentError(
                f"{who} returned {result!r:.80}, and cannot replace gradients; x.register_hook(f) can, and "
                "grads.map(f) after the pass"
            )

    return ready
