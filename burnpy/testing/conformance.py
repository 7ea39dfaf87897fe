"""The conformance suite: tests of every operation of a backend, in every dtype and under every decorator.

A third party's backend is tested in three lines of a test file::

    from burnpy.testing import conformance_suite
    from my_backend import MyBackend
    TestMyBackend = conformance_suite(MyBackend)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.autodiff.rule_table import RULES
from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import HALVES, INTS, complex128, dtype_of, float64, is_inexact, kind_of
from burnpy.backend.errors import DTypeError
from burnpy.tensor.call_errors import explained
from burnpy.testing.batching_rules import batched_dtypes, batched_operations, check_batches, has_own_rule
from burnpy.testing.cases import PROPERTIES, ROWS
from burnpy.testing.cases.samples import LAYOUTS, Large
from burnpy.testing.cases.shape import kinds_fit
from burnpy.testing.cases.table import ALL_DTYPES, fits
from burnpy.testing.checks import (
    LEVELS,
    NEGATIVE_DIMS,
    TYPICAL,
    check_derivatives,
    check_formulas,
    check_negative_dims,
    check_promotion,
    check_values,
    promoting,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from burnpy.backend.primitives import DType
    from burnpy.testing.cases import Row

Tracked: TypeAlias = tuple[tuple[str, tuple[bool, ...]], ...]
"""Levels, each with whether its floats are tracked."""

BOTH = (False, True)
OTHERS = "others"
"""The key for all dtypes that a mapping does not name."""


@dataclass(frozen=True)
class Extent:
    """The part of the examples, dtypes, levels and derivatives that a suite tries for each operation."""

    layouts: Mapping[str, tuple[str, ...]]
    """The layouts of the values at level "plain", by dtype; if there are none, each example has another."""
    decorated: Mapping[str, Tracked]  #: the other levels of floats, and of ints and bools that become floats, by dtype
    brief: bool  #: whether first derivatives are checked along one random direction, not element by element
    second: int  #: second derivatives are checked of every so many-th example of operations with a rule; 0: of none
    composed: int  #: and of every so many-th one of operations that are differentiated through others; 0: of none
    derived: bool  #: whether all layouts, pairs of dtypes and derivatives are tried where the backend has the default
    mixed: bool  #: whether operands of all pairs of float dtypes are promoted at the other levels, too
    step: int = 1  #: first derivatives are checked of every so many-th example
    large: tuple[str, ...] | None = None  #: the dtypes in which large arrays are tried, in one layout; None: as others
    in_turn: bool = False
    """Dtypes and levels take turns: each operation is tried in two other ints beside int64 and uint8 and in one of the
    16-bit floats, and each example at half of the levels beside "plain"."""

    def thorough(self, device: Any, row: Row) -> bool:
        """Return whether an operation is tried with all that there is to try."""
        name = row.operation.name
        return self.derived or getattr(type(device), name) is not getattr(Backend, name)

    def dtypes(self, row: Row, supported: Mapping[str, DType]) -> dict[str, DType]:
        """Return those of the supported dtypes in which an operation is tried."""
        if not self.in_turn:
            return dict(supported)
        turn, others = zlib.crc32(row.operation.name.encode()), [n for n in INTS if n not in ("int64", "uint8")]
        left_out = {name for k, name in enumerate(others) if k % 3 != turn % 3} | {HALVES[turn % len(HALVES)]}
        return {name: dtype for name, dtype in supported.items() if name not in left_out}

    def values(self, row: Row, dtype: DType) -> Iterator[tuple[str, tuple[str, ...], tuple[bool, ...]]]:
        """Yield the levels at which to try values, each with the layouts, and whether floats are tracked."""
        yield LEVELS[0], self.layouts.get(dtype.name, self.layouts[OTHERS]), (False,)
        if is_inexact(dtype) or row.operation.results == ("Float",):
            for level, tracked in self.decorated.get(dtype.name, self.decorated[OTHERS]):
                yield level, LAYOUTS[:1], tracked

    def layouts_of(
        self, number: int, given: Sequence[Any], dtype: DType, level: str, chosen: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the layouts in which to try an example, of those chosen for its level; none to leave it out."""
        if self.in_turn and level != LEVELS[0] and (number + LEVELS.index(level)) % 2 == 0:
            return ()
        if self.large is None or not has_large(given):
            return chosen or (LAYOUTS[number % len(LAYOUTS)],)
        return (LAYOUTS[number % len(LAYOUTS)],) if dtype.name in self.large else ()

    def derivatives(self, device: Any, row: Row) -> Iterator[tuple[str, str, int]]:
        """Yield the examples whose derivatives are checked, each with its layout and an order."""
        name = row.operation.name
        smooth = [(k, example) for k, (example, given) in enumerate(row.examples.items()) if row.smooth(given)]
        every = self.second if name in RULES else self.composed
        for n, (k, example) in enumerate(smooth if self.thorough(device, row) else smooth[:1]):
            if n % self.step:
                continue
            yield example, LAYOUTS[k % 2], 1
            if every and n % every == 0:
                yield example, LAYOUTS[k % 2], 2

    def batches(self, device: Any, row: Row, dtype: DType) -> Iterator[tuple[str, bool]]:
        """Yield the examples to compute in batches, each with whether it is derivatives that are compared."""
        examples = list(row.examples.items())[:: self.step]
        if self.brief and kind_of(dtype) != "float" and "float" in row.kinds:
            examples = examples[::3]  # rules of batching know nothing of dtypes
        if self.brief and row.operation.elementwise and row.operation.batch is None:  # it broadcasts, by no rule
            yield examples[0][0], False
            return
        for n, (example, given) in enumerate(examples if self.thorough(device, row) else examples[:1]):
            if self.large is not None and has_large(given):
                continue
            yield example, False
            if dtype in (float64, complex128) and row.smooth(given) and (self.second == 1 or n % 3 == 0):
                yield example, True


