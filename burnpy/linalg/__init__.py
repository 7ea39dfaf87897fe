"""Linear algebra of matrices (…, n, m) in batches, named as in ``torch.linalg``.

Matrices are floats or complex numbers, whose transposes are conjugate; what is real, such as singular values, is a
`Tensor`. All functions are differentiable twice, in reverse and forward mode. On NumPy LAPACK computes them, SciPy's
for matrices of many rows where SciPy is installed, on CuPy cuSOLVER and cuBLAS; other backends copy to the host and
back, unless they override the operation. float16 and bfloat16 are computed in float32. A matrix that is singular or not
positive definite where it must not be raises a `LinAlgError`, which names its place in the batch.

>>> from burnpy import linalg
>>> linalg.cholesky(Tensor[NumPy].from_data([[4.0, 2.0], [2.0, 5.0]])).tolist()
[[2.0, 0.0], [1.0, 2.0]]
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.backend.errors": "LinAlgError",
    "burnpy.linalg.decompositions": (
        "CholeskyEx LU Eig Eigh LuFactor LuFactorEx Qr Svd cholesky cholesky_ex eig eigh eigvals eigvalsh lu lu_factor "
        "lu_factor_ex qr svd svdvals"
    ),
    "burnpy.linalg.equations": (
        "LeastSquares SolveEx cholesky_inverse cholesky_solve lstsq lu_solve pinv solve solve_ex solve_triangular "
        "tensorinv tensorsolve"
    ),
    "burnpy.linalg.matrix_functions": (
        "InvEx cond det inv inv_ex matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm slogdet vander "
        "vecdot vector_norm"
    ),
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
