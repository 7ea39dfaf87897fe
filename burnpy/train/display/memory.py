"""The memory of this process."""

from __future__ import annotations

import sys


def resident_megabytes() -> float | None:
    """Return the memory that the process occupies, in MB; its peak where the system does not tell; None if neither.

    >>> (resident_megabytes() or 1.0) > 0
    True
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        from resource import getpagesize

        return pages * getpagesize() / 1e6
    except (OSError, ImportError):
        pass
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return None
    return getrusage(RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
