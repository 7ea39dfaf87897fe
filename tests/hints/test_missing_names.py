"""Every name of PyTorch's is here, or leads to what is, or is said not to be here: never to something else."""

from __future__ import annotations

import copy
import math
import pickle
import re
import subprocess
import sys
import traceback
import types
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import BurnpyError, CallError, MissingNameError
from burnpy.docs import names_elsewhere
from burnpy.hints import missing_names, torch_public_names
from burnpy.hints.missing_names import advice, meant, row_of, rows
from burnpy.tensor import tensor_base
from tests.rows import every_row

TENSOR, TORCH = torch_public_names.TENSOR.split(), torch_public_names.TORCH.split()
FUNCTIONAL = torch_public_names.FUNCTIONAL.split()
OPERATIONS = sorted({*TENSOR, *(name for name in TORCH if name in TENSOR or name not in FUNCTIONAL)})
SETTING = """
from burnpy import func, record
def f(x): return (x * x).sum()
hook = print
model = burnpy.nn.Linear(2, 2, device=device)
loss = f(x)
grads = loss.backward(retain_graph=True)
record.save("run.safetensors", model=model, step=3)
"""
"""What rows need that the page does not show."""
OTHER_MEANING = {"inner", "size"}
"""Names that mean something else here; `size` is NumPy's."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some of the code writes files


def refusal(owner: Any, name: str) -> AttributeError | None:
    """The error that something has no such attribute, if it has none."""
    try:
        getattr(owner, name)
    except AttributeError as error:
        return error
    return None


CODE = compile(names_elsewhere.PROLOGUE + SETTING, "the setting", "exec")


def setting() -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(CODE, namespace)
    return namespace


def test_the_table_has_a_row_for_each_operation() -> None:
    for name in OPERATIONS:
        row = row_of(name)
        assert row is not None, name
        assert row.ours or row.why, name
        assert not row.why.endswith("."), name


@pytest.mark.slow
@pytest.mark.parametrize("section", sorted({row.section for row in rows().values()}))
def test_code_of_the_table_runs(section: str) -> None:
    for name, row in rows().items():
        if row.section == section and row.ours:
            try:
                exec(row.ours, setting())
            except Exception as error:
                raise AssertionError(f"the row of {name} says {row.ours!r}") from error


def test_what_is_said_not_to_be_there_is_not() -> None:
    """A row must change when burnpy gets its name: other code, or none, stands for missing names only."""
    for name, row in rows().items():
        if "." in name or name in OTHER_MEANING:
            continue
        code = rf"(?<![\w.])(x|z|v|m|p|i|b|loss|Tensor|IntTensor|burnpy)(\[.*\])?\.{name}\b"
        by_that_name = f".{name}" in row.ours and re.search(code, row.ours) is not None
        there = (
            any(hasattr(cls, name) for cls in (Tensor, IntTensor, BoolTensor, ComplexTensor)) or name in burnpy.__all__
        )
        assert there == by_that_name, f"the row of {name} says {row.ours!r}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Tensor, IntTensor, BoolTensor, Tensor[NumPy], Tensor[Autodiff[NumPy]].ones((2, 2))])
def test_tensors_say_what_to_write(kind: Any) -> None:
    for name in OPERATIONS:
        error = refusal(kind, name)
        if error is not None:
            row, said = row_of(name), str(error)
            assert isinstance(error, BurnpyError)
            assert "Did you mean" not in "".join(traceback.format_exception(error))
            assert "convert it first" in said or "write" in said or (row and said.endswith(advice(row)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "theirs"),
    [
        ("burnpy", TORCH),
        ("burnpy", TENSOR),
        ("burnpy.nn", torch_public_names.NN.split()),
        ("burnpy.nn.functional", FUNCTIONAL),
        ("burnpy.nn.init", torch_public_names.INIT.split()),
        ("burnpy.optim", torch_public_names.OPTIM.split()),
        ("burnpy.func", torch_public_names.FUNC.split()),
        ("burnpy.fft", torch_public_names.FFT.split()),
        ("burnpy.linalg", torch_public_names.LINALG.split()),
        ("burnpy.special", torch_public_names.SPECIAL.split()),
    ],
)
def test_packages_say_what_to_write(package: str, theirs: list[str]) -> None:
    module: Any = attrgetter(package.partition(".")[2])(burnpy) if "." in package else burnpy
    for name in theirs:
        error = refusal(module, name)
        if error is not None:
            said = str(error)
            assert isinstance(error, MissingNameError)
            assert said.startswith(f"{package} has no {name}")
            assert len(said) > len(f"{package} has no {name}"), "says nothing"
            assert "; did you mean " not in said, "guesses by spelling where the name is known"
            assert "Did you mean" not in "".join(traceback.format_exception(error))


@every_row(
    ("owner", "name", "said"),
    [
        (burnpy.func, "lax", "burnpy.func has no lax; scan, cond and while_loop are in burnpy.func itself"),
        (Tensor[NumPy].ones((2,)), "swap_dims", "Tensor has no swap_dims; write x.transpose(0, 1)"),
        (IntTensor, "from_ints", "has no from_ints; write IntTensor.from_data([1, 2], device=device)"),
        (burnpy, "zeros", "write Tensor.zeros(shape, device=device)"),
        (burnpy, "sum", "which is a method: x.sum(dim=1, keepdim=True)"),
        (burnpy, "clip", "write x.clamp(low, high)"),
        (burnpy, "stft", "write burnpy.fft.stft("),
        (burnpy, "Linear", "use burnpy.nn.Linear"),
        (burnpy, "NumPy", "use burnpy.backend.NumPy"),
        (burnpy, "float", "write burnpy.float32"),
        (burnpy, "no_grad", "write burnpy.autodiff.no_grad()"),
        (burnpy, "conv3d", "use burnpy.nn.functional.conv3d"),
        (burnpy, "rrelu", "it is not here yet"),
        (burnpy, "quasirandom", "write Tensor.sobol((64, 2), device=device)"),
        (burnpy, "LongTensor", "write IntTensor.from_data(data, device=device)"),
        (burnpy, "channels_last", "the backend chooses the memory layout"),
        (burnpy.fft, "hann", "write hann_window(64, False, device=device)"),
        (burnpy.special, "bessel_j0", "write scipy.special.j0(x.to_numpy()) (it is not here yet)"),
        (burnpy.nn, "LazyConv2d", "write Conv2d (sizes are given)"),
        (burnpy.nn.functional, "elu_", "write x = elu(x) (nothing is changed in place)"),
        (burnpy.nn.init, "xavier_uniform", "write XavierUniform"),
        (burnpy, "shape", "which is an attribute: x.shape"),
        (burnpy, "one_hot", "which is a method: i.one_hot(...)"),
        (burnpy, "uniform", "write Tensor.uniform(..., device=device)"),
        (burnpy, "stak", "did you mean stack?"),
        (burnpy, "sofmax", "did you mean x.softmax?"),
        (burnpy.nn.functional, "multi_head_attention_forward", "write burnpy.nn.MultiHeadAttention"),
        (burnpy, "doc", "burnpy has no doc"),
        (burnpy.nn.functional, "clip", "burnpy.nn.functional has no clip; write x.clamp(low, high)"),
        (burnpy.distributions, "transforms", "burnpy.distributions has no transforms; write bijections"),
        (
            burnpy.distributions.bijections,
            "TanhTransform",
            "burnpy.distributions.bijections has no TanhTransform; write bijections.Tanh",
        ),
        (burnpy.distributions, "MixtureSameFamily", "burnpy.distributions has no MixtureSameFamily; write Mixture"),
        (
            burnpy.distributions,
            "GeneralizedPareto",
            "burnpy.distributions has no GeneralizedPareto; it is not here yet",
        ),
        (burnpy.nn, "clip", "burnpy.nn has no clip; write x.clamp(low, high)"),
        (burnpy.metrics, "clip", "burnpy.metrics has no clip; write x.clamp(low, high)"),
        (burnpy.metrics, "Acuracy", "burnpy.metrics has no Acuracy; did you mean Accuracy?"),
        (burnpy.train, "Lerner", "burnpy.train has no Lerner; did you mean Learner?"),
        (burnpy.train, "Adam", "use burnpy.optim.Adam"),
        (burnpy.record, "load_torch", "burnpy.record has no load_torch"),
        (burnpy.record, "from_troch", "did you mean from_torch?"),
        (burnpy.testing, "gradchek", "did you mean gradcheck?"),
        (burnpy.nn.functional, "relu_", "which is a method: x.relu()"),
        (burnpy.nn.init, "xavier_uniform_", "write XavierUniform"),
        (burnpy.autodiff, "Variable", "write x.require_grad()"),
        (Tensor, "randn", "Tensor has no randn; write Tensor.normal(shape, device=device)"),
        (Tensor[NumPy], "clip", "Tensor has no clip; write x.clamp(low, high)"),
        (IntTensor[NumPy].ones((2,)), "clip", "IntTensor has no clip; write x.clamp(low, high)"),
        (Tensor[NumPy].ones((2,)), "vdot", "write v.dot(v)"),
        (Tensor[Autodiff[NumPy]].ones(()).require_grad().backward(), "grad", "is x.grad(grads)"),
        (Tensor[NumPy].ones((2,)), "relu_", "write x = x.relu() (nothing is changed in place)"),
        (Tensor[NumPy].ones((2,)), "svd", "Tensor has no svd; write burnpy.linalg.svd(x)"),
    ],
)
def test_what_is_said(owner: Any, name: str, said: str) -> None:
    assert not hasattr(owner, name)
    with pytest.raises(MissingNameError) as caught:
        getattr(owner, name)
    assert said in str(caught.value)
    assert "__" not in str(caught.value), "a private name is no suggestion"


def test_the_package_of_tensors_is_not_called() -> None:
    package: Any = burnpy.tensor
    with pytest.raises(
        CallError, match=r"burnpy\.tensor\(\.\.\.\) was called.* Tensor\.from_data\(data, device=device\)"
    ):
        package([1.0, 2.0])


@pytest.mark.parametrize("kind", [Tensor, IntTensor, BoolTensor])
def test_what_is_missing_is_not_listed(kind: Any) -> None:
    x = kind[NumPy].ones((2, 2))
    assert {name for name in [*dir(x), *dir(type(x))] if not hasattr(x, name)} == set()
    assert {"reshape", "shape", "zeros", "__eq__", "at"} <= {*dir(x)} & {*dir(type(x))}
    assert "clip" not in dir(x)
    assert copy.deepcopy(x).tolist() == pickle.loads(pickle.dumps(x)).tolist() == np.asarray(x).tolist()
    with pytest.raises(AttributeError) as caught:
        x.__cuda_array_interface__  # as libraries ask for: no table is looked at
    assert type(caught.value) is AttributeError


def test_assignments_are_explained_too() -> None:
    x: Any = Tensor[NumPy].ones((2,))
    with pytest.raises(
        MissingNameError, match=r"write x\.is_require_grad\(\) \(x = x\.require_grad\(\) makes a leaf\)"
    ):
        x.requires_grad = True


OWNERS: dict[str, Any] = {
    "burnpy": burnpy,
    **{f"burnpy.{name}": getattr(burnpy, name) for name in ("nn", "optim", "func", "linalg", "autodiff", "data")},
    "burnpy.distributed": burnpy.distributed,
    "burnpy.nn.functional": burnpy.nn.functional,
    "burnpy.nn.init": burnpy.nn.init,
    "Linear": burnpy.nn.Linear(2, 2, device=Autodiff[NumPy]),
    "Param": burnpy.nn.Linear(2, 2, device=Autodiff[NumPy]).weight,
    "Adam": burnpy.optim.Adam(),
}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_a_name_that_is_only_looked_for_is_compared_with_no_other(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hasattr` and `getattr` with a default show no message, so none is made."""
    compared: list[str] = []

    def counted(name: str, names: Any) -> str | None:
        compared.append(name)
        return meant(name, names)

    monkeypatch.setattr(missing_names, "meant", counted)
    assert not hasattr(owner, "zzqx")
    assert getattr(owner, "zzqx", None) is None
    assert compared == []
    with pytest.raises(AttributeError) as caught:
        owner.zzqx
    assert str(caught.value) == str(caught.value)
    assert "zzqx" in compared
    assert len(compared) <= 2, "with the names of the package, and with the methods of tensors"


