"""Datasets from files and from other libraries."""

from __future__ import annotations

import json
import operator
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Loader, StreamLoader, collate
from burnpy.data.sources import (
    HuggingFaceStream,
    ImageFolder,
    ParquetStream,
    TableDataset,
    from_hugging_face,
    from_torch,
    read_csv,
    read_parquet,
)
from burnpy.errors import ArgumentError, CallError, DTypeError, LoadingError, MissingPackageError


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rng = np.random.default_rng(0)
    for k, name in enumerate(["cat/b.png", "cat/a.png", "dog/deep/c.PNG", "dog/d.bmp"]):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8)).save(path)
        np.save(tmp_path / f"{k}.npy", np.asarray(image.open(path)))
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    return tmp_path


def test_image_folder(pictures: Path) -> None:
    data = ImageFolder(pictures)
    assert data.classes == ("cat", "dog")
    assert [Path(path).name for path in data.paths] == ["a.png", "b.png", "d.bmp", "c.PNG"]
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert np.array_equal(data[0]["x"], np.load(pictures / "1.npy").transpose(2, 0, 1))
    loader = Loader(data, collate(device=NumPy), batch_size=4, workers=2)
    (batch,) = loader
    assert (batch.x.shape, str(batch.x.dtype), batch.y.tolist()) == ((4, 3, 5, 4), "uint8", [0, 0, 1, 1])


def test_image_folder_sizes_and_modes(pictures: Path) -> None:
    assert ImageFolder(pictures, size=(7, 9))[0]["x"].shape == (3, 7, 9)
    assert ImageFolder(pictures, mode="L")[0]["x"].shape == (1, 5, 4)


def test_image_folder_errors(pictures: Path, tmp_path: Path) -> None:
    (pictures / "cat" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(ArgumentError, match=r"cat/a\.png cannot be read as an image"):
        ImageFolder(pictures)[0]
    with pytest.raises(LoadingError, match=r"sample 0 .* cat/a\.png|sample 0 .*a\.png cannot"):
        next(Loader(ImageFolder(pictures), collate(device=NumPy), batch_size=2).epoch(0))
    with pytest.raises(ArgumentError, match="which is not a folder"):
        ImageFolder(pictures / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArgumentError, match="found no images"):
        ImageFolder(tmp_path / "empty")
    for wrong, said in (({"size": 3}, "size=3"), ({"size": (0, 3)}, "size=0"), ({"mode": "X"}, "mode='X'")):
        settings: Any = wrong
        with pytest.raises(ArgumentError, match=rf"ImageFolder\(\) got {said}; expected"):
            ImageFolder(pictures, **settings)


@pytest.mark.slow
def test_image_folder_in_processes(pictures: Path) -> None:
    (batch,) = Loader(ImageFolder(pictures), collate(device=NumPy), batch_size=4, workers=1, engine="processes")
    assert batch.x.shape == (4, 3, 5, 4)


@pytest.mark.parametrize(
    ("call", "missing", "package"),
    [
        (lambda path: ImageFolder(path), "PIL.Image", "pillow"),
        (lambda path: read_parquet(__file__), "pyarrow.parquet", "pyarrow"),
        (lambda path: read_csv(__file__), "pyarrow.csv", "pyarrow"),
    ],
)
def test_a_missing_package_is_a_sentence(
    call: Any, missing: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingPackageError, match=rf"needs the package {package}.*burnpy\[data\]"):
        call(tmp_path)


def table(n: int = 10, start: int = 0) -> Any:
    pa: Any = import_module("pyarrow")
    k = np.arange(start, start + n)
    points = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(k, 2) * 0.5), 2)
    return pa.table({"k": k, "f": pa.array(k * 0.25, pa.float32()), "b": pa.array(k % 2 == 0), "p": points})


@pytest.mark.heavy("pyarrow")
def test_table_dataset() -> None:
    data = TableDataset(table())
    assert repr(data) == "TableDataset(10 rows: k, f, b, p)"
    assert {name: np.asarray(value).tolist() for name, value in data[3].items()} == {
        "k": 3,
        "f": 0.75,
        "b": False,
        "p": [1.5, 1.5],
    }
    (batch,) = Loader(data.subset([3, 1]), collate(device=NumPy), batch_size=2)
    assert (batch.k.tolist(), batch.f.tolist(), batch.b.tolist()) == ([3, 1], [0.75, 0.25], [False, False])
    assert (batch.p.tolist(), str(batch.f.dtype)) == ([[1.5, 1.5], [0.5, 0.5]], "float32")


