"""Parts of records in models that are not quite those that were saved: paths, dtypes, reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import IntTensor
from burnpy.backend import NumPy, errors
from burnpy.nn import IntBuffer, Linear, Module, Sequential
from burnpy.optim import Adam
from burnpy.record import Record, load, save
from tests.record.nets import Train, mlp, same


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """One of a small model."""
    save(tmp_path / "a", model=mlp())
    return load(tmp_path / "a")


class Body(Module[Any]):
    """The same layers under another name, and a head."""

    def __init__(self, head: int = 5) -> None:
        self.body = mlp(device=NumPy)
        self.head = Linear(2, head, device=NumPy)


def test_another_architecture_is_refused_and_named(record: Record) -> None:
    model = mlp(hidden=6)
    before = model.into_record()
    with pytest.raises(
        errors.StateError, match=r"model in .* does not fit Sequential, and nothing was loaded"
    ) as raised:
        record.apply_to(model)
    report: Any = raised.value.report
    assert report == record.report(model)
    assert report.applied == ("1.num_batches_tracked", "3.bias")
    assert "0.weight (of shape (3, 4), not (3, 6))" in report.mismatched
    assert not report.missing
    assert model.into_record().keys() == before.keys()
    assert model[0].weight.id == before["0.weight"].id


def test_a_part_is_named_by_a_string(record: Record) -> None:
    wrong: Any = ["model"]
    for read in (record.__getitem__, lambda part: record.report(mlp(), part=part), lambda part: record.part(part, int)):
        with pytest.raises(errors.KindError, match=r"is named by a string, got \['model'\]"):
            read(wrong)
    assert wrong not in record


def test_paths_by_pattern(record: Record) -> None:
    model = Body()
    report = record.report(model, remap={"^": "body."})
    assert report.missing == ("head.weight", "head.bias")
    assert not report.unexpected
    for remap in ({"^": "body."}, [("^", "x."), (r"^x\.", "body.")], lambda path: f"body.{path}"):
        new = record.apply_to(model, remap=remap, strict=False)
        assert same(new.body, record.apply_to(mlp()))
        assert new.head is model.head


def test_paths_left_out(record: Record) -> None:
    model = mlp()
    new = record.apply_to(model, remap=lambda path: path if path.startswith("0.") else None, strict=False)
    assert new[0].weight.id == record.model["0.weight"].id
    assert new[3] is model[3]


def test_groups_of_patterns(record: Record) -> None:
    names = record.report(mlp(), remap={r"^(\d)\.(\w+)$": r"\2.\1"}).unexpected
    assert names[:2] == ("weight.0", "bias.0")


@pytest.mark.parametrize(
    ("remap", "message"),
    [
        ({r"\d": "0"}, "gives 0.weight and 1.weight one path, 0.weight"),
        ({"(": ""}, "not a regular expression"),
        ({"0": r"\1"}, "cannot replace"),
        (lambda path: 3, "returned 3 for 0.weight"),
        (["ab"], "takes regular expressions"),
        ([("a", 1)], "takes regular expressions"),
    ],
)
def test_rules_that_make_no_sense(record: Record, remap: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        record.apply_to(mlp(), remap=remap)


def test_strict_false_takes_what_fits(record: Record) -> None:
    model = mlp(hidden=6)
    new = record.apply_to(model, strict=False)
    assert new[3].bias.id == record.model["3.bias"].id
    assert new[0].weight is model[0].weight


def test_nothing_that_fits_is_an_error(record: Record) -> None:
    with pytest.raises(errors.StateError, match=r"nothing of model in .* fits Linear"):
        record.apply_to(Linear(3, 4, device=NumPy), strict=False)


def test_dtypes(record: Record) -> None:
    double = mlp().astype("float64")
    assert record.apply_to(double)[0].weight.dtype == "float64"
    kept = record.apply_to(double, dtype="file")
    assert same(kept, record.apply_to(mlp()))
    assert kept[0].weight.value.is_require_grad()
    assert double[0].weight.dtype == "float64"
    with pytest.raises(errors.StateError, match=r"0\.weight \(of dtype float32, not float64\)") as raised:
        record.apply_to(double, dtype="exact")
    report: Any = raised.value.report
    assert report.applied == ("1.num_batches_tracked",)
    assert not report.missing
    assert report == record.report(double, dtype="exact")
    partly = record.apply_to(double, dtype="exact", strict=False)
    assert partly[1].num_batches_tracked.id == record.model["1.num_batches_tracked"].id
    assert partly[0].weight is double[0].weight
    half = record.apply_to(double, dtype="float16")
    assert (half[0].weight.dtype, half[1].num_batches_tracked.dtype) == ("float16", "int64")
    part = type(record)({"model": {"0.bias": record.model["0.bias"]}}, "a", True).apply_to(
        double, dtype="float16", strict=False
    )
    assert part[0].weight.value.tolist() == double[0].weight.value.half().tolist()
    for wrong in ("shortest", "int64"):
        with pytest.raises(errors.ArgumentError, match="'model', 'file', 'exact' or a float dtype"):
            record.apply_to(double, dtype=wrong)


def test_a_frozen_model_stays_frozen(record: Record) -> None:
    assert all(param.frozen for param in record.apply_to(mlp().no_grad(), dtype="file").params())


def test_kinds_do_not_mix(tmp_path: Path) -> None:
    save(tmp_path / "a", model={**mlp().into_record(), "1.num_batches_tracked": (None, np.zeros(()))})
    with pytest.raises(errors.RecordError, match="not the result of a module's"):
        load(tmp_path / "a").apply_to(mlp())
    found = mlp().into_record()
    found["1.num_batches_tracked"] = found["1.num_batches_tracked"]._replace(value=np.zeros(()))
    save(tmp_path / "a", model=found)
    with pytest.raises(errors.StateError, match=r"1\.num_batches_tracked \(of dtype float64, not int64\)"):
        load(tmp_path / "a").apply_to(mlp())


def test_one_record_in_two_places_of_a_model_is_told(record: Record) -> None:
    model = Sequential(mlp(), mlp())
    with pytest.raises(errors.StateError, match=r"4 missing|missing: 1"):
        record.apply_to(model, remap={"^": "0."})


def test_the_record_on_another_device(record: Record) -> None:
    plain = record.apply_to(mlp(device=NumPy))
    assert plain.device is NumPy()
    assert same(plain, record.apply_to(mlp()))


def test_ints_that_the_model_has_no_room_for(tmp_path: Path) -> None:
    found = mlp().into_record()
    wide = found["1.num_batches_tracked"]._replace(value=np.array(2**40))
    save(tmp_path / "a", model={**found, "1.num_batches_tracked": wide})
    record, model = load(tmp_path / "a"), mlp()
    model = model.replace({"1.num_batches_tracked": IntBuffer(IntTensor[Train].zeros((), dtype="int32"))})
    with pytest.raises(errors.StateError, match="from 1099511627776 to 1099511627776, which int32 does not hold"):
        record.apply_to(model)
    taken = record.apply_to(model, dtype="file")[1].num_batches_tracked
    assert (taken.value.item(), taken.dtype) == (2**40, np.dtype("int64"))
    assert record.report(model, dtype="file").fits
    assert not record.report(model).fits


def test_what_a_record_is_applied_to(record: Record) -> None:
    wrong: Any
    hints = {
        Linear: r"make a model first",
        Adam(): r"load_record\(record\.optim, model\)",
        None: "the model is the first",
    }
    for wrong, hint in hints.items():
        with pytest.raises(errors.KindError, match=f"weights are loaded into a model, got .*; .*{hint}"):
            record.apply_to(wrong)
    with pytest.raises(errors.KindError, match=r"not a Record; .* write record\.apply_to\(model\)"):
        mlp().load_record(record)  # type: ignore[arg-type]  # which is the point
    with pytest.raises(errors.StateError, match=r"not a Record; nothing was loaded; .* give record\.optim"):
        Adam().load_record(record)  # type: ignore[arg-type]


def test_parts_without_a_name(tmp_path: Path) -> None:
    wrong: Any = save
    for args in ((tmp_path / "a", mlp()), (mlp(), tmp_path / "a"), (mlp(),)):
        with pytest.raises(
            errors.CallError, match=r"the parts to save by name; write save\(path, model=model, step=step\)"
        ):
            wrong(*args)
    assert not (tmp_path / "a").exists()
