"""No message repeats long values: thousands of sizes, dicts and names, ints of thousands of digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from inspect import isclass
from types import ModuleType
from typing import Any

import pytest

import burnpy
from burnpy import IntTensor, Tensor, linalg, nn
from burnpy.backend import NumPy
from burnpy.errors import BurnpyError, ShapeError
from burnpy.nn import functional

X: Any = Tensor[NumPy].ones((2, 3))
INTS: Any = IntTensor[NumPy].from_data([0, 1])
LONG = "a" * 10_000
VALUES: dict[str, Any] = {
    "10,000 sizes": (7,) * 10_000,
    "a long word": LONG,
    "a dict": {LONG: 1, **{f"key{k}": k for k in range(1000)}},
    "an int": 10**5000,
    "a negative int": -(10**5000),
    "two ints": (10**5000, 10**5000),
}
MODULES: tuple[ModuleType, ...] = (functional, linalg, burnpy)


def calls() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Yield public functions, methods and layers as functions of one argument."""
    for tensor in (X, INTS):
        for name in dir(type(tensor)):
            if not name.startswith("_") and callable(getattr(type(tensor), name, None)):
                yield f"{type(tensor).__name__}.{name}", getattr(tensor, name)
    for module in MODULES:
        for name in module.__all__:
            f = getattr(module, name)
            if not isclass(f) and callable(f):
                yield name, partial(f, X)
    for name in nn.__all__:
        layer: Any = getattr(nn, name)
        if isinstance(layer, type):
            yield name, partial(layer, device=NumPy)
            yield name, partial(layer, 2, device=NumPy)


@pytest.mark.slow
@pytest.mark.parametrize("kind", VALUES)
def test_messages_are_short_whatever_the_value(kind: str) -> None:
    found = []
    for name, call in calls():
        try:
            call(VALUES[kind])
        except BurnpyError as error:
            if len(str(error)) > 500:
                found.append(f"{name}: {len(str(error))} characters: {str(error)[:200]}")
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            if len(str(error)) > 500 or "integer string conversion" in str(error):
                found.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    assert not found, "\n".join(["", *found])


def test_the_middle_of_long_lists_and_words_is_left_out() -> None:
    with pytest.raises(ShapeError) as caught:
        raise ShapeError(f"shape {(7,) * 3000} and the name {LONG} do not fit")
    assert str(caught.value) == f"shape ({'7, ' * 8}…, 7) and the name {'a' * 79}…{'a' * 120} do not fit"
