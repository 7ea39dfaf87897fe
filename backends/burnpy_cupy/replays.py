"""Replays of plans: `Replay`, one instance on a GPU, whose memory one stream uses after the other; `LaunchSequence`.

A sequence is launches of a plan, one after the other, with their arguments made beforehand.
The arguments of all kernels lie in one block of the host's memory. The addresses in it change only where an input or an
output of a replay is another array than in the one before, so that a launch is one call of the driver.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from burnpy.backend.call_origin import recorders
from burnpy_cupy.cuda_graphs import CaptureError, Inputs, ReplayGraph, capture, uses_graphs
from burnpy_cupy.epilogues import FinishedProduct
from burnpy_cupy.gemm import Library, Product, library, uses_tf32
from burnpy_cupy.kernels.launch import driver, launching_thread

_WORD = 8
"""The bytes of an address, and of all numbers that kernels of plans take."""

Step: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that launches, and its arguments."""


class Table(NamedTuple):
    """An argument of many bytes, with the addresses of arrays at some places."""

    content: bytes
    arrays: Mapping[int, str]  #: the names of the arrays by the positions of their addresses in bytes


class Part(NamedTuple):
    """The address of a part of an array."""

    array: str
    start: int  #: in bytes


Argument: TypeAlias = str | Part | int | float | Table
"""An argument of a kernel: the name of an array, a part of one, a number or a table."""


class KernelCall(NamedTuple):
    """A launch of a kernel."""

    kernel: Any  #: cupy.RawKernel
    grid: tuple[int, int]
    block: tuple[int, int]
    arguments: Sequence[Argument]

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
    """A product by cuBLAS or cuBLASLt."""

    product: Product | FinishedProduct
    arrays: tuple[str, ...]  #: the operands, the result, and the vector of an epilogue


class LaunchSequence:
    """Launches, as `Executor.joined` returns them.

    Args:
        device: the device, a `CuPy`.
        calls: the launches.
        given: the names of the arrays that each run is given.
    """

    def __init__(self, device: Any, calls: Sequence[KernelCall | ProductCall], given: Sequence[str]) -> None:
        self._device, self._calls, self._given = device, calls, given
        device._compilations.begin([call.kernel for call in calls if isinstance(call, KernelCall)])

    def bind(self, space: Mapping[str, Any]) -> Callable[..., None]:
        """Return the function that launches them for the arrays that it is given, with others by name."""
        return BoundLaunches(self._device, self._calls, self._given, space).run

    def run(self, *arrays: Any) -> None:
        """Launch them once for arrays, which are all given."""
        self.bind({})(*arrays)


class ArgumentBlock:
    """The arguments of all kernels of a sequence, and the pointers to them that the driver reads.

    Args:
        calls: the launches.
        fixed: the addresses of arrays by name.
        given: the names of the arrays whose addresses `move` writes.
    """

    def __init__(self, calls: Sequence[KernelCall], fixed: Mapping[str, int], given: Sequence[str]) -> None:
        content, places, numbers = bytearray(), list[int](), {name: k for k, name in enumerate(given)}
        moving: list[tuple[int, int, int]] = []  # a place of an address, the number of its array, and the distance
        standing: list[tuple[int, int]] = []
        self._firsts: list[int] = []  # the number of the first argument of each kernel
        for call in calls:
            table, starts, named = call.argument_table()
            self._firsts.append(len(places))
            places += [len(content) + start for start in starts]
            for at, (name, start) in named.items():
                place = (len(content) + at) // _WORD
                if name in numbers:
                    moving.append((place, numbers[name], start))
                else:
                    standing.append((place, fixed[name] + start))
            content += table
        self._words: Any = np.frombuffer(content, np.uint64)
        for place, address in standing:
            self._words[place] = address
        self._pointers: Any = np.array(places, np.uint64) + np.uint64(self._words.ctypes.data)
        rows: Any = np.array(moving, np.int64).reshape(-1, 3)
        self._places, self._numbers, self._starts = rows[:, 0], rows[:, 1], rows[:, 2].astype(np.uint64)

    def pointer(self, kernel: int) -> int:
        """Return the address of the pointers to the arguments of a kernel."""
        return int(self._pointers.ctypes.data) + _WORD * self._firsts[kernel]

    def move(self, addresses: Sequence[int]) -> None:
        """Write the addresses of the arrays that are given."""
        if len(self._places):
            self._words[self._places] = np.array(addresses, np.uint64)[self._numbers] + self._starts


