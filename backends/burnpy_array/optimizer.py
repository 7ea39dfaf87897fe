"""Optimizer updates, block by block, so that intermediate results stay in the cache. These use the memory of the next
block of the new parameter; only the last, small block needs memory beyond the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.optimizer import adam_rates
from burnpy_array.base import ArrayBase, is_half


class Optimizer(ArrayBase):
    """The optimizers' update operations; 16-bit floats are computed in float32."""

    _update_block = 1 << 15
    """The number of elements that are updated at a time."""
    _update_spare = 1 << 15
    """The number of elements of the additional memory for the last block."""

    def sgd_update(self, param: Any, grad: Any, lr: float, weight_decay: float) -> Any:
        return self._updated(_sgd, (param, grad), False, (lr, weight_decay))[0]

    def momentum_update(
        self,
        param: Any,
        grad: Any,
        velocity: Any,
        lr: float,
        momentum: float,
        dampening: float,
        nesterov: bool,
        weight_decay: float,
        owned: bool,
    ) -> tuple[Any, Any]:
        numbers = (lr, momentum, 1.0 - dampening, weight_decay)
        results = self._updated(_momentum, (param, grad, velocity), owned, numbers, nesterov)
        return results[0], results[1]

    def adam_update(
        self,
        param: Any,
        grad: Any,
        mean: Any,
        square: Any,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        decoupled: bool,
        step: int,
        owned: bool,
    ) -> tuple[Any, Any, Any]:
        numbers = _adam_numbers(lr, beta1, beta2, eps, weight_decay, decoupled, step)
        results = self._updated(_adam, (param, grad, mean, square), owned, numbers)
        return results[0], results[1], results[2]

    def amsgrad_update(
        self,
        param: Any,
        grad: Any,
        mean: Any,
        square: Any,
        largest: Any,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        decoupled: bool,
        step: int,
        owned: bool,
    ) -> tuple[Any, Any, Any, Any]:
        numbers = _adam_numbers(lr, beta1, beta2, eps, weight_decay, decoupled, step)
        results = self._updated(_adam, (param, grad, mean, square, largest), owned, numbers)
        return results[0], results[1], results[2], results[3]

    def rmsprop_update(
        self, param: Any, grad: Any, square: Any, lr: float, alpha: float, eps: float, weight_decay: float, owned: bool
    ) -> tuple[Any, Any]:
        results = self._updated(_rmsprop, (param, grad, square), owned, (-lr, alpha, 1.0 - alpha, eps, weight_decay))
        return results[0], results[1]

    def adagrad_update(
        self,
        param: Any,
        grad: Any,
        total: Any,
        lr: float,
        lr_decay: float,
        eps: float,
        weight_decay: float,
        step: int,
        owned: bool,
    ) -> tuple[Any, Any]:
        rate = lr / (1.0 + (step - 1) * lr_decay)
        results = self._updated(_rmsprop, (param, grad, total), owned, (-rate, 1.0, 1.0, eps, weight_decay))
        return results[0], results[1]

    def _updated(
        self, f: Callable[..., None], inputs: tuple[Any, ...], owned: bool, numbers: tuple[float, ...], *rest: Any
    ) -> list[Any]:
        """Return the new parameter and the new states; ``inputs`` are the parameter, its gradient and the states.

        ``f`` computes the results of one block into the memory passed to it. The memory of a new state may be that of
        the old state, which ``f`` does not read after writing there. A number that is 0 is passed as a Python float, so
        that ``f`` can skip the terms that it multiplies.
        """
        return self._call(_blockwise, self, f, inputs, owned, numbers, rest)  # type: ignore[no-any-return]  # as _blockwise


