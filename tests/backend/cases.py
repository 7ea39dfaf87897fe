"""Calls of every operation, as a table: what a backend must be able to do, and what two backends must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from burnpy.backend import Backend, operations
from burnpy.backend.dtypes import bool_, float16, float32, float64, int8, int64
from burnpy.backend.operations.optimizer import Step
from burnpy.backend.program import Extent, Input, trace

_WHOLE = slice(None, None, 1)


@dataclass(frozen=True)
class Case:
    """One call: NumPy arrays among the arguments become primitives."""

    operation: str
    args: tuple[Any, ...]
    label: str

    def __str__(self) -> str:
        return f"{self.operation}-{self.label}"


def run_case(device: Backend, case: Case) -> tuple[Any, ...]:
    """The results as NumPy arrays."""
    found = getattr(device, case.operation)(*(_primitive(device, a) for a in case.args))
    return tuple(device.to_numpy(x) for x in primitives(found))


def primitives(results: Any) -> list[Any]:
    """The primitives among the results of a call, in order, members of lists too."""
    if isinstance(results, (tuple, list)):
        return [x for result in results for x in primitives(result)]
    return [results]


def _primitive(device: Backend, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return device.from_numpy(value)
    return [_primitive(device, v) for v in value] if type(value) is list else value


def agree(got: tuple[Any, ...], wanted: tuple[Any, ...], case: Case) -> None:
    """Assert that the results of two backends are alike."""
    assert len(got) == len(wanted), case
    for a, b in zip(got, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), case
        rough = {2: 2e-3, 4: 2e-6, 8: 1e-12}[a.dtype.itemsize] if a.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, b, rtol=rough, atol=rough, err_msg=str(case))


def _array(shape: tuple[int, ...], dtype: Any, low: int = -4) -> np.ndarray[Any, Any]:
    drawn = np.random.default_rng(len(shape)).uniform(low, 4, shape)
    return np.asarray(drawn > 0 if dtype == bool_ else drawn).astype(dtype)


def _cases() -> list[Case]:
    made: list[Case] = []
    for dtype in (float32, float64, float16, int64, int8, bool_):
        floating, boolean = dtype.kind == "f", dtype.kind == "b"

        def a(*shape: int, low: int = -4, dtype: Any = dtype) -> np.ndarray[Any, Any]:
            return _array(shape, dtype, low)

        def add(names: str, *args: Any, label: str = "", dtype: Any = dtype) -> None:
            made.extend(Case(name, args, f"{dtype}{label}") for name in names.split())

        x, y, i = a(3, 4), a(3, 4, low=1), np.array([2, 0, 2, 1])
        cube = a(2, 3, 4)
        add("eq ne lt le gt ge", x, y)
        add("eq ne lt le gt ge", x, True if boolean else 2, label=" number")
        add("where", a(3, 4, dtype=bool_), x, y)
        add("where", a(3, 4, dtype=bool_), x, 0, label=" number")
        for dims, label in (((0,), " first"), ((1,), " last"), ((0, 1), " all"), ((), " none")):
            add("sum", x, dims, True, label=label)
            add("any all" if boolean else "prod amax amin", x, dims, False, label=label)
        add("reshape", x, (2, 6))
        add("permute", cube, (2, 0, 1))
        add("expand", a(3, 1), (2, 3, 4))
        add("slice", cube, (1, None, slice(0, 3, 2), slice(3, None, -1)))
        add("slice_scatter", x, (slice(0, 2, 1), 1), a(2))
        add("slice_scatter", x, (2, _WHOLE), 1, label=" number")
        add("slice_scatter", a(), (), 1, label=" 0-d")
        add("cat", [x, a(1, 4)], 0)
        add("flip", cube, (0, 2))
        add("flip", cube, (), label=" none")
        add("mT", cube)
        add("mT", x, label=" matrix")
        add("tril triu", cube, 1)
        add("index_select", x, 1, i)
        add("index_put", x, 1, i, a(3, 4))
        add("gather", x, 0, np.array([[2, 1], [0, 0]]))
        add("scatter", x, 0, np.array([[2, 1], [2, 0]]), a(2, 2))
        add("full", (2, 3), True if boolean else 3, dtype)
        add("full", (2, 3), 0, dtype, label=" zero")
        add("eye", 2, 3, dtype)
        add("cast", x, dtype, label=" itself")
        add("detach", x)
        add("to_bool", x)
        if boolean:
            add("bitwise_and bitwise_or bitwise_xor", x, y)
            add("bitwise_not", x)
            add("nonzero", x)
            add("nonzero", np.array(True), label=" 0-d")
            add("to_int", x, int64)
            add("to_float", x, float32)
            add("sum_to", x, (4,))
            continue
        add("add sub mul maximum minimum clamp_min clamp_max floor_divide remainder", x, y)
        add("add sub mul maximum minimum clamp_min clamp_max floor_divide remainder pow", x, 2, label=" number")
        add("pow", a(3, 4, low=0), y)
        add("add", x, a(4), label=" broadcast")
        add("neg abs sign square", x)
        add("argmax argmin", x, 1, True)
        add("max_dim min_dim", x, 0, False)
        add("cumsum", x, 1)
        add("arange", 1, 9, 3, dtype)
        add("clamp", x, -1, 2)
        add("clamp_between", x, a(4), a(3, 1))
        add("sum_to", cube, (3, 1), label=" lead")
        add("matmul", x, a(4, 2))
        add("matmul_nt", x, a(2, 4))
        add("matmul_nt", cube, a(2, 2, 4), label=" batched")
        add("matmul_tn", x, a(3, 2))
        add("matmul_tn", cube, a(2, 3, 2), label=" batched")
        add("matmul", cube, a(4, 2), label=" flattened")
        add("matmul", cube, a(2, 4, 3), label=" batched")
        add("matmul", a(0, 3, 4), a(4, 2), label=" empty")
        add("index_add", x, 1, i, a(3, 4))
        add("index_add", a(3, 2, 40), 1, np.array([1] * 20), a(3, 20, 40), label=" many")
        for reduce in ("prod", "amin", "amax"):
            add("index_reduce", x, 1, i, a(3, 4), reduce, label=f" {reduce}")
        add("index_reduce", a(3, 2, 40), 1, np.array([1] * 20), np.sign(a(3, 20, 40)), "prod", label=" many")
        add("scatter_add", x, 0, np.array([[2, 1], [2, 0]]), a(2, 2))
        if not floating:
            add("bitwise_and bitwise_or bitwise_xor", x, y)
            add("bitwise_not", x)
            add("to_float", x, float32)
            add("index_order", np.array([1, 0, 1]), 2)
            add("one_hot", np.array([1, 0]), 3)
            continue
        add("div", x, y)
        add("div pow", x, 2.5, label=" number")
        for power in (1, 3, 4, -1, -2, 0.5, -0.5):
            add("pow", y, power, label=f" {power}")
        add("floor ceil round exp expm1 sin cos tanh sigmoid erf relu silu isnan isinf isfinite", x)
        add("log log1p sqrt reciprocal rsqrt", y)
        add("sigmoid erf relu silu", a(), label=" 0-d")
        add("gelu", x, True)
        add("gelu", x, False, label=" exact")
        add("gelu_backward", y, x, True)
        add("gelu_backward", y, x, False, label=" exact")
        add("silu_backward relu_backward", y, x)
        add("softplus", x, 2.0)
        add("softmax log_softmax", x, 1)
        add("softmax log_softmax", a(0, 4), 1, label=" empty")
        add("softmax_backward log_softmax_backward", y, x, 0)
        add("logsumexp", x, (0, 1), True)
        add("logsumexp", a(0, 4), (0,), False, label=" empty")
        for dims, label in (((1,), ""), ((), " none")):
            add("mean", x, dims, True, label=label)
            add("var std", x, dims, False, 0.0, label=label)
            add("center", x, dims, label=label)
        add("to_int", x, int64)
        add("cast", x, float64)
        add("linspace", 0.0, 1.0, 5, dtype)
        add("accumulate", x, y)
        add("accumulate", a(), a(), label=" 0-d")
        add("accumulate_slice", x, (slice(0, 2, 1), 1), a(2))
        add("accumulate_slice", x, (0, 1), a(), label=" element")
        add("accumulate_index", x, 1, i, a(3, 4))
        _layers(a, add)
        for names, states, how in UPDATES:
            positive = [[np.abs(a(3, 4)) + 1, np.abs(a(5)) + 1] for _ in range(states)]
            lists = ([x, a(5)], [y, a(5, low=1)], *positive)
            add(names, *lists, STEP, *how)
            if states:
                add(names, *lists, STEP._replace(owned=True), *how, label=" owned")
    return made


STEP = Step(0.1, 3, 0.1)
UPDATES: list[tuple[str, int, tuple[Any, ...]]] = [
    ("sgd_update", 0, ()),
    ("momentum_update", 1, (0.9, 0.5, True)),
    ("adam_update", 2, (0.9, 0.99, 1e-2, True)),
    ("amsgrad_update", 3, (0.9, 0.99, 1e-2, False)),
    ("rmsprop_update", 1, (0.9, 1e-2)),
    ("rmsprop_momentum_update", 3, (0.9, 1e-2, 0.9, False)),
    ("adagrad_update", 1, (0.1, 1e-2)),
]
"""Updates of optimizers: operation, number of states, and what follows the `Step`."""


def _layers(a: Any, add: Any) -> None:
    """What is under layers and losses, of floats."""
    image, weight, where = a(2, 4, 5, 6) / 4, a(6, 2, 3, 2) / 4, ((2, 1), (1, 0), (1, 2), 2)
    made = a(2, 6, 3, 4) / 4
    add("conv2d", image, weight, *where)
    add("conv2d_bias", image, weight, a(6), *where)
    add("conv2d_input", made, weight, image.shape, *where)
    add("conv2d_weight", made, image, weight.shape, *where)
    add("conv2d", image, a(3, 4, 1, 1), (1, 1), (0, 0), (1, 1), 1, label=" 1 x 1")
    pool = ((3, 2), (2, 1), (1, 0))
    add("max_pool2d", image, *pool, (1, 1), False)
    add("max_pool2d_backward", a(2, 4, 3, 5), image, a(2, 4, 3, 5), *pool, (1, 1))
    add("max_pool2d_indices", image, *pool, (1, 1), False)
    add("avg_pool2d", image, *pool, True, False, None)
    add("avg_pool2d", image, *pool, True, False, 5, label=" over 5")
    add("avg_pool2d_backward", a(2, 4, 3, 5), image.shape, *pool, False, None)
    add("adaptive_avg_pool2d", image, (2, 4))
    add("adaptive_avg_pool2d_backward", a(2, 4, 2, 4), image.shape)
    for shape, dims in (((6,), (3,)), ((4, 1, 1), (0, 2, 3)), ((5, 1), (3,))):
        small = a(*(1 if d in dims else n for d, n in enumerate(image.shape)))
        add("normalize", image, a(*shape), a(*shape), dims, 0.5, label=f" {dims} {shape}")
        add("normalize_backward", image, image, a(*shape), small, np.abs(small), dims, 0.5, label=f" {dims} {shape}")
    add("rms_norm", image, a(6), (3,), 0.5)
    add("rms_norm_backward", image, image, a(4, 1, 1), (1,), 0.5)
    q, sums, mask = a(2, 3, 4) / 4, np.abs(a(2, 3)) + 1, np.array([[True, False, True]] * 3)
    for found, offset in ((None, None), (mask, 0), (np.stack([mask, ~mask]), None)):
        label = f" {offset} {None if found is None else found.ndim}"
        add("attention", q, q, q, found, offset, 0.5, label=label)
        add("attention_backward", q, q, q, q, sums, found, offset, 0.5, label=label)
    index = np.array([[1, 0, 2], [2, 2, 1]])
    add("linear", a(3, 4), a(4, 2), a(2))
    add("embedding", a(3, 4), index, None)
    add("embedding_backward", a(2, 3, 4), index, (3, 4), 2)
    add("run", trace(Backend.silu, (Input(Extent.FULL, a().dtype.name),)), [a(3, 4)], ())
    add("masked_scale", a(3, 4), a(3, 4) > 0, 1.25)
    add("cross_entropy", a(2, 4, 3), index, 1)
    add("cross_entropy_backward", a(2, 3), a(2, 4, 3), np.abs(a(2, 1, 3)) + 4, index, 1)


CASES = _cases()


def uncovered() -> list[str]:
    """Operations of the schema that no case calls, but for those that have tests of their own."""
    called = {case.operation for case in CASES} | {"from_numpy", "adopt_numpy", "to_numpy"}
    return [name for name in operations() if name not in called and not name.startswith("random_")]
