"""Sizes that vary: their symbols, how numbers that differ between the recordings of a model follow from them, and loops
whose number of steps does."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.dtypes import is_inexact, kind_of
from burnpy.backend.errors import ArgumentError
from burnpy.backend.plans.recording import Ref
from burnpy.func.control_flow.scan_and_cond import scan, while_loop
from burnpy.interop.onnx.operators.table import CLASSES, arange
from burnpy.tensor.joining import maximum, minimum, where
from burnpy.tensor.levels import working_on
from burnpy.tensor.tensor_base import describe, new_tensor


class Symbol(NamedTuple):
    """A dimension that varies: a number, a multiple of one, or a sum of these."""

    terms: tuple[tuple[str, int], ...]  #: the names of the numbers, with their factors

    @property
    def text(self) -> str:
        """The name of the dimension in the file."""
        return " + ".join([name if factor == 1 else f"{factor}*{name}" for name, factor in self.terms])

    def size(self, numbers: Mapping[str, int]) -> int:
        """Return the size of the dimension."""
        return sum(factor * numbers[name] for name, factor in self.terms)


def symbol_of(text: str) -> Symbol:
    """Return the symbol that a text stands for.

    >>> symbol_of("32*height").terms, symbol_of("past + length").terms
    ((('height', 32),), (('past', 1), ('length', 1)))
    """
    parts = [part.strip().partition("*") for part in text.split("+")]
    numbered = [bool(star) and factor.strip().isdecimal() for factor, star, _ in parts]
    pairs = zip(parts, numbered, strict=True)
    return Symbol(tuple([(part[2].strip(), int(part[0])) if known else ("".join(part), 1) for part, known in pairs]))


Symbols: TypeAlias = Mapping[tuple[int, int], Symbol]
"""The symbols by the number of the leaf and the dimension."""


def symbols_of(
    named: Mapping[str, int], leaves: Sequence[Any], dynamic: Mapping[Any, Any]
) -> tuple[Symbols, dict[str, int]]:
    """Return the symbol of each dynamic dimension, by the number of the leaf and the dimension, and the numbers."""
    symbols: dict[tuple[int, int], Symbol] = {}
    sizes: dict[str, int] = {}
    for name, dims in dynamic.items():
        if name not in named:
            near = get_close_matches(str(name), named, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            if isinstance(name, int):  # the names of dimensions, without their input
                hint = f"; write {{{next(iter(named), 'x')!r}: {dict(dynamic)!r}}}"
            raise ArgumentError(f"export(dynamic=...) names {name!r}, and the inputs are {list(named)}{hint}")
        if not isinstance(dims, Mapping) or not all(isinstance(symbol, str) for symbol in dims.values()):
            raise ArgumentError(
                f"export(dynamic=...) got {describe(dims)} for {name!r}; expected the names of dimensions, as in "
                "{0: 'batch'}"
            )
        number = named[name]
        shape = leaves[number].shape
        for dim, text in dims.items():
            if not -len(shape) <= dim < len(shape):
                raise ArgumentError(
                    f"export(dynamic=...) names dimension {dim} of {name!r}, which has shape {shape}; use one "
                    f"{-len(shape)} to {len(shape) - 1}"
                )
            symbols[number, dim % len(shape)] = symbol = symbol_of(text)
            if len(symbol.terms) == 1:
                _note_size(sizes, text, symbol, shape[dim])
    for (number, dim), symbol in symbols.items():
        missing = [name for name, _ in symbol.terms if name not in sizes]
        if missing:
            raise ArgumentError(
                f"export(dynamic=...) has {symbol.text!r}, and no dimension is {missing[0]!r} alone; name one"
            )
        if (size := leaves[number].shape[dim]) != symbol.size(sizes):
            raise ArgumentError(
                f"export(dynamic=...) has {symbol.text!r} for a size of {size}, and the other inputs have "
                f"{symbol.size(sizes)}"
            )
    return symbols, sizes


def _note_size(sizes: dict[str, int], text: str, symbol: Symbol, size: int) -> None:
    """Keep the number whose multiple a dimension is."""
    ((name, factor),) = symbol.terms
    if not size or not factor or size % factor:
        raise ArgumentError(f"export(dynamic=...) has {text!r} for a size of {size}; use a multiple of it")
    if sizes.setdefault(name, size // factor) != size // factor:
        raise ArgumentError(
            f"export(dynamic=...) has the symbol {name!r} for sizes {sizes[name]} and {size // factor}; "
            "use one symbol for dimensions that are always equal"
        )


_SHOWN = 6
"""The number of values that messages have."""


class Varying:
    """A float that differs between the recordings. It has no arithmetic, in which its other values would be lost."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values  #: in each recording

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        shown = [repr(value) for value in self.values[:_SHOWN]]
        return " / ".join([*shown, "…"] if len(self.values) > _SHOWN else shown)


