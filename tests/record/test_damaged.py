"""Files that are damaged, foreign or hostile are refused with a clear error, and nothing of them is loaded."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Generator
from burnpy.backend import errors
from burnpy.data.sources import ImageFolder, read_csv
from burnpy.nn.module_state import Entry
from burnpy.optim.optimizer_states import OptimizerRecord, ParamState
from burnpy.record import from_torch, load, read_torch, save
from burnpy.record.safetensors_file import write
from burnpy.train import EpochEnd
from burnpy.train.loggers import Jsonl
from burnpy.train.run_file import Writer
from tests.record.nets import mlp, same
from tests.rows import every_row


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """The bytes of a small checkpoint."""
    save(
        tmp_path / "whole", model=mlp(2), generator=Generator(1), step=3, x=np.arange(3), flags=np.array([True, False])
    )
    return (tmp_path / "whole").read_bytes()


def refused(path: Path, data: bytes, match: str = ".") -> None:
    path.write_bytes(data)
    with pytest.raises(errors.RecordError, match=match) as raised:
        load(path)
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.slow
def test_every_flipped_bit_is_found(tmp_path: Path, whole: bytes) -> None:
    rng = random.Random(0)
    length = int.from_bytes(whole[:8], "little") + 8
    places = [*range(8 * 24), *rng.sample(range(8 * len(whole)), 300), *range(8 * length - 24, 8 * length + 8)]
    for place in places:
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        refused(tmp_path / "a", bytes(flipped))


def test_every_length_is_found(tmp_path: Path, whole: bytes) -> None:
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        refused(tmp_path / "a", whole[:size], "damaged|not a safetensors file")
    refused(tmp_path / "a", whole + b"\0", "1 bytes follow")


def test_a_model_is_as_it_was(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "a").write_bytes(whole[:-1])
    model = mlp(2)
    before = model.into_record()
    with pytest.raises(errors.RecordError):
        load(tmp_path / "a").apply_to(model)
    assert all(np.array_equal(entry.value, before[path].value) for path, entry in model.into_record().items())
    assert same(model, model)


def file(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def place(begin: Any = 0, end: Any = 4, dtype: Any = "F32", shape: Any = (1,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@every_row(
    "data, message",
    [
        (b"", "cut short"),
        (b"hello, this is no record at all", "not a safetensors file"),
        ((1 << 62).to_bytes(8, "little") + b"{}", "length of a header"),
        (file(b"{"), "cannot be read"),
        (file(b"\xff\xfe"), "cannot be read"),
        (file(b"[" * 100_000), "cannot be read"),
        (file([]), "its header is a list"),
        (file({"__metadata__": {"a": 1}}), "metadata are not strings"),
        (file({"__metadata__": []}), "metadata are not strings"),
        (file(b'{"x": 1, "x": 2}'), "cannot be read"),
        (file({"x": 1}), "does not say where x is"),
        (file({"x": place(shape=None)}, b"0000"), "does not say where x is"),
        (file({"x": place(shape=[-1])}, b"0000"), "no numbers"),
        (file({"x": place(shape=[True])}, b"0000"), "no numbers"),
        (file({"x": place(0, 4.0)}, b"0000"), "no numbers"),
        (file({"x": place(dtype="F8_E4M3")}, b"0000"), "has x of dtype F8_E4M3, which no tensor of burnpy has"),
        (file({"x": place(shape=[2])}, b"0000"), r"x of shape \(2,\) and dtype float32 cannot be 4 bytes"),
        (file({"x": place(shape=[1 << 70, 1 << 70])}, b"0000"), "no numbers"),
        (file({"x": place(shape=[1 << 62, 1 << 62])}, b"0000"), "cannot be 4 bytes"),
        (file({"x": place(0, 0, shape=[0, 1 << 62])}), "cannot be 0 bytes"),
        (file({"x": place(0, 0, shape=[0, 1 << 31, 1 << 31])}), "cannot be 0 bytes"),
        (file({"x": place(0, 0, shape=[0, 1 << 70])}), "no numbers"),
        (file({"x": place(0, 10**4000)}), "no numbers"),
        (file({"x": place(0, 0, shape=[0, 10**4000])}), "no numbers"),
        (file(b'{"x": ' + b"9" * 5000 + b"}"), "cannot be read|does not say"),
        (file({"x": place(-4, 0)}, b"0000"), "no numbers"),
        (file({"x": place(4, 0)}, b"0000"), "cannot be -4 bytes"),
        (file({"x": place(0, float("nan"))}, b"0000"), "no numbers"),
        (file({"x": place(shape=[float("inf")])}, b"0000"), "no numbers"),
        (file({"x": place(shape="1")}, b"0000"), "does not say where x is"),
        (file({"x": place(shape=[[1]])}, b"0000"), "no numbers"),
        (file({"x" * 10_000: 1}), "does not say where x{80}… is"),
        (file({"x": place(dtype="F" * 10_000)}, b"0000"), "of dtype F{80}…, which no tensor"),
        (file({"x": place(shape=[1] * 65)}, b"0000"), "x has 65 dimensions"),
        (file({"x": place(1, 5)}, b"00000"), "x begins at byte 1"),
        (file({"x": place(), "y": place(0, 4)}, b"0000"), "y begins at byte 0"),
        (file({"x": place(), "y": place(8, 12)}, b"0" * 12), "y begins at byte 8"),
        (file({"x": place()}, b"000"), "of 4 bytes of tensors it has 3"),
        (file({"x": place()}, b"00000"), "1 bytes follow"),
        (file({"x": place(0, 1, "BOOL")}, b"\2"), "neither 0 nor 1"),
        (file({"__metadata__": {"burnpy": "1", "record": "{}"}}), "without its checksum"),
        (file({"__metadata__": {"sha256": "0" * 64}}), "SHA-256"),
    ],
)
def test_foreign_structures_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    refused(tmp_path / "a", data, message)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("{", "plain values cannot be read"),
        ("[]", "plain values cannot be read"),
        ("[" * 100_000, "plain values cannot be read"),
        ('{"a": {"$tensor": "y"}}', "no record of burnpy"),
        ('{"a": {"$tensor": "x", "b": 1}}', "no record of burnpy"),
        ('{"a": {"$call": ["os.system", "true"]}}', r"there is no \{'\$call'"),
        ('{"a": {"$tuple": {}}}', "no record of burnpy"),
        ('{"a": {"$entry": [1, 2]}}', "no record of burnpy"),
        ('{"a": {"$entry": ["id", 2]}}', "no record of burnpy"),
        ('{"a": {"$entry": ["id", {"b": {"$tensor": "x"}}]}}', "no record of burnpy"),
        ('{"a": {"$entry": {"$tensor": "x"}}}', "no record of burnpy"),
        ('{"a": %s}' % ("9" * 5000), "plain values cannot be read|nothing says"),
        ('{"a": {"$dict": [[%s, {"$call": 1}]]}}' % ("9" * 4000), "no record of burnpy"),
        ('{"a": {"$dict": [[[], 1]]}}', "no record of burnpy"),
        ('{"a": {"$dict": [[1]]}}', "no record of burnpy"),
        ('{"a": {"$optimizer": ["Adam", {"x": 3}]}}', "no record of burnpy"),
        ('{"a": {"$optimizer": [3, {}]}}', "no record of burnpy"),
        *(
            (f'{{"a": {{"$optimizer": ["Adam", {{"x": {{"$tuple": {state}}}}}]}}}}', "no record of burnpy")
            for state in (
                '["w", null, {}]',
                '["w", true, {}]',
                '["w", -1, {}]',
                '["w", 1.0, {}]',
                "[null, 1, {}]",
                '["w", 1, []]',
                '["w", 1, {"m": 3}]',
                '["w", 1]',
            )
        ),
        ("{}", "it has no description of its tensor x"),
    ],
)
def test_records_with_a_right_checksum_and_wrong_contents(tmp_path: Path, tree: str, message: str) -> None:
    write(tmp_path / "a", {"x": np.ones(1)}, {"burnpy": "1", "record": tree})
    with pytest.raises(errors.RecordError, match=message) as raised:
        load(tmp_path / "a")
    assert len(str(raised.value)) < 500


def test_a_newer_version_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a", {}, {"burnpy": "2", "record": "{}"})
    with pytest.raises(errors.RecordError, match="version 2, which a newer burnpy wrote"):
        load(tmp_path / "a")


def test_the_checksum_is_of_the_file_with_zeros_in_its_place(tmp_path: Path, whole: bytes) -> None:
    claimed = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])["__metadata__"]["sha256"]
    assert hashlib.sha256(whole.replace(claimed.encode(), b"0" * 64)).hexdigest() == claimed


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for read in (load, lambda path: from_torch(mlp(), path)):
        with pytest.raises(errors.RecordNotFoundError, match=r"there is no file .*nowhere"):
            read(tmp_path / "nowhere.pt")
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nowhere.pt")
    with pytest.raises(errors.RecordFileError, match="cannot read"):
        load(tmp_path)
    with pytest.raises(errors.RecordNotFoundError, match=r"the folder .* has no model\.safetensors"):
        from_torch(mlp(), tmp_path)


def test_too_many_plain_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnpy.record.safetensors_file.LONGEST", 1000)
    with pytest.raises(errors.RecordError, match="keep large lists of numbers as arrays"):
        save(tmp_path / "a", x=[0] * 1000)
    assert not (tmp_path / "a").exists()


@every_row("path", [3, True, 2.5, None, b"a", ["a"], "a\0b", Path("a\0b"), "\ud800", mlp()], ids=repr)
def test_what_is_no_path(path: Any) -> None:
    calls: list[Any] = [load, read_torch, lambda path: save(path, x=1)]
    if isinstance(path, (str, Path)):
        calls.append(lambda path: from_torch(mlp(), path))
    for call in calls:
        with pytest.raises(errors.CallError, match=r"takes a path|got the path") as raised:
            call(path)
        assert len(str(raised.value)) < 200


def test_what_cannot_be_saved_is_said_when_it_is_saved(tmp_path: Path) -> None:
    record = OptimizerRecord("Adam", {"id": ParamState("w", None, {})})  # type: ignore[arg-type]  # what is tested
    for part, message in (
        (Entry("id", 3), "an Entry of 3, which is not a tensor"),
        (record, "an OptimizerRecord that no optimizer made"),
        (10**5000, "an int of more digits than Python writes"),
        ({10**5000: 1}, "an int of more digits than Python writes"),
    ):
        with pytest.raises(errors.ArgumentError, match=message):
            save(tmp_path / "a", x=part)
    assert not (tmp_path / "a").exists()


def test_headers_mutated(tmp_path: Path) -> None:
    """Whatever a header says: a record whose tensors are in the file, or one sentence."""
    rng = random.Random(0)
    numbers: list[Any] = [
        0,
        1,
        2,
        3,
        4,
        8,
        -1,
        1 << 31,
        1 << 62,
        1 << 63,
        1 << 70,
        10**4000,
        1.0,
        float("nan"),
        None,
        True,
        "1",
        [],
    ]
    for _ in range(int(os.environ.get("BURNPY_LONG_TESTS", "300"))):
        entries: dict[str, Any] = {}
        for name in rng.sample(["x", "y", "", "a\0b", "\ud800", "__metadata__", "$entry"], rng.randrange(1, 4)):
            shape = [rng.choice(numbers[:6]) for _ in range(rng.randrange(4))]
            begin = sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in entries.values())
            entries[name] = place(begin, begin + 4 * math.prod(shape), shape=shape)
        size = sum(4 * math.prod(entry["shape"]) for entry in entries.values())
        for _ in range(rng.randrange(3)):
            entry = entries[rng.choice(list(entries))]
            key = rng.choice(["dtype", "shape", "data_offsets"])
            if isinstance(entry[key], list) and entry[key] and rng.random() < 0.7:
                entry[key][rng.randrange(len(entry[key]))] = rng.choice(numbers)
            else:
                entry[key] = rng.choice(["F32", "BOOL", "F64", *numbers])
        data = bytearray(file(entries, bytes(size)))
        if rng.random() < 0.3:
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "a").write_bytes(data)
        try:
            found = load(tmp_path / "a")
        except errors.RecordError as error:
            said = str(error)
        else:
            said = repr(found)
            assert sum(entry.value.nbytes for entry in found.model.values()) == size
        assert len(said) < 500


LONG, TENSORS = "a" * 5000, Path(__file__).parent / "fixtures" / "tensors.pt"


@pytest.mark.parametrize(
    "call",
    [
        lambda folder, name: load(name),
        lambda folder, name: read_torch(name),
        lambda folder, name: from_torch(mlp(), name),
        lambda folder, name: save(name, step=1),
        lambda folder, name: save(folder / "b" / name / "c", step=1),
        lambda folder, name: read_torch(TENSORS, (name,)),
        lambda folder, name: ImageFolder(name),
        lambda folder, name: read_csv(name),
        lambda folder, name: Writer().write(folder / name / "run.safetensors", (), {}),
        lambda folder, name: Jsonl(folder / name).log(
            EpochEnd(model=mlp(), epoch=0, step=0, metrics={}, values={}, seconds=0.0)
        ),
    ],
)
def test_a_long_path_is_shortened_in_messages(tmp_path: Path, call: Any) -> None:
    with pytest.raises(errors.BurnpyError) as caught:
        call(tmp_path, LONG)
    message = str(caught.value)
    assert "aaa…" in message
    assert len(message) < 600, message


def test_a_path_of_usual_length_is_whole_in_messages(tmp_path: Path) -> None:
    path = tmp_path / ("b" * (190 - len(str(tmp_path))))
    with pytest.raises(errors.RecordNotFoundError) as caught:
        load(path)
    assert str(caught.value).endswith(f"there is no file {path}")