@pytest.mark.heavy("pyarrow")
def test_tables_of_several_chunks_and_of_text() -> None:
    pa: Any = import_module("pyarrow")
    both = pa.concat_tables([table(3), table(4, start=3)])
    assert [int(TableDataset(both)[i]["k"]) for i in range(7)] == list(range(7))
    text = TableDataset(both.append_column("t", pa.array([*"abcdefg"])))
    assert text.columns(np.arange(2)) is None
    (batch,) = Loader(text.subset([0, 2]), collate(device=NumPy), batch_size=2)
    assert (batch.t, batch.k.tolist()) == (("a", "c"), [0, 2])
    assert len(TableDataset(table(0))) == 0


@pytest.mark.heavy("pyarrow")
def test_missing_numbers_are_named() -> None:
    pa: Any = import_module("pyarrow")
    with pytest.raises(DTypeError, match=r"column x has 1 missing value, .*drop_null"):
        TableDataset(pa.table({"x": [1, None, 3]}))


@pytest.mark.heavy("pyarrow")
def test_read_parquet(tmp_path: Path) -> None:
    pq: Any = import_module("pyarrow.parquet")
    pq.write_table(table(5), tmp_path / "a.parquet")
    pq.write_table(table(5, start=5), tmp_path / "b.parquet")
    data = read_parquet([tmp_path / "a.parquet", tmp_path / "b.parquet"], columns=["k"])
    assert [int(data[i]["k"]) for i in range(len(data))] == list(range(10))
    assert list(data[0]) == ["k"]
    with pytest.raises(ArgumentError, match=r"no column z in .*a\.parquet, which has k, f, b, p"):
        read_parquet(tmp_path / "a.parquet", columns=["z"])
    with pytest.raises(ArgumentError, match="which is not a file"):
        read_parquet(tmp_path / "c.parquet")
    with pytest.raises(ArgumentError, match="no path"):
        read_parquet([])
    (tmp_path / "c.parquet").write_text("text")
    with pytest.raises(ArgumentError, match=r"cannot read .*c\.parquet as Parquet"):
        read_parquet(tmp_path / "c.parquet")
    pq.write_table(table(5).select(["k"]), tmp_path / "c.parquet")
    with pytest.raises(ArgumentError, match="files of different columns"):
        read_parquet([tmp_path / "a.parquet", tmp_path / "c.parquet"])


@pytest.mark.heavy("pyarrow")
@pytest.mark.parametrize("workers", [0, 2])
def test_parquet_stream(workers: int, tmp_path: Path) -> None:
    pq: Any = import_module("pyarrow.parquet")
    pq.write_table(table(7), tmp_path / "a.parquet", row_group_size=3)
    pq.write_table(table(4, start=7), tmp_path / "b.parquet", row_group_size=3)
    stream = ParquetStream([tmp_path / "a.parquet", tmp_path / "b.parquet"], columns=["k"])
    assert [int(row["k"]) for row, _ in stream.samples(0, None)] == list(range(11))
    states = [state for _, state in stream.samples(0, None)]
    for k, state in enumerate(states):
        assert [int(row["k"]) for row, _ in stream.samples(0, state)] == list(range(k + 1, 11))
    loader = StreamLoader(stream.shuffle(4, seed=0), collate(device=NumPy), batch_size=3, workers=workers)
    whole = [batch.k.tolist() for batch in loader.epoch(0)]
    epoch = loader.epoch(0)
    next(epoch), next(epoch)
    state = json.loads(json.dumps(epoch.state))
    epoch.close()
    assert [batch.k.tolist() for batch in loader.epoch(0, state=state)] == whole[2:]
    with pytest.raises(ArgumentError, match="no column z"):
        ParquetStream(tmp_path / "a.parquet", columns=["z"])


