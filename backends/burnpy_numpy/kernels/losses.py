"""The recursion over time of connectionist temporal classification as a kernel."""

from __future__ import annotations

from typing import Any

from burnpy.backend.operations.losses import IMPOSSIBLE
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.convolution.channel_blocks import vector_width
from burnpy_numpy.kernels.kernel import template_kernel

_PRODUCTS_PER_STATE = 40
"""The products that take as long as a state at a step, which has three exponentials and a logarithm."""


def run_recursion(emitted: Any, skips: Any, kept: Any) -> bool:
    """Write the log probabilities of the states after each step but the first; return False if kernels are off.

    Args:
        emitted: the log probability of each state at each step, (time, batch, states), whose number is a multiple of
            `vector_width`.
        skips: whether the state before may be skipped, (batch, states).
        kept: the result, (time, batch, 2 + states), whose first step and first two columns are there already.
    """
    time, members, states = emitted.shape
    width = vector_width(emitted.dtype)
    kernel = template_kernel(ctc_recursion, emitted.dtype, width)
    if kernel is not None:
        sizes = (time, members, states, states // width)
        kernel.run((emitted, skips.astype(emitted.dtype), kept), sizes, members, time * states * _PRODUCTS_PER_STATE)
    return kernel is not None


def ctc_recursion(dtype: str, width: int) -> str:
    """Return the text of the kernel of the recursion: log(Σ exp) of a state and the two before, plus the emission.

    The table: the arrays of `run_recursion`, the second as numbers. The sizes: steps, members, states, and vectors of
    states. ``begin`` and ``end`` are members.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
    """
    w = Loops(width, 3, 4)
    emitted, skips, kept = w.table
    time, members, states, vectors = w.sizes
    row = states + 2
    with w.loop(w.begin, w.end) as n, w.loop(1, time) as t:
        place = t * members + n
        now = w.element(emitted, place * states, dtype)
        after = w.element(kept, place * row, dtype)
        before = w.element(kept, (place - members) * row, dtype)
        allowed = w.element(skips, n * states, dtype)
        with w.loop(0, vectors) as v:
            s = v * width
            skipped, further, stay = (w.load_at(before, s + k, dtype) for k in range(3))
            allows = w.compare("ogt", w.load_at(allowed, s, dtype), w.constant(0.0, dtype))
            skipped = w.select(allows, skipped, w.constant(IMPOSSIBLE, dtype))
            largest = w.extreme("maximum", w.extreme("maximum", stay, further), skipped)
            first, second, third = (w.function_of("exp", w.sub(x, largest)) for x in (stay, further, skipped))
            total = w.function_of("log", w.add(w.add(first, second), third))
            w.store_at(w.add(total, w.add(largest, w.load_at(now, s, dtype))), after, s + 2)
    return w.function()
