"""Detection of NaN and infinity in primitives, with the operations of their backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import Bool, Float

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend


@dataclass(frozen=True, slots=True)
class NonFinite:
    """The NaN or infinite elements of a primitive."""

    what: str  #: "NaN" or "infinity"
    index: tuple[int, ...]  #: the index of the first
    count: int  #: the number of such elements

    def __str__(self) -> str:
        where = f" at index {self.index}" if self.index else ""
        return f"{self.what}{where}" + (f", the first of {self.count}" if self.count > 1 else "")


def is_float(x: Any) -> bool:
    """Return whether x is a float primitive."""
    return hasattr(x, "shape") and hasattr(x, "dtype") and kind_of(x.dtype) == "float"


def non_finite_in(b: Backend, x: Float, nan: bool, inf: bool) -> NonFinite | None:
    """Return the NaN elements of x if ``nan`` and there are any, else the infinite ones if ``inf``, else None.

    This synchronizes the device.
    """
    if nan and inf and not _any(b, b.discrete.bitwise_not(b.isfinite(x))):
        return None
    if nan and (nans := _first(b, b.isnan(x), "NaN")):
        return nans
    return _first(b, b.isinf(x), "infinity") if inf else None


def _any(b: Backend, bad: Bool) -> bool:
    d = b.discrete
    return bool(d.to_numpy(d.any(bad, tuple(range(len(bad.shape))), False)))


def _first(b: Backend, bad: Bool, what: str) -> NonFinite | None:
    if not _any(b, bad):
        return None
    places = b.discrete.to_numpy(b.discrete.nonzero(bad))
    return NonFinite(what, tuple(map(int, places[0])), len(places))
