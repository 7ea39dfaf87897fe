"""Kernels compute the same bits in every order of blocks and threads, and the kit refuses what CUDA refuses.

The short form runs a sample of operations in each order, the long form all. The other tests plant a fault each, and see
it found.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import calls
from tests.hostcuda import simulator
from tests.hostcuda.dry import NOT_EXECUTED
from tests.interrupting import LONG

simulator.require()

from burnpy_cupy.kernels.launch import driver, launcher, launching_thread  # noqa: E402

cupy: Any = import_module("cupy")
runtime: Any = import_module("cupy_backends.cuda.api.runtime")

SAMPLE = (
    *("sum", "amax", "argmax", "logsumexp", "softmax", "cross_entropy", "normalize", "normalize_backward"),
    *("conv2d", "conv2d_input", "conv2d_weight", "attention", "attention_backward", "index_add", "scatter_add"),
    *("embedding_backward", "sort", "foreach_norm", "lstm", "quantize", "max_pool2d_backward"),
)
LARGEST = 30_000
"""The numbers that an example of a convolution or attention has at most in the short form."""
ATOMIC = {"index_add", "scatter_add"}
"""Operations that add to one place from several threads, in any order: their float sums agree up to rounding."""
ORDERS = ("reversed", "shuffled")
UNSUPPORTED, INVALIDATED, CAPTURED_EVENT = 900, 901, 907


@pytest.mark.parametrize(
    "name",
    [
        name if name in SAMPLE else pytest.param(name, marks=pytest.mark.long)
        for name in ROWS
        if name not in NOT_EXECUTED
    ],
)
def test_results_have_the_same_bits_in_every_order(name: str) -> None:
    device = CuPy()
    for arguments in calls(name, ("float32", "bfloat16", "int64", "bool"), ("contiguous",)):
        numbers = sum(a.size for a in arguments.given if isinstance(a, np.ndarray))
        if numbers > LARGEST and name.startswith(("conv2d", "attention")) and not LONG:
            continue
        found = []
        for order in ("forward", *ORDERS):
            with simulator.order(order):
                out = getattr(device, name)(*arguments.primitives(device, False))
                found.append([device.to_numpy(x) for _, x in arguments.row.flat_results(out)])
        for order, others in zip(ORDERS, found[1:], strict=True):
            for x, y in zip(found[0], others, strict=True):
                if name in ATOMIC and arguments.dtype.kind not in "iub":
                    wide, close = np.float64, 1e-5 if arguments.dtype.itemsize > 2 else 0.05
                    np.testing.assert_allclose(y.astype(wide), x.astype(wide), rtol=close, atol=close)
                else:
                    assert x.tobytes() == y.tobytes(), f"{arguments.where}: {order} threads compute other bits"


RACE = """
extern "C" __global__ void planted_race(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = -1;  // not what an earlier launch left
  __syncthreads();
  tile[threadIdx.x] = x[threadIdx.x];
  BARRIER
  out[threadIdx.x] = tile[(threadIdx.x + 1) % 64] + tile[(threadIdx.x + 63) % 64];
}
"""
RACE_OF_BLOCKS = """
extern "C" __global__ void planted_race_of_blocks(const float* x, float* out) {
  if (threadIdx.x == 0) out[0] = x[blockIdx.x];
  __syncthreads();
}
"""


def outcomes(text: str, name: str, blocks: int = 1) -> set[bytes]:
    """The bits that a kernel computes in the three orders."""
    kernel, x, found = cupy.RawKernel(text, name), cupy.arange(64, dtype="f"), set()
    for order in ("forward", *ORDERS):
        out = cupy.zeros(64, "f")
        with simulator.order(order):
            kernel((blocks,), (64,), (x, out))
        found.add(out.get().tobytes())
    return found


def test_a_planted_race_shows() -> None:
    assert len(outcomes(RACE.replace("BARRIER", ""), "planted_race")) > 1
    assert len(outcomes(RACE.replace("BARRIER", "__syncthreads();"), "planted_race")) == 1
    assert len(outcomes(RACE_OF_BLOCKS, "planted_race_of_blocks", 8)) > 1
    with simulator.order("forward"):
        scattered = cupy.ElementwiseKernel("T x", "raw T out", "out[i / 2] = x", "planted_scatter")
        first = scattered(cupy.arange(64.0), cupy.zeros(32)).get()
    with simulator.order("reversed"):
        assert scattered(cupy.arange(64.0), cupy.zeros(32)).get().tolist() != first.tolist()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if (threadIdx.x < 16) __syncwarp();", "a part of a warp"),
        ("if (threadIdx.x % 2) out[0] = __shfl_xor_sync(~0u, out[0], 1);", "a part of a warp"),
        ("if (threadIdx.x < 32) __syncthreads();", "a part of a block"),
        ("if (threadIdx.x < 32) __syncthreads(); else __syncthreads();", "different barriers"),
        ("if (threadIdx.x < 16) __syncwarp(); else __syncthreads(); ", "a part of a"),
        ("__syncthreads(); __syncwarp();", ""),
    ],
)
def test_planted_divergence_is_reported(body: str, message: str) -> None:
    text = f'extern "C" __global__ void planted_divergence(float* out) {{ {body} }}'
    cupy.RawKernel(text, "planted_divergence")((2,), (64,), (cupy.zeros(64, "f"),))
    if simulator.is_dry():
        return
    found = simulator.divergences()
    assert bool(found) == bool(message)
    assert all(each.startswith("planted_divergence: ") and message in each for each in found)


WAITING = """
extern "C" __global__ void planted_waiting(unsigned* arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (*static_cast<volatile unsigned*>(arrived) < gridDim.x) __nanosleep(32);
  }
  __syncthreads();
}
"""


def test_blocks_that_wait_for_each_other_are_launched_to_run_at_the_same_time() -> None:
    kernel = cupy.RawKernel(WAITING, "planted_waiting")
    for cooperative in (False, True):
        launcher(cupy, kernel, (4, 1), (64, 1), "Q", cooperative=cooperative)(cupy.zeros(1, "u4").data.ptr)
        found = [] if simulator.is_dry() else simulator.divergences()
        assert simulator.is_dry() or found == ["planted_waiting: threads wait in vain for others"] * (not cooperative)
    with pytest.raises(driver().CUDADriverError, match="CUDA_ERROR"):
        launcher(cupy, kernel, (133, 1), (64, 1), "Q", cooperative=True)(cupy.zeros(1, "u4").data.ptr)


@pytest.mark.parametrize(
    ("grid", "block"), [((1, 65_536), (32, 1)), ((1, 1), (32, 33)), ((0, 1), (32, 1)), ((1, 1), (0, 1))]
)
def test_launches_beyond_cudas_limits_are_refused(grid: tuple[int, int], block: tuple[int, int]) -> None:
    text = 'extern "C" __global__ void planted_launch(float* x) { x[threadIdx.x] = 1; }'
    with simulator.dry_run(), pytest.raises(driver().CUDADriverError, match="CUDA_ERROR"):
        launcher(cupy, cupy.RawKernel(text, "planted_launch"), grid, block, "Q")(0)


def test_the_use_of_a_destroyed_handle_ends_the_process() -> None:
    program = """
