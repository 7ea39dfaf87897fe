"""The conformance suite fails a backend that errs, and says where: each backend here errs in one operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import ComplexTensor, Tensor, fft
from burnpy.backend import Backend, NumPy, errors, operations
from burnpy.backend.dtypes import dtype_of, float32
from burnpy.backend.errors import DTypeError
from burnpy.testing import conformance_suite
from burnpy.testing.cases import PROPERTIES, ROWS
from burnpy.testing.cases.samples import LAYOUTS, Array, Large
from burnpy.testing.cases.table import ALL_DTYPES
from burnpy.testing.conformance import DECORATED, FAST, FULL, LIGHT, USUAL, Extent, suite_of, value_cases
from burnpy_numpy.programs import NumPyForeachBlocks
from tests.rows import every_row


class Inexact(NumPy):
    def exp(self, x: Any) -> Any:
        return np.exp(x) * x.dtype.type(1.0001)


class Narrow(NumPy):
    def sum(self, x: Any, dims: Any, keepdim: bool) -> Any:
        return x.sum(dims, x.dtype, keepdims=keepdim) if dims else x.copy()


class Flat(NumPy):
    def amax(self, x: Any, dims: Any, keepdim: bool) -> Any:
        return super().amax(x, dims, False)


class Widening(NumPy):
    def add(self, x: Any, y: Any) -> Any:
        return np.add(x, y)


class InPlace(NumPy):
    def index_put(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        x[(*(slice(None),) * dim, index)] = src
        return x.copy()


class Sharing(NumPy):
    def cast(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype, copy=False)


class SharingElsewhere(Sharing):
    """As on a GPU, whose arrays come to the CPU as copies."""

    def to_numpy(self, x: Any) -> Any:
        return super().to_numpy(x).copy()


class FirstWriter(NumPy):
    def index_put(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        backward = np.arange(len(index))[::-1]
        return super().index_put(x, dim, index[backward], src.take(backward, dim))


class IgnoresStrides(NumPy):
    def cumsum(self, x: Any, dim: int) -> Any:
        return super().cumsum(np.ndarray(x.shape, x.dtype, x.base if x.base is not None else x), dim)


class BlindToNaN(NumPy):
    def maximum(self, x: Any, y: Any) -> Any:
        return self._call(np.fmax, *(self.promote(x, y) if hasattr(y, "dtype") else (x, x.dtype.type(y))))


class WrongDerivative(NumPy):
    def silu_backward(self, grad: Any, x: Any) -> Any:
        return super().silu_backward(grad, x) * 1.01


class Repeating(NumPy):
    def random_normal(self, generator: Any, shape: Any, dtype: Any) -> Any:
        return super().random_normal(np.random.default_rng(0), shape, dtype)


ERRING: list[tuple[type[NumPy], str, str, str, str]] = [
    # the backend, the test that finds it, with which operation and dtypes, and what it says
    (Inexact, "values", "exp", "float32", r"exp.*float32.*elements differ; the first, .* should be"),
    (Inexact, "values", "exp", "float64", "; float64, Autodiff²"),
    (Narrow, "values", "sum", "int8", "int8, plain: .*the dtype is int8, not int64"),
    (Flat, "values", "amax", "float32", r"float32, plain: .*the shape is \(3, 2\), not \(1, 3, 2\)"),
    (
        Widening,
        "promotion",
        "add",
        "bfloat16 float16",
        r"add of bfloat16 \(2,\) and float16 \(\), plain: the dtype is float32, not bfloat16",
    ),
    (InPlace, "values", "index_put", "float32", "float32, plain: .*an array in argument 0 was changed"),
    (Sharing, "values", "cast", "float32", "float32, plain: .*shares memory with an argument"),
    (SharingElsewhere, "values", "cast", "float32", "float32, plain: .*shares memory with an argument"),
    (SharingElsewhere, "values", "cast", "float32", "float32, Autodiff: .*shares memory with an argument"),
    (FirstWriter, "values", "index_put", "float32", "float32, plain: .*elements differ"),
    (IgnoresStrides, "values", "cumsum", "float64", "float64, plain: .*(strided|expanded)"),
    (BlindToNaN, "values", "maximum", "float32", "float32, plain: .*should be nan"),
    (WrongDerivative, "values", "silu_backward", "float64", "float64, plain: .*elements differ"),
    (WrongDerivative, "derivatives", "silu", "float64", "order 1: .*reverse mode gives"),
    (Repeating, "properties", "random_normal", "float32", "float32: .*alike with another seed"),
]


@every_row("backend, test, name, dtypes, message", ERRING)
def test_an_error_is_found(backend: type[NumPy], test: str, name: str, dtypes: str, message: str) -> None:
    suite: Any = conformance_suite(backend, dtypes=dtypes.split())
    suite.setup_class()
    with pytest.raises(AssertionError, match=message), np.errstate(all="ignore"):
        getattr(suite(), f"test_{test}")(name=name)


def test_every_dtype_and_level_that_fails_is_named_and_no_other() -> None:
    class Doubtful(NumPy):
        def exp(self, x: Any) -> Any:
            return np.exp(x) if x.dtype != np.float16 else np.exp(x) * x.dtype.type(1.1)

    suite: Any = conformance_suite(Doubtful)
    suite.setup_class()
    with pytest.raises(AssertionError) as caught, np.errstate(all="ignore"):
        suite().test_values(name="exp")
    first, *others = str(caught.value).splitlines()
    levels = ("plain", "Autodiff", "Forward", "Autodiff²")
    assert first == f"4 of 24 cases failed: {'; '.join(f'float16, {level}' for level in levels)}"
    assert [line.partition(":")[0] for line in others] == ["float16, plain", "float16, Autodiff", "float16, Forward"]


def test_an_error_of_another_class_is_a_failure_of_its_case() -> None:
    class Refusing(NumPy):
        def exp(self, x: Any) -> Any:
            if x.dtype == np.float16:
                raise ValueError("no halves")
            return np.exp(x)

    suite: Any = conformance_suite(Refusing)
    suite.setup_class()
    with pytest.raises(AssertionError, match=r"(?s)4 of 24 .*float16, plain: ValueError: no halves"):
        suite().test_values(name="exp")


def orders(extent: Extent, name: str, device: NumPy) -> list[tuple[int, ...]]:
    """The orders of derivatives of each example of an operation that has some."""
    found: dict[str, tuple[int, ...]] = {}
    for example, _, order in extent.derivatives(device, ROWS[name]):
        found[example] = (*found.get(example, ()), order)
    return [*found.values()]


def test_second_derivatives_in_fast_mode_are_those_of_rules() -> None:
    device = NumPy()
    for name in ("silu", "hypot"):
        assert set(orders(FULL, name, device)) == {(1, 2)}
        assert len(orders(FULL, name, device)) == len(orders(FAST, name, device)) > 3
    assert orders(FAST, "silu", device)[:4] == [(1, 2), (1,), (1,), (1, 2)]
    assert orders(USUAL, "silu", device)[:2] == [(1, 2), (1, 2)]
    assert set(orders(FAST, "silu_backward", device)) == {(1,)}


def test_a_light_suite_tries_one_example_of_what_is_the_backends_default() -> None:
    class Own(NumPy):
        def silu_backward(self, grad: Any, x: Any) -> Any:
            return super().silu_backward(grad, x)

    assert LIGHT.thorough(NumPy(), ROWS["exp"])
    assert len(orders(LIGHT, "exp", NumPy())) > 3
    default = next(n for n, row in ROWS.items() if row.gradients and getattr(NumPy, n) is getattr(Backend, n))
    assert orders(LIGHT, default, NumPy()) == [(1,)]


def test_narrow_dtypes_and_levels_in_turn_and_large_arrays_in_some_dtypes() -> None:
    brief = replace(FAST, large=("float32",), in_turn=True)
    supported = {name: dtype_of(name) for name in ALL_DTYPES}
    tried = [set(brief.dtypes(row, supported)) for row in ROWS.values()]
    assert all(
        len(names) == len(ALL_DTYPES) - 5 and {"int64", "uint8", "float32", "float64"} <= names for names in tried
    )
    assert set.union(*tried) == set(ALL_DTYPES)
    assert brief.dtypes(ROWS["add"], {"int64": dtype_of("int64")}) == {"int64": dtype_of("int64")}
    large, small = ([Array((3,)), [Large((9,))]], [Array((3,))])
    for given, name, layouts in (
        (large, "float32", LAYOUTS[1:2]),
        (large, "float64", ()),
        (small, "float32", LAYOUTS),
        (small, "float64", LAYOUTS),
    ):
        assert brief.layouts_of(1, given, dtype_of(name), "plain", LAYOUTS) == layouts
    assert FAST.layouts_of(1, large, dtype_of("float64"), "plain", LAYOUTS) == LAYOUTS
    assert FAST.layouts_of(1, large, dtype_of("float64"), "plain", ()) == LAYOUTS[1:2]
    levels = ("Autodiff", "Forward")
    tracked = [[level for level in levels if brief.layouts_of(k, small, float32, level, LAYOUTS)] for k in (0, 1)]
    assert tracked == [["Autodiff"], ["Forward"]]
    assert [level for level in levels if FAST.layouts_of(0, small, float32, level, LAYOUTS)] == [*levels]
    examples = dict(brief.batches(NumPy(), ROWS["cumsum"], dtype_of("float32")))
    assert len(examples) == sum(not name.startswith("large") for name in ROWS["cumsum"].examples)


@pytest.mark.parametrize("extent", [FAST, USUAL, LIGHT, DECORATED])
def test_an_error_of_a_derivative_is_found_in_brief(extent: Extent) -> None:
    suite: Any = suite_of(WrongDerivative, ["float32"], extent)
    suite.setup_class()
    with pytest.raises(AssertionError, match=r"order 1: .*input 0, element \(0, 0\): reverse mode gives"):
        suite().test_derivatives(name="silu")


@pytest.mark.parametrize("extent", [FAST, USUAL, LIGHT, DECORATED])
def test_an_error_of_one_layout_is_found_in_dtypes_that_have_one_layout_for_each_example(extent: Extent) -> None:
    class Half(IgnoresStrides):
        def cumsum(self, x: Any, dim: int) -> Any:
            return super().cumsum(x, dim) if x.dtype == np.float16 else NumPy.cumsum(self, x, dim)

    suite: Any = suite_of(Half, ["float16", "float32"], extent)
    suite.setup_class()
    with pytest.raises(AssertionError, match=r"1 of \d+ cases failed: float16, plain\n"), np.errstate(all="ignore"):
        suite().test_values(name="cumsum")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda numbers, flags, owned, skipped: (numbers, flags, owned, None), "skipped=True: 6 of 6 elements differ"),
        (lambda numbers, flags, owned, skipped: (numbers, (False,), owned, skipped), "up=True, .* elements differ"),
        (lambda numbers, flags, owned, skipped: ((0.5, 0.9), flags, owned, skipped), r"array\(\[.* elements differ"),
        (lambda numbers, flags, owned, skipped: (numbers, flags, True, skipped), "owned=False, .* was changed"),
    ],
    ids=["skipped", "flags", "numbers", "owned"],
)
def test_an_error_of_foreach_is_found(wrong: Any, said: str) -> None:
    def foreach(
        self: Any,
        formula: Any,
        lists: Any,
        numbers: Any = (),
        flags: Any = (),
        owned: bool = False,
        skipped: Any = None,
    ) -> Any:
        given = numbers, flags, owned, skipped
        return NumPyForeachBlocks.foreach(self, formula, lists, *(wrong(*given) if flags else given))

    suite: Any = conformance_suite(type("Wrong", (NumPy,), {"foreach": foreach}), dtypes=["float32"])
    suite.setup_class()
    with pytest.raises(AssertionError, match=said):
        suite().test_formulas()


def test_every_operation_has_a_row() -> None:
    names = [*ROWS, *PROPERTIES]
    assert sorted(names) == sorted(operations())


def test_rows_have_no_and_empty_dimensions() -> None:
    """Where an operation's arguments may have them."""
    others = ("searchsorted", "count_update")  # tests/tensor/test_statistics.py tries it; a total is never empty
    for name, row in ROWS.items():
        given = [a for example in row.examples.values() for a in example]
        members = [member for a in given for member in (a if isinstance(a, list) else [a])]
        shapes = [member.shape for member in members if hasattr(member, "shape")]
        if shapes and name not in others:
            assert any(0 in shape for shape in shapes), f"{name} is not tried on an empty argument"
        if row.operation.elementwise and name != "bounded":  # its 0-d example, Index(1), has no shape
            assert () in shapes, f"{name} is not tried on a 0-d argument"


