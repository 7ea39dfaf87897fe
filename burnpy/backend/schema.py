"""The schema: one entry for each operation, read from its declaration on `Backend`.

An operation is declared once, as a method whose annotations use the aliases of `burnpy.backend.primitives` and whose
decorator, `required` or `derived`, states whether a backend must implement it, its algebra, its derivative and its
other `Traits`. Everything generic over operations reads this table: the backends that wrap others (Autodiff, Forward,
Profiled, Checked), the conformance suite, the reference page, and tests of completeness::

    @required(Algebra.POINTWISE, flops=3, vjp=lambda i, g, out: i.mul(g, out))
    def exp(self, x: Float) -> Float: ...

    @required(Algebra.STRUCTURAL, view="x", vjp=permute_vjp)
    def permute(self, x: Value, dims: Shape) -> Value: ...

    @derived(Algebra.GENERAL, like="x", flops=lambda x: 7 * prod(x), vjp=softmax_vjp, symmetric=True)
    def softmax(self, x: Float, dim: int) -> Float: ...

A vjp multiplies a gradient by the derivative: ``i`` is the backend that computes gradients, ``g`` the gradient of the
result, and the other parameters name the result, ``out``, or arguments. Only the values that they name are saved.

`burnpy.backend.entries` parses its entries on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict, Unpack

from burnpy.backend.rules import BatchRule, Matrices, Vjp
from burnpy.typevars import F


class Algebra(Enum):
    """The form of an operation's derivative, which determines the kind of rule that defines it."""

    POINTWISE = "pointwise"  #: each element of the result depends on the same element of the arguments
    LINEAR = "linear"  #: linear in its float arguments together
    BILINEAR = "bilinear"  #: linear in each of two float arguments
    STRUCTURAL = "structural"  #: linear, and only moves, repeats or picks elements
    GENERAL = "general"  #: none of the above
    NONDIFFERENTIABLE = "nondifferentiable"  #: the result carries no gradient


POINTWISE, LINEAR, BILINEAR = Algebra.POINTWISE, Algebra.LINEAR, Algebra.BILINEAR
STRUCTURAL, GENERAL, NONDIFFERENTIABLE = Algebra.STRUCTURAL, Algebra.GENERAL, Algebra.NONDIFFERENTIABLE
Flops: TypeAlias = int | Callable[..., int]
"""The floating point operations of a call: a number for each element of the (first) result, or a formula.

The parameters of a formula name the arguments whose shapes it takes, and ``out`` is the shape of the (first) result,
as in ``lambda x, out: 2 * prod(out) * x[-1]``. An addition, multiplication, division, comparison, selection or square
root counts as 1, an elementary function (exp, log, sin, tanh) as 3, erf and a power as 9: about the time that each
takes on a CPU. A composition is the sum of the steps of its definition; moving, creating or converting elements is 0.
"""