class BoundLaunches:
    """Launches for the memory of one instance of a plan, which one thread uses at a time.

    Args:
        device: the device, a `CuPy`.
        calls: the launches.
        given: the names of the arrays that each run is given.
        space: the other arrays by name, among other objects.
    """

    def __init__(
        self, device: Any, calls: Sequence[KernelCall | ProductCall], given: Sequence[str], space: Mapping[str, Any]
    ) -> None:
        self._device, self._given = device, given
        self._alive = {name: x for name, x in space.items() if hasattr(x, "data")}
        self._places = {name: x.data.ptr for name, x in self._alive.items()}
        kernels = [call for call in calls if isinstance(call, KernelCall)]
        self._block = ArgumentBlock(kernels, self._places, given)
        pointers = iter([self._block.pointer(k) for k in range(len(kernels))])
        launch, function = driver().launchKernel, device._compilations.function
        self._steps: list[Callable[[int, Library], Step]] = [
            partial(_product, call, self._places)
            if isinstance(call, ProductCall)
            else partial(_kernel, launch, (function(call.kernel).ptr, *call.grid, 1, *call.block, 1, 0), next(pointers))
            for call in calls
        ]
        self._moving = [
            k for k, call in enumerate(calls) if isinstance(call, ProductCall) and {*call.arrays} & {*given}
        ]
        self._addresses: tuple[int, ...] | None = None
        self._moved = True
        self._place: Any = None
        self._queue: list[Step] = []

    def run(self, *arrays: Any) -> None:
        """Launch all, for the arrays that are given."""
        addresses = tuple([x.data.ptr for x in arrays])
        if addresses != self._addresses:
            self._addresses, self._moved = addresses, True
            self._places.update(zip(self._given, addresses, strict=True))
            self._block.move(addresses)
        self._device._call(self._launch)

    def _launch(self) -> None:
        stream, rounded = self._device._streams.current().ptr, uses_tf32()
        thread = launching_thread(self._device.xp, self._device.index)  # cuBLAS has a handle for each
        place = (stream, thread, rounded)
        if place != self._place:
            cublas = library(self._device.xp)
            self._queue = [step(stream, cublas) for step in self._steps]
            self._place = place
        elif self._moved:
            cublas = library(self._device.xp)
            for k in self._moving:
                self._queue[k] = self._steps[k](stream, cublas)
        self._moved = False
        for function, arguments in self._queue:
            function(*arguments)


def _product(call: ProductCall, places: Mapping[str, int], stream: int, cublas: Library) -> Step:
    return call.product.call(cublas, stream, *[places[name] for name in call.arrays])


def _kernel(launch: Any, arguments: tuple[Any, ...], pointer: int, stream: int, cublas: Library) -> Step:
    """Return the driver's function and its arguments for a kernel."""
    return launch, (*arguments, stream, pointer, 0)


class Replay:
    """The replay of a plan, in memory of its own, as single launches or within `CuPy.graphs` as a CUDA graph.

    Launches only queue work. So when the next replay in the same memory is on another stream, that stream waits for the
    one before, on the GPU.

    Args:
        device: the device, a `CuPy`.
        make: returns a function that launches, with memory of its own.
        defaults: functions that return the default random generators that it draws from.
    """

    def __init__(
        self, device: Any, make: Callable[[], Callable[..., list[Any]]], defaults: Sequence[Callable[[], Any]]
    ) -> None:
        self._device, self._make, self._defaults = device, make, defaults
        self._function = make()
        self._stream: Any = None
        self._seen: dict[Hashable, _Seen] = {}
        self._pool: Any = None
        self._refused = False

    def __call__(self, *inputs: Any) -> list[Any]:
        """Compute the outputs for inputs."""
        outer = capture.get()
        if outer is not None:
            results: list[Any] = outer.own(self, self._make)(*inputs)
            return results
        current = self._device._streams.current()
        if self._stream is None or self._stream.ptr != current.ptr:
            if self._stream is not None:
                self._device._call(self._device._streams.follow, current, self._stream)
            self._stream = current
        if not uses_graphs() or self._refused or recorders.get():  # a profile has the time of each launch
            return self._function(*inputs)
        return self._device._call(self._as_graph, inputs)  # type: ignore[no-any-return]  # as declared

    def _as_graph(self, inputs: Inputs) -> list[Any]:
        """Run the graph for such inputs, which is captured when they come again: kernels are loaded by then."""
        free = inputs[-1] if inputs and isinstance(inputs[-1], set) else ()
        key = (frozenset(free), uses_tf32())  # TF32 is an argument of cuBLAS
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = _Seen(inputs)
            return self._function(*inputs)
        try:
            if seen.have_moved(inputs) or seen.graph is None:
                seen.graph = self._captured(inputs, seen.moving)
            return seen.graph.run(inputs, self._stream.ptr)
        except CaptureError as error:
            self._refused, self._seen = True, {}
            text = f"CuPy.graphs(): the kernels of a plan are launched one by one, as {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return self._function(*inputs)

    def _captured(self, inputs: Inputs, moving: Sequence[int]) -> ReplayGraph:
        cuda = self._device.xp.cuda
        if self._pool is None:
            malloc = cuda.get_allocator()

            def allocate(size: int) -> Any:
                with cuda.Stream.null:  # so that memory of a graph that is gone can be used again by all streams
                    return malloc(size)

            self._pool = cuda.MemoryPool(allocate)
        return ReplayGraph(self._device, self._function, inputs, moving, self._defaults, self._pool.malloc)


class _Seen:
    """The places of the inputs of earlier runs, and their graph."""

    def __init__(self, inputs: Inputs) -> None:
        self.graph: ReplayGraph | None = None
        self.moving: list[int] = []  #: the positions of those that were other arrays from one run to the next
        arrays = {k: x for k, x in enumerate(inputs) if hasattr(x, "data")}
        self._standing = {k: (ref(x), _place(x)) for k, x in arrays.items()}

    def have_moved(self, inputs: Inputs) -> bool:
        """Return whether inputs that stayed in their places until now are elsewhere; from now on they may move."""
        moved = []
        for k, (known, place) in self._standing.items():
            x = inputs[k]
            if known() is not x:
                if _place(x) == place:
                    self._standing[k] = ref(x), place
                else:
                    moved.append(k)
        for k in moved:
            del self._standing[k]
        self.moving += moved
        return bool(moved)


def _place(x: Any) -> tuple[Any, ...]:
    return x.data.ptr, x.strides
