"""What is checked of one case: values, shape, dtype, fresh memory, arguments left alone, derivatives, promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.autodiff import Autodiff, Forward
from burnpy.backend.dtypes import float64, kind_of
from burnpy.backend.schema import Algebra
from burnpy.tensor.base import new_tensor
from burnpy.tensor.tensor import Tensor
from burnpy.testing.cases.samples import CASE, ByKind, Sample, arranged, laid_out
from burnpy.testing.cases.table import Example, Row
from burnpy.testing.gradcheck import gradcheck, gradgradcheck

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType

ROUNDING = 4
"""How many units in the last place a result may be off, times the row's ``loose``."""
LEVELS = ("plain", "Autodiff", "Autodiff²", "Forward")


def device_at(level: str, device: Any) -> Any:
    """The device on which a case is computed."""
    if level == "plain":
        return device
    if level == "Forward":
        return Forward(device)
    return Autodiff(device) if level == "Autodiff" else Autodiff(Autodiff(device))


class Arguments:
    """The arguments of one example, in a dtype and a layout: for the reference and for a device."""

    def __init__(self, row: Row, example: Example, dtype: DType, layout: str) -> None:
        self.row, self.dtype, self.layout = row, dtype, layout
        self.given = [self._resolved(a, seed) for seed, a in enumerate(example)]
        self.where = f"{row.operation.name}({', '.join(map(repr, example))}), {dtype}, {layout}"

    def _resolved(self, a: Any, seed: int) -> Any:
        """Samples as NumPy arrays; what depends on the dtype as what it is for this one."""
        if isinstance(a, Sample):
            return arranged(a.array(self.dtype, seed), self.layout)
        if isinstance(a, ByKind):
            return a.of(self.dtype)
        if isinstance(a, list):
            return [self._resolved(member, 10 * seed + k) for k, member in enumerate(a)]
        return self.dtype if a is CASE else a

    def primitives(self, device: Any, tracked: bool) -> list[Any]:
        """The arguments for an operation of ``device``; floats as leaves, or with a tangent, where ``tracked``."""

        def primitive(a: Any) -> Any:
            if isinstance(a, list):
                return [primitive(member) for member in a]
            if not isinstance(a, np.ndarray):
                return a
            if kind_of(a.dtype) != "float":
                return laid_out(device.discrete, a, self.layout)
            x = laid_out(device, a, self.layout)
            if tracked and isinstance(device, Forward):
                return device.dual(x.value, device.inner.full(x.shape, 1.0, x.dtype))
            return device.require_grad(x) if tracked else x

        return [primitive(a) for a in self.given]

    def expected(self) -> tuple[Any, ...]:
        """What the reference gives, in the dtypes that the results should have."""
        with np.errstate(all="ignore"):
            found = self.row.reference(*map(_widened, self.given))
        results = found if isinstance(found, tuple) else (found,)
        return tuple(np.asarray(r).astype(self._dtype(k, np.asarray(r).dtype)) for k, r in enumerate(results))

    def _dtype(self, k: int, reference: DType) -> DType:
        op = self.row.operation
        for a, value in zip(op.arguments, self.given, strict=False):
            if a.name == "dtype":
                return value  # type: ignore[no-any-return]  # an argument of that name is a dtype
        if op.results[k] in ("Bool", "Int"):
            return np.dtype(np.bool_ if op.results[k] == "Bool" else np.int64)
        return self.dtype if kind_of(self.dtype) == "float" else reference


def _widened(a: Any) -> Any:
    """Floats in float64, in which the reference computes."""
    if isinstance(a, list):
        return [_widened(member) for member in a]
    return a.astype(np.float64) if isinstance(a, np.ndarray) and kind_of(a.dtype) == "float" else a


def check_values(device: Any, level: str, row: Row, example: Example, dtype: DType, layout: str, tracked: bool) -> None:
    """The results are the reference's, in its shapes and dtypes; no argument was changed; memory is fresh."""
    on, arguments = device_at(level, device), Arguments(row, example, dtype, layout)
    where = f"{arguments.where}, {level}{', tracked' if tracked else ''}"
    given, reused = arguments.primitives(on, tracked), row.reuses(example)
    computes = on if kind_of(dtype) == "float" or row.operation.results == ("Float",) else on.discrete
    results = getattr(computes, row.operation.name)(*given)
    results = results if isinstance(results, tuple) else (results,)
    for k, (out, want) in enumerate(zip(results, arguments.expected(), strict=True)):
        owner = computes if row.operation.float_results[k] else on.discrete
        name = f"result {k} of {where}"
        shape: Any = out.shape
        assert isinstance(shape, tuple), f"{name}: .shape is a {type(shape).__name__}, not a tuple"
        assert isinstance(out.dtype, np.dtype), f"{name}: .dtype is a {type(out.dtype).__name__}, not NumPy's"
        assert shape == want.shape, f"{name}: the shape is {shape}, not {want.shape}"
        assert out.dtype == want.dtype, f"{name}: the dtype is {out.dtype}, not {want.dtype}"
        found = owner.to_numpy(out)
        wrong = difference(found, want, row.loose)
        assert wrong is None, f"{name}: {wrong}"
        if row.fresh and found.size:
            shared = [k for k, a in enumerate(_primitives(given)) if k not in reused and _share(on, a, out)]
            assert not shared, f"{name}: it shares memory with an argument"
        if level.startswith("Autodiff") and row.operation.float_results[k]:
            recorded = tracked and row.operation.algebra is not Algebra.NONDIFFERENTIABLE
            assert on.is_require_grad(out) is recorded, f"{name}: is_require_grad is not {recorded}"
    for k, (a, b) in enumerate(zip(_arrays(on, given), _flat(arguments.given), strict=True)):
        assert k in reused or np.array_equal(a, b, equal_nan=a.dtype.kind != "b"), (
            f"{where}: array {k} among the arguments was changed from\n{b}\nto\n{a}"
        )


