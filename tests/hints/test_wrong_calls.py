"""Calls with arguments that are not taken: an error that says what they are called here, and nothing is computed."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, wraps
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, nn
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, CallError, KindError
from burnpy.hints.wrong_calls import type_error
from burnpy.interop import onnx
from burnpy.nn import Module, functional
from burnpy.tensor import arithmetic, template
from burnpy.tensor.tensor_base import TensorBase
from tests.rows import every_row

PACKAGES = (burnpy, burnpy.nn, burnpy.optim, burnpy.autodiff, burnpy.record)
KINDS = (Tensor, IntTensor, BoolTensor)
QUICK = {"round"}
"""Methods that are too quick to look for what they do not take, besides unary and binary ones: Python refuses it."""
functions: Any = burnpy
optim: Any = burnpy.optim
F: Any = functional
layers: Any = nn
func: Any = burnpy.func
export: Any = onnx.export
transforms: Any = burnpy.data.transforms
sources: Any = burnpy.data.sources
train: Any = burnpy.train
models: Any = burnpy.models

CALLS: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda x, i, b: x.sum(axis=1), "sum() does not take axis; it is called dim here"),
    (
        lambda x, i, b: x.mean(axis=1, keepdims=True),
        "mean() does not take axis, keepdims; they are called dim, keepdim",
    ),
    (lambda x, i, b: x.var(unbiased=False), "var() does not take unbiased; correction=1 is unbiased=True"),
    (lambda x, i, b: x.std(1, ddof=0), "std() does not take ddof; it is called correction here"),
    (lambda x, i, b: x.softmax(axis=1), "softmax() does not take axis; it is called dim here"),
    (lambda x, i, b: i.amax(axis=1), "amax() does not take axis; it is called dim here"),
    (lambda x, i, b: b.any(axis=1), "any() does not take axis; it is called dim here"),
    (lambda x, i, b: b.sum(axis=1), "sum() does not take axis; it is called dim here"),
    (lambda x, i, b: x.relu(inplace=True), "relu() does not take inplace; nothing is changed in place"),
    (lambda x, i, b: x.relu(True), "relu() does not take inplace; nothing is changed in place"),
    (lambda x, i, b: x.exp(out=x), "exp() does not take out; the result is always a new tensor"),
    (lambda x, i, b: x.isnan(out=b), "isnan() does not take out; the result is always a new tensor"),
    (lambda x, i, b: x.mul(x, x), "mul() does not take out; the result is always a new tensor"),
    (lambda x, i, b: i.maximum(i, out=i), "maximum() does not take out; the result is always a new tensor"),
    (lambda x, i, b: x.lt(x, out=b), "lt() does not take out; the result is always a new tensor"),
    (lambda x, i, b: x.matmul(x.T, out=x), "matmul() does not take out; the result is always a new tensor"),
    (lambda x, i, b: x.reshape(6, order="F"), "reshape() does not take order; the backend chooses the memory layout"),
    (lambda x, i, b: x.where(b, x, out=x), "where() does not take out; the result is always a new tensor"),
    (
        lambda x, i, b: functions.where(b),
        "missing the arguments x, y; for the indices of True elements use condition.nonzero(as_tuple=True)",
    ),
    (lambda x, i, b: functions.maximum(x, x, out=x), "maximum() does not take out; the result is always a new tensor"),
    (lambda x, i, b: functions.minimum(x), "minimum() is missing the argument y"),
    (lambda x, i, b: x.gelu(inplace=True), "gelu() does not take inplace; nothing is changed in place"),
    (lambda x, i, b: x.clamp(a_min=0.0), "clamp() does not take a_min; it is called min here"),
    (lambda x, i, b: x.squeeze(axis=0), "squeeze() does not take axis; it is called dim here"),
    (lambda x, i, b: x.transpose(axis1=0, axis2=1), "they are called dim0, dim1 here"),
    (lambda x, i, b: x.softmax(), "softmax() is missing the argument dim"),
    (lambda x, i, b: x.gather(0, i, i), "gather() takes dim, index by position, but got 3 values"),
    (lambda x, i, b: x.tril(digaonal=1), "tril() does not take digaonal; did you mean diagonal?"),
    (lambda x, i, b: x.unsqueeze(where=1), "unsqueeze() does not take where; it takes dim"),
    (lambda x, i, b: np.sum(x, axis=1), "np.sum() got a tensor, but computes with arrays; write x.sum()"),
    (lambda x, i, b: Tensor[NumPy].zeros((2,), requires_grad=True), "call .require_grad() on the result"),  # type: ignore[call-overload]
    (
        lambda x, i, b: Tensor[NumPy].zeros(2, 3),  # type: ignore[call-overload]
        "zeros() takes shape by position, but got 2 values; a shape is one tuple: (2, 3)",
    ),
    (lambda x, i, b: functions.Generator(device=NumPy), "Generator() does not take device; it takes a seed, and draws"),
    (lambda x, i, b: functions.Tensor.zeros(size=(2,), device=NumPy), "zeros() does not take size; it is called shape"),
    (lambda x, i, b: functions.cat([x, x], axis=1), "cat() does not take axis; it is called dim here"),
    (
        lambda x, i, b: functions.cross_entropy(input=x, target=i),
        "cross_entropy() does not take input; it is called logits",
    ),
    (
        lambda x, i, b: F.embedding(input=i, weight=x),
        "embedding() does not take input; it is called index here",
    ),
    (lambda x, i, b: F.embedding(i, x, sparse=True), "embedding() does not take sparse; gradients are dense"),
    (
        lambda x, i, b: x.sum().backward(create_graph=True),
        "backward() takes no argument create_graph; to differentiate a gradient, compute it by burnpy.func.grad(f)(x)",
    ),
    (lambda x, i, b: functions.stack(arrays=[x, x]), "stack() does not take arrays; it is called tensors here"),
    (lambda x, i, b: functions.mse_loss(x, x, size_average=True), 'use reduction="mean", "sum" or "none"'),
    (lambda x, i, b: F.dropout(x, inplace=True), "dropout() does not take inplace; nothing is changed in place"),
    (lambda x, i, b: F.layer_norm(x), "layer_norm() is missing the argument normalized_shape"),
    (lambda x, i, b: optim.clip_by_norm(x, max_nrom=1.0), "did you mean max_norm?"),
    (lambda x, i, b: models.generate(x, [1], max_new_tokens=3), "max_new_tokens; it is called max_new here"),
    (lambda x, i, b: models.generate(x, [1], max_new=3, top_k=5), "does not take top_k; write sampler=sampling("),
    (lambda x, i, b: func.vmap(lambda x: x, in_axes=0), "vmap() does not take in_axes; it is called in_dims here"),
    (lambda x, i, b: func.grad(lambda x: x, argnum=0), "grad() does not take argnum; did you mean argnums?"),
    (
        lambda x, i, b: func.hessian(lambda x: x, 0, "forward"),
        "hessian() takes f, argnums by position, but got 3 values",
    ),
    (
        lambda x, i, b: functions.compiled(lambda x: x, donate_argnums=0),
        'it takes the names of arguments: donate=("x",)',
    ),
    (lambda x, i, b: optim.Adam().step(x, x), "the rate comes first: model = optim.step(1e-3, model, grads)"),
    (lambda x, i, b: optim.Adam().step(x, x, learning_rate=0.1), "the rate comes first"),
]


@every_row(("call", "said"), CALLS, ids=range(len(CALLS)))
def test_calls_are_explained(call: Callable[..., Any], said: str) -> None:
    x = Tensor[NumPy].ones((2, 3))
    with pytest.raises(CallError) as caught:
        call(x, x.int(), x > 0)
    assert said in str(caught.value)
    assert isinstance(caught.value, TypeError)


def methods(cls: Any) -> Iterator[tuple[str, Any]]:
    """The public methods of a class, its factories included."""
    for name in dir(cls):
        found: Any = getattr(cls, name)
        if isinstance(found, cached_property):
            continue
        if not name.startswith("_") and inspect.isroutine(found):
            yield name, found


NAMED: list[tuple[Callable[[Any, Any], Any], str]] = [
    (
        lambda x, y: F.binary_cross_entropy_with_logits(x, x, pos_weight=y),
        "binary_cross_entropy_with_logits() got shapes",
    ),
    (
        lambda x, y: nn.BceWithLogitsLoss()(x, x, weight=y),
        "binary_cross_entropy_with_logits() got shapes (2, 3) and (5,)",
    ),
    (lambda x, y: x.dist(y), "dist() got shapes (2, 3) and (5,), which do not broadcast"),
    (lambda x, y: x.float_power(y), "float_power() got shapes"),
    (lambda x, y: y.expand_as(x), "expand_as() cannot expand shape (5,)"),
    (lambda x, y: burnpy.polar(x, y), "polar() got shapes"),
    (lambda x, y: burnpy.linalg.vecdot(x, y), "vecdot() got shapes"),
    (lambda x, y: burnpy.special.gammainc(x, y), "gammainc() got shapes"),
    (lambda x, y: F.softmin(y, 2), "softmin() got dim 2"),
    (
        lambda x, y: burnpy.linalg.matrix_rank(x, atol=Tensor[Autodiff[NumPy]].ones(())),
        "matrix_rank() got tensors on NumPy (x) and Autodiff[NumPy] (atol)",
    ),
    (lambda x, y: func.grad(lambda x: (x * y).sum())(x), "mul() got shapes"),
]


@every_row(("call", "said"), NAMED, ids=range(len(NAMED)))
def test_errors_name_the_function_that_was_called(call: Callable[..., Any], said: str) -> None:
    x, y = Tensor[NumPy].ones((2, 3)), Tensor[NumPy].ones((5,))
    with pytest.raises(BurnpyError) as caught:
        call(x, y)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("cls", KINDS)
def test_methods_are_named_after_the_class_that_users_know(cls: Any) -> None:
    for name, method in methods(cls):
        assert method.__qualname__ == f"{cls.__name__}.{name}"
        assert method.__doc__, name


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_no_class_shows_the_parts_that_it_is_composed_of(package: Any) -> None:
    """Methods of public classes are named after one: it, or one that it is a subclass of."""
    known = {cls.__name__ for each in PACKAGES for cls in classes_of(each)}
    layers = "burnpy.nn.layers."  # whose base classes are named for what all of their layers do
    known |= {base.__name__ for cls in classes_of(nn) for base in cls.__mro__ if base.__module__.startswith(layers)}
    for cls in classes_of(package):
        if not issubclass(cls, (burnpy.Backend, burnpy.autodiff.Function)):  # whose methods users do not call
            for name, method in methods(cls):
                owner = method.__qualname__.rpartition(".")[0]
                assert owner in known or not (getattr(method, "__module__", None) or "").startswith("burnpy"), (
                    f"{cls.__name__}.{name}"
                )


def classes_of(package: Any) -> list[type]:
    return [found for name in package.__all__ if isinstance(found := getattr(package, name), type)]


def test_methods_are_pickled_by_their_names() -> None:
    for method in (Tensor.softmax, Tensor.add, Tensor.tolist, IntTensor.one_hot, burnpy.cat, burnpy.nn.Module.params):
        assert pickle.loads(pickle.dumps(method)) is method


ROOMS = """
autodiff data data.sources data.transforms distributed distributions einops fft func interop.onnx linalg metrics models
nn nn.functional optim record special testing train
"""
PACKAGES_WALKED = [burnpy, *(import_module(f"burnpy.{room}") for room in ROOMS.split())]
IMPORTED_BY_ALL = """
default_generator enable_grad inference_mode is_grad_enabled is_inference_mode_enabled no_grad set_grad_enabled
"""
"""Called by every layer, or of the core of `autodiff`, which knows no tensors: Python's error names the function."""
MADE_HERE = """
BatchEnd Context Epoch EpochEnd EpochStart FitEnd FitStart GradFn Gradients GradientsParams HookHandle MemoryReport
OnnxModel Result Saved StreamEpoch ValidEnd
"""
"""Classes whose objects a user only gets."""
TAKES_NAMES = "ArrayDataset checkpoint conformance_suite detect_anomaly save set_detect_anomaly"
"""With arguments of any name, or with an error of their own."""


