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

from burnpy.backend.errors import raised_by_other_code

_context = copy_context()
_context.run(np.errstate(all="ignore").__enter__)
run = _context.run
"""``run(f, *args)`` calls f(*args) without warnings. It raises RuntimeError while the context is in use; call
`quietly` in that case."""


def quietly(f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call f(*args, **keywords) without warnings while another thread, or a caller in this one, is in the context.

    Call it while handling the RuntimeError of `run`. An error raised in a Python function, f or a signal handler,
    is raised again: f may have written to memory, and must not be called a second time.
    """
    error = sys.exception()
    if error is not None and raised_by_other_code(error, ()):
        raise error
    with np.errstate(all="ignore"):
        return f(*args, **keywords)
