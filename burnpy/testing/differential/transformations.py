"""The table of transformations that must agree: how each computes a quantity of a sample, and what it equals.

A quantity is a pure function of a sample's arguments: its values, gradient, tangent or Hessian-vector product. A
transformation computes a quantity in another way, which must equal the plain computation of float64.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from burnpy.autodiff import Autodiff, Balanced, checkpoint
from burnpy.backend import Checked, Mixed, Profiled
from burnpy.backend.dtypes import HALVES, float64
from burnpy.backend.errors import BurnpyError
from burnpy.func import compiled, hessian, jacfwd, jacrev, vjp, vmap
from burnpy.interop import onnx
from burnpy.tensor.tensor import Tensor
from burnpy.testing.differential.calls import constant, flat
from burnpy.testing.differential.samples import EXAMPLES, Arrays, Case, Function, Unsuitable, quantities

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP = 1e-5
"""The step of differences, relative to the size of the arguments."""


@dataclass(frozen=True)
class Transformation:
    """One way to compute a quantity, and what it equals."""

    name: str
    quantity: str  #: the one of `quantities` that is computed
    way: Callable[[Case, str], Arrays]
    batch: bool = False  #: whether it equals the quantity for a batch of examples, computed in a loop
    expected: Callable[[Case, str], Arrays] | None = None  #: what it equals, if that is not the quantity
    dtype: str = "float64"  #: the dtype whose rounding errors it may have
    plans: bool = False  #: whether it compiles
    draws: bool = True  #: whether it draws the numbers that eager mode draws
    weight: float = 1.0  #: how often it is chosen
    of: str = ""  #: the quantity whose differences it equals
    mode: bool = False  #: whether it differentiates in another mode, where 0 · NaN may be 0


def _vmapped(f: Function, **options: Any) -> Function:
    return vmap(f, randomness="same", **options)  # type: ignore[no-any-return]  # of functions without types


def _through(*wrappers: Callable[[Function], Function]) -> Callable[[Case, str], Arrays]:
    """Return the way that wraps a quantity, the last wrapper first; of a batch, if one is `vmap`."""

    def way(case: Case, quantity: str) -> Arrays:
        f = case.functions[quantity]
        return _wrapped(case, f, wrappers)

    return way


def _wrapped(case: Case, f: Function, wrappers: Sequence[Callable[[Function], Function]]) -> Arrays:
    for wrapper in reversed(wrappers):
        f = wrapper(f)
    return case.compute(f, case.stacked() if _vmapped in wrappers else None)


def _of(
    inner: Callable[[Function], Function], *wrappers: Callable[[Function], Function]
) -> Callable[[Case, str], Arrays]:
    """Return the way that wraps the function, and then its quantity."""

    def way(case: Case, quantity: str) -> Arrays:
        return _wrapped(case, quantities(case, inner(case.f))[quantity], wrappers)

    return way


def _checkpointed(f: Function) -> Function:
    return lambda *xs: checkpoint(f, *xs)


def _nested(case: Case, quantity: str) -> Arrays:
    """Compute a batch of batches: the examples, and the examples in reverse."""
    xs = [Tensor.from_data(np.stack([x.to_numpy(), x.to_numpy()[::-1]]), device=case.device) for x in case.stacked()]
    found = case.compute(_vmapped(_vmapped(case.functions[quantity])), xs)
    return [np.where(_alike(x[0], x[1][::-1]), x[0], x[1][::-1]) for x in found]


def _alike(a: NDArray[Any], b: NDArray[Any]) -> Any:
    return np.isclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True) if a.dtype.kind == "f" else a == b


def _placed(case: Case, quantity: str) -> Arrays:
    """Compute a batch whose dimension is not the first one of arguments and results."""
    dims = [int(case.rng.integers(0, x.ndim + 1)) for x in case.inputs]
    out = [int(case.rng.integers(0, x.ndim + 1)) for x in case.eager(quantity)]
    f = _vmapped(case.functions[quantity], in_dims=tuple(dims), out_dims=tuple(out))
    return [np.moveaxis(x, d, 0) for x, d in zip(case.compute(f, case.stacked(dims=dims)), out, strict=True)]


def _shared(case: Case, quantity: str) -> Arrays:
    """Compute a batch in which the last of several arguments is shared by all examples."""
    if len(case.inputs) == 1:
        return case.compute(_vmapped(case.functions[quantity]), case.stacked())
    f = _vmapped(case.functions[quantity], in_dims=(*[0] * (len(case.inputs) - 1), None))
    return case.compute(f, [*case.stacked()[:-1], case.tensors()[-1]])


def _shared_loop(case: Case, quantity: str) -> Arrays:
    last = case.tensors()[-1:] if len(case.inputs) > 1 else []
    given = [[*case.tensors(k)[: len(case.inputs) - len(last)], *last] for k in range(EXAMPLES)]
    return case.loop(case.functions[quantity], given)


def _again(case: Case, quantity: str) -> Arrays:
    """Compute by a plan that was made with other values."""
    f = compiled(case.functions[quantity])
    case.compute(f, case.tensors(1))
    return case.compute(f)


def _other_shapes(case: Case, quantity: str) -> Arrays:
    """Compute by a function that was compiled for arguments of other shapes."""
    f = compiled(case.functions[quantity])
    try:
        case.run(
            f, [Tensor.from_data(np.concatenate([x, x]) if x.ndim else x, device=case.device) for x in case.inputs]
        )
    except Exception:
        raise Unsuitable("it takes one shape") from None
    return case.compute(f)


def _donated(case: Case, quantity: str) -> Arrays:
    q = case.functions[quantity]
    f = compiled(lambda x, *rest: q(x, *rest), donate=("x",))
    case.compute(f, case.tensors(1))
    return case.compute(f)


def _on(kind: Any) -> Callable[[Case, str], Arrays]:
    return lambda case, quantity: case.compute(case.functions[quantity], case.tensors(device=kind(case.device)))


def _without_kernels(case: Case, quantity: str) -> Arrays:
    """Compute a plan while ``BURNPY_COMPILE`` is 0."""
    kernels: Any = sys.modules.get("burnpy_numpy.kernels.kernel")

    def reread() -> None:
        if kernels is not None:  # NumPy's backend reads the setting once
            kernels._setting.cache_clear()
            kernels.forget()

    with patch.dict(os.environ, BURNPY_COMPILE="0"):
        reread()
        found = case.compute(compiled(case.functions[quantity]))
    reread()
    return found


def _read_back(case: Case, _quantity: str) -> Arrays:
    """Compute by a file of ONNX that the function was written to."""
    if find_spec("onnx") is None:
        raise Unsuitable("onnx is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "function.onnx"
        onnx.export(case.f, tuple(case.tensors()), path)
        return case.compute(onnx.load(path, case.device))


def _with_foreign_nodes(case: Case, quantity: str) -> Arrays:
    """Compute by two files: the function's, and one that returns its results by nodes that `export` does not write."""
    found = _read_back(case, quantity)
    rows = [k for k, x in enumerate(found) if x.dtype == float64 and x.ndim and 1 < x.shape[-1] < 10]
    if not rows:
        raise Unsuitable("no rows of floats")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.onnx"
        _write_foreign(path, [found[k].shape for k in rows])
        xs = [Tensor.from_data(found[k], device=case.device) for k in rows]
        try:
            out = case.compute(lambda *xs: flat(onnx.load(path, case.device)(*xs)), xs)
        except BurnpyError as error:  # every backend reads these nodes
            raise AssertionError(str(error)) from error
    for k, y in zip(rows, out, strict=True):
        found[k] = y
    return found


