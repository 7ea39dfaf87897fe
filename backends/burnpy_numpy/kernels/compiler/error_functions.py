"""erf, erfc and erfinv of float32 and float64 vectors: see `burnpy_numpy.kernels.compiler.vector_functions`.

They are exact to 2, 3.5 and 5 units in the last place; erfinv to 2 in float32.

Sources: FreeBSD's msun (fdlibm) for erf near 0; W. J. Cody, Rational Chebyshev Approximation for the Error Function,
Math. Comp. 23, 1969, for erf beyond; M. M. Shepherd and J. G. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x²)
erfc x, Math. Comp. 36, 1981, for the form of erfc; M. Giles, Approximating the erfinv function, 2011, for the form of
erfinv in float32; M. J. Wichura, Algorithm AS 241, Appl. Stat. 37, 1988, for float64. The polynomials of erfc, and of
erfinv in float32, were fitted with 40 digits.
"""

from __future__ import annotations

import math

from burnpy.backend.numerics.special import LARGE, LARGE_UNDER, QUANTILE
from burnpy_numpy.kernels.compiler.vector_functions import exp_parts, log, power, scaled
from burnpy_numpy.kernels.compiler.vectors import Vector, Writer

_ERF64_NEAR = (
    *(-2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02),
    *(-3.25042107247001499370e-01, 1.28379167095512558561e-01),
)
_ERF64_NEAR_UNDER = (
    *(-3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03),
    *(6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.0),
)
_ERF32_FAR = (
    *(-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2),
    *(-1.06777877e-1, -6.34846687e-1, -1.28717512e-1),
)
_ERF32_NEAR = (
    *(-5.96761703e-4, 4.99119423e-3, -2.67681349e-2),
    *(1.12819925e-1, -3.76125336e-1, 1.28379166e-1),
)
_ERF64_SMALL = (
    *(-1.4769600846455443e-07, 1.6386324685923713e-06, -1.4923639782554364e-05, 0.00012055300630501441),
    *(-0.0008548326700674133, 0.00522397762347953, -0.026866170645062658, 0.11283791670955004),
    *(-0.37612638903183754, 0.1283791670955126),
)
"""(erf(x) - x) / x, of x², for |x| <= 0.477."""
_ERFC32 = (
    *(0.000593035249, 0.000460438809, -0.004394772, 0.000917179335, 0.0327676088, -0.102959007),
    *(0.157629147, -0.0990255997, -0.122356743, 1.26483822),
)
_ERFC64 = (
    *(1.0984195826021456e-08, 6.90684078137934e-08, -8.981758423780371e-08, -5.788877135461197e-07),
    *(3.0864560867344223e-07, 3.4473153469592568e-06, -7.04321653927421e-07, -2.0090132124345613e-05),
    *(4.939819358299689e-06, 0.00012509656449836808, -0.00010515762453039095, -0.0007798317972735672),
    *(0.0018886900570717312, 0.002529391766596819, -0.023770514894339265, 0.0683080273468624),
    *(-0.11927366341630627, 0.12964515870268212, -0.04756229435343486, -0.13562110612458053, 1.2530080582697296),
)
"""(1 + 2x) · exp(x²) · erfc(x), of (x - c) / (x + c), c being 2.5 in float32 and 3 in float64, for x >= 0.4765."""
_ERFINV32_NEAR = (
    *(-8.64300009e-09, 2.4252822e-08, 4.64061685e-07, -3.47694208e-06, -4.95329823e-06),
    *(0.000218410525, -0.00125275971, -0.00417750003, 0.246640295, 1.50140941),
)
"""erfinv(x) / x, of v - 2.5 where v = -log(1 - x²) <= 5."""
_ERFINV32_FAR = (
    *(0.000109903682, -0.000304451387, -4.76347814e-05, 0.00147819379, -0.00360257505),
    *(0.00568994414, -0.00763612054, 0.00944484305, 1.00167489, 2.83297682),
)
"""erfinv(x) / x, of √v - 3 where v > 5."""


def erf(w: Writer, x: Vector) -> Vector:
    """Return the error function."""
    return w.call("copysign", (_erf32 if x.dtype == "float32" else _erf64)(w, x), x)


def _erf32(w: Writer, x: Vector) -> Vector:
    """erf(|x|) by a polynomial near 0, else by 1 - exp of a polynomial."""
    size = w.call("fabs", x)
    near = w.fma(w.polynomial(w.mul(size, size), _ERF32_NEAR), size, size)
    top = w.constant(4.0, "float32")  # from where on the result is 1
    t = w.select(w.compare("ogt", size, top), top, size)
    exponent = w.fma(w.polynomial(t, _ERF32_FAR), t, w.neg(t))
    y, n = exp_parts(w, exponent)
    one = w.constant(1.0, "float32")
    far = w.sub(one, w.mul(w.add(y, one), power(w, n, "float32")))
    return w.select(w.compare("ogt", size, w.constant(0.927734375, "float32")), far, near)


