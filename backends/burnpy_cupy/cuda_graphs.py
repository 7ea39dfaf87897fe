"""`ReplayGraph`: a whole replay of a plan as one CUDA graph.

One launch writes the words of a run, see `Capture`. Then the graph copies inputs that are elsewhere than in the run
before, does what the replay does, and copies outputs to memory that is new in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.captured_products import WORKSPACE, captured_products
from burnpy_cupy.captures import Capture, CaptureError, Inputs, capture
from burnpy_cupy.cuda_streams import Entered
from burnpy_cupy.gemm import Library, captured_by
from burnpy_cupy.kernels.launcher import Launch, launcher

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
                outputs[position] = xp.ndarray(shape, dtype)
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
    """Return the launches that write so many words, each with the address of its first one, and which they are."""
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
    """Within the context, the device's work is captured."""
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
