"""Trigonometric functions of float32 and float64 vectors, and their inverses, exact to 2 units in the last place.

They are written as `vector_functions` are. The reduction by quarters of a turn and the polynomials of sine and cosine
are from FreeBSD's msun (fdlibm: k_sin.c, k_cos.c, k_sinf.c, k_cosf.c). The polynomials of the inverses were fitted at
Chebyshev nodes with 60 digits.
"""

from __future__ import annotations

import math

from burnpy_numpy.kernels.compiler.vector_functions import MAGIC
from burnpy_numpy.kernels.compiler.vectors import INTS, Vector, Writer

_SIN64 = (
    *(1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06),
    *(-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01),
)
_COS64 = (
    *(-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07),
    *(2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02),
)
_SIN32 = (2.7183114939898219e-06, -1.9839334836096632e-04, 8.3333293858894632e-03, -1.66666666416265236e-01)
"""(sin(r) - r) / r³, of r² for |r| <= π/4, to 2⁻³⁷."""
_COS32 = (2.4390448796277410e-05, -1.38867637746099295e-03, 4.16666233237390632e-02, -4.99999997251031003e-01, 1.0)
"""cos(r), of r² for |r| <= π/4, to 2⁻³⁴."""
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
"""π/2 in three parts."""
_LARGEST_ANGLE = 2.0**28
"""The functions of larger numbers are left to the C library."""


def sin(w: Writer, x: Vector) -> Vector:
    """Return the sine."""
    sine, cosine, turn = _turned(w, x)
    y = _flipped(w, w.select(_odd(w, turn), cosine, sine), turn)
    return _finished(w, "sin", x, y)


def cos(w: Writer, x: Vector) -> Vector:
    """Return the cosine: the sine a quarter of a turn on."""
    sine, cosine, turn = _turned(w, x)
    turn = w.binary("add", turn, w.constant(1, turn.dtype))
    return _finished(w, "cos", x, _flipped(w, w.select(_odd(w, turn), cosine, sine), turn))


def tan(w: Writer, x: Vector) -> Vector:
    """Return the tangent: sine by cosine, or after an odd number of quarters of a turn -cosine by sine."""
    sine, cosine, turn = _turned(w, x)
    odd = _odd(w, turn)
    over, under = w.select(odd, w.neg(cosine), sine), w.select(odd, sine, cosine)
    if x.dtype == "float32":  # whose division takes a third of the time
        over, under = w.convert("fptrunc", over, x.dtype), w.convert("fptrunc", under, x.dtype)
    return _finished(w, "tan", x, w.div(over, under))


def _turned(w: Writer, x: Vector) -> tuple[Vector, Vector, Vector]:
    """Return sine and cosine of x less whole quarters of a turn, and their number in the lowest bits, all in 64 bits.
    For float32, double precision has enough digits for the shortest remainder of a number up to `_LARGEST_ANGLE`."""
    dtype, narrow = "float64", x.dtype == "float32"
    wide = w.convert("fpext", x, dtype) if narrow else x
    magic = w.constant(MAGIC[dtype], dtype)
    k = w.fma(wide, w.constant(2 / math.pi, dtype), magic)
    n = w.neg(w.sub(k, magic))
    t = w.fma(n, w.constant(_HALF_PI[0], dtype), wide)  # exact
    turn = w.bits(k, INTS[dtype])
    if narrow:
        r = w.fma(n, w.constant(_HALF_PI[1], dtype), t)
        z = w.mul(r, r)
        return w.fma(w.mul(z, r), w.polynomial(z, _SIN32), r), w.polynomial(z, _COS32), turn
    p = w.mul(n, w.constant(_HALF_PI[1], dtype))
    rest = w.fma(n, w.constant(_HALF_PI[1], dtype), w.neg(p))
    r = w.add(t, p)
    low = w.add(w.add(w.sub(t, r), p), rest)
    low = w.fma(n, w.constant(_HALF_PI[2], dtype), low)
    z = w.mul(r, r)
    half = w.constant(0.5, dtype)
    v = w.mul(z, r)
    inner = w.sub(w.mul(z, w.sub(w.mul(half, low), w.mul(v, w.polynomial(z, _SIN64[:-1])))), low)
    sine = w.sub(r, w.sub(inner, w.mul(v, w.constant(_SIN64[-1], dtype))))
    hz = w.mul(half, z)
    one = w.constant(1.0, dtype)
    head = w.sub(one, hz)
    tail = w.sub(w.mul(z, w.mul(z, w.polynomial(z, _COS64))), w.mul(r, low))
    return sine, w.add(head, w.add(w.sub(w.sub(one, head), hz), tail)), turn


