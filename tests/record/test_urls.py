"""URLs are paths for records, weights, models and data: fsspec's storage in memory stands for others."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.data.sources import ImageFolder, ParquetStream, read_csv, read_parquet
from burnpy.models import Gpt2, Gpt2Config
from burnpy.nn import Linear, Sequential, add_lora
from burnpy.record import from_peft, from_torch, load, save, save_torch, to_peft, to_torch
from burnpy.train import Checkpoints, Jsonl
from tests.record.nets import mlp, same
from tests.rows import every_row

fsspec: Any = pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def memory() -> Iterator[Any]:
    """The storage, which is emptied."""
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def assert_equal(model: Any, expected: Any) -> None:
    np.testing.assert_equal(to_torch(model), to_torch(expected))


def test_records(memory: Any, tmp_path: Path) -> None:
    model = mlp(device=NumPy)
    for step in (1, 2):
        save("memory://runs/a.safetensors", model=model, step=step)
    save(tmp_path / "a.safetensors", model=model, step=2)
    record = load("memory://runs/a.safetensors")
    assert (record.step, record.path, record.checked) == (2, "memory://runs/a.safetensors", True)
    assert same(record.apply_to(mlp(device=NumPy)), model)
    assert memory.cat("runs/a.safetensors") == (tmp_path / "a.safetensors").read_bytes()
    assert memory.ls("runs", detail=False) == ["/runs/a.safetensors"]


def test_weights_in_files_and_folders(memory: Any, tmp_path: Path) -> None:
    model, other = mlp(device=NumPy), mlp(device=NumPy)
    save_torch("memory://w/model.safetensors", model)
    for source in ("memory://w/model.safetensors", "memory://w", "simplecache::memory://w/model.safetensors"):
        assert_equal(from_torch(other, source), model)
    save_torch(tmp_path / "model.safetensors", model)
    with memory.open("w.zip", "wb") as file, ZipFile(file, "w") as archive:
        archive.write(tmp_path / "model.safetensors", "deep/model.safetensors")
    assert_equal(from_torch(other, "zip://deep::memory://w.zip"), model)


def test_adapters_and_pretrained_models() -> None:
    plain = Sequential(Linear(2, 3, device=NumPy))
    to_peft(add_lora(plain, rank=1), "memory://adapters")
    assert from_peft(plain, "memory://adapters")[0].rank == 1
    model = Gpt2(Gpt2Config(vocab_size=5, n_positions=4, n_embd=4, n_layer=1, n_head=1), device=NumPy)
    model.save_pretrained("memory://gpt2")
    assert_equal(Gpt2.from_pretrained("memory://gpt2", device=NumPy), model)


def test_images(memory: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("cat/b.png", "dog/deep/c.PNG", "cat/a.png", "cat/notes.txt"):
        buffer = BytesIO()
        image.fromarray(np.full((5, 4), ord(name[-5]), np.uint8)).save(buffer, format="png")
        memory.pipe(f"/pictures/{name}", buffer.getvalue())
    data = ImageFolder("memory://pictures", mode="L")
    assert data.paths == tuple(f"memory://pictures/{name}" for name in ("cat/a.png", "cat/b.png", "dog/deep/c.PNG"))
    assert [chr(data[i]["x"][0, 0, 0]) for i in range(3)] == ["a", "b", "c"]


@pytest.mark.heavy("pyarrow")
def test_tables(memory: Any) -> None:
    pa: Any = import_module("pyarrow")
    with memory.open("tables/a.parquet", "wb") as file:
        import_module("pyarrow.parquet").write_table(
            pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), file, row_group_size=2
        )
    assert read_parquet("memory://tables/a.parquet", columns=["x"])[2] == {"x": 3}
    assert [sample["y"] for sample, _ in ParquetStream("memory://tables/a.parquet").samples(0, [0, 0, 1])] == [1.5, 2.5]
    memory.pipe("tables/a.csv.gz", gzip.compress(b"x,y\n1,2\n3,4\n"))
    assert read_csv("memory://tables/a.csv.gz")[1] == {"x": 3, "y": 4}


class Forbidden(fsspec.spec.AbstractFileSystem):  # type: ignore[misc]  # which has no types
    """A storage that refuses everything, with an error of its own."""

    protocol = "forbidden"

    def info(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("403")

    open = put_file = get_file = info


fsspec.register_implementation("forbidden", Forbidden)


@every_row(
    "call, message",
    [
        (lambda: load("memory://a"), "there is no file memory://a"),
        (lambda: from_torch(mlp(), "memory://a.pt"), "there is no file memory://a.pt"),
        (lambda: load("nowhere://a"), "nowhere://a cannot be reached: Protocol not known: nowhere"),
        (lambda: from_torch(mlp(), "nowhere://a"), "nowhere://a cannot be reached: Protocol not known: nowhere"),
        (lambda: save("nowhere://a", step=1), "nowhere://a cannot be reached: Protocol not known: nowhere"),
        (lambda: load("forbidden://a"), "forbidden://a cannot be reached: 403"),
        (lambda: save("forbidden://a", step=1), "forbidden://a cannot be reached: 403"),
        (lambda: to_peft(add_lora(mlp(), rank=1), "nowhere://a"), "nowhere://a cannot be reached"),
        (lambda: Gpt2.from_pretrained("memory://a", device=NumPy), "cannot read memory://a/config.json"),
        (lambda: ImageFolder("memory://a"), "memory://a, which is not a folder"),
        (lambda: read_csv("memory://a.csv"), "memory://a.csv, which is not a file"),
        (lambda: Checkpoints("s3://a/b"), "Checkpoints() writes to the local disk, and got s3://a/b"),
        (lambda: Jsonl("s3://a/b"), "Jsonl() writes to the local disk, and got s3://a/b"),
    ],
)
def test_a_mistake_is_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, OSError)) as caught:
        call()
    assert message in str(caught.value)


def test_fsspec_is_needed_for_urls_alone() -> None:
    program = """
import sys
from burnpy.record import load
assert "fsspec" not in sys.modules
sys.modules["fsspec"] = sys.modules["fsspec.core"] = None
try:
    load("s3://bucket/a")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("s3://bucket/a needs the package fsspec, which cannot be imported")
    assert 'pip install "burnpy[remote]"' in done.stdout
