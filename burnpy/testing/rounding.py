"""Random changes of values by the rounding error of a dtype, which show how well a function is conditioned."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import dtype_of, float64
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Rounding:
    """Random changes of all intermediate values by the relative error of a dtype, as rounding changes them."""

    dtype: str  #: the dtype to whose numbers constants are rounded
    relative: float  #: the relative change; 0 to change nothing
    seed: int = 0  #: 0 rounds values, others change them at random
    moved: float = 0.0  #: the relative change of constants
    generator: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Change a function's values as in its last call."""
        self.generator = np.random.default_rng(self.seed)

    def of(self, x: Tensor[Any], loose: float = 0.0) -> Tensor[Any]:
        """Return a value with an error, and derivatives with another one; or the nearest number of the dtype.

        A loose one has an error so many times as large, and relative to the largest element.
        """
        if not self.seed:
            nearest = x.detach().to_dtype(self.dtype).to_dtype("float64")
            return x + (nearest - x.detach()).where(nearest.isfinite(), 0.0)
        signs = max(loose, 1.0) * self.relative * self.generator.choice([-1.0, 1.0], (2, *x.shape))
        both, own = [Tensor.from_data(np.asarray(e, float64), device=beneath(x.device)) for e in signs]
        size = x.detach().abs().amax() if loose else x.detach()
        error = size * own
        return x * (1.0 + both) + error.where(error.isfinite(), 0.0)  # ∞ is exact


_ROUNDING: ContextVar[Rounding | None] = ContextVar("burnpy_differential_rounding", default=None)


@contextmanager
def rounding(errors: Rounding) -> Generator[None, None, None]:
    """Return a context manager in which `rounded` and the other functions have rounding errors."""
    token = _ROUNDING.set(errors)
    try:
        yield
    finally:
        _ROUNDING.reset(token)


def beneath(device: Any) -> Any:
    """Return the device beneath all levels of `burnpy.func`."""
    while device.level:
        device = device.inner
    return device


def restarted(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose every call has the same rounding errors, those of its arguments included."""

    def restarting(*xs: Any) -> Any:
        errors = _ROUNDING.get()
        if errors is None:
            return f(*xs)
        errors.restart()
        return f(*[rounded(x) for x in xs])

    return restarting


def saturated(x: Tensor[Any], y: Tensor[Any]) -> Tensor[Any]:
    """Return y, a saturated function of x, with an error in its slope that is relative to the largest slope, 1."""
    errors = _ROUNDING.get()
    if errors is None or not errors.relative or not math.prod(x.shape):
        return y
    signs = Tensor.from_data(errors.generator.choice([-1.0, 1.0], x.shape), dtype="float64", device=beneath(x.device))
    return y + (x - x.detach()).where(x.isfinite(), 0.0) * (signs * errors.relative)


def rounded(x: Any, loose: float = 0.0) -> Any:
    """Return a value with the rounding error of this context, or a larger one; ints and bools unchanged."""
    errors = _ROUNDING.get()
    if errors is None or not errors.relative or not isinstance(x, Tensor) or not math.prod(x.shape):
        return x
    return errors.of(x, loose)


def narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return constants as numbers of this context's dtype, or moved by an error."""
    errors = _ROUNDING.get()
    if errors is None:
        return array
    if errors.moved:
        return array * (1.0 + errors.moved * errors.generator.choice([-1.0, 1.0], array.shape))
    return array.astype(dtype_of(errors.dtype)).astype(float64)
