"""Every operation of the schema in a plan, with its gradient: eager mode's bits unfused, and near it fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, errors, linalg, stack
from burnpy.backend import NumPy
from burnpy.backend.decorators.recorded import Recorded
from burnpy.backend.plans.memory import RETURNED
from burnpy.backend.plans.plan import Plan
from burnpy.backend.plans.recording import Ref, Traced
from burnpy.errors import ArgumentError, DTypeError
from burnpy.func import compiled, grad, vmap
from burnpy.nn.functional import gaussian_nll_loss
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.table import calls
from burnpy.testing.conformance import every_case
from tests.conformance.suites import LARGE, in_turn
from tests.interrupting import LONG
from tests.rows import every_row

FUSED = ("float32", "float64")
"""The dtypes that kernels of plans compute with."""
READS = ("to_numpy", "nonzero")
"""The operations that a plan cannot have."""


class ByOperations(NumPy):
    """Eager mode that computes a formula operation by operation, as it is recorded, in place of a kernel for it."""

    def fused(self, formula: Any, xs: Any, numbers: Any = ()) -> Any:
        return formula(self, *xs, *numbers)


def flat(tree: Any) -> list[Any]:
    """Return the primitives among arguments or results."""
    if type(tree) in (list, tuple):
        return [x for member in tree for x in flat(member)]
    return [tree] if hasattr(tree, "shape") and hasattr(tree, "dtype") else []


def replaced(tree: Any, values: list[Any]) -> Any:
    """Return arguments with other primitives in place of the primitives, which are taken from a list."""
    if type(tree) in (list, tuple):
        return type(tree)([replaced(member, values) for member in tree])
    return values.pop(0) if hasattr(tree, "shape") and hasattr(tree, "dtype") else tree


def copied(args: Any) -> Any:
    """Return arguments with copies of the arrays, which an operation may overwrite."""
    return replaced(args, [np.array(x) for x in flat(args)])


def plan_of(f: Callable[[Any, Any], Any], args: Any, fuse: bool) -> tuple[Plan, Any]:
    """Return the plan of a function of a device and of arguments, and the result of the recording."""
    recorder = Recorded.unregistered(NumPy())
    values = [recorder.input(x) for x in flat(copied(args))]
    out = f(recorder, replaced(args, list(values)))
    results = [x for x in flat(out) if isinstance(x, Traced)]
    recorder.recording.outputs += [x.ref for x in results]
    recorder.close()
    return Plan(recorder.recording, NumPy(), fuse), [x.value for x in results]


def with_other_values(call: Callable[[Any, Any], Any], args: Any) -> list[tuple[Any, list[Any]]]:
    """Return arguments and results of three replays: those of the recording, others, and those of the recording again.

    The others are the floats in reverse order, which are as valid in most cases; where they are not, they are left out.
    """
    reversed_values = [x[::-1].copy() if x.ndim else x for x in map(np.array, flat(args))]
    floats = [y if x.dtype.kind in "fV" else x for x, y in zip(flat(args), reversed_values, strict=True)]
    replays = []
    for given in (args, replaced(args, floats)):
        try:
            replays.append((given, [np.array(x) for x in flat(call(ByOperations(), copied(given)))]))
        except errors.BurnpyError:
            assert given is not args
    return [*replays, replays[0]]


def same_bits(x: Any, y: Any) -> bool:
    """Return whether two arrays are equal bit for bit, but for the bits of NaN."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return np.array_equal(widened(x), widened(y), equal_nan=x.dtype.kind not in "biu")


def widened(x: Any) -> Any:
    """Return an array with floats as float64, bfloat16 too, and complex numbers as complex128."""
    return x if x.dtype.kind in "biu" else x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def named(name: str) -> Any:
    """Return an operation as a parameter of a test, which is long if compiling plans of the operation takes seconds."""
    return pytest.param(name, marks=pytest.mark.long) if name in LARGE else name


DTYPES = ("float32", *(("float64",) if LONG else ()), "bfloat16", "int64", "bool")
"""The dtypes of the calls. Gradients are in float64."""


def is_fused(k: int) -> bool:
    """Return whether the k-th example is replayed fused, too, for which kernels are compiled: their programs are traced
    for any sizes."""
    return bool(LONG) or k < 2 or k % 3 == 0


@pytest.mark.slowest
@pytest.mark.parametrize("name", [named(name) for name in ROWS if name not in READS])
def test_operation(name: str) -> None:
    with every_case() as case:
        replayed = list(in_turn(name, DTYPES))  # a recorder notes calls without looking at dtypes
        fused = [arguments for arguments in replayed if arguments.dtype.name in FUSED]
        fused = [arguments for k, arguments in enumerate(fused) if is_fused(k)]
        for arguments in replayed:
            args = arguments.primitives(NumPy(), False)
            if not any(isinstance(x, np.random.Generator) for x in args):
                with case(arguments.where):
                    close = (1e-5, 1e-6) if arguments in fused else None
                    check_replays(lambda device, given: getattr(device, name)(*given), args, close)


