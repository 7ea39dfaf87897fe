"""A stand-in for CuPy that computes with NumPy and records its calls.

`RecordingModule` replaces the module and `RecordedArray` its arrays, so that only recorded names can be
used. `mismatch` then says whether the real CuPy has what one record asked for.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import pytest

from burnpy.backend import CuPy, operations
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels import kernel
from burnpy_cupy.kernels.attention import CuPyAttention
from burnpy_cupy.kernels.convolution import CuPyConvolution
from burnpy_cupy.kernels.losses import CuPyLosses
from burnpy_cupy.kernels.matmul import CuPyMatmul, CuPyQuantization
from burnpy_cupy.kernels.pointwise import CuPyArithmetic
from burnpy_cupy.kernels.pooling import CuPyPooling
from burnpy_cupy.kernels.recurrent import CuPyRecurrent
from burnpy_cupy.kernels.reduction import CuPyReduction
from burnpy_cupy.kernels.scans_and_ordering import CuPyOrdering, CuPyScans
from burnpy_cupy.kernels.shape_and_indexing import CuPyIndexing

Record = tuple[str, int | None, tuple[str, ...]]
"""A dotted name in cupy; how many positional arguments it was called with, None if it was only read; its keywords."""


@dataclass
class Journal:
    """The calls, the current GPU, and the number of waits."""

    records: set[Record] = field(default_factory=set)
    current: int = 0
    switches: int = 0
    waits: int = 0

    def called(self, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.records.add((name, len(args), tuple(sorted(keywords))))


class RecordedArray:
    """A NumPy array with only the attributes of CuPy's arrays."""

    def __init__(self, journal: Journal, array: Any) -> None:
        self._journal = journal
        self._array = np.asarray(array)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy looks for its protocols; an array of CuPy refuses to become one of NumPy
            raise TypeError(f"{name} got an array on the GPU")
        if name == "get":
            self._journal.called("ndarray.get", (), {})
            self._journal.waits += 1
            return lambda: self._array.copy()
        found = getattr(self._array, name)
        if name == "flags":  # CuPy's say less
            found = types.SimpleNamespace(c_contiguous=found.c_contiguous, f_contiguous=found.f_contiguous)
        elif callable(found):
            return _recorded(self._journal, f"ndarray.{name}", found)
        self._journal.records.add((f"ndarray.{name}", None, ()))
        return _wrapped(self._journal, found)

    def __getitem__(self, key: Any) -> Any:
        return _wrapped(self._journal, self._array[_plain(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[_plain(key)] = _plain(value)

    def __int__(self) -> int:
        self._journal.waits += 1
        return int(self._array)

    def __float__(self) -> float:
        self._journal.waits += 1
        return float(self._array)


def _operator(name: str) -> Any:
    """An operator of arrays, in place too."""

    def method(self: RecordedArray, *others: Any) -> Any:
        self._journal.records.add((f"ndarray.{name}", None, ()))
        with np.errstate(all="ignore"):
            return _wrapped(self._journal, getattr(self._array, name)(*_plain(others)))

    return method


for _name in ("add", "sub", "mul", "truediv", "pow"):
    for _kind in ("", "r", "i"):
        setattr(RecordedArray, f"__{_kind}{_name}__", _operator(f"__{_kind}{_name}__"))
for _name in ("neg", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(RecordedArray, f"__{_name}__", _operator(f"__{_name}__"))


class RecordingModule:
    """A module, or a class in one, that forwards to NumPy's; ``own`` are the parts that NumPy lacks."""

    def __init__(self, journal: Journal, prefix: str, source: Any, own: dict[str, Any] | None = None) -> None:
        self._journal, self._prefix, self._source, self._own = journal, prefix, source, own or {}

    def __getattr__(self, name: str) -> Any:
        found = self._own[name] if name in self._own else getattr(self._source, name)
        if isinstance(found, (RecordingModule, types.SimpleNamespace, str)):
            return found
        if isinstance(found, float):  # inf
            self._journal.records.add((f"{self._prefix}{name}", None, ()))
            return found
        made = _recorded(self._journal, f"{self._prefix}{name}", found)
        if isinstance(found, np.ufunc):
            made.at = _recorded(self._journal, f"{self._prefix}{name}.at", found.at)
        return made


def _kernel(xp: Any, name: str, _: Any) -> Any:
    """`burnpy_cupy.kernels.elementwise_kernel.ElementwiseKernel`, which is called as CuPy's: what NumPy computes."""
    return _recorded(xp._journal, "ElementwiseKernel.__call__", KERNELS[name])


def _bounded(index: Any, low: int, high: int, ignored: int, slot: int, inside: Any, memory: Any) -> Any:
    index = np.where(index == ignored, low, index)
    outside = index[(index < low) | (index > high)]
    if outside.size:
        memory[slot + 1] = min(memory[slot + 1], outside.min())
        memory[slot + 2] = max(memory[slot + 2], outside.max())
    return np.clip(index, low, high, out=inside), memory


def _bounded_and_counted(
    index: Any, low: int, high: int, ignored: int, slot: int, inside: Any, counts: Any, memory: Any
) -> Any:
    _bounded(index, low, high, ignored, slot, inside, memory)
    return inside, np.not_equal(index, ignored, out=counts), memory


def _arange(start: Any, step: Any, out: Any) -> Any:
    out[...] = np.arange(len(out)).astype(out.dtype) * step + start
    return out


def _reduce(combine: Any) -> Any:
    def run(value: Any, index: Any, dims: tuple[int], out: Any) -> None:
        combine.at(out, (*(slice(None),) * dims[0], index), value)

    return run


def _cat(*args: Any) -> Any:
    count = len(args) // 2 - 1
    xs, lengths, row, out = args[:count], args[count:-2], args[-2], args[-1]
    parts = [x.reshape(-1, n) for x, n in zip(xs, lengths, strict=True)]
    out[...] = np.concatenate(parts, 1).reshape(out.shape)
    assert row == sum(lengths)
    return out


def _batch_totals(mean: Any, var: Any, size: int, factor: float, out: Any) -> Any:
    assert mean.size == var.size == size
    out[...] = np.concatenate([mean.reshape(-1), [1], var.reshape(-1) * factor, [1]])
    return out


KERNELS: dict[str, Any] = {
    **{f"burnpy_cat_{count}": _cat for count in range(1, 9)},
    **{f"burnpy_reduce_prod_{size}": _reduce(np.multiply) for size in (4, 8)},
    **{f"burnpy_reduce_amin_{size}": _reduce(np.minimum) for size in (4, 8)},
    **{f"burnpy_reduce_amax_{size}": _reduce(np.maximum) for size in (4, 8)},
    "burnpy_index_add": _reduce(np.add),
    "burnpy_floor_divide": np.floor_divide,
    "burnpy_floor_divide_by": np.floor_divide,
    "burnpy_remainder": np.remainder,
    "burnpy_remainder_by": np.remainder,
    "burnpy_arange": _arange,
    "burnpy_note": lambda value, slot, memory: memory.__setitem__(slot, int(value)),
    "burnpy_bounded": _bounded,
    "burnpy_bounded_and_counted": _bounded_and_counted,
    "burnpy_batch_totals": _batch_totals,
    "burnpy_count": lambda count, total, last: count + np.rint(total[last]).astype(np.int64),
}
"""References in NumPy for the kernels of `burnpy_cupy.kernels.kernel`, by name."""


def _recorded(journal: Journal, name: str, function: Any) -> Any:
    def call(*args: Any, **keywords: Any) -> Any:
        journal.called(name, args, keywords)
        with np.errstate(all="ignore"):  # CuPy never warns
            return _wrapped(journal, function(*_plain(args), **_plain(keywords)))

    return call


def _plain(value: Any) -> Any:
    if isinstance(value, RecordedArray):
        return value._array
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(v) for v in value)
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _wrapped(journal: Journal, value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return RecordedArray(journal, value)
    if isinstance(value, np.random.Generator):
        return RecordingModule(journal, "random.Generator.", value)
    return tuple(_wrapped(journal, v) for v in value) if isinstance(value, tuple) else value


class StandInError(RuntimeError):
    """What CUDA raises."""

    def __init__(self, status: int) -> None:
        super().__init__(f"CUDA error {status}")
        self.status = status


def stand_ins(
    journal: Journal,
    gpus: int = 2,
    status: int | None = None,
    missing: str = "",
    driver: int = 0,
    version: str = "14.2.0",
) -> dict[str, Any]:
    """Modules to put into ``sys.modules`` for cupy's: of so many GPUs, a CUDA that fails, or one without a library."""
    from scipy.special import erf, erfc, erfinv

    def device_count() -> int:
        if status is not None:
            raise StandInError(status)
        return gpus

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            self.before, journal.current = journal.current, self.index
            journal.switches += 1

        def __exit__(self, *_: object) -> None:
            journal.current = self.before

        def synchronize(self) -> None:
            journal.called("cuda.Device.synchronize", (), {})
            journal.waits += 1

    def nvrtc_version() -> tuple[int, int]:
        if missing == "NVRTC":
            raise RuntimeError("Failure finding libnvrtc.so.13")
        return 13, 0

    class WithoutCublas(types.SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            raise ImportError("libcublas.so.13: cannot open shared object file")

    runtime = types.SimpleNamespace(
        getDeviceCount=device_count,
        getDevice=lambda: journal.current,
        runtimeGetVersion=lambda: 13020,
        driverGetVersion=lambda: driver,
        CUDARuntimeError=StandInError,
    )
    random = RecordingModule(
        journal, "random.", np.random, {"Philox4x3210": lambda seed, *, size: np.random.Philox(seed)}
    )
    linalg = RecordingModule(journal, "linalg.", np.linalg)
    fft = RecordingModule(journal, "fft.", np.fft)
    tricks = RecordingModule(journal, "lib.stride_tricks.", np.lib.stride_tricks)
    special = RecordingModule(journal, "cupyx.scipy.special.", None, {"erf": erf, "erfc": erfc, "erfinv": erfinv})
    stream = types.SimpleNamespace(ptr=0, wait_event=lambda event: None)
    event = types.SimpleNamespace(record=lambda stream: None)
    headers = None if missing == "headers" else "include"
    parts = {
        "runtime": runtime,
        "Device": Device,
        "Stream": types.SimpleNamespace(null=nullcontext()),
        "Event": lambda disable_timing: event,
        "get_current_stream": lambda *_: stream,
        "nvrtc": types.SimpleNamespace(getVersion=nvrtc_version),
    }
    if missing == "cuBLAS":
        cuda: types.SimpleNamespace = WithoutCublas(**parts)
    else:
        cuda = types.SimpleNamespace(**parts, cublas=types.SimpleNamespace())
    rooms = {"linalg": linalg, "fft": fft, "lib": types.SimpleNamespace(stride_tricks=tricks)}
    return {
        "cupy": RecordingModule(journal, "", np, {"__version__": version, "cuda": cuda, "random": random, **rooms}),
        "cupyx": types.SimpleNamespace(errstate=_recorded(journal, "cupyx.errstate", lambda *, linalg: nullcontext())),
        "cupyx.scipy.special": special,
        "cuda.pathfinder": types.SimpleNamespace(find_nvidia_header_directory=lambda name: headers),
    }


def without_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `burnpy_array` compute what CuPy does by kernels of ours and by calls of cuBLAS, which run on no stand-in.

    `tests/hostcuda` runs those.
    """
    convolutions, indexed = (CuPyConvolution, CuPyPooling), (CuPyIndexing, CuPyOrdering, CuPyQuantization, CuPyScans)
    monkeypatch.setattr(CuPyReduction, "_total", ArrayBackend._total)
    monkeypatch.setattr(kernel, "ElementwiseKernel", _kernel)
    replaced = {"masked_scale", "reshape"}
    for family in (
        CuPyArithmetic,
        CuPyMatmul,
        CuPyLosses,
        CuPyAttention,
        CuPyRecurrent,
        CuPyReduction,
        *convolutions,
        *indexed,
    ):
        replaced |= vars(family).keys() & operations().keys()
    for name in replaced:
        monkeypatch.setattr(CuPy, name, getattr(ArrayBackend, name), raising=False)


@contextmanager
def fresh_devices() -> Iterator[None]:
    """Devices made inside are forgotten afterwards, so that none made of stand-ins is found by a later test.

    They run no programs as kernels, whose CUDA source NumPy cannot compute.
    """
    from burnpy.backend.devices import DeviceMeta

    before = dict(DeviceMeta._devices)
    try:
        off: Any = {"return_value": False}
        with (
            mock.patch("burnpy_cupy.kernels.kernel.kernels_enabled", **off),
            mock.patch("burnpy_cupy.kernels.foreach.kernels_enabled", **off),
        ):
            yield
    finally:
        DeviceMeta._devices.clear()
        DeviceMeta._devices.update(before)


def mismatch(record: Record) -> str | None:
    """Why the real CuPy would refuse what ``record`` asks; None if it would not."""
    name, positional, keywords = record
    real: Any = import_module("cupy")
    if name.startswith("cupyx."):
        module, _, last = name.rpartition(".")
        real, name = import_module(module), last
    for part in name.split("."):
        if not hasattr(real, part):
            return f"{record[0]} is missing in CuPy"
        real = getattr(real, part)
    if positional is None:
        return None
    try:
        bound = _signature(real, bool(re.search(r"\b(ndarray|Generator|Device)\.", name)))
        bound.bind(*[None] * positional, **dict.fromkeys(keywords))
    except TypeError as error:
        return f"{record[0]} with {positional} positional arguments and {keywords}: {error}"
    return None


def _signature(real: Any, method: bool) -> inspect.Signature:
    """The signature of a function of CuPy; of a compiled one, from the first line of its documentation."""
    kind, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    inputs = None if isinstance(real, type) else getattr(real, "nin", getattr(real, "_nin", None))
    if inputs is not None:  # a ufunc: inputs, outputs, and two keywords that NumPy's has too
        required = [inspect.Parameter(f"in{i}", kind) for i in range(inputs)]
        how = kind if hasattr(real, "nin") else by_name  # a generalized one takes its output by name only
        return inspect.Signature(required + [inspect.Parameter(n, how, default=None) for n in ("out", "dtype")])
    try:
        found = inspect.signature(real)
    except ValueError:
        found = _documented(real)
    parameters = list(found.parameters.values())
    return found.replace(parameters=parameters[1:] if method and parameters[0].name == "self" else parameters)


def _documented(real: Any) -> inspect.Signature:
    line = (real.__doc__ or "").split("\n")[0]
    listed = re.search(r"\((.*)\)", line)
    if listed is None:
        raise TypeError(f"no signature is known of {real!r}")
    # "Py_ssize_t axis1" is a parameter axis1
    names = re.sub(r"(?<![=.\w])\w+ (?=\w)", "", listed.group(1).removeprefix("self, "))
    scope: dict[str, Any] = {}
    exec(f"def documented({re.sub(r'=[^,]+', '=None', names)}): ...", scope)
    return inspect.signature(scope["documented"])
