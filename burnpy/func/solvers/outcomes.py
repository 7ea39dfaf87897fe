"""How solvers report that they failed: by an error, also from a compiled function, or in their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from burnpy.backend.errors import ConvergenceError
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.func.derivative_levels import base_for
from burnpy.tensor.joining import where
from burnpy.tensor.levels import differs_between_examples
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor

X = TypeVar("X")

STALLED, TOO_MANY, NON_FINITE = 1.0, 2.0, 3.0
"""Why a search for a solution failed."""
_DIGITS = 6


class Solution(NamedTuple, Generic[X]):
    """The result of `root`, `fixed_point` and `cg`."""

    x: X
    """The solution, a tree like the first guess."""
    residual: Tensor[Any]
    """How far the equations are from being satisfied: the largest magnitude of an element, of shape ()."""
    steps: IntTensor[Any]
    """The number of steps."""
    converged: BoolTensor[Any]
    """Whether it converged."""


def largest(x: Any) -> Any:
    """Return the largest magnitude of the elements of a vector; 0 if there are none."""
    return x.abs().max() if x.shape[0] else x.sum()


def is_chosen_by_where(condition: Any, others: Sequence[Any] = ()) -> bool:
    """Return whether the value of a bool cannot be read, so that what it chooses between is computed all the same."""
    return recorder_of(base_for("where", (condition, *others))) is not None or differs_between_examples(condition)


def select(condition: Any, new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
    """Return the tensors ``new`` if a bool is True, else ``old``.

    Its value is read where it can be, so that what is not taken has no part in derivatives. Otherwise `where` chooses.
    """
    if is_chosen_by_where(condition, (*new, *old)):
        return [x if x is y else where(condition, x, y) for x, y in zip(new, old, strict=True)]
    return list(new if condition.item() else old)


def refuse_failure(status: Any, causes: Mapping[int, Callable[..., str]], numbers: Sequence[Any]) -> None:
    """Raise an error if a solver failed: at once, or in each replay of a compiled function.

    Args:
        status: a 0-d float tensor: 0, or the number of a cause.
        causes: for each number the function of ``numbers``, in digits, that returns the message.
        numbers: 0-d float tensors.

    Raises:
        ConvergenceError: the status is not 0.
    """
    values = [status.detach().int()]
    for x in numbers:
        values += _decimal(x.detach())

    def error(status: int, *digits: int) -> ConvergenceError | None:
        if status not in causes:
            return None
        shown = [f"{float(f'{m}e{e - _DIGITS}'):.6g}" for m, e in zip(digits[::2], digits[1::2], strict=True)]
        return ConvergenceError(causes[status](*shown))

    device: Any = status._device
    device.discrete.defer_check(tuple([x._primitive for x in values]), error)


def _decimal(x: Any) -> list[Any]:
    """Return the digits of a number, and its power of ten, as ints: what checks of a device can pass to messages."""
    x = x.to_dtype("float64").nan_to_num()
    power = x.abs().maximum(1e-300).log10().floor()
    digits = (x * 10.0 ** (-power) * 10.0**_DIGITS).round()
    return [digits.int(), power.int()]