def _write_foreign(path: Path, shapes: Sequence[tuple[int, ...]]) -> None:
    """Write a file that returns its inputs: split into columns, the last one unread, and added to empty one-hots."""
    package = import_module("onnx")
    helper, held = package.helper, package.numpy_helper.from_array
    nodes, constants, ends = [], [held(np.array([-1]), "last"), held(np.array([0.0, 1.0]), "off and on")], []
    for k, shape in enumerate(shapes):
        n, x = shape[-1], f"x{k}"
        columns = [*[f"{x}c{j}" for j in range(n - 1)], ""]
        constants += [held(np.array([-n - 1, n, 2 * n]), f"{x}i"), held(np.array(n), f"{x}n")]
        constants += [held(np.array([n - 1]), f"{x}from"), held(np.array([n]), f"{x}to")]
        nodes += [
            helper.make_node("Split", [x], columns, axis=-1),
            helper.make_node("Slice", [x, f"{x}from", f"{x}to", "last"], [f"{x}rest"]),
            helper.make_node("Concat", [*columns[:-1], f"{x}rest"], [f"{x}again"], axis=-1),
            helper.make_node("OneHot", [f"{x}i", f"{x}n", "off and on"], [f"{x}hot"]),
            helper.make_node("ReduceMax", [f"{x}hot"], [f"{x}none"], axes=[0], keepdims=0),
            helper.make_node("Add", [f"{x}again", f"{x}none"], [f"y{k}"]),
        ]
        ends.append([helper.make_tensor_value_info(name, 11, shape) for name in (x, f"y{k}")])
    graph = helper.make_graph(nodes, "rows", [x for x, _ in ends], [y for _, y in ends], constants)
    opset = [helper.make_opsetid("", 13)]
    package.save(helper.make_model(graph, opset_imports=opset, ir_version=helper.find_min_ir_version_for(opset)), path)


