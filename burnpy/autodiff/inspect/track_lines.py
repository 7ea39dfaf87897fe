"""`track_lines`: stores in each node the user's lines that recorded it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from burnpy.autodiff.current import observing
from burnpy.autodiff.graph import STACK, note
from burnpy.backend.source_lines import user_stack


def track_lines(depth: int | None = 1) -> AbstractContextManager[None]:
    """Return a context manager in which each recorded node stores the line of user code that recorded it.

    `memory_report`, drawings and ``grad_fn.line`` show it, `Profiled` attributes backward passes to it, and the errors
    of `Checked` name it. It doubles or triples the time of a tiny operation, and costs nothing outside of the block.

    Args:
        depth: how many of the innermost frames of the call stack to store; None for all.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> with track_lines():
    ...     y = x.exp()
    >>> y.grad_fn.line.code
    'y = x.exp()'
    """

    def observer(device: Any, node: Any) -> None:
        metadata = note(node)
        if STACK not in metadata:
            metadata[STACK] = user_stack(depth)

    return observing(observer)
