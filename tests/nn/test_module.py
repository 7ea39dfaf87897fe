"""Modules are immutable trees: allowed fields, methods that return new modules, and error messages."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, Generator, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    DeviceError,
    DTypeError,
    ImmutableError,
    KindError,
    ModuleError,
    NotTrackedError,
    ShapeError,
)
from burnpy.func import grad, jvp
from burnpy.nn import BoolBuffer, Buffer, IntBuffer, Linear, Module, Param, Relu, Sequential, Stateless, rebound

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]


class Parts(NamedTuple):
    first: Any
    second: Any


class Model(Module[B]):
    """A module with one of everything that a module can store."""

    def __init__(self, device: B | type[B]) -> None:
        first, last = Linear(2, 4, device=device), Linear(4, 1, device=device)
        self.layers: Any = [first, Relu(), last]
        self.named = {"a": Linear(1, 1, device=device), "none": None}
        self.pair = Parts(Param(Tensor.ones((3,), device=device)), 7)
        self.tied = last.weight
        self.again = first
        self.nothing = None
        self.count = IntBuffer(IntTensor.zeros((), device=device))
        self.mask = BoolBuffer(BoolTensor.ones((2,), device=device))
        self.mean = Buffer(Tensor.zeros((4,), device=device))
        self.sizes = [1, 2]
        self.words = {"x": 1, 2: "y"}

    def forward(self, x: Tensor[B], scale: float = 1.0) -> Tensor[B]:
        for layer in self.layers:
            x = layer(x)
        return x * scale


PARAMS = [
    "layers.0.weight",
    "layers.0.bias",
    "layers.2.weight",
    "layers.2.bias",
    "named.a.weight",
    "named.a.bias",
    "pair.first",
]
BUFFERS = ["count", "mask", "mean"]


@pytest.fixture
def model() -> Any:
    return Model(Train)


def ids(model: Module[Any]) -> dict[str, str]:
    return {path: entry.id or "" for path, entry in model.state().items()}


def test_paths_are_in_the_order_of_assignment_and_shared_parameters_are_met_once(model: Any) -> None:
    assert list(model.named_params()) == PARAMS
    assert list(model.named_buffers()) == BUFFERS
    assert list(model.named_modules()) == ["", "layers.0", "layers.1", "layers.2", "named.a"]
    assert model.num_params == 8 + 4 + 4 + 1 + 1 + 1 + 3
    assert len(model.params()) == len(PARAMS)


def test_visit_gives_every_path_and_what_is_held_there(model: Any) -> None:
    seen: dict[str, Any] = {}
    model.visit(seen.__setitem__)
    assert list(seen) == PARAMS + BUFFERS
    assert seen["pair.first"] is model.pair.first


def test_lists_become_tuples_and_dicts_are_closed(model: Any) -> None:
    assert type(model.layers) is tuple
    assert model.sizes == (1, 2)
    assert type(model.pair) is Parts
    changes: list[Callable[[], object]] = [
        lambda: model.named.__setitem__("b", None),
        lambda: model.named.update(b=None),
        lambda: model.named.pop("a"),
        lambda: model.words.clear(),
        lambda: model.words.setdefault("z", 0),
    ]
    for change in changes:
        with pytest.raises(ImmutableError, match="never changes"):
            change()
    assert set(model.named) == {"a", "none"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: setattr(m, "tied", None), r"Model\.tied cannot be assigned to after __init__; model\.replace"),
        (lambda m: setattr(m, "fresh", 1), r"Model\.fresh cannot be assigned to"),
        (lambda m: delattr(m, "tied"), r"Model\.tied cannot be deleted"),
        (lambda m: setattr(m.layers[0], "weight", 1), r"Linear\.weight cannot be assigned to"),
        (lambda m: setattr(m.tied, "value", 1), "a Param never changes: its value cannot be assigned to; optim.step"),
        (lambda m: setattr(m.mean, "value", 1), "a Buffer never changes"),
        (lambda m: delattr(m.tied, "value"), "a Param never changes"),
    ],
)
def test_nothing_can_be_assigned_or_deleted(model: Any, change: Callable[[Any], None], words: str) -> None:
    with pytest.raises(ImmutableError, match=words):
        change(model)


def holding(**fields: Any) -> Module[Any]:
    class Holder(Module[Any]):
        def __init__(self) -> None:
            for name, value in fields.items():
                setattr(self, name, value)

    return Holder()


def itself() -> Module[Any]:
    class Own(Module[Any]):
        def __init__(self) -> None:
            self.inside = Sequential(self)

    return Own()


def plain(*shape: int) -> Tensor[NumPy]:
    return Tensor[NumPy].ones(shape)


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (
            lambda: holding(w=plain(2, 3)),
            ModuleError,
            r"Holder\.w is a bare Tensor of shape \(2, 3\).*Param\(w\) .*Buffer",
        ),
        (lambda: holding(a=[{"b": plain(2)}]), ModuleError, r"Holder\.a\.0\.b is a bare Tensor"),
        (lambda: holding(i=IntTensor[NumPy].zeros((2,))), ModuleError, r"bare IntTensor.*: IntBuffer\("),
        (
            lambda: holding(w=np.ones(3)),
            ModuleError,
            r"Holder\.w is a numpy\.ndarray of shape \(3,\).*Param\(Tensor\.from",
        ),
        (lambda: holding(s={Param(plain(2))}), ModuleError, r"Holder\.s is a set that holds a Param"),
        (lambda: holding(d={"a.b": Param(plain(2))}), ModuleError, r"Holder\.d has the key 'a\.b'"),
        (lambda: holding(d={1: Param(plain(2))}), ModuleError, r"Holder\.d has the key 1"),
        (lambda: holding(train=1), ModuleError, "'train' means something for every module"),
        (lambda: holding(device=NumPy), ModuleError, "'device' means something for every module"),
        (itself, ModuleError, "whose __init__ is not done yet"),
        (
            lambda: holding(a=Param(plain(2)), b=[Param(Tensor[Train].ones((2,)))]),
            DeviceError,
            r"holds a on NumPy and b\.0 on Autodiff\[NumPy\]; a module is on one device",
        ),
        (
            lambda: (lambda layer: holding(one=layer, two=layer.fork()))(Linear(2, 2, device=NumPy)),
            ModuleError,
            r"two parameters of one id, one\.weight and two\.weight.*with_new_ids\(\)",
        ),
    ],
)
def test_what_no_module_can_hold_is_refused_by_its_path(
    made: Callable[[], object], error: type[BurnpyError], words: str
) -> None:
    with pytest.raises(error, match=words):
        made()


def test_plain_values_are_held_as_they_are() -> None:
    result: Any = holding(a=np.float32(2), b="x", c=np.dtype("float32"), d=Generator(0), e=len, f=NumPy, g={1, 2})
    assert result.a == np.float32(2)
    assert result.e is len
    assert result.g == frozenset({1, 2})


def make(cls: Any, value: Any) -> Any:
    """Create a variable from an argument that type checkers reject."""
    return cls(value)


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (lambda: make(Param, IntTensor[NumPy].zeros((2,))), KindError, "holds one Tensor, got an IntTensor"),
        (lambda: make(Buffer, np.ones(3)), KindError, r"Buffer\(\) holds one Tensor, .* an ndarray of shape \(3,\)"),
        (lambda: make(IntBuffer, plain(2)), KindError, "holds one IntTensor"),
        (lambda: Param(Tensor[Train].ones((2,)).require_grad() * 2), NotTrackedError, r"pass value\.detach\(\)"),
        (lambda: Buffer(Tensor[Train].ones((2,)).require_grad()), NotTrackedError, "or make it a Param"),
    ],
)
def test_parameters_and_buffers_say_what_they_take(
    made: Callable[[], object], error: type[BurnpyError], words: str
) -> None:
    with pytest.raises(error, match=words):
        made()


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
    with pytest.raises(ArgumentError, match=r"is not a path in Model and meets none; (close to it is|there is) "):
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
        (lambda w: None, ArgumentError, r"map\(\) of layers\.0\.weight wants a Tensor"),
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


def test_gradients_by_parameter(model: Any) -> None:
    x = Tensor[Train].from_data([[1.0, -2.0]])
    grads = model(x, scale=2.0).sum().backward()
    assert grads[model.tied.value].shape == (4, 1)
    assert grads[model.layers[2].bias.value].tolist() == [2.0]
    assert model.named["a"].weight.value.grad(grads) is None


def test_modules_are_trees_of_func(model: Any) -> None:
    x = Tensor[NumPy].from_data([[1.0, -2.0], [0.5, 3.0]])
    plain_model: Any = model.valid()
    result = grad(lambda m, x: m(x).sum())(plain_model, x)
    grads = model(Tensor[Train].from_inner(x)).sum().backward()
    assert type(result) is Model
    assert result.tied.value.tolist() == grads[model.tied.value].tolist()
    assert result.tied is result.layers[2].weight
    assert result.mean is plain_model.mean
    assert result.pair.first.value.tolist() == [0.0, 0.0, 0.0]
    _, tangent = jvp(lambda m: m(x).sum(), (plain_model,), (result,))
    expected = sum((g.square().sum().item()) for g in grads.values())
    assert tangent.item() == pytest.approx(expected, rel=1e-5)


def test_repr_shows_the_tree(model: Any) -> None:
    shown = repr(model.no_grad("layers.0.bias").eval())
    assert shown.splitlines() == [
        "Model()  22 parameters, 4 of them frozen, eval mode",
        "  layers.0  Linear(2, 4)  12 parameters, 4 of them frozen",
        "    weight  (2, 4)",
        "    bias  (4,) frozen",
        "  layers.1  Relu()",
        "  layers.2  Linear(4, 1)  5 parameters",
        "    weight  (4, 1)",
        "    bias  (1,)",
        "  named.a  Linear(1, 1)  2 parameters",
        "    weight  (1, 1)",
        "    bias  (1,)",
        "  pair.first  (3,)",
        "  tied  is layers.2.weight",
        "  again  is layers.0",
        "  count  () buffer",
        "  mask  (2,) buffer",
        "  mean  (4,) buffer",
    ]


def test_a_module_without_forward_or_device_says_so() -> None:
    class Empty(Module[Any]):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty has no forward\(\)"):
        Empty()()
    with pytest.raises(ModuleError, match="is on no device"):
        _ = Empty().device


def test_an_alias_makes_its_class() -> None:
    layer = Linear[NumPy](2, 3, device=NumPy)
    assert type(layer) is Linear


def test_sequential_goes_by_number() -> None:
    model = Sequential(Linear(2, 3, device=NumPy), Relu(), Linear(3, 1, device=NumPy))
    assert list(model.named_params()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert len(model) == 3
    assert model[0] is model.layers[0]
    assert list(model[1:].named_params()) == ["1.weight", "1.bias"]
    with pytest.raises(ModuleError, match="layer 1, which is no module"):
        Sequential(Relu(), len)  # type: ignore[arg-type]


def test_forks_on_two_threads_meet_by_id(model: Any) -> None:
    result: list[dict[str, Any]] = [{}, {}]
    forks: list[Any] = [model.fork(), model.fork()]

    def run(k: int) -> None:
        fork = forks[k]
        grads = fork(Tensor[Train].full((3, 2), float(k + 1))).sum().backward()
        result[k] = {p.id: grads[p.value] for p in fork.params() if p.value in grads}

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = model(Tensor[Train].from_data([[1.0, 1.0]] * 3 + [[2.0, 2.0]] * 3)).sum().backward()
    for p in model.params():
        if p.value in together:
            total = result[0][p.id] + result[1][p.id]
            np.testing.assert_allclose(total.to_numpy(), together[p.value].to_numpy(), rtol=1e-5)


def test_rebound_is_valid_without_the_line() -> None:
    result: Module[NumPy] = rebound(Model(Train))
    assert result.device is NumPy()


def test_importing_burnpy_leaves_modules_out() -> None:
    code = "import sys, burnpy; print(any(name.startswith(('burnpy.nn', 'burnpy.func')) for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_module_in_construction_has_no_parameters_to_show() -> None:
    class Early(Module[Any]):
        def __init__(self, ask: Callable[[Any], object]) -> None:
            self.layer = Linear(2, 3, device=Train)
            ask(self)

    for ask in (
        lambda m: m.params(),
        lambda m: m.device,
        lambda m: m.num_params,
        lambda m: m.is_training,
        lambda m: m.named_modules(),
    ):
        with pytest.raises(ModuleError, match="Early has no parameters, modules or device before its __init__"):
            Early(ask)
    assert "under construction" in repr_during(Early)


def repr_during(cls: Any) -> str:
    """The repr of a module within its ``__init__``."""
    shown: list[str] = []
    cls(lambda module: shown.append(repr(module)))
    return shown[0]