def _balanced(case: Case, quantity: str) -> Arrays:
    before, Balanced.smallest = Balanced.smallest, 0
    try:
        return _backward(case, quantity, Balanced(case.device))
    finally:
        Balanced.smallest = before


def _backward(case: Case, _quantity: str, device: Any = None) -> Arrays:
    """Compute the gradient by ``backward()`` from a loss."""
    on: Any = Autodiff(case.device if device is None else device)
    xs = [x.require_grad() for x in case.tensors(device=on)]
    loss = case.run(case.functions["loss"], xs)
    if not loss.is_require_grad():
        return [np.zeros(x.shape) for x in xs]
    grads = loss.backward()
    found = [x.grad(grads) for x in xs]
    return [np.zeros(x.shape) if g is None else g.to_numpy() for x, g in zip(xs, found, strict=True)]


def _pulled(case: Case, _quantity: str) -> Arrays:
    def pulled(*xs: Any) -> Any:
        loss, pullback = vjp(case.functions["loss"], *xs)
        return pullback(constant(np.ones(loss.shape), loss))

    return case.compute(pulled)


def _threads(case: Case, quantity: str) -> Arrays:
    """Compute in two threads at once, with other values in the second."""
    with ThreadPoolExecutor(2) as pool:
        first, _ = [pool.submit(case.compute, case.functions[quantity], case.tensors(k)) for k in range(2)]
        return first.result()


def _strided(case: Case, quantity: str) -> Arrays:
    """Compute with arguments that are views: every second element of a reversed array with more."""

    def strided(x: NDArray[Any]) -> Any:
        if not x.ndim:
            return Tensor.from_data(x, device=case.device)
        axis = int(case.rng.integers(x.ndim))
        wide = Tensor.from_data(np.repeat(np.flip(x, axis), 2, axis), device=case.device).flip(axis)
        return wide.transpose(0, axis)[::2].transpose(0, axis)

    return case.compute(case.functions[quantity], [strided(x) for x in case.inputs])


def _narrow(
    dtype: str, kind: Any = None, wrapper: Callable[[Function], Function] | None = None
) -> Callable[[Case, str], Arrays]:
    def way(case: Case, quantity: str) -> Arrays:
        on = case.device if kind is None else kind(case.device)
        f = case.functions[quantity] if wrapper is None else wrapper(case.functions[quantity])
        found = case.compute(f, case.tensors(device=on, dtype=dtype))
        return [x if x.dtype.kind in "biu" else x.astype(float64) for x in found]

    return way


def _along_direction(case: Case, _quantity: str) -> Arrays:
    """Return Σ gradient · direction."""
    found = zip(case.eager("gradient"), case.directions, strict=True)
    return [np.asarray(sum(float((g * d).sum()) for g, d in found))]


