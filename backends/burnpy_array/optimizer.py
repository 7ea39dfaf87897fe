"""Optimizer updates, block by block, so that intermediate results stay in the cache. These use the memory of the next
block of the new parameter; only the last, small block needs memory beyond the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.optimizer import Step, adam_rates
from burnpy_array.base import ArrayBase, is_half


class Optimizer(ArrayBase):
    """The optimizers' update operations; 16-bit floats are computed in float32."""

    _update_block = 1 << 15
    """The number of elements that are updated at a time."""
    _update_spare = 1 << 15
    """The number of elements of the additional memory for the last block."""

    def sgd_update(self, params: Sequence[Any], grads: Sequence[Any], step: Step) -> list[Any]:
        return self._updated(_sgd, (params, grads), step, (step.lr, step.weight_decay))[0]  # type: ignore[no-any-return]  # lists

    def momentum_update(
        self,
        params: Sequence[Any],
        grads: Sequence[Any],
        velocities: Sequence[Any],
        step: Step,
        momentum: float,
        dampening: float,
        nesterov: bool,
    ) -> tuple[list[Any], list[Any]]:
        numbers = (step.lr, momentum, 1.0 - dampening, step.weight_decay)
        return self._updated(_momentum, (params, grads, velocities), step, numbers, nesterov)  # type: ignore[no-any-return]  # lists

    def adam_update(
        self,
        params: Sequence[Any],
        grads: Sequence[Any],
        means: Sequence[Any],
        squares: Sequence[Any],
        step: Step,
        beta1: float,
        beta2: float,
        eps: float,
        decoupled: bool,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        numbers = _adam_numbers(step, beta1, beta2, eps, decoupled)
        return self._updated(_adam, (params, grads, means, squares), step, numbers)  # type: ignore[no-any-return]  # lists

    def amsgrad_update(
        self,
        params: Sequence[Any],
        grads: Sequence[Any],
        means: Sequence[Any],
        squares: Sequence[Any],
        largest: Sequence[Any],
        step: Step,
        beta1: float,
        beta2: float,
        eps: float,
        decoupled: bool,
    ) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        numbers = _adam_numbers(step, beta1, beta2, eps, decoupled)
        return self._updated(_adam, (params, grads, means, squares, largest), step, numbers)  # type: ignore[no-any-return]  # lists

    def rmsprop_update(
        self,
        params: Sequence[Any],
        grads: Sequence[Any],
        squares: Sequence[Any],
        step: Step,
        alpha: float,
        eps: float,
    ) -> tuple[list[Any], list[Any]]:
        numbers = (-step.lr, alpha, 1.0 - alpha, eps, step.weight_decay)
        return self._updated(_rmsprop, (params, grads, squares), step, numbers)  # type: ignore[no-any-return]  # lists

    def adagrad_update(
        self,
        params: Sequence[Any],
        grads: Sequence[Any],
        totals: Sequence[Any],
        step: Step,
        lr_decay: float,
        eps: float,
    ) -> tuple[list[Any], list[Any]]:
        rate = step.lr / (1.0 + (step.number - 1) * lr_decay)
        numbers = (-rate, 1.0, 1.0, eps, step.weight_decay)
        return self._updated(_rmsprop, (params, grads, totals), step, numbers)  # type: ignore[no-any-return]  # lists

    def _updated(
        self,
        f: Callable[..., None],
        lists: tuple[Sequence[Any], ...],
        step: Step,
        numbers: tuple[float, ...],
        *settings: bool,
    ) -> Any:
        """Return lists of the new parameters and of each of the new states.

        ``f(xp, inputs, outs, spare, numbers, maximize, *settings)`` computes the results of one block into ``outs``.
        The memory of a new state may be that of the old state, which ``f`` does not read after writing there. A number
        that is 0 is passed as a Python float, so that ``f`` can skip the terms that it multiplies.

        Args:
            f: the update of one block of a parameter.
            lists: parameters, gradients, and each of the states.
            step: the settings.
            numbers: the numbers for ``f``, which are converted to the dtype of each parameter.
            settings: further arguments of ``f``.
        """
        return self._call(_update_all, self, f, lists, step, numbers, settings)


def _update_all(
    b: Optimizer,
    f: Callable[..., None],
    lists: tuple[Sequence[Any], ...],
    step: Step,
    numbers: tuple[float, ...],
    settings: tuple[bool, ...],
) -> tuple[list[Any], ...]:
    """Update every parameter; see `Optimizer._updated`."""
    by_dtype: dict[Any, tuple[bool, list[Any]]] = {}
    rows: list[list[Any]] = []
    settings = (step.maximize, *settings)
    for inputs in zip(*lists, strict=True):
        dtype = inputs[0].dtype
        if dtype not in by_dtype:
            half = is_half(dtype)
            computed_in = float32 if half else dtype
            by_dtype[dtype] = half, [b._number(x, computed_in) if x else x for x in numbers]
        half, scalars = by_dtype[dtype]
        if half:
            wide = tuple([x.astype(float32) for x in inputs])  # new arrays, so the states may be overwritten
            rows.append([x.astype(dtype) for x in _update_one(b, f, wide, True, scalars, settings)])
        else:
            rows.append(_update_one(b, f, inputs, step.owned, scalars, settings))
    return tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in lists[1:])


