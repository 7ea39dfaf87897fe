"""The conformance suite: tests of every operation of a backend, in every dtype and under every decorator.

A third party's backend is tested in three lines of a test file::

    from burnpy.testing import conformance_suite
    from my_backend import MyBackend
    TestMyBackend = conformance_suite(MyBackend)
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.backend import operations
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import dtype_of, kind_of
from burnpy.backend.errors import DTypeError
from burnpy.testing.arguments import ALL_DTYPES, fits
from burnpy.testing.cases import PROPERTIES, ROWS
from burnpy.testing.cases.creation import kinds_fit
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.cases.tensors import NEGATIVE_DIMS, check_negative_dims
from burnpy.testing.checks import LEVELS, TYPICAL, check_derivatives, check_promotion, check_values, promoting
from burnpy.testing.extent import FAST, FULL, Extent
from burnpy.testing.failures import every_case
from burnpy.testing.formulas import check_formulas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import DType


def conformance_suite(
    backend: Backend | type[Backend], *, dtypes: Iterable[str] = ALL_DTYPES, fast_mode: bool = False
) -> type:
    """Return a test class for a backend, which pytest collects under a name that begins with ``Test``.

    Every operation is run in every dtype of its kinds, on the backend itself and on floats under `Autodiff`, twice
    nested `Autodiff` and `Forward`; on 0-d, empty, broadcast, strided and expanded arguments, with infinities and NaN;
    and compared with NumPy. First derivatives are compared with central differences element by element, and second
    derivatives along a random direction, in float64. There is one test for an operation, which goes on after a case
    that fails, and names every dtype and level that failed.

    Args:
        backend: the backend, as a class, an alias or a device.
        dtypes: the names of the dtypes that the backend supports. It must refuse the others with a `DTypeError`.
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

    class Conformance:
        """The tests of one backend."""

        device: Any

        @classmethod
        def setup_class(cls) -> None:
            """Create the device, which must not happen during collection."""
            cls.device = device_of(backend)

        @pytest.mark.parametrize("name", _named(value_cases(supported, extent)))
        def test_values(self, name: str) -> None:
            """An operation returns what the reference returns, and does not change its arguments."""
            row = ROWS[name]
            with every_case() as case:
                for name_of_dtype, dtype in supported.items():
                    for level, every, tracked in extent.values(row, dtype) if fits(row, dtype) else ():
                        layouts = every if extent.thorough(self.device, row) else every[:1]
                        with case(f"{name_of_dtype}, {level}"):
                            for track, (k, example) in product(tracked, enumerate(row.examples)):
                                for layout in layouts or (LAYOUTS[k % len(LAYOUTS)],):
                                    check_values(self.device, level, row, example, dtype, layout, track)

        @pytest.mark.parametrize("name", [n for n in PROPERTIES if any(kinds_fit(n, d) for d in supported.values())])
        def test_properties(self, name: str) -> None:
            """An operation without a reference, such as random sampling, has its documented properties."""
            with every_case() as case:
                for dtype in supported.values():
                    if kinds_fit(name, dtype):
                        with case(dtype.name):
                            PROPERTIES[name][1](self.device, dtype)

        @pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.gradients])
        def test_derivatives(self, name: str) -> None:
            """Derivatives in reverse and in forward mode agree with central differences."""
            row = ROWS[name]
            with every_case() as case:
                for example, layout, order in extent.derivatives(self.device, row):
                    with case(f"{example}, order {order}"):
                        check_derivatives(self.device, row, example, layout, order, extent.brief or order == 2)

        @pytest.mark.parametrize("name", promoting())
        def test_promotion(self, name: str) -> None:
            """Operands of two dtypes are promoted to their common dtype."""
            plain = None if extent.thorough(self.device, ROWS[name]) else TYPICAL
            with every_case() as case:
                for level in LEVELS:
                    with case(level):
                        one_of = plain if level == "plain" else None if extent.mixed else TYPICAL
                        check_promotion(self.device, level, ROWS[name], supported, one_of)

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
    """Yield operation, dtype and level of every case of values.

    Decorators are tested with floats only, unless an operation makes floats of ints or bools.
    """
    for name, row in ROWS.items():
        for name_of_dtype, dtype in dtypes.items():
            if fits(row, dtype):
                yield from ((name, name_of_dtype, level) for level, _, _ in extent.values(row, dtype))


def _named(cases: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the operations that have cases, each once."""
    return list(dict.fromkeys(name for name, _, _ in cases))