FULL = Extent({OTHERS: LAYOUTS}, {OTHERS: tuple((level, BOTH) for level in LEVELS[1:])}, False, 1, 1, True, True)
"""Everything."""

_FAST = (("Autodiff", BOTH), ("Forward", BOTH))
_NONE: Tracked = ()
FAST = Extent({OTHERS: LAYOUTS}, {**dict.fromkeys((*HALVES, "float64"), _NONE), OTHERS: _FAST}, True, 3, 0, True, False)
"""The ``fast_mode`` of `burnpy.testing.conformance_suite`."""

_CALLED = (("Autodiff", (True,)),)
USUAL = Extent(
    dict.fromkeys(("float32", "float64", "int64", "uint8", "bool"), LAYOUTS) | {OTHERS: ()},
    {
        "float32": tuple((level, (True,)) for level in LEVELS[1:]),
        "float64": (("Autodiff", (False,)), ("Forward", (False,))),  # derivatives are checked in it
        "bfloat16": (*_CALLED, ("Forward", (True,))),
        OTHERS: _CALLED,
    },
    True, 1, 3, True, False,
)  # fmt: skip
"""The extent of burnpy's own tests of NumPy; their long form computes everything."""

LIGHT = Extent({"float32": LAYOUTS[:2], OTHERS: ()}, {OTHERS: _CALLED}, True, 0, 0, False, False)
"""For backends that hand each operation to NumPy, in a few dtypes."""

DECORATED = Extent({OTHERS: ()}, {OTHERS: _CALLED}, True, 0, 0, False, False, 3)
"""For decorators, which hand every operation on in the same way."""


IN_FULL = 3
"""The number of failures whose messages are shown; the others are named."""
Case: TypeAlias = Callable[[object], AbstractContextManager[None]]
"""A function that takes a description of a case, and returns the context in which to run it."""


@contextmanager
def every_case() -> Generator[Case, None, None]:
    """Collect the failures of many cases, and raise them at the end as one `AssertionError`.

    Errors of any class and pytest's own failures count; skips and interrupts end the test as usual.

    >>> with every_case() as case:
    ...     for n in (1, 2, 3):
    ...         with case(n):
    ...             assert n != 2, "it is two"
    Traceback (most recent call last):
    AssertionError: 1 of 3 cases failed: 2
    2: it is two
    """
    import pytest

    failures: list[tuple[str, BaseException]] = []
    count = 0

    @contextmanager
    def case(description: object) -> Generator[None, None, None]:
        nonlocal count
        count += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            failures.append((str(description), error))

    yield case
    if failures:
        raise AssertionError(_summary(failures, count)) from failures[0][1]