def rooms_calls(room: Any) -> Iterator[tuple[str, Any]]:
    """The functions and classes of a package, without results, which are tuples, protocols and unions."""
    for name in room.__all__:
        found = getattr(room, name)
        if isinstance(found, type):
            made = not (issubclass(found, (BaseException, burnpy.Backend, TensorBase)) or hasattr(found, "_fields"))
            if made and not getattr(found, "_is_protocol", False) and found.__module__.startswith("burnpy"):
                yield name, found
        elif inspect.isfunction(found):
            yield name, found


@pytest.mark.parametrize("room", PACKAGES_WALKED, ids=lambda room: room.__name__)
def test_every_name_explains_what_it_does_not_take(room: Any) -> None:
    for name, found in rooms_calls(room):
        if name in f"{IMPORTED_BY_ALL} {MADE_HERE} {TAKES_NAMES}".split():
            continue
        with pytest.raises(
            BurnpyError,
            match=r"unknown_argument|is abstract; make a subclass|makes nothing; call|computes them from a batch",
        ):
            found(unknown_argument=0)


class Strange:
    """Has nothing that a function could compute with."""


STRANGE = [Strange(), "text", 3.5, None, [1]]


def refused_by_sentences(name: str, call: Callable[..., Any], value: object) -> None:
    """Call a function with the same value for every required argument: the error is one of burnpy, or there is none."""
    needed = [p for p in inspect.signature(call).parameters.values() if p.default is p.empty]
    by_name = {p.name: value for p in needed if p.kind is p.KEYWORD_ONLY}
    try:
        _ = call(*[value for p in needed if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)], **by_name)
    except BurnpyError:
        pass
    except Exception as error:
        raise AssertionError(f"{name}() of {value!r} raises {error!r}") from error


