"""The checks of one case: values, shape, dtype, freshly allocated memory, unchanged arguments and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.autodiff import Autodiff, Forward
from burnpy.backend.backend import operations
from burnpy.backend.dtypes import bool_, epsilon, float64, is_inexact, kind_of, promote_types
from burnpy.backend.errors import DTypeError
from burnpy.backend.primitives import INEXACT
from burnpy.backend.schema import Algebra
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import tensor_of
from burnpy.testing.cases.samples import Sample
from burnpy.testing.cases.table import arguments_of, called
from burnpy.testing.gradcheck import check_briefly, gradcheck, gradgradcheck

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType
    from burnpy.testing.cases import Row

ROUNDING = 4
"""The tolerated error of a result in units in the last place, multiplied by the row's ``loose``."""
LEVELS = ("plain", "Autodiff", "Forward", "Autodiff²")


def device_at(level: str, device: Any) -> Any:
    """Return the device of a level, such as "Autodiff", on top of ``device``."""
    if level == "plain":
        return device
    if level == "Forward":
        return Forward(device)
    return Autodiff(device) if level == "Autodiff" else Autodiff(Autodiff(device))


def check_values(device: Any, level: str, row: Row, example: str, dtype: DType, layout: str, tracked: bool) -> None:
    """Check that values, shapes and dtypes are the reference's, arguments unchanged, and memory newly allocated."""
    on, arguments = device_at(level, device), arguments_of(row.operation.name, example, dtype, layout)
    where = f"{arguments.where}, {level}{', tracked' if tracked else ''}"
    primitives, reused = arguments.primitives(on, tracked), row.consumes
    computes = on if is_inexact(dtype) or row.operation.results == ("Float",) else on.discrete
    placed = _primitives(primitives)
    storages = [_storage(on, a) for k, a in placed if k not in reused] if row.fresh else []
    results = row.flat_results(called(row.operation.name, computes, primitives))
    for (k, out), expected in zip(results, arguments.expected, strict=True):
        owner = computes if row.operation.float_results[k] else on.discrete
        name = f"result {k} of {where}"
        shape: Any = out.shape
        assert isinstance(shape, tuple), f"{name}: .shape is a {type(shape).__name__}, not a tuple"
        assert isinstance(out.dtype, np.dtype), f"{name}: .dtype is a {type(out.dtype).__name__}, not NumPy's"
        assert shape == expected.shape, f"{name}: the shape is {shape}, not {expected.shape}"
        assert out.dtype == expected.dtype, f"{name}: the dtype is {out.dtype}, not {expected.dtype}"
        values = owner.to_numpy(out)
        alike = (abs(values), abs(expected)) if row.up_to_sign else (values, expected)
        wrong = difference(*alike, row.loose)
        assert wrong is None, f"{name}: {wrong}"
        if row.fresh and values.size:
            assert _storage(on, out) not in storages, f"{name}: it shares memory with an argument"
        if level.startswith("Autodiff") and row.operation.float_results[k]:
            recorded = tracked and row.operation.algebra is not Algebra.NONDIFFERENTIABLE
            assert on.is_require_grad(out) is recorded, f"{name}: is_require_grad is not {recorded}"
    for (k, a), b in zip(_arrays(on, placed), _flat(arguments.given), strict=True):
        same = a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=a.dtype.kind != "b")
        assert k in reused or same, f"{where}: an array in argument {k} was changed from\n{b}\nto\n{a}"


def difference(actual: Any, expected: Any, loose: float) -> str | None:
    """Describe the elements where two arrays differ by more than rounding; None if there are none. NaN equals NaN."""
    if actual.tobytes() == expected.tobytes():
        return None
    if not is_inexact(expected.dtype):
        differs = actual != expected
    else:
        wide: Any = np.complex128 if expected.dtype.kind == "c" else np.float64
        a, b = actual.astype(wide), expected.astype(wide)
        tolerance = ROUNDING * loose * epsilon(expected.dtype)
        with np.errstate(invalid="ignore"):
            differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance * (1 + np.abs(b))))
            if expected.dtype.kind == "c":  # where an infinity is multiplied, either part may be NaN
                differs &= np.isfinite(a) | np.isfinite(b)
    if not differs.any():
        return None
    first = tuple(int(n) for n in np.argwhere(differs)[0])
    return (
        f"{int(differs.sum())} of {differs.size} elements differ; the first, {first}, "
        f"is {actual[first]!s} and should be {expected[first]!s}"
    )


