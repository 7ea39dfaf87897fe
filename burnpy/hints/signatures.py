"""Signatures of functions, also of those whose annotations use names that exist for type checkers alone."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function. An annotation that cannot be evaluated stays unevaluated.

    Python 3.14 evaluates annotations when they are read, and by default raises a NameError for a name that is only
    imported ``if TYPE_CHECKING``.

    Raises:
        TypeError: ``function`` is not callable.
        ValueError: it is a builtin without a signature.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        found = inspect.signature(function, annotation_format=Format.FORWARDREF)
    else:
        found = inspect.signature(function)
    return found
