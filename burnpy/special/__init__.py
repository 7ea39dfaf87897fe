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
    "burnpy.special.functions": (
        "betainc digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p "
        "log_ndtr log_softmax logit logsumexp multigammaln ndtr ndtri ndtri_exp polygamma psi round sinc softmax "
        "xlog1py xlogy zeta"
    ),
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
