"""`ReplayGraph`: a whole replay of a plan as one CUDA graph.

One launch writes the words of a run, see `Capture`. Then the graph copies the inputs that moved since the run before,
does what the replay does, and copies outputs to memory that is new in each run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.availability import shared_library
from burnpy_cupy.gemm import NO_REDUCED_PRECISION, Library, captured_by
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.runtime import Entered, empty

_uses_graphs: ContextVar[bool] = ContextVar("burnpy_cupy_graphs", default=False)

Inputs: TypeAlias = Sequence[Any]
"""The inputs of a run, and then the arrays made for its outputs."""


class CaptureError(RuntimeError):
    """A replay that cannot be a graph."""


@contextmanager
def graphs(enabled: bool = True) -> Generator[None, None, None]:
    """Return a context manager in whose block plans are launched as CUDA graphs."""
    token = _uses_graphs.set(enabled)
    try:
        yield
    finally:
        _uses_graphs.reset(token)


def uses_graphs() -> bool:
    """Return whether plans launch CUDA graphs in this context."""
    return _uses_graphs.get()


class Capture:
    """A capture of a replay, and its effects besides launches.

    Args:
        words: the words, an array of int64.
        inputs: the inputs of the captured run.
        generators: the random generators that the replay may draw from, each with the function that returns the
            generator in its place in a run.
        numbers: arrays of one number that the host knows, each with the function that returns the number in a run.
    """

    def __init__(
        self,
        words: Any,
        inputs: Inputs,
        generators: Sequence[tuple[Any, Callable[[Inputs], Any]]],
        numbers: Sequence[tuple[Any, Callable[[Inputs], float]]],
    ) -> None:
        self.words, self._inputs, self._generators, self._numbers = words, inputs, generators, [*numbers]
        self.values: list[Callable[[Inputs], int]] = []  #: of the words
        self.checks: list[tuple[list[int], Callable[[list[int]], None]]] = []
        """The late checks: the numbers of the words with their slots, and what adds them to those that are pending."""
        self._own: dict[Hashable, Any] = {}

    def close(self) -> None:
        """Drop what only the captured run needs: arrays that something else refers to are never overwritten."""
        self._inputs, self._generators, self._numbers = (), (), []

    def word(self, value: Callable[[Inputs], int]) -> Any:
        """Return a further word as a 0-d array, given the function that returns its value in a run."""
        if len(self.values) == len(self.words):
            raise CaptureError(f"the plan has more than {len(self.words)} addresses and numbers that change")
        self.values.append(value)
        return self.words[len(self.values) - 1]

    def drawn(self, generator: np.random.Generator, draw: Callable[[Any], int]) -> Any:
        """Return the word of a number that each run draws from the generator instead of this one."""
        find = next((find for known, find in self._generators if known is generator), lambda _: generator)
        return self.word(lambda inputs: draw(find(inputs)))

    def computed(self, formula: Callable[..., tuple[float, ...]], numbers: Sequence[Any]) -> tuple[Any, ...]:
        """Return the words of the results of a formula, as arrays of float64, which the host computes in each run.

        Raises:
            CaptureError: the host does not know one of the numbers.
        """
        given = [self._number(x) if hasattr(x, "dtype") else x for x in numbers]

        def results(inputs: Inputs) -> tuple[float, ...]:
            return formula(*[x(inputs) if callable(x) else x for x in given])

        return tuple([self._result(results, k) for k in range(len(results(self._inputs)))])

    def _result(self, results: Callable[[Inputs], tuple[float, ...]], k: int) -> Any:
        made = self.word(lambda inputs: _bits(results(inputs)[k])).view("float64")
        self._numbers.append((made, lambda inputs: results(inputs)[k]))
        return made

    def _number(self, x: Any) -> Callable[[Inputs], float]:
        found = next((number for known, number in self._numbers if known is x), None)
        if found is None:
            raise CaptureError("the host reads a number from the GPU, and computes with it")
        return found

    def check(self, slots: Sequence[Any], add: Callable[[list[int]], None]) -> None:
        """Have each run add a late check, given the words with its slots."""
        self.checks.append(([int(x.data.ptr - self.words.data.ptr) // x.itemsize for x in slots], add))

    def own(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what nothing but this graph uses, such as memory or the instance of an inner plan, made once."""
        if key not in self._own:
            self._own[key] = make()
        return self._own[key]


