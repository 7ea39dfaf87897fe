"""However hostile a file of PyTorch's is, reading it takes memory and time in proportion to its size."""

from __future__ import annotations

import time
import tracemalloc
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from burnpy.backend import errors
from burnpy.record import read_torch
from burnpy.record.torch_pickle import unpickled
from burnpy.record.torch_values import LONGEST_KEY, WIDE_KEYS
from tests.interrupting import LONG
from tests.record.nets import FIXTURES
from tests.record.test_torch_files import archive
from tests.record.torch_programs import CALLS, Programs, mutated, text

EXAMPLES = 2 * LONG or 120
PER_BYTE, AT_FIRST = 100, 200_000  # what reading may take in memory
MODULUS = (1 << 61) - 1  # Python's hashes of ints are remainders by it


def within_budget(data: bytes) -> Any:
    """Run a pickle, and its value or error; fails where it takes more than a pickle of its size may."""
    tracemalloc.start()
    began = time.process_time()
    try:
        found: Any = unpickled(data, "a.pt").value
    except errors.RecordError as error:
        found = error
    finally:
        took = time.process_time() - began
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert not isinstance(found, Exception) or len(str(found)) < 500
    assert most < PER_BYTE * len(data) + AT_FIRST, f"{most} bytes of memory for {len(data)}"
    assert took < 2 + 3e-5 * len(data), f"{took} s for {len(data)} bytes"  # ten times what it takes, and traced
    return found


def put(index: int) -> bytes:
    return b"r" + index.to_bytes(4, "little")


def get(index: int) -> bytes:
    return b"j" + index.to_bytes(4, "little")


def ints(count: int) -> bytes:
    return b"(" + b"K\1" * count + b"l" + put(0) + b"0"


MANY = 30_000
BOMBS: dict[str, bytes] = {
    "strings joined by devices": text("a") + b"".join(put(k) + CALLS[5] + get(k) * 2 + b"\x86R" for k in range(24)),
    "long names of devices": text("a" * MANY) + put(0) + (CALLS[5] + get(0) + b"\x85R") * 100,
    "sizes of long lists": ints(MANY) + (CALLS[4] + get(0) + b"\x85R") * MANY,
    "sizes of long tuples": b"(" + b"K\1" * MANY + b"t" + put(0) + (CALLS[4] + get(0) + b"\x85R") * 1000,
    "sets of long lists": ints(MANY) + (CALLS[6] + get(0) + b"\x85R") * 1000,
    "dicts of long lists": b"(" + b"NN\x86" * MANY + b"l" + put(0) + (CALLS[0] + get(0) + b"\x85R") * 1000,
    "calls with many arguments": b"(" + b"N" * MANY + b"t" + put(0) + (CALLS[3] + get(0) + b"R") * 1000,
    "an index far away": b"N" + put(0xFFFFFFF0),
    "a line's index far away": b"Np99999999999999999999\n",
    "a negative index": b"Np-1\n",
    "a text of four gigabytes": b"X\xff\xff\xff\xff",
    "a text of many exabytes": b"\x8d" + b"\xff" * 8,
    "bytes of many exabytes": b"\x8e" + b"\xff" * 8,
    "an int of two gigabytes": b"\x8b\xff\xff\xff\x7f",
    "an int of many digits": b"I" + b"9" * 100_000 + b"\n",
    "an endless name": b"c" + b"a" * 100_000,
    "marks": b"(" * MANY,
    "nested lists": b"]" * MANY + b"a" * (MANY - 1),
    "nested tuples": b")" + b"\x85" * 100_000,
    "dicts": b"}" * MANY,
    "ints of one hash": b"}("
    + b"".join(b"\x8a\x0c" + (k * MODULUS).to_bytes(12, "little") + b"N" for k in range(MANY))
    + b"u",
    "many wide numbers": b"}(" + b"".join(b"G" + np.float64(k).tobytes() + b"N" for k in range(MANY)) + b"u",
    "keys that are compared for long": b"}"
    + text("a" * 100_000)
    + b"Ns"
    + text("a" * 100_000)
    + put(0)
    + b"0"
    + (get(0) + b"Ns") * MANY,
    "keys of other types": b"}(" + b"K\1K\2\x86N" * MANY + b"u",
    "names of long strings": text("torch" * MANY) + put(0) + (get(0) + get(0) + b"\x93") * 100,
    "attributes": b"}" + put(0) + b"0" + (get(0) + get(0) + b"b0") * MANY + get(0),
    "one dict entered again and again": b"}" + (text("a") + b"Ns") * MANY,
    "what is remembered": b"N" + b"\x94" * MANY,
    "what is remembered and forgotten": b"N" + put(0) * MANY,
    "wide text": text("a" * MANY + "\U0001f600"),
}


