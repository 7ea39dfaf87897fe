"""What a tensor takes without copying never changes: `from_data(copy=False)`, `from_dlpack`, pickles' buffers."""

from __future__ import annotations

import array
import ctypes
import mmap
import pickle
import re
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError
from burnpy.record import load, save
from tests.rows import every_row

VALUES = np.arange(1, 7, dtype=np.float32)
DATA = VALUES.tobytes()

Exported = tuple[Any, Callable[[], object]]
"""An array, and what changes it by way of whatever it was made of."""


def closed(array: Any) -> Any:
    """The array, read-only from now on."""
    array.setflags(write=False)
    return array


def over(buffer: Any, source: Any) -> Exported:
    """An array over a buffer whose memory can be written to by way of ``source``."""
    return closed(np.frombuffer(buffer, np.float32)), lambda: memoryview(source).cast("B").__setitem__(2, 0x55)


def owner() -> Exported:
    mine = VALUES.copy()
    view = mine[:]
    return closed(mine), lambda: view.fill(9)


def reopened() -> Exported:
    mine = closed(VALUES.copy())
    return mine, lambda: (mine.setflags(write=True), mine.fill(9))


def view_of_an_array() -> Exported:
    mine = VALUES.copy()
    return closed(mine[1:]), lambda: mine.fill(9)


def view_of_a_closed_array() -> Exported:
    mine = VALUES.copy()
    before = mine[:]
    return closed(mine)[1:], lambda: before.fill(9)


def broadcast() -> Exported:
    mine = VALUES.copy()
    return np.broadcast_to(mine, (2, 6)), lambda: mine.fill(9)


def strided() -> Exported:
    mine = VALUES.copy()
    return np.lib.stride_tricks.as_strided(mine, (3,), (8,), writeable=False), lambda: mine.fill(9)


def memoryview_of_an_array() -> Exported:
    mine: Any = VALUES.copy()
    return np.asarray(memoryview(mine).toreadonly()), lambda: mine.fill(9)


def dlpack_of_an_array() -> Exported:
    mine = VALUES.copy()
    return closed(np.from_dlpack(mine)), lambda: mine.fill(9)


def interface() -> Exported:
    mine = VALUES.copy()

    class Exporter:
        @property
        def __array_interface__(self) -> Any:
            return {**mine.__array_interface__, "data": (mine.__array_interface__["data"][0], True)}

    return np.asarray(Exporter()), lambda: mine.fill(9)


def subclass_of_bytes() -> Exported:
    class Bytes(bytes): ...

    return np.frombuffer(Bytes(DATA), np.float32), lambda: None  # from Python 3.12 on it may export any buffer


def bytearrays() -> Exported:
    source = bytearray(DATA)
    return over(memoryview(source).toreadonly(), source)


def arrays_of_the_library() -> Exported:
    source = array.array("f", VALUES.tolist())
    return over(source, source)


def ctypes_arrays() -> Exported:
    source = (ctypes.c_float * 6)(*VALUES.tolist())
    return closed(np.ctypeslib.as_array(source)), lambda: source.__setitem__(0, 9.0)


def pickle_buffers() -> Exported:
    source = bytearray(DATA)
    return over(pickle.PickleBuffer(memoryview(source).toreadonly()), source)


def anonymous_maps() -> Exported:
    source = mmap.mmap(-1, 24)
    source[:] = DATA
    return over(source, source)


REFUSED = [
    owner,
    reopened,
    view_of_an_array,
    view_of_a_closed_array,
    broadcast,
    strided,
    memoryview_of_an_array,
    dlpack_of_an_array,
    interface,
    subclass_of_bytes,
    bytearrays,
    arrays_of_the_library,
    ctypes_arrays,
    pickle_buffers,
    anonymous_maps,
]


@every_row("export", REFUSED, ids=lambda export: export.__name__)
def test_memory_that_others_write_to_is_refused(export: Callable[[], Exported]) -> None:
    exported, change = export()
    refuse(exported)
    copy = Tensor[NumPy].from_data(exported)
    shared = Tensor[NumPy].from_dlpack(exported)  # copies as well
    expected = copy.tolist()
    before = exported.tolist()
    change()
    assert exported.tolist() != before or export is subclass_of_bytes  # so it would have changed
    assert copy.tolist() == shared.tolist() == expected


def refuse(exported: Any) -> None:
    assert not exported.flags.writeable
    shape = re.escape(str(exported.shape))
    with pytest.raises(ArgumentError, match=rf"of shape {shape} .* may still change, as .*; leave copy=False out"):
        Tensor[NumPy].from_data(exported, copy=False)


@pytest.mark.parametrize("mode", ["r", "c"])
def test_maps_of_files_are_refused(tmp_path: Path, mode: Any) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    mapped = np.load(tmp_path / "a.npy", mmap_mode=mode)
    refuse(closed(mapped))
    raw = closed(np.memmap(tmp_path / "a.npy", np.float32, mode))
    refuse(raw)
    with open(tmp_path / "a.npy", "rb") as file:
        refuse(np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.float32))


def test_shared_memory_is_refused() -> None:
    memory = SharedMemory(create=True, size=24)
    try:
        exported = closed(np.ndarray((6,), np.float32, memory.buf))
        refuse(exported)
        del exported
    finally:
        memory.close()
        memory.unlink()


def test_what_can_be_written_to_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"shape \(6,\) and dtype float32 that may still change, as it can be written"
    ):
        Tensor[NumPy].from_data(VALUES.copy(), copy=False)


