"""The names of `burnpy.linalg`, made from its table by ``make generated``."""

from burnpy.backend.errors import LinAlgError
from burnpy.linalg.decompositions import (
    LU,
    CholeskyEx,
    Eig,
    Eigh,
    LuFactor,
    LuFactorEx,
    Qr,
    Svd,
    cholesky,
    cholesky_ex,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    lu,
    lu_factor,
    lu_factor_ex,
    qr,
    svd,
    svdvals,
)
from burnpy.linalg.equations import (
    LeastSquares,
    SolveEx,
    cholesky_inverse,
    cholesky_solve,
    lstsq,
    lu_solve,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from burnpy.linalg.matrix_functions import (
    InvEx,
    cond,
    det,
    inv,
    inv_ex,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    norm,
    slogdet,
    vander,
    vecdot,
    vector_norm,
)

__all__ = [
    "LU", "CholeskyEx", "Eig", "Eigh", "InvEx", "LeastSquares", "LinAlgError", "LuFactor", "LuFactorEx", "Qr",
    "SolveEx", "Svd", "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "cond", "det", "eig", "eigh",
    "eigvals", "eigvalsh", "inv", "inv_ex", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex",
    "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
