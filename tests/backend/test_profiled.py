"""`Profiled[B]`: what is noted of each call, and what it is summed up to."""

from __future__ import annotations

import contextvars
import gc
import importlib
import itertools
import json
import re
import sys
import threading
import time
import types
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, cat
from burnpy.autodiff import Forward, track_lines
from burnpy.autodiff.recording import propagate_intercepted
from burnpy.autodiff.tools.checkpoint import checkpoint
from burnpy.backend import Backend, CuPy, NumPy, Operation, Profiled, operations
from burnpy.backend.call_origin import FORWARD, op_context, recorders
from burnpy.backend.decorators.profile import Profile, cost
from tests.backend.recording_xp import Journal, fresh_devices, mismatch, stand_ins, without_own_kernels
from tests.rows import every_row

Plain = Profiled[NumPy]
Train = Autodiff[Plain]


def ones(*shape: int, device: Any = Train) -> Tensor[Any]:
    return Tensor.ones(shape, device=device)


def calls(p: Profile) -> dict[tuple[str, str, str], int]:
    return {(row.operation, row.direction, row.rule): row.calls for row in p.rows()}


def test_calls_by_operation_direction_and_rule() -> None:
    x, w = ones(4, 3).require_grad(), ones(3, 2).require_grad()
    with Profiled.record() as p:
        loss = (x @ w).tanh().sum()
        assert {direction for _, direction, _ in calls(p)} == {"forward"}
        loss.backward()
    found = calls(p)
    assert found["matmul", "forward", ""] == 1
    assert found["matmul_nt", "backward", "matmul"] == found["matmul_tn", "backward", "matmul"] == 1
    assert found["mul", "backward", "tanh"] == 2
    assert found["expand", "backward", "sum"] == 1
    assert ("full", "forward", "") in found, "what a backward pass starts from is made before it"
    assert sum(found.values()) == len(p)


def test_sums_of_gradients_belong_to_the_rule_of_the_last_addend() -> None:
    x = ones(3).require_grad()
    y = x * 1.0
    loss = (y.sin() + y.cos()).sum()
    with Profiled.record() as p:
        loss.backward()
    assert calls(p)["add", "backward", "sin"] == 1
    y = x * 1.0
    with Profiled.record() as p:
        (y[0:1] + y[1:2]).sum().backward()
    assert calls(p)["accumulate_slice", "backward", "slice"] == 2


def test_many_arguments_are_known_by_their_operation() -> None:
    x = ones(3).require_grad()
    loss = cat([x, x, x, x]).sum()
    with Profiled.record() as p:
        loss.backward()
    assert {rule for _, _, rule in calls(p)} <= {"", "cat", "sum"}


def test_nested_levels_and_forward_mode() -> None:
    x = ones(3, device=Autodiff[Train]).require_grad()
    loss = x.exp().sum()
    with Profiled.record() as p:
        (first,) = loss.backward(retain_graph=True).values()
    assert calls(p)["mul", "backward", "exp"] == 1
    with Profiled.record() as p:
        first.sum().backward()
    assert {direction for _, direction, _ in calls(p)} == {"forward", "backward"}
    device = Forward(Plain)
    inner = device.inner
    with Profiled.record() as p:
        device.exp(device.dual(*[inner.full((2,), 1.0, np.dtype("float32"))] * 2))
    assert calls(p)["exp", "forward", ""] == 1


def test_what_a_checkpoint_runs_again_is_of_the_backward_pass() -> None:
    x = ones(3).require_grad()
    with Profiled.record() as p:
        loss = checkpoint(lambda x: x.exp().sin(), x).sum()
    before = calls(p)
    with Profiled.record() as q:
        loss.backward()
    assert calls(p) == before, "a profile went on after its block"
    assert ("exp", "backward", "sin") in calls(q)
    assert ("exp", "forward", "") not in calls(q)


def test_a_derived_operation_is_one_call() -> None:
    x = ones(4, 3, device=Plain)
    with Profiled.record() as p:
        x.softmax(1)
        x.gelu()
        x.var(1)
    assert calls(p) == {(name, "forward", ""): 1 for name in ("softmax", "gelu", "var")}


def test_ints_and_bools_are_noted() -> None:
    i = IntTensor[Train].from_data([1, 2, 3])
    with Profiled.record() as p:
        _ = i * 2
        _ = i > 1
    assert set(calls(p)) == {("mul", "forward", ""), ("gt", "forward", "")}