def accepted(tmp_path: Path) -> dict[str, Any]:
    """Arrays that nobody can write to."""
    pytest.importorskip("ml_dtypes")
    x = Tensor[NumPy].from_data(VALUES)
    leaf = Tensor[Autodiff[NumPy]].from_data(VALUES).require_grad()
    save(tmp_path / "a", x=VALUES)
    shown: Any = x.to_numpy()
    return {
        "a tensor's": shown,
        "a sum's": (x + 1).to_numpy(),
        "a gradient's": (leaf * leaf).sum().backward()[leaf].to_numpy(),
        "bfloat16": x.bfloat16().to_numpy(),
        "of one element": x.sum().to_numpy(),
        "empty": x[:0].to_numpy(),
        "expanded": x.reshape(6, 1).expand(6, 2).to_numpy(),
        "a slice": shown[1::2],
        "reversed": shown[::-1],
        "a transpose": x.reshape(2, 3).to_numpy().T,
        "broadcast": np.broadcast_to(shown, (2, 6)),
        "as numpy does": np.asarray(x),
        "a view of a view": np.asarray(memoryview(shown))[2:],
        "bytes": np.frombuffer(DATA, np.float32),
        "a memoryview of bytes": np.asarray(memoryview(DATA).cast("f")),
        "a part of bytes": np.frombuffer(memoryview(DATA)[4:], np.float32),
        "reshaped bytes": np.ndarray((2, 3), np.float32, DATA),
        "of a record": load(tmp_path / "a").x,
        "of a pickle": pickle.loads(pickle.dumps(shown, protocol=5)),
    }


def test_memory_that_nobody_writes_to_is_shared(tmp_path: Path) -> None:
    for name, exported in accepted(tmp_path).items():
        for x in (
            Tensor[NumPy].from_data(exported, copy=False),
            Tensor[Autodiff[NumPy]].from_data(exported, copy=False),
            Tensor[NumPy].from_dlpack(exported),
        ):
            assert np.shares_memory(x.to_numpy(), exported) or not exported.size, name
            before = x.tolist()
            attack(exported)
            attack(x.to_numpy())
            assert x.tolist() == before, name


def attack(exported: Any) -> None:
    """Write to an array by all ways that NumPy and Python have, but for what a tensor calls its own."""
    found = exported
    while isinstance(found, np.ndarray):
        with pytest.raises(ValueError, match="WRITEABLE"):
            found.setflags(write=True)
        with pytest.raises(ValueError, match=r"read-only|read only"):
            found[...] = 9
        with pytest.raises(ValueError, match=r"read-only|read only"):
            np.add(found, 1, out=found)
        if found.dtype.kind != "V":  # Python has no buffers of bfloat16
            buffer: Any = found  # as it is to type checkers from Python 3.12 on
            assert memoryview(buffer).readonly
            with pytest.raises((BufferError, TypeError, ValueError)):
                (ctypes.c_char * 4).from_buffer(buffer)
        found = found.base


def test_dlpack_shares_the_memory_of_tensors() -> None:
    x = Tensor[NumPy].from_data(VALUES)
    assert np.shares_memory(Tensor[Autodiff[NumPy]].from_dlpack(x).to_numpy(), x.to_numpy())
    i = IntTensor[NumPy].arange(3)
    assert np.shares_memory(IntTensor[NumPy].from_dlpack(i).to_numpy(), i.to_numpy())
    exported = np.from_dlpack(x, copy=False) if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else x.to_numpy()
    assert Tensor[NumPy].from_dlpack(exported).tolist() == x.tolist()


def outside(x: Any) -> tuple[bytes, list[Any]]:
    """A pickle, and the buffers that it leaves to others."""
    buffers: list[Any] = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1
    return data, buffers


@pytest.mark.parametrize("backend", [NumPy, Autodiff[NumPy]])
def test_buffers_of_pickles_that_others_write_to_are_copied(backend: Any) -> None:
    x: Any = Tensor[backend].from_data(VALUES)
    data, buffers = outside(x)
    writable = bytearray(buffers[0].raw())
    mapped = mmap.mmap(-1, 24)
    mapped[:] = DATA
    for given, source in (
        (writable, writable),
        (memoryview(writable), writable),
        (memoryview(writable).toreadonly(), writable),
        (pickle.PickleBuffer(writable), writable),
        (mapped, mapped),
    ):
        source[:] = DATA
        y = pickle.loads(data, buffers=[given])
        source[:] = bytes(24)
        assert y.tolist() == VALUES.tolist(), type(given)


def test_buffers_of_pickles_that_are_bytes_or_a_tensors_are_shared() -> None:
    x = Tensor[NumPy].from_data(VALUES)
    data, buffers = outside(x)
    for given in (DATA, memoryview(DATA), buffers[0], memoryview(buffers[0])):
        y = pickle.loads(data, buffers=[given])
        assert np.shares_memory(y.to_numpy(), np.frombuffer(given, np.uint8))
        assert y.tolist() == VALUES.tolist()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_a_pickle_contains_is_not_copied_again(protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, array: Any) -> Any:
        raise AssertionError("a copy")

    data = pickle.dumps(Tensor[NumPy].from_data(VALUES), protocol=protocol)
    monkeypatch.setattr(NumPy, "from_numpy", refuse)
    assert pickle.loads(data).tolist() == VALUES.tolist()