@pytest.mark.parametrize("kind", [IntTensor, BoolTensor])
def test_a_method_of_another_kind_that_is_only_looked_for_makes_no_message(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object) -> str:
        raise AssertionError("a message was made")

    monkeypatch.setattr(tensor_base.Lacking, "_message", refused)
    monkeypatch.setattr(missing_names, "row_of", refused)
    x = kind[NumPy].full((2,), True)
    assert not hasattr(x, "mean")
    assert getattr(x, "cond", None) is None


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (burnpy, "stak", "burnpy has no stak; did you mean stack?"),
        (burnpy.nn.Linear(2, 2, device=NumPy), "weigth", "Linear has no weigth; did you mean weight?"),
        (IntTensor[NumPy].ones((2,)), "mean", "mean() needs a float tensor, and this is an int tensor"),
        (Tensor[NumPy].ones((2,)), "vdot", "Tensor has no vdot; write v.dot(v)"),
    ],
)
def test_wherever_an_error_is_read_its_hint_is_there(owner: Any, name: str, said: str) -> None:
    def fresh() -> Any:
        return refusal(owner, name)

    assert str(fresh()).startswith(said)
    assert repr(fresh()).count(said) == 1
    assert fresh().args == (str(fresh()),)
    assert f"{fresh()}" == f"{fresh():}" == str(fresh())
    shown = "".join(traceback.format_exception(fresh()))
    assert shown.count(said) == 1
    assert "Did you mean" not in shown
    assert fresh().name is None
    assert isinstance(owner, types.ModuleType) or fresh().obj is owner
    noted = fresh()
    noted.add_note("while loading")
    for again in (pickle.loads(pickle.dumps(noted)), copy.copy(noted), copy.deepcopy(noted)):
        assert type(again) is type(noted)
        assert again.args == noted.args
        assert again.__notes__ == ["while loading"]


