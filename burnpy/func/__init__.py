"""Function transforms for differentiation, with the semantics of ``torch.func`` and JAX.

Arguments and results are plain tensors, and a function to differentiate is written, and typed, as a function of plain
tensors. The transforms nest to any depth, and functions may close over tensors of enclosing functions
(`burnpy.func.user_functions`). ``no_grad`` around a call has no effect; inside the function, values computed under
``no_grad`` are constant.

>>> from burnpy.func import grad
>>> x = Tensor[NumPy].from_data([1.0, 2.0])
>>> grad(lambda x: (x ** 3).sum())(x)
Tensor([ 3., 12.], shape=(2,), dtype=float32, device=NumPy)
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.func.compiling.compilation": "compiled",
    "burnpy.func.gradients_and_hessians": "grad hessian hvp value_and_grad vhp",
    "burnpy.func.jacobians": "jacfwd jacobian jacrev",
    "burnpy.func.jacobian_products": "jvp linearize vjp",
    "burnpy.func.vectorization": "stack_models vmap",
    "burnpy.func.pytree": "register_tree",
    "burnpy.func.control_flow.scan_and_cond": "cond scan while_loop",
    "burnpy.func.solvers.equations": "cg fixed_point root",
    "burnpy.func.solvers.least_squares": "least_squares",
    "burnpy.func.solvers.minima": "Minimum minimize",
    "burnpy.func.solvers.odeint": "OdeSolution odeint",
    "burnpy.func.solvers.problems": "Solution",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
