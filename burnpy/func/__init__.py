"""Function transforms for differentiation, with the semantics of ``torch.func`` and JAX.

Arguments and results are plain tensors, and a function to differentiate is written, and typed, as a function of plain
tensors. The transforms nest to any depth, and functions may close over tensors of enclosing functions
(`burnpy.func.levels`). ``no_grad`` around a call has no effect; inside the function, values computed under ``no_grad``
are constant.

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

if not TYPE_CHECKING:  # a type checker would accept any name otherwise

    def __getattr__(name: str) -> NoReturn:
        """Raise an error with a hint for a missing name, such as one of PyTorch's."""
        from burnpy.hints.missing import from_package

        raise from_package(__name__, name)
