"""The memory of this process, as Linux counts it."""

from __future__ import annotations

from pathlib import Path

from burnpy.backend.device_memory import DeviceMemory

_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"  # man 5 proc_pid_clear_refs


def measured() -> DeviceMemory:
    """Return the resident memory of the process, and what the system has left.

    Raises:
        OSError: the system is not Linux.
    """
    process, system = _kibibytes(_PROCESS / "status"), _kibibytes(Path("/proc/meminfo"))
    resident, peak = process["VmRSS"], process["VmHWM"]
    return DeviceMemory(
        resident, resident, system["MemAvailable"], system["MemTotal"], measured_peak=max(peak, resident)
    )


def reset_peak() -> None:
    """Have Linux count the peak of the process's resident memory from now on.

    Raises:
        OSError: the system is not Linux, or forbids it.
    """
    (_PROCESS / "clear_refs").write_text(_RESET_PEAK)


def _kibibytes(path: Path) -> dict[str, int]:
    """Return the entries of a file that are in kB, in bytes by name."""
    words = [line.split() for line in path.read_text().splitlines()]
    return {w[0].rstrip(":"): int(w[1]) * 1024 for w in words if len(w) == 3 and w[2] == "kB"}
