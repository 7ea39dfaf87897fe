"""The entries of the schema, parsed from the declarations of the operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from inspect import Parameter
from math import prod
from typing import Any, NamedTuple

from burnpy.backend.functions import signature
from burnpy.backend.primitives import INEXACT, KINDS, Shape
from burnpy.backend.rules import BatchRule, Folded
from burnpy.backend.schema import Algebra, Declaration, Flops

EMPTY: Any = Parameter.empty


class Argument(NamedTuple):
    """One parameter of an operation."""

    name: str
    kind: str | None  #: "Float", "Int", … as in `burnpy.backend.primitives`; None for a plain Python value
    sequence: bool  #: a sequence of primitives (the ``xs`` of ``cat``)
    scalar: bool  #: a Python number is accepted too
    default: Any = EMPTY
    elementwise: bool = False  #: broadcasts to the result's shape: see `burnpy.backend.schema.Traits`
    role: str | None = None  #: "Dim", "Dims", "Shape" or "Key", of a plain value with one of these annotations

    @property
    def floats(self) -> bool:
        """True if a decorator receives primitives with gradients here (ints and bools go to ``discrete`` instead)."""
        return self.kind in _WITH_GRADIENT


class Operation(NamedTuple):
    """One operation of the schema. `burnpy.backend.schema.Traits` explains the traits."""

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[str | None, ...]  #: the kind of each result; None for a plain Python value
    algebra: Algebra
    required: bool
    function: Callable[..., Any]  #: the declaration; for a derived operation also its default
    like: str | None  #: the argument whose shape the result has
    view: str | None  #: the argument whose memory the result shares
    consumes: tuple[str, ...]  #: the arguments whose memory may be overwritten: see `consumed`
    indexed: str | None  #: the argument accessed only at the elements of an index
    counts: Flops  #: the number or formula by which `flops` counts
    product: tuple[str, ...]  #: the operands, if it is, in the main, a matrix product
    batch: BatchRule | None = None  #: how it is computed for many examples at once
    onnx: str | None = None  #: ONNX's operator, or the function that writes it; None for its default

    @property
    def elementwise(self) -> bool:
        """True if all primitive arguments broadcast, and elements depend on the same elements of all of them."""
        primitives = [argument for argument in self.arguments if argument.kind is not None]
        return bool(primitives) and all(argument.elementwise for argument in primitives)

    @property
    def float_arguments(self) -> tuple[Argument, ...]:
        """The arguments through which a gradient can flow."""
        return tuple(argument for argument in self.arguments if argument.floats)

    @property
    def float_results(self) -> tuple[bool, ...]:
        """For each result, whether a decorator receives a primitive with a gradient."""
        return tuple(kind in _WITH_GRADIENT for kind in self.results)

    @property
    def lists(self) -> bool:
        """True if each result is a list of primitives, as in `Backend.foreach`."""
        return "list[" in str(self.function.__annotations__["return"])

    @property
    def summary(self) -> str:
        """The first line of the operation's docstring."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    @property
    def draws(self) -> bool:
        """True if it draws random numbers, so that a second call returns others."""
        return any(argument.name == "generator" for argument in self.arguments)

    def consumed(self, args: Sequence[Any]) -> tuple[str, ...]:
        """Return the names of the arguments whose memory a call may overwrite; ``args`` are all arguments, in order.

        >>> from burnpy.backend import operations
        >>> operations()["accumulate"].consumed((1.0, 2.0))
        ('total',)
        """
        if not self.consumes:
            return ()
        owned = [value for a, value in zip(self.arguments, args, strict=True) if a.name == "owned"]
        return self.consumes if all(owned) else ()

    def flops(self, arguments: Sequence[Shape | None], result: Shape) -> int:
        """Return the FLOPs of a call: see `burnpy.backend.schema.Flops`.

        Args:
            arguments: for each argument in order its shape, or None if it is not a single primitive.
            result: the shape of the (first) result.

        >>> from burnpy.backend import operations
        >>> operations()["matmul"].flops([(2, 3), (3, 4)], (2, 4))
        48
        """
        if isinstance(self.counts, int):
            return self.counts * prod(result)
        shapes = [result if k is None else arguments[k] for k in self.flops_positions]
        return self.counts(*shapes)

    @property
    def flops_positions(self) -> tuple[int | None, ...]:
        """The positions of the arguments whose shapes the formula `counts` takes; None stands for the result's."""
        names = [argument.name for argument in self.arguments]
        needed = () if isinstance(self.counts, int) else signature(self.counts).parameters
        return tuple(None if name == "out" and "out" not in names else names.index(name) for name in needed)


_KIND = re.compile(rf"\b({'|'.join(KINDS)})\b")
_WITH_GRADIENT = frozenset({name for name, kinds in KINDS.items() if not INEXACT.isdisjoint(kinds)})


@cache
def operation(function: Callable[..., Any]) -> Operation:
    """Return the schema's entry for a declared method of `Backend`: ``operation(Backend.exp)``."""
    declaration: Declaration = function.__operation__  # type: ignore[attr-defined]  # set by required or derived
    algebra, traits = declaration.algebra, declaration.traits
    parameters = [p for p in signature(function).parameters.values() if p.name != "self"]
    elementwise = traits.get("elementwise", algebra is Algebra.POINTWISE)
    arguments = tuple(_argument(p, elementwise) for p in parameters)
    consumes = traits.get("consumes", ())
    entry = Operation(
        function.__name__,
        arguments,
        _results(str(function.__annotations__["return"])),
        algebra,
        declaration.required,
        function,
        traits.get("like"),
        traits.get("view"),
        (consumes,) if isinstance(consumes, str) else consumes,
        traits.get("indexed"),
        traits.get("flops", 1 if elementwise is True else 0),
        _operands(traits.get("product", False), arguments),
        traits.get("batch"),
        traits.get("onnx"),
    )
    named = (
        elementwise if isinstance(elementwise, tuple) else (),
        entry.consumes,
        tuple(name for name in entry.product if name != "out"),
        (*entry.batch.folded, *entry.batch.shared) if isinstance(entry.batch, Folded) else (),
        (entry.like, entry.view),
    )
    names = {a.name for a in arguments} | {None}
    unknown = {name for group in (*named, (entry.indexed,)) for name in group} - names
    if not isinstance(entry.counts, int):
        unknown |= set(signature(entry.counts).parameters) - names - {"out"}
    if unknown:
        raise TypeError(
            f"the declaration of {entry.name} names {sorted(map(str, unknown))}, which are not arguments of it"
        )
    return entry


def _argument(p: Parameter, elementwise: bool | tuple[str, ...]) -> Argument:
    annotation = str(p.annotation)
    match = _KIND.search(annotation)
    kind = match.group(1) if match else None
    return Argument(
        p.name,
        kind,
        annotation.startswith("Sequence["),
        kind is not None and "Scalar" in annotation,
        p.default,
        kind is not None and (elementwise if isinstance(elementwise, bool) else p.name in elementwise),
        annotation if annotation in ("Dim", "Dims", "Shape", "Key") else None,
    )


def _operands(product: bool | tuple[str, ...], arguments: tuple[Argument, ...]) -> tuple[str, ...]:
    if isinstance(product, tuple):
        return product
    return tuple(a.name for a in arguments if a.floats) if product else ()


def _results(annotation: str) -> tuple[str | None, ...]:
    kinds = tuple(_KIND.findall(annotation))
    return kinds or (None,)
