"""`Replay`: one instance of a plan on a GPU, whose memory one stream uses after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import ref

from burnpy.backend.call_origin import recorders
from burnpy_cupy.cuda_graphs import CaptureError, Inputs, ReplayGraph, capture, uses_graphs
from burnpy_cupy.gemm import uses_tf32


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
    """The places of the inputs of earlier runs, and their graph.

    Args:
        inputs: those of the first run.
    """

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