class Size(Varying):
    """An int that differs between the recordings."""

    __slots__ = ()


class DifferError(Exception):
    """A value that is no number differs between the recordings: in this one from the first."""

    def __init__(self, recording: int) -> None:
        super().__init__(recording)
        self.recording = recording


class UnknownSizeError(Exception):
    """No expression is found for a size: more recordings may show one. It has the error that says so."""


def _require_same(values: Sequence[Any], of: Callable[[Any], Any]) -> None:
    first = of(values[0])
    for k, value in enumerate(values):
        if of(value) != first:
            raise DifferError(k)


def merged(values: Sequence[Any], operand: Callable[[Ref], Any]) -> Any:
    """Return one value for those that several recordings have in one place.

    Args:
        values: an argument of a node in each recording.
        operand: maps a value of the first recording to its operand in the file.

    Raises:
        DifferError: they differ, and are no numbers.

    >>> merged([(2, 8, 0.5), (4, 8, 0.5)], lambda ref: ref)
    (2 / 4, 8, 0.5)
    """
    first = values[0]
    kind = first.__class__
    _require_same(values, type)
    if kind is Ref:
        _require_same(values, lambda value: value.number)
        return operand(first)
    if isinstance(first, (tuple, list)):
        _require_same(values, len)
        members = [merged(column, operand) for column in zip(*values, strict=True)]
        return kind(*members) if hasattr(kind, "_fields") else kind(members)
    if kind is slice:
        ends = [merged([getattr(value, end) for value in values], operand) for end in ("start", "stop", "step")]
        return slice(*ends)
    if kind is int:
        return merged_size(values)
    if kind is float:
        same = all(value == first or (value != value and first != first) for value in values)
        return first if same else Varying(tuple(values))
    if isinstance(first, (bool, str)):
        _require_same(values, lambda value: value)
    return first  # a dtype, or a function that only checks call


def merged_size(values: Sequence[int]) -> int | Size:
    """Return an int that is the same in all recordings, or else a size.

    >>> merged_size([3, 3, 3]), merged_size([2, 4, 6])
    (3, 2 / 4 / 6)
    """
    return values[0] if len(set(values)) == 1 else Size(tuple(values))


FEW = 16  # the number of elements up to which those of an array may follow from sizes


def merged_numbers(arrays: Sequence[Any]) -> list[Any] | None:
    """Return the elements of small arrays that differ between the recordings; None for others."""
    first = arrays[0]
    alike = all(a.shape == first.shape and first.dtype.kind in "fi" and a.size <= FEW for a in arrays)
    if not alike or all(a.tobytes() == first.tobytes() for a in arrays):
        return None
    return [merged(row, lambda ref: ref) for row in zip(*[a.reshape(-1).tolist() for a in arrays], strict=True)]


class Expression(NamedTuple):
    """A size as ``scale · ((one · two · numerator + offset) // denominator) + shift``, of known sizes one and two.

    ``two`` may be None, for 1. With ``remainder`` it is the remainder of the division, and not the quotient; with
    ``modulo`` it is the remainder of the offset divided by ``one``.
    """

    one: tuple[int, ...]
    two: tuple[int, ...] | None = None
    numerator: int = 1
    offset: int = 0
    denominator: int = 1
    scale: int = 1
    shift: int = 0
    remainder: bool = False
    modulo: bool = False


def expression_of(values: tuple[int, ...], known: Sequence[tuple[int, ...]]) -> Expression | None:
    """Return how a size follows from known ones, in all recordings; None if no expression is found.

    >>> expression_of((8, 16, 24), [(2, 4, 6)]) == Expression(one=(2, 4, 6), numerator=4)
    True
    >>> sizes = tuple(range(6, 30))
    >>> half = expression_of(tuple([(n + 1) // 2 for n in sizes]), [sizes])
    >>> half.numerator, half.offset, half.denominator
    (1, 1, 2)
    """
    pairs = [(one, two) for k, one in enumerate(known) for two in known[k:]]
    for one, two in [*[(one, None) for one in known], *pairs]:
        found = _linear(values, one, two)
        if found is not None:
            return found
    rows = [(find, one) for find in (_quotient, _remainder, _modulo) for one in known]
    tried = (found for find, one in rows if (found := find(values, one)) is not None)
    return _product(values, known, _FACTORS) or next(tried, None)