class Traits(TypedDict, total=False):
    """The keywords of a declaration: the properties of an operation that generic code needs, and its derivative.

    `burnpy.backend.rules` explains the functions that compute derivatives. A pointwise operation gives ``vjp``, which
    serves both modes. A linear, structural or bilinear one gives the transposes as ``vjp``; forward mode applies the
    operation itself to tangents. Any other gives ``vjp`` and ``jvp``, ``vjp`` and ``symmetric``, or ``joint``. A
    derived operation without any of these is differentiated through its default.
    """

    elementwise: bool | tuple[str, ...]
    """The arguments (True: all primitives) that broadcast to the result's shape. Each element of the result depends on
    the same element of these only. A float result has the dtype to which the float arguments promote. Pointwise
    operations need not say so."""
    like: str
    """The argument whose shape the result has, for an operation that is not elementwise."""
    view: str
    """The argument whose memory the result may share: it does not where the layout of the elements prevents it, or
    where copying a few elements takes less time."""
    consumes: str | tuple[str, ...]
    """The arguments whose memory a result may overwrite; of `Backend.foreach` only if they are ``owned``. All other
    arguments are unchanged after a call."""
    indexed: str
    """The argument read only at the elements of an index or, if it is consumed, written there."""
    flops: Flops
    """See `Flops`. By default 1 for elementwise operations, else 0."""
    product: bool | tuple[str, ...]
    """The operands of matrix products (True: all float arguments), if products are most of the FLOPs; they take less
    time than other FLOPs. `Mixed` rounds the operands to 16 bits. With ``out``, it also rounds the result that is saved
    as an operand of the backward pass."""
    vjp: Vjp | tuple[Vjp, ...]
    """Reverse mode: one function ``(inner, grad, names…)`` for each float argument, which returns its gradient."""
    jvp: Vjp | tuple[Vjp, ...]
    """Forward mode: one function ``(inner, tangent, names…)`` for each float argument, which returns its contribution
    to the tangent of the result."""
    symmetric: bool
    """True if the Jacobian is symmetric, so that ``vjp`` serves both modes."""
    joint: Vjp
    """Reverse mode of an operation with several results, or whose gradients are computed together.

    ``(inner, grads, needs, names…)`` takes the gradients of the float results (None for an unused one), and for each
    float argument whether its gradient is needed. It returns the gradients, None where none is needed. The results are
    named ``out``, ``out1``, ``out2`` …."""
    joint_jvp: Vjp
    """Forward mode of such an operation: ``(inner, tangents, names…)`` takes the tangents of the float arguments (None
    for a constant, but not for all) and returns a tuple with those of the float results. By default, forward mode goes
    through the default."""
    matrices: Matrices
    """Simpler vjps of a product for two matrices, in addition to ``vjp``."""
    last_two: Vjp
    """A vjp that returns the gradients of the last two of three float arguments together, in addition to ``vjp``. It is
    called where both are needed."""
    batch: BatchRule
    """How `burnpy.func.vmap` computes the operation for many examples at once: see `burnpy.backend.rules`."""
    onnx: str
    """ONNX's operator for the operation, or a function that writes it: see `burnpy.interop.onnx.operators`."""
    method: bool
    """True if tensors have a method of the operation's name and docstring, which calls it and is loaded at first use.
    ``make generated`` writes the method. For elementwise operations of one or two arguments."""


class Declaration:
    """The arguments of `required` or `derived`."""

    __slots__ = ("algebra", "required", "traits")

    def __init__(self, algebra: Algebra, is_required: bool, traits: Traits) -> None:
        self.algebra = algebra
        self.required = is_required
        self.traits = traits


def required(algebra: Algebra, **traits: Unpack[Traits]) -> Callable[[F], F]:
    """Declare an operation that every backend must implement."""
    return _mark(Declaration(algebra, True, traits))


def derived(algebra: Algebra, **traits: Unpack[Traits]) -> Callable[[F], F]:
    """Declare an operation whose body is a default composed of other operations, which a backend may override."""
    return _mark(Declaration(algebra, False, traits))


def _mark(declaration: Declaration) -> Callable[[F], F]:
    def mark(function: F) -> F:
        function.__operation__ = declaration  # type: ignore[attr-defined]  # a function can have any attribute
        return function

    return mark


def declarations(cls: type) -> Mapping[str, Callable[..., Any]]:
    """Return the declared operations among the attributes of ``cls``, by name, in the order of their declaration."""
    declared: dict[str, Callable[..., Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if hasattr(value, "__operation__"):
                declared[name] = value
    return MappingProxyType(declared)


def missing(cls: type, declared: Mapping[str, Callable[..., Any]]) -> list[str]:
    """Return the required operations that ``cls`` does not implement.

    They are looked up in the ``__dict__`` of each class: attribute access would generate all methods that `Autodiff`
    generates on first use.
    """
    attributes = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return [n for n, f in declared.items() if f.__operation__.required and attributes[n] is f]  # type: ignore[attr-defined]  # as above
