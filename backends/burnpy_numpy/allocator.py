"""The memory of this process: what Linux counts, and what glibc's malloc keeps of large blocks that were freed.

By default glibc returns every large block to the system and incurs page faults to get it again, which takes several
times as long as the arithmetic on it. The setting applies to the whole process; ``BURNPY_MALLOPT=0`` in the environment
disables it. Without glibc (macOS, musl, Windows), nothing happens.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from burnpy.backend.device_memory import DeviceMemory


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # from glibc's <malloc.h>
_LARGEST = 256 << 20, 32 << 20
"""Candidates for the size from which blocks are returned to the system: the first that glibc accepts is used; older
versions accept no more than 32 MB."""

_PROCESS = "/proc/self"
_RESET_PEAK = "5"  # man 5 proc_pid_clear_refs


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


def return_freed_memory() -> None:
    """Return to the system what glibc's malloc keeps of freed blocks; without glibc, nothing happens."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def measured() -> DeviceMemory:
    """Return the resident memory of the process, and what the system has left."""
    from burnpy.backend.device_memory import DeviceMemory

    process, system = _kibibytes(f"{_PROCESS}/status"), _kibibytes("/proc/meminfo")
    resident, peak = process["VmRSS"], process["VmHWM"]
    return DeviceMemory(
        resident, resident, system["MemAvailable"], system["MemTotal"], measured_peak=max(peak, resident)
    )


def reset_peak() -> None:
    """Have Linux count the peak of the process's resident memory from now on."""
    with open(f"{_PROCESS}/clear_refs", "w") as file:
        file.write(_RESET_PEAK)


def _kibibytes(path: str) -> dict[str, int]:
    """Return the entries of a file that are in kB, in bytes by name."""
    with open(path) as file:
        words = [line.split() for line in file]
    return {w[0].rstrip(":"): int(w[1]) * 1024 for w in words if len(w) == 3 and w[2] == "kB"}
