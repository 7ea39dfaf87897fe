"""The extension ``special`` of the namespace: functions of `burnpy.special`, with dtypes promoted as in the namespace.

It is a proposal to the standard (https://github.com/data-apis/array-api/issues/725). SciPy's ``scipy.special`` calls
these functions where a namespace has them, and so has gradients; others it computes with NumPy, without gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import burnpy.special as functions
from burnpy.array_api.data_types import NUMERIC, arrays, astype, missing_from, standard
from burnpy.backend.dtypes import DEFAULT

__all__ = [
    "betainc",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "logit",
    "multigammaln",
    "ndtr",
    "ndtri",
    "ndtri_exp",
    "polygamma",
    "psi",
    "sinc",
    "xlog1py",
    "xlogy",
    "zeta",
]


class Special(Protocol):
    """A function of arrays and numbers, one array at least, that broadcast and promote to floats."""

    def __call__(self, *xs: Any) -> Any:
        """Call it."""
        ...


def _floats(*xs: Any) -> list[Any]:
    return [x if x.kind == "float" else astype(x, DEFAULT["float"]) for x in arrays(*xs, kinds=NUMERIC)]


def _of_floats(name: str) -> Any:
    def function(*xs: Any) -> Any:
        return getattr(functions, name)(*_floats(*xs))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Compute `burnpy.special.{name}` of each element; ints become floats."
    return standard(function)


betainc: Special = _of_floats("betainc")
digamma: Special = _of_floats("digamma")
entr: Special = _of_floats("entr")
erf: Special = _of_floats("erf")
erfc: Special = _of_floats("erfc")
erfcx: Special = _of_floats("erfcx")
erfinv: Special = _of_floats("erfinv")
exp2: Special = _of_floats("exp2")
expit: Special = _of_floats("expit")
gammainc: Special = _of_floats("gammainc")
gammaincc: Special = _of_floats("gammaincc")
gammaln: Special = _of_floats("gammaln")
i0: Special = _of_floats("i0")
i0e: Special = _of_floats("i0e")
i1: Special = _of_floats("i1")
i1e: Special = _of_floats("i1e")
log_ndtr: Special = _of_floats("log_ndtr")
logit: Special = _of_floats("logit")
ndtr: Special = _of_floats("ndtr")
ndtri: Special = _of_floats("ndtri")
ndtri_exp: Special = _of_floats("ndtri_exp")
psi: Special = _of_floats("psi")
sinc: Special = _of_floats("sinc")
xlog1py: Special = _of_floats("xlog1py")
xlogy: Special = _of_floats("xlogy")
zeta: Special = _of_floats("zeta")


@standard
def multigammaln(a: Any, d: Any) -> Any:
    """Compute `burnpy.special.multigammaln`; ``d`` is an int, or an array of one."""
    return functions.multigammaln(_floats(a)[0], int(d))


@standard
def polygamma(n: Any, x: Any) -> Any:
    """Compute `burnpy.special.polygamma`; ``n`` is an int, or an array of one."""
    return functions.polygamma(int(n), _floats(x)[0])


if not TYPE_CHECKING:
    __getattr__ = missing_from(__name__)
