"""Telling glibc to keep large blocks of freed memory, so that the next operation finds its pages mapped already.

By default glibc returns every large block to the system and pays page faults to get it again, which takes several
times as long as the arithmetic on it. The setting holds for the whole process; ``BURNPY_MALLOPT=0`` in the environment
leaves it alone. Where there is no glibc (macOS, musl, Windows), nothing happens.
"""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # from glibc's <malloc.h>
_LARGEST = 256 << 20, 32 << 20
"""From which size on blocks are given back: of these the first that glibc takes; older ones take no more than 32 MB."""


def keep_freed_memory() -> bool:
    """Set it, unless the user opted out; whether glibc took it."""
    if os.environ.get("BURNPY_MALLOPT") == "0":
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  # musl has a mallopt in name only
        mallopt = libc.mallopt
    except (OSError, AttributeError, TypeError):
        return False
    taken = any(mallopt(_MMAP_THRESHOLD, size) for size in _LARGEST)  # it returns 0 for what it does not take
    mallopt(_TRIM_THRESHOLD, 512 << 20)
    mallopt(_ARENA_MAX, 1)
    return taken
