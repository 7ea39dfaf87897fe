"""Launches of a kernel with arguments that are packed here, which takes a third of the time of a `cupy.RawKernel`.

A launch is given the arguments that change, addresses and numbers, and other arguments follow that stay. Each has 8
bytes, but for the last one, which may be a struct. So the driver finds them in one block of the host's memory, each
after the next 8 bytes, and the pointers to them are made once.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

Launch: TypeAlias = Callable[..., None]
"""Launches a kernel on the current stream, given the arguments that change."""

_WORD = 8
_BYTES = 4608
"""The bytes of a block: CUDA takes 4 KB of arguments."""
_ARGUMENTS = 64
"""The most arguments of a kernel."""


def launcher(
    xp: Any, kernel: Any, grid: Sequence[int], block: Sequence[int], given: str, rest: bytes = b"", shared: int = 0
) -> Launch:
    """Return the launch of a kernel on the GPU that is current.

    Args:
        xp: the module cupy.
        kernel: a `cupy.RawKernel`, which is compiled by the first launch.
        grid: the number of blocks of threads, in two dimensions.
        block: the number of threads of each.
        given: the format, as of the module ``struct``, of the arguments that change.
        rest: the bytes of those that stay.
        shared: the bytes of shared memory of a block.
    """
    arguments = struct.Struct(f"={given}{len(rest)}s")
    assert arguments.size <= _BYTES, "CUDA takes 4 KB of arguments"
    pack, threads = arguments.pack_into, _threads
    launch_kernel, stream = driver().launchKernel, xp.cuda.get_current_stream
    (width, height), (x, y), device, function = grid, block, xp.cuda.runtime.getDevice(), 0

    def launch(*changing: Any) -> None:
        nonlocal function
        free = (threads.by_gpu.get(device) or launching_thread(xp, device)).free
        if not function:
            function = kernel.kernel.ptr
        held = free.pop() if free else _block()  # so a launch within this one, of a signal's handler, has another
        words, pointers = held
        pack(words, 0, *changing, rest)
        launch_kernel(function, width, height, 1, x, y, 1, shared, stream().ptr, pointers, 0)
        free.append(held)

    return launch


class LaunchingThread:
    """A thread that launches on a GPU. Compared by identity, it is never one that has ended: the system gives the
    number of `threading.get_ident` to the next thread.
    """

    __slots__ = ("free",)

    def __init__(self) -> None:
        self.free: list[tuple[Any, int]] = []  #: the blocks that no launch is using


class _Threads(threading.local):
    def __init__(self) -> None:
        self.by_gpu: dict[int, LaunchingThread] = {}


_threads = _Threads()


def launching_thread(xp: Any, gpu: int) -> LaunchingThread:
    """Return the calling thread's `LaunchingThread` of a GPU, which is current."""
    found = _threads.by_gpu.get(gpu)
    if found is None:
        xp.cuda.runtime.memGetInfo()  # makes the GPU's context the thread's, as the driver expects
        found = _threads.by_gpu[gpu] = LaunchingThread()
    return found


def _block() -> tuple[Any, int]:
    """Allocate a block; return it with the address of the pointers, which are at its end."""
    words = (ctypes.c_char * (_BYTES + _WORD * _ARGUMENTS))()
    first = ctypes.addressof(words)
    struct.pack_into(f"={_ARGUMENTS}Q", words, _BYTES, *range(first, first + _WORD * _ARGUMENTS, _WORD))
    return words, first + _BYTES


@cache
def driver() -> Any:
    """Return CuPy's binding of the driver, which takes addresses as ints."""
    return import_module("cupy_backends.cuda.api.driver")