def _along_tangent(case: Case, _quantity: str) -> Arrays:
    found = zip(case.eager("tangent"), case.weights, strict=True)
    return [np.asarray(sum(float((t * w).sum()) for t, w in found))]


def _eager(case: Case, quantity: str) -> Arrays:
    return case.eager(quantity)


def differences(case: Case, of: str) -> tuple[Arrays, Arrays, Arrays]:
    """Return central differences of a quantity along the directions, their errors, and the jumps of the slope. The
    errors are judged by other steps. A jump is the difference of the slopes on both sides, which at a kink does not
    become smaller with the step."""

    def sides(h: float) -> tuple[Arrays, Arrays]:
        moved = [[x + s * h * d for x, d in zip(case.inputs, case.directions, strict=True)] for s in (1, -1)]
        up, down = [
            case.compute(case.functions[of], [Tensor.from_data(x, device=case.device) for x in m]) for m in moved
        ]
        return up, down

    def slopes(h: float) -> Arrays:
        return [(a - b) / (2 * h) for a, b in zip(*sides(h), strict=True)]

    up, down = sides(2 * STEP)
    mean = [(a - b) / (4 * STEP) for a, b in zip(up, down, strict=True)]
    jumps = [abs(a + b - 2 * x) / (2 * STEP) for a, b, x in zip(up, down, case.eager(of), strict=True)]
    errors = [abs(w - m) + abs(m - n) for w, n, m in zip(slopes(4 * STEP), slopes(STEP), mean, strict=True)]
    return mean, errors, jumps


def _jacobian(case: Case, make: Any) -> Function:
    """Return the Jacobian of the first result by all arguments, if it is small."""
    if sum(x.size for x in case.inputs) > 40 or sum(w.size for w in case.weights) > 60:
        raise Unsuitable("many elements")

    def first(*xs: Any) -> Any:
        return flat(case.f(*xs))[case.float_results[0]]

    jacobian: Function = make(first, argnums=case.numbers)
    return jacobian


def _hessian(case: Case, _quantity: str) -> Arrays:
    """Return the products of the blocks of the Hessian and the directions."""
    if sum(x.size for x in case.inputs) > 40:
        raise Unsuitable("many elements")
    rows: Any = case.run(hessian(case.functions["loss"], case.numbers), case.tensors())
    totals = []
    for x, row in zip(case.inputs, rows, strict=True):
        blocks = [
            b.to_numpy().reshape((*x.shape, d.size)) @ d.reshape(-1) for b, d in zip(row, case.directions, strict=True)
        ]
        totals.append(sum(blocks[1:], blocks[0]))
    return totals


def _jacobians(make: Any, *wrappers: Callable[[Function], Function]) -> Callable[[Case, str], Arrays]:
    def way(case: Case, _quantity: str) -> Arrays:
        return _wrapped(case, _jacobian(case, make), wrappers)

    return way


def _looped_jacobians(case: Case, _quantity: str) -> Arrays:
    return case.loop(_jacobian(case, jacrev))


_ALL = {"values": "f", "gradient": "grad(f)", "tangent": "jvp(f)", "hvp": "hvp(f)"}
_TWO = {"values": "f", "gradient": "grad(f)"}
_REVERSE = {"gradient": "grad(f)", "hvp": "hvp(f)"}

