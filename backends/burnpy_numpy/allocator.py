"""Setting glibc's malloc to keep large blocks of freed memory, so that the next operation reuses mapped pages.

By default glibc returns every large block to the system and incurs page faults to get it again, which takes several
times as long as the arithmetic on it. The setting applies to the whole process; ``BURNPY_MALLOPT=0`` in the environment
disables it. Without glibc (macOS, musl, Windows), nothing happens.
"""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # from glibc's <malloc.h>
_LARGEST = 256 << 20, 32 << 20
"""Candidates for the size from which blocks are returned to the system: the first that glibc accepts is used; older
versions accept no more than 32 MB."""


def keep_freed_memory() -> bool:
    """Apply the setting unless the user opted out; return whether glibc accepted it."""
    if os.environ.get("BURNPY_MALLOPT") == "0":
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  # musl has a mallopt in name only
        mallopt = libc.mallopt
    except (OSError, AttributeError, TypeError):
        return False
    accepted = any(mallopt(_MMAP_THRESHOLD, size) for size in _LARGEST)  # mallopt returns 0 for a value it rejects
    mallopt(_TRIM_THRESHOLD, 512 << 20)
    mallopt(_ARENA_MAX, 1)
    return accepted
