"""Donated tensors: those whose memory a compiled function may overwrite, and which nobody can use afterwards."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from burnpy.backend.errors import StateError


class Donated:
    """The primitive of a tensor that was donated: every use of it raises an error."""

    __slots__ = ("_function",)

    def __init__(self, function: str) -> None:
        self._function = function

    def __getattr__(self, name: str) -> NoReturn:
        raise StateError(
            f"this tensor was donated to {self._function}, which may have overwritten its memory; use the tensors that "
            "the function returned, or leave the argument out of donate="
        )


def unshared(arrays: list[Any], position: int) -> bool:
    """Return whether a list holds the only reference to one of its arrays, so that it may be overwritten."""
    return sys.getrefcount(arrays[position]) <= _ALONE


_one = [object()]
_ALONE = (lambda arrays, position: sys.getrefcount(arrays[position]))(_one, 0)
"""The count of references to an object that only a list holds, as `unshared` sees it."""