_FACTORS = 5
"""The largest number of known sizes whose product is found, as the number of elements of a tensor is."""


def _product(values: tuple[int, ...], known: Sequence[tuple[int, ...]], most: int) -> Expression | None:
    """Return a size as a known one multiplied by a constant and others, up to so many."""
    for one in known if most else ():
        if all(size and value % size == 0 for value, size in zip(values, one, strict=True)):
            rest = tuple([value // size for value, size in zip(values, one, strict=True)])
            if len(set(rest)) == 1 or _product(rest, known, most - 1) is not None:
                return Expression(one, rest)
    return None


def _linear(values: tuple[int, ...], one: tuple[int, ...], two: tuple[int, ...] | None) -> Expression | None:
    product = one if two is None else tuple([a * b for a, b in zip(one, two, strict=True)])
    low, high = product.index(min(product)), product.index(max(product))
    if product[low] == product[high]:
        return None
    slope = Fraction(values[high] - values[low], product[high] - product[low])
    offset = values[low] - slope * product[low]
    if not slope or any(slope * x + offset != y for x, y in zip(product, values, strict=True)):
        return None
    if (slope.denominator * offset).denominator != 1:
        return None
    return Expression(one, two, slope.numerator, int(offset * slope.denominator), slope.denominator)


_LARGEST = 64
"""The largest denominator of a quotient."""


def _quotient(values: tuple[int, ...], size: tuple[int, ...]) -> Expression | None:
    """Return a rounded quotient, if the recordings leave no other one that is as simple.

    Sizes that are all multiples of the denominator are those that are rounded to multiples.
    """
    scale = math.gcd(*[value - values[0] for value in values]) or 1
    shift = values[0] % scale
    whole = [(value - shift) // scale for value in values]
    low, high = size.index(min(size)), size.index(max(size))
    run, rise = size[high] - size[low], whole[high] - whole[low]
    if rise <= 0:
        return None
    found: list[Expression] = []
    several: set[int] = set()  # the denominators with which recordings leave more than one quotient
    for denominator in range(2, _LARGEST + 1):
        for numerator in range(max(denominator * (rise - 1) // run, 1), denominator * (rise + 1) // run + 1):
            above = [denominator * y - numerator * x for x, y in zip(size, whole, strict=True)]
            least, most = max(above), min(above) + denominator - 1
            if least <= most and math.gcd(numerator, denominator) == 1:
                made = Expression(size, None, numerator, least, denominator, scale, shift)
                if least == most and denominator == scale:
                    return made
                found.append(made)
                several.update([denominator] if least < most else [])
    simple = [each for each in found if each.denominator < 2 * found[0].denominator]
    return simple[0] if len(simple) == 1 and simple[0].denominator not in several else None


def _remainder(values: tuple[int, ...], size: tuple[int, ...]) -> Expression | None:
    """Return the remainder of a division of a size, or of its negative, as paddings to a multiple are."""
    for sign in (1, -1):
        apart = [y - sign * x for x, y in zip(size, values, strict=True)]
        denominator = math.gcd(*[a - apart[0] for a in apart])
        if min(values) >= 0 and denominator // 2 <= max(values) < denominator:
            return Expression(size, None, sign, apart[0] % denominator, denominator, remainder=True)
    return None


def _modulo(values: tuple[int, ...], size: tuple[int, ...]) -> Expression | None:
    """Return the remainder of a number divided by a size, as a cyclic shift is."""
    largest = max(range(len(size)), key=size.__getitem__)
    for number in (values[largest], values[largest] - size[largest]):
        if 0 not in size and all(number % n == value for n, value in zip(size, values, strict=True)):
            return Expression(size, offset=number, modulo=True)
    return None


POWERS: Mapping[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "": (lambda size: size, lambda number: number),
    "Reciprocal": (lambda size: 1.0 / size, lambda number: 1.0 / number),
    "Sqrt": (lambda size: size**0.5, lambda number: number**2),
    "Reciprocal of Sqrt": (lambda size: size**-0.5, lambda number: number**-2),
}
"""Functions of sizes that numbers of models are, and their inverses, by their operators."""

_EXACT = 4e-16  # the relative error of numbers that are functions of sizes


def power_of(values: tuple[float, ...], known: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], str, float] | None:
    """Return how a float follows from a known size plus an int: the sum, a name in `POWERS` and a factor.

    >>> power_of((0.5, 0.25, 0.125), [(2, 4, 8)])
    ((2, 4, 8), 'Reciprocal', 1.0)
    >>> power_of((2.0, 1.0, 0.5), [(2, 3, 5)])
    ((1, 2, 4), 'Reciprocal', 2.0)
    """
    for size in known:
        for name, (power, inverse) in POWERS.items():
            shift = _shift(values, size, inverse)
            moved = tuple([n + shift for n in size])
            if min(moved) < 1:
                continue
            factor = values[0] / power(moved[0])
            pairs = zip(moved, values, strict=True)
            if all(abs(factor * power(n) - value) <= _EXACT * abs(value) for n, value in pairs):
                return moved, name, factor
    return None


def _shift(values: tuple[float, ...], size: tuple[int, ...], inverse: Callable[[float], float]) -> int:
    """Return the int that a size is more by, to be proportional to the inverses of values; 0 if it does not show."""
    low, high = size.index(min(size)), size.index(max(size))
    if len(set(size)) < 3 or 0.0 in (values[low], values[high]):
        return 0
    first, last = inverse(values[low]), inverse(values[high])
    slope = (last - first) / (size[high] - size[low])
    place = first / slope if slope else math.nan
    return round(place) - size[low] if math.isfinite(place) else 0


def _running(combine: Callable[[Any, Any], Any], x: Any, dim: int) -> Any:
    """Combine each element of a tensor with all before it along a dimension, twice as many in each step."""
    count, order = x.shape[dim], arange(x.shape[dim], x.device)
    places = order.reshape(count, *(1,) * (x.ndim - dim - 1))

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        width, out = state
        before = out.index_select(dim, (order - width).clamp(min=0))
        return width * 2, where(places >= width, combine(before, out), out)

    one = type(order).full((), 1, device=x.device)
    return while_loop(lambda state: state[0] < count, step, (one, x))[1]


def _running_index(extreme: Callable[[Any, Any], Any], x: Any, dim: int) -> Any:
    """Return the index of the extreme up to each element, of equal ones the last."""
    best = _running(extreme, x, dim)
    places = arange(x.shape[dim], x.device).reshape(x.shape[dim], *(1,) * (x.ndim - dim - 1))
    return _running(maximum, where((x == best) | (x != x), places, 0), dim)


def _search(sequence: Any, values: Any, right: bool) -> Any:
    """Return the places of values in a sequence; each step moves one of two bounds to the middle."""
    low = arange(values.numel(), values.device).reshape(*values.shape) * 0

    def step(bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        middle = (low + high) // 2
        found = sequence.gather(-1, middle.clamp(max=sequence.shape[-1] - 1))
        x, y = (values, found) if right else (found, values)
        before = (x < y) | ((y != y) & (x == x))  # NaN is last
        passed = (~before if right else before) & (low < high)
        return where(passed, middle + 1, low), where(passed, high, middle)

    return while_loop(lambda bounds: (bounds[0] < bounds[1]).any(), step, (low, low + sequence.shape[-1]))[0]


def _recurrence(factor: Any, x: Any, dim: int) -> Any:
    """Return what each step adds to the last result, multiplied by a factor."""

    def step(y: Any, slices: tuple[Any, Any]) -> tuple[Any, Any]:
        return (new := slices[0] * y + slices[1]), new

    xs = factor.movedim(dim, 0), x.movedim(dim, 0)
    return scan(step, xs[1].sum(dim=0) * 0.0, xs)[1].movedim(0, dim)


def _of_primitives(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a backend and primitives, given one of tensors."""

    def function(b: Any, *args: Any) -> Any:
        tensors = [new_tensor(CLASSES[kind_of(x.dtype)], b, x) if hasattr(x, "dtype") else x for x in args]
        with working_on(b):  # and not on the level of a vmap around it
            return f(*tensors)._primitive

    return function


LOOPS: Mapping[str, Callable[..., Any]] = {
    "cumprod": _of_primitives(lambda x, dim: _running(operator.mul, x if is_inexact(x.dtype) else x.int("int64"), dim)),
    "logcumsumexp": _of_primitives(lambda x, dim: _running(lambda a, b: a.logaddexp(b), x, dim)),
    "cummax_index": _of_primitives(lambda x, dim: _running_index(maximum, x, dim)),
    "cummin_index": _of_primitives(lambda x, dim: _running_index(minimum, x, dim)),
    "recurrence": _of_primitives(_recurrence),
    "searchsorted": _of_primitives(_search),
}
"""The operations that ONNX lacks and whose defaults are steps, whose number depends on a size, as loops."""
