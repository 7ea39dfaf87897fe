"""Error messages for parts without a path, for wrong constructor arguments, and for PyTorch's names."""

from __future__ import annotations

import array
import functools
import inspect
import pickle
import re
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, Tensor, func
from burnpy.backend import NumPy, errors
from burnpy.hints import torch_functions, torch_packages, wrong_calls
from burnpy.hints.missing_names import parsed
from burnpy.nn import Linear, Module, Relu, Sequential, Stateless, functional
from tests.nn import every_layer
from tests.rows import every_row

Train = Autodiff[NumPy]
nn: Any = burnpy.nn  # untyped, for wrong calls
optim: Any = burnpy.optim
transforms: Any = burnpy.data.transforms


@dataclass
class Config:
    """A plain object."""

    size: int
    part: Any = None


@dataclass(frozen=True, slots=True)
class Slots:
    """An object without a ``__dict__``."""

    part: Any


class Holder(Module[Any]):
    """A module with one field of any kind."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.layer = Linear(2, 2, device=Train)
        self.field = make(self)

    def helper(self) -> None:
        """A method."""


LAYER = Linear(2, 2, device=Train)


def returning(x: Any) -> Any:
    return lambda: x


HIDDEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "deque": (lambda self: deque([LAYER]), "is a deque, which can change or be exhausted"),
    "generator": (lambda self: (LAYER for _ in range(2)), "is a generator, which can change"),
    "numbers": (lambda self: array.array("d", [1.0]), "of numbers a Buffer"),
    "bytearray": (lambda self: bytearray(3), "is a bytearray"),
    "method of a part": (lambda self: LAYER.forward, "is a method that keeps a Linear"),
    "method of itself": (lambda self: self.helper, "is a method that keeps a Holder"),
    "partial": (
        lambda self: functools.partial(LAYER.forward, Tensor[Train].ones((2,))),
        "is a partial that keeps a Linear",
    ),
    "argument of a partial": (lambda self: functools.partial(max, LAYER), "is a partial that keeps a Linear"),
    "closure": (lambda self: lambda x: self.layer(x), "is a function that keeps a Holder"),
    "attribute": (lambda self: Config(2, LAYER), "is a Config that keeps a Linear as part, where it has no path"),
    "list in an attribute": (lambda self: Config(2, [LAYER]), "is a Config that keeps a Linear as part, where"),
    "dict in a closure": (lambda self: returning({"a": LAYER}), "is a function that keeps a Linear"),
    "attribute of an attribute": (
        lambda self: Config(2, Config(2, LAYER)),
        "is a Config that keeps a Linear as part.part",
    ),
    "slot": (lambda self: Slots(Tensor[Train].ones((2,))), "is a Slots that keeps a Tensor as part"),
    "in a list in a dict": (lambda self: {"a": [Config(2, LAYER)]}, r"Holder\.field\.a\.0 is a Config that keeps"),
}


@every_row("name", HIDDEN)
def test_parts_without_a_path_are_refused(name: str) -> None:
    make, message = HIDDEN[name]
    with pytest.raises(errors.ModuleError, match=message):
        Holder(make)


@every_row(
    "value", [Config(2), lambda x: x, functools.partial(max, 1), re.compile("a"), Config, len, Tensor.relu, range(3)]
)
def test_what_keeps_no_part_may_be_held(value: Any) -> None:
    assert Holder(lambda self: value).field is value


def test_a_module_has_no_slots() -> None:
    with pytest.raises(errors.ModuleError, match="Slotted has __slots__"):

        @dataclass(slots=True)
        class Slotted(Module[Any]):
            layer: Any


def test_a_property_that_reads_a_missing_attribute_names_it() -> None:
    class Reading(Module[Any]):
        @property
        def size(self) -> Any:
            return self.length  # type: ignore[attr-defined]  # it is missing

        @functools.cached_property
        def _half(self) -> Any:
            return self.size / 2

    for name in ("size", "_half"):
        with pytest.raises(errors.MissingNameError, match="Reading has no length"):
            getattr(Reading(), name)
        assert not hasattr(Reading(), name)


CALLS: list[tuple[Callable[..., Any], str]] = [
    (
        lambda: nn.Linear(2, 3),
        r"Linear\(\) is missing the argument device; device= says where it is: NumPy, or Autodiff\[NumPy\]",
    ),
    (lambda: nn.Linear(2, device=NumPy), r"Linear\(\) is missing the argument out_features"),
    (lambda: nn.Linear(2, 3, dtype="float64", device=NumPy), r"does not take dtype; .*model\.astype\(dtype\)"),
    (lambda: nn.Linear(2, 3, in_features=4, device=NumPy), r"got in_features twice"),
    (
        lambda: nn.Conv2d(1, 2, 3, 1, 1, device=NumPy),
        r"takes in_channels, .* by position, but got 5 .*: stride=,",
    ),
    (lambda: nn.MaxPool2d(2, 2), r"MaxPool2d\(\) takes kernel_size by position, but got 2 values; .* stride=,"),
    (
        lambda: nn.ConvTranspose2d(1, 2, 3, padding_mode="reflect", device=NumPy),
        r"does not take padding_mode; .*always zeros",
    ),
    (lambda: nn.Lstm(2, 3, num_layers=2, device=NumPy), r"Lstm\(\) does not take num_layers; it is called count here"),
    (lambda: nn.Lstm(2, 3, dropuot=2, device=NumPy), r"Lstm\(\) does not take dropuot; did you mean dropout\?"),
    (lambda: nn.Embedding(2, 3, max_norm=1.0, device=NumPy), "rows are never renormalized"),
    (lambda: nn.CrossEntropyLoss(weight=1), "pass it in the call"),
    (lambda: nn.Relu(inplace=True), "nothing is changed in place"),
    (lambda: nn.Module(Train), r"Module\(\) got 1 values, and has no __init__"),
    (
        lambda: optim.Adam(1e-3),
        r"takes nothing by position, but got 1 value; .*optim\.step\(1e-3, model, grads\)",
    ),
    (lambda: optim.Adam(lr=1e-3), r"Adam\(\) does not take lr; pass the rate to each step"),
    (lambda: optim.Sgd(foreach=True), "updates are always fused"),
    (lambda: optim.CosineLr(0.1, T_max=10), r"CosineLr\(\) does not take T_max; it is called steps here"),
    (lambda: optim.StepLr(0.1), r"StepLr\(\) is missing the argument every"),
    (lambda: optim.LinearLr(0.1, 0.2, 3, 4), r"takes start, end, steps by position, but got 4 values"),
    (lambda: optim.Sgd(momentun=0.9), r"does not take momentun; did you mean momentum\?"),
]


@every_row("call", CALLS, ids=lambda call: "")
def test_a_call_that_is_none_says_what_is_wrong(call: tuple[Callable[..., Any], str]) -> None:
    make, message = call
    with pytest.raises(errors.CallError, match=message) as raised:
        make()
    assert isinstance(raised.value, TypeError)


def test_a_type_error_inside_of_an_init_stays_what_it_is() -> None:
    class Wrong(Module[Any]):
        def __init__(self, device: Any) -> None:
            len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)") as raised:
        Wrong(NumPy)
    assert not isinstance(raised.value, errors.BurnpyError)


@every_row(
    "module, name, message",
    [
        (burnpy.nn, "ReLU", "burnpy.nn has no ReLU; write Relu$"),
        (burnpy.nn, "BatchNorm2d", "write BatchNorm$"),
        (burnpy.nn, "ModuleList", "a list, as a field"),
        (burnpy.nn, "RReLU", "burnpy.nn has no RReLU; write LeakyRelu .*random slopes"),
        (burnpy.nn, "Nothing", "burnpy.nn has no Nothing$"),
        (burnpy.optim, "SGD", "write Sgd$"),
        (burnpy.optim, "CosineAnnealingLR", "write CosineLr$"),
        (functional, "relu", r"burnpy\.nn\.functional has no relu, which is a method: x\.relu\(\)"),
        (functional, "rrelu", "not here yet$"),
        (functional, "multi_head_attention_forward", r"write burnpy\.nn\.MultiHeadAttention$"),
        (functional, "cross_entrpy", r"did you mean cross_entropy\?"),
    ],
)
def test_pytorchs_names_lead_to_ours(module: Any, name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(module, name)
    assert not hasattr(module, "__wrapped__")


def test_every_name_that_is_hinted_at_exists() -> None:
    for package, table in (
        ("nn", torch_packages.NN),
        ("nn.init", torch_packages.INIT),
        ("optim", torch_packages.OPTIM),
        ("models", torch_packages.MODELS),
        ("train", torch_packages.TRAIN),
    ):
        for row in parsed(table).values():
            assert not re.fullmatch(r"\w+", row.ours) or hasattr(attrgetter(package)(burnpy), row.ours), row
    classes = [
        owner
        for part in (nn, optim, transforms)
        for name in part.__all__
        if isinstance(owner := getattr(part, name), type)
    ]
    owners = {
        cls: [owner for owner in classes if cls in map(attrgetter("__name__"), owner.__mro__)]
        for cls in torch_functions.ARGUMENTS
    }
    for cls, names in torch_functions.ARGUMENTS.items():
        for hint in names.values():
            called = re.fullmatch("it is called (.*) here", hint)
            assert owners[cls], cls
            if called and cls != "Optimizer":
                assert any(called[1] in inspect.signature(owner).parameters for owner in owners[cls]), hint


@every_row("cls", [getattr(part, name) for part in (nn, optim, transforms) for name in part.__all__])
def test_no_argument_that_is_taken_is_said_not_to_be(cls: Any) -> None:
    if isinstance(cls, type):
        assert not {*wrong_calls.arguments_of(cls)} & {*getattr(vars(cls).get("__init__"), "__annotations__", {})}


WORDS = Tensor[Train].ones((2, 3, 8))
words: Any = WORDS  # untyped, for wrong calls


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda attend: attend(WORDS, mask=BoolTensor[Train].ones((2, 3, 3))), errors.ShapeError, r"mask\[:, None\]"),
        (lambda attend: attend(WORDS, key_mask=WORDS[:, :, 0]), errors.KindError, "takes a BoolTensor of shape"),
        (lambda attend: attend(WORDS, key_mask=BoolTensor[Train].ones((3,))), errors.ShapeError, r"shape \(3,\)"),
    ],
)
def test_masks_that_could_mean_something_else(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(nn.MultiHeadAttention(8, 2, device=Train))


def test_an_lstm_takes_a_plain_pair_as_state() -> None:
    lstm, x = nn.Lstm(8, 4, device=Train), WORDS
    zeros = Tensor[Train].zeros((1, 2, 4))
    assert lstm(x, (zeros, zeros))[0].tolist() == lstm(x)[0].tolist()
    for state in ((zeros,), zeros, (1, 2)):
        with pytest.raises(errors.KindError, match=r"LstmState\(hidden, cell\), got a"):
            lstm(x, state)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Dropout("a"), "a probability"),
        (lambda: nn.BatchNorm(2, momentum="a", device=NumPy), "from 0 to 1, or None"),
        (lambda: nn.LayerNorm((), device=NumPy), "at least one size"),
        (lambda: nn.LayerNorm(64 / 2, device=NumPy), r"normalized_shape=32\.0; expected a positive int"),
        (lambda: nn.HuberLoss(delta="1"), r"HuberLoss\(\) got delta='1'; expected a number"),
        (lambda: nn.CrossEntropyLoss(label_smoothing=None), "label_smoothing=None; expected a number"),
        (lambda: nn.Embedding(3, 4, padding_idx=(0,), device=NumPy), r"padding_idx=\(0,\); expected an int"),
        (lambda: nn.Linear(2, 2, initializer=0.1, device=NumPy), r"initializer=0\.1; expected an initializer, such as"),
        (
            lambda: nn.TransformerEncoder(2, 8, 2, norm=LAYER, device=NumPy),
            r"norm=Linear\(.*; expected True, False or None",
        ),
        (lambda: nn.MultiHeadAttention(8, 2, q_norm=True, device=NumPy), "got q_norm=True; expected a layer"),
        (lambda: nn.LinearScaling("2"), "got factor=.2.; expected a number"),
        (lambda: nn.QuantizedLinear(8), "got linear=8; expected a LinearLayer"),
        (
            lambda: nn.functional.layer_norm(WORDS, 8.0),
            r"layer_norm\(\) got normalized_shape=8\.0; expected an int or a list of ints",
        ),
        (lambda: words.std(correction="0"), r"std\(\) got correction='0'; expected a number"),
        (
            lambda: burnpy.distributions.Mixture(words, words),
            "got weights=a Tensor of shape .*; expected a Categorical",
        ),
        (lambda: nn.Conv2d(1, 2, 3, padding="half", device=NumPy), 'expected a number, "same" or "valid"'),
        (lambda: nn.Conv2d(1, 2, 3, padding="same", stride=2, device=NumPy), "a stride of 1"),
    ],
)
def test_settings_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        make()


def test_an_attribute_that_a_users_argument_lacks_is_the_users_error() -> None:
    class Settings:
        pass

    class Net(Module[NumPy]):
        def __init__(self, settings: Settings) -> None:
            self.layer = Linear(settings.width, 1, device=NumPy)  # type: ignore[attr-defined]  # which is the point

    with pytest.raises(AttributeError, match="'Settings' object has no attribute 'width'"):
        Net(Settings())
    with pytest.raises(errors.ArgumentError, match=r"Net\(\) got settings=3; expected a Settings"):
        Net(3)  # type: ignore[arg-type]  # which is the point


def test_sequential_says_how_it_is_called() -> None:
    with pytest.raises(errors.ModuleError, match=r"Sequential\(\*layers\)"):
        Sequential([Relu()])  # type: ignore[arg-type]  # which is the point
    with pytest.raises(errors.IndexRangeError, match="index 3 is out of range for a Sequential of 2 layers"):
        Sequential(Relu(), Relu())[3]


@every_row(
    "owner, name, message",
    [
        (LAYER, "parameters", r"Linear has no parameters; use model\.params\(\)"),
        (LAYER, "state_dict", r"model\.into_record\(\)"),
        (LAYER, "to", r"model\.to_device\(device\)"),
        (LAYER, "to_dtype", r"Linear has no to_dtype; use model\.astype\(dtype\)"),
        (LAYER, "wieght", r"Linear has no wieght; did you mean weight\?"),
        (LAYER, "nothing_like_it", "Linear has no nothing_like_it$"),
        (Sequential(Relu()), "append", r"Sequential\(\*model, layer\)"),
        (burnpy.optim.Adam(), "zero_grad", r"Adam has no zero_grad; gradients are not stored"),
        (burnpy.optim.Adam(), "param_groups", "pass the rate to each step"),
        (LAYER.weight, "dim", r"Param has no dim; with x = param\.value write x\.ndim"),
        (LAYER.weight, "grad", r"Param has no grad; .*loss\.backward\(\) returns them"),
        (LAYER.weight, "relu", r"Param has no relu, but its tensor has: \.value\.relu"),
        (LAYER.weight, "rleu", "Param has no rleu"),
    ],
)
def test_attributes_that_there_are_not(owner: Any, name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message) as raised:
        getattr(owner, name)
    assert "Did you mean" not in "".join(traceback.format_exception(raised.value))
    assert not hasattr(owner, "__cuda_array_interface__")


def test_a_param_is_no_array() -> None:
    with pytest.raises(errors.KindError, match=r"a Param is not an array .* \.value"):
        np.asarray(LAYER.weight)


@pytest.mark.parametrize("mode", [1, "yes", 0.0])
def test_modes_that_are_none(mode: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=r"train\(\) got mode=.*; expected True, False or None"):
        LAYER.train(mode)


@pytest.mark.parametrize("where", [3, LAYER.weight, [3], {"weight": 1}])
def test_what_is_meant_is_said_by_path_or_function(where: Any) -> None:
    for choose in (LAYER.no_grad, LAYER.require_grad, lambda where: LAYER.map(lambda w: w, where)):
        with pytest.raises(errors.ArgumentError, match="takes a path, a pattern, several of these, or a function"):
            choose(where)


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (Linear, ["in_features", "out_features", "bias", "device", "initializer", "generator"]),
        (Relu, []),
        (
            burnpy.optim.Sgd,
            ["weight_decay", "maximize", "groups", "master_weights", "momentum", "dampening", "nesterov"],
        ),
        (burnpy.optim.CosineLr, ["lr", "steps", "end"]),
    ],
)
def test_a_class_shows_how_it_is_called(cls: Any, names: list[str]) -> None:
    assert list(inspect.signature(cls).parameters) == names


X = Tensor[Train].ones((2, 2))
PLAIN: Any = LAYER  # untyped, for wrong calls
F: Any = functional


@every_row(
    "call, message",
    [
        (lambda: PLAIN(X, X), r"^Linear\.forward\(\) takes x by position, but got 2 values$"),
        (lambda: PLAIN(), r"^Linear\.forward\(\) is missing the argument x$"),
        (lambda: PLAIN(input=X), r"^Linear\.forward\(\) does not take input; it is called x here$"),
        (
            lambda: nn.MultiHeadAttention(2, 1, device=Train)(X[None], attn_mask=None),
            "attn_mask; it is called mask here",
        ),
        (lambda: nn.Sequential(PLAIN, nn.MseLoss())(X), r"^MseLoss\.forward\(\) is missing the argument target"),
        (lambda: PLAIN.valid(X), r"^valid\(\) takes nothing by position, but got 1 value$"),
        (lambda: PLAIN.to_device(foo=1), r"^to_device\(\) does not take foo; it takes device$"),
        (lambda: PLAIN.fork(NumPy, 1), r"^fork\(\) takes device by position"),
        (lambda: PLAIN.replace({}, {}), r"^replace\(\) takes fields by position, but got 2 values$"),
        (lambda: nn.BatchNorm(2, device=Train).updated(), r"^updated\(\) is missing the argument updates"),
        (lambda: nn.MaxPool2d(2).with_indices(), r"^with_indices\(\) is missing the argument x"),
    ],
)
def test_calls_of_modules_and_their_methods_that_are_none(call: Any, message: str) -> None:
    with pytest.raises(errors.CallError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.linear(X, None),
            errors.KindError,
            r"^linear\(\) takes a float Tensor as weight, got None",
        ),
        (lambda: F.dropout(None), errors.KindError, r"^dropout\(\) takes a float Tensor as x, got None"),
        (lambda: F.scaled_dot_product_attention(X, None, X), errors.KindError, "as key, got None"),
        (
            lambda: F.conv2d(X[None, None], X[None, None], groups="a"),
            errors.ArgumentError,
            "groups='a'; expected an int",
        ),
    ],
)
def test_what_cannot_be_left_out_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


class Foreign:
    """A tensor of another library: it has a shape, and methods with the names of burnpy's."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ndim, self.dtype, self.device = shape, len(shape), np.dtype("float32"), "cpu"

    def __dlpack__(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name[0] == "_":
            raise AttributeError(name)
        return lambda *args, **kwargs: self


@every_row("name", [name for name in every_layer.EVERY if name != "Identity"])
def test_layers_refuse_the_tensors_of_other_libraries(name: str) -> None:
    given = every_layer.inputs(name, Train)
    foreign = [Foreign(given[0].shape), *given[1:]]
    with pytest.raises(errors.BurnpyError, match=r"(got|takes).*Foreign"):
        every_layer.made(name, Train)(*foreign)


@pytest.mark.parametrize("layer", [Relu(), nn.Tanh(), nn.Softmax(1), nn.Flatten(), nn.Gelu(), nn.Dropout(), nn.Linear])
def test_the_conversion_is_named(layer: Any) -> None:
    layer = layer(3, 2, device=Train) if layer is nn.Linear else layer
    for given in (np.ones((2, 3)), [1.0], Foreign((2, 3))):
        with pytest.raises(
            errors.BurnpyError, match=r"make one of it first: Tensor.from_data\(values, device=device\)"
        ):
            layer(given)


@every_row("name", every_layer.EVERY)
def test_every_method_explains_wrong_arguments(name: str) -> None:
    module = every_layer.made(name, Train)
    methods = [method for method in dir(type(module)) if inspect.isfunction(getattr(type(module), method))]
    for method in [
        getattr(module, each) for each in methods if each[0] != "_" and each not in ("forward", "torch_names")
    ]:
        with pytest.raises(errors.CallError):
            method(*range(9))
    for method in (module, module.valid, module.state, module.eval):
        with pytest.raises(errors.CallError, match="does not take foo"):
            method(foo=1)


def test_a_type_error_inside_of_forward_stays_what_it_is() -> None:
    class Wrong(Stateless):
        def forward(self, x: Any) -> Any:
            return len(x.ndim)

        def valid(self) -> Any:
            return len(3)  # type: ignore[arg-type]

    for call in (lambda: Wrong()(X), lambda: nn.Sequential(Wrong())(X), lambda: Wrong().valid()):
        with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)") as raised:
            call()
        assert not isinstance(raised.value, errors.BurnpyError)