def difference(found: Any, want: Any, loose: float) -> str | None:
    """Where two arrays differ by more than rounding, and by how much; None where they do not. NaN equals NaN."""
    if kind_of(want.dtype) != "float":
        differs = found != want
    else:
        a, b = found.astype(np.float64), want.astype(np.float64)
        tolerance = ROUNDING * loose * _epsilon(want.dtype)
        with np.errstate(invalid="ignore"):
            differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance * (1 + np.abs(b))))
    if not differs.any():
        return None
    worst = tuple(int(n) for n in np.argwhere(differs)[0])
    return (
        f"{int(differs.sum())} of {differs.size} elements differ; the first, {worst}, "
        f"is {found[worst]!s} and should be {want[worst]!s}"
    )


def _epsilon(dtype: DType) -> float:
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def _flat(given: list[Any]) -> list[Any]:
    """The NumPy arrays among the arguments."""
    found: list[Any] = []
    for a in given:
        found += a if isinstance(a, list) else [a] if isinstance(a, np.ndarray) else []
    return found


def _primitives(given: list[Any]) -> list[Any]:
    """The primitives among the arguments."""
    members = [member for a in given for member in (a if isinstance(a, list) else [a])]
    return [member for member in members if hasattr(member, "dtype") and hasattr(member, "shape")]


def _arrays(device: Any, given: list[Any]) -> list[Any]:
    """The primitives among the arguments, as NumPy arrays."""
    return [(device if kind_of(p.dtype) == "float" else device.discrete).to_numpy(p) for p in _primitives(given)]


def _share(device: Any, x: Any, y: Any) -> bool:
    """Whether writing to one primitive may change the other. What `to_numpy` gives may be copies, and cannot say so."""
    one, two = (device.discrete.storage_of(_innermost(p))[0] for p in (x, y))
    return bool(one == two)


def _innermost(x: Any) -> Any:
    """The array of a primitive, under all decorators; without tangents, which may be an argument's own."""
    while hasattr(x, "value"):
        x = x.value
    return x


def check_derivatives(device: Any, row: Row, example: Example, layout: str, order: int) -> None:
    """The derivatives of the operation by its float arguments are those of central differences, at both orders."""
    arguments = Arguments(row, example, float64, layout)
    template = arguments.primitives(device, tracked=False)
    floats, places = _float_places(template)
    if not floats:
        return

    def f(*xs: Tensor[Any]) -> Any:
        on: Any = xs[0].device
        given = [list(a) if isinstance(a, list) else a for a in template]
        for (k, member), x in zip(places, xs, strict=True):
            primitive = on.add(x._primitive, 0.0) if k in row.consumes else x._primitive
            if member is None:
                given[k] = primitive
            else:
                given[k][member] = primitive
        results = getattr(on, row.operation.name)(*given)
        results = results if isinstance(results, tuple) else (results,)
        return [
            new_tensor(Tensor, on, r)
            for r, is_float in zip(results, row.operation.float_results, strict=True)
            if is_float
        ]

    inputs = [new_tensor(Tensor, device, p) for p in floats]
    try:
        if order == 1:
            gradcheck(f, inputs)
        else:
            gradgradcheck(f, inputs)
    except AssertionError as error:
        raise AssertionError(f"{arguments.where}, derivatives of order {order}: {error}") from error


def _float_places(given: list[Any]) -> tuple[list[Any], list[tuple[int, int | None]]]:
    """The float primitives among the arguments, and where they stand: the argument, and the member of a list."""
    floats: list[Any] = []
    places: list[tuple[int, int | None]] = []
    for k, a in enumerate(given):
        for member, p in enumerate(a if isinstance(a, list) else [a]):
            if hasattr(p, "dtype") and kind_of(p.dtype) == "float":
                floats.append(p)
                places.append((k, member if isinstance(a, list) else None))
    return floats, places
