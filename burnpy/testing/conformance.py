"""The conformance suite: tests of every operation of a backend, in every dtype and under every decorator.

A third party's backend is tested in three lines of a test file::

    from burnpy.testing import conformance_suite
    from my_backend import MyBackend
    TestMyBackend = conformance_suite(MyBackend)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.autodiff.rules import RULES
from burnpy.backend.backend import operations
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import dtype_of, kind_of
from burnpy.backend.errors import DTypeError
from burnpy.testing.arguments import ALL_DTYPES, fits
from burnpy.testing.cases import PROPERTIES, ROWS
from burnpy.testing.cases.properties import kinds_fit
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.cases.tensors import NEGATIVE_DIMS, check_negative_dims
from burnpy.testing.checks import LEVELS, check_derivatives, check_values
from burnpy.testing.failures import every_case
from burnpy.testing.promotion import check_promotion, promoting

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
    derivatives along random directions of each argument, in float64. There is one test for an operation, which goes on
    after a case that fails, and names every dtype and level that failed.

    Args:
        backend: the backend, as a class, an alias or a device.
        dtypes: the names of the dtypes that the backend supports. It must refuse the others with a `DTypeError`.
        fast_mode: whether to check derivatives along random directions only, as in `burnpy.testing.gradcheck`, second
            derivatives of every third example where the operation has a rule of its own, and values under `Autodiff`
            and `Forward` in float32 only and under nested `Autodiff` not at all, in a third of the time. burnpy's own
            tests check its rules element by element, for all examples and in every dtype, on NumPy.

    Raises:
        ImportError: pytest is missing; the extra ``burnpy[test]`` installs it.
    """
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

        @pytest.mark.parametrize("name", _named(value_cases(supported, fast_mode)))
        def test_values(self, name: str) -> None:
            """An operation returns what the reference returns, and does not change its arguments."""
            row = ROWS[name]
            with every_case() as case:
                for _, dtype, level in value_cases(supported, fast_mode, [name]):
                    with case(f"{dtype}, {level}"):
                        for tracked in (False,) if level == "plain" else (False, True):
                            for layout in LAYOUTS if level == "plain" else LAYOUTS[:1]:
                                for example in row.examples:
                                    check_values(self.device, level, row, example, supported[dtype], layout, tracked)

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
                for k, (example, arguments) in enumerate(row.examples.items()):
                    for order in orders(name, k, fast_mode) if row.smooth(arguments) else ():
                        with case(f"{example}, order {order}"):
                            check_derivatives(self.device, row, example, LAYOUTS[k % 2], order, fast_mode)

        @pytest.mark.parametrize("name", promoting())
        def test_promotion(self, name: str) -> None:
            """Operands of two dtypes are promoted to their common dtype."""
            with every_case() as case:
                for level in LEVELS:
                    with case(level):
                        check_promotion(self.device, level, ROWS[name], supported)

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


def value_cases(
    dtypes: Mapping[str, DType], fast_mode: bool = False, names: Iterable[str] = ROWS
) -> Iterator[tuple[str, str, str]]:
    """Yield operation, dtype and level of every case of values, of all operations or of those named.

    Decorators are tested with floats only, in ``fast_mode`` with float32 only, unless an operation makes floats of ints
    or bools.
    """
    for name in names:
        row = ROWS[name]
        for name_of_dtype, dtype in dtypes.items():
            if fits(row, dtype):
                decorated = (
                    name_of_dtype == "float32" or not fast_mode
                    if kind_of(dtype) == "float"
                    else row.operation.results == ("Float",)
                )
                for level in LEVELS[: 3 if fast_mode else 4] if decorated else LEVELS[:1]:
                    yield name, name_of_dtype, level


def orders(name: str, position: int, fast_mode: bool = False) -> tuple[int, ...]:
    """Return the orders of derivatives to check of an operation, on the example at a position.

    In ``fast_mode`` second derivatives are checked where the rule is the operation's own, on every third example: a
    default is differentiated by the rules of the operations that it calls.
    """
    return (1, 2) if not fast_mode or (name in RULES and position % 3 == 0) else (1,)


def _named(cases: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the operations that have cases, each once."""
    return list(dict.fromkeys(name for name, _, _ in cases))
