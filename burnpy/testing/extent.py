"""How much a conformance suite tries: levels and layouts of values, and orders of derivatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.autodiff.rule_table import RULES
from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import kind_of
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.checks import LEVELS

if TYPE_CHECKING:
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

    def thorough(self, device: Any, row: Row) -> bool:
        """Return whether an operation is tried with all that there is to try."""
        name = row.operation.name
        return self.derived or getattr(type(device), name) is not getattr(Backend, name)

    def values(self, row: Row, dtype: DType) -> Iterator[tuple[str, tuple[str, ...], tuple[bool, ...]]]:
        """Yield the levels at which to try values, each with the layouts, and whether floats are tracked."""
        yield LEVELS[0], self.layouts.get(dtype.name, self.layouts[OTHERS]), (False,)
        if kind_of(dtype) == "float" or row.operation.results == ("Float",):
            for level, tracked in self.decorated.get(dtype.name, self.decorated[OTHERS]):
                yield level, LAYOUTS[:1], tracked

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


FULL = Extent({OTHERS: LAYOUTS}, {OTHERS: tuple((level, BOTH) for level in LEVELS[1:])}, False, 1, 1, True, True)
"""Everything."""

_FAST = (("Autodiff", BOTH), ("Forward", BOTH))
_NONE: Tracked = ()
FAST = Extent(
    {OTHERS: LAYOUTS}, {"float16": _NONE, "bfloat16": _NONE, "float64": _NONE, OTHERS: _FAST}, True, 3, 0, True, True
)
"""The ``fast_mode`` of `burnpy.testing.conformance_suite`."""

_CALLED = (("Autodiff", (True,)),)
USUAL = Extent(
    dict.fromkeys(("float32", "float64", "int64", "uint8", "bool"), LAYOUTS) | {OTHERS: ()},
    {"float32": (*_FAST, ("Autodiff²", (True,))), "bfloat16": (*_CALLED, ("Forward", (True,))), OTHERS: _CALLED},
    True, 1, 3, True, False,
)  # fmt: skip
"""The extent of burnpy's own tests of NumPy; their long form computes everything."""

LIGHT = Extent({"float32": LAYOUTS[:2], OTHERS: ()}, {OTHERS: _CALLED}, True, 0, 0, False, False)
"""For backends that hand each operation to NumPy, in a few dtypes."""

DECORATED = Extent({OTHERS: ()}, {OTHERS: _CALLED}, True, 0, 0, False, False, 3)
"""For decorators, which hand every operation on in the same way."""