@pytest.mark.slowest
def test_an_uncaught_error_prints_its_hint_once() -> None:
    """By Python's own code for tracebacks, which does not use the module `traceback` before 3.13."""
    run = subprocess.run([sys.executable, "-c", "import burnpy; burnpy.stak"], capture_output=True, text=True)
    assert run.stderr.splitlines()[-1].endswith("MissingNameError: burnpy has no stak; did you mean stack?")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from burnpy import stak", "burnpy has no stak; did you mean stack?"),
        ("from burnpy.nn import Linear, BatchNorm2d", "burnpy.nn has no BatchNorm2d; write BatchNorm"),
        ("from burnpy.optim import OneCycleLR", "burnpy.optim has no OneCycleLR; write OneCycleLr"),
        ("from burnpy.nn.init import kaiming_uniform", "burnpy.nn.init has no kaiming_uniform; write KaimingUniform"),
        (
            "from burnpy.array_api import concatenate",
            "burnpy.array_api has no concatenate, which is not in the array API",
        ),
        ("from burnpy.array_api.fft import fft2", "burnpy.array_api.fft has no fft2, which is not in the array API"),
        ("from burnpy.backend import Cuda", "no backend 'Cuda' is installed; there are: CuPy, NumPy"),
    ],
)
def test_imports_of_names_say_what_to_write(statement: str, message: str) -> None:
    """Python keeps the message of an ImportError only."""
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert str(caught.value).startswith(message)