def check_replays(call: Callable[[Any, Any], Any], args: Any, close: tuple[float, float] | None) -> None:
    """Check a plan's replays: unfused they have the bits of eager mode; fused they are close, by rtol and atol."""
    replays = with_other_values(call, args)
    for fuse in (False, True) if close else (False,):
        plan, _ = plan_of(call, args, fuse)
        for given, expected in replays:
            for x, y in zip(plan(flat(copied(given))), expected, strict=True):
                if close and fuse:
                    assert (x.dtype, x.shape) == (y.dtype, y.shape)
                    np.testing.assert_allclose(widened(np.asarray(x)), widened(np.asarray(y)), *close)
                else:
                    assert same_bits(x, y)


@pytest.mark.slowest
@pytest.mark.parametrize("name", [named(name) for name, row in ROWS.items() if row.gradients])
def test_gradient(name: str) -> None:
    row = ROWS[name]

    def gradients(device: Any, given: Any) -> Any:
        outer = Autodiff.unregistered(device)
        floats = [x for x in flat(given) if x.dtype.kind == "f"]
        leaves = {id(x): outer.require_grad(outer.lift(x)) for x in floats}
        out = getattr(outer, name)(*replaced(given, [leaves.get(id(x), x) for x in flat(given)]))
        roots = [x for x in flat(out) if x.dtype.kind == "f" and outer.is_require_grad(x)]
        seeds = [(x, device.full(x.shape, 1.0, x.dtype)) for x in roots]
        found = outer.gradients(seeds, retain_graph=False)
        return [found[leaf.node] for leaf in leaves.values() if leaf.node in found]

    with every_case() as case:
        smooth = [a for a in calls(name, ["float64"], ["contiguous"]) if row.smooth(row.examples[a.example])]
        for k, arguments in enumerate(smooth):
            if not (LONG or k < 3 or k % 3 == 0):
                continue  # a gradient consists of operations, which the test above records in all examples
            with case(arguments.where):
                close = (1e-9, 1e-9) if is_fused(k // 2) else None
                check_replays(gradients, arguments.primitives(NumPy(), False), close)


def test_what_may_return_its_argument_is_known() -> None:
    returned = {name for name, row in ROWS.items() if not row.fresh and row.operation.view is None}
    assert returned | {"bounded", "bounded_and_counted", "bounded_from_end"} == RETURNED


def test_reads_are_refused() -> None:
    recorder = Recorded.unregistered(NumPy())
    x = recorder.input(np.ones(3))
    for name in READS:
        with pytest.raises(errors.RecordingError):
            getattr(recorder, name)(x)


def test_refs_are_values() -> None:
    recorder = Recorded.unregistered(NumPy())
    x = recorder.input(np.ones((2, 3), np.float32))
    assert isinstance(x.ref, Ref)
    assert (x.shape, x.dtype) == ((2, 3), np.float32)


def _lstsq(a: Any, b: Any) -> Any:
    fit = linalg.lstsq(a, b)
    return fit.solution, fit.residuals, fit.singular_values


X, K = Tensor[NumPy].from_data([1.0, 2.0, 3.0, 4.0]), IntTensor[NumPy].from_data([2])
MATRIX = Tensor[NumPy].from_data(np.random.default_rng(0).standard_normal((6, 3)))
UNREAD: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "bincount": (lambda k: k.bincount(minlength=4), (IntTensor[NumPy].from_data([1, 3, 1]),)),
    "bincount with weights": (lambda k, x: k.bincount(x, minlength=5), (IntTensor[NumPy].from_data([1, 3, 1, 0]), X)),
    "lstsq": (_lstsq, (MATRIX, MATRIX[:, :2].sin())),
    "the gradient of lstsq": (grad(lambda a, b: linalg.lstsq(a, b)[0].sum()), (MATRIX, MATRIX[:, :2].sin())),
    "gaussian_nll_loss": (grad(lambda v, x: gaussian_nll_loss(x, x * 0.9, v), argnums=(0, 1)), (X * 0.1, X)),
    "a part of an outer tensor set": (lambda k: X.at[k].set(0.0), (K,)),
    "a part of an outer tensor set to an argument": (lambda k, v: X.at[k].set(v), (K, X[:1])),
    "an element of an outer tensor multiplied": (lambda k: X.at[k[0]].mul(5.0), (K,)),
}  # fmt: skip


@every_row("name", UNREAD)
def test_no_value_is_read(name: str) -> None:
    """Operations whose eager form reads a value to choose a size or to check it are compiled, and run under vmap."""
    f, arguments = UNREAD[name]
    batched = tuple([stack([x, x]) for x in arguments])
    for found, expected in ((compiled(f)(*arguments), f(*arguments)), (vmap(f)(*batched), f(*arguments))):
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        for x, y in pairs:
            values = x.to_numpy()[1] if x.ndim > y.ndim else x.to_numpy()
            np.testing.assert_allclose(values, y.to_numpy(), rtol=1e-6, atol=1e-9)


def test_bincount_checks_in_each_replay() -> None:
    count = compiled(lambda k: k.bincount(minlength=4))
    assert count(IntTensor[NumPy].from_data([0, 3])).tolist() == [1, 0, 0, 1]
    for wrong in (4, -1):
        with pytest.raises(DTypeError, match=rf"bincount\(\) got {wrong}; .* which is 3"):
            count(IntTensor[NumPy].from_data([0, wrong]))
    with pytest.raises(ArgumentError, match="pass minlength="):
        compiled(lambda k: k.bincount())(K)
