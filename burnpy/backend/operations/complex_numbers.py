"""Complex numbers, their parts, and the functions of them that are not holomorphic.

Inside of `Autodiff` and `Forward` a gradient pairs with a tangent as Re(Σ g · t), without a conjugate, so that the
rules of holomorphic operations are those of floats. Whoever hands gradients in or out conjugates them
(`burnpy.autodiff.graph`), since users expect ∂L/∂Re + i ∂L/∂Im.

Of matrices, a rule that is not holomorphic is written for floats, with transposes. Of complex matrices it is called
with a backend whose transposes conjugate (`Adjoints`), and with gradients in the convention of users, which are
conjugated around it.

Source: JAX, ``jax/_src/lax/lax.py``; K. Kreutz-Delgado, The Complex Gradient Operator and the CR-Calculus, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from burnpy.backend.dtypes import part_dtype
from burnpy.backend.errors import no_complex_arrays
from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Complex, Float, Inexact
from burnpy.backend.rules import SHIFTED, Vjp
from burnpy.backend.schema import GENERAL, LINEAR, derived


def magnitude(b: Any, x: Inexact) -> Float:
    """Return the absolute values of floats or of complex numbers."""
    return b.complex_abs(x) if x.dtype.kind == "c" else b.abs(x)


def zeros_like(b: Any, x: Float) -> Float:
    """Return zeros of the shape and dtype of x."""
    return b.full(x.shape, 0.0, x.dtype)


class ComplexNumbers(OperationsBase):
    """Complex primitives and their parts; the parts of complex64 are float32, those of complex128 float64.

    A backend with complex arrays sets `Backend.complex_arrays` and writes `complex`, `real` and `imag`.
    """

    @derived(
        LINEAR,
        like="real",
        flops=0,
        vjp=(lambda i, g: i.real(g), lambda i, g: i.neg(i.imag(g))),
        batch=SHIFTED,
        onnx="elementwise.complex",
    )
    def complex(self, real: Float, imag: Float) -> Complex:
        """Return real + i imag, of two floats of one shape and one dtype of 32 or 64 bits."""
        raise no_complex_arrays(self)

    @derived(
        LINEAR,
        like="z",
        view="z",
        flops=0,
        vjp=lambda i, g: i.complex(g, zeros_like(i, g)),
        batch=SHIFTED,
        onnx="elementwise.real",
    )
    def real(self, z: Complex) -> Float:
        """Return the real part."""
        raise no_complex_arrays(self)

    @derived(
        LINEAR,
        like="z",
        view="z",
        flops=0,
        vjp=lambda i, g: i.complex(zeros_like(i, g), i.neg(g)),
        batch=SHIFTED,
        onnx="elementwise.imag",
    )
    def imag(self, z: Complex) -> Float:
        """Return the imaginary part."""
        raise no_complex_arrays(self)

    @derived(LINEAR, elementwise=True, vjp=lambda i, g: i.conj(g))
    def conj(self, x: Complex) -> Complex:
        """Return the complex conjugate."""
        return self.complex(self.real(x), self.neg(self.imag(x)))

    @derived(GENERAL, like="x", flops=4, batch=SHIFTED, onnx="elementwise.complex_abs")
    def complex_abs(self, x: Complex) -> Float:
        """Return the magnitude √(a² + b²), without overflow; at 0 its derivatives of all orders are 0."""
        return self.hypot(self.real(x), self.imag(x))

    @derived(GENERAL, like="x", flops=6, batch=SHIFTED)
    def angle(self, x: Complex) -> Float:
        """Return the angle in radians, from -π to π; at 0 its derivatives are 0."""
        return self.atan2(self.imag(x), self.real(x))


def unit(b: Any, z: Inexact) -> Inexact:
    """Return the numbers of magnitude 1 in the same direction, and 0 for 0."""
    if z.dtype.kind != "c":
        return b.sign(z)
    size = b.complex_abs(z)
    none = b.eq(size, 0.0)
    size = b.where(none, b.full((), 1.0, part_dtype(z.dtype)), size)
    parts = b.complex(b.div(b.real(z), size), b.div(b.imag(z), size))  # a complex size would be inverted, or squared
    return b.where(b.discrete.bitwise_not(none), parts, 0.0)


def paired(b: Any, z: Complex) -> Float:
    """Return the parts of complex numbers along a new last dimension of size 2."""
    return b.stack([b.real(z), b.imag(z)], len(z.shape))


def unpaired(b: Any, x: Float) -> Complex:
    """Return the complex numbers whose parts are along the last dimension."""
    every = (slice(None),) * (len(x.shape) - 1)
    return b.complex(b.slice(x, (*every, 0)), b.slice(x, (*every, 1)))


def on_lists(b: Any, operation: str, xs: Sequence[Inexact], *args: Any) -> list[Inexact]:
    """Return an operation on lists, such as ``foreach_clamp``, of floats and of the parts of complex numbers."""
    if not any(x.dtype.kind == "c" for x in xs):
        return getattr(b, operation)(xs, *args)  # type: ignore[no-any-return]  # as declared
    results = getattr(b, operation)([paired(b, x) if x.dtype.kind == "c" else x for x in xs], *args)
    return [unpaired(b, y) if x.dtype.kind == "c" else y for x, y in zip(xs, results, strict=True)]


def magnitudes(b: Any, xs: Sequence[Inexact]) -> list[Float]:
    """Return floats as they are, and the absolute values of complex numbers."""
    return [b.complex_abs(x) if x.dtype.kind == "c" else x for x in xs]


def conjugated(b: Any, x: Inexact) -> Inexact:
    """Return the conjugate of complex numbers; floats as they are."""
    return b.conj(x) if x.dtype.kind == "c" else x


def real_part(b: Any, x: Inexact) -> Float:
    """Return the real part of complex numbers; floats as they are."""
    return b.real(x) if x.dtype.kind == "c" else x


def imaginary_diagonal(b: Any, x: Inexact) -> Inexact | None:
    """Return the imaginary parts of the diagonals of matrices, i times them as matrices; None for floats."""
    if x.dtype.kind != "c":
        return None
    n = x.shape[-1]
    turned = b.imag(x)
    return b.complex(zeros_like(b, turned), b.mul(turned, b.eye(n, n, turned.dtype)))


class Adjoints:
    """A backend whose transposes conjugate, and whose floats promote to complex numbers beside such."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def mT(self, x: Inexact) -> Inexact:  # noqa: N802  # the operation's name
        """Return the conjugate transpose."""
        return self.device.mT(conjugated(self.device, x))

    def matmul_tn(self, x: Inexact, y: Inexact) -> Inexact:
        """Return xᴴ y."""
        return self.matmul(self.mT(x), y)

    def matmul_nt(self, x: Inexact, y: Inexact) -> Inexact:
        """Return x yᴴ."""
        return self.matmul(x, self.mT(y))

    def abs(self, x: Inexact) -> Float:
        """Return magnitudes."""
        return magnitude(self.device, x)

    def vector_norm(self, x: Inexact, *arguments: Any) -> Float:
        """Return norms of magnitudes."""
        return self.device.vector_norm(self.abs(x), *arguments)

    def where(self, condition: Any, x: Inexact, y: Any) -> Inexact:
        """Choose elements."""
        return self.device.where(condition, *self._alike(x, y))

    def cat(self, xs: Any, dim: int) -> Inexact:
        """Join matrices."""
        return self.device.cat(list(self._alike(*xs)), dim)

    def _alike(self, *xs: Any) -> tuple[Any, ...]:
        """Return primitives with floats as complex numbers, if one is complex."""
        if not any(x.dtype.kind == "c" for x in xs if hasattr(x, "dtype")):
            return xs
        b = self.device
        return tuple([b.complex(x, zeros_like(b, x)) if hasattr(x, "dtype") and x.dtype.kind != "c" else x for x in xs])