import tests.hostcuda.simulator as s; s.load()
from cupy_backends.cuda.libs import cublas
handle = cublas.create()
cublas.setStream(handle, 0)
cublas.destroy(handle)
cublas.setStream(handle, 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode < 0
    assert "a destroyed handle of cuBLAS is used" in done.stderr


def test_a_misaligned_address_ends_the_process() -> None:
    text = """
struct __align__(16) Four { float x[4]; };
extern "C" __global__ void planted_vector(float* x) { x[0] = reinterpret_cast<const Four*>(x)->x[3]; }
"""
    kernel, x = cupy.RawKernel(text, "planted_vector"), cupy.arange(8, dtype="f")
    kernel((1,), (1,), (x,))
    if simulator.is_dry():
        return
    assert x.tolist()[0] == 3.0
    child = os.fork()
    if not child:
        os.close(2)  # where the assertion tells of it
        faulthandler.disable()
        kernel((1,), (1,), (x[1:],))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGABRT


def in_thread(work: Any) -> Any:
    """Return the result of a function in a thread of its own, or the exception that it raises."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # it is looked at
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_launches_nothing_without_a_context() -> None:
    kernel, x = cupy.RawKernel(RACE.replace("BARRIER", "__syncthreads();"), "planted_race"), cupy.zeros(64, "f")
    kernel((1,), (64,), (x, cupy.zeros(64, "f")))
    out = cupy.zeros(64, "f")
    words = np.array([x.data.ptr, out.data.ptr], np.uint64)
    pointers = np.array([words.ctypes.data, words.ctypes.data + 8], np.uint64)

    def bare() -> None:
        driver().launchKernel(kernel.kernel.ptr, 1, 1, 1, 64, 1, 1, 0, 0, pointers.ctypes.data, 0)

    error = in_thread(bare)
    assert getattr(error, "status", None) == 201, error  # CUDA_ERROR_INVALID_CONTEXT

    def entered() -> None:
        launching_thread(cupy, 0)
        bare()

    assert in_thread(entered) is None
    launch = launcher(cupy, kernel, (1, 1), (64, 1), "2Q")
    assert in_thread(lambda: launch(x.data.ptr, out.data.ptr)) is None


def status(work: Any) -> int:
    """The status of a call."""
    try:
        return work() or 0
    except runtime.CUDARuntimeError as error:
        return int(error.status)


def test_a_capture_ends_with_what_cuda_refuses() -> None:
    stream, event, ordinary = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(), np.ones(4, "f")
    memory = cupy.zeros(4, "f")

    def copy() -> None:
        runtime.memcpyAsync(memory.data.ptr, ordinary.ctypes.data, 16, runtime.memcpyHostToDevice, stream.ptr)

    for work, expected in (
        (copy, UNSUPPORTED),
        (stream.synchronize, UNSUPPORTED),
        (lambda: runtime.eventQuery(event.ptr), CAPTURED_EVENT),
        (event.synchronize, CAPTURED_EVENT),
    ):
        stream.begin_capture()
        event.record(stream)
        assert status(work) == expected
        assert status(stream.end_capture) == INVALIDATED
    event.record(stream)
    assert event.done


def test_a_graph_copies_what_pinned_memory_holds_when_it_runs() -> None:
    stream, memory = cupy.cuda.Stream(non_blocking=True), cupy.zeros(4, "f")
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(16), "f", 4)
    pinned[...] = 1.0
    stream.begin_capture()
    runtime.memcpyAsync(memory.data.ptr, pinned.ctypes.data, 16, runtime.memcpyHostToDevice, stream.ptr)
    graph = stream.end_capture()
    pinned[...] = 2.0
    graph.launch(stream)
    stream.synchronize()
    assert memory.get().tolist() == [2.0] * 4
