"""Special functions of float tensors, named as in ``torch.special``.

All are elementwise, but for softmax, log_softmax and logsumexp. They are differentiable by every float argument, at
every order, in reverse and forward mode. Values are exact to a few roundings, also where they are tiny: most are
computed in float64 and rounded to the dtype of the argument. On NumPy and CuPy each is one kernel.

>>> from burnpy import special
>>> x = Tensor[NumPy].from_data([0.5, -40.0], dtype="float64")
>>> [f"{value:.6f}" for value in special.log_ndtr(x).tolist()]
['-0.368946', '-804.608442']
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.special.elementary": (
        "entr exp2 expit expm1 log1p log_softmax logit logsumexp round sinc softmax xlog1py xlogy"
    ),
    "burnpy.special.error_functions": "erf erfc erfcx erfinv log_ndtr ndtr ndtri ndtri_exp",
    "burnpy.special.gamma_and_bessel": (
        "betainc digamma gammainc gammaincc gammaln i0 i0e i1 i1e multigammaln polygamma psi zeta"
    ),
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