def test_slips_of_spelling() -> None:
    for name, wanted in (
        ("sofmax", "softmax"),
        ("tarnspose", "transpose"),
        ("crossentropy", "cross_entropy"),
        ("cross_entorpy", "cross_entropy"),
        ("Conv2D", "Conv2d"),
        ("l1_loss", None),
        ("conv1d", None),
        ("min", None),
        ("BatchNorm1d", None),
        ("sinh", None),
    ):
        known = [
            "softmax",
            "transpose",
            "cross_entropy",
            "nll_loss",
            "mse_loss",
            "Conv2d",
            "conv2d",
            "max",
            "BatchNorm",
        ]
        assert meant(name, [*known, "sin", "cos", "list"]) == wanted


def test_the_page_has_every_name() -> None:
    text = names_elsewhere.PAGE.read_text(encoding="utf-8")
    shown = {*text.replace("`", " ").replace(",", " ").split()}
    printed = [name for name in OPERATIONS if (row := row_of(name)) and row.section not in names_elsewhere.BY_HAND]
    assert {f"x.{name}" for name in printed if name in TENSOR} <= shown
    assert {f"torch.{name}" for name in printed if name in TORCH} <= shown


def test_expressions_of_the_table_compute_what_they_should() -> None:
    """A few that are no operation of that name."""
    n = {name: np.asarray(value) for name, value in setting().items() if hasattr(value, "to_numpy")}
    expected = {
        "log2": np.log2(np.abs(n["x"])),
        "addcmul": n["x"] + 0.5 * n["y"] * n["y"],
        "outer": np.outer(n["v"], n["v"]),
        "logaddexp": np.logaddexp(n["x"], n["y"]),
        "trunc": np.trunc(n["x"]),
        "rot90": np.rot90(n["x"]),
        "diff": np.diff(n["x"]),
        "std_mean": (n["x"].std(1, ddof=1), n["x"].mean(1)),
        "repeat_interleave": np.repeat(n["x"], 2, axis=0),
        "trace": np.trace(n["m"]),
    }
    namespace = setting() | {"math": math}
    namespace["x"] = namespace["x"].detach()
    for name, value in expected.items():
        ours = rows()[name].ours.replace("x.log2()", "x.abs().log2()")
        found = eval(ours, namespace)
        np.testing.assert_allclose(
            np.stack([np.asarray(part) for part in found]) if isinstance(found, tuple) else np.asarray(found),
            np.stack(value) if isinstance(value, tuple) else value,
            rtol=1e-6,
        )


@every_row("name", [n for n in FUNCTIONAL if hasattr(burnpy.nn.functional, n) and not hasattr(Tensor, n)])
def test_functions_of_layers_are_named_where_they_are(name: str) -> None:
    error = refusal(Tensor[NumPy].ones((2, 2)), name)
    assert isinstance(error, MissingNameError)
    assert "not here" not in str(error)
    written = re.search(r"burnpy(?:\.\w+)+", str(error))
    assert written is not None, error
    assert attrgetter(written[0].removeprefix("burnpy."))(burnpy)
