"""PyTorch's files are read without PyTorch, and nothing in them is executed."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend import errors
from burnpy.record import load, read_torch
from tests.record.nets import FIXTURES
from tests.rows import every_row

GRID = np.arange(12, dtype=np.float32).reshape(3, 4)
TENSORS: dict[str, Any] = {
    "base": GRID.reshape(-1),
    "grid": GRID,
    "transposed": GRID.T,
    "steps": GRID.reshape(-1)[1::3],
    "corner": GRID[1:, 2:],
    "expanded": np.full((2, 3), 7, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(2.5),
    "parameter": np.array([1, -1], np.float32),
    "bool": np.array([True, False]),
    "float16": np.array([0.5, -2], np.float16),
    **{
        name: np.array([1, 100], name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
}


@pytest.mark.parametrize("name", ["tensors.pt", "tensors_protocol_4.pt", "big_endian.pt"])
def test_tensors_of_every_kind(name: str) -> None:
    pytest.importorskip("ml_dtypes")
    found = read_torch(FIXTURES / name)
    for key, x in found.items():
        if key == "bfloat16":
            assert str(x.dtype) == "bfloat16"
            assert x.tolist() == [0.5, -2.0]
            continue
        assert x.dtype == TENSORS[key].dtype, key
        assert x.shape == TENSORS[key].shape, key
        assert np.array_equal(x, TENSORS[key]), key
    assert len(found) == (6 if name == "big_endian.pt" else 20)


def test_memory_is_shared_and_read_only() -> None:
    pytest.importorskip("ml_dtypes")
    found = read_torch(FIXTURES / "tensors.pt")
    assert np.shares_memory(found["base"], found["transposed"])
    assert not np.shares_memory(found["base"], found["scalar"])
    for x in found.values():
        assert not x.flags.writeable
        if x.size and x.strides[-1:] != (0,):
            with pytest.raises(ValueError, match="WRITEABLE"):
                x.setflags(write=True)


def test_a_part_of_a_checkpoint() -> None:
    assert "linear.weight" in read_torch(FIXTURES / "layers.pt", "model")
    assert read_torch(FIXTURES / "layers.pt", ("optimizer", "state", 0))["step"] == 1.0
    with pytest.raises(
        errors.ArgumentError, match="several state dicts, model, inputs, outputs; say which: key='model'"
    ):
        read_torch(FIXTURES / "layers.pt")
    with pytest.raises(
        errors.ArgumentError, match="nothing at 'ema'; there is model, step, optimizer, inputs, outputs"
    ):
        read_torch(FIXTURES / "layers.pt", "ema")
    with pytest.raises(errors.ArgumentError, match="no state dict at 'optimizer', but a dict of state, param_groups"):
        read_torch(FIXTURES / "layers.pt", "optimizer")
    with pytest.raises(errors.ArgumentError, match="no state dict at 'step', but an int"):
        read_torch(FIXTURES / "layers.pt", "step")


def test_formats_that_are_not_read() -> None:
    with pytest.raises(
        errors.RecordError, match=r"names torch\.nn\.modules\.linear\.Linear.*nothing in it was executed"
    ):
        read_torch(FIXTURES / "whole_model.pt")
    with pytest.raises(errors.RecordError, match=r"not a file written by torch.save; .* use burnpy.record.from_torch"):
        read_torch(FIXTURES / "layers.safetensors")
    for name in ("layers.pt", "legacy.pt"):
        with pytest.raises(errors.RecordError, match=r"one of PyTorch's: burnpy.record.from_torch"):
            load(FIXTURES / name)


def test_the_format_before_version_1_6(tmp_path: Path) -> None:
    """Read as strictly as the other one: damage ends in a sentence, and nothing is executed."""
    found = read_torch(FIXTURES / "legacy.pt")
    assert {name: x.tolist() for name, x in found.items()} == {"w": [1.0, 1.0]}
    data, path = (FIXTURES / "legacy.pt").read_bytes(), tmp_path / "damaged.pt"
    for end in range(16, len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(errors.RecordError):
            read_torch(path)
    path.write_bytes(data.replace(b"ctorch\nFloatStorage", b"cposix\nsystem"))
    with pytest.raises(errors.RecordError, match="nothing in it was executed"):
        read_torch(path)


def archive(path: Path, data: bytes, records: dict[str, bytes] | None = None, **options: Any) -> Path:
    """A file like PyTorch's, of any pickle."""
    with zipfile.ZipFile(path, "w", **options) as made:
        made.writestr("archive/data.pkl", data)
        for name, record in (records or {}).items():
            made.writestr(f"archive/{name}", record)
    return path


