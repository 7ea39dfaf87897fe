"""Solvers of equations that a function defines: differential equations, roots, fixed points, minima, linear systems.

`burnpy.func` exports them. A file has one solver; `problems` has the vectors that they compute with and their
reports of failures, `implicit` the derivatives of solutions by the equations that hold at them, and `adjoint` the
gradients of differential equations by another one, solved backwards.
"""