def _promoting(name: str) -> Callable[..., Any]:
    return lambda self, x, y: getattr(self.device, name)(*self._alike(x, y))


for _name in ("add", "sub", "mul", "div", "matmul"):
    setattr(Adjoints, _name, _promoting(_name))


def adjoint_vjp(rule: Vjp) -> Vjp:
    """Return the vjp of one argument, for complex matrices too."""

    @wraps(rule)
    def vjp(i: Any, g: Inexact, *args: Any) -> Inexact:
        if g.dtype.kind != "c":
            return rule(i, g, *args)
        return i.conj(rule(Adjoints(i), i.conj(g), *args))

    return vjp


def adjoint_jvp(rule: Vjp) -> Vjp:
    """Return the jvp of one argument, for complex matrices too."""

    @wraps(rule)
    def jvp(i: Any, t: Inexact, *args: Any) -> Inexact:
        return rule(Adjoints(i) if t.dtype.kind == "c" else i, t, *args)

    return jvp


def adjoint_joint(rule: Vjp) -> Vjp:
    """Return a joint vjp, for complex matrices too."""

    @wraps(rule)
    def joint(i: Any, grads: Any, needs: Any, *args: Any) -> tuple[Inexact, ...]:
        if not any(x.dtype.kind == "c" for x in (*grads, *args) if hasattr(x, "dtype")):
            return rule(i, grads, needs, *args)  # type: ignore[no-any-return]  # as declared
        given = tuple([None if g is None else conjugated(i, g) for g in grads])
        return tuple([i.conj(part) for part in rule(Adjoints(i), given, needs, *args)])

    return joint


def adjoint_joint_jvp(rule: Vjp) -> Vjp:
    """Return a joint jvp, for complex matrices too."""

    @wraps(rule)
    def joint_jvp(i: Any, tangents: Any, *args: Any) -> tuple[Inexact, ...]:
        return rule(Adjoints(i) if tangents[0].dtype.kind == "c" else i, tangents, *args)  # type: ignore[no-any-return]  # as declared

    return joint_jvp