F32, I64, BOOL = np.dtype("float32"), np.dtype("int64"), np.dtype("bool")
# operation, arguments, results, bytes, FLOPs
COSTS: list[tuple[str, list[Any], list[Any], int, int]] = [
    ("matmul", [((5, 7), F32), ((7, 3), F32)], [((5, 3), F32)], 4 * (35 + 21 + 15), 2 * 5 * 7 * 3),
    ("matmul", [((2, 5, 7), F32), ((7, 3), F32)], [((2, 5, 3), F32)], 4 * (70 + 21 + 30), 2 * 2 * 5 * 7 * 3),
    ("matmul_nt", [((5, 7), F32), ((3, 7), F32)], [((5, 3), F32)], 4 * (35 + 21 + 15), 2 * 5 * 7 * 3),
    ("matmul_tn", [((7, 5), F32), ((7, 3), F32)], [((5, 3), F32)], 4 * (35 + 21 + 15), 2 * 5 * 7 * 3),
    ("matmul", [((7,), F32), ((7,), F32)], [((), F32)], 4 * 15, 14),
    ("conv2d", [((2, 3, 8, 8), F32), ((4, 3, 3, 3), F32)], [((2, 4, 6, 6), F32)], 4 * (384 + 108 + 288), 2 * 72 * 108),
    (
        "conv2d_bias",
        [((2, 3, 8, 8), F32), ((4, 3, 3, 3), F32), ((4,), F32)],
        [((2, 4, 6, 6), F32)],
        4 * 784,
        2 * 72 * 108 + 288,
    ),
    ("conv2d_input", [((2, 4, 6, 6), F32), ((4, 3, 3, 3), F32)], [((2, 3, 8, 8), F32)], 4 * 780, 2 * 72 * 108),
    ("conv2d_weight", [((2, 4, 6, 6), F32), ((2, 3, 8, 8), F32)], [((4, 3, 3, 3), F32)], 4 * 780, 2 * 72 * 108),
    ("add", [((5, 7), F32), ((7,), F32)], [((5, 7), F32)], 4 * (35 + 7 + 35), 35),
    ("mul", [((5, 7), F32)], [((5, 7), F32)], 8 * 35, 35),
    ("exp", [((8,), np.dtype("float64"))], [((8,), np.dtype("float64"))], 128, 3 * 8),
    ("gelu", [((8,), F32)], [((8,), F32)], 64, 12 * 8),
    ("gt", [((8,), F32), ((8,), F32)], [((8,), BOOL)], 32 + 32 + 8, 8),
    ("where", [((8,), BOOL), ((8,), F32)], [((8,), F32)], 8 + 32 + 32, 8),
    ("sum", [((5, 7), F32)], [((5,), F32)], 4 * 40, 35),
    ("mean", [((5, 7), F32)], [((), F32)], 4 * 36, 35),
    ("argmax", [((5, 7), F32)], [((5,), I64)], 4 * 35 + 40, 35),
    ("softmax", [((5, 7), F32)], [((5, 7), F32)], 8 * 35, 7 * 35),
    ("reshape", [((5, 7), F32)], [((35,), F32)], 0, 0),
    ("cat", [((5,), F32), ((7,), F32)], [((12,), F32)], 96, 0),
    ("index_select", [((1000, 8), F32), ((2,), I64)], [((2, 8), F32)], 2 * 64 + 16, 0),
    ("index_add", [((10, 8), F32), ((2,), I64), ((2, 8), F32)], [((10, 8), F32)], 320 + 16 + 64 + 320, 16),
    ("index_reduce", [((10, 8), F32), ((2,), I64), ((2, 8), F32)], [((10, 8), F32)], 320 + 16 + 64 + 320, 16),
    ("accumulate_slice", [((1000,), F32), ((2,), F32)], [((1000,), F32)], 3 * 8, 2),
    ("accumulate_index", [((1000, 8), F32), ((2,), I64), ((2, 8), F32)], [((1000, 8), F32)], 3 * 64 + 16, 16),
    ("sum_to", [((5, 7), F32)], [((7,), F32)], 4 * 42, 35),
    ("sum_to", [((5, 7), F32)], [((5, 7), F32)], 8 * 35, 0),
    ("full", [], [((5,), F32)], 20, 0),
    ("cast", [((5,), F32)], [((5,), np.dtype("float64"))], 20 + 40, 0),
]


@every_row(("name", "given", "results", "size", "flops"), COSTS, ids=[row[0] for row in COSTS])
def test_costs(name: str, given: Any, results: Any, size: int, flops: int) -> None:
    op = operations()[name]
    assert cost(op, by_argument(op, given), tuple((meta,) for meta in results)) == (size, flops)


