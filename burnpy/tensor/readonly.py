"""Read-only views that cannot be made writable again, and a check for arrays whose memory can still be written to."""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import asarray

from burnpy.backend.errors import a

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Owned(np.ndarray[Any, Any]):
    """A view that marks the memory of a tensor or of a record's array: its owner never writes to it."""

    __slots__ = ()


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array over the same memory that cannot be made writable.

    ``setflags(write=True)`` makes a read-only view of a writable array writable, but not an array over a read-only
    buffer.

    >>> readonly(np.zeros(3)).flags.writeable
    False
    """
    owned: Any = array.view(Owned)
    owned.setflags(False)
    try:
        return asarray(memoryview(owned))
    except ValueError:  # Python buffers do not support bfloat16, only its bits as uint16
        bits: Any = owned.view(np.uint16)
        return asarray(memoryview(bits)).view(array.dtype)


def writer(array: NDArray[Any]) -> str:
    """Return a reason why the memory of an array can still be written to; an empty string if it cannot.

    ``bytes``, and memory behind an array that `readonly` returned, are never written to. Other memory may be, whatever
    the array's own flag says: views from before an array became read-only can still write to it.

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
            return "" if type(owner) is bytes else f"its memory belongs to {a(type(owner).__name__)}"