def test_arithmetic_with_a_parameter() -> None:
    weight: Any = LAYER.weight
    mistakes: list[Callable[[], Any]] = [
        *(lambda: weight + 1, lambda: 2.0 * weight, lambda: -weight, lambda: weight[0], lambda: weight @ weight),
        *(lambda: weight > 0, lambda: abs(weight), lambda: 1 / weight, lambda: [*weight]),
    ]
    for mistake in mistakes:
        with pytest.raises(
            errors.KindError, match=r"a Param of shape \(2, 2\) is not a tensor but holds one; write its \.value"
        ):
            mistake()


def test_other_libraries_arrays_and_parameters_in_place_of_tensors() -> None:
    x: Any
    theirs = type("Tensor", (), {"__module__": "torch"})()
    for x, words in (
        (theirs, r"as x, got a torch\.Tensor; make one of it first: Tensor\.from_data"),
        (np.ones((2, 2)), r"as x, got an ndarray; make one of it first: Tensor\.from_data"),
        (LAYER.weight, r"as x, got a Param; write its \.value"),
        (None, "as x, got None$"),
    ):
        with pytest.raises(errors.KindError, match=words):
            LAYER(x)
    with pytest.raises(errors.ShapeError, match=r"takes query of shape \(N, length, 4\), got shape \(1, 2, 3\)"):
        nn.MultiHeadAttention(4, 2, device=NumPy)(Tensor[NumPy].ones((1, 2, 3)))