@pytest.mark.parametrize("room", PACKAGES_WALKED, ids=lambda room: room.__name__)
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
def test_values_of_no_use_are_refused_by_sentences(room: Any, value: Any) -> None:
    for name, found in rooms_calls(room):
        if name not in MADE_HERE.split() and room is not burnpy.einops:  # whose errors are einops'
            refused_by_sentences(name, found, value)


CALLED_BY_BURNPY = """
at columns draw equals equal_settings fields_of formula forward found images initial mapped update
"""
"""Methods that users write, or that only burnpy calls."""
TRAINED: Any = Autodiff[NumPy]
X = Tensor[TRAINED].full((4,), 0.5)
Y = X.reshape(2, 2)
SAMPLES: Any = burnpy.data.ArrayDataset(x=np.ones((6, 2), np.float32), y=np.arange(6) % 2)


def record() -> Any:
    with TemporaryDirectory() as folder:
        burnpy.record.save(f"{folder}/layer", model=nn.Linear(2, 2, device=TRAINED))
        return burnpy.record.load(f"{folder}/layer")


OBJECTS: dict[str, Callable[[], Any]] = {
    "Tensor": lambda: X,
    "IntTensor": lambda: X.int(),
    "BoolTensor": lambda: X > 0,
    "ComplexTensor": lambda: X.complex(),
    "At": lambda: X.at[0],
    "Generator": lambda: burnpy.Generator(0),
    "Gradients": lambda: X.require_grad().sum().backward(),
    "GradientsParams": lambda: optim.GradientsParams.from_module(nn.Linear(2, 2, device=NumPy)),
    "Linear": lambda: nn.Linear(2, 2, device=TRAINED),
    "Sequential": lambda: nn.Sequential(nn.Flatten(), nn.Relu()),
    "BatchNorm": lambda: nn.BatchNorm(2, device=TRAINED),
    "AdamW": lambda: optim.AdamW(),
    "Ema": lambda: optim.Ema(nn.Linear(2, 2, device=TRAINED)),
    "GradScaler": lambda: optim.GradScaler(device=NumPy),
    "GradientsAccumulator": lambda: optim.GradientsAccumulator(),
    "CosineLr": lambda: optim.CosineLr(0.1, steps=3),
    "ReduceOnPlateau": lambda: optim.ReduceOnPlateau(lr=0.1),
    "Record": record,
    "ArrayDataset": lambda: SAMPLES,
    "Dataset": lambda: SAMPLES.map(lambda sample: sample),
    "Loader": lambda: burnpy.data.Loader(SAMPLES, burnpy.data.collate(device=NumPy), batch_size=2),
    "Learner": lambda: train.Learner(lambda model, batch: model(batch), optim=optim.Adam(), lr=0.1),
    "Mean": lambda: burnpy.metrics.Mean.of(X),
    "ConfusionMatrix": lambda: burnpy.metrics.ConfusionMatrix.of(X.int(), X.int(), classes=1),
    "Normal": lambda: burnpy.distributions.Normal(X, 1.0),
    "Dirichlet": lambda: burnpy.distributions.Dirichlet(X),
    "Categorical": lambda: burnpy.distributions.Categorical(X),
    "Transformed": lambda: burnpy.distributions.Transformed(
        burnpy.distributions.Normal(X, 1.0), burnpy.distributions.bijections.Exp()
    ),
    "Independent": lambda: burnpy.distributions.Normal(X, 1.0).independent(1),
    "Tanh": lambda: burnpy.distributions.bijections.Tanh(),
    "Softplus": lambda: burnpy.distributions.bijections.Softplus(),
}


