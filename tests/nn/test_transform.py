"""Methods of modules that return a new one: modes, freezing, moving, mapping, replacing, and new values."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, compiled
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    DeviceError,
    DTypeError,
    KindError,
    ModuleError,
    NotTrackedError,
    ShapeError,
)
from burnpy.func import grad
from burnpy.nn import Linear, Relu, Stateless
from tests.nn.full_model import PARAMS, Model, holding, ids, plain

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]


SAME = {
    "valid": lambda m: m.valid(),
    "fork": lambda m: m.fork(),
    "fork to a plain device": lambda m: m.fork(NumPy),
    "to_device": lambda m: m.to_device(NumPy),
    "to_device and back": lambda m: m.to_device(NumPy).to_device(Train),
    "to a deeper device": lambda m: m.to_device(Autodiff[Train]),
    "train": lambda m: m.train(),
    "no_grad": lambda m: m.no_grad(),
    "require_grad": lambda m: m.no_grad().require_grad(),
    "map": lambda m: m.map(lambda w: w * 1.0),
    "astype": lambda m: m.astype("float64").astype("float32"),
    "replace": lambda m: m.replace(nothing=3),
    "with_values": lambda m: m.with_values({m.tied.id: m.tied.value.inner()}),
    "with_state": lambda m: m.with_state(m.state()),
    "record": lambda m: m.load_record(m.into_record()),
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_ids_values_sharing_and_the_old_model_survive(model: Any, change: Callable[[Any], Any]) -> None:
    before = {path: entry.value.tolist() for path, entry in model.state().items()}
    result = change(model)
    assert type(result) is Model
    assert ids(result) == ids(model)
    assert {path: entry.value.tolist() for path, entry in result.state().items()} == before
    assert result.tied is result.layers[2].weight
    assert result.again is result.layers[0]
    assert result.words == {"x": 1, 2: "y"}
    assert model.device is Train.device()
    assert all(p.value.is_require_grad() for p in model.params())


def test_valid_shares_memory_and_records_nothing(model: Any) -> None:
    valid: Any = model.valid()
    assert valid.device is NumPy()
    assert np.shares_memory(valid.tied.value.to_numpy(), model.tied.value.to_numpy())
    assert not valid(plain(3, 2)).is_require_grad()
    with pytest.raises(NotTrackedError, match=r"valid\(\) got a Model on NumPy"):
        valid.valid()


def test_valid_peels_one_level() -> None:
    model: Any = Model(Autodiff[Train]).valid()
    assert model.device is Train.device()
    assert model.tied.value.is_require_grad()
    assert model.valid().device is NumPy()


def test_a_fork_has_leaves_of_its_own_in_the_same_memory(model: Any) -> None:
    fork: Any = model.fork()
    x = Tensor[Train].ones((3, 2))
    grads = fork(x).sum().backward()
    assert fork.tied.value in grads
    assert model.tied.value not in grads
    assert np.shares_memory(fork.tied.value.to_numpy(), model.tied.value.to_numpy())


def test_moving_to_the_device_it_is_on_is_the_module_itself(model: Any) -> None:
    assert model.to_device(Train) is model


def test_on_a_plain_device_and_back_gives_leaves(model: Any) -> None:
    back: Any = model.to_device(NumPy).to_device(Train)
    assert back.tied.value.is_require_grad()
    assert back.tied.value in back(Tensor[Train].ones((3, 2))).sum().backward()


@pytest.mark.parametrize(
    ("where", "frozen"),
    [
        (None, set(PARAMS)),
        ("layers", {p for p in PARAMS if p.startswith("layers")}),
        ("layers.0.bias", {"layers.0.bias"}),
        ("*.bias", {p for p in PARAMS if p.endswith("bias")}),
        (["pair", "named.a"], {"pair.first", "named.a.weight", "named.a.bias"}),
        ("tied", {"layers.2.weight"}),
        (lambda path, p: len(p.shape) == 2, {p for p in PARAMS if p.endswith("weight")}),
    ],
)
def test_freezing_by_path_pattern_or_function(model: Any, where: Any, frozen: set[str]) -> None:
    result = model.no_grad(where)
    assert {path for path, p in result.named_params().items() if p.frozen} == frozen
    grads = (result(Tensor[Train].ones((3, 2))).sum() + result.pair.first.value.sum()).backward() if where else None
    for path, p in result.named_params().items():
        assert p.value.is_require_grad() == (path not in frozen)
        if grads is not None and path not in frozen and "named" not in path:
            assert p.value in grads
    assert not any(p.frozen for p in result.require_grad(where).params())


def test_what_is_frozen_stays_so_through_other_methods(model: Any) -> None:
    frozen = model.no_grad("tied")
    for change in SAME.keys() - {"no_grad", "require_grad"}:
        result = SAME[change](frozen)
        assert {path for path, p in result.named_params().items() if p.frozen} == {"layers.2.weight"}, change
        assert not result.tied.value.is_require_grad()


@pytest.mark.parametrize("where", ["layer.0", "*.biases", ["layers", "nope"]])
def test_paths_that_meet_nothing_are_named_with_those_that_are_close(model: Any, where: Any) -> None:
    with pytest.raises(ArgumentError, match=r"is not a path in Model and matches none; (close to it is|there is) "):
        model.no_grad(where)


def test_train_and_eval_override_the_device_everywhere(model: Any) -> None:
    assert model.is_training
    assert not model.valid().is_training
    assert not model.eval().is_training
    assert not model.eval().layers[0].is_training
    assert model.eval().train(None).is_training
    assert model.valid().train().is_training
    assert not pickle.loads(pickle.dumps(model.eval())).is_training
    assert not model.eval().fork().is_training
    x = Tensor[Train].ones((1,))
    assert Relu().trains_on(x)
    assert not Relu().eval().trains_on(x)
    assert not Relu().trains_on(x.inner())
    device: Any = x.device
    with pytest.raises(KindError, match="Relu takes a tensor as its input, got Autodiff"):
        Relu().trains_on(device)
    pair: Any = (x, [x])
    with pytest.raises(
        KindError, match="got a tuple of Tensor, list"
    ):  # as from a recurrent layer, also in a recording
        compiled(Relu().trains_on)(pair)


def test_a_derivative_of_func_is_no_training() -> None:
    seen: list[bool] = []

    class Spy(Stateless):
        def forward(self, x: Tensor[B]) -> Tensor[B]:
            seen.append(self.trains_on(x))
            return x

    grad(lambda x: Spy()(x).sum())(plain(2))
    grad(lambda x: Spy()(x).sum())(Tensor[Train].ones((2,)))
    assert seen == [False, True]


def test_map_changes_parameters_and_leaves_buffers(model: Any) -> None:
    calls: list[tuple[int, ...]] = []

    def doubled(w: Tensor[Any]) -> Tensor[Any]:
        calls.append(w.shape)
        assert not w.is_require_grad()
        return w * 2.0

    result = model.map(doubled)
    assert len(calls) == len(PARAMS), "a shared parameter is mapped once"
    assert result.pair.first.value.tolist() == [2.0, 2.0, 2.0]
    assert result.mean.value.tolist() == [0.0] * 4
    assert result.tied.value.is_require_grad()
    assert model.map(lambda w: w * 2.0, "pair").tied is model.tied


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda w: w.sum(), ShapeError, r"map\(\) got shape \(\) for layers\.0\.weight, which has shape \(2, 4\)"),
        (
            lambda w: w.inner(),
            DeviceError,
            r"map\(\) got a tensor on NumPy for layers\.0\.weight, which is on Autodiff\[NumPy\]",
        ),
        (lambda w: None, ArgumentError, r"map\(\) expected a Tensor from its function for layers"),
    ],
)
def test_map_says_what_its_function_did_wrong(model: Any, f: Any, error: type[BurnpyError], words: str) -> None:
    with pytest.raises(error, match=words):
        model.map(f)


def test_astype_casts_floats_only(model: Any) -> None:
    result = model.astype("float64")
    assert {p.dtype.name for p in result.params()} == {"float64"}
    assert result.mean.dtype == np.float64
    assert result.count.dtype == np.int64
    assert result.tied.value.is_require_grad()
    with pytest.raises(DTypeError):
        model.astype("int64")


def test_replace_at_paths(model: Any) -> None:
    head = Linear(4, 3, device=Train)
    result = model.replace({"layers.2": head, "named.none": Relu()}, sizes=[3])
    assert result.layers[2] is head
    assert result.tied is model.tied
    assert result(Tensor[Train].ones((5, 2))).shape == (5, 3)
    assert isinstance(result.named["none"], Relu)
    assert result.sizes == (3,)
    assert model.layers[2] is not head
    assert list(result.named_params())[2:4] == ["layers.2.weight", "layers.2.bias"]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        (
            {"layers.7": None},
            ArgumentError,
            r"the path 'layers\.7', which Model does not have; close to it is layers\.",
        ),
        ({"layers.0.weigth": None}, ArgumentError, r"close to it is layers\.0\.weight"),
        ({"fresh": 1}, ArgumentError, "which Model does not have"),
        ({"tied": plain(2)}, ModuleError, "bare Tensor"),
        ({"layers.0.weight": 3}, ModuleError, "got 3 for a Param; expected a Param, a module or None"),
        ({"named.a": Linear(1, 1, device=NumPy)}, DeviceError, r"named\.a\.weight on NumPy"),
    ],
)
def test_replace_says_what_is_wrong(model: Any, fields: dict[str, Any], error: type[BurnpyError], words: str) -> None:
    with pytest.raises(error, match=words):
        model.replace(fields)


def test_new_ids_let_a_copy_stand_beside_the_original(model: Any) -> None:
    layer = Linear(2, 2, device=Train)
    both: Any = holding(student=layer, teacher=layer.with_new_ids().no_grad())
    assert both.teacher.weight.frozen
    assert not both.student.weight.frozen
    assert both.num_params == 12


def test_with_values_takes_inner_tensors_and_makes_leaves(model: Any) -> None:
    result = model.with_values({model.tied.id: plain(4, 1), model.count.id: IntTensor[NumPy].full((), 3)})
    assert result.tied.value.tolist() == [[1.0]] * 4
    assert result.tied.value.is_require_grad()
    assert result.count.value.item() == 3
    assert result.layers[0] is model.layers[0], "what did not change is the same object"


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        (lambda m: {"0" * 16: plain(1)}, ModuleError, "the id 0000000000000000, which Model does not hold"),
        (lambda m: {m.tied.id: plain(1, 4)}, ShapeError, r"for layers\.2\.weight, which is of shape \(4, 1\)"),
        (lambda m: {m.tied.id: plain(4, 1).double()}, ShapeError, "dtype float64 for layers"),
    ],
)
def test_with_values_says_what_does_not_fit(model: Any, values: Any, error: type[BurnpyError], words: str) -> None:
    with pytest.raises(error, match=words):
        model.with_values(values(model))
