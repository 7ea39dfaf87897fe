"""A GPU's memory, streams and exchange on the real CuPy, with two devices of the kit.

The kit runs everything at once and has no concurrency, so CUDA's calls show the order of streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import CuPy, Mixed, NumPy, Profiled
from burnpy.data import ArrayDataset, Loader, collate
from burnpy.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    IndexRangeError,
    NotTrackedError,
    OutOfMemoryError,
)
from tests.hostcuda import simulator

simulator.require()

cupy: Any = import_module("cupy")
MIB = 1 << 20


@pytest.fixture
def limited() -> Iterator[Callable[[int], None]]:
    """A function that limits the memory of the GPU to so many bytes more than are reserved."""
    pool = cupy.get_default_memory_pool()

    def limit(more: int) -> None:
        CuPy().empty_cache()
        pool.set_limit(pool.total_bytes() + more)

    yield limit
    pool.set_limit(0)


def kept(shape: tuple[int, ...], device: Any = CuPy) -> Tensor[Any]:
    return Tensor.zeros(shape, device=device)


def test_memory_is_that_of_tensors() -> None:
    CuPy().empty_cache()  # so that memory which other tests freed does not count
    before = CuPy().memory()
    x = kept((MIB // 4,))
    after = CuPy().memory()
    assert after.used == before.used + MIB
    assert after.used <= after.reserved
    assert (after.free, after.total) == (8 << 30, 8 << 30)
    del x
    assert CuPy().memory().used == before.used
    assert CuPy().memory().reserved == after.reserved, "the pool keeps it"
    CuPy().empty_cache()
    assert CuPy().memory().reserved < before.reserved + MIB
    assert "used" in str(after)


def test_devices_that_wrap_give_that_of_the_inner_one() -> None:
    for device in (Autodiff[CuPy], Autodiff[Mixed[CuPy]], Profiled[CuPy]):
        assert device.device().memory().total == 8 << 30


@pytest.fixture
def _unmeasured() -> Iterator[None]:
    """As in a program that has measured no peak."""
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    yield
    cupy.cuda.set_allocator(before)


@pytest.mark.usefixtures("_unmeasured")
def test_the_peak_is_measured_from_the_first_reset_on() -> None:
    device = CuPy()
    with pytest.raises(DeviceError, match=r"only from device\.reset_peak_memory\(\) on"):
        _ = device.memory().peak
    x = kept((MIB // 4,))
    device.reset_peak_memory()
    least = device.memory().peak
    assert least == device.memory().used
    y = (x + x) * 2.0
    del y
    assert device.memory().peak == least + 2 * MIB
    assert device.memory().used == least
    device.reset_peak_memory()
    assert device.memory().peak == least

    def work() -> None:
        for _ in range(20):
            kept((MIB // 4,)) * 2.0

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert least + 2 * MIB <= device.memory().peak <= least + 8 * MIB


@pytest.mark.usefixtures("_unmeasured")
def test_each_device_has_its_own_peak() -> None:
    CuPy(0).reset_peak_memory()
    before = CuPy(0).memory().peak
    x = kept((MIB // 4,), CuPy(1))
    assert CuPy(0).memory().peak == before
    assert CuPy(1).memory().used >= MIB
    with pytest.raises(DeviceError):
        _ = CuPy(1).memory().peak
    CuPy(1).reset_peak_memory()
    assert CuPy(1).memory().peak == CuPy(1).memory().used
    assert x.shape


def test_a_program_with_a_pool_of_its_own() -> None:
    pool = cupy.cuda.MemoryPool()
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(pool.malloc)
    try:
        x = kept((MIB // 4,))
        assert CuPy().memory().used == MIB
        CuPy().reset_peak_memory()
        assert CuPy().memory().peak == MIB
    finally:
        cupy.cuda.set_allocator(before)
    assert x.shape


@pytest.mark.parametrize("device", [CuPy, Autodiff[CuPy], Profiled[CuPy]], ids=str)
def test_a_full_memory_says_what_was_asked_and_what_helps(device: Any, limited: Callable[[int], None]) -> None:
    x = kept((MIB, 1), device)
    CuPy().synchronize()
    limited(3 * MIB)
    mistakes: list[Callable[[], Any]] = [
        lambda: x.expand(MIB, 4).exp(),
        lambda: kept((4 * MIB,), device),
        lambda: Tensor.from_data(np.zeros((MIB, 4), np.float32), device=device),
    ]
    for mistake in mistakes:
        with pytest.raises(OutOfMemoryError) as caught:
            mistake()
        assert isinstance(caught.value, MemoryError)
        for word in ("CuPy(0) cannot allocate 16.00 MiB", "in tensors", "limit", "checkpoint", "Mixed[CuPy]"):
            assert word in str(caught.value)
    with pytest.raises(OutOfMemoryError, match=r"add\(\) got shapes .* cannot allocate 16.00 MiB"):
        x + x.mT[:, :4]
    assert x.sum().item() == 0.0, "the device goes on"


class Order:
    """The calls of CUDA: events recorded on streams, streams that wait for events, and operations on streams."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int, Any]] = []

    def waits(self) -> list[tuple[int, int]]:
        """Pairs of a stream that waits, and one that it waits for."""
        recorded = {event: stream for what, stream, event in self.log if what == "record"}
        return [(stream, recorded[event]) for what, stream, event in self.log if what == "wait"]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> Order:
    made = Order()
    streams: Any = cupy.cuda.stream._BaseStream
    record, wait = cupy.cuda.Event.record, streams.wait_event

    def recorded(event: Any, stream: Any = None) -> None:
        made.log.append(("record", stream.ptr, event))
        record(event, stream)

    def recorded_by(stream: Any) -> Any:
        event = cupy.cuda.Event()
        event.record(stream)
        return event

    def waited(stream: Any, event: Any) -> None:
        made.log.append(("wait", stream.ptr, event))
        wait(stream, event)

    monkeypatch.setattr(cupy.cuda.Event, "record", recorded)
    monkeypatch.setattr(streams, "record", recorded_by)
    monkeypatch.setattr(streams, "wait_event", waited)
    return made


