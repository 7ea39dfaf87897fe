"""Types of tensors and models on an `Autodiff` device, by the backend of the gradients, whatever the strategy.

Signatures that take ``Tensor[Autodiff[I]]`` and return ``Tensor[I]`` would need an overload for each strategy, such as
``Tensor[Autodiff[Balanced[I]]]``, since type arguments are invariant. These protocols ask the device for it instead.
"""

from __future__ import annotations

from typing import Protocol

from burnpy.typevars import I_co, T_co


class Differentiating(Protocol[I_co]):
    """A device whose gradients are on ``I``, that is an `Autodiff`."""

    def gradient_device(self) -> I_co:
        """The device of gradients."""
        ...


class OnAutodiff(Protocol[I_co]):
    """A tensor or module whose gradients are on ``I``."""

    @property
    def device(self) -> Differentiating[I_co]:
        """The device of the tensor or of the module's parameters."""
        ...


class TensorOnAutodiff(OnAutodiff[I_co], Protocol[I_co]):
    """A float tensor whose gradient is on ``I``."""

    def retain_grad(self) -> object:
        """Only float tensors have this method."""
        ...


class ThisOnAutodiff(OnAutodiff[I_co], Protocol[I_co, T_co]):
    """A float tensor of type ``T`` whose gradient is on ``I``."""

    def retain_grad(self) -> T_co:
        """A tensor of the same type."""
        ...