def has_large(given: Sequence[Any]) -> bool:
    """Return whether an example has an array large enough that a backend may use another implementation."""
    return any(isinstance(a, Large) for each in given for a in (each if isinstance(each, list) else [each]))


def is_complex(row: Row, dtype: DType) -> bool:
    """Return whether an operation in a dtype takes or returns complex numbers."""
    op = row.operation
    return kind_of(dtype) == "complex" or "Complex" in (*op.results, *[a.kind for a in op.arguments])


def _summary(failures: list[tuple[str, BaseException]], count: int) -> str:
    lines = [f"{len(failures)} of {count} cases failed: {'; '.join(name for name, _ in failures)}"]
    for name, error in failures[:IN_FULL]:
        said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        lines.append(f"{name}: {said}")
    return "\n".join(lines)


@explained
def conformance_suite(
    backend: Backend | type[Backend], *, dtypes: Iterable[str] = ALL_DTYPES, fast_mode: bool = False
) -> type:
    """Return a test class for a backend, which pytest collects under a name that begins with ``Test``.

    Every operation is run in every dtype of its kinds, on the backend itself and on floats under `Autodiff`, twice
    nested `Autodiff` and `Forward`; on 0-d, empty, broadcast, strided and expanded arguments, with infinities and NaN;
    and compared with NumPy; and on batches of examples, as `burnpy.func.vmap` computes them. First derivatives are
    compared with central differences element by element, and second derivatives along a random direction, in float64.
    There is one test for an operation, which goes on after a case that fails, and names every dtype and level that
    failed.

    Args:
        backend: the backend, as a class, an alias or a device.
        dtypes: the names of the dtypes that the backend supports. It must refuse the others with a `DTypeError`.
            Complex ones are left out on a backend that has no complex arrays.
        fast_mode: whether to check first derivatives along a random direction, too, second derivatives of every third
            example where the operation has a rule of its own, and values under `Autodiff` and `Forward` in float32 only
            and under nested `Autodiff` not at all, in a third of the time. burnpy's own tests check its rules element
            by element, for all examples and in every dtype, on NumPy.

    Raises:
        ImportError: pytest is missing; the extra ``burnpy[test]`` installs it.
    """
    return suite_of(backend, dtypes, FAST if fast_mode else FULL)