@pytest.mark.heavy("pyarrow")
def test_read_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("i,f,name\n1,0.5,a\n2,1.5,b\n")
    data = read_csv(tmp_path / "a.csv")
    assert [dict(data[i]) for i in range(2)] == [{"i": 1, "f": 0.5, "name": "a"}, {"i": 2, "f": 1.5, "name": "b"}]
    (batch,) = Loader(read_csv([tmp_path / "a.csv"] * 2, columns=["f", "i"]), collate(device=NumPy), batch_size=4)
    assert (batch.keys(), batch.i.tolist()) == (("f", "i"), [1, 2, 1, 2])
    (tmp_path / "b.csv").write_text("1;2\n3;4\n")
    assert dict(read_csv(tmp_path / "b.csv", delimiter=";", names=["u", "v"])[1]) == {"u": 3, "v": 4}
    (tmp_path / "c.csv").write_text("a,b\n1\n")
    with pytest.raises(ArgumentError, match=r"cannot read .*c\.csv"):
        read_csv(tmp_path / "c.csv")
    with pytest.raises(ArgumentError, match="no column z"):
        read_csv(tmp_path / "a.csv", columns=["z"])


@pytest.mark.slow
@pytest.mark.heavy("datasets")
@pytest.mark.filterwarnings(
    "ignore:Cannot (locate reference|pickle)"
)  # of dill, with which datasets looks at pyarrow's types
def test_hugging_face() -> None:
    datasets: Any = import_module("datasets")
    rows = {"x": [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]], "y": [0, 1, 0]}
    plain = from_hugging_face(datasets.Dataset.from_dict({"y": rows["y"]}))
    columns = plain.columns(np.array([2, 1]))
    assert columns is not None
    assert columns["y"].tolist() == [0, 1]
    data = from_hugging_face(datasets.Dataset.from_dict(rows))
    (batch,) = Loader(data.subset([1, 2]), collate(device=NumPy), batch_size=2)
    assert (batch.x.tolist(), batch.y.tolist()) == ([[2.5, 3.5], [4.5, 5.5]], [1, 0])
    with pytest.raises(CallError, match="a dict of train"):
        from_hugging_face({"train": data})
    stream = HuggingFaceStream(datasets.Dataset.from_dict(rows).to_iterable_dataset())
    loader = StreamLoader(stream, collate(device=NumPy), batch_size=1)
    epoch = loader.epoch(0)
    assert next(epoch).y.tolist() == [0]
    assert [batch.x.tolist() for batch in loader.epoch(0, state=epoch.state)] == [[[2.5, 3.5]], [[4.5, 5.5]]]
    with pytest.raises(CallError, match="HuggingFaceStream"):
        from_hugging_face(datasets.Dataset.from_dict(rows).to_iterable_dataset())


def test_hugging_face_refuses_others() -> None:
    with pytest.raises(CallError, match=r"an int; expected a datasets\.Dataset"):
        from_hugging_face(3)
    with pytest.raises(CallError, match=r"expected a datasets\.IterableDataset"):
        HuggingFaceStream([1])


@pytest.mark.parity
@pytest.mark.slow
def test_torch() -> None:
    import torch

    class Pairs(torch.utils.data.Dataset):  # type: ignore[misc]  # torch may be missing
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            return torch.full((2,), float(i)), i

    (batch,) = Loader(from_torch(Pairs()), collate(device=NumPy), batch_size=4, workers=2)
    assert (batch.x.tolist(), batch.y.tolist()) == ([[i, i] for i in range(4)], [0, 1, 2, 3])
    tensors = torch.utils.data.TensorDataset(torch.arange(3.0), torch.arange(3))
    shared = from_torch(tensors)
    assert isinstance(shared, ArrayDataset)
    assert np.shares_memory(shared._arrays["x"], tensors.tensors[0].numpy())
    with pytest.raises(CallError, match="2 tensors and the names x"):
        from_torch(tensors, names=["x"])
    with pytest.raises(CallError, match=r"write a burnpy\.data\.Stream"):
        from_torch(iter([]))


def test_samples_that_are_mappings_keep_their_names() -> None:
    assert from_torch([{"a": 1}])[0] == {"a": 1}
    assert from_torch([(1, 2)]).map(operator.itemgetter("y"))[0] == 2
