"""`LaunchSequence`: launches of a plan, one after the other, with their arguments made beforehand.

The arguments of all kernels lie in one block of the host's memory. The addresses in it change only where an input or an
output of a replay is another array than in the one before, so that a launch is one call of the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from burnpy_cupy.gemm import uses_tf32

_WORD = 8
"""The bytes of an address, and of all numbers that kernels of plans take."""


class Table(NamedTuple):
    """An argument of many bytes, with the addresses of arrays at some places."""

    content: bytes
    arrays: Mapping[int, str]  #: the names of the arrays by the positions of their addresses in bytes


class Part(NamedTuple):
    """The address of a part of an array."""

    array: str
    start: int  #: in bytes


class KernelCall(NamedTuple):
    """A launch of a kernel."""

    kernel: Any  #: cupy.RawKernel
    grid: tuple[int, int]
    block: tuple[int, int]
    arguments: Sequence[str | Part | int | float | Table]  #: names of arrays, numbers and tables

    def argument_table(self) -> tuple[bytes, list[int], dict[int, Part]]:
        """Return the bytes of all arguments, where each begins, and the addresses among them."""
        content, starts, addresses = bytearray(), list[int](), dict[int, Part]()
        for x in self.arguments:
            starts.append(len(content))
            if isinstance(x, Part):
                addresses[len(content)] = x
                content += bytes(_WORD)
            elif isinstance(x, str):
                addresses[len(content)] = Part(x, 0)
                content += bytes(_WORD)
            elif isinstance(x, Table):
                addresses |= {len(content) + at: Part(name, 0) for at, name in x.arrays.items()}
                content += x.content
            else:
                content += np.array(x, np.float64 if isinstance(x, float) else np.int64).tobytes()
        return bytes(content), starts, addresses


class ProductCall(NamedTuple):
    """A product by cuBLAS."""

    product: Any  #: `burnpy_cupy.gemm.Product`
    x: str
    y: str
    out: str


class LaunchSequence:
    """Launches, as `Executor.joined` returns them.

    Args:
        device: the device, a `CuPy`.
        calls: the launches.
        given: the names of the arrays that each run is given.
    """

    def __init__(self, device: Any, calls: Sequence[KernelCall | ProductCall], given: Sequence[str]) -> None:
        self._device, self._calls, self._given = device, calls, given

    def bind(self, space: Mapping[str, Any]) -> Callable[..., None]:
        """Return the function that launches them for the arrays that it is given, with others by name."""
        return BoundLaunches(self._device, self._calls, self._given, space).run

    def run(self, *arrays: Any) -> None:
        """Launch them once for arrays, which are all given."""
        self.bind({})(*arrays)

    def bind_steps(self, space: Mapping[str, Any]) -> Callable[..., None]:
        """Raise an error: `CuPyExecutor` has no loops of launches."""
        raise NotImplementedError


class BoundLaunches:
    """Launches for the memory of one instance of a plan."""

    def __init__(
        self, device: Any, calls: Sequence[KernelCall | ProductCall], given: Sequence[str], space: Mapping[str, Any]
    ) -> None:
        self._device = device
        self._launch_kernel = _launch_kernel()
        self._alive = [x for x in space.values() if hasattr(x, "data")]  # the memory that the addresses are of
        fixed = {name: x.data.ptr for name, x in space.items() if hasattr(x, "data")}
        position = {name: k for k, name in enumerate(given)}
        content = bytearray()
        kernels: list[tuple[KernelCall, list[int]]] = []  # with the places of its arguments
        moving: list[tuple[int, int, int]] = []  # a place of an address, the position of its array, and the distance
        addresses: dict[int, int] = {}
        for call in calls:
            if isinstance(call, ProductCall):
                continue
            table, starts, named = call.argument_table()
            kernels.append((call, [len(content) + start for start in starts]))
            for at, part in named.items():
                place = (len(content) + at) // _WORD
                if part.array in position:
                    moving.append((place, position[part.array], part.start))
                else:
                    addresses[place] = fixed[part.array] + part.start
            content += table
        self._words = np.frombuffer(bytearray(content), np.uint64)
        for place, address in addresses.items():
            self._words[place] = address
        base = self._words.ctypes.data if len(self._words) else 0
        places = [place for _, starts in kernels for place in starts]
        self._pointers = np.array([base + place for place in places], np.uint64)
        pointer = self._pointers.ctypes.data if places else 0
        self._places, which, starts = (np.array(column, np.int64) for column in zip(*moving, strict=True)) if moving else (
            np.zeros(0, np.int64) for _ in range(3)
        )  # fmt: skip
        self._which, self._starts = which, starts.astype(np.uint64)
        self._steps: list[tuple[Any, ...] | Callable[[Sequence[int]], tuple[Any, ...]]] = []
        functions = iter(kernels)
        for call in calls:
            if isinstance(call, ProductCall):
                self._steps.append(_product(device.xp, call, fixed, position))
            else:
                _, at = next(functions)
                self._steps.append((call.kernel.kernel.ptr, *call.grid, 1, *call.block, 1, 0, pointer))
                pointer += _WORD * len(at)
        self._addresses: list[int] | None = None
        self._place: Any = None
        self._queue: list[tuple[Any, tuple[Any, ...]]] = []

    def run(self, *arrays: Any) -> None:
        """Launch all, for the arrays that are given."""
        addresses = [x.data.ptr for x in arrays]
        if addresses != self._addresses:
            self._addresses, self._place = addresses, None
            if len(self._places):
                self._words[self._places] = np.array(addresses, np.uint64)[self._which] + self._starts
        self._device._call(self._launch)

    def _launch(self) -> None:
        place = (self._device._streams.current().ptr, get_ident(), uses_tf32())  # cuBLAS has a handle for each thread
        if place != self._place:
            self._queue = [self._step(step, place[0]) for step in self._steps]
            self._place = place
        for function, arguments in self._queue:
            function(*arguments)

    def _step(self, step: Any, stream: int) -> tuple[Any, tuple[Any, ...]]:
        """Return a function and its arguments."""
        if isinstance(step, tuple):
            return self._launch_kernel, (*step[:8], stream, step[8], 0)
        return step(self._addresses)  # type: ignore[no-any-return]  # as `_product` returns it


def _product(xp: Any, call: ProductCall, fixed: Mapping[str, int], position: Mapping[str, int]) -> Any:
    """Return the function that makes the call of a product of the addresses that are given."""

    def made(given: Sequence[int]) -> tuple[Any, tuple[Any, ...]]:
        x, y, out = (given[position[name]] if name in position else fixed[name] for name in (call.x, call.y, call.out))
        return call.product.call(xp, x, y, out)  # type: ignore[no-any-return]  # as declared

    return made


def _launch_kernel() -> Any:
    """Return CuPy's call of cuLaunchKernel, which takes addresses as ints."""
    return import_module("cupy_backends.cuda.api.driver").launchKernel
