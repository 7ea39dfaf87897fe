"""`CuPy`: the backend for NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.device_memory import DeviceMemory
from burnpy.backend.dtypes import bool_, int64, kind_of
from burnpy.backend.errors import BackendUnavailableError
from burnpy.backend.operations.indexing import out_of_bounds
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.runtime import Communicator
from burnpy.typevars import T
from burnpy_array.array_base import NUMBERS
from burnpy_array.pointwise import division_by_zero, negative_power
from burnpy_array.shape import canonical
from burnpy_cupy import availability, cuda_graphs, nccl, runtime
from burnpy_cupy.deferred_checks import CHECKS, LateErrors
from burnpy_cupy.kernels.attention import CuPyAttention
from burnpy_cupy.kernels.attention_kernels import ATTENTION
from burnpy_cupy.kernels.convolution import CONVOLUTION, DIRECT, CuPyConvolution
from burnpy_cupy.kernels.convolution_launches import OPERANDS
from burnpy_cupy.kernels.convolution_tiles import TILES
from burnpy_cupy.kernels.foreach import CuPyForeach
from burnpy_cupy.kernels.kernel import Kernels
from burnpy_cupy.kernels.losses import CROSS_ENTROPY, CuPyLosses
from burnpy_cupy.kernels.matmul import BIASES, QUANTIZATION, CuPyQuantization
from burnpy_cupy.kernels.normalization import BATCH_NORM, NORMALIZATION, CuPyNormalization
from burnpy_cupy.kernels.pointwise import POINTWISE, CuPyActivation, CuPyArithmetic, CuPyPointwise
from burnpy_cupy.kernels.pooling import POOLING, CuPyPooling
from burnpy_cupy.kernels.programs import kernels_enabled
from burnpy_cupy.kernels.random import RANDOM, CuPyRandom
from burnpy_cupy.kernels.recurrent import CuPyRecurrent
from burnpy_cupy.kernels.recurrent_kernels import PERSISTENT, RECURRENCE
from burnpy_cupy.kernels.reduction import CuPyReduction
from burnpy_cupy.kernels.scans_and_ordering import ORDERING, CuPyOrdering, CuPyScans
from burnpy_cupy.kernels.shape_and_indexing import INDEXING, SHAPE, CuPyIndexing, CuPyShape
from burnpy_cupy.number_formulas import HOST_NUMBERS, HostValues
from burnpy_cupy.plans import CuPyExecutor
from burnpy_cupy.replays import Replay
from burnpy_cupy.runtime import Compilations, Stream, Streams, empty, note_times

ELEMENTWISE = (
    BIASES | CHECKS | CONVOLUTION | INDEXING | NORMALIZATION | HOST_NUMBERS | POINTWISE | POOLING | RECURRENCE | SHAPE
)
RAW = ATTENTION | BATCH_NORM | TILES | OPERANDS | DIRECT | CROSS_ENTROPY | ORDERING | PERSISTENT | QUANTIZATION | RANDOM


class CuPy(
    CuPyActivation,
    CuPyAttention,
    CuPyConvolution,
    CuPyIndexing,
    CuPyLosses,
    CuPyNormalization,
    CuPyOrdering,
    CuPyPointwise,
    CuPyArithmetic,
    CuPyPooling,
    CuPyQuantization,
    CuPyRandom,
    CuPyRecurrent,
    CuPyReduction,
    CuPyScans,
    CuPyShape,
    CuPyForeach,
):
    """A backend that computes with CuPy arrays on one NVIDIA GPU.

    Errors that depend on values, such as an index out of range, are raised at the next synchronization with the GPU:
    by ``item()``, ``tolist()``, ``to_numpy()``, ``repr(x)`` or ``device.synchronize()``. ``Checked[CuPy]``
    synchronizes after every operation.

    Args:
        index: the index of the GPU among those visible to CUDA, from 0.

    Raises:
        BackendUnavailableError: CuPy, the CUDA driver, a CUDA library or the GPU is missing.
        ArgumentError: there are GPUs, but none with that index.
    """

    eager_checks = False

    _scores_bytes = 1 << 28

    def __init__(self, index: int = 0) -> None:
        availability.check_index(index)
        super().__init__()
        self.index = index
        self.xp = availability.load()
        note_times(self.xp)
        self._current = self.xp.cuda.runtime.getDevice
        self._kernels = Kernels(self.xp, ELEMENTWISE, RAW)
        self._programs = {}
        self._finished = {}
        self._host_values = HostValues()
        self._seeds: dict[tuple[Shape, DType], Any] = {}
        self._compilations = Compilations(self._call)
        self._streams = Streams(self.name, self.xp, index)
        self._entered = self._streams.entered.get
        self._late = LateErrors(self.name, self._call_on_default_stream, self._streams.unordered, self.xp)

    @classmethod
    def is_available(cls) -> bool:
        """Return whether CuPy, CUDA's libraries and a GPU are available."""
        try:
            return availability.count() > 0
        except BackendUnavailableError:
            return False

    @property
    def name(self) -> str:
        return f"CuPy({self.index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.index,)

    def _call(self, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        entered = self._entered()
        try:
            if self._current() == self.index:
                if entered is None:
                    return f(*args, **keywords)
                with entered.stream:
                    return f(*args, **keywords)
            with self.xp.cuda.Device(self.index), nullcontext() if entered is None else entered.stream:
                return f(*args, **keywords)
        except MemoryError as error:
            if type(error).__module__.partition(".")[0] != "cupy":  # of a signal handler, perhaps
                raise
            raise runtime.explained(error, self) from error

    def _call_on_default_stream(self, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call f so that it waits for the work of all streams, and all streams wait for it."""
        with self.xp.cuda.Device(self.index), self.xp.cuda.Stream.null:
            return f(*args, **keywords)

    def memory(self) -> DeviceMemory:
        with self.xp.cuda.Device(self.index):
            return runtime.measured(self.xp)

    def reset_peak_memory(self) -> None:
        with self.xp.cuda.Device(self.index):
            runtime.measure(self.xp)

    def empty_cache(self) -> None:
        with self.xp.cuda.Device(self.index):
            runtime.empty_cache(self.xp)

    def stream(self) -> Stream:
        return Stream(self, self._streams)

    @property
    def copies_ahead(self) -> bool:
        return True

    def ahead(self, make: Callable[[], T]) -> Callable[[], T]:
        take = self._call(self._streams.ahead, make)
        return lambda: self._call(take)

    def communicator(self, rank: int, size: int, share: Callable[[Any], list[Any]]) -> Communicator | None:
        return self._call(nccl.joined, self, rank, size, share)  # type: ignore[no-any-return]  # as joined() returns

    def exported(self, x: Any) -> runtime.Exported:
        return runtime.Exported(self._call, x)

    def imported(self, data: Any) -> Any:
        return self._call(runtime.copied, self.xp, data) if runtime.is_on_gpu(data) else None

    @staticmethod
    def graphs(enabled: bool = True) -> AbstractContextManager[None]:
        """Launch compiled functions as CUDA graphs within a context, in the present thread or coroutine.

        A call is one graph, from the second one on with the same donated arguments: the same kernels in the same order,
        but cuBLAS may choose another algorithm, as it has 8 MiB of the GPU's memory for the products of a graph. A
        function that waits for the GPU is launched as it is without graphs, after a warning.

        Args:
            enabled: False launches one by one within an outer ``graphs``.

        ::

            with CuPy.graphs():
                model, state, loss = step(model, state, batch)
        """
        return cuda_graphs.graphs(enabled)

    def executor(self) -> CuPyExecutor | None:
        return CuPyExecutor(self) if kernels_enabled() else None

    def replayed(self, make: Callable[[], Callable[..., list[Any]]], defaults: Sequence[Callable[[], Any]]) -> Replay:
        return Replay(self, make, defaults)

    def host_number(self, value: float) -> Any:
        return self._host_values.note(self._call(self._kernels["burnpy_number"], value), value)

    def seed(self, shape: Shape, dtype: DType) -> Any:
        """Return 1 in memory that is filled once, before the later work of all streams."""
        found = self._seeds.get((shape, dtype))
        if found is None:
            found = self._call_on_default_stream(self.xp.full, shape, 1.0, dtype)
            self._seeds[shape, dtype] = found
        return found

    def on_host(self, formula: Callable[..., tuple[float, ...]], numbers: tuple[Any, ...]) -> tuple[Any, ...]:
        captured = cuda_graphs.capture.get()
        if captured is not None:
            return captured.computed(formula, numbers)
        values = [self._host_values.of(x) if hasattr(x, "dtype") else x for x in numbers]
        if None in values:  # which waits for the GPU
            return super().on_host(formula, numbers)
        results = formula(*values)
        if len(results) == 1 and results[0] is values[0]:  # which was only checked
            return (numbers[0],)
        return tuple([self.host_number(value) for value in results])

    def synchronize(self) -> None:
        self.xp.cuda.Device(self.index).synchronize()
        if self._late:
            self._late.answer()

    def defer_check(self, values: tuple[Any, ...], error: Callable[..., Exception | None]) -> None:
        slots = [self._late.slot() for _ in values]
        for value, slot in zip(values, slots, strict=True):
            self._call(self._kernels["burnpy_note"], value, slot, self._late.memory)
        self._late.add(slots, lambda contents: error(*[note for note, _, _ in contents]))

    def bounded(self, index: Any, low: int, high: int, error: Callable[[int], Exception], ignored: int | None) -> Any:
        ignored = low if ignored is None else ignored  # the kernel makes low of it
        return self._bounded("burnpy_bounded", (int64,), index, low, high, error, ignored)[0]

    def bounded_and_counted(
        self, index: Any, low: int, high: int, error: Callable[[int], Exception], ignored: int
    ) -> tuple[Any, Any]:
        dtypes = (int64, bool_)
        inside, counted, _ = self._bounded("burnpy_bounded_and_counted", dtypes, index, low, high, error, ignored)
        return inside, counted

    def _bounded(
        self,
        name: str,
        dtypes: tuple[DType, ...],
        index: Any,
        low: int,
        high: int,
        error: Callable[[int], Exception],
        ignored: int,
    ) -> tuple[Any, ...]:
        """Launch a kernel that notes the least and the greatest index out of bounds; return its results."""
        slot, outs = self._late.slot(), [self._call(empty, self.xp, index.shape, dtype) for dtype in dtypes]
        results = self._call(self._kernels[name], index, low, high, ignored, slot, *outs, self._late.memory)
        self._late.add([slot], lambda contents: out_of_bounds(contents[0][1], contents[0][2], low, high, error))
        return results  # type: ignore[no-any-return]  # as CuPy's kernels return them

    def timestamp(self) -> Any:
        return self._call(_event, self.xp)

    def duration(self, start: Any, stop: Any) -> float:
        stop.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, stop)) * 1e6

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return self._call(runtime.uploaded, self.xp, canonical(array, None, "C"))

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        copied: np.ndarray[Any, Any] = self._call(x.get)
        if self._late:
            self._late.answer()
        return copied

    def transfer_from(self, x: Any, source: Backend) -> Any:
        if source is self or not isinstance(source, CuPy):
            return super().transfer_from(x, source)
        whole, ready = source._call(source._sent, x)
        received, done = self._call(self._received, whole, ready)
        source._call(source._wait, done)  # so that the memory of ``whole`` is not used again before it is read
        return received

    def _sent(self, x: Any) -> tuple[Any, Any]:
        """Return x in row-major order, as CuPy copies nothing else to another GPU, and an event after it."""
        whole = x if x.flags.c_contiguous else self.xp.ascontiguousarray(x)  # which makes 0-d arrays 1-d
        return whole, self._streams.event(self._streams.current())

    def _received(self, x: Any, ready: Any) -> tuple[Any, Any]:
        """Return a copy of another GPU's array, made after an event there, and an event after the copy."""
        self._wait(ready)
        return self.xp.asarray(x), self._streams.event(self._streams.current())

    def _wait(self, event: Any) -> None:
        """Have the current stream wait for an event."""
        self._streams.current().wait_event(event)

    def _check_exponent(self, x: Any, y: Any) -> None:
        if kind_of(x.dtype) == "int":
            error = negative_power(x)
            self.defer_check(
                (self.any(self.lt(y, 0), tuple(range(y.ndim)), False),), lambda wrong: error if wrong else None
            )

    def _check_divisor(self, x: Any, y: Any, operation: str) -> None:
        if type(y) in NUMBERS:
            super()._check_divisor(x, y, operation)
        elif kind_of(x.dtype) == "int":
            error = division_by_zero(operation, x)
            self.defer_check(
                (self.all(self.ne(y, 0), tuple(range(y.ndim)), False),), lambda fine: None if fine else error
            )

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:
        """Wait for cuSOLVER's report of singular matrices, which CuPy leaves unread by default."""
        compute = super()._lapack
        with import_module("cupyx").errstate(linalg="raise"):
            return availability.with_library(
                self.xp, "library cuSOLVER", "decomposes matrices", lambda: compute(function, *args)
            )

    def _transformed(self, function: Callable[..., Any], *args: Any) -> Any:
        compute = super()._transformed
        return availability.with_library(
            self.xp, "library cuFFT", "transforms signals", lambda: compute(function, *args)
        )


def _event(xp: Any) -> Any:
    """Record and return a CUDA event, whose time stamp the GPU sets when it reaches it."""
    event = xp.cuda.Event()
    event.record()
    return event
