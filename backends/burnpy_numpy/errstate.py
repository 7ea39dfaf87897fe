"""Calling NumPy without floating-point warnings: division by zero gives inf or NaN silently, as in IEEE 754.

``with np.errstate(all="ignore")`` takes three times as long as a small operation. NumPy stores that setting in a
context variable, so here it is set once, in a dedicated `contextvars.Context`, and `Context.run` calls functions in
it at no measurable cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import numpy as np

_context = copy_context()
_context.run(np.errstate(all="ignore").__enter__)
run = _context.run
"""``run(f, *args)`` calls f(*args) without warnings. It raises RuntimeError while the context is in use; call
`quietly` in that case."""


def is_anothers(error: BaseException) -> bool:
    """Whether an error caught in the frame that called `run` was raised in a Python function: f or a signal handler.

    In that case f may have written to memory already, and must not be called again.
    """
    return error.__traceback__ is not None and error.__traceback__.tb_next is not None


def quietly(f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call f(*args, **keywords) without warnings while another thread, or a caller in this one, is in the context.

    Call it while handling the RuntimeError of `run`; the error is raised again if it came from f or a signal handler.
    """
    error = sys.exception()
    if error is not None and is_anothers(error):
        raise error
    with np.errstate(all="ignore"):
        return f(*args, **keywords)
