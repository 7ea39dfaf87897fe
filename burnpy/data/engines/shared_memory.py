"""Memory that processes share: anonymous files, passed as descriptors, which the kernel frees when all are closed.

An anonymous file has no name that could be left behind, whatever kills a process, and its pages are reserved when it is
made, so that a full memory is an error here and no bus error where it is written to.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from contextlib import suppress

from burnpy.backend.errors import OutOfMemoryError


def anonymous_file(size: int, what: str) -> int:
    """Return the descriptor of a new anonymous file of ``size`` bytes, all of them reserved.

    Raises:
        OutOfMemoryError: there is not as much memory.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("burnpy.data")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        _reserve(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT):
            raise
        raise OutOfMemoryError(
            f"{what} takes {size / 2**20:.1f} MiB of shared memory, and there is not enough ({error.strerror}); use "
            "smaller batches or fewer of them ahead (prefetch), or threads, which need none"
        ) from None
    return descriptor


def _reserve(descriptor: int, size: int) -> None:
    available = _available()
    if available is not None and size > available:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def _available() -> int | None:
    """Return the memory that Linux estimates to be available, in bytes; None elsewhere."""
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def mapped(descriptor: int) -> mmap.mmap:
    """Map an anonymous file, and close the descriptor. The mapping ends when nothing refers to it."""
    try:
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