@pytest.mark.parametrize("made", OBJECTS.values(), ids=[*OBJECTS])
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
def test_methods_refuse_values_of_no_use_by_sentences(made: Callable[[], Any], value: Any) -> None:
    found = made()
    for name, _ in methods(type(found)):
        if name not in CALLED_BY_BURNPY.split():
            refused_by_sentences(f"{type(found).__name__}.{name}", getattr(found, name), value)


class Doubled(nn.Stateless):
    def forward(self, x: Tensor[Any]) -> Any:
        return x.mul(2.0)


GPT = models.Gpt2(models.Gpt2Config(vocab_size=9, n_embd=4, n_layer=1, n_head=2), device=NumPy)


@every_row(
    ("call", "said"),
    [
        (lambda: train.EarlyStopping(5, patience="3"), "EarlyStopping() got monitor=5; expected a string"),
        (lambda: train.Checkpoints(3), "Checkpoints() got folder=3; expected a string or a path"),
        (lambda: sources.read_csv([1]), "read_csv() got paths=[1]; expected a string or a path or a list of paths"),
        (lambda: transforms.Normalize("text", 1.0), "Normalize() got mean='text'; expected a list of numbers"),
        (lambda: optim.Optimizer(), "Optimizer is abstract; make a subclass of it, with slots"),
        (
            lambda: models.generate(GPT, [1], max_new=1, sampler=0.5),
            "generate() got 0.5; expected a function of logits",
        ),
        (
            lambda: models.beam_search(GPT, [1], max_new=1, beams=1, processors=[0]),
            "beam_search() got 0; expected a fu",
        ),
        (
            lambda: models.beam_search(GPT, "ab", max_new=1, beams=1),
            "beam_search() got the token 'a', which is not an int",
        ),
        (lambda: sources.TableDataset([1]), "TableDataset() got table=[1]; expected a Table"),
        (lambda: burnpy.data.Weighted("ab"), "Weighted() got weights of shape () and dtype <U2"),
        (lambda: layers.Relu()(np.ones((2, 2))), "Relu takes a tensor as its input, got an ndarray of shape (2, 2)"),
        (lambda: layers.Relu()("text"), "Relu takes a tensor as its input, got 'text'"),
        (
            lambda: layers.Sequential(nn.Flatten())([1]),
            "Flatten takes a tensor as its input, got [1]; make one of it first",
        ),
        (lambda: layers.Sequential(Doubled())([1]), "Doubled.forward() got x=[1]; expected a Tensor"),
        (lambda: optim.Ema(nn.Linear(2, 2, device=NumPy)).update(3), "update() got model=3; expected a Module"),
        (lambda: functions.cdist(Y, Y, p=np.ones(2)), "cdist() got p=an ndarray of shape (2,); expected a number"),
    ],
    ids=range(16),
)
def test_types_of_arguments(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((ArgumentError, CallError, KindError)) as caught:
        call()
    assert str(caught.value).startswith(said)


def test_an_error_of_the_callers_function_stays_what_it_is() -> None:
    def step(model: Any, batch: Any) -> Any:
        return len(3)  # type: ignore[arg-type]

    model, learner = nn.Linear(1, 1, device=Autodiff[NumPy]), train.Learner(step, optim=optim.Sgd(), lr=0.1)
    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)"):
        learner.fit(model, [1.0], epochs=1)


