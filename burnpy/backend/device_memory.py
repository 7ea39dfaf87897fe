"""`DeviceMemory`, which `Backend.memory` returns, the error for a full memory, and tables of such numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import DeviceError, OutOfMemoryError

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Format rows under their headers; the first ``left`` columns are left-aligned, the others right-aligned.

    >>> print(table(["operation", "calls"], [["add", "12"], ["matmul", "3"]]))
    operation  calls
    ─────────  ─────
    add           12
    matmul         3
    """
    body = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *body, strict=True)]
    lines = [list(headers), ["─" * width for width in widths], *body]
    return "\n".join(
        "  ".join(
            text.ljust(width) if k < left else text.rjust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def scaled(value: float, unit: str, step: int = 1000) -> str:
    """Format a number with a unit and its prefix.

    >>> scaled(1_234_000, "FLOP"), scaled(12, "B"), scaled(2048, "B", 1024)
    ('1.23 MFLOP', '12 B', '2.00 KiB')
    """
    prefixes = ("", "Ki", "Mi", "Gi", "Ti") if step == 1024 else ("", "k", "M", "G", "T")
    k = 0
    while k + 1 < len(prefixes) and abs(value) >= step:
        value, k = value / step, k + 1
    return f"{value:.0f} {unit}" if k == 0 else f"{value:.2f} {prefixes[k]}{unit}"


def time_of(seconds: float) -> str:
    """Format a time in s, ms or µs.

    >>> time_of(0.00123), time_of(12e-6), time_of(2.5)
    ('1.23 ms', '12.0 µs', '2.50 s')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The memory of a device, in bytes, at the time of `Backend.memory`.

    >>> print(DeviceMemory(used=3 << 20, reserved=4 << 20, free=1 << 30, total=2 << 30))
    3.00 MiB used, 4.00 MiB reserved, 1.00 GiB free of 2.00 GiB
    """

    used: int  #: in arrays; on the CPU, in all of the process
    reserved: int  #: taken from the system: the used ones, and those kept for the next arrays
    free: int  #: that the system can give in addition
    total: int  #: of the device, other processes' part included
    measured_peak: int | None = None  #: `peak`, or None if it is not being measured

    @property
    def peak(self) -> int:
        """The highest number of bytes that were used at once since `Backend.reset_peak_memory`."""
        if self.measured_peak is None:
            raise DeviceError(
                "the peak of the device's memory is measured only from device.reset_peak_memory() on; call that first"
            )
        return self.measured_peak

    def __str__(self) -> str:
        peak = "" if self.measured_peak is None else f", {size(self.measured_peak)} at most"
        return (
            f"{size(self.used)} used{peak}, {size(self.reserved)} reserved, "
            f"{size(self.free)} free of {size(self.total)}"
        )


def size(count: int) -> str:
    """Format a number of bytes.

    >>> size(5), size(3 << 30)
    ('5 B', '3.00 GiB')
    """
    return scaled(count, "B", 1024)


def not_measured(device: object) -> DeviceError:
    """Return the error for the memory of a device that does not measure it."""
    return DeviceError(f"{device} does not measure its memory; CuPy does, and NumPy on Linux")


def not_allocated(asked: str, arguments: Iterable[object], error: MemoryError) -> OutOfMemoryError:
    """Return the error for an operation that the machine has no memory for; the message describes the allocation.

    Args:
        asked: the call, such as "exp()".
        arguments: its arguments, whose shapes are in the message.
        error: an `OutOfMemoryError` of the device, NumPy's error with the array's shape and dtype, or any other.
    """
    each: list[Any] = [
        x for argument in arguments for x in (argument if isinstance(argument, (list, tuple)) else [argument])
    ]
    shapes = [str(x.shape) for x in each if isinstance(getattr(x, "shape", None), tuple)]
    shown = " and ".join(shapes) if len(shapes) < 4 else f"{shapes[0]}, {shapes[1]} and {len(shapes) - 2} others"
    asked = f"{asked} of shape{'s' if len(shapes) > 1 else ''} {shown}" if shapes else asked
    if isinstance(error, OutOfMemoryError):
        return OutOfMemoryError(f"{asked} ran out of memory: {error}")
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    needed = "more memory than this machine has"
    if isinstance(shape, tuple) and isinstance(dtype, np.dtype):
        taken = size(math.prod(shape) * dtype.itemsize)
        needed = f"{taken} for an array of shape {shape} and dtype {dtype}, which this machine does not have"
    return OutOfMemoryError(f"{asked} needs {needed}; compute it in parts, or delete tensors that you no longer need")


def full(device: Backend, asked: int | None, limit: int = 0) -> OutOfMemoryError:
    """Return the error for an allocation that the device's memory has no room for.

    Args:
        device: the device.
        asked: the bytes of the allocation, if they are known.
        limit: the bytes that the program has set as the most that may be reserved; 0 if it has not.
    """
    memory = device.memory()
    room = f"{size(memory.free)} of {size(memory.total)} free"
    if limit:
        room = f"its limit set to {size(limit)}"
    return OutOfMemoryError(
        f"{device} cannot allocate {size(asked) if asked is not None else 'more memory'}, with "
        f"{size(memory.used)} in tensors and {room}; use a smaller batch, burnpy.autodiff.checkpoint(...) around parts "
        f"of the model, or Autodiff[Mixed[{type(device).__name__}]]; if other libraries use the device, call "
        "device.empty_cache() before them"
    )
