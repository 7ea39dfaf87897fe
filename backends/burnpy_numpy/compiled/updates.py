"""`CompiledUpdates`: the optimizers' updates as kernels, in one pass over parameter, gradient and averages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.optimizer import Step, adagrad_numbers, adam_numbers
from burnpy_array import ArrayBackend

if TYPE_CHECKING:
    from burnpy_numpy.compiled.kernel import Kernel


class CompiledUpdates(ArrayBackend):
    """Updates as kernels, at all sizes: NumPy's many calls take longer than the one of a kernel, however small.

    The results are those of the other methods, bit for bit. Where one parameter is of another dtype, all are left to
    these.
    """

    def sgd_update(self, params: Sequence[Any], grads: Sequence[Any], step: Step) -> list[Any]:
        new = _updated("sgd_step", (params, grads), step, (step.lr, step.weight_decay))
        return super().sgd_update(params, grads, step) if new is None else new[0]

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
        new: Any = _updated("momentum_step", (params, grads, velocities), step, numbers, nesterov)
        if new is None:
            new = super().momentum_update(params, grads, velocities, step, momentum, dampening, nesterov)
        return new  # type: ignore[no-any-return]  # two lists

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
        numbers = adam_numbers(step, beta1, beta2, eps, decoupled)
        new: Any = _updated("adam_step", (params, grads, means, squares), step, numbers, decoupled)
        if new is None:
            new = super().adam_update(params, grads, means, squares, step, beta1, beta2, eps, decoupled)
        return new  # type: ignore[no-any-return]  # three lists

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
        numbers = adam_numbers(step, beta1, beta2, eps, decoupled)
        lists = (params, grads, means, squares, largest)
        new: Any = _updated("amsgrad_step", lists, step, numbers, decoupled)
        if new is None:
            new = super().amsgrad_update(*lists, step, beta1, beta2, eps, decoupled)
        return new  # type: ignore[no-any-return]  # four lists

    def rmsprop_update(
        self,
        params: Sequence[Any],
        grads: Sequence[Any],
        squares: Sequence[Any],
        step: Step,
        alpha: float,
        eps: float,
    ) -> tuple[list[Any], list[Any]]:
        numbers = (step.lr, alpha, 1.0 - alpha, eps, step.weight_decay)
        new: Any = _updated("rmsprop_step", (params, grads, squares), step, numbers)
        return super().rmsprop_update(params, grads, squares, step, alpha, eps) if new is None else new

    def adagrad_update(
        self,
        params: Sequence[Any],
        grads: Sequence[Any],
        totals: Sequence[Any],
        step: Step,
        lr_decay: float,
        eps: float,
    ) -> tuple[list[Any], list[Any]]:
        new: Any = _updated("adagrad_step", (params, grads, totals), step, adagrad_numbers(step, lr_decay, eps))
        return super().adagrad_update(params, grads, totals, step, lr_decay, eps) if new is None else new


_found: dict[tuple[Any, ...], Kernel | None] = {}


def _updated(
    name: str, lists: tuple[Sequence[Any], ...], step: Step, numbers: tuple[float, ...], *flags: bool
) -> tuple[list[Any], ...] | None:
    """Return the new parameters and the new states, in the memory of the old states if these are owned.

    None if there is no kernel: kernels are off, or a dtype is not float32 or float64.

    Args:
        name: the function of `burnpy.backend.operations.optimizer` whose program is run.
        lists: the parameters, their gradients and each of the states.
        step: what all optimizers have in common.
        numbers: the function's numbers, which are inputs of the program.
        flags: its flags after ``decays`` and ``maximize``; all are part of the program.
    """
    flags = (bool(step.weight_decay), step.maximize, *flags)
    kernels = []
    for param, *others in zip(*lists, strict=True):  # all is looked at before anything is written
        shape, dtype = param.shape, param.dtype
        kernel = _kernel(name, dtype, len(lists), len(numbers), flags)
        if kernel is None:
            return None
        for x in others:
            if x.dtype is not dtype or x.shape != shape:
                return None
        kernels.append(kernel)
    if not kernels:
        return None
    results: tuple[list[Any], ...] = tuple([[] for _ in lists[1:]])
    for kernel, *arrays in zip(kernels, *lists, strict=True):
        shape, dtype = arrays[0].shape, arrays[0].dtype
        xs, outs = [], [np.empty(shape, dtype)]
        for k, x in enumerate(arrays):
            whole = x if type(x) is np.ndarray and x.flags.c_contiguous else np.array(x, order="C")
            xs.append(whole)
            if k > 1:
                reused = step.owned and whole is x and x.flags.writeable
                outs.append(x if reused else np.empty(shape, dtype))
        if outs[0].size:
            kernel.into([*xs, *outs], numbers, outs[0].size)
        for result, out in zip(results, outs, strict=True):
            result.append(out)
    return results


def _kernel(name: str, dtype: Any, arrays: int, numbers: int, flags: tuple[bool, ...]) -> Kernel | None:
    """Return the kernel of an update; None if it has none, or kernels are off."""
    try:
        return _found[name, dtype, flags]
    except KeyError:
        kernel = None
        if dtype is float32 or dtype is float64:
            from burnpy_numpy.compiled.selection import update_kernel  # not imported before the first update

            kernel = update_kernel(name, arrays, numbers, dtype.name, flags)
        return _found.setdefault((name, dtype, flags), kernel)


def forget() -> None:
    """Look for all kernels anew, as they were turned on or off."""
    _found.clear()