def current(device: Any = None) -> int:
    """The stream that operations on the device go to."""
    on: Any = device or CuPy()
    return int(on._call(cupy.cuda.get_current_stream).ptr)


def test_a_stream_waits_for_what_was_before_and_is_waited_for(order: Order) -> None:
    outside = current()
    x = kept((3,))
    with CuPy().stream():
        inside = current()
        assert inside != outside
        assert order.waits() == [(inside, outside)]
        y = x + 1.0
    assert current() == outside
    assert order.waits() == [(inside, outside), (outside, inside)]
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_streams_nest_and_are_left_by_errors(order: Order) -> None:
    first = CuPy().stream()
    with first:
        inside = current()
        with contextlib.suppress(ValueError), CuPy().stream():
            deeper = current()
            raise ValueError("odd")
        assert current() == inside
        with first:
            assert current() == inside
        assert current() == inside
    assert order.waits() == [(inside, 0), (deeper, inside), (inside, deeper), (0, inside)]


def test_a_stream_goes_with_decorators_and_stays_with_its_device() -> None:
    with Autodiff[Profiled[CuPy]].device().stream():
        assert current(CuPy(0)) != 0
        assert current(CuPy(1)) == 0
        w = Tensor[Autodiff[CuPy]].from_data([3.0]).require_grad()
        assert (w * w).sum().backward()[w].tolist() == [6.0]
    with NumPy().stream():
        pass


def test_threads_and_coroutines_have_their_own_streams() -> None:
    with CuPy().stream():
        inside = current()
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert seen == [0]
        assert current() == inside

    async def task(own: bool) -> list[int]:
        found: list[int] = []
        if not own:
            for _ in range(3):
                found.append(current())
                await asyncio.sleep(0)
            return found
        with CuPy().stream():
            for _ in range(3):
                found.append(current())
                await asyncio.sleep(0)
        return found

    async def both() -> list[list[int]]:
        return list(await asyncio.gather(task(True), task(False), task(True)))

    one, none, other = asyncio.run(both())
    assert none == [0, 0, 0]
    assert len({*one, *other}) == 2
    assert 0 not in one + other


def test_streams_are_used_again_and_one_object_in_two_threads() -> None:
    found: list[int] = []

    def work(stream: Any) -> None:
        with stream:
            found.append(current())

    def both(stream: Any) -> None:
        thread = threading.Thread(target=work, args=(stream,))
        with stream:
            thread.start()
            thread.join()
            found.append(current())

    both(CuPy().stream())
    work(CuPy().stream())  # a new stream could have the address of an old one, and with it its memory
    assert len(set(found)) == 1