def _odd(w: Writer, turn: Vector) -> Vector:
    """Return whether the lowest bit is set."""
    masked = w.binary("and", turn, w.constant(1, turn.dtype))
    return Vector(w.assign(f"icmp ne {w.type(turn.dtype)} {masked.text}, zeroinitializer"), "bool")


def _flipped(w: Writer, y: Vector, turn: Vector) -> Vector:
    """-y after half a turn, which the second lowest bit tells, else y."""
    half = w.binary("lshr", turn, w.constant(1, turn.dtype))
    sign = w.binary("shl", half, w.constant(63, turn.dtype))
    return w.bits(w.binary("xor", w.bits(y, turn.dtype), sign), y.dtype)


def _finished(w: Writer, name: str, x: Vector, y: Vector) -> Vector:
    """Return y in the dtype of x, with -0.0 where x is, and with the C library's results beyond `_LARGEST_ANGLE`."""
    if y.dtype != x.dtype:
        y = w.convert("fptrunc", y, x.dtype)
    if name != "cos":
        y = w.select(w.compare("oeq", x, w.constant(0.0, x.dtype)), x, y)
    return _far(w, name, x, y)


def _far(w: Writer, name: str, x: Vector, y: Vector) -> Vector:
    """y, but for elements of x beyond `_LARGEST_ANGLE`, which the C library computes in float64, one by one."""
    kind, one_kind, masks = w.type(x.dtype), w.scalar(x.dtype), w.type("bool")
    w.declared.add(f"declare double @burnpy_{name}(double)")
    w.declared.add(f"declare i1 @llvm.vector.reduce.or.v{w.width}i1({masks})")
    far = w.compare("ogt", w.call("fabs", x), w.constant(_LARGEST_ANGLE, x.dtype))
    some = w.assign(f"call i1 @llvm.vector.reduce.or.v{w.width}i1({masks} {far.text})")
    tag = w.name()[1:]
    w.write(f"br label %begin{tag}")
    w.label(f"begin{tag}")
    w.write(f"br i1 {some}, label %loop{tag}, label %end{tag}")
    w.label(f"loop{tag}")
    w.write(f"%i{tag} = phi i32 [0, %begin{tag}], [%next{tag}, %loop{tag}]")
    w.write(f"%all{tag} = phi {kind} [{y.text}, %begin{tag}], [%more{tag}, %loop{tag}]")
    argument = one = w.assign(f"extractelement {kind} {x.text}, i32 %i{tag}")
    if x.dtype == "float32":
        argument = w.assign(f"fpext float {one} to double")
    own = w.assign(f"extractelement {kind} {y.text}, i32 %i{tag}")
    called = w.assign(f"call double @burnpy_{name}(double {argument})")
    if x.dtype == "float32":
        called = w.assign(f"fptrunc double {called} to float")
    is_far = w.assign(f"extractelement {masks} {far.text}, i32 %i{tag}")
    chosen = w.assign(f"select i1 {is_far}, {one_kind} {called}, {one_kind} {own}")
    w.write(f"%more{tag} = insertelement {kind} %all{tag}, {one_kind} {chosen}, i32 %i{tag}")
    w.write(f"%next{tag} = add i32 %i{tag}, 1")
    done = w.assign(f"icmp eq i32 %next{tag}, {w.width}")
    w.write(f"br i1 {done}, label %end{tag}, label %loop{tag}")
    w.label(f"end{tag}")
    return Vector(w.assign(f"phi {kind} [{y.text}, %begin{tag}], [%more{tag}, %loop{tag}]"), x.dtype)


