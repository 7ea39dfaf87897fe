"""``x.grad``: a method that takes the gradients, and says so where a program takes it for the gradient itself."""

from __future__ import annotations

import inspect
from typing import Any, NoReturn

from burnpy.backend.errors import KindError, MissingNameError, a

_HINT = "gradients are not stored in tensors: compute grads = loss.backward(), then read x.grad(grads)"


class GradMethod:
    """The method ``grad`` of one tensor. To call it is all that it can do."""

    __slots__ = ("_method",)

    def __init__(self, method: Any) -> None:
        self._method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the gradient of the tensor in the gradients that a backward pass has returned."""
        return self._method(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<the method x.grad; {_HINT}>"

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._method)

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingNameError(lambda: f"x.grad is a method and has no {name}; {_HINT}")

    def _refuse(self, *other: object) -> NoReturn:
        raise KindError(f"x.grad is a method, not a tensor; {_HINT}")

    def _reflected(self, operation: str, x: Any) -> NoReturn:
        raise KindError(f"{operation}() got {a(type(x).__name__)} and the method x.grad; {_HINT}")

    __hash__ = object.__hash__
    __bool__ = __len__ = __iter__ = __getitem__ = __array__ = __float__ = __neg__ = __abs__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _refuse
