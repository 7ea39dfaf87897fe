"""Messages for mistakes with data, metrics, distributions, optimizers and learners say what to write."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, errors, func, linalg, metrics, nn, optim, record, train
from burnpy import distributions as ds
from burnpy.backend import NumPy
from burnpy.data import Batch, transforms

Train = Autodiff[NumPy]
ROOT: Any = burnpy
DATA_ROOM: Any = burnpy.data
DATA: Any = transforms  # without the types that forbid these mistakes
METRICS: Any = metrics
NN: Any = nn
OPTIM: Any = optim
TRAIN: Any = train
DS: Any = ds
FUNC: Any = func
MODEL: Any = nn.Linear(3, 4, device=Train)
X: Any = Tensor[Train].ones((2, 3))
SCORES: Any = Tensor[NumPy].from_data([[1.0, 0.0], [0.0, 1.0]])
CLASSES: Any = IntTensor[NumPy].from_data([0, 1])
COUNTS: Any = IntTensor[NumPy]
NORMAL: Any = ds.Normal(Tensor[Train].zeros((2,)), 1.0)
ATTENTION: Any = nn.MultiHeadAttention(8, 2, device=Train)
GRADS: Any = MODEL(X).sum().backward()
PARAMS: Any = optim.GradientsParams.from_grads(GRADS, MODEL)
MAKE = "make one of it first: {}.from_data(values, device=device)"

ANY_LINALG: Any = linalg
ANY_INITIALIZER: Any = nn.init.XavierUniform()

MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a missing argument": (lambda: DATA.Crop(3), errors.CallError, "Crop() is missing the argument width"),
    "a scalar for a list": (
        lambda: DATA.Normalize(0.5, 0.5),
        errors.ArgumentError,
        "mean=0.5; expected a list",
    ),
    "text for an int": (lambda: DATA.Crop("a", 3), errors.ArgumentError, "Crop() got height='a'; expected an int"),
    "text for a weight": (lambda: TRAIN.Step(X.sum(), weight="a"), errors.ArgumentError, "weight='a'; expected a num"),
    "a sampler": (
        lambda: DATA_ROOM.Weighted(),
        errors.CallError,
        "Weighted() is missing the argument weights",
    ),
    "names of parts": (
        lambda: DATA_ROOM.from_sequence([(1, 2)], names=["x", ["y"]]),
        errors.ArgumentError,
        "from_sequence() got names=['x', ['y']]; expected a list of strings",
    ),
    "a callback": (lambda: TRAIN.EarlyStopping(), errors.CallError, "EarlyStopping() is missing the argument monitor"),
    "a clipping": (lambda: TRAIN.ByGlobalNorm(1.0, 2), errors.CallError, "takes max_norm by position, but got 2 valu"),
    "no learner": (lambda: TRAIN.find_lr(print, MODEL, []), errors.KindError, "find_lr() takes a Learner"),
    "a metric's option": (
        lambda: METRICS.Accuracy.of(SCORES, CLASSES, topk=2),
        errors.CallError,
        "Accuracy.of() does not take topk; it takes prediction, target, k, threshold",
    ),
    "lists for a metric": (lambda: METRICS.Accuracy.of(SCORES, [0, 1]), errors.KindError, MAKE.format("IntTensor")),
    "numbers for a mean": (lambda: METRICS.Mean.of([1.0]), errors.KindError, MAKE.format("Tensor")),
    "torchmetrics": (lambda: METRICS.Mean.of(SCORES).compute(), errors.MissingNameError, "use metric.value()"),
    "a metric's name": (lambda: METRICS.RMSE, errors.MissingNameError, "write MSE (take the root of its value()"),
    "an article": (lambda: METRICS.F1.of(SCORES, CLASSES) + 1, errors.KindError, "an F1 can be added to an F1 only"),
    "a property": (lambda: NORMAL.std, errors.MissingNameError, "Normal has no std; use d.stddev"),
    "a density": (lambda: NORMAL.prob(X), errors.MissingNameError, "use d.log_prob(x).exp()"),
    "no derivative": (
        lambda: DS.Bernoulli(0.5, device=NumPy).rsample(),
        errors.MissingNameError,
        "Bernoulli has no rsample; its samples have no gradients of the parameters",
    ),
    "a batch shape": (lambda: NORMAL.expand(3, 2), errors.CallError, "expand() takes batch_shape by position"),
    "two devices": (
        lambda: DS.kl(NORMAL, DS.Normal(0.0, 1.0, device=NumPy)),
        errors.DeviceError,
        "kl() got a Normal on Autodiff[NumPy] and a Normal on NumPy; move one",
    ),
    "two batch shapes": (
        lambda: DS.kl(NORMAL, DS.Normal(Tensor[Train].zeros((3,)), 1.0)),
        errors.ShapeError,
        "kl() got a Normal of batch shape (2,) and event shape (), and a Normal of (3,) and ()",
    ),
    "a mask of keys": (
        lambda: ATTENTION(Tensor[Train].ones((2, 5, 8)), key_mask=BoolTensor[Train].ones((2, 6))),
        errors.ShapeError,
        "MultiHeadAttention() got a key_mask of shape (2, 6) for 2 examples of 5 keys; expected (2, 5)",
    ),
    "a list of classes": (lambda: ROOT.cross_entropy(SCORES, [0, 1]), errors.KindError, MAKE.format("IntTensor")),
    "a list of indices": (lambda: NN.Embedding(9, 2, device=NumPy)([1]), errors.KindError, MAKE.format("IntTensor")),
    "a layer by name": (lambda: NN.Sequential(MODEL)["0"], errors.CallError, "is indexed by ints and slices, got '0'"),
    "PyTorch's encoder": (
        lambda: NN.TransformerEncoder(MODEL, 2),
        errors.CallError,
        "TransformerEncoder() is missing the arguments heads, device; give the sizes of a layer",
    ),
    "one model": (lambda: FUNC.stack_models(MODEL), errors.KindError, "stack_models() takes a list of models"),
    "a shape first": (
        lambda: COUNTS.randint((2,), 0, 5),
        errors.ArgumentError,
        "and then the shape, as in rand",
    ),
    "no shape": (
        lambda: COUNTS.randint(0, 5),
        errors.CallError,
        "IntTensor.randint() is missing the argument shape",
    ),
    "a closure": (
        lambda: OPTIM.LBfgs().step(1.0, MODEL, lambda: X),
        errors.KindError,
        "got a function; write model, loss = LBfgs().minimize(rate, model, loss_and_grads)",
    ),
    "a method": (
        lambda: OPTIM.Adam().step(1.0, MODEL, X.sum().backward),
        errors.KindError,
        "call it: model = optim.step(rate, model, loss.backward())",
    ),
    "PyTorch's scaler": (lambda: OPTIM.GradScaler(NumPy).step(), errors.MissingNameError, "scaler.unscale(grads), and"),
    "Burn's initializer": (
        lambda: ANY_INITIALIZER.init((2, 3)),
        errors.MissingNameError,
        "XavierUniform has no init; call it: initializer(shape, device=device)",
    ),
    "a gradient's name": (
        lambda: PARAMS.bias,
        errors.MissingNameError,
        "have no bias; look up a parameter",
    ),
    "other gradients": (
        lambda: MODEL.bias.value.grad(PARAMS),
        errors.KindError,
        "looked up by parameter or path",
    ),
    "pickled gradients": (lambda: pickle.dumps(GRADS), errors.KindError, "GradientsParams.from_grads(grads, model)"),
    "SciPy's solver": (lambda: ANY_LINALG.cho_solve, errors.MissingNameError, "write cholesky_solve(y, cholesky(x))"),
    "a column of ints": (
        lambda: Batch.of({"y": CLASSES.to_numpy()}, device=NumPy).floats("y"),
        errors.KindError,
        "y of this batch is an IntTensor; read it as batch.ints('y')",
    ),
    "a class as a layer": (
        lambda: NN.Sequential(nn.Relu),
        errors.ModuleError,
        "got the class Relu as layer 0, which is",
    ),
    "a class as a device": (lambda: X.to_device(Tensor), errors.DeviceError, "the class Tensor is not a backend; pass"),
    "no such type": (
        lambda: NN.Sequential(MODEL).quantized("int2"),
        errors.ArgumentError,
        "cannot convert 0: quantize()",
    ),
    "a list of numbers": (lambda: X.quantile([0.5, 0.9]), errors.KindError, MAKE.format("Tensor")),
    "a list for a function": (lambda: ROOT.special.erf([3.0]), errors.KindError, MAKE.format("Tensor")),
    "ints for a cell": (
        lambda: NN.LstmCell(3, 4, device=NumPy)(CLASSES),
        errors.KindError,
        "got an IntTensor of shape (2,) and dtype int64; convert it with .float()",
    ),
    "JAX's reading": (lambda: X.at[0].get(), errors.MissingNameError, "x.at[...] has no get; write x[...]"),
    "JAX's division": (lambda: X.at[0].divide(2.0), errors.MissingNameError, "write x.at[...].mul(1.0 / value)"),
    "no elements": (
        lambda: X.at.add(2.0),
        errors.MissingNameError,
        "name the elements first, as in x.at[0].add(value)",
    ),
    "an average": (lambda: OPTIM.Ema(MODEL).module, errors.MissingNameError, "Ema has no module; use ema.model"),
    "a call of an average": (lambda: OPTIM.Ema(MODEL)(X), errors.CallError, "call the average itself: ema.model(x)"),
    "a call of a distribution": (
        lambda: ROOT.distributions.Normal(X, 1.0)(X),
        NotImplementedError,
        "Normal has no forward(); write .log_prob(value)",
    ),
    "a size of a layer": (lambda: NN.init.around_zero("3"), errors.ArgumentError, "around_zero() got fan_in='3'"),
    "a plateau": (
        lambda: TRAIN.Learner(print, optim=OPTIM.Adam(), lr=OPTIM.ReduceOnPlateau(lr=0.1)),
        errors.KindError,
        "Learner(lr=) takes a number or a schedule, got a ReduceOnPlateau; plateaus are for loops by hand",
    ),
    "Keras": (
        lambda: MODEL.count_params(),
        errors.MissingNameError,
        "has no count_params; use model.num_params",
    ),
    "an object": (
        lambda: record.save("x.safetensors", x=object()),
        errors.ArgumentError,
        "save() got x, an object",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_by_what_to_write(mistake: tuple[Callable[[], Any], type[Exception], str]) -> None:
    call, error, words = mistake
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value), str(raised.value)


def test_a_generator_of_a_file_is_its_state(tmp_path: Any) -> None:
    record.save(tmp_path / "run.safetensors", generator=burnpy.Generator(3))
    with pytest.raises(errors.RecordError, match=r"write generator\.set_state\(record\.generator\)"):
        record.load(tmp_path / "run.safetensors").part("generator", burnpy.Generator)


def test_a_step_is_pickled_with_its_metrics() -> None:
    step: Any = train.Step(loss=X.sum(), weight=2.0, mean=metrics.Mean.of(X))
    copied = pickle.loads(pickle.dumps(step))
    assert (copied.loss.item(), copied.weight, copied.metrics["mean"].value()) == (6.0, 2.0, 1.0)


def test_gradients_are_subtracted() -> None:
    other = MODEL(X * 2.0).sum().backward()
    assert (other - GRADS)[MODEL.weight.value].tolist() == GRADS[MODEL.weight.value].tolist()
    assert (-GRADS)[MODEL.bias.value].tolist() == [-2.0] * 4
    doubled = optim.GradientsParams.from_grads(other, MODEL)
    assert (doubled - PARAMS)["weight"].tolist() == PARAMS["weight"].tolist()
    assert (-PARAMS)["bias"].tolist() == [-2.0] * 4


def test_packages_of_data_are_attributes() -> None:
    program = "import burnpy; burnpy.data.transforms.Flip; burnpy.data.sources.ImageFolder"
    subprocess.run([sys.executable, "-c", program], check=True)