def test_arguments_of_torchvision() -> None:
    with pytest.raises(CallError, match=r"Crop\(\) does not take padding; Shift\(pixels\) moves images of their size"):
        transforms.Crop(32, padding=4)


def test_arguments_of_torch_onnx_export() -> None:
    with pytest.raises(
        CallError, match=r"does not take opset_version, dynamic_axes; they are called opset, dynamic here"
    ):
        export(nn.Relu(), (), "relu.onnx", opset_version=17, dynamic_axes={"x": {0: "batch"}})
    with pytest.raises(CallError, match=r"does not take input_names; inputs have the names of forward's parameters"):
        export(nn.Relu(), (), "relu.onnx", input_names=["x"])


@pytest.mark.parametrize("cls", KINDS)
def test_every_method_explains_what_it_does_not_take(cls: Any) -> None:
    x = cls[NumPy].ones((2, 2))
    for name, method in methods(cls):
        taken = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
        quick = name in QUICK or name in {*quick_ones(cls)}
        with pytest.raises(TypeError) as caught:
            getattr(x, name)(nonsense=1)
        if taken and not quick and name != "backward":  # which has more to say
            assert isinstance(caught.value, CallError), name
            assert "does not take nonsense; it takes " in str(caught.value)
        else:
            assert str(caught.value).startswith((f"{cls.__name__}.{name}() got an unexpected", "backward() takes no"))


