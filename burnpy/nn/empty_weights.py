"""Models without initial values, which take neither time nor memory until weights are loaded into them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from burnpy.backend.errors import StateError
from burnpy.tensor.levels import beneath_levels

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Shape
    from burnpy.tensor.tensor_base import TensorBase

without_values: ContextVar[bool] = ContextVar("burnpy_without_values", default=False)
"""Whether `init_empty_weights` is active."""


class Unfilled:
    """The primitive of a parameter that has no value yet: any use of it but of its shape and dtype raises an error."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype = shape, dtype

    def __getattr__(self, name: str) -> NoReturn:
        raise self._error()

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise self._error()

    def __array_ufunc__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise self._error()

    def _error(self) -> StateError:
        return StateError(
            f"a parameter of shape {self.shape} has no value yet, as the model was made within init_empty_weights(); "
            "load weights into all of it, as with record.from_torch(model, path)"
        )


@contextmanager
def init_empty_weights() -> Generator[None, None, None]:
    """Return a context manager in which layers get parameters without values, for a model that is filled from a file.

    The parameters have shapes and dtypes alone. What a layer does not draw by an initializer, such as a bias of zeros,
    has its value.

    >>> from burnpy.nn import Linear
    >>> from burnpy.record import from_torch
    >>> with init_empty_weights():
    ...     model = Linear(2, 1, device=NumPy)
    >>> model = from_torch(model, {"weight": np.array([[1.0, 2.0]]), "bias": np.array([3.0])})
    >>> model.weight.value.tolist()
    [[1.0], [2.0]]
    """
    token = without_values.set(True)
    try:
        yield
    finally:
        without_values.reset(token)


def unfilled(shape: Shape, dtype: DType, device: Any) -> Any:
    """Return an untracked primitive of a device that has no value yet."""
    if device.differentiates:
        return device.lift(unfilled(shape, dtype, device.inner))
    return Unfilled(shape, dtype)


def is_filled(x: TensorBase[Any]) -> bool:
    """Return whether an untracked tensor has a value."""
    return type(beneath_levels(x._device, x._primitive)) is not Unfilled