capture: ContextVar[Capture | None] = ContextVar("burnpy_cupy_capture", default=None)
"""The capture of the present replay; None if it is not captured."""


def _bits(value: float) -> int:
    """Return the bits of a float64 as a number."""
    return int(np.float64(value).view(np.uint64))


WORKSPACE = 8 << 20
"""The bytes of the GPU's memory in which the products of one graph may store parts of their results."""


class CapturedProducts(NamedTuple):
    """A stream that is captured, and cuBLAS on it."""

    stream: Any  #: a cupy.cuda.Stream
    library: Library
    use: Callable[[Any], None]  #: gives cuBLAS an array of `WORKSPACE` bytes to work in


@cache
def captured_products(xp: Any, device: int) -> CapturedProducts:
    """Return what all captures on the current device use, one after the other."""
    stream = xp.cuda.Stream(non_blocking=True)
    cublas = shared_library("cublas", xp.cuda.runtime.runtimeGetVersion() // 1000)
    handle = ctypes.c_void_p()
    _checked(cublas.cublasCreate_v2(ctypes.byref(handle)))
    _checked(cublas.cublasSetMathMode(handle, NO_REDUCED_PRECISION))
    _checked(cublas.cublasSetStream_v2(handle, ctypes.c_void_p(stream.ptr)))

    def use(workspace: Any) -> None:
        pointer, size = ctypes.c_void_p(workspace.data.ptr), ctypes.c_size_t(workspace.nbytes)
        _checked(cublas.cublasSetWorkspace_v2(handle, pointer, size))

    single, batched = (_typed(cublas[f"cublasGemm{name}Ex"], name != "") for name in ("", "StridedBatched"))
    return CapturedProducts(stream, Library(handle.value or 0, single, batched), use)


def _typed(function: Any, batched: bool) -> Callable[..., None]:
    """Return a function of cuBLAS that takes ints and addresses, and raises its errors."""
    number, address, stride = ctypes.c_int, ctypes.c_void_p, [ctypes.c_longlong] * batched
    function.argtypes = [
        *(address, number, number, number, number, number, address),
        *(address, number, number, *stride),
        *(address, number, number, *stride, address),
        *(address, number, number, *stride, *[number] * batched, number, number),
    ]
    return lambda *arguments: _checked(function(*arguments))


def _checked(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLAS returned the status {status}")


_WORDS, _COPIES = 480, 240
"""The words that one launch writes, and the arrays that one launch copies: a kernel's parameters have 4 KB."""
_MOST_WORDS = 32 * _WORDS
_THREADS, _MOST_BLOCKS = 160, 256
"""The threads of a block, and the most blocks that copy one array."""
_SOURCE = f"""
typedef unsigned long long Word;
struct burnpy_words {{ Word values[{_WORDS}]; }};
struct burnpy_copies {{ Word arrays[{_COPIES}], bytes[{_COPIES}]; }};

template <typename T> __device__ void burnpy_copy(Word to, Word from, Word bytes) {{
  const Word step = gridDim.x * blockDim.x;
  for (Word k = blockIdx.x * blockDim.x + threadIdx.x; k < bytes / sizeof(T); k += step)
    ((T*)to)[k] = ((const T*)from)[k];
}}

extern "C" __global__ __launch_bounds__({_THREADS}) void burnpy_write_words(Word* words, const burnpy_words given) {{
  const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
  words[k] = given.values[k];
}}

extern "C" __global__ __launch_bounds__({_THREADS}) void burnpy_copy_arrays(
  const Word* words, long long outward, const burnpy_copies copies) {{
  const Word own = copies.arrays[blockIdx.y], other = words[blockIdx.y], bytes = copies.bytes[blockIdx.y];
  const Word to = outward ? other : own, from = outward ? own : other;
  if ((to | from | bytes) % 8 == 0) burnpy_copy<Word>(to, from, bytes);
  else burnpy_copy<char>(to, from, bytes);
}}
"""
_COPY_TABLE = np.dtype([("arrays", np.uint64, _COPIES), ("bytes", np.uint64, _COPIES)])

_capturing = Lock()  # as all captures on a device use the same stream and the same handle of cuBLAS


class _Output(NamedTuple):
    """An output that each run makes: new memory, or a part of an input that stays in its place."""

    shape: Shape
    dtype: DType
    input: int | None = None
    distance: int = 0  #: from the input, in bytes
    strides: Shape = ()


class ReplayGraph:
    """A captured replay, in memory that only one stream uses at a time.

    Args:
        device: the device, a `CuPy`, which is the current one.
        function: the replay.
        inputs: the inputs, arrays and random generators, and perhaps the set of those that outputs may overwrite.
        moving: the positions of inputs that are other arrays in each run; those in between stay in their places.
        defaults: functions that return the default random generators.
        allocate: CuPy's allocator of memory for such graphs.

    Raises:
        CaptureError: the replay cannot be captured.
    """

    def __init__(
        self,
        device: Any,
        function: Callable[..., list[Any]],
        inputs: Inputs,
        moving: Sequence[int],
        defaults: Sequence[Callable[[], Any]],
        allocate: Callable[[int], Any],
    ) -> None:
        self._xp, self._moving = device.xp, moving
        generators = [(x, partial(_at, k)) for k, x in enumerate(inputs) if isinstance(x, np.random.Generator)]
        generators += [(find(), partial(_found, find)) for find in defaults]
        with _capturing, self._xp.cuda.using_allocator(allocate):
            stream, library, use = captured_products(self._xp, device.index)
            self._workspace = self._xp.empty(WORKSPACE, "uint8")
            use(self._workspace)
            self._own = {k: self._xp.empty(inputs[k].shape, inputs[k].dtype) for k in moving}
            own = [self._own.get(k, x[...] if hasattr(x, "data") else x) for k, x in enumerate(inputs)]
            known = device._host_values.of
            numbers = [(own[k], partial(_number, known, k)) for k, x in enumerate(inputs) if known(x) is not None]
            self._capture = Capture(self._xp.empty(_MOST_WORDS, "int64"), inputs, generators, numbers)
            try:
                stream.begin_capture()
                with _context(device, stream, library, self._capture):
                    self._run_captured(function, own)
                self._graph = stream.end_capture()
            except BaseException as error:
                with suppress(RuntimeError):  # as the capture is invalid, or has ended
                    stream.end_capture()
                if isinstance(error, (OSError, RuntimeError, MemoryError)):  # of CUDA, cuBLAS or an operation
                    raise CaptureError(str(error)) from error
                raise
        self._capture.close()
        self._launches = _word_launches(self._xp, self._capture.words, len(self._capture.values))

    def run(self, inputs: Inputs, stream: int) -> list[Any]:
        """Launch the graph on the current stream, which has this address, and return the outputs."""
        xp, state, run = self._xp, self._capture, list(inputs)
        for k in self._moving:
            if not run[k]._c_contiguous:
                run[k] = xp.ascontiguousarray(run[k])
        outputs = [None if k is None else run[k] for k in self._kept]
        for position, (shape, dtype, given, distance, strides) in self._made:
            if given is None:
                outputs[position] = empty(xp, shape, dtype)
                run.append(outputs[position])
            else:
                outputs[position] = xp.ndarray(shape, dtype, run[given].data + distance, strides)
        values = [value(run) for value in state.values]
        for launch, first, some in self._launches:
            launch(first, *values[some])
        xp.cuda.runtime.graphLaunch(self._graph.graphExec, stream)
        for words, add in state.checks:
            add([values[k] for k in words])
        return outputs

    def _run_captured(self, function: Callable[..., list[Any]], own: Inputs) -> None:
        """Run the replay with arrays that nothing knows: what was computed of the inputs before is not in the graph."""
        self._copy([*self._own.values()], [partial(_address, k) for k in self._own], False)
        results = function(*own)
        standing = [k for k, x in enumerate(own) if k not in self._own and hasattr(x, "data")]
        self._kept = [next((k for k in standing if x is own[k]), None) for x in results]
        made = [position for position, k in enumerate(self._kept) if k is None]
        self._made = [(position, self._output(results[position], own, standing)) for position in made]
        new = [results[position] for position, output in self._made if output.input is None]
        new = [x if x._c_contiguous else self._xp.ascontiguousarray(x) for x in new]
        self._copy(new, [partial(_address, len(own) + k) for k in range(len(new))], True)

    def _output(self, x: Any, inputs: Inputs, standing: Sequence[int]) -> _Output:
        k = next((k for k in standing if x.data.mem is inputs[k].data.mem), None)
        if k is None:
            return _Output(x.shape, x.dtype)
        return _Output(x.shape, x.dtype, k, x.data.ptr - inputs[k].data.ptr, x.strides)

    def _copy(self, arrays: Sequence[Any], places: Sequence[Callable[[Inputs], int]], outward: bool) -> None:
        """Copy between C-contiguous arrays and memory at the places that a run gives: from there, or to there."""
        kernel = _kernel(self._xp, "burnpy_copy_arrays")
        words = [self._capture.word(place) for place in places]
        for start in range(0, len(arrays), _COPIES):
            part, table = arrays[start : start + _COPIES], np.zeros((), _COPY_TABLE)
            table["arrays"][: len(part)] = [x.data.ptr for x in part]
            table["bytes"][: len(part)] = [x.nbytes for x in part]
            blocks = -(-max(x.nbytes for x in part) // (8 * _THREADS))
            grid = min(max(blocks, 1), _MOST_BLOCKS), len(part)
            kernel(grid, (_THREADS,), (words[start], int(outward), table[()]))


def _word_launches(xp: Any, words: Any, count: int) -> list[tuple[Launch, int, slice]]:
    """Return the launches that write this many words, each with the address of its first one, and which they are."""
    launches, kernel = list[tuple[Launch, int, slice]](), _kernel(xp, "burnpy_write_words")
    for start in range(0, count, _WORDS):
        some = min(_WORDS, count - start)
        grid, rest = (-(-some // _THREADS), 1), bytes(8 * (_WORDS - some))
        launch = launcher(xp, kernel, grid, (_THREADS, 1), f"{1 + some}Q", rest)
        launches.append((launch, words.data.ptr + 8 * start, slice(start, start + some)))
    return launches


def _at(position: int, inputs: Inputs) -> Any:
    return inputs[position]


def _found(find: Callable[[], Any], _: Inputs) -> Any:
    return find()


def _number(known: Callable[[Any], float | None], position: int, inputs: Inputs) -> float:
    value = known(inputs[position])
    if value is None:
        raise CaptureError("an argument was a float, and is a tensor now")
    return value


def _address(position: int, inputs: Inputs) -> int:
    return int(inputs[position].data.ptr)


@contextmanager
def _context(device: Any, stream: Any, library: Library, state: Capture) -> Generator[None, None, None]:
    """Return a context manager in whose block the device's work is captured."""
    values: list[tuple[ContextVar[Any], Any]]
    values = [(device._streams.entered, Entered(stream, None)), (captured_by, library), (capture, state)]
    tokens = [(variable, variable.set(value)) for variable, value in values]
    try:
        with stream:
            yield
    finally:
        for variable, token in tokens:
            variable.reset(token)


@cache
def _kernel(xp: Any, name: str) -> Any:
    return xp.RawKernel(_SOURCE, name)
