"""A checkpoint goes to a file and comes back, bit for bit, with everything that training needs to go on."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import BoolTensor, Generator, IntTensor, Tensor
from burnpy.backend import NumPy, errors
from burnpy.backend.dtypes import FLOATS, INTS
from burnpy.nn import BoolBuffer, Buffer, IntBuffer, Linear, Module, Param
from burnpy.record import Record, from_torch, load, save, to_torch
from tests.record.nets import Train, mlp, same


def test_a_model_comes_back_with_its_ids(tmp_path: Path) -> None:
    model, other = mlp(), mlp()
    save(tmp_path / "a.safetensors", model=model)
    record = load(tmp_path / "a.safetensors")
    assert same(record.apply_to(other), model)
    assert record.checked
    assert not same(other, model)
    assert same(record.apply_to(other.valid()), model)


def test_plain_values_come_back_as_they_were(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "step": 100,
        "none": None,
        "flag": True,
        "loss": 0.1 + 0.2,
        "inf": [float("inf"), -0.0],
        "name": "Ünïcode \n \u2028 $tensor",
        "big": 2**127 + 1,
        "nested": {"a": [1, (2, "3"), {"b": ()}], "": {}},
        "odd": {2: "two", "$tensor": "x", None: 0, 2.5: [], True: False},
        "scalars": [np.float32(0.1), np.int8(3), np.bool_(True)],
    }
    save(tmp_path / "a", **values)
    record = load(tmp_path / "a")
    for name, value in values.items():
        assert repr(record[name]) == repr([x.item() for x in value] if name == "scalars" else value), name


@pytest.mark.parametrize(
    "dtype",
    [*FLOATS, *INTS, "bool"],
)
def test_arrays_of_every_dtype_and_layout(tmp_path: Path, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    base = (np.arange(24).reshape(2, 3, 4) % 2 if dtype == "bool" else np.arange(24).reshape(2, 3, 4)).astype(dtype)
    arrays = [base, base.T, base[:, ::-2], base[0, 0, :1].reshape(()), base[:0], np.broadcast_to(base[0], (5, 3, 4))]
    swapped = base.astype(base.dtype.newbyteorder(">")) if dtype != "bfloat16" else base
    save(tmp_path / "a", arrays=[*arrays, swapped])
    found = load(tmp_path / "a").arrays
    for x, y in zip([*arrays, base], found, strict=True):
        assert y.dtype == base.dtype
        assert y.shape == x.shape
        assert x.tobytes() == y.tobytes()
        with pytest.raises(ValueError, match="WRITEABLE"):
            y.setflags(write=True)


def test_tensors_of_every_kind(tmp_path: Path) -> None:
    save(
        tmp_path / "a",
        x=Tensor[Train].from_data([1.0, 2.0]).require_grad(),
        i=IntTensor[Train].from_data([3]),
        b=[BoolTensor[NumPy].from_data([True, False])],
    )
    record = load(tmp_path / "a")
    assert [record.x.tolist(), record.i.tolist(), record.b[0].tolist()] == [[1.0, 2.0], [3], [True, False]]


def test_a_generator_goes_on(tmp_path: Path) -> None:
    generator = Generator(3)
    generator.spawn(2)
    Tensor[NumPy].normal((5,), generator=generator)
    save(tmp_path / "a", generator=generator)
    expected = Tensor[NumPy].normal((5,), generator=generator).tolist()
    child = Tensor[NumPy].normal((5,), generator=generator.spawn(1)[0]).tolist()
    other = Generator()
    other.set_state(load(tmp_path / "a").generator)
    assert Tensor[NumPy].normal((5,), generator=other).tolist() == expected
    assert Tensor[NumPy].normal((5,), generator=other.spawn(1)[0]).tolist() == child


class Everything(Module[Any]):
    """Something of each kind, and something shared."""

    def __init__(self, device: Any) -> None:
        self.shared = Param(Tensor.ones((2,), device=device))
        self.again = {"deep": [self.shared]}
        self.frozen = Param(Tensor.ones((), device=device), frozen=True)
        self.buffers = [
            Buffer(Tensor.zeros((0, 2), dtype="float64", device=device)),
            IntBuffer(IntTensor.zeros((2,), device=device)),
            BoolBuffer(BoolTensor.zeros((), device=device)),
        ]


def test_what_is_shared_is_written_once_and_stays_shared(tmp_path: Path) -> None:
    model = Everything(Train)
    save(tmp_path / "a", model=model)
    record = load(tmp_path / "a")
    assert list(record.model) == ["shared", "frozen", "buffers.0", "buffers.1", "buffers.2"]
    new = record.apply_to(Everything(Train))
    assert new.shared is new.again["deep"][0]
    assert same(new, model)


def test_several_models_and_a_record_saved_again(tmp_path: Path) -> None:
    first, second = mlp(), Linear(2, 2, device=NumPy)
    save(tmp_path / "a", model=first, ema=second, step=1)
    save(tmp_path / "b", **load(tmp_path / "a").parts)
    record = load(tmp_path / "b")
    assert same(record.apply_to(mlp()), first)
    assert same(record.apply_to(Linear(2, 2, device=Train), part="ema"), second)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_library_reads_our_files(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    model = mlp()
    save(tmp_path / "a", model=model, step=3, odd=np.array([True, False, True]))
    found = safetensors.load_file(tmp_path / "a")
    assert sorted(found) == sorted([f"model.{path}" for path in model.state()] + ["odd"])
    for path, entry in model.into_record().items():
        assert np.array_equal(found[f"model.{path}"], entry.value)


def test_files_of_the_library_load_without_a_checksum(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    model = mlp()
    arrays = {path: entry.value for path, entry in model.into_record().items()}
    safetensors.save_file(arrays, tmp_path / "a", metadata={"format": "np"})
    record = load(tmp_path / "a")
    assert not record.checked
    assert "without a checksum" in repr(record)
    other = mlp()
    new = record.apply_to(other)
    assert new[0].weight.id == other[0].weight.id
    assert np.array_equal(new[0].weight.value.to_numpy(), arrays["0.weight"])


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 3)])
def test_matrices_of_another_program_that_may_be_transposed_are_refused(
    tmp_path: Path, sizes: tuple[int, int], strict: bool
) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    model = Linear(*sizes, device=NumPy)
    safetensors.save_file(to_torch(model), tmp_path / "a")
    record = load(tmp_path / "a")
    with pytest.raises(
        errors.StateError, match=r"weight of shape .* fits Linear transposed.*record\.from_torch\(model, path\)"
    ):
        record.apply_to(model, strict=strict)
    assert from_torch(model, tmp_path / "a").weight.value.tolist() == model.weight.value.tolist()
    safetensors.save_file({path: entry.value for path, entry in model.into_record().items()}, tmp_path / "b")
    assert model.load_record(load(tmp_path / "b").model).weight.value.tolist() == model.weight.value.tolist()


def test_names_that_collide_are_told_apart(tmp_path: Path) -> None:
    save(tmp_path / "a", x={"a": {"b": np.ones(1)}, "a.b": np.zeros(1)})
    found = load(tmp_path / "a").x
    assert [found["a"]["b"].tolist(), found["a.b"].tolist()] == [[1.0], [0.0]]


def test_records_are_copied_and_pickled(tmp_path: Path) -> None:
    save(tmp_path / "a", model=mlp(), step=3)
    record = load(tmp_path / "a")
    for copied in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert copied.step == 3
    assert repr(record).startswith(f"Record({tmp_path / 'a'}, SHA-256 verified; model: 9 tensors, ")
    with pytest.raises(AttributeError):
        record.step = 4  # type: ignore[attr-defined]  # frozen


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    save(tmp_path / "a", model=mlp(), step=3)
    record = load(tmp_path / "a")
    assert "step" in record
    assert list(record) == ["model", "step"]
    assert not hasattr(record, "optim")
    with pytest.raises(errors.MissingPartError, match=r"has no optim; it has model, step"):
        record["optim"]
    with pytest.raises(errors.RecordError, match=r"step in .* is not the result of a module's"):
        record.apply_to(mlp(), part="step")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "nothing to save"),
        ({"x": {1, 2}}, "got x, a set"),
        ({"x": [{"y": object()}]}, r"got x\.0\.y, an object"),
        ({"x": {(1, 2): 3}}, r"got x with a key \(1, 2\)"),
        ({"checked": 1}, "a part called checked"),
        ({"apply_to": 1}, "a part called apply_to"),
        ({"x": Linear}, "given x, a builtins.type|ModuleMeta"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(errors.ArgumentError, match=message):
        save(tmp_path / "a", **parts)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_dtypes_that_no_tensor_has(tmp_path: Path) -> None:
    for array in (np.zeros(2, complex), np.array(["a"]), np.array([object()])):
        with pytest.raises(errors.DTypeError, match=r"got x\.y of shape"):
            save(tmp_path / "a", x={"y": array})
    assert not os.listdir(tmp_path)
    save(tmp_path / "a", x=np.ones(2, np.complex64))
    assert load(tmp_path / "a").x.dtype == np.complex64


def test_a_list_that_contains_itself(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(errors.ArgumentError, match=r"x\.0, which contains itself"):
        save(tmp_path / "a", x=loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(errors.ArgumentError, match="too deep"):
        save(tmp_path / "a", x=deep)
    twice = [1]
    save(tmp_path / "a", x=[twice, twice])
    assert load(tmp_path / "a").x == [[1], [1]]


def test_a_file_does_not_depend_on_the_process(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"x": {"b": np.ones(2), "a": 1}, "y": np.zeros((2, 2), np.float64)}
    save(tmp_path / "a", **parts)
    save(tmp_path / "b", **parts)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_metadata_can_be_read_by_anyone(tmp_path: Path) -> None:
    save(tmp_path / "a", x=np.ones(2), step=3)
    data = (tmp_path / "a").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 64 == 0
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    assert metadata["burnpy"] == "1"
    assert json.loads(metadata["record"])["step"] == 3


def test_importing_burnpy_does_not_import_records() -> None:
    code = "import burnpy, burnpy.nn, sys; assert 'burnpy.record' not in sys.modules; import burnpy.record; \
assert not {'safetensors', 'torch', 'pickle5'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(burnpy.__file__).parent.parent)


def test_a_record_is_what_it_says() -> None:
    assert Record({"step": 1}, "nowhere", True)["step"] == 1
