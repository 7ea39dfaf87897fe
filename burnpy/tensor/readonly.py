"""Read-only views that stay read-only, and which arrays nobody can write to."""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import asarray

from burnpy.backend.errors import a

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Owned(np.ndarray[Any, Any]):
    """Memory of a tensor or of a record's array, as `readonly` shows it: whoever could write to it does not."""

    __slots__ = ()


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as an array that cannot be made writable.

    ``setflags(write=True)`` opens a read-only view of a writable array again, but not an array over a read-only buffer.

    >>> readonly(np.zeros(3)).flags.writeable
    False
    """
    owned: Any = array.view(Owned)
    owned.setflags(False)
    try:
        return asarray(memoryview(owned))
    except ValueError:  # bfloat16 is no dtype of Python's buffers; the bits of it are
        bits: Any = owned.view(np.uint16)
        return asarray(memoryview(bits)).view(array.dtype)


def writer(array: NDArray[Any]) -> str:
    """Who may still write to the memory of an array, in words; empty if nobody can.

    Nobody writes to ``bytes``, and to memory that `readonly` has shown. Anything else has an owner who may, whatever
    the array's own flag says: an array that is read-only now was not always, and a view of then still writes to it.

    >>> writer(np.frombuffer(b"abcd", np.uint8)), writer(readonly(np.zeros(3)))
    ('', '')
    >>> writer(np.broadcast_to(np.zeros(()), (3,)))
    'it is a view of an array that can be written to'
    """
    owner: Any = array
    while True:
        if isinstance(owner, np.ndarray):
            if owner.flags.writeable:
                return "it can be written to" if owner is array else "it is a view of an array that can be written to"
            if type(owner) is Owned:
                return ""
            if owner.base is None:
                return "views of it from before it was read-only can be written to"
            owner = owner.base
        elif type(owner) is memoryview:
            owner = owner.obj
        elif type(owner) is PickleBuffer:
            owner = memoryview(owner).obj
        else:
            return "" if type(owner) is bytes else f"its memory is that of {a(type(owner).__name__)}"
