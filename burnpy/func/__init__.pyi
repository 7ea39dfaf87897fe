"""The names of `burnpy.func`, made from its table by ``python -m burnpy.docs.stubs``."""

from burnpy.func.gradient_functions import grad, value_and_grad
from burnpy.func.hessians import hessian, hvp, vhp
from burnpy.func.jacobians import jacfwd, jacobian, jacrev
from burnpy.func.jvps import jvp
from burnpy.func.pytree import register_tree
from burnpy.func.vjps import linearize, vjp

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
