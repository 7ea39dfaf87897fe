"""Numbers on the GPU: those that the host knows, and formulas of few numbers as kernels of one thread.

The host knows the numbers that it made itself, so that reading them does not wait.

A formula has numbers on the GPU, as Adam's bias corrections have the count of updates. It is traced in Python with
numbers that write down what is computed of them. One that compares numbers, or passes them to other functions than
`sqrt`, has no kernel, and reading them waits for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, Elementwise, headers_of
from burnpy_cupy.kernels.programs import OPTIONS

_NAME = "burnpy_numbers"
HOST_NUMBERS = {"burnpy_number": Elementwise("float64 value", "float64 x", "x = value")}
"""The kernel that writes a number."""


class HostValues:
    """The values of some arrays of one element, as long as the arrays live."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], float]] = {}

    def note(self, x: Any, value: float) -> Any:
        """Keep the value of an array, which nothing changes, and return the array."""
        key = id(x)
        self._known[key] = ref(x, lambda _: self._known.pop(key, None)), value
        return x

    def of(self, x: Any) -> float | None:
        """Return the value of an array; None if the host does not know it."""
        known = self._known.get(id(x))
        return known[1] if known is not None and known[0]() is x else None


class TracedNumber:
    """A number of a formula, as C++ in float64.

    >>> rate = 0.5 / (1.0 - 0.9 ** TracedNumber("t"))
    >>> rate.text
    '(0.5 / (1.0 - pow(0.9, t)))'
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: Any) -> TracedNumber:
        return _infix(self, "+", other)

    def __radd__(self, other: Any) -> TracedNumber:
        return _infix(other, "+", self)

    def __sub__(self, other: Any) -> TracedNumber:
        return _infix(self, "-", other)

    def __rsub__(self, other: Any) -> TracedNumber:
        return _infix(other, "-", self)

    def __mul__(self, other: Any) -> TracedNumber:
        return _infix(self, "*", other)

    def __rmul__(self, other: Any) -> TracedNumber:
        return _infix(other, "*", self)

    def __truediv__(self, other: Any) -> TracedNumber:
        return _infix(self, "/", other)

    def __rtruediv__(self, other: Any) -> TracedNumber:
        return _infix(other, "/", self)

    def __pow__(self, other: Any) -> TracedNumber:
        return TracedNumber(f"pow({self.text}, {_text(other)})")

    def __rpow__(self, other: Any) -> TracedNumber:
        return TracedNumber(f"pow({_text(other)}, {self.text})")

    def __neg__(self) -> TracedNumber:
        return TracedNumber(f"(-{self.text})")

    def sqrt(self) -> TracedNumber:
        """Return the square root."""
        return TracedNumber(f"sqrt({self.text})")

    def __eq__(self, other: object) -> bool:
        raise TypeError("a traced number has no value to compare")

    def __bool__(self) -> bool:
        raise TypeError("a traced number has no value")

    __hash__ = None  # type: ignore[assignment]  # as in all classes with __eq__ alone


def _infix(x: Any, sign: str, y: Any) -> TracedNumber:
    return TracedNumber(f"({_text(x)} {sign} {_text(y)})")


def _text(x: Any) -> str:
    if isinstance(x, TracedNumber):
        return x.text
    if isinstance(x, (int, float)):
        return repr(float(x))
    raise TypeError(f"{x!r} is not a number")


def formula_source(
    formula: Callable[..., tuple[Any, ...]], numbers: Sequence[Any], dtypes: Sequence[str]
) -> str | None:
    """Return the source of the kernel of a formula; None if it has none.

    Args:
        formula: a function of numbers that returns a tuple of them.
        numbers: its arguments; None in place of those that are on the GPU.
        dtypes: the dtypes of these.
    """
    if any(dtype.startswith("complex") for dtype in dtypes):
        return None
    names = iter(range(len(dtypes)))
    given = [TracedNumber(f"(double)*in{next(names)}") if x is None else x for x in numbers]
    try:
        results = [_text(x) for x in formula(*given)]
    except (TypeError, AttributeError, ArithmeticError, ValueError):
        return None
    if any(word in text for text in results for word in ("inf", "nan")):
        return None
    inputs = [f"const {C_NAMES[dtype]}* in{k}" for k, dtype in enumerate(dtypes)]
    outputs = [f"double* out{k}" for k in range(len(results))]
    lines = [f"  const double v{k} = {text};" for k, text in enumerate(results)]
    lines += [f"  *out{k} = v{k};" for k in range(len(results))]
    body = "\n".join(lines)
    parameters = ", ".join([*inputs, *outputs])
    return f'{headers_of(dtypes)}extern "C" __global__ __launch_bounds__(1) void {_NAME}({parameters}) {{\n{body}\n}}\n'


def formula_kernel(xp: Any, source: str) -> Any:
    """Return the kernel of a source."""
    return xp.RawKernel(source, _NAME, OPTIONS)