_ASIN = {
    "float32": (0.033690847, 0.017149238, 0.031100662, 0.044599403, 0.07500094, 0.16666666),
    "float64": (
        *(0.028757851367421566, -0.014851887071247204, 0.01740087944269402, 0.005457506718640358),
        *(0.01032281435018578, 0.011479177415184906, 0.013971212973552933, 0.017352392720869973),
        *(0.02237217294214989, 0.030381944138531247, 0.04464285714635543, 0.07499999999998433, 0.16666666666666669),
    ),
}
"""(asin(s) - s) / s³, of s² for |s| <= 1/2."""
_ATAN = {
    "float32": (
        *(0.0014886919, -0.009144629, 0.026305001, -0.048960514, 0.070319146, -0.08931827),
        *(0.11088262, -0.14284004, 0.1999995, -0.33333334),
    ),
    "float64": (
        *(-1.1832505417555692e-05, 0.0001368724853148122, -0.0007518472526973822, 0.002622977891906089),
        *(-0.006575683344151699, 0.012756172907694298, -0.020238706986393514, 0.027567942297344678),
        *(-0.033750132001619734, 0.03872640214042632, -0.04308119655330471, 0.04752086773576656),
        *(-0.05261265735709454, 0.05882074956371294, -0.06666636435777692, 0.07692305354678655),
        *(-0.09090908969557403, 0.11111111107234799, -0.14285714285648404, 0.19999999999999554, -0.3333333333333333),
    ),
}
"""(atan(s) - s) / s³, of s² for |s| <= 1."""


def asin(w: Writer, x: Vector) -> Vector:
    """Return the inverse sine: from 1/2 on, π/2 - 2 asin √((1 - x) / 2)."""
    near, y = _asin_near(w, x)
    two, high, low = (w.constant(value, x.dtype) for value in (2.0, *_parts_of_half_pi(x.dtype)))
    far = w.add(high, w.fma(w.neg(two), y, low))
    return w.call("copysign", w.select(near, y, far), x)


def acos(w: Writer, x: Vector) -> Vector:
    """Return the inverse cosine: from 1/2 on, 2 asin √((1 - x) / 2), below -1/2 π less that, else π/2 - asin x."""
    near, y = _asin_near(w, x)
    zero, two, high, low = (w.constant(value, x.dtype) for value in (0.0, 2.0, *_parts_of_half_pi(x.dtype)))
    middle = w.add(high, w.sub(low, w.call("copysign", y, x)))
    twice = w.add(y, y)
    left = w.fma(two, high, w.fma(two, low, w.neg(twice)))
    return w.select(near, middle, w.select(w.compare("olt", x, zero), left, twice))


def _asin_near(w: Writer, x: Vector) -> tuple[Vector, Vector]:
    """Return whether |x| is at most 1/2, and asin of it or else of √((1 - |x|) / 2)."""
    dtype = x.dtype
    size, half = w.call("fabs", x), w.constant(0.5, dtype)
    near = w.compare("ole", size, half)
    z = w.select(near, w.mul(x, x), w.fma(w.neg(half), size, half))
    s = w.select(near, size, w.call("sqrt", z))
    return near, w.fma(w.mul(s, z), w.polynomial(z, _ASIN[dtype]), s)


def atan(w: Writer, x: Vector) -> Vector:
    """Return the inverse tangent; beyond 1 π/2 less the inverse tangent of the reciprocal."""
    dtype = x.dtype
    size, one = w.call("fabs", x), w.constant(1.0, dtype)
    steep = w.compare("ogt", size, one)
    s = w.div(w.select(steep, one, size), w.select(steep, size, one))
    z = w.mul(s, s)
    y = w.fma(w.mul(s, z), w.polynomial(z, _ATAN[dtype]), s)
    high, low = (w.constant(value, dtype) for value in _parts_of_half_pi(dtype))
    return w.call("copysign", w.select(steep, w.add(high, w.sub(low, y)), y), x)


def _parts_of_half_pi(dtype: str) -> tuple[float, float]:
    """Return π/2 in two parts, the first rounded to the dtype."""
    return _HALF_PI[:2] if dtype == "float64" else (1.57079637050628662109375, -4.37113900018624283e-8)
