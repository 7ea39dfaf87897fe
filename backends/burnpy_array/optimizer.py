"""Optimizer updates, block by block, so that intermediate results stay in the cache. These use the memory of the next
block of the new parameter; only the last, small block needs memory beyond the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.lists import Formula
from burnpy.backend.operations.optimizer import (
    adagrad_step,
    adam_step,
    amsgrad_step,
    momentum_step,
    rmsprop_step,
    sgd_step,
)
from burnpy_array.base import ArrayBase, is_half

Blocks: TypeAlias = Callable[..., None]


class Optimizer(ArrayBase):
    """The updates of optimizers, each parameter block by block; 16-bit floats are computed in float32."""

    _update_block = 1 << 15
    """The number of elements that are updated at a time."""
    _update_spare = 1 << 15
    """The number of elements of the additional memory for the last block."""

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Any]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Any = None,
    ) -> tuple[list[Any], ...]:
        blocks = _BLOCKS.get(formula)
        if blocks is None or not lists[0] or skipped is not None:
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        return self._call(_update_all, self, blocks, lists, numbers, flags, owned)  # type: ignore[no-any-return]  # lists


def _update_all(
    b: Optimizer,
    f: Blocks,
    lists: Sequence[Sequence[Any]],
    numbers: tuple[float, ...],
    flags: tuple[bool, ...],
    owned: bool,
) -> tuple[list[Any], ...]:
    """Return lists of the new parameters and of each of the new states.

    Args:
        b: the backend.
        f: the update of one block of a parameter.
        lists: parameters, gradients, and each of the states.
        numbers: the numbers for ``f``, which are converted to the dtype of each parameter.
        flags: further arguments of ``f``.
        owned: whether states may be updated in place.
    """
    by_dtype: dict[Any, tuple[bool, list[Any]]] = {}
    rows: list[list[Any]] = []
    for inputs in zip(*lists, strict=True):
        dtype = inputs[0].dtype
        if dtype not in by_dtype:
            half = is_half(dtype)
            computed_in = float32 if half else dtype
            by_dtype[dtype] = half, [b._number(x, computed_in) for x in numbers]
        half, scalars = by_dtype[dtype]
        if half:
            wide = tuple([x.astype(float32) for x in inputs])  # new arrays, so the states may be overwritten
            rows.append([x.astype(dtype) for x in _update_one(b, f, wide, True, scalars, flags)])
        else:
            rows.append(_update_one(b, f, inputs, owned, scalars, flags))
    return tuple(map(list, zip(*rows, strict=True)))


def _update_one(
    b: Optimizer,
    f: Blocks,
    inputs: tuple[Any, ...],
    owned: bool,
    numbers: Sequence[Any],
    flags: tuple[bool, ...],
) -> list[Any]:
    """Return the new value and the new states of one parameter."""
    xp, param, states = b.xp, inputs[0], inputs[2:]
    dtype, shape, total = param.dtype, param.shape, param.size
    results = [xp.empty(shape, dtype)]
    for state in states:
        layout = state.flags
        # Whether writing to the flattened state writes to the state itself. NumPy scalars are read-only.
        in_place = owned and layout.c_contiguous and getattr(layout, "writeable", True)
        results.append(state if in_place else xp.empty(shape, dtype))
    if total <= b._update_spare:  # one block, without flattening
        f(xp, inputs, results, xp.empty(shape, dtype), numbers, *flags)
        return results
    flat = [x.reshape(-1) for x in inputs]
    outs = [x.reshape(-1) for x in results]

    def work(begin: int, end: int) -> None:
        spare = xp.empty(min(b._update_spare, end - begin), dtype)
        start = begin
        while start < end:
            left = end - start
            size = left if left <= b._update_spare else min(b._update_block, left // 2)
            stop = start + size
            memory = spare[:size] if stop == end else outs[0][stop : stop + size]
            f(xp, [x[start:stop] for x in flat], [x[start:stop] for x in outs], memory, numbers, *flags)
            start = stop

    b._share(work, total)
    return results


def _gradient(xp: Any, param: Any, grad: Any, weight_decay: Any, decays: bool, maximize: bool, memory: Any) -> Any:
    """Return the gradient to descend, computed in ``memory``: negated if ``maximize``, plus weight_decay · param.

    It is the gradient itself if there is nothing to compute.
    """
    if not decays:
        return xp.negative(grad, memory) if maximize else grad
    xp.multiply(param, weight_decay, memory)
    return (xp.subtract if maximize else xp.add)(memory, grad, memory)


def _sgd(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, decays: bool, maximize: bool) -> None:
    (param, grad), (new,) = inputs, outs
    lr, weight_decay = numbers
    xp.multiply(_gradient(xp, param, grad, weight_decay, decays, maximize, new), lr, new)
    xp.subtract(param, new, new)


def _momentum(
    xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, decays: bool, maximize: bool, nesterov: bool
) -> None:
    (param, grad, velocity), (new, new_velocity) = inputs, outs
    lr, momentum, share, weight_decay = numbers
    grad = _gradient(xp, param, grad, weight_decay, decays, maximize, new)
    xp.multiply(velocity, momentum, new_velocity)
    xp.multiply(grad, share, spare)
    xp.add(new_velocity, spare, new_velocity)
    step = new_velocity
    if nesterov:
        xp.multiply(new_velocity, momentum, spare)
        step = xp.add(spare, grad, spare)
    xp.multiply(step, lr, new)
    xp.subtract(param, new, new)


def _adam(
    xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, decays: bool, maximize: bool, decoupled: bool
) -> None:
    (param, grad, mean, square, *largest), (new, mean_out, square_out, *largest_out) = inputs, outs
    rate, root, share, beta2, share2, eps, decay = numbers
    grad = _gradient(xp, param, grad, decay, decays and not decoupled, maximize, new)
    xp.subtract(grad, mean, spare)
    xp.multiply(spare, share, spare)
    xp.add(mean, spare, mean_out)
    xp.multiply(grad, grad, spare)
    xp.multiply(spare, share2, spare)
    xp.multiply(square, beta2, square_out)
    xp.add(square_out, spare, square_out)
    squares = square_out
    if largest:
        squares = xp.maximum(largest[0], square_out, out=largest_out[0])
    xp.sqrt(squares, spare)
    xp.divide(spare, root, spare)
    xp.add(spare, eps, spare)
    xp.multiply(mean_out, rate, new)
    xp.divide(new, spare, new)
    if decays and decoupled:
        xp.multiply(param, decay, spare)
        param = spare
    xp.subtract(param, new, new)


def _rmsprop(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, decays: bool, maximize: bool) -> None:
    (param, grad, square), (new, square_out) = inputs, outs
    lr, alpha, share, eps, weight_decay = numbers
    grad = _gradient(xp, param, grad, weight_decay, decays, maximize, new)
    xp.multiply(grad, grad, spare)
    xp.multiply(spare, share, spare)
    xp.multiply(square, alpha, square_out)
    xp.add(square_out, spare, square_out)
    xp.sqrt(square_out, spare)
    xp.add(spare, eps, spare)
    xp.multiply(grad, lr, new)
    xp.divide(new, spare, new)
    xp.subtract(param, new, new)


def _adagrad(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, decays: bool, maximize: bool) -> None:
    rate, eps, weight_decay = numbers
    _rmsprop(xp, inputs, outs, spare, (rate, 1, 1, eps, weight_decay), decays, maximize)


_BLOCKS: dict[Formula, Blocks] = {
    sgd_step: _sgd,
    momentum_step: _momentum,
    adam_step: _adam,
    amsgrad_step: _adam,
    rmsprop_step: _rmsprop,
    adagrad_step: _adagrad,
}
"""For each formula ``f(xp, inputs, outs, spare, numbers, *flags)``, which computes one block of the results into
``outs``. The memory of a new state may be that of the old state, which ``f`` does not read after writing there."""
