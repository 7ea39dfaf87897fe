"""The state of a module: by path, with ids, loaded completely or not at all."""

from __future__ import annotations

import pickle
from typing import Any, TypeVar

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import KindError, ModuleError, StateError
from burnpy.nn import Entry, IntBuffer, Linear, Module, Relu, StateReport
from tests.rows import every_row

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]


class Tied(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.one = Linear(3, 3, device=device)
        self.two = Linear(3, 3, device=device)
        self.head = self.one.weight
        self.count = IntBuffer(IntTensor.zeros((), device=device))


PATHS = ("one.weight", "one.bias", "two.weight", "two.bias", "count")


@pytest.fixture
def model() -> Tied[Any]:
    return Tied(Train)


def values(model: Module[Any]) -> dict[str, Any]:
    return {path: entry.value.tolist() for path, entry in model.state().items()}


def test_the_state_has_every_path_once_with_id_and_untracked_value(model: Tied[Any]) -> None:
    state = model.state()
    assert tuple(state) == PATHS
    assert state["one.weight"].id == model.head.id
    assert not state["one.weight"].value.is_require_grad()
    assert state["one.weight"].value.to_numpy() is not None
    assert np.shares_memory(state["one.weight"].value.to_numpy(), model.head.value.to_numpy())


def test_a_record_is_of_no_device_and_can_be_pickled(model: Tied[Any]) -> None:
    record = pickle.loads(pickle.dumps(model.into_record()))
    assert {type(entry.value) for entry in record.values()} == {np.ndarray}
    assert values(Tied(Train).load_record(record)) == values(model)


@every_row("source", [Train, NumPy], ids=str)
@every_row("target", [Train, NumPy, Autodiff[Train]], ids=str)
def test_loading_brings_values_ids_and_leaves_to_any_device(source: Any, target: Any) -> None:
    model, other = Tied(source), Tied(target)
    result = other.with_state(model.state())
    assert values(result) == values(model) != values(other)
    assert [p.id for p in result.params()] == [p.id for p in model.params()]
    assert result.device is other.device
    assert result.head is result.one.weight
    assert result.head.value.is_require_grad() == (target is not NumPy)


def test_bare_values_and_missing_ids_keep_the_id(model: Tied[Any]) -> None:
    other = Tied(Train)
    bare = {path: entry.value for path, entry in model.into_record().items()}
    assert [p.id for p in other.with_state(bare).params()] == [p.id for p in other.params()]
    nameless = {path: Entry(None, value) for path, value in bare.items()}
    assert values(other.with_state(nameless)) == values(model)
    pairs = {path: (None, value) for path, value in bare.items()}
    assert values(other.with_state(pairs)) == values(model)


def test_values_come_to_the_dtype_of_the_module(model: Tied[Any]) -> None:
    wide = {path: entry.value for path, entry in model.astype("float64").into_record().items()}
    result = model.with_state(wide)
    assert result.head.dtype == np.float32
    assert values(result) == values(model)


def test_any_path_of_what_is_shared_will_do(model: Tied[Any]) -> None:
    state: dict[str, Any] = dict(model.state())
    state["head"] = state.pop("one.weight")
    assert values(Tied(Train).with_state(state)) == values(model)


def spoiled(model: Tied[Any]) -> dict[str, Any]:
    state: dict[str, Any] = dict(model.state())
    del state["one.bias"]
    state["three.weight"] = np.ones(2)
    state["two.weight"] = np.ones((3, 4))
    state["two.bias"] = np.ones(3, np.int64)
    state["count"] = "seven"
    return state


def test_everything_that_does_not_fit_is_reported_at_once_and_nothing_changes(model: Tied[Any]) -> None:
    before = values(model)
    with pytest.raises(StateError) as caught:
        model.with_state(spoiled(model))
    report: Any = caught.value.report
    assert report.applied == ("one.weight",)
    assert report.missing == ("one.bias",)
    assert report.unexpected == ("three.weight",)
    assert report.mismatched == (
        "two.weight (of shape (3, 4), not (3, 3))",
        "two.bias (of dtype int64, not float32)",
        "count (neither tensor nor array: a str)",
    )
    listed = "nothing was loaded: 1 fit; 1 missing: one.bias; 1 unexpected: three.weight; 3 mismatched: two.weight"
    assert listed in str(caught.value)
    assert values(model) == before
    assert model.state_report(spoiled(model)) == report


def test_what_fits_is_taken_where_that_is_asked_for(model: Tied[Any]) -> None:
    other = Tied(Train)
    result = values(other.with_state(spoiled(model), strict=False))
    assert result == {**values(other), "one.weight": values(model)["one.weight"]}


def test_two_parameters_never_come_to_one_id(model: Tied[Any]) -> None:
    state: dict[str, Any] = dict(model.state())
    state["two.weight"] = state["one.weight"]
    with pytest.raises(ModuleError, match=r"would give one\.weight and two\.weight of Tied one id"):
        model.with_state(state)


def test_frozen_parameters_are_loaded_and_stay_frozen(model: Tied[Any]) -> None:
    other = Tied(Train).no_grad("one")
    result = other.with_state(model.state())
    assert values(result) == values(model)
    assert result.head.frozen
    assert not result.head.value.is_require_grad()


def test_ints_that_a_dtype_does_not_hold_are_refused(model: Tied[Any]) -> None:
    narrow = model.replace(count=IntBuffer(IntTensor[Train].zeros((), dtype="int32")))
    for count in (np.array(2**40), IntTensor[NumPy].from_data(2**40), np.array(2**63, np.uint64)):
        with pytest.raises(StateError, match=r"count \(of dtype u?int64 from \d+ to \d+, which int32 does not hold\)"):
            narrow.with_state({**narrow.state(), "count": count})
        assert narrow.with_state({"count": count}, strict=False).count is narrow.count
    for count in (np.array(7), IntTensor[NumPy].from_data(7), np.array(7, np.uint8)):
        result = narrow.with_state({"count": count}, strict=False).count
        assert (result.value.item(), result.dtype) == (7, np.dtype("int32"))


def test_a_report_shows_the_first_paths_of_many() -> None:
    report = StateReport((), tuple(f"a{k}" for k in range(9)), tuple(f"b{k}" for k in range(7)), ())
    assert (
        str(report) == "0 fit; 9 missing: a0, a1, a2, a3, a4, a5 and 3 more; 7 unexpected: b0, b1, b2, b3, b4, b5, b6"
    )


def test_what_is_shared_has_one_value(model: Tied[Any]) -> None:
    weight = np.ones((3, 3), np.float32)
    for paths in (("one.weight", "head"), ("head", "one.weight")):
        result = model.with_state(dict.fromkeys(paths, weight), strict=False)
        assert result.head is result.one.weight
        report = model.state_report(dict(zip(paths, (weight, weight * 2.0), strict=True)))
        assert report.mismatched == (f"{paths[1]} (another value than at {paths[0]}, with which it is one parameter)",)
    undefined = np.full((3, 3), np.nan, np.float32)
    assert model.state_report({"one.weight": undefined, "head": undefined.copy()}).applied == ("one.weight",)


def test_a_state_that_is_none(model: Tied[Any]) -> None:
    for state in (None, 3, [("count", 1)]):
        with pytest.raises(KindError, match="is a mapping by path, not "):
            model.with_state(state)  # type: ignore[arg-type]  # which is the point


def test_a_module_without_values_takes_the_empty_state() -> None:
    assert repr(Relu().with_state({})) == "Relu()"