_WAYS: tuple[tuple[str, Mapping[str, str], Callable[[Case, str], Arrays], dict[str, Any]], ...] = (
    ("again {}", _ALL, _through(), {"weight": 0.3}),
    ("compiled({})", _ALL, _through(compiled), {"plans": True, "weight": 2.0}),
    ("compiled({}), other values", _ALL, _again, {"plans": True}),
    ("compiled({}), other shapes", _TWO, _other_shapes, {"plans": True, "weight": 0.5}),
    ("compiled({}), donated", _TWO, _donated, {"plans": True, "weight": 0.7}),
    (
        "compiled({}), float32",
        _TWO,
        _narrow("float32", None, compiled),
        {"plans": True, "dtype": "float32", "draws": False},
    ),
    ("vmap({})", _ALL, _through(_vmapped), {"batch": True, "weight": 1.5}),
    ("vmap({}), in_dims and out_dims", _ALL, _placed, {"batch": True}),
    ("vmap({}), in_dims None", _ALL, _shared, {"expected": _shared_loop, "batch": True, "weight": 0.7}),
    ("vmap(vmap({}))", _ALL, _nested, {"batch": True, "weight": 1.5}),
    ("compiled(vmap({}))", _ALL, _through(compiled, _vmapped), {"batch": True, "plans": True}),
    ("vmap(compiled({}))", _ALL, _through(_vmapped, compiled), {"batch": True, "weight": 0.4}),
    ("{}, in threads", _ALL, _threads, {"draws": False, "weight": 0.3}),
    ("Checked {}", _ALL, _on(Checked), {"weight": 0.4}),
    ("Profiled {}", _ALL, _on(Profiled), {"weight": 0.3}),
    ("float32 {}", _ALL, _narrow("float32"), {"dtype": "float32", "draws": False, "weight": 1.2}),
    *[(f"{half} {{}}", _TWO, _narrow(half), {"dtype": half, "draws": False, "weight": 0.4}) for half in HALVES[::-1]],
    ("compiled({}), without kernels", _ALL, _without_kernels, {"weight": 0.15}),
    ("f of ONNX", {"values": ""}, _read_back, {"draws": False, "weight": 0.2}),
    ("f of ONNX, foreign nodes", {"values": ""}, _with_foreign_nodes, {"draws": False, "weight": 0.2}),
    ("strided {}", _TWO, _strided, {"weight": 0.7}),
    ("Mixed f", {"values": ""}, _narrow("float32", Mixed), {"dtype": "bfloat16", "draws": False, "weight": 0.5}),
    ("{} of checkpoint", _REVERSE, _of(_checkpointed), {}),
    ("compiled({}) of checkpoint", _REVERSE, _of(_checkpointed, compiled), {"plans": True}),
    ("vmap({}) of checkpoint", _REVERSE, _of(_checkpointed, _vmapped), {"batch": True, "weight": 0.5}),
    ("{} of compiled(f)", _REVERSE, _of(compiled), {"weight": 0.4}),
    ("backward()", {"gradient": ""}, _backward, {}),
    ("backward(), Balanced", {"gradient": ""}, _balanced, {}),
    ("vjp(f)", {"gradient": ""}, _pulled, {"weight": 0.5}),
    ("jvp(f) = grad(f)", {"gradient": ""}, _along_tangent, {"expected": _along_direction, "mode": True}),
    ("grad(f) = differences", {"gradient": ""}, _along_direction, {"of": "loss", "weight": 3.0}),
    ("hvp(f) = differences", {"hvp": ""}, _eager, {"of": "gradient", "weight": 1.5}),
    ("hessian(f)", {"hvp": ""}, _hessian, {"mode": True}),
    ("jacfwd(f) = jacrev(f)", {"gradient": ""}, _jacobians(jacfwd), {"expected": _jacobians(jacrev), "mode": True}),
    ("vmap(jacrev(f))", {"gradient": ""}, _jacobians(jacrev, _vmapped), {"expected": _looped_jacobians, "batch": True}),
    (
        "vmap(jacfwd(f))",
        {"gradient": ""},
        _jacobians(jacfwd, _vmapped),
        {"expected": _looped_jacobians, "batch": True, "mode": True},
    ),
    (
        "compiled(vmap(jacrev(f)))",
        {"gradient": ""},
        _jacobians(jacrev, compiled, _vmapped),
        {"expected": _looped_jacobians, "batch": True, "plans": True, "weight": 0.3},
    ),
)
"""Names, with a place for the function's; the quantities with the function's names; the way; and its traits."""

TRANSFORMATIONS: tuple[Transformation, ...] = tuple(
    Transformation(name.format(f), quantity, way, **traits)
    for name, of, way, traits in _WAYS
    for quantity, f in of.items()
)
"""The transformations that must agree with plain computation."""