def quick_ones(cls: type) -> Iterator[str]:
    """Unary and binary operations."""
    for name, method in vars(cls).items():
        code = getattr(method, "__code__", None)
        if (
            code
            and code.co_filename.partition(" (")[0] in (template.__file__, arithmetic.__file__)
            and "unknown" not in code.co_varnames
        ):
            yield name


def test_a_type_error_of_what_is_called_stays_what_it_is() -> None:
    x: Any = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()

    def hook(grad: Any) -> Any:
        return len(3)  # type: ignore[arg-type]

    hooked, _ = x.register_hook(hook)
    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)") as caught:
        hooked.sum().backward()
    assert not isinstance(caught.value, CallError)


def test_an_argument_without_an_attribute_is_the_wrong_one() -> None:
    """Others may be of other classes than their annotations name, such as a list for a Sequence."""

    def fit(values: Sequence[float], model: Module[Any]) -> None: ...

    error = AttributeError("'int' object has no attribute 'params'", name="params", obj=5)
    found = type_error("fit", inspect.signature(fit), ([1.0], 5), {}, error, __name__)
    assert str(found) == "fit() got model=5; expected a Module"


def test_a_signature_of_another_function_explains_nothing() -> None:
    class Replaced(nn.Stateless):
        forward: Any = wraps(nn.Relu.forward)(lambda self, x, other: other.shape)

    model: Any = Replaced()
    with pytest.raises(AttributeError, match="'int' object has no attribute 'shape'"):
        model(1, 2)


def test_signatures_are_those_of_the_declarations() -> None:
    assert list(inspect.signature(Tensor.softmax).parameters) == ["self", "dim"]
    assert list(inspect.signature(burnpy.cat).parameters) == ["tensors", "dim"]
    assert list(inspect.signature(Tensor[NumPy].zeros).parameters) == ["shape", "dtype", "device"]


MODEL: Any = nn.Linear(2, 2, device=TRAINED)
STATEMENTS = {
    "MODEL.eval()": "eval() changes nothing but returns the next Linear",
    "MODEL.train()": "train() changes nothing but returns the next Linear",
    "MODEL.no_grad('bias')": "no_grad() changes nothing but returns the next Linear",
    "MODEL.require_grad()": "require_grad() changes nothing but returns the next Linear",
    "MODEL.to_device(NumPy)": "to_device() changes nothing but returns the next Linear",
    "MODEL.load_record(MODEL.into_record())": "load_record() changes nothing but returns the next Linear",
    "record.from_torch(MODEL, record.to_torch(MODEL))": "from_torch() changes nothing but returns the next Linear",
    "optim.Ema(MODEL).update(MODEL)": "update() changes nothing but returns the next Ema",
    "optim.ReduceOnPlateau(lr=0.1).observe(1.0)": "observe() changes nothing but returns the next ReduceOnPlateau",
}