def _flat(args: list[Any]) -> list[Any]:
    """Return the NumPy arrays among the arguments."""
    arrays: list[Any] = []
    for a in args:
        arrays += a if isinstance(a, list) else [a] if isinstance(a, np.ndarray) else []
    return arrays


def _primitives(args: list[Any]) -> list[tuple[int, Any]]:
    """Return the primitives among the arguments, members of lists too, with the positions of the arguments."""
    members = [(k, member) for k, a in enumerate(args) for member in (a if isinstance(a, list) else [a])]
    return [(k, member) for k, member in members if hasattr(member, "dtype") and hasattr(member, "shape")]


def _arrays(device: Any, placed: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return primitives as NumPy arrays, with their positions."""
    return [(k, (device if is_inexact(p.dtype) else device.discrete).to_numpy(p)) for k, p in placed]


def _storage(device: Any, x: Any) -> Any:
    """Return an object that identifies a primitive's memory; `to_numpy` cannot tell, as it may return a copy."""
    return device.discrete.storage_of(_innermost(x))[0]


def _innermost(x: Any) -> Any:
    """Return the array of a primitive beneath all decorators; without tangents, which may be those of an argument."""
    while hasattr(x, "value"):
        x = x.value
    return x


def check_derivatives(
    device: Any, row: Row, example: str, dtype: DType, layout: str, order: int, brief: bool = False
) -> None:
    """Check the derivatives of the given order, 1 or 2, by all float arguments, against central differences. They are
    checked element by element, or along one random direction if ``brief``."""
    arguments = arguments_of(row.operation.name, example, dtype, layout)
    template = arguments.primitives(device, tracked=False)
    floats, places = _float_places(template)
    if not floats:
        return

    def f(*xs: Tensor[Any]) -> Any:
        on: Any = xs[0].device
        args = [list(a) if isinstance(a, list) else a for a in template]
        for (k, member), x in zip(places, xs, strict=True):
            sample = row.examples[example][k]
            primitive = sample.varied(on, x._primitive) if isinstance(sample, Sample) else x._primitive
            primitive = on.add(primitive, 0.0) if k in row.consumes else primitive
            if member is None:
                args[k] = primitive
            else:
                args[k][member] = primitive
        results = row.flat_results(called(row.operation.name, on, args))
        return [row.without_phase(tensor_of(on, r)) for k, r in results if row.operation.float_results[k]]

    inputs = [tensor_of(device, p) for p in floats]
    try:
        if brief:
            check_briefly(f, inputs, order)
        elif order == 1:
            gradcheck(f, inputs)
        else:
            gradgradcheck(f, inputs)
    except AssertionError as error:
        raise AssertionError(f"{arguments.where}, derivatives of order {order}: {error}") from error


def _float_places(given: list[Any]) -> tuple[list[Any], list[tuple[int, int | None]]]:
    """Return the float primitives among the arguments, and their positions: the argument, and the member of a list."""
    floats: list[Any] = []
    places: list[tuple[int, int | None]] = []
    for k, a in enumerate(given):
        for member, p in enumerate(a if isinstance(a, list) else [a]):
            if hasattr(p, "dtype") and is_inexact(p.dtype):
                floats.append(p)
                places.append((k, member if isinstance(a, list) else None))
    return floats, places


SHAPES = ((2,), ())
TYPICAL = ("float32", "int64", "bool")
"""A dtype of each kind."""
PRODUCTS = ("matmul", "matmul_nt", "matmul_tn")


def promoting() -> list[str]:
    """Return the binary operations that promote: those that take a number as second operand, and matrix products."""
    names = []
    for name, op in operations().items():
        arguments = op.arguments
        pair = len(arguments) == 2 and not arguments[0].sequence
        if pair and arguments[1].scalar and arguments[0].kind == arguments[1].kind:
            names.append(name)
    return [*names, *PRODUCTS]


def check_promotion(
    device: Any, level: str, row: Row, dtypes: dict[str, DType], one_of: Sequence[str] | None = None
) -> None:
    """Check an operation for all pairs of dtypes of its kinds, with and without dimensions. At other levels than
    "plain" these are pairs of floats. ``one_of`` names dtypes; each pair must have one of them."""
    on, name = device_at(level, device), row.operation.name
    shapes = [((2, 2), (2, 2))] if name in PRODUCTS else list(product(SHAPES, SHAPES))
    for left_dtype, right_dtype in product(dtypes.values(), dtypes.values()):
        kind = kind_of(left_dtype)
        if kind != kind_of(right_dtype) or kind not in row.kinds or (level != "plain" and kind not in INEXACT):
            continue
        if one_of is not None and left_dtype.name not in one_of and right_dtype.name not in one_of:
            continue
        try:
            promote_types(left_dtype, right_dtype)
        except DTypeError:
            continue  # uint64 with a signed dtype; the tests of tensors cover the error
        for shape, other in shapes:
            left = np.ones(shape, left_dtype)
            left = left + left if kind != "bool" else left
            _check(on, level, row, left, np.ones(other, right_dtype))


def _check(on: Any, level: str, row: Row, left: Any, right: Any) -> None:
    name, op = row.operation.name, row.operation
    where = f"{name} of {left.dtype} {left.shape} and {right.dtype} {right.shape}, {level}"
    left, right = np.asarray(left), np.asarray(right)
    if (left.shape == ()) == (right.shape == ()):
        common = promote_types(left.dtype, right.dtype)
    else:  # a 0-d operand does not promote one that has dimensions
        common = right.dtype if left.shape == () else left.dtype
    x, y = on.from_numpy(left), on.from_numpy(right)
    if level == "Forward":
        x = on.dual(x.value, on.inner.full(x.shape, 1.0, x.dtype))
    x = on.require_grad(x)
    out = getattr(on, name)(x, y)
    wide: Any = {"float": np.float64, "complex": np.complex128}.get(kind_of(common), common)
    expected = np.asarray(row.reference(left.astype(wide), right.astype(wide)))
    dtype = np.dtype(np.bool_) if op.results == ("Bool",) else common
    assert out.dtype == dtype, f"{where}: the dtype is {out.dtype}, not {dtype}"
    assert out.shape == expected.shape, f"{where}: the shape is {out.shape}, not {expected.shape}"
    owner = on if is_inexact(dtype) else on.discrete
    wrong = difference(np.asarray(owner.to_numpy(out)), expected.astype(dtype), 1.0)
    assert wrong is None, f"{where}: {wrong}"
    if op.algebra is Algebra.NONDIFFERENTIABLE:
        return
    if isinstance(on, Forward):
        tangent: Any = out.tangent
        assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype), f"{where}: a tangent of {tangent.dtype}"
    elif isinstance(on, Autodiff):
        seed = on.inner.full(out.shape, 1.0, out.dtype)
        (gradient,) = on.gradients([(out, seed)], retain_graph=False).values()
        assert (gradient.shape, gradient.dtype) == (x.shape, x.dtype), f"{where}: a gradient of {gradient.dtype}"


