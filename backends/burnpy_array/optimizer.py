"""Updates of optimizers, block by block, so that what is computed on the way stays in the cache. It lies where the next
block of the new parameter will be; only the last, small block needs memory beyond the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.optimizer import adam_rates
from burnpy_array.base import ArrayBase, is_half


class Optimizer(ArrayBase):
    """16-bit floats are computed in float32."""

    _update_block = 1 << 15
    """How many elements are updated at a time."""
    _update_spare = 1 << 15
    """How many elements more there is memory for."""

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
        found = self._updated(_momentum, (param, grad, velocity), owned, numbers, nesterov)
        return found[0], found[1]

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
        found = self._updated(_adam, (param, grad, mean, square), owned, numbers)
        return found[0], found[1], found[2]

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
        found = self._updated(_adam, (param, grad, mean, square, largest), owned, numbers)
        return found[0], found[1], found[2], found[3]

    def rmsprop_update(
        self, param: Any, grad: Any, square: Any, lr: float, alpha: float, eps: float, weight_decay: float, owned: bool
    ) -> tuple[Any, Any]:
        found = self._updated(_rmsprop, (param, grad, square), owned, (-lr, alpha, 1.0 - alpha, eps, weight_decay))
        return found[0], found[1]

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
        found = self._updated(_rmsprop, (param, grad, total), owned, (-rate, 1.0, 1.0, eps, weight_decay))
        return found[0], found[1]

    def _updated(
        self, f: Callable[..., None], given: tuple[Any, ...], owned: bool, numbers: tuple[float, ...], *rest: Any
    ) -> list[Any]:
        """The next parameter and the next states, from ``given``: the parameter, its gradient and the states.

        ``f`` computes those of a block into memory that is given to it. That of a next state may be the memory of the
        state itself, which ``f`` reads no more after it has written there. A number that is 0 stays Python's, so that
        ``f`` may leave out what it would do.
        """
        return self._call(_blockwise, self, f, given, owned, numbers, rest)  # type: ignore[no-any-return]  # as _blockwise


def _blockwise(
    b: Optimizer,
    f: Callable[..., None],
    given: tuple[Any, ...],
    owned: bool,
    numbers: tuple[float, ...],
    rest: tuple[Any, ...],
) -> list[Any]:
    xp, dtype, shape = b.xp, given[0].dtype, given[0].shape
    if is_half(dtype):
        wide = tuple([x.astype(float32) for x in given])  # of which the states are ours
        return [x.astype(dtype) for x in _blockwise(b, f, wide, True, numbers, rest)]
    flat = [x.reshape(-1) for x in given]
    results = [xp.empty(shape, dtype)]
    results += [x if owned and _is_memory(x) else xp.empty(shape, dtype) for x in given[2:]]
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
    """Whether what is written to the flat form of a state is written to the state. NumPy's scalars are read-only."""
    flags = state.flags
    return bool(flags.c_contiguous and getattr(flags, "writeable", True))


def _decayed(xp: Any, param: Any, grad: Any, weight_decay: Any, memory: Any) -> Any:
    """The gradient with the parameter's decay, in ``memory`` where there is one."""
    if type(weight_decay) is float and weight_decay == 0:
        return grad
    xp.multiply(param, weight_decay, memory)
    return xp.add(memory, grad, memory)


def _sgd(xp: Any, given: Any, outs: Any, spare: Any, numbers: Any) -> None:
    (param, grad), (new,) = given, outs
    lr, weight_decay = numbers
    xp.multiply(_decayed(xp, param, grad, weight_decay, new), lr, new)
    xp.subtract(param, new, new)


def _momentum(xp: Any, given: Any, outs: Any, spare: Any, numbers: Any, nesterov: bool) -> None:
    (param, grad, velocity), (new, moved) = given, outs
    lr, momentum, share, weight_decay = numbers
    grad = _decayed(xp, param, grad, weight_decay, new)
    xp.multiply(velocity, momentum, moved)
    xp.multiply(grad, share, spare)
    xp.add(moved, spare, moved)
    step = moved
    if nesterov:
        xp.multiply(moved, momentum, spare)
        step = xp.add(spare, grad, spare)
    xp.multiply(step, lr, new)
    xp.subtract(param, new, new)


def _adam_numbers(
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, step: int
) -> tuple[float, ...]:
    rate, root = adam_rates(lr, beta1, beta2, step)
    shrink = 1.0 - lr * weight_decay if decoupled and weight_decay else 0.0
    return -rate, root, 1.0 - beta1, beta2, 1.0 - beta2, eps, 0.0 if decoupled else float(weight_decay), shrink


def _adam(xp: Any, given: Any, outs: Any, spare: Any, numbers: Any) -> None:
    (param, grad, mean, square, *largest), (new, mean_out, square_out, *largest_out) = given, outs
    rate, root, share, beta2, share2, eps, weight_decay, shrink = numbers
    grad = _decayed(xp, param, grad, weight_decay, new)
    xp.subtract(grad, mean, spare)
    xp.multiply(spare, share, spare)
    xp.add(mean, spare, mean_out)
    xp.multiply(grad, grad, spare)
    xp.multiply(spare, share2, spare)
    xp.multiply(square, beta2, square_out)
    xp.add(square_out, spare, square_out)
    under = square_out
    if largest:
        under = xp.maximum(largest[0], square_out, out=largest_out[0])
    xp.sqrt(under, spare)
    xp.divide(spare, root, spare)
    xp.add(spare, eps, spare)
    xp.multiply(mean_out, rate, new)
    xp.divide(new, spare, new)
    if type(shrink) is float and shrink == 0:
        xp.add(param, new, new)
    else:
        xp.multiply(param, shrink, spare)
        xp.add(spare, new, new)


def _rmsprop(xp: Any, given: Any, outs: Any, spare: Any, numbers: Any) -> None:
    """AdaGrad too, of which both shares of the sum are 1."""
    (param, grad, square), (new, square_out) = given, outs
    rate, kept, share, eps, weight_decay = numbers
    grad = _decayed(xp, param, grad, weight_decay, new)
    xp.multiply(grad, grad, spare)
    xp.multiply(spare, share, spare)
    xp.multiply(square, kept, square_out)
    xp.add(square_out, spare, square_out)
    xp.sqrt(square_out, spare)
    xp.add(spare, eps, spare)
    xp.multiply(grad, rate, new)
    xp.divide(new, spare, new)
    xp.add(param, new, new)
