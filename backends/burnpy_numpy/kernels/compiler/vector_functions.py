"""Exponentials, logarithms, hyperbolic and error functions of float32 and float64 vectors.

They are exact to 2 units in the last place, erfc to 3.5 and erfinv of float64 to 5.

Each is written with additions, products, quotients, fma, selections and powers of 2 alone. So vectors of any width give
the same bits, and all elements take the same time, except those with subnormal results. Where a sum would cancel, the
terms are arranged as in FreeBSD's msun (fdlibm), which has the polynomials of log; the polynomials of exp are from
Cephes (S. L. Moshier).

Sources of error functions:
FreeBSD's msun (fdlibm) for erf near 0; W. J. Cody, Rational Chebyshev Approximation for the Error Function,
Math. Comp. 23, 1969, for erf beyond; M. M. Shepherd and J. G. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x²)
erfc x, Math. Comp. 36, 1981, for the form of erfc; M. Giles, Approximating the erfinv function, 2011, for the form of
erfinv in float32; M. J. Wichura, Algorithm AS 241, Appl. Stat. 37, 1988, for float64. The polynomials of erfc, and of
erfinv in float32, were fitted with 40 digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from burnpy.backend.numerics.error_functions import LARGE, LARGE_UNDER, QUANTILE
from burnpy_numpy.kernels.compiler.vectors import INTS, Vector, Writer, bits_of


class _Format(NamedTuple):
    """The numbers that the functions need of a float dtype."""

    mantissa: int  #: bits
    bias: int
    magic: float  #: 1.5 · 2^mantissa: adding it rounds to an integer, which is then in the lowest bits
    least: float  #: exp of less is 0
    most: float  #: exp of more is infinite
    ln2: tuple[float, float]  #: log(2) in two parts; the first has zeros at its end
    exp: tuple[float, ...]  #: (exp(r) - 1 - r) / r² for |r| <= log(2) / 2
    log: tuple[float, ...]  #: (log((1 + s) / (1 - s)) / s - 2) / s², of s²
    tiny: float  #: the smallest normal number
    lift: int  #: the power of 2 that makes every subnormal number normal


_FORMATS = {
    "float32": _Format(
        23,
        127,
        12582912.0,
        -104.0,
        89.0,
        (6.9313812256e-01, 9.0580006145e-06),
        (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
        (0.24279078841, 0.28498786688, 0.40000972152, 0.66666662693),
        2.0**-126,
        25,
    ),
    "float64": _Format(
        52,
        1023,
        6755399441055744.0,
        -746.0,
        710.0,
        (6.93147180369123816490e-01, 1.90821492927058770002e-10),
        tuple(1.0 / math.factorial(k) for k in range(13, 1, -1)),
        (
            *(1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01),
            *(2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01),
        ),
        2.0**-1022,
        54,
    ),
}
MAGIC = {dtype: numbers.magic for dtype, numbers in _FORMATS.items()}
_SINH = {
    "float32": (2.8062802e-06, 0.00019838102, 0.008333339, 0.16666667),
    "float64": (
        *(7.746178593018827e-13, 1.6057679623801638e-10, 2.5052117695907823e-08, 2.7557319191381816e-06),
        *(0.00019841269841324198, 0.008333333333333299, 0.16666666666666666),
    ),
}
"""(sinh(x) - x) / x³, of x² for |x| <= 1, fitted at Chebyshev nodes with 60 digits."""


def exp(w: Writer, x: Vector) -> Vector:
    """eˣ."""
    f = _FORMATS[x.dtype]
    most, zero = w.constant(f.most, x.dtype), w.constant(0.0, x.dtype)
    x = w.select(w.compare("ogt", x, most), most, x)  # NaN stays
    small = w.compare("olt", x, w.constant(f.least, x.dtype))  # a product that underflows takes as long as 100 others
    y, n = exp_parts(w, w.select(small, zero, x))
    return w.select(small, zero, scaled(w, w.add(y, w.constant(1.0, x.dtype)), n))


def scaled(w: Writer, y: Vector, n: Vector) -> Vector:
    """y · 2ⁿ, rounded once; 2ⁿ may be out of range where the result is not."""
    if w.has_scaling():
        return w.scaled(y, w.convert("sitofp", n, y.dtype))
    half = w.binary("ashr", n, w.constant(1, n.dtype))
    return w.mul(w.mul(y, power(w, half, y.dtype)), power(w, w.binary("sub", n, half), y.dtype))


def exp_parts(w: Writer, x: Vector) -> tuple[Vector, Vector]:
    """Return expm1(r) and the int n, with x = n · log(2) + r and |r| <= log(2) / 2."""
    f = _FORMATS[x.dtype]
    magic = w.constant(f.magic, x.dtype)
    k = w.fma(x, w.constant(1 / math.log(2), x.dtype), magic)
    n = w.sub(k, magic)
    r = w.fma(n, w.constant(-f.ln2[0], x.dtype), x)
    r = w.fma(n, w.constant(-f.ln2[1], x.dtype), r)
    y = w.fma(w.mul(w.polynomial(r, f.exp), r), r, r)
    ints = INTS[x.dtype]
    return y, w.binary("sub", w.bits(k, ints), w.constant(bits_of(f.magic, x.dtype), ints))


def power(w: Writer, n: Vector, dtype: str) -> Vector:
    """2ⁿ of an int n that is the exponent of a normal number."""
    f = _FORMATS[dtype]
    biased = w.binary("add", n, w.constant(f.bias, n.dtype))
    return w.bits(w.binary("shl", biased, w.constant(f.mantissa, n.dtype)), dtype)


def expm1(w: Writer, x: Vector) -> Vector:
    """eˣ - 1."""
    dtype = x.dtype
    most, least = w.constant(_FORMATS[dtype].most, dtype), w.constant(-50.0, dtype)
    given = x
    x = w.select(w.compare("ogt", x, most), most, x)
    x = w.select(w.compare("olt", x, least), least, x)
    y, n = exp_parts(w, x)
    half = power(w, w.binary("sub", n, w.constant(1, n.dtype)), dtype)  # half of 2ⁿ, which may be out of range
    y = w.fma(half, y, w.sub(half, w.constant(0.5, dtype)))
    y = w.add(y, y)
    return w.select(w.compare("olt", w.call("fabs", given), w.constant(_FORMATS[dtype].tiny, dtype)), given, y)


def log(w: Writer, x: Vector) -> Vector:
    """Return the natural logarithm."""
    dtype, f = x.dtype, _FORMATS[x.dtype]
    zero = w.constant(0.0, dtype)
    small = w.compare("olt", x, w.constant(f.tiny, dtype))
    lifted = w.select(small, w.mul(x, w.constant(2.0**f.lift, dtype)), x)
    m, e = _parts(w, lifted)
    e = w.sub(e, w.select(small, w.constant(f.lift, dtype), zero))
    y = _log_sum(w, w.sub(m, w.constant(1.0, dtype)), e, None)
    return _log_edges(w, x, zero, y)


def log1p(w: Writer, x: Vector) -> Vector:
    """log(1 + x)."""
    dtype = x.dtype
    one, zero = w.constant(1.0, dtype), w.constant(0.0, dtype)
    u = w.add(x, one)
    m, e = _parts(w, u)
    exact = w.compare("oeq", e, zero)  # then 1 + x needs no rounding in what follows
    lost = w.select(
        w.compare("ogt", x, one), w.sub(one, w.sub(u, x)), w.sub(x, w.sub(u, one))
    )  # what 1 + x lost in rounding
    correction = w.select(exact, zero, w.div(lost, u))
    y = _log_sum(w, w.select(exact, x, w.sub(m, one)), e, correction)
    y = w.select(w.compare("oeq", x, zero), x, y)
    return _log_edges(w, x, w.constant(-1.0, dtype), y)


def _parts(w: Writer, x: Vector) -> tuple[Vector, Vector]:
    """Return m in [√½, √2) and a whole number e, as floats, with x = m · 2ᵉ, for a normal x > 0."""
    f, ints = _FORMATS[x.dtype], INTS[x.dtype]
    low = w.constant(bits_of(math.sqrt(0.5), x.dtype), ints)
    offset = w.binary("sub", w.bits(x, ints), low)
    e = w.binary("ashr", offset, w.constant(f.mantissa, ints))
    m = w.bits(w.binary("add", w.binary("and", offset, w.constant((1 << f.mantissa) - 1, ints)), low), x.dtype)
    magic = w.binary("add", e, w.constant(bits_of(f.magic, x.dtype), ints))
    return m, w.sub(w.bits(magic, x.dtype), w.constant(f.magic, x.dtype))


def _log_sum(w: Writer, f: Vector, e: Vector, correction: Vector | None) -> Vector:
    """log(1 + f) + e · log(2) + correction, as fdlibm adds it up."""
    dtype = f.dtype
    form = _FORMATS[dtype]
    s = w.div(f, w.add(f, w.constant(2.0, dtype)))
    z = w.mul(s, s)
    r = w.mul(w.polynomial(z, form.log), z)
    half = w.mul(w.mul(f, f), w.constant(0.5, dtype))
    low = w.mul(e, w.constant(form.ln2[1], dtype))
    low = low if correction is None else w.add(low, correction)
    inner = w.fma(s, w.add(half, r), low)
    return w.fma(e, w.constant(form.ln2[0], dtype), w.sub(f, w.sub(half, inner)))


def _log_edges(w: Writer, x: Vector, pole: Vector, y: Vector) -> Vector:
    """Return -∞ at the pole, NaN below it and for NaN, ∞ for ∞, and else y."""
    infinity = w.constant(math.inf, x.dtype)
    y = w.select(w.compare("oeq", x, infinity), infinity, y)
    y = w.select(w.compare("oeq", x, pole), w.constant(-math.inf, x.dtype), y)
    return w.select(w.compare("uge", x, pole), w.select(w.compare("ord", x, x), y, x), w.constant(math.nan, x.dtype))


def tanh(w: Writer, x: Vector) -> Vector:
    """Return the hyperbolic tangent: e / (e + 2), e being expm1(2x)."""
    dtype = x.dtype
    top = w.constant(10.0 if dtype == "float32" else 20.0, dtype)  # from where on the result is 1
    size = w.call("fabs", x)
    size = w.select(w.compare("ogt", size, top), top, size)
    y, n = exp_parts(w, w.add(size, size))
    two_to_n = power(w, n, dtype)
    e = w.fma(two_to_n, y, w.sub(two_to_n, w.constant(1.0, dtype)))
    return w.call("copysign", w.div(e, w.add(e, w.constant(2.0, dtype))), x)


def sinh(w: Writer, x: Vector) -> Vector:
    """Return the hyperbolic sine: up to 1 a polynomial, else h - 1 / 4h, h being half of eˣ."""
    size = w.call("fabs", x)
    z = w.mul(size, size)
    near = w.fma(w.mul(size, z), w.polynomial(z, _SINH[x.dtype]), size)
    half, inverse = _half_exp(w, size)
    far = w.sub(half, inverse)
    return w.call("copysign", w.select(w.compare("ogt", size, w.constant(1.0, x.dtype)), far, near), x)


def cosh(w: Writer, x: Vector) -> Vector:
    """Return the hyperbolic cosine: h + 1 / 4h, h being half of eˣ."""
    return w.add(*_half_exp(w, w.call("fabs", x)))


def _half_exp(w: Writer, x: Vector) -> tuple[Vector, Vector]:
    """Return half of eˣ and of e⁻ˣ, for x >= 0. The first is finite for some x whose exponential is not."""
    dtype = x.dtype
    most = w.constant(_FORMATS[dtype].most + 1.0, dtype)
    y, n = exp_parts(w, w.select(w.compare("ogt", x, most), most, x))  # NaN stays
    half = scaled(w, w.add(y, w.constant(1.0, dtype)), w.binary("sub", n, w.constant(1, n.dtype)))
    return half, w.div(w.constant(0.25, dtype), half)


def sigmoid(w: Writer, x: Vector) -> Vector:
    """1 / (1 + e⁻ˣ), of negative x as eˣ / (1 + eˣ), which does not overflow."""
    one = w.constant(1.0, x.dtype)
    e = exp(w, w.neg(w.call("fabs", x)))
    top = w.select(w.compare("olt", x, w.constant(0.0, x.dtype)), e, one)
    return w.div(top, w.add(one, e))


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
_ERF32_NEAR = (*(-5.96761703e-4, 4.99119423e-3, -2.67681349e-2), *(1.12819925e-1, -3.76125336e-1, 1.28379166e-1))
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
