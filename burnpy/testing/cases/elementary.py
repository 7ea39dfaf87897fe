"""Examples of elementary functions and their inverses."""

from __future__ import annotations

import numpy as np

from burnpy.testing.cases.elementwise import SPECIAL, elementwise

_NEXT_TO_0 = (*SPECIAL, 2.0**-14, -(2.0**-14))
_POSITIVE = (0.3, 2.0)

elementwise("tan", np.tan, x=(-1.2, 1.2), loose=2)
elementwise("asin", np.arcsin, x=(-0.8, 0.8), special=_NEXT_TO_0)
elementwise("acos", np.arccos, x=(-0.8, 0.8))
elementwise("atan", np.arctan, special=_NEXT_TO_0)
elementwise("sinh", np.sinh, special=_NEXT_TO_0)
elementwise("cosh", np.cosh)
elementwise("asinh", np.arcsinh, special=(*_NEXT_TO_0, 1e4, -1e4))
elementwise("acosh", np.arccosh, x=(1.2, 3.0), special=(*SPECIAL, 1e4))
elementwise("atanh", np.arctanh, x=(-0.7, 0.7), special=_NEXT_TO_0)
elementwise("exp2", np.exp2)
elementwise("log2", np.log2, x=_POSITIVE)
elementwise("log10", np.log10, x=_POSITIVE)
elementwise("trunc", np.trunc, special=(*SPECIAL, 2.5, -2.5, -0.5))