def test_every_operation_is_run_in_every_dtype_of_its_kinds() -> None:
    from burnpy.backend.dtypes import COMPLEXES, FLOATS, dtype_of

    cases = {(name, dtype) for name, dtype, _ in value_cases({d: dtype_of(d) for d in ALL_DTYPES})}
    for name, dtypes in (("add", set(ALL_DTYPES) - {"bool"}), ("eq", set(ALL_DTYPES)), ("exp", {*FLOATS, *COMPLEXES})):
        assert {d for n, d in cases if n == name} == dtypes


def test_a_dtype_that_is_not_named_must_be_refused() -> None:
    suite: Any = conformance_suite(NumPy, dtypes=["float32"])
    suite.setup_class()
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        suite().test_refuses_the_dtypes_that_it_lacks()


def test_an_incomplete_backend_is_refused() -> None:
    class Empty(Backend):
        pass

    suite: Any = conformance_suite(Empty)
    with pytest.raises(errors.DeviceError, match="required operations"):
        suite.setup_class()


@pytest.mark.slow
def test_a_backend_without_complex_arrays_says_so_and_passes() -> None:
    class RealNumbers(NumPy):
        complex_arrays = False

        complex, real, imag = Backend.complex, Backend.real, Backend.imag

    suite: Any = conformance_suite(RealNumbers, fast_mode=True)
    suite.setup_class()
    for name in ("complex", "add", "rfft", "sum"):
        suite().test_values(name=name)
        suite().test_derivatives(name=name)
        suite().test_batches(name=name)
    x: Any = Tensor[RealNumbers].ones((2,))
    calls: list[Callable[[], Any]] = [
        x.complex,
        lambda: ComplexTensor[RealNumbers].zeros((2,)),
        lambda: fft.rfft(x),
        lambda: burnpy.complex(x, x),
    ]
    for call in calls:
        with pytest.raises(DTypeError, match=r"^RealNumbers has no complex arrays; compute with"):
            call()