def _blockwise(
    b: Optimizer,
    f: Callable[..., None],
    inputs: tuple[Any, ...],
    owned: bool,
    numbers: tuple[float, ...],
    rest: tuple[Any, ...],
) -> list[Any]:
    xp, dtype, shape = b.xp, inputs[0].dtype, inputs[0].shape
    if is_half(dtype):
        wide = tuple([x.astype(float32) for x in inputs])  # new arrays, so the states may be overwritten
        return [x.astype(dtype) for x in _blockwise(b, f, wide, True, numbers, rest)]
    flat = [x.reshape(-1) for x in inputs]
    results = [xp.empty(shape, dtype)]
    results += [x if owned and _is_memory(x) else xp.empty(shape, dtype) for x in inputs[2:]]
    outs = [x.reshape(-1) for x in results]
    scalars = [b._number(number, dtype) if number else number for number in numbers]

    def work(begin: int, end: int) -> None:
        spare = xp.empty(min(b._update_spare, end - begin), dtype)
        start = begin
        while start < end:
            left = end - start
            size = left if left <= b._update_spare else min(b._update_block, left // 2)
            stop = start + size
            memory = spare[:size] if stop == end else outs[0][stop : stop + size]
            f(xp, [x[start:stop] for x in flat], [x[start:stop] for x in outs], memory, scalars, *rest)
            start = stop

    b._share(work, flat[0].shape[0])
    return results


def _is_memory(state: Any) -> bool:
    """Whether writing to the flattened state writes to the state itself. NumPy scalars are read-only."""
    flags = state.flags
    return bool(flags.c_contiguous and getattr(flags, "writeable", True))


def _decayed(xp: Any, param: Any, grad: Any, weight_decay: Any, memory: Any) -> Any:
    """Return the gradient plus the weight decay, computed in ``memory``; the gradient itself if the decay is 0."""
    if type(weight_decay) is float and weight_decay == 0:
        return grad
    xp.multiply(param, weight_decay, memory)
    return xp.add(memory, grad, memory)


def _sgd(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any) -> None:
    (param, grad), (new,) = inputs, outs
    lr, weight_decay = numbers
    xp.multiply(_decayed(xp, param, grad, weight_decay, new), lr, new)
    xp.subtract(param, new, new)


def _momentum(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any, nesterov: bool) -> None:
    (param, grad, velocity), (new, new_velocity) = inputs, outs
    lr, momentum, share, weight_decay = numbers
    grad = _decayed(xp, param, grad, weight_decay, new)
    xp.multiply(velocity, momentum, new_velocity)
    xp.multiply(grad, share, spare)
    xp.add(new_velocity, spare, new_velocity)
    step = new_velocity
    if nesterov:
        xp.multiply(new_velocity, momentum, spare)
        step = xp.add(spare, grad, spare)
    xp.multiply(step, lr, new)
    xp.subtract(param, new, new)


def _adam_numbers(
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, step: int
) -> tuple[float, ...]:
    rate, root = adam_rates(lr, beta1, beta2, step)
    shrink = 1.0 - lr * weight_decay if decoupled and weight_decay else 0.0
    return -rate, root, 1.0 - beta1, beta2, 1.0 - beta2, eps, 0.0 if decoupled else float(weight_decay), shrink


def _adam(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any) -> None:
    (param, grad, mean, square, *largest), (new, mean_out, square_out, *largest_out) = inputs, outs
    rate, root, share, beta2, share2, eps, weight_decay, shrink = numbers
    grad = _decayed(xp, param, grad, weight_decay, new)
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


def _rmsprop(xp: Any, inputs: Any, outs: Any, spare: Any, numbers: Any) -> None:
    """Update a block by RMSprop, or by AdaGrad, for which the factors of the old sum and the new square are 1."""
    (param, grad, square), (new, square_out) = inputs, outs
    rate, decay, share, eps, weight_decay = numbers
    grad = _decayed(xp, param, grad, weight_decay, new)
    xp.multiply(grad, grad, spare)
    xp.multiply(spare, share, spare)
    xp.multiply(square, decay, square_out)
    xp.add(square_out, spare, square_out)
    xp.sqrt(square_out, spare)
    xp.add(spare, eps, spare)
    xp.multiply(grad, rate, new)
    xp.divide(new, spare, new)
    xp.add(param, new, new)