@every_row(("statement", "said"), STATEMENTS.items(), ids=STATEMENTS)
def test_a_statement_that_drops_the_next_value_warns(statement: str, said: str) -> None:
    names = {"MODEL": MODEL, "NumPy": NumPy, "record": burnpy.record, "optim": optim}
    with pytest.warns(RuntimeWarning) as caught:
        exec(statement, names)
    assert [str(warning.message) for warning in caught] == [
        f"{said}, which this statement drops; assign the result to a name"
    ]
    exec(f"kept = {statement}; both = [{statement}, (lambda: {statement})()]", names)


def test_the_next_value_is_not_dropped_inside_of_burnpy() -> None:
    learner = train.Learner(lambda model, batch: train.Step(model(Y).sum(), weight=1), optim=optim.Sgd(), lr=0.1)
    learner.fit(MODEL, [1.0], epochs=1, fast_dev_run=True)


class Foreign:
    """An array of another library, such as PyTorch's."""

    shape, dtype = (2,), "float32"

    def __dlpack__(self) -> None: ...


Foreign.__name__, Foreign.__module__ = "Tensor", "torch"
WAY = "; make one of it first: {}.from_data(values, device=device)"


@every_row(
    ("call", "said"),
    [
        (
            lambda a: X.masked_fill(a, 0.0),
            f"got a torch.Tensor of shape (2,) and dtype float32{WAY.format('BoolTensor')}",
        ),
        (lambda a: functions.where(a, X, X), WAY.format("BoolTensor")),
        (lambda a: X.gather(0, a), WAY.format("IntTensor")),
        (lambda a: functions.mse_loss(X, a), WAY.format("Tensor")),
        (
            lambda a: layers.Relu()(a),
            f"input, got a torch.Tensor of shape (2,) and dtype float32{WAY.format('Tensor')}",
        ),
        (lambda a: optim.Sgd().step(0.1, MODEL, a), "or GradientsParams, got a torch.Tensor"),
        (lambda a: X.require_grad().sum().backward(a), "not from a torch.Tensor of shape (2,) and dtype float32"),
        (lambda a: X.to_dtype("torch.float64"), "'torch.float64' is not a known dtype; use"),
        (lambda a: X == None, "got a Tensor and None; write x is None, or x is not None"),  # noqa: E711
    ],
    ids=range(9),
)
def test_arrays_of_other_libraries_are_named_with_the_way(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(BurnpyError) as caught:
        call(Foreign())
    assert said in str(caught.value)


@every_row(
    ("call", "said"),
    [
        (lambda a: Y.round(decimals=a), "round() got the number of decimals an ndarray of shape (2,)"),
        (lambda a: Y.addcmul(Y, Y, value=a), "addcmul() got"),
        (lambda a: Y.isclose(Y, equal_nan=a), "equal_nan"),
        (lambda a: layers.AdaptiveAvgPool1d(a), "AdaptiveAvgPool1d() got output_size=an ndarray of shape (2,)"),
        (
            lambda a: layers.MultiHeadAttention(2, 1, device=TRAINED)(Y[None], causal=a),
            "got causal=an ndarray of shape",
        ),
        (lambda a: layers.init.fans(7), "fans() got shape=7; expected a list of ints"),
        (lambda a: layers.Gru(2, 2, device=TRAINED)(Y[None], lengths=[1.7]), "got the length 1.7, which is not an int"),
        (
            lambda a: optim.Adam(groups=[optim.Group("weight", lr_scale=2.0)]).step(0.1, None, a),
            "step() takes the gradients",
        ),
    ],
    ids=range(8),
)
def test_one_wrong_kind_among_right_arguments(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(BurnpyError) as caught:
        call(np.ones(2))
    assert said in str(caught.value)


def test_ints_of_numpy_are_ints() -> None:
    one: Any = np.int64(1)
    assert F.layer_norm(Y, np.int64(2)).shape == (2, 2)
    assert burnpy.linalg.norm(Y, 2, dim=one).shape == Y.norm(one, dim=0).shape == (2,)
    assert burnpy.fft.rfftn(Y, dim=one).shape == burnpy.gradient(Y, dim=one)[0].shape == (2, 2)