@pytest.mark.slowest
@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str) -> None:
    within_budget(BOMBS[name] + b".")


def test_marks_of_tensors_are_few() -> None:
    marks = b"}(" + b"".join(text(str(k)) + b"\x89" for k in range(MANY)) + b"u" + put(0) + b"0"
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + b"NK\x04tQ" + put(1) + b"0"
    tensor = CALLS[1] + b"(" + get(1) + b"K\0))\x89N" + get(0) + b"tR"
    assert "makes no sense" in str(within_budget(marks + storage + tensor * 1000 + b"."))


def test_keys_that_honest_files_have() -> None:
    wide = b"".join(b"\x8a\x07" + ((k + 1) << 33).to_bytes(7, "little") + b"N" for k in range(WIDE_KEYS))
    narrow = b"".join(b"J" + k.to_bytes(4, "little") + b"N" for k in range(3 * WIDE_KEYS))
    assert len(within_budget(b"}(" + narrow + wide + text("k" * LONGEST_KEY) + b"Nu.")) == 4 * WIDE_KEYS + 1
    assert isinstance(within_budget(b"}(" + wide + b"G" + bytes(8) + b"Nu."), errors.RecordError)
    assert isinstance(within_budget(b"}" + text("k" * LONGEST_KEY + "k") + b"Ns."), errors.RecordError)


def test_a_part_under_many_names(tmp_path: Path) -> None:
    part = b"}(" + b"".join(text(str(k)) + b"N" for k in range(MANY)) + b"u" + put(0) + b"0"
    whole = b"}(" + b"".join(text(str(k)) + get(0) for k in range(MANY)) + b"u."
    began = time.process_time()
    with pytest.raises(errors.ArgumentError, match=r"no state dict, but a dict of 0, 1, .* and 29990 more"):
        read_torch(archive(tmp_path / "a.pt", part + whole))
    assert time.process_time() - began < 5


def test_programs_made_at_random() -> None:
    rng = Random(0)
    programs = Programs(rng)
    done = 0
    for _ in range(EXAMPLES):
        data = programs.program(rng.choice((1, 5, 30)))
        for program in (data, mutated(data, rng)):
            done += not isinstance(within_budget(program), errors.RecordError)
    assert done > EXAMPLES // 10  # many of them come to their end


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensors.pt", "tensors_protocol_4.pt", "layers.pt", "big_endian.pt"])
def test_pickles_of_pytorchs_mutated(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    with zipfile.ZipFile(FIXTURES / name) as opened:
        records = {entry.partition("/")[2]: opened.read(entry) for entry in opened.namelist()}
    data = records.pop("data.pkl")
    rng = Random(0)
    for _ in range(EXAMPLES // 3):
        broken = mutated(data, rng)
        within_budget(broken)
        reading(archive(tmp_path / "a.pt", broken, records))


@pytest.mark.parametrize("name", ["tensors.pt", "layers.pt", "big_endian.pt"])
def test_files_of_pytorchs_mutated(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    data = (FIXTURES / name).read_bytes()
    rng = Random(0)
    for _ in range(EXAMPLES // 3):
        (tmp_path / "a.pt").write_bytes(mutated(data, rng))
        reading(tmp_path / "a.pt")


def reading(path: Path) -> None:
    """Read a file: arrays inside of its memory, or one sentence."""
    said = ""
    tracemalloc.start()
    try:
        for x in read_torch(path).values():
            if isinstance(x, np.ndarray):
                assert not x.flags.writeable
                assert x.size > 1 << 20 or x.sum() is not None  # touches all of its memory
    except (errors.RecordError, errors.ArgumentError, errors.DTypeError) as error:
        said = str(error)
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(said) < 1500
    assert most < PER_BYTE * path.stat().st_size + 2_000_000