def by_argument(op: Operation, given: list[Any]) -> Any:
    """Return the metas of each argument, from those of all primitives."""
    metas: dict[str, Any] = {a.name: () for a in op.arguments}
    primitives = [a for a in op.arguments if a.kind is not None]
    if primitives and primitives[0].sequence:
        metas[primitives[0].name] = tuple(given)
    else:
        metas |= {a.name: (meta,) for a, meta in zip(primitives, given, strict=False)}
    return tuple(metas.values())


def test_every_operation_has_a_cost() -> None:
    """Of elements there is at least one argument or result: no operation of the schema is a case that raises."""
    x = ((4, 4, 4, 4), F32)
    for op in operations().values():
        given = tuple((x,) if a.kind is not None else () for a in op.arguments)
        found = cost(op, given, tuple((x,) if kind is not None else () for kind in op.results))
        assert found.bytes >= 0 <= found.flops, op.name


def test_bytes_and_flops_are_summed() -> None:
    x = ones(10, 20, device=Plain)
    with Profiled.record() as p:
        for _ in range(3):
            x @ x.mT
        x[:5] @ x.mT
    (row,) = [row for row in p.rows() if row.operation == "matmul"]
    assert row.flops == 3 * 2 * 10 * 20 * 10 + 2 * 5 * 20 * 10
    assert row.bytes == 3 * 4 * (200 + 200 + 100) + 4 * (100 + 200 + 50)


def test_times_are_those_of_the_calls() -> None:
    class Slow(NumPy):
        def exp(self, x: Any) -> Any:
            time.sleep(0.02)
            return super().exp(x)

    x = ones(3, device=Profiled(Slow))
    began = time.perf_counter()
    with Profiled.record() as p:
        x.exp().exp()
        x + x
    passed = time.perf_counter() - began
    rows = {row.operation: row for row in p.rows()}  # in the order of their times, which a busy machine may change
    exp, add = rows["exp"], rows["add"]
    assert (len(rows), exp.calls, add.calls) == (2, 2, 1)
    assert 0.04 <= exp.seconds <= passed
    assert 0 < add.seconds <= passed - exp.seconds
    assert p.seconds == pytest.approx(exp.seconds + add.seconds)


def test_nothing_is_noted_outside() -> None:
    x = ones(3).require_grad()
    with Profiled.record() as p:
        x.exp()
    count = len(p)
    x.exp().sum().backward()
    assert len(p) == count
    assert recorders.get() == ()
    with pytest.raises(ZeroDivisionError), Profiled.record() as p:
        raise ZeroDivisionError
    assert recorders.get() == ()


def test_a_call_that_fails_is_not_noted() -> None:
    x = ones(3, device=Plain)
    with Profiled.record() as p, pytest.raises(ValueError, match="broadcast"):
        x + ones(2, device=Plain)
    assert "add" not in str(p)


def test_recordings_nest() -> None:
    x = ones(3, device=Plain)
    with Profiled.record() as outer:
        x.exp()
        with Profiled.record(lines=False) as inner:
            x.sin()
    assert set(calls(outer)) == {("exp", "forward", ""), ("sin", "forward", "")}
    assert set(calls(inner)) == {("sin", "forward", "")}


