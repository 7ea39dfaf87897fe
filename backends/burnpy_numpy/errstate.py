"""Calling NumPy without its warnings about floating point: tensors divide by zero as silently as IEEE 754 does.

``with np.errstate(all="ignore")`` costs three times what a small operation does. NumPy keeps that setting in a context
variable, so here it is set once, in a `contextvars.Context` of our own, and `Context.run` calls functions inside of
it at no cost that can be measured.
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
"""``run(f, *args)``: f(*args), quietly. Raises RuntimeError while the context is in use; `quietly` does then."""


def is_anothers(error: BaseException) -> bool:
    """Whether an error, in the frame that called `run`, is from a Python function: f, or the handler of a signal.

    By then f may have written somewhere, and must not be called again.
    """
    return error.__traceback__ is not None and error.__traceback__.tb_next is not None


def quietly(f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """f(*args, **keywords) without warnings, also where another thread, or a caller of ours, is in the context.

    To be called where `run` has raised RuntimeError; raises that itself if the context is not what it was about.
    """
    error = sys.exception()
    if error is not None and is_anothers(error):
        raise error
    with np.errstate(all="ignore"):
        return f(*args, **keywords)