def _erf64(w: Writer, x: Vector) -> Vector:
    """erf(|x|) by fdlibm's rational approximation near 0, and by Cody's of (1 - erf(x)) · exp(x²)."""
    dtype = "float64"
    size, one = w.call("fabs", x), w.constant(1.0, dtype)
    z = w.mul(size, size)
    near = w.fma(w.div(w.polynomial(z, _ERF64_NEAR), w.polynomial(z, _ERF64_NEAR_UNDER)), size, size)
    top = w.constant(6.0, dtype)
    t = w.select(w.compare("ogt", size, top), top, size)
    tail = w.div(w.polynomial(t, LARGE), w.polynomial(t, LARGE_UNDER))
    square = w.mul(t, t)
    rest = w.fma(t, t, w.neg(square))
    y, n = exp_parts(w, w.neg(square))
    e = w.mul(w.add(y, one), power(w, n, dtype))
    far = w.sub(one, w.mul(w.fma(w.neg(rest), e, e), tail))
    return w.select(w.compare("ole", size, w.constant(0.84375, dtype)), near, far)


def erfc(w: Writer, x: Vector) -> Vector:
    """1 - erf(x), by a polynomial near 0, else by exp(-x²) times one over 1 + 2x; of negative x, 2 less that."""
    dtype = x.dtype
    narrow = dtype == "float32"
    size, one, two = w.call("fabs", x), w.constant(1.0, dtype), w.constant(2.0, dtype)
    near = w.sub(one, w.fma(w.polynomial(w.mul(x, x), _ERF32_NEAR if narrow else _ERF64_SMALL), x, x))
    top = w.constant(11.0 if narrow else 28.0, dtype)  # from where on the result is 0
    t = w.select(w.compare("ogt", size, top), top, size)
    center = w.constant(2.5 if narrow else 3.0, dtype)
    under, over = w.add(t, center), w.fma(t, two, one)
    inverse = w.div(one, w.mul(under, over))
    share = w.mul(inverse, under)  # 1 / (1 + 2t), with one division for both
    share = w.fma(w.fma(w.neg(over), share, one), share, share)
    place = w.mul(w.mul(w.sub(t, center), over), inverse)
    square = w.mul(t, t)
    y, n = exp_parts(w, w.neg(square))
    e = w.add(y, one)
    e = w.fma(w.neg(w.fma(t, t, w.neg(square))), e, e)  # times exp of the rounding error of t²
    ratio = w.mul(w.polynomial(place, _ERFC32 if narrow else _ERFC64), share)
    far = scaled(w, w.mul(e, ratio), n)
    far = w.select(w.compare("olt", x, w.constant(0.0, dtype)), w.sub(two, far), far)
    return w.select(w.compare("ogt", size, w.constant(0.4765, dtype)), far, near)


def erfinv(w: Writer, x: Vector) -> Vector:
    """Return the inverse of erf; infinite at -1 and 1, NaN beyond."""
    size, one = w.call("fabs", x), w.constant(1.0, x.dtype)
    y = w.call("copysign", (_erfinv32 if x.dtype == "float32" else _erfinv64)(w, size), x)
    infinite = w.compare("oeq", size, one)
    return w.select(infinite, w.call("copysign", w.constant(math.inf, x.dtype), x), y)


def _erfinv32(w: Writer, x: Vector) -> Vector:
    """erfinv of x >= 0 by polynomials of -log(1 - x²), and of its root."""
    one = w.constant(1.0, "float32")
    v = w.neg(log(w, w.mul(w.sub(one, x), w.add(one, x))))
    near = w.polynomial(w.sub(v, w.constant(2.5, "float32")), _ERFINV32_NEAR)
    far = w.polynomial(w.sub(w.call("sqrt", v), w.constant(3.0, "float32")), _ERFINV32_FAR)
    return w.mul(w.select(w.compare("ogt", v, w.constant(5.0, "float32")), far, near), x)


def _erfinv64(w: Writer, x: Vector) -> Vector:
    """erfinv of x >= 0 by the quantile of (1 + x) / 2: one of three quotients of polynomials."""
    dtype = "float64"
    half = w.constant(0.5, dtype)
    center = w.mul(x, half)
    near = w.fma(w.neg(center), center, w.constant(0.180625, dtype))
    root = w.call("sqrt", w.neg(log(w, w.sub(half, center))))
    outer, furthest = w.sub(root, w.constant(1.6, dtype)), w.sub(root, w.constant(5.0, dtype))
    beyond, inside = (
        w.compare("ogt", root, w.constant(5.0, dtype)),
        w.compare("ole", center, w.constant(0.425, dtype)),
    )

    def chosen(parts: tuple[tuple[float, ...], ...]) -> Vector:
        values = [w.polynomial(place, part) for place, part in zip((near, outer, furthest), parts, strict=True)]
        return w.select(inside, values[0], w.select(beyond, values[2], values[1]))

    over, under = chosen(QUANTILE[0]), chosen(QUANTILE[1])
    over = w.mul(over, w.select(inside, center, w.constant(1.0, dtype)))
    return w.mul(w.div(over, under), w.constant(math.sqrt(0.5), dtype))