def test_autodiff_tells_only_while_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anyone who listens, a backward pass takes the path that it takes on a plain device."""
    watched: list[bool] = []

    def noting(*args: Any, **keywords: Any) -> Any:
        watched.append(True)
        return propagate_intercepted(*args, **keywords)

    monkeypatch.setattr("burnpy.autodiff.autodiff.propagate_intercepted", noting)
    x = ones(3).require_grad()
    x.exp().sum().backward()
    assert not watched
    assert not Plain.device().wants_rule_context()
    assert not NumPy().wants_rule_context()
    assert not Autodiff(NumPy).wants_rule_context()
    with Profiled.record():
        assert Train.device().wants_rule_context()
        x.exp().sum().backward()
    assert watched == [True]
    assert op_context.get() is FORWARD


def test_the_place_is_restored_when_a_pass_fails() -> None:
    x = ones(3).require_grad()

    def failing(grad: Any) -> Any:
        raise ZeroDivisionError

    y = x.register_hook(failing)[0]
    with Profiled.record(), pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert op_context.get() is FORWARD


def test_by_line() -> None:
    x = ones(3).require_grad()
    with Profiled.record() as p:
        y = x.exp()  # one
        for _ in range(2):
            y = y * y  # two
        y.sum().backward()  # three
    found = {(row.line.code, row.direction): row.calls for row in p.by_line() if row.line}
    assert found["y = x.exp()  # one", "forward"] == 1
    assert found["y = y * y  # two", "forward"] == 2
    assert found["y.sum().backward()  # three", "backward"] > 5
    with Profiled.record() as p:
        with track_lines():
            y = x.exp()  # here
        y.sum().backward()
    assert ("y = x.exp()  # here", "backward") in {(r.line.code, r.direction) for r in p.by_line() if r.line}
    with Profiled.record(lines=False) as p:
        x.exp()
    (row,) = p.by_line()
    assert row.line is None


def test_all_rules_of_an_operation_with_many_arguments_have_its_line() -> None:
    xs = [ones(3).require_grad() for _ in range(5)]
    with Profiled.record() as p:
        with track_lines():
            y = cat(xs)  # here
        y.sum().backward()
    found = {(row.line.code, row.direction): row.calls for row in p.by_line() if row.line}
    assert found["y = cat(xs)  # here", "backward"] == 5, "a slice of the gradient for each"


def test_as_tables() -> None:
    x = ones(100, 100).require_grad()
    with Profiled.record() as p:
        (x @ x).sum().backward()
    lines = str(p).splitlines()
    names = ["operation", "rule", "direction", "calls"]
    assert lines[0].split() == [*names, "time", "share", "a", "call", "bytes", "a", "second", "FLOPs", "a", "second"]
    times = [row.seconds for row in p.rows()]
    assert times == sorted(times, reverse=True), "what takes most time is not first"
    flops = [re.split(r" {2,}", line)[-2] for line in lines[2:]]
    assert flops.count("2.00 M") == 3, "2 · 100³ FLOPs of each product"
    shares = [float(line.split("%")[0].split()[-1]) for line in lines[2:]]
    assert sum(shares) == pytest.approx(100, abs=1)
    assert str(p.by_line()).split()[:2] == ["line", "code"]
    assert "(x @ x).sum().backward()" in str(p.by_line())
    assert repr(p) == f"Profile({len(p)} calls)"
    assert {row.rule for row in p.by_operation()} == {""}
    with Profiled.record() as p:
        pass
    assert str(p).splitlines()[0].startswith("operation")


def test_chrome_trace(tmp_path: Path) -> None:
    x = ones(10, 10).require_grad()
    with Profiled.record() as p:
        (x @ x).sum().backward()
    p.chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    names = [e for e in trace["traceEvents"] if e["ph"] == "M"]
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["args"]["name"]) for e in names] == [
        ("process_name", "NumPy"),
        ("thread_name", threading.current_thread().name),
    ]
    assert len(events) == len(p)
    for e in events:
        assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} == set(e)
        assert isinstance(e["ts"], float)
        assert e["ts"] >= 0 <= e["dur"]
    starts = [e["ts"] for e in events]
    assert starts == sorted(starts), "calls of one thread are out of order"
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(events)), "calls overlap"
    (matmul,) = [e for e in events if e["name"] == "matmul" and e["cat"] == "forward"]
    assert matmul["args"]["arguments"] == "float32[10, 10], float32[10, 10]"
    assert matmul["args"]["flops"] == 2000
    assert matmul["args"]["line"].startswith(__file__)
    assert {e["args"].get("rule") for e in events if e["cat"] == "backward"} >= {"sum", "matmul"}


def test_threads_are_told_apart(tmp_path: Path) -> None:
    x = ones(3).require_grad()
    barrier = threading.Barrier(3)
    with Profiled.record() as p:

        def work() -> None:
            with p.resume():
                barrier.wait()
                for _ in range(50):
                    x.exp().sum().backward()

        threads = [threading.Thread(target=work, name=f"worker {k}") for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        alone = threading.Thread(target=lambda: x.sin())
        alone.start()
        alone.join()
    assert calls(p)["exp", "forward", ""] == 150
    assert calls(p)["mul", "backward", "exp"] == 150, "one thread's backward pass was taken for another's"
    assert ("sin", "forward", "") not in calls(p), "a thread that was not asked to is recorded"
    p.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert named == {"worker 0", "worker 1", "worker 2"}
    assert len({e["tid"] for e in events if e["ph"] == "X"}) == 3


def test_a_context_can_be_handed_to_a_thread() -> None:
    x = ones(3, device=Plain)
    with Profiled.record() as p, ThreadPoolExecutor(1) as pool:
        pool.submit(contextvars.copy_context().run, x.exp).result()
    assert calls(p) == {("exp", "forward", ""): 1}


def test_a_profile_keeps_no_arrays_and_a_device_no_profile() -> None:
    gc.collect()
    gc.disable()
    try:
        x = ones(3).require_grad()
        with Profiled.record() as p:
            y = x.exp()
            y.sum().backward()
        refs = [weakref.ref(y._primitive.value), weakref.ref(y._primitive.node), weakref.ref(p)]
        del y
        assert [ref() is None for ref in refs] == [True, True, False]
        assert len(p) > 3
        del p
        assert refs[2]() is None, "somebody else than the block holds the profile"
    finally:
        gc.enable()


# Devices that work on their own


class Gpu:
    """What CuPy's events are to a test: time passes when the host waits, and it is known when that was."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.recorded: list[Any] = []
        self.waited = 0

    def cuda(self, before: Any) -> Any:
        gpu = self

        class Event:
            def __init__(self) -> None:
                self.at: float | None = None
                self.done = False

            def record(self) -> None:
                gpu.clock += 0.5
                self.at = gpu.clock
                gpu.recorded.append(self)

            def synchronize(self) -> None:
                gpu.waited += 1
                for event in gpu.recorded[: gpu.recorded.index(self) + 1]:
                    event.done = True

        def get_elapsed_time(start: Any, stop: Any) -> float:
            assert start.done, "the time of an event got before the GPU came to it"
            assert stop.done, "the time of an event got before the GPU came to it"
            return float(stop.at - start.at)

        return types.SimpleNamespace(**vars(before) | {"Event": Event, "get_elapsed_time": get_elapsed_time})


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    found = Gpu()
    modules = stand_ins(Journal())
    modules["cupy"]._own["cuda"] = found.cuda(modules["cupy"]._own["cuda"])
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    without_own_kernels(monkeypatch)
    with fresh_devices():
        yield found


