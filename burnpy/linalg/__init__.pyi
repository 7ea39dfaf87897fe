"""The names of `burnpy.linalg`, made from its table by ``python -m burnpy.docs.stubs``."""

from burnpy.backend.errors import LinAlgError
from burnpy.linalg.decompositions import (
    LU,
    Eigh,
    LuFactor,
    Qr,
    Svd,
    cholesky,
    eigh,
    eigvalsh,
    lu,
    lu_factor,
    qr,
    svd,
    svdvals,
)
from burnpy.linalg.equations import LeastSquares, cholesky_solve, lstsq, lu_solve, pinv, solve, solve_triangular
from burnpy.linalg.matrix_functions import det, inv, matrix_exp, matrix_power, matrix_rank, multi_dot, slogdet
from burnpy.linalg.norms import cond, matrix_norm, norm, vector_norm

__all__ = [
    "LU",
    "Eigh",
    "LeastSquares",
    "LinAlgError",
    "LuFactor",
    "Qr",
    "Svd",
    "cholesky",
    "cholesky_solve",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "vector_norm",
]