def test_a_late_check_of_another_stream_is_answered() -> None:
    x = Tensor[CuPy].arange(3.0)
    with CuPy().stream():
        x[IntTensor[CuPy].from_data([7])]
    with pytest.raises(IndexRangeError, match="index 7"):
        x.tolist()
    with CuPy().stream(), pytest.raises(IndexRangeError, match="index 8"):
        x[IntTensor[CuPy].from_data([8])].tolist()


def test_checks_are_read_on_the_default_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    x, late, read = Tensor[CuPy].arange(3.0), CuPy()._late, list[int]()
    call = late._call

    def noted(f: Callable[..., Any], *args: Any) -> Any:
        def on_it() -> Any:
            read.append(cupy.cuda.get_current_stream().ptr)
            return f(*args)

        return call(on_it)

    monkeypatch.setattr(late, "_call", noted)
    with CuPy().stream():
        x[IntTensor[CuPy].from_data([1])].tolist()
    assert set(read) == {0}


def test_late_checks_wait_for_streams_that_the_default_one_does_not_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A non-blocking stream of the program, and those that copy ahead."""
    streams, waited = cupy.cuda.stream._BaseStream, list[int]()
    synchronize = streams.synchronize

    def noted(stream: Any) -> None:
        waited.extend([stream.ptr] if stream.ptr else ())
        synchronize(stream)

    monkeypatch.setattr(streams, "synchronize", noted)
    x, index, own = Tensor[CuPy].arange(3.0), IntTensor[CuPy].from_data([7]), cupy.cuda.Stream(non_blocking=True)
    with own:
        x[index]
    with pytest.raises(IndexRangeError, match="index 7"):
        x.tolist()
    assert waited == [own.ptr]
    CuPy().ahead(lambda: x[index])()
    with pytest.raises(IndexRangeError, match="index 7"):
        x.tolist()
    assert waited == [own.ptr, CuPy()._streams._copying.stream.ptr]
    with CuPy().stream():
        x[index]
    with pytest.raises(IndexRangeError, match="index 7"):
        x.tolist()
    assert len(waited) == 2


def test_pinned_memory_may_be_overwritten_once_it_is_in_a_tensor() -> None:
    """The GPU reads it later."""
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.float32, 16).reshape(4, 4)
    for x in (pinned, pinned.T, pinned[1:, 1:], pinned[2]):
        pinned[...] = 1.0
        made = Tensor.from_data(x, device=CuPy)
        pinned[...] = 2.0
        assert np.unique(made.to_numpy()).tolist() == [1.0]
    pinned[...] = 1.0
    later = cupy.array(pinned)
    pinned[...] = 2.0
    assert simulator.is_dry() or np.unique(later.get()).tolist() == [2.0], "the kit shows what is read late"


def test_transfers_to_a_device_wait_for_nothing() -> None:
    array = np.ones((64, 64), np.float32)
    CuPy().synchronize()
    with simulator.watched() as journal:
        Tensor.from_data(array, device=CuPy)
        with CuPy().stream():
            Tensor.from_data(array, device=CuPy)
    assert journal.counts["to_device"] == 2
    assert journal.counts["waits"] == 0


def test_two_devices_in_one_process() -> None:
    """Arrays are on the device of their tensor, whichever is CUDA's current one, and each computes on its own."""
    with cupy.cuda.Device(1):
        w = Tensor[Autodiff[CuPy]].from_data([[1.0, 2.0]]).require_grad()
        grads = (w @ w.mT).softmax(dim=1).sum().backward()
        assert grads[w].device is CuPy(0)
        assert grads[w]._primitive.device.id == 0
    y = Tensor.from_data([[1.0, 2.0]], device=Autodiff(CuPy(1))).require_grad()
    grads = (y @ y.mT).square().sum().backward()
    assert grads[y]._primitive.device.id == 1
    assert cupy.cuda.runtime.getDevice() == 0
    moved = y.detach().to_device(Autodiff[CuPy])
    assert moved.inner()._primitive.device.id == 0
    assert moved.tolist() == y.tolist()
    with pytest.raises(DeviceError, match=r"CuPy\(1\)"):
        y + moved
    bad = y.inner()[IntTensor.from_data([3], device=CuPy(1))]
    CuPy(0).synchronize()
    with pytest.raises(IndexRangeError, match=r"index 3.*CuPy\(1\) computes asynchronously"):
        bad.tolist()


