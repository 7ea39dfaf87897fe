"""Modules are immutable trees: what they store, and error messages."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import (
    BurnpyError,
    CallError,
    DeviceError,
    ImmutableError,
    KindError,
    ModuleError,
    NotTrackedError,
)
from burnpy.func import grad, jvp
from burnpy.nn import Buffer, IntBuffer, Linear, Module, Param, Relu, Sequential, rebound
from tests.nn.full_model import BUFFERS, PARAMS, Model, Parts, holding, plain
from tests.rows import every_row

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]


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
    assert isinstance(model.layers, tuple)
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


def itself() -> Module[Any]:
    class Own(Module[Any]):
        def __init__(self) -> None:
            self.inside = Sequential(self)

    return Own()


def test_a_module_may_define_how_notebooks_show_it() -> None:
    class Shown(Module[NumPy]):
        def _repr_html_(self) -> str:
            return "<b>shown</b>"

    assert Shown()._repr_html_() == "<b>shown</b>"


class Encoder(Module[Any], ABC):
    """A base class of other code, with an abstract method."""

    def __init__(self) -> None:
        self.layer = Linear(2, 2, device=NumPy)

    @abstractmethod
    def width(self) -> int: ...


class Wide(Encoder):
    def width(self) -> int:
        return 64


def test_modules_may_be_abstract() -> None:
    wide = Wide()
    assert isinstance(wide, Encoder)
    assert wide.width() == copy.deepcopy(wide).width() == pickle.loads(pickle.dumps(wide)).width() == 64
    abstract: Any = Encoder
    with pytest.raises(CallError, match="Encoder is abstract; make a subclass of it, with width"):
        abstract()


@every_row(
    "made, error, words",
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
        (lambda: holding(train=1), ModuleError, "'train' has a meaning in its base class"),
        (lambda: holding(device=NumPy), ModuleError, "'device' has a meaning in its base class"),
        (
            lambda: type("Coupling", (Module,), {"_parts": len}),
            ModuleError,
            "its base class, which is burnpy's, has a private _parts",
        ),
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
    with pytest.raises(ModuleError, match="layer 1, which is not a module"):
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
