"""The names of `burnpy.func`, made from its table by ``make generated``."""

from burnpy.func.compiling.compilation import compiled
from burnpy.func.control_flow.scan_and_cond import cond, scan, while_loop
from burnpy.func.gradients_and_hessians import grad, hessian, hvp, value_and_grad, vhp
from burnpy.func.jacobian_products import jvp, linearize, vjp
from burnpy.func.jacobians import jacfwd, jacobian, jacrev
from burnpy.func.pytree import register_tree
from burnpy.func.solvers.equations import cg, fixed_point, root
from burnpy.func.solvers.least_squares import least_squares
from burnpy.func.solvers.minima import Minimum, minimize
from burnpy.func.solvers.odeint import OdeSolution, odeint
from burnpy.func.solvers.problems import Solution
from burnpy.func.vectorization import stack_models, vmap

__all__ = [
    "Minimum", "OdeSolution", "Solution", "cg", "compiled", "cond", "fixed_point", "grad", "hessian", "hvp", "jacfwd",
    "jacobian", "jacrev", "jvp", "least_squares", "linearize", "minimize", "odeint", "register_tree", "root", "scan",
    "stack_models", "value_and_grad", "vhp", "vjp", "vmap", "while_loop",
]  # fmt: skip