def test_dlpack_goes_to_the_consumer_without_the_cpu() -> None:
    x = Tensor[Autodiff[CuPy]].from_data([[1.0, 2.0]]).require_grad()
    assert x.__dlpack_device__() == (2, 0)
    assert Tensor.ones((2,), device=CuPy(1)).__dlpack_device__() == (2, 1)
    with simulator.watched() as journal:
        theirs = cupy.from_dlpack(x)
    assert journal.counts["to_host"] == journal.counts["waits"] == 0
    theirs[...] = 5.0
    assert x.tolist() == [[1.0, 2.0]], "the consumer writes to its own copy"
    shared = cupy.from_dlpack(x.detach(), copy=False)
    assert shared.data.ptr == x.inner()._primitive.data.ptr
    assert cupy.from_dlpack(Tensor[CuPy].ones((2,), dtype="bfloat16")).dtype == burnpy.bfloat16


def test_what_is_shared_is_flagged_read_only() -> None:
    from burnpy_cupy.runtime import _Versioned

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    x = Tensor[CuPy].ones((2,))
    for copy, flags in ((False, 1), (None, 0), (True, 0)):
        capsule = x.__dlpack__(stream=1, max_version=(1, 0), copy=copy)
        assert _Versioned.from_address(pointer(capsule, b"dltensor_versioned")).flags == flags
    with pytest.raises(ArgumentError, match="max_version"):
        x.__dlpack__(stream=1, copy=False)
    with pytest.raises(ArgumentError, match="stream -5; expected 1"):
        x.__dlpack__(stream=-5)
    with pytest.raises(ArgumentError, match=r"stays on \(2, 0\), not to device \(2, 1\)"):
        x.__dlpack__(dl_device=(2, 1))
    assert np.from_dlpack(x, device="cpu").tolist() == [1.0, 1.0]


def test_the_consumers_stream_waits_for_ours(order: Order) -> None:
    theirs = cupy.cuda.Stream()
    with CuPy().stream():
        x = Tensor[CuPy].ones((2,))
        inside = current()
        order.log.clear()
        x.__dlpack__(stream=theirs.ptr, max_version=(1, 0))
        assert order.waits() == [(theirs.ptr, inside)]
    x.__dlpack__(stream=-1)


def test_arrays_of_cupy_become_tensors_on_the_gpu() -> None:
    array = cupy.arange(6, dtype="float32").reshape(2, 3).T
    with simulator.watched() as journal:
        x = Tensor[Autodiff[CuPy]].from_data(array)
        y = Tensor.from_dlpack(array, device=CuPy(1))
        z = Tensor.from_data(array, dtype="float64", device=CuPy)
    assert journal.counts["to_host"] == journal.counts["waits"] == 0
    array[...] = 7.0
    assert x.tolist() == y.tolist() == z.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert y._primitive.device.id == 1
    assert z.dtype == burnpy.float64
    assert IntTensor.from_data(cupy.arange(3), device=CuPy).tolist() == [0, 1, 2]


def test_what_cannot_be_taken_from_cupy_is_told() -> None:
    with pytest.raises(DTypeError, match=r"shape \(3,\) and dtype int64; use IntTensor"):
        Tensor.from_data(cupy.arange(3), device=CuPy)
    with pytest.raises(DTypeError, match="dtype='int8'; leave the dtype out"):
        IntTensor.from_data(cupy.arange(3), dtype="int8", device=CuPy)
    with pytest.raises(ArgumentError, match="an ndarray on a GPU for NumPy; make the tensor with device=CuPy"):
        Tensor.from_data(cupy.arange(3.0), device=NumPy)
    with pytest.raises(ArgumentError, match="those on a GPU with device=CuPy"):
        Tensor.from_dlpack(cupy.arange(3.0), device=NumPy)
    with pytest.raises(ArgumentError, match="read-only NumPy array"):
        Tensor.from_data(cupy.arange(3.0), device=CuPy, copy=False)
    with pytest.raises(NotTrackedError):
        Tensor.from_data(Tensor[Autodiff[CuPy]].ones((2,)).require_grad(), device=CuPy)


