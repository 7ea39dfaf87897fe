"""Arguments of the steps of samples: references to earlier values, constants, and functions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.testing.differential import calls

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Ref:
    """The value of an input or of an earlier step, by its number."""

    number: int


@dataclass(frozen=True, eq=False)
class Constant:
    """An array that becomes a tensor, with its expression in source if it has one."""

    array: NDArray[Any]
    source: str | None = None


@dataclass(frozen=True, eq=False)
class Named:
    """A Python value with the expression that names it in source."""

    value: Any
    source: str


@dataclass(frozen=True, eq=False)
class Applied:
    """A call of a function of `calls`, such as ``fitted``."""

    function: str
    args: tuple[Any, ...]


def evaluated(a: Any, values: Sequence[Any], like: Any) -> Any:
    """Return an argument's value: tensors for the values of inputs and earlier steps."""
    if isinstance(a, Ref):
        return values[a.number]
    if isinstance(a, Constant):
        return calls.constant(a.array, like)
    if isinstance(a, Named):
        return a.value
    if isinstance(a, Applied):
        args = [evaluated(x, values, like) for x in a.args]
        return getattr(calls, a.function)(*args)
    return [evaluated(x, values, like) for x in a] if isinstance(a, list) else a


def mapped(a: Any, mapping: Callable[[int], int]) -> Any:
    """Return an argument that refers to other numbers."""
    if isinstance(a, Ref):
        return Ref(mapping(a.number))
    if isinstance(a, Applied):
        return replace(a, args=mapped(a.args, mapping))
    return type(a)([mapped(x, mapping) for x in a]) if type(a) in (list, tuple) else a


def refs(a: Any) -> Iterator[int]:
    """Yield the numbers of the values that an argument refers to."""
    if isinstance(a, Ref):
        yield a.number
    elif isinstance(a, Applied):
        yield from refs(a.args)
    elif isinstance(a, (list, tuple)):
        for x in a:
            yield from refs(x)


def written(a: Any, names: Sequence[str]) -> str:
    """Return an argument as Python code, with the names of the values."""
    if isinstance(a, Ref):
        return names[a.number]
    if isinstance(a, Constant):
        return f"constant({a.source or array_source(a.array)}, x0)"
    if isinstance(a, Named):
        return a.source
    if isinstance(a, Applied):
        return f"{a.function}({', '.join(written(x, names) for x in a.args)})"
    if isinstance(a, list):
        return f"[{', '.join(written(x, names) for x in a)}]"
    if isinstance(a, np.ndarray):
        return array_source(a)
    return repr(a)


def array_source(array: NDArray[Any]) -> str:
    """Return the expression of an array, with all its digits."""
    text = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    shape = f".reshape({array.shape})" if 0 in array.shape else ""
    return f'np.array({text}, "{array.dtype}"){shape}'