def test_gradients_of_a_model_are_asked_for_by_parameter() -> None:
    grads: Any = LAYER(Tensor[Train].ones((1, 2))).sum().backward()
    with pytest.raises(errors.KindError, match=r"got a Linear; GradientsParams\.from_grads\(grads, model\) has"):
        grads[LAYER]


@every_row(
    "layer, shape, message",
    [
        (lambda: nn.Conv2d(3, 8, 3, device=NumPy), (2, 9, 9, 3), r"takes 3; .* x\.permute\(0, 3, 1, 2\)$"),
        (lambda: nn.Conv2d(3, 8, 3, device=NumPy), (9, 9, 3), r"x\.permute\(2, 0, 1\)$"),
        (lambda: nn.Conv1d(3, 8, 3, device=NumPy), (2, 9, 3), r"x\.permute\(0, 2, 1\)$"),
        (lambda: nn.ConvTranspose3d(3, 8, 3, device=NumPy), (2, 9, 9, 9, 3), r"x\.permute\(0, 4, 1, 2, 3\)$"),
        (lambda: nn.BatchNorm(3, device=NumPy), (2, 9, 9, 3), r"x\.permute\(0, 3, 1, 2\)$"),
        (lambda: nn.GroupNorm(1, 3, device=NumPy), (2, 9, 9, 3), r"x\.permute\(0, 3, 1, 2\)$"),
        (lambda: nn.Conv2d(3, 8, 3, device=NumPy), (2, 9, 9, 4), r"which takes 3$"),
    ],
)
def test_channels_that_come_last_are_moved(layer: Callable[[], Any], shape: Any, message: str) -> None:
    with pytest.raises(errors.ShapeError, match=message):
        layer()(Tensor[NumPy].zeros(shape))


