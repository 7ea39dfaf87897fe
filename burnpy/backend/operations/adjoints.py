"""Rules of matrices whose transposes are, of complex matrices, conjugate transposes.

A rule that is not holomorphic is written for floats, with transposes. Of complex matrices it is called with a backend
whose transposes conjugate (`Adjoints`), and with gradients in the convention of users, which are conjugated around it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from burnpy.backend.operations.complex_numbers import magnitude, zeros_like
from burnpy.backend.primitives import Float, Inexact
from burnpy.backend.rules import Vjp


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