class Executing:
    """What runs code when it is unpickled."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def test_code_is_refused_and_not_executed(tmp_path: Path) -> None:
    witness = tmp_path / "executed"
    calls: list[tuple[Any, ...]] = [
        (os.system, f"touch {witness}"),
        (exec, f"open({str(witness)!r}, 'w')"),
        (eval, f"open({str(witness)!r}, 'w')"),
        (open, str(witness), "w"),
        (getattr, os, "system"),
        (__import__, "os"),
        (io.FileIO, str(witness), "w"),
    ]
    for function, *args in calls:
        for protocol in (0, 1, 2, 4, 5):
            for value in (Executing(function, *args), {"weight": Executing(function, *args)}):
                try:
                    data = pickle.dumps(value, protocol=protocol)
                except TypeError:  # a module as an argument
                    data = b"cposix\nsystem\n(Vtouch " + str(witness).encode() + b"\ntR."
                archive(tmp_path / "a.pt", data)
                with pytest.raises(
                    errors.RecordError, match=r"names .*; nothing in it was executed|names .*values only"
                ):
                    read_torch(tmp_path / "a.pt")
                assert not witness.exists()
    pickle.loads(pickle.dumps(Executing(os.system, f"touch {witness}")))
    assert witness.exists()  # so it would have been


TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\n%s\nV%s\nVcpu\n%stQ"


def tensor(
    kind: bytes = b"FloatStorage", key: bytes = b"0", size: bytes = b"I4\n", rest: bytes = b"I0\n(I2\nt(I1\nt"
) -> bytes:
    """A pickle of {"w": a tensor}."""
    return b"(dVw\n" + TENSOR % (kind, key, size) + rest + b"I00\nNtRs."


FOUR = np.arange(4, dtype=np.float32).tobytes()


def test_a_handmade_file_is_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", tensor(), {"data/0": FOUR})
    assert read_torch(path)["w"].tolist() == [0.0, 1.0]


@every_row(
    ("data", "message"),
    [
        (b"cos\nsystem\n.", r"names os\.system"),
        (b"cbuiltins\ngetattr\n.", r"names builtins\.getattr"),
        (b"ctorch.storage\n_load_from_bytes\n.", r"names torch\.storage\._load_from_bytes"),
        (b"ctorch\nload\n.", r"names torch\.load"),
        (b"ctorch._utils\n__builtins__\n.", "names torch"),
        (b"ccollections\nOrderedDict.__init__\n.", "names collections"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", r"names os\.system"),
        (b"(Vtrue\nios\nsystem\n.", "has the instruction INST"),
        (b"(Vtrue\no.", "has the instruction OBJ"),
        (b"ccollections\nOrderedDict\n)\x81.", "has the instruction NEWOBJ"),
        (b"\x82\x01.", "has the instruction EXT1"),
        (b"Vabc\n)R.", "asks to call str"),
        (b"ctorch\nfloat32\n)R.", r"asks to call torch\.float32"),
        (b"ccollections\nOrderedDict\n(Vx\nI1\ndb.", "asks to set attributes"),
        (b"ctorch\nSize\n}}\x86b.", "asks to set attributes"),
        (b"Pabc\n.", "has the instruction PERSID"),
        (b"\x80\x05\x97.", "has the instruction NEXT_BUFFER"),
        (b"", "makes no sense|has no end"),
        (b"junk", "makes no sense"),
        (b"(", "makes no sense|has no end"),
        (b"0.", "makes no sense"),
        (b"g5\n.", "makes no sense"),
        (b"I1\na.", "makes no sense"),
        (b"(d(tI1\ns.", "makes no sense"),
        (b"(d]I1\ns.", "makes no sense"),
        (b"(t.", "no state dict, but a tuple"),
        (b"(d.", "no state dict, but a dict of nothing"),
        (b"T\xff\xff\xff\x7f.", "has no end"),
        (b"\x8b\xff\xff\xff\x7f.", "has no end"),
        (tensor(rest=b"I0\n(I5\nt(I1\nt"), "reaches beyond its memory"),
        (tensor(rest=b"I3\n(I2\nt(I1\nt"), "reaches beyond its memory"),
        (tensor(rest=b"I0\n(I2\nt(I4\nt"), "reaches beyond its memory"),
        (tensor(rest=b"I-1\n(I2\nt(I1\nt"), "makes no sense"),
        (tensor(rest=b"I0\n(I2\nt(I-1\nt"), "makes no sense"),
        (tensor(rest=b"I0\n(I2\nt(I1\nI1\nt"), "makes no sense"),
        (tensor(rest=b"I0\n(I4611686018427387904\nI4\nt(I0\nI0\nt"), "which no array has"),
        (tensor(rest=b"I0\n(I0\nI4611686018427387904\nI4\nt(I0\nI0\nI0\nt"), "which no array has"),
        (tensor(key=b"1"), "there is no archive/data/1 in it"),
        (tensor(key=b"../data.pkl"), r"there is no archive/data/\.\./data.pkl"),
        (tensor(size=b"I5\n"), "has 16 bytes, and should have 20"),
        (tensor(size=b"I-4\n"), "makes no sense"),
        (tensor(kind=b"BoolStorage", size=b"I16\n"), "neither 0 nor 1"),
    ],
)
def test_pickles_that_want_more_or_make_no_sense(tmp_path: Path, data: bytes, message: str) -> None:
    path = archive(tmp_path / "a.pt", data, {"data/0": FOUR})
    with pytest.raises((errors.RecordError, errors.ArgumentError), match=message) as raised:
        read_torch(path)
    assert str(path) in str(raised.value)


def test_complex_numbers_are_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", tensor(kind=b"ComplexFloatStorage", size=b"I2\n"), {"data/0": FOUR})
    assert read_torch(path)["w"].tolist() == [1j, 2 + 3j]


def test_archives_that_are_not_pytorchs(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    archive(path, tensor(), {"data/0": FOUR, "constants.pkl": b""})
    with pytest.raises(errors.RecordError, match="TorchScript program"):
        read_torch(path)
    archive(path, tensor(), {"data/0": FOUR, "byteorder": b"middle"})
    with pytest.raises(errors.RecordError, match="its byte order is b'middle'"):
        read_torch(path)
    archive(path, tensor(), {"data/0": b"\0" * 10_000_000}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(errors.RecordError, match="is compressed"):
        read_torch(path)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("readme.txt", "hello")
    with pytest.raises(errors.RecordError, match=r"that torch.save did not write"):
        read_torch(path)
    path.write_bytes(b"")
    with pytest.raises(errors.RecordError, match=r"is not a file written by torch.save"):
        read_torch(path)


def test_damage_is_found(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    whole = (FIXTURES / "tensors.pt").read_bytes()
    path = tmp_path / "a.pt"
    for size in range(4, len(whole), 501):
        path.write_bytes(whole[:size])
        with pytest.raises(errors.RecordError, match=r"damaged|no file"):
            read_torch(path)
    at = whole.index(GRID.tobytes())
    flipped = bytearray(whole)
    flipped[at + 5] ^= 1
    path.write_bytes(bytes(flipped))
    with pytest.raises(errors.RecordError, match="damaged, and nothing was loaded: Bad CRC-32"):
        read_torch(path)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", tensor(), {"data/0": FOUR})
    whole = path.read_bytes()
    for at in (whole.index(b"archive/data/0"), whole.rindex(b"archive/data/0")):
        broken = bytearray(whole)
        broken[at] = 0xFF
        flags = whole.rindex(b"PK\x01\x02") + 8
        broken[flags + 1] |= 8  # names are UTF-8
        path.write_bytes(bytes(broken))
        with pytest.raises(errors.RecordError, match="is damaged"):
            read_torch(path)


def test_an_archive_whose_parts_lie_on_top_of_each_other(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", tensor(), {"data/0": b"0" * 9000})
    whole = path.read_bytes()
    begin, end = whole.rindex(b"PK\x01\x02"), whole.rindex(b"PK\x05\x06")
    entry, last = whole[begin:end], bytearray(whole[end:])
    count, size = 102, int.from_bytes(last[12:16], "little") + 100 * len(entry)
    last[8:16] = count.to_bytes(2, "little") * 2 + size.to_bytes(4, "little")
    path.write_bytes(whole[:end] + entry * 100 + last)
    with pytest.raises(errors.RecordError, match="its parts together are larger than the file"):
        read_torch(path)


@pytest.mark.parametrize("mark", [b"neg", b"conj"])
def test_tensors_whose_values_are_not_those_in_memory(tmp_path: Path, mark: bytes) -> None:
    data = b"(dVw\n" + TENSOR % (b"FloatStorage", b"0", b"I4\n") + b"I0\n(I2\nt(I1\ntI00\nN(dV%s\nI0%d\nstRs."
    path = archive(tmp_path / "a.pt", data % (mark, 1), {"data/0": FOUR})
    with pytest.raises(errors.RecordError, match=r"negates or conjugates .*x\.resolve_neg\(\)"):
        read_torch(path)
    assert read_torch(archive(path, data % (mark, 0), {"data/0": FOUR}))["w"].tolist() == [0.0, 1.0]
