"""Solvers of equations that a function defines: differential equations, roots, fixed points, minima, linear systems.

`burnpy.func` exports them. `problems` has the vectors that they compute with, their reports of failures, and, as
`implicit`, the derivatives of solutions by the equations that hold at them; `adjoint` has the gradients of differential
equations by another one, solved backwards.
"""