def suite_of(backend: Backend | type[Backend], dtypes: Iterable[str], extent: Extent) -> type:
    """Return the test class of `conformance_suite`, in some extent."""
    import pytest

    names = tuple(dtypes)
    supported = {name: dtype_of(name) for name in ALL_DTYPES if name in names}
    refused = [name for name in ALL_DTYPES if name not in names]

    def tried(device: Any, row: Row) -> dict[str, DType]:
        """Return the dtypes to try, without complex numbers on a device that has no complex arrays."""
        found = extent.dtypes(row, supported)
        return {name: d for name, d in found.items() if device.complex_arrays or not is_complex(row, d)}

    class Conformance:
        """The tests of one backend."""

        device: Any

        @classmethod
        def setup_class(cls) -> None:
            """Create the device, which must not happen during collection."""
            cls.device = device_of(backend)

        @pytest.mark.parametrize("name", dict.fromkeys(name for name, _, _ in value_cases(supported, extent)))
        def test_values(self, name: str) -> None:
            """An operation returns the reference's values, and does not change its arguments."""
            row = ROWS[name]
            with every_case() as case:
                for name_of_dtype, dtype in tried(self.device, row).items():
                    for level, every, tracked in extent.values(row, dtype) if fits(row, dtype) else ():
                        layouts = every if extent.thorough(self.device, row) else every[:1]
                        with case(f"{name_of_dtype}, {level}"):
                            for track, (k, (example, given)) in product(tracked, enumerate(row.examples.items())):
                                for layout in extent.layouts_of(k, given, dtype, level, layouts):
                                    check_values(self.device, level, row, example, dtype, layout, track)

        @pytest.mark.parametrize("name", [n for n in PROPERTIES if any(kinds_fit(n, d) for d in supported.values())])
        def test_properties(self, name: str) -> None:
            """An operation without a reference, such as random sampling, has its documented properties."""
            with every_case() as case:
                for dtype in supported.values():
                    if kinds_fit(name, dtype) and (kind_of(dtype) != "complex" or self.device.complex_arrays):
                        with case(dtype.name):
                            PROPERTIES[name][1](self.device, dtype)

        @pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.gradients])
        def test_derivatives(self, name: str) -> None:
            """Derivatives in reverse and in forward mode agree with central differences."""
            row = ROWS[name]
            with every_case() as case:
                for dtype in (float64, complex128):
                    if not fits(row, dtype) or (is_complex(row, dtype) and not self.device.complex_arrays):
                        continue
                    for example, layout, order in extent.derivatives(self.device, row):
                        with case(f"{dtype.name}, {example}, order {order}"):
                            brief = extent.brief or order == 2
                            check_derivatives(self.device, row, example, dtype, layout, order, brief)

        @pytest.mark.parametrize("name", batched_operations(supported))
        def test_batches(self, name: str) -> None:
            """On a batch of examples, as `burnpy.func.vmap` computes it, an operation equals one call for each."""
            row = ROWS[name]
            with every_case() as case:
                for dtype in batched_dtypes(row, tried(self.device, row)):
                    for example, derivatives in extent.batches(self.device, row, dtype):
                        with case(f"{dtype.name}, {example}{', derivatives' if derivatives else ''}"):
                            alone = () if derivatives and extent.brief else (False,)  # in batches of batches, too
                            for nested in (*alone, True) if has_own_rule(row) else (False,):
                                check_batches(self.device, row, example, dtype, derivatives, nested)

        @pytest.mark.parametrize("name", promoting())
        def test_promotion(self, name: str) -> None:
            """Operands of two dtypes are promoted to their common dtype."""
            plain = None if extent.thorough(self.device, ROWS[name]) else TYPICAL
            with every_case() as case:
                for level in LEVELS if extent.composed else LEVELS[:2]:  # the others are alike for all backends
                    with case(level):
                        one_of = plain if level == "plain" else None if extent.mixed else TYPICAL
                        check_promotion(self.device, level, ROWS[name], tried(self.device, ROWS[name]), one_of)

        def test_formulas(self) -> None:
            """A formula of lists has the values of its operations, and changes owned states alone."""
            with every_case() as case:
                for name_of_dtype, dtype in supported.items():
                    if kind_of(dtype) == "float":
                        with case(name_of_dtype):
                            check_formulas(self.device, dtype)

        def test_negative_dims(self) -> None:
            """Tensors count a negative dim from the end."""
            with every_case() as case:
                for name in NEGATIVE_DIMS:
                    with case(name):
                        check_negative_dims(self.device, name)

        def test_refuses_the_dtypes_that_it_lacks(self) -> None:
            """A dtype that the backend does not support raises an error, and is not replaced by another."""
            for dtype in refused:
                with pytest.raises(DTypeError, match=dtype):
                    self.device.full((2,), 1, dtype_of(dtype))
                with pytest.raises(DTypeError, match=dtype):
                    self.device.from_numpy(np.ones(2, dtype_of(dtype)))

        def test_every_operation_is_covered(self) -> None:
            """The table has a row for every operation of the schema."""
            absent = [name for name in operations() if name not in ROWS and name not in PROPERTIES]
            assert not absent, f"no cases for the operations {absent}"

        def test_a_device_is_one_object(self) -> None:
            """Devices are singletons."""
            assert device_of(backend) is self.device
            assert device_of(self.device) is self.device

    return Conformance


def value_cases(dtypes: Mapping[str, DType], extent: Extent = FULL) -> Iterator[tuple[str, str, str]]:
    """Yield operation, dtype and level of every case of values. Decorators are tested with floats only, unless an
    operation makes floats of ints or bools."""
    for name, row in ROWS.items():
        for name_of_dtype, dtype in dtypes.items():
            if fits(row, dtype):
                yield from ((name, name_of_dtype, level) for level, _, _ in extent.values(row, dtype))
