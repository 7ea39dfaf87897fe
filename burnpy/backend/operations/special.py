"""Special functions composed of required operations, for backends without native ones."""

from __future__ import annotations

from typing import Any

from burnpy.backend.primitives import Float

_SMALL = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_SMALL_UNDER = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
LARGE = (
    *(
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
    ),
    *(8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
)
LARGE_UNDER = (
    *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
    *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)


def erf(b: Any, x: Float) -> Float:
    """Compute the error function to double precision, on any backend.

    Source: W. J. Cody, Rational Chebyshev Approximation for the Error Function, Math. Comp. 23, 1969.
    """
    small = b.clamp(x, -0.46875, 0.46875)
    squared = b.mul(small, small)
    near = b.div(b.mul(small, _polynomial(b, squared, _SMALL)), _polynomial(b, squared, _SMALL_UNDER))
    size = b.clamp(b.abs(x), 0.46875, 6.0)  # erf(6) is 1 to double precision
    tail = b.div(_polynomial(b, size, LARGE), _polynomial(b, size, LARGE_UNDER))
    far = b.add(b.neg(b.mul(b.exp(b.neg(b.mul(size, size))), tail)), 1.0)
    value = b.where(b.le(b.abs(x), 0.46875), near, b.mul(far, b.sign(x)))
    return b.where(b.ne(x, x), x, value)


def _polynomial(b: Any, x: Float, coefficients: tuple[float, ...]) -> Float:
    """Evaluate a polynomial by Horner's scheme; the coefficient of the highest power is first."""
    total = b.add(b.mul(x, coefficients[0]), coefficients[1])
    for c in coefficients[2:]:
        total = b.add(b.mul(total, x), c)
    return total