_MEMBERS = ((2, 3), (), (0, 2), (260, 140))
_NUMBERS: tuple[Any, ...] = (0.5, np.array(0.5), np.array([0.5, 0.25, 1.5, 0.75]))
"""A number, one as a primitive, and one for each of the `_MEMBERS`."""


def descended(b: Any, x: Any, grad: Any, velocity: Any, rate: Any, momentum: Any, up: bool) -> tuple[Any, Any]:
    """Return x and a velocity after a step of gradient descent with momentum, or of ascent."""
    velocity = b.add(b.mul(velocity, momentum), grad)
    return (b.add if up else b.sub)(x, b.mul(velocity, rate)), velocity


def check_formulas(device: Any, dtype: DType) -> None:
    """Check formulas in a dtype, with all kinds of numbers, with a flag, owned and not, skipped and not."""
    assert device.foreach(descended, ([], [], []), (0.5, 0.9), (False,)) == ([], [])
    for number, up, owned, skipped in product(_NUMBERS, (False, True), (False, True), (None, False, True)):
        rng = np.random.default_rng(0)
        given = [[np.asarray(rng.uniform(0.5, 1.5, shape)).astype(dtype) for shape in _MEMBERS] for _ in range(3)]
        lists = tuple([[device.from_numpy(x) for x in xs] for xs in given])
        rate = number if isinstance(number, float) else device.from_numpy(number)
        flag = None if skipped is None else device.full((), skipped, bool_)
        found = device.foreach(descended, lists, (rate, 0.9), (up,), owned, flag)
        where = f"foreach in {dtype.name}, the number {number!r}, up={up}, owned={owned}, skipped={skipped}"
        assert len(found) == 2, f"{where}: there are {len(found)} lists of results"
        for k, row in enumerate(zip(*given, strict=True)):
            rates = np.broadcast_to(number, (len(_MEMBERS),))
            x, grad, velocity = [np.asarray(value).astype(float64) for value in row]
            expected = (x, velocity) if skipped else _expected(x, grad, velocity, float(rates[k]), up)
            for column, want in zip(found, expected, strict=True):
                values = device.to_numpy(column[k])
                assert (values.shape, values.dtype) == (x.shape, dtype), f"{where}: {values.shape}, {values.dtype}"
                wrong = difference(values, np.asarray(want).astype(dtype), 4)
                assert wrong is None, f"{where}: {wrong}"
        for xs, before in zip(lists[: 2 if owned else 3], given, strict=False):
            for x, same in zip(xs, before, strict=True):
                assert np.array_equal(device.to_numpy(x), same), f"{where}: an argument was changed"