def test_a_profile_has_the_time_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the real CuPy, with a clock that goes on by a millisecond with each event."""
    clock, times = itertools.count(), dict[int, int]()
    record = cupy.cuda.Event.record

    def recorded(event: Any, stream: Any = None) -> None:
        times[event.ptr] = next(clock)
        record(event, stream)

    monkeypatch.setattr(cupy.cuda.Event, "record", recorded)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, stop: float(times[stop.ptr] - times[start.ptr]))
    x = Tensor.ones((3, 3), device=Autodiff(Profiled(CuPy))).require_grad()
    with simulator.watched() as journal, Profiled.record() as p:
        (x @ x).relu().sum().backward()
    assert journal.counts["waits"] == 0
    assert all(row.seconds == pytest.approx(1e-3 * row.calls) for row in p.rows())
    assert len(p) == sum(row.calls for row in p.rows()) >= 5
    assert p.host_seconds > 0


def test_a_loader_copies_the_next_batch_beside_the_work_of_this_one(order: Order) -> None:
    data = ArrayDataset(x=np.arange(8, dtype=np.float32).reshape(4, 2))
    epoch = iter(Loader(data, collate(device=Autodiff[CuPy]), batch_size=1))
    first = next(epoch)
    (copying,) = {stream for stream, _ in order.waits()} - {0}
    before, on_default, first_taken = order.waits()
    assert before == on_default == (copying, 0), "memory of batches before may still be used there"
    assert first_taken == (0, copying), "what uses the batch waits for its copy"
    with simulator.watched() as journal:
        loss = (first.x * 2.0).sum()
        second = next(epoch)
        total = (second.x * 2.0).sum()
    assert journal.counts["waits"] == 0
    assert order.waits()[3:] == [(copying, 0), (0, copying)]
    with CuPy().stream():
        inside = current()
        third = next(epoch)
        assert order.waits()[-1] == (inside, copying)
        assert third.x.tolist() == [[4.0, 5.0]]
    assert (loss.item(), total.item()) == (2.0, 10.0)
    assert [batch.x.tolist() for batch in epoch] == [[[6.0, 7.0]]]


def test_a_copy_to_another_gpu_is_ordered_on_both(order: Order) -> None:
    """It waits for the array's work there, and the memory that it reads is not used again before it is read."""
    x = Tensor[CuPy].from_data(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    views = {"slice": x[:, 1:3], "expanded": x[:1].expand(5, 4), "transposed": x.mT, "whole": x}
    views |= {"0-d": x[0, 0], "empty": x[:0]}
    for name, view in views.items():
        order.log.clear()
        with CuPy(0).stream():
            there, here = current(CuPy(0)), current(CuPy(1))
            order.log.clear()
            moved = view.to_device(CuPy(1))
            assert order.waits() == [(here, there), (there, here)], name
        assert moved.shape == view.shape, name
        np.testing.assert_array_equal(moved.to_numpy(), view.to_numpy())


def test_copies_ahead_wait_for_streams_that_took_earlier_ones(order: Order) -> None:
    made = CuPy().ahead(lambda: kept((3,)))
    with CuPy().stream():
        user = current()
        made()
    order.log.clear()
    CuPy().ahead(lambda: kept((3,)))
    copying = order.waits()[0][0]
    assert order.waits() == [(copying, current()), (copying, user)]
    order.log.clear()
    CuPy().ahead(lambda: kept((3,)))
    assert order.waits() == [(copying, current())]


def test_copies_ahead_wait_for_streams_that_take_one_meanwhile(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another thread, while the stream that copies is told to wait for others."""
    made, streams, users = CuPy().ahead(lambda: kept((3,))), CuPy()._streams, list[int]()
    follow = streams.follow

    def taking(later: Any, earlier: Any) -> None:
        follow(later, earlier)
        if not users:
            users.append(0)
            with CuPy().stream():
                users[0] = current()
                made()

    monkeypatch.setattr(streams, "follow", taking)
    for _ in range(2):
        CuPy().ahead(lambda: kept((3,)))
    assert (streams._copying.stream.ptr, users[0]) in order.waits()