class Stack(Module[Any]):
    def __init__(self) -> None:
        self.layers = [nn.Linear(2, 2, device=NumPy)]
        self.layers.append(nn.Linear(2, 2, device=NumPy))
        self.sizes = [1, 2]


def test_a_list_of_modules_says_that_it_is_a_tuple() -> None:
    model: Any = Stack()
    for other in (model, model.train(), pickle.loads(pickle.dumps(model)), model.replace({"layers.0": nn.Relu()})):
        calls: list[Callable[[Any], Any]] = [
            lambda x: x.append(nn.Relu()),
            lambda x: x.pop(),
            lambda x: x.__setitem__(0, nn.Relu()),
            lambda x: x + list(x),
        ]
        for call in calls:
            with pytest.raises(errors.ImmutableError, match=r"is a tuple once __init__ is done, .* model\.replace"):
                call(other.layers)
    longer = model.replace({"layers": (*model.layers, nn.Relu())})
    assert len(longer.layers) == 3
    assert isinstance(model.layers, tuple)
    assert len(model.layers + longer.layers) == 5
    assert model.layers == (*model.layers,)
    assert type(model.sizes) is tuple


@pytest.mark.parametrize(
    "changed",
    [
        lambda model, w: model.with_state({"weight": w, "bias": model.bias.value}),
        lambda model, w: model.with_values({model.weight.id: w}),
        lambda model, w: model.map(lambda old: w if old.shape == w.shape else old),
    ],
    ids=["with_state", "with_values", "map"],
)
def test_a_leaf_does_not_replace_a_result(changed: Callable[[Any, Any], Any]) -> None:
    model: Any = Linear(2, 1, device=Autodiff[NumPy])
    result = model.weight.value * 2.0
    with pytest.raises(errors.NotTrackedError, match=r"weight.*where gradients end; pass value\.detach\(\)"):
        changed(model, result)
    assert changed(model, result.detach()).weight.value.tolist() == result.tolist()
    assert changed(model.no_grad("weight"), result).weight.value.tolist() == result.tolist()  # a constant anyway
    slope = func.grad(lambda model: changed(model, model.weight.value * 2.0).weight.value.sum())(model)
    assert slope.weight.value.tolist() == [[2.0], [2.0]]