def _expected(x: Any, grad: Any, velocity: Any, rate: float, up: bool) -> tuple[Any, Any]:
    velocity = 0.9 * velocity + grad
    return (x + rate * velocity if up else x - rate * velocity), velocity


_CUBE = (2, 3, 4)


def _method(name: str) -> Callable[[Any, int], Any]:
    return lambda x, dim: getattr(x, name)(dim)


_ALONG = "sum prod mean var std amax amin logsumexp softmax log_softmax cumsum argmax argmin unbind flip"

_CALLS: dict[str, Callable[[Any, int], Any]] = {
    **{name: _method(name) for name in _ALONG.split()},
    "max": lambda x, dim: tuple(x.max(dim)),
    "min": lambda x, dim: tuple(x.min(dim)),
    "any": lambda x, dim: (x > 0).any(dim),
    "all": lambda x, dim: (x > 0).all(dim),
    "sum of two": lambda x, dim: x.sum((dim, 0 if dim in (1, -2) else 1)),
    "cat": lambda x, dim: cat([x, x], dim),
    "stack": lambda x, dim: stack([x, x], dim) if dim >= 0 else stack([x, x], dim - 1),
    "transpose": lambda x, dim: x.transpose(dim, 0 if dim >= 0 else -3),
    "split": lambda x, dim: x.split(2, dim),
    "index_select": lambda x, dim: x.index_select(dim, IntTensor.from_data([1, 0], device=x.device)),
    "gather": lambda x, dim: x.gather(dim, x.argmax(dim, keepdim=True)),
}
NEGATIVE_DIMS = list(_CALLS)
"""The names of the tested methods of tensors."""


def check_negative_dims(device: Any, name: str) -> None:
    """Check for every dim that dim and dim - ndim give the same result."""
    values = np.random.default_rng(0).uniform(-2, 2, _CUBE)
    x: Tensor[Any] = Tensor.from_data(values, device=device)
    for dim in range(len(_CUBE)):
        front, back = _CALLS[name](x, dim), _CALLS[name](x, dim - len(_CUBE))
        pairs = list(zip(front, back, strict=True)) if isinstance(front, (tuple, list)) else [(front, back)]
        for x_front, x_back in pairs:
            where = f"{name} along {dim} and along {dim - len(_CUBE)} of shape {_CUBE}"
            a, b = x_front.to_numpy(), x_back.to_numpy()
            assert a.shape == b.shape, f"{where}: shapes {a.shape} and {b.shape}"
            assert np.array_equal(a, b), f"{where}:\n{a}\nand\n{b}"