def _update_one(
    b: Optimizer,
    f: Callable[..., None],
    inputs: tuple[Any, ...],
    owned: bool,
    numbers: Sequence[Any],
    settings: tuple[bool, ...],
) -> list[Any]:
    """Return the new value and the new states of one parameter."""
    xp, param, states = b.xp, inputs[0], inputs[2:]
    dtype, shape, total = param.dtype, param.shape, param.size
    results = [xp.empty(shape, dtype)]
    for state in states:
        flags = state.flags
        # Whether writing to the flattened state writes to the state itself. NumPy scalars are read-only.
        in_place = owned and flags.c_contiguous and getattr(flags, "writeable", True)
        results.append(state if in_place else xp.empty(shape, dtype))
    if total <= b._update_spare:  # one block, without flattening
        f(xp, inputs, results, xp.empty(shape, dtype), numbers, *settings)
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
            f(xp, [x[start:stop] for x in flat], [x[start:stop] for x in outs], memory, numbers, *settings)
            start = stop

    b._share(work, total)
    return results


def _gradient(xp: Any, param: Any, grad: Any, weight_decay: Any, maximize: bool, memory: Any) -> Any:
    """Return the gradient to descend, computed in ``memory``: negated if ``maximize``, plus weight_decay · param.

    It is the gradient itself if there is nothing to compute.
    """
    if type(weight_decay) is float and weight_decay == 0:
        return xp.negative(grad, memory) if maximize else grad
    xp.multiply(param, weight_decay, memory)
    return (xp.subtract if maximize else xp.add)(memory, grad, memory)


def _sgd(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, maximize: bool) -> None:
    (param, grad), (new,) = inputs, outs
    lr, weight_decay = numbers
    xp.multiply(_gradient(xp, param, grad, weight_decay, maximize, new), lr, new)
    xp.subtract(param, new, new)


def _momentum(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, maximize: bool, nesterov: bool) -> None:
    (param, grad, velocity), (new, new_velocity) = inputs, outs
    lr, momentum, share, weight_decay = numbers
    grad = _gradient(xp, param, grad, weight_decay, maximize, new)
    xp.multiply(velocity, momentum, new_velocity)
    xp.multiply(grad, share, spare)
    xp.add(new_velocity, spare, new_velocity)
    step = new_velocity
    if nesterov:
        xp.multiply(new_velocity, momentum, spare)
        step = xp.add(spare, grad, spare)
    xp.multiply(step, lr, new)
    xp.subtract(param, new, new)


def _adam_numbers(step: Step, beta1: float, beta2: float, eps: float, decoupled: bool) -> tuple[float, ...]:
    rate, root = adam_rates(step, beta1, beta2)
    decay = float(step.weight_decay)
    shrink = 1.0 - step.lr * decay if decoupled and decay else 0.0
    return -rate, root, 1.0 - beta1, beta2, 1.0 - beta2, eps, 0.0 if decoupled else decay, shrink


def _adam(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, maximize: bool) -> None:
    (param, grad, mean, square, *largest), (new, mean_out, square_out, *largest_out) = inputs, outs
    rate, root, share, beta2, share2, eps, weight_decay, shrink = numbers
    grad = _gradient(xp, param, grad, weight_decay, maximize, new)
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
    if type(shrink) is float and shrink == 0:
        xp.add(param, new, new)
    else:
        xp.multiply(param, shrink, spare)
        xp.add(spare, new, new)


def _rmsprop(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, maximize: bool) -> None:
    """Update a block by RMSprop, or by AdaGrad, for which the factors of the old sum and the new square are 1."""
    (param, grad, square), (new, square_out) = inputs, outs
    rate, decay, share, eps, weight_decay = numbers
    grad = _gradient(xp, param, grad, weight_decay, maximize, new)
    xp.multiply(grad, grad, spare)
    xp.multiply(spare, share, spare)
    xp.multiply(square, decay, square_out)
    xp.add(square_out, spare, square_out)
    xp.sqrt(square_out, spare)
    xp.add(spare, eps, spare)
    xp.multiply(grad, rate, new)
    xp.divide(new, spare, new)
    xp.add(param, new, new)
