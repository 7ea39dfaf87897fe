"""Derivatives as functions of functions, with the meaning of ``torch.func`` and JAX.

Plain tensors go in and come out; a function that is differentiated is written, and typed, as a function of plain
tensors. Everything here nests to any depth, and functions may close over tensors of the functions around them
(`burnpy.func.levels`). ``no_grad`` around a call does not change it; inside of the function, what is computed under
``no_grad`` is constant.

>>> from burnpy import Tensor
>>> from burnpy.backend import NumPy
>>> x = Tensor[NumPy].from_data([1.0, 2.0])
>>> grad(lambda x: (x ** 3).sum())(x)
Tensor([ 3., 12.], shape=(2,), dtype=float32, device=NumPy)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from burnpy.func.gradients import grad, value_and_grad
from burnpy.func.hessians import hessian, hvp, vhp
from burnpy.func.jacobians import jacfwd, jacobian, jacrev
from burnpy.func.jvps import jvp
from burnpy.func.linearization import linearize
from burnpy.func.pytree import register_tree
from burnpy.func.vjps import vjp

__all__ = [
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "register_tree",
    "value_and_grad",
    "vhp",
    "vjp",
]

if not TYPE_CHECKING:  # which otherwise takes every name to be here

    def __getattr__(name: str) -> NoReturn:
        """What to say of a name that there is not, as one of PyTorch's."""
        from burnpy.hints.missing import from_package

        raise from_package(__name__, name)