def test_on_a_gpu_nothing_is_waited_for_until_results_are_read(gpu: Gpu, tmp_path: Path) -> None:
    x = Tensor.ones((4, 4), device=Autodiff(Profiled(CuPy(0)))).require_grad()
    with Profiled.record() as p:
        (x * x).sum().backward()
    assert gpu.waited == 0, "recording waited for the GPU"
    assert len(gpu.recorded) == 2 * len(p)
    rows = {(row.operation, row.direction): row for row in p.rows()}
    assert gpu.waited > 0
    assert rows["mul", "forward"].seconds == pytest.approx(0.5e-3)
    assert rows["mul", "backward"].seconds == pytest.approx(0.5e-3 * rows["mul", "backward"].calls)
    p.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    gpus, hosts = ([e for e in events if e["ph"] == "X" and e["pid"] == pid] for pid in (1, 2))
    gaps = {round(b["ts"] - a["ts"]) for a, b in pairwise(gpus)}
    assert gaps == {1000}, "the trace does not show the GPU's own time"
    assert [e["name"] for e in gpus] == [e["name"] for e in hosts]
    assert hosts[0]["ts"] == gpus[0]["ts"], "the clocks of both begin together"


def test_the_time_of_the_host_is_a_column_of_its_own(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 7000)
    monkeypatch.setattr(
        importlib.import_module("burnpy.backend.decorators.profiled"), "perf_counter_ns", clock.__next__
    )
    x = Tensor.ones((4, 4), device=Profiled(CuPy(0)))
    with Profiled.record() as p:
        for _ in range(3):
            x.exp()
    (row,) = p.rows()
    assert row.seconds == pytest.approx(1.5e-3)
    assert row.host_seconds == pytest.approx(21e-6)
    assert p.host_seconds == row.host_seconds
    assert "host" in str(p)
    assert "21.0 µs" in str(p)
    with Profiled.record() as p:
        ones(2, device=Plain).exp()
    assert "host" not in str(p)
    assert p.host_seconds == pytest.approx(p.seconds)


def test_devices_are_processes_of_a_trace(gpu: Gpu, tmp_path: Path) -> None:
    with Profiled.record() as p:
        ones(2, device=Plain).exp()
        Tensor.ones((2,), device=Profiled(CuPy(1))).exp()
    p.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["NumPy", "CuPy(1)", "host of CuPy(1)"]
    assert {e["pid"] for e in events} == {1, 2, 3}


@pytest.mark.heavy("cupy")
def test_cupy_has_such_events() -> None:
    records: list[Any] = [
        ("cuda.Event", 0, ()),
        ("cuda.get_elapsed_time", 2, ()),
        ("cuda.Event.record", None, ()),
        ("cuda.Event.synchronize", None, ()),
    ]
    assert [found for found in map(mismatch, records) if found] == []


def test_a_third_partys_device_has_the_hosts_time() -> None:
    start = Backend.timestamp(NumPy())
    stop = Backend.timestamp(NumPy())
    assert Backend.duration(NumPy(), start, stop) == float(stop - start) >= 0
