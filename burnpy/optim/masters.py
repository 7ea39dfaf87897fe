"""Master weights: float32 copies of 16-bit parameters, which the optimizer updates and rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import float32
from burnpy.optim.state import ParamState, placed

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Float
    from burnpy.optim.pending import Pending

MASTER = "master"
"""The name of the master among the state tensors of a parameter."""


def masters_of(
    device: Any, members: Sequence[Pending], states: Mapping[str, ParamState], rounded: Mapping[str, Float]
) -> list[Float]:
    """Return what an update computes with: the masters of 16-bit parameters, and the values of others.

    The master of a parameter's first update is its value. Where rounding the master does not give the parameter's
    value, as it was changed by something else than a step, the value takes the master's place, element by element.

    Args:
        device: the plain device of the parameters.
        members: the parameters.
        states: the optimizer's states by parameter id.
        rounded: the values, by parameter id, that the last steps rounded masters to.
    """
    params: list[Float] = []
    unknown: dict[DType, list[int]] = {}
    for k, m in enumerate(members):
        state, value = states.get(m.param._id), m.value
        master = None if state is None else state.values.get(MASTER)
        if value.dtype.itemsize > 2:
            params.append(value)
        elif master is None:
            params.append(device.cast(value, float32))
        else:
            params.append(placed(master, device, float32))
            if rounded.get(m.param._id) is not value:
                unknown.setdefault(value.dtype, []).append(k)
    for dtype, places in unknown.items():
        masters = [params[k] for k in places]
        nearest = device.foreach_cast(masters, dtype)
        values = [members[k].value for k in places]
        (kept,) = device.foreach(kept_each, (masters, nearest, values))
        for k, x in zip(places, kept, strict=True):
            params[k] = x
    return params


def kept_each(b: Any, master: Float, nearest: Float, value: Float) -> tuple[Float]:
    """Return a master where rounding it gives the parameter's value, else the value: a formula of lists."""
    return (b.where(b.eq(nearest, value), master, value),)


def with_masters(
    device: Any, after: Sequence[Sequence[Float]], members: Sequence[Pending]
) -> tuple[Sequence[Float | None], ...]:
    """Return the lists after an update with the parameters rounded to their dtypes, and a list of masters at the end.

    A parameter that is not rounded has no master: None.
    """
    values, masters = [*after[0]], [None] * len(members)
    wide: dict[DType, list[int]] = {}
    for k, m in enumerate(members):
        if values[k].dtype != m.value.dtype:
            wide.setdefault(m.value.dtype, []).append(k)
    for dtype, places in wide.items():
        new = device.foreach_cast([values[k] for k in places], dtype)
        for k, x in zip(places, new, strict=True):
            values[k], masters[k] = x, values[k]
    return values, *after[1:], masters
